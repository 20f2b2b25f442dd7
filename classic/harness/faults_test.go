package harness_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/want"
)

// A fault is a small change at one place: testdata/faults.json has them.
type fault struct {
	Name, What, File, Old, New string
	Stage                      string // that is at fault
}

// sides are what the probe compares where that file is wrong, the faulty one second.
func (f *fault) sides() (sides [2]string) {
	switch folder, _, _ := strings.Cut(f.File, "/"); folder {
	case "reference":
		return [2]string{"batched", "reference"}
	case "gpu":
		return [2]string{"reference", "emulated"}
	}
	return [2]string{"reference", "batched"}
}

// TestFaults plants faults and reads what the harness says: a few of them, or with
// LOCKSTEP_CLASSIC_FAULTS=all every one, or those whose names begin with another word.
func TestFaults(t *testing.T) {
	data, err := os.ReadFile("testdata/faults.json")
	if err != nil {
		t.Fatal(err)
	}
	var faults []fault
	if err := json.Unmarshal(data, &faults); err != nil {
		t.Fatal(err)
	}
	if len(faults) < 25 {
		t.Fatalf("%d faults", len(faults))
	}
	sample := []string{"reference-pow-square", "batched-argmax"}
	caught, named := 0, 0
	for _, f := range faults {
		f.source(t)
		which := os.Getenv("LOCKSTEP_CLASSIC_FAULTS")
		if asked := which == "all" || which != "" && strings.HasPrefix(f.Name, which); !asked && !slices.Contains(sample, f.Name) {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			if strings.HasPrefix(f.Name, "kernels-") {
				want.Compiler.Need(t)
			}
			stages := plant(t, f)
			if len(stages) == 0 {
				t.Fatalf("%s nothing was noticed", f.What)
			}
			caught++
			if stages[0] != f.Stage {
				t.Fatalf("%s the stages at fault are %v, want %s", f.What, stages, f.Stage)
			}
			named++
		})
	}
	t.Logf("%d faults caught, %d of them with the right stage", caught, named)
}

// source is the file that the fault is planted in, where it has one place.
func (f *fault) source(t *testing.T) (path, text string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../..", filepath.FromSlash(f.File)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), f.Old); n != 1 {
		t.Fatalf("%s: %s has %d places to plant it, want 1", f.Name, f.File, n)
	}
	return path, string(data)
}

// plant builds the probe with the fault and returns the stages that it names.
func plant(t *testing.T, f fault) []string {
	path, source := f.source(t)
	folder := t.TempDir()
	wrong, overlay, probe := filepath.Join(folder, "wrong"+filepath.Ext(path)), filepath.Join(folder, "overlay.json"), filepath.Join(folder, "probe")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: wrong}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(wrong, []byte(strings.Replace(source, f.Old, f.New, 1)), 0o600), os.WriteFile(overlay, text, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", probe, "./probe").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sides := f.sides()
	out, err := exec.Command(probe, "-want", sides[0], "-got", sides[1]).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("%v\n%s", err, out)
	}
	_, stages, _ := strings.Cut(strings.TrimSpace(string(out)), ":")
	return strings.Fields(stages)
}
