package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
	"lockstep/internal/want"
)

// edited is an input of a run that is edited while the run is under way.
type edited struct {
	name    string
	file    string
	before  []byte
	after   []byte
	args    []string
	sampled bool // in `make test`, too
}

// steered is a controller of which each process steers one route, so that processes start for as
// long as the run takes, and all of them read what they are made of.
const steered = `import os
import gain
made = 0
FACTOR = float(open(os.path.join(os.path.dirname(__file__), 'factor.txt')).read())


class Controller:
    def __init__(self):
        global made
        if made == 1: os._exit(0)
        made += 1

    def update(self, target_lataccel, current_lataccel, state, future_plan):
        return 0.1 * gain.GAIN * FACTOR
`

// edits are the inputs of runs: each has a folder of its own.
func edits(t *testing.T) (all []*edited) {
	t.Helper()
	inputs := func() (dir, data, model string) {
		dir, data = t.TempDir(), shortRoutes(t, 4)
		model, _, err := defaults.Write(dir)
		if err == nil {
			err = os.Remove(filepath.Join(data, "g00003.csv")) // which cannot be loaded
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir, data, model
	}
	common := func(data, model string, more ...string) []string {
		return append(
			[]string{
				"rollout", "--json", "--no-cache", "--engine", "reference", "--profile", profile,
				"--workers", "1", "--data_path", data, "--model_path", model,
			},
			more...)
	}
	add := func(e *edited) {
		text, err := os.ReadFile(e.file)
		if err != nil {
			t.Fatal(err)
		}
		e.before = text
		all = append(all, e)
	}
	_, data, model := inputs()
	network, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(network)
	for i := range 4096 { // of its weights
		other[len(other)/2+i] ^= 1
	}
	add(&edited{
		name:    "network",
		file:    model,
		after:   other,
		args:    common(data, model, "--pid", "0.1,0,0", "--pid", "0.2,0,0"),
		sampled: true,
	})

	_, data, model = inputs()
	route, err := os.ReadFile(filepath.Join(data, "g00001.csv"))
	if err != nil {
		t.Fatal(err)
	}
	add(&edited{
		name:    "route",
		file:    filepath.Join(data, "g00000.csv"),
		after:   route,
		args:    common(data, model, "--pid", "0.1,0,0", "--pid", "0.2,0,0"),
		sampled: true,
	})

	if _, err := want.Python.Find(); err != nil {
		t.Logf("source, data file and imported module are not edited: %v", want.Python.Lacks(err))
		return all
	}
	for name, c := range map[string]struct{ file, after string }{
		"source":          {"c.py", strings.Replace(steered, "0.1", "0.7", 1)},
		"data file":       {"factor.txt", "7"},
		"imported module": {"gain.py", "GAIN = 7\n"},
	} {
		dir, data, model := inputs()
		for file, text := range map[string]string{
			"c.py":       steered,
			"factor.txt": "1",
			"gain.py":    "GAIN = 1\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		add(&edited{
			name:  name,
			file:  filepath.Join(dir, c.file),
			after: []byte(c.after),
			args:  common(data, model, "--controller", filepath.Join(dir, "c.py")),
		})
	}
	return all
}

// TestEdits edits each input of a run at random moments of it. The run is then of what was there
// before or of what came, whole, or it ends with an error that names what it lost; and its folder
// goes on with this one and refuses the other. LOCKSTEP_EDITS is at how many moments.
func TestEdits(t *testing.T) {
	t.Parallel()
	moments, whole := numberFrom(t, "LOCKSTEP_EDITS", 1), os.Getenv("LOCKSTEP_EDITS") != ""
	lockstep := program(t)
	random := rand.New(rand.NewPCG(13, 13))
	for _, e := range edits(t) {
		if !whole && !e.sampled {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			put(t, e.file, e.after)
			_, after, _ := e.run(t, lockstep, 0)
			put(t, e.file, e.before)
			took, before, _ := e.run(t, lockstep, 0)
			if n := strings.Count(before, `"total_cost"`); n < 3 || before == after {
				t.Fatalf("undisturbed:\n%s, edited:\n%s", before, after)
			}
			figures := map[string]int{}
			for range moments {
				moment := time.Duration(random.Float64() * float64(took))
				figures[e.moment(t, lockstep, moment, before, after)]++
			}
			t.Logf("%s: edited at %d moments: %v", e.name, moments, figures)
		})
	}
}

// moment has a run whose input is edited at a moment, and says what came of it.
func (e *edited) moment(
	t *testing.T, lockstep string, moment time.Duration, before, after string,
) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	_, printed, stderr := e.run(t, lockstep, moment, "--out", out)
	outcome := "an error that says what is lost, or why nothing runs"
	switch {
	case printed == before:
		outcome = "all of what was there before"
	case printed == after:
		outcome = "all of what came"
	case !strings.Contains(stderr, "lockstep: ") || !within(routes(printed), before) &&
		!within(routes(printed), after):
		t.Errorf(
			"edited after %v: it prints\n%s%swant one of\n%s%s", moment, printed, stderr, before,
			after,
		)
	}
	_, edited, refusal := e.run(t, lockstep, 0, "--out", out)
	put(t, e.file, e.before)
	_, restored, said := e.run(t, lockstep, 0, "--out", out)
	if (edited == after) == (restored == before) || edited != after && edited != "" ||
		restored != before && restored != "" {
		t.Errorf(
			"edited after %v, of the edited one it goes on with\n%s%sof the first "+
				"with\n%s%swant one of\n%s%s",
			moment, edited, refusal, restored, said, after, before,
		)
	}
	if refusal += said; !strings.Contains(refusal, "is of another run: ") {
		t.Errorf("edited after %v, the other one is not refused: %s", moment, refusal)
	}
	return outcome
}

// routes are the lines of routes that have a result.
func routes(printed string) (lines string) {
	for line := range strings.Lines(printed) {
		if strings.Contains(line, `"total_cost"`) && strings.HasPrefix(line, `{"route"`) {
			lines += line
		}
	}
	return lines
}

// run runs the command, and edits the input after some time, if it is not 0.
func (e *edited) run(
	t *testing.T, lockstep string, moment time.Duration, extra ...string,
) (took time.Duration, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), lockstep, append(e.args, extra...)...)
	command.Stdout, command.Stderr = &out, &errs
	begin := time.Now()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if moment > 0 {
		time.Sleep(moment)
		put(t, e.file, e.after)
	}
	command.Wait() // its status is told by what it says
	return time.Since(begin), secondsPattern.ReplaceAllString(out.String(), ""), errs.String()
}

// put puts a file in the place of another, whole.
func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := fileio.WriteFile(path, text); err != nil {
		t.Fatal(err)
	}
}
