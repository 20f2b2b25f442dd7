package hardware

import (
	"context"
	"iter"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"lockstep"
	"lockstep/batched"
	"lockstep/gpu/internal/kernels"
	"lockstep/gpu/internal/module"
	"lockstep/internal/defaults"
	"lockstep/internal/kernelhash"
	"lockstep/internal/simtest"
	"lockstep/reference"
)

// TestEvidence checks what is committed, and says which of it is of the present
// kernels.
func TestEvidence(t *testing.T) {
	all, err := Read(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := kernelhash.Sources(kernels.Sources)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range all {
		if e.Kernels == hash && e.Module == module.Hash() {
			t.Logf("%s is of these kernels", name)
		} else {
			t.Logf("%s is of other kernels (%.12s): run `make gpu-first` on %s again", name,
				e.Kernels, e.Device)
		}
	}
	if len(all) == 0 {
		t.Skip("the kernels have not been run on hardware: there is no evidence to check")
	}
}

// TestRead gives Read what is no evidence, each spoilt in one place; that of a stand-in first of
// all.
func TestRead(t *testing.T) {
	attr := func(key, value string) string {
		return `{"Action":"attr","Test":"TestDevice","Key":"` + key + `","Value":"` + value + `"}`
	}
	pass := func(test string) string { return `{"Action":"pass","Test":"` + test + `"}` }
	const end = `{"Action":"pass","Elapsed":1.5}`
	good := map[string]string{
		"cuda": pass("TestMemory") + "\n" + end,
		"gpu": strings.Join([]string{
			attr("device", "NVIDIA H200"), attr("driver", "CUDA 13.0, 580.1"),
			attr("kernels", strings.Repeat("0a", 32)), attr("module", "c1"),
			attr("challenge", strings.Repeat("b0", 32)),
			`{"Action":"skip","Test":"TestStandin"}`,
			pass("TestGoldens/p/blocks_of_6/g.pid"), pass("TestGoldens/p/blocks_of_6/g.zero"),
			pass("TestGoldens/p/blocks_of_6"), pass("TestGoldens/q/blocks_of_4/g.pid"),
			pass("TestChallenge"), end,
		}, "\n"),
		"bench": end,
	}
	for _, tool := range []string{"memcheck", "racecheck", "initcheck", "synccheck"} {
		good[tool] = pass("TestShort") + "\n" + end
	}
	read := func(steps map[string]string) (map[string]*Evidence, error) {
		folder := fstest.MapFS{}
		for step, events := range steps {
			folder["H200/"+step+".json"] = &fstest.MapFile{Data: []byte(events + "\n")}
		}
		return Read(folder)
	}
	all, err := read(good)
	want := Evidence{
		"NVIDIA H200", "CUDA 13.0, 580.1", strings.Repeat("0a", 32), "c1", strings.Repeat("b0", 32),
		3,
	}
	if err != nil || len(all) != 1 || *all["H200"] != want {
		t.Fatalf("%+v, %v; want %+v", all["H200"], err, want)
	}
	// Each folder is judged, wherever it stands.
	for _, other := range []string{"A100", "L40"} {
		folder := fstest.MapFS{}
		for step, events := range good {
			for _, gpu := range []string{"H200", other} {
				name := gpu + "/" + step + ".json"
				folder[name] = &fstest.MapFile{Data: []byte(events + "\n")}
			}
		}
		if all, err := Read(folder); err != nil || len(all) != 2 || *all[other] != want {
			t.Errorf("%d folders, %+v, %v", len(all), all[other], err)
		}
		delete(folder, other+"/initcheck.json")
		_, err := Read(folder)
		simtest.Refused(t, other, err, other+"/initcheck.json: it is not there")
	}
	for step := range proofs {
		steps := maps.Clone(good)
		delete(steps, step)
		_, err := read(steps)
		simtest.Refused(t, step, err, step+".json: it is not there")
	}
	for want, c := range map[string]struct{ step, old, new string }{
		"device stand-in is not a GPU":             {"gpu", "NVIDIA H200", "stand-in"},
		"device emulated is not a GPU":             {"gpu", "NVIDIA H200", "emulated"},
		"device PTX is not a GPU":                  {"gpu", "NVIDIA H200", "PTX"},
		"device Sass is not a GPU":                 {"gpu", "NVIDIA H200", "Sass"},
		"memcheck.json: TestShort did not pass":    {"memcheck", `"pass","T`, `"skip","T`},
		"gpu.json:4: bufio":                        {"gpu", "c1", strings.Repeat("c", 1<<17)},
		"it does not say the device":               {"gpu", `"device"`, `"devices"`},
		"it does not say the driver":               {"gpu", `"driver"`, `"drivers"`},
		"it does not say the kernels":              {"gpu", `"kernels"`, `"kernel"`},
		"it does not say the module":               {"gpu", `"module"`, `"modules"`},
		"it does not say the challenge":            {"gpu", `"challenge"`, `"answer"`},
		"no recording was reproduced":              {"gpu", "TestGoldens/", "TestOther/"},
		"gpu.json:6: TestStandin failed":           {"gpu", `"skip"`, `"fail"`},
		"gpu.json: it did not come to its end":     {"gpu", "\n" + end, ""},
		"gpu.json: TestChallenge did not pass":     {"gpu", "TestChallenge", "TestX"},
		"cuda.json: TestMemory did not pass":       {"cuda", pass("TestMemory"), ""},
		"bench.json:1: the program failed":         {"bench", "pass", "fail"},
		"racecheck.json: TestShort did not pass":   {"racecheck", pass("TestShort") + "\n", ""},
		"memcheck.json:2: the program failed":      {"memcheck", `"pass","E`, `"fail","E`},
		"initcheck.json: it did not come":          {"initcheck", "\n" + end, ""},
		"synccheck.json:2: not an event":           {"synccheck", end, end[:9]},
		"memcheck.json: it is not there":           {"memcheck", good["memcheck"], "-"},
		"H200/cuda.json: it is not there: run `ma": {"cuda", good["cuda"], "-"},
	} {
		steps := maps.Clone(good)
		if steps[c.step] = strings.ReplaceAll(good[c.step], c.old, c.new); c.new == "-" {
			delete(steps, c.step)
		} else if c.new == "" {
			steps[c.step] = strings.TrimLeft(steps[c.step], "\n")
		}
		if _, err := read(steps); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// silent is a simulator that ends with its context, without a word.
type silent struct{ lockstep.Simulator }

func (silent) Simulate(
	context.Context, []lockstep.Job, lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(func(int, lockstep.Result) bool) {}
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
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, sim := range []lockstep.Simulator{spec, fast, silent{spec}} {
		if got, err := Answer(ended, sim, hash); err == nil {
			t.Errorf("answer %s, though nobody waited for the rollouts", got)
		}
	}
}
