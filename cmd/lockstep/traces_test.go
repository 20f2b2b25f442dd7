package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
)

// fallen is a step of something that falls.
type fallen struct {
	force    float32
	position []float64
}

var falls = schema.NewView(
	schema.Schema{
		Name: "fall",
		Key:  []string{"start", "planet"},
		Outcome: schema.Outcome{
			Name:     "result",
			Elements: []string{"depth"},
			From:     []string{"position"},
		},
	},
	schema.Number(
		schema.Stage{Name: "force", Soft: true, From: []schema.Input{schema.Last(1, "position")}},
		func(f *fallen) (float32, bool) { return f.force, true },
	),
	schema.Array(
		schema.Stage{
			Name:     "position",
			Shape:    []int{2},
			From:     []schema.Input{schema.Same("force"), schema.Last(1, "position")},
			Elements: []schema.Element{{Name: "x", Count: 1}, {Name: "y", Count: 1}},
		},
		func(f *fallen) []float64 { return f.position },
	),
)

// fall writes a trace of two falls. In the second of them the force is another at a step, and
// what follows from it.
func fall(
	t *testing.T, file string, s schema.Schema, h trace.Header, wrongAt int, words ...string,
) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	h.Schema = s
	err := trace.WriteFile(path, h, ^schema.StageSet(0), func(w *trace.Writer) error {
		for i, word := range words {
			r, into, height := w.Begin(
				trace.Rollout{Key: []string{word, "earth"}},
			), falls.NewStep(), 100.0
			for k := range 9 {
				f := fallen{force: -9.81}
				if i == 1 && k == wrongAt {
					f.force = -9.8
				}
				height += float64(f.force)
				f.position = []float64{0.5, height}
				falls.Expose(k, &f, into)
				r.Observe(into)
			}
			r.End([]float64{height}, nil)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCompareAnyTraces: two traces of any simulator are judged by what they say of themselves.
func TestCompareAnyTraces(t *testing.T) {
	renamed := falls.Schema
	renamed.Name = "rise"
	a := fall(t, "a.trace", falls.Schema, trace.Header{}, -1, "low", "high")
	same := fall(t, "same.trace", falls.Schema, trace.Header{}, -1, "low", "high")
	wrong := fall(t, "wrong.trace", falls.Schema, trace.Header{}, 4, "low", "high")
	other := fall(t, "other.trace", renamed, trace.Header{}, -1, "low", "high")
	fewer := fall(t, "fewer.trace", falls.Schema, trace.Header{}, -1, "low")
	hostile := fall(
		t, "hostile.trace", falls.Schema, trace.Header{Profile: "\x1b[31m"}, -1, "low",
		"\x1b[2Jhigh",
	)
	ours := filepath.Join(t.TempDir(), "ours.trace")
	record(t, shortInputs(t), ours, "reference")
	page := filepath.Join(t.TempDir(), "report.html")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{a, same}, exitOK, "2 of 2 rollouts equal, 18 steps\n"},
		{[]string{a, wrong}, exitParity, "start high, planet earth, step 4, stage force, index " +
			"0: want -9.81 (c11cf5c3), got -9.8 (c11ccccd)"},
		{[]string{a, wrong, "--report", page}, exitParity, "1 of 2 rollouts equal, 18 steps"},
		{[]string{a, wrong, "--inexact"}, exitParity, "stage position, index 1 (y): "},
		{[]string{a, wrong, "--json"}, exitParity, `"stage":"force"`},
		{[]string{a, fewer}, exitParity, "no such rollout"},
		{[]string{a, other}, exitUsage, other + ": fall and rise are other simulators"},
		{[]string{a, ours}, exitUsage, ours + ": fall and tinyphysics are other simulators"},
		{[]string{ours, a}, exitUsage, a + ": tinyphysics and fall are other simulators"},
		{[]string{a, "reference"}, exitUsage,
			a + ` is of the simulator "fall", and engines compute tinyphysics: compare it with ` +
				`another trace`},
		{[]string{"reference", a}, exitUsage,
			a + ` is of the simulator "fall", and engines compute tinyphysics: compare it with ` +
				`another trace`},
		{[]string{hostile, a}, exitParity, `start \x1b[2Jhigh, planet earth`},
	} {
		status, stdout, stderr := lockstepRun(
			t.Context(),
			append([]string{"compare"}, c.args...)...)
		if status != c.status || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf(
				"%s: exit %d, want %d and %q\n%s%s", c.args, status, c.status, c.want, stdout,
				stderr,
			)
		}
		if strings.Contains(stdout+stderr, "\x1b") {
			t.Errorf("%s: what a terminal would obey: %q", c.args, stdout+stderr)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"force", "c11ccccd", "high"} {
		if !strings.Contains(string(html), text) {
			t.Errorf("the report has no %q", text)
		}
	}
}

// TestStopped: an engine stops where costs end if the trace beside it does, and takes no other
// shortcut that a trace names.
func TestStopped(t *testing.T) {
	for _, taken := range []lockstep.Shortcuts{
		0, lockstep.AllSteps, lockstep.SkipWarmup, lockstep.StopAtCostEnd, lockstep.CostOnly,
	} {
		want := lockstep.AllSteps
		if taken == lockstep.StopAtCostEnd || taken == lockstep.CostOnly {
			want = lockstep.AllSteps | lockstep.StopAtCostEnd
		}
		if got, err := stopped(tinyphysics.Words(taken)); err != nil || got != want {
			t.Errorf("beside %q: %b, %v; want %b", tinyphysics.Words(taken), got, err, want)
		}
	}
	if _, err := stopped([]string{"all"}); err == nil {
		t.Error("a shortcut that nobody knows is taken")
	}
}

// TestOpenTrace: a trace may have any name; of one that is not there, and might be meant for an
// engine, the engines are named.
func TestOpenTrace(t *testing.T) {
	path := fall(t, "falls", falls.Schema, trace.Header{}, -1, "low")
	t.Chdir(filepath.Dir(path))
	for _, name := range []string{"falls", "./falls", path} {
		f, err := openTrace(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.Close()
	}
	for name, want := range map[string]bool{"warp": true, "./warp": false, "warp.trace": false} {
		_, err := openTrace(name)
		if text := fmt.Sprint(err); !strings.Contains(text, "no such file") ||
			strings.Contains(text, "or an engine: reference, ") != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNamedPolicy: a trace's controller is the one that was given by that name, if any was.
func TestNamedPolicy(t *testing.T) {
	given := []lockstep.Policy{lockstep.Custom{Name: "mpc"}, lockstep.Custom{Name: "other"}}
	for _, want := range given {
		got, err := namedPolicy(want.String(), given)
		if err != nil || got.(lockstep.Custom).Name != want.String() {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	if p, err := namedPolicy("pid_1_0_0", given); err != nil || p != lockstep.Policy(
		lockstep.PID{P: 1}) {
		t.Errorf("%v, %v", p, err)
	}
}
