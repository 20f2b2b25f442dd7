package hardware

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"lockstep"
	"lockstep/batched"
	"lockstep/gpu/kernels"
	"lockstep/gpu/module"
	"lockstep/internal/defaults"
	"lockstep/reference"
)

// TestEvidence checks what is committed, and says which of it is of the present
// kernels.
func TestEvidence(t *testing.T) {
	all, err := Read(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := module.HashSources(kernels.Sources)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range all {
		if e.Kernels == hash {
			t.Logf("%s is of these kernels", name)
		} else {
			t.Logf("%s is of other kernels (%.12s): run `make gpu-test` on %s again", name,
				e.Kernels, e.Device)
		}
	}
	if len(all) == 0 {
		t.Skip("the kernels have not been run on hardware: there is no evidence to check")
	}
}

func good() *Evidence {
	return &Evidence{
		Device:    "NVIDIA H200",
		Driver:    "CUDA 13.0, 580.1",
		Kernels:   strings.Repeat("0a", 32),
		Date:      "2026-11-21",
		Goldens:   []string{"g00002.pid"},
		Tests:     []TestOutcome{{Name: "TestGoldens", Result: Pass}},
		Verdict:   Pass,
		Challenge: strings.Repeat("b0", 32),
		Sanitizer: []TestOutcome{
			{Name: "memcheck", Result: Pass}, {Name: "racecheck", Result: Pass},
			{Name: "initcheck", Result: Pass}, {Name: "synccheck", Result: Pass},
		},
	}
}

// TestAnswer: engines give one answer to a challenge, and kernels whose hash is another have
// another.
func TestAnswer(t *testing.T) {
	network, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec, err := reference.New(network, lockstep.Profile{})
	if err != nil {
		t.Fatal(err)
	}
	fast, err := batched.New(batched.Config{ModelPath: network})
	if err != nil {
		t.Fatal(err)
	}
	hash := strings.Repeat("0a", 32)
	answers := map[string]string{}
	for _, c := range []struct {
		name, kernels string
		sim           lockstep.Simulator
	}{{"reference", hash, spec}, {"batched", hash, fast}, {"other kernels", "1" + hash[1:], fast}} {
		if answers[c.name], err = Answer(t.Context(), c.sim, c.kernels); err != nil {
			t.Fatal(err)
		}
	}
	// Of which rollouts the challenge is must not change: what is recorded has answered it.
	const want = "6a9f2384807120cff5597dd717fabaa0f8fa3e0082bbf603cee92dc231143fce"
	if answers["reference"] != want || answers["batched"] != want ||
		answers["other kernels"] == want {
		t.Errorf("answers %v", answers)
	}
}

// TestRefused gives Check what is no evidence; that of a stand-in first of all.
func TestRefused(t *testing.T) {
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Evidence){
		"device stand-in is not a GPU": func(e *Evidence) { e.Device = "stand-in" },
		"device emulated is not a GPU": func(e *Evidence) { e.Device = "emulated" },
		"no device":                    func(e *Evidence) { e.Device = "" },
		"is not a hash":                func(e *Evidence) { e.Kernels = "main" },
		`challenge "yes" is not`:       func(e *Evidence) { e.Challenge = "yes" },
		"verdict":                      func(e *Evidence) { e.Verdict = Fail },
		"no golden":                    func(e *Evidence) { e.Goldens = nil },
		"no test":                      func(e *Evidence) { e.Tests = nil },
		"TestX failed": func(e *Evidence) {
			e.Tests = append(e.Tests, TestOutcome{Name: "TestX", Result: Fail})
		},
		"memcheck failed": func(e *Evidence) { e.Sanitizer[0].Result = Fail },
		"racecheck was not run": func(e *Evidence) {
			e.Sanitizer[1] = TestOutcome{Name: "racecheck", Result: NotRun}
		},
		"initcheck was not run": func(e *Evidence) { e.Sanitizer = e.Sanitizer[:2] },
		`verdict "incomplete"`:  func(e *Evidence) { e.Verdict = Incomplete },
		"date":                  func(e *Evidence) { e.Date = "today" },
	} {
		e := good()
		spoil(e)
		if err := e.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestJudge gives verdicts on what is there and what is not.
func TestJudge(t *testing.T) {
	for want, spoil := range map[string]func(*Evidence){
		"pass":       func(*Evidence) {},
		"pass ":      func(e *Evidence) { e.Others = []TestOutcome{{"profile", NotRun, "no ncu"}} },
		"fail":       func(e *Evidence) { e.Sanitizer[1].Result = Fail },
		"fail ":      func(e *Evidence) { e.Others = []TestOutcome{{"bench", Fail, "other bits"}} },
		"incomplete": func(e *Evidence) { e.Sanitizer = e.Sanitizer[1:] },
		"incomplete ": func(e *Evidence) {
			e.Tests = append(e.Tests, TestOutcome{"TestLate", NotRun, "deadline"})
		},
		"rehearsal":     func(e *Evidence) { e.Device = "stand-in" },
		"incomplete  ":  func(e *Evidence) { e.Goldens = nil },
		"incomplete   ": func(e *Evidence) { e.Challenge = "" },
	} {
		e := good()
		e.Verdict = ""
		spoil(e)
		if e.Judge(); e.Verdict != strings.TrimSpace(want) {
			t.Errorf("verdict %q, want %q of %+v", e.Verdict, want, e)
		}
	}
	// Whether the tests are done is no question of the rest.
	for what, spoil := range map[string]func(*Evidence){
		"":                   func(e *Evidence) { e.Sanitizer, e.Challenge = nil, "" },
		"no tests":           func(e *Evidence) { e.Tests = nil },
		"no goldens":         func(e *Evidence) { e.Goldens = nil },
		"a test that failed": func(e *Evidence) { e.Tests[0].Result = Fail },
		"a test was not run": func(e *Evidence) { e.Tests[0].Result = NotRun },
	} {
		e := good()
		if spoil(e); e.Tested() != (what == "") {
			t.Errorf("%s: tested is %v", what, e.Tested())
		}
	}
	e := good()
	Note(&e.Tests, TestOutcome{"TestGoldens", Fail, ""})
	if len(e.Tests) != 1 || e.Tests[0].Result != Fail {
		t.Errorf("a later outcome is not in the place of the earlier: %v", e.Tests)
	}
	e.Measure(Figure{Routes: 5, Kernel: 2})
	e.Measure(Figure{Routes: 5, Kernel: 1})
	e.Measure(Figure{Routes: 6, Kernel: 1})
	if len(e.Figures) != 2 || e.Figures[0].Kernel != 1 {
		t.Errorf("figures %+v", e.Figures)
	}
}

func TestWriteRead(t *testing.T) {
	dir := t.TempDir()
	e := good()
	file, err := e.Write(dir)
	if err != nil || !strings.HasSuffix(file, "NVIDIA-H200.json") {
		t.Fatalf("%s, %v", file, err)
	}
	all, err := Read(os.DirFS(dir))
	if err != nil || len(all) != 1 || all["NVIDIA-H200.json"].Device != e.Device {
		t.Errorf("%v, %v", all, err)
	}
	e.Device = "stand-in"
	if _, err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(os.DirFS(dir)); err == nil ||
		!strings.Contains(err.Error(), "stand-in.json: device stand-in is not a GPU") {
		t.Errorf("evidence of the stand-in is read: %v", err)
	}
	for name, data := range map[string]string{"other.json": `{"device":"x"}`, "damaged.json": "{"} {
		if _, err := Read(fstest.MapFS{name: {Data: []byte(data)}}); err == nil ||
			!strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
