package parity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/engines"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/reference"
)

// regressions are cases that failed once, or that are at an edge where something could.
const regressions = "testdata/regressions"

// TestRegressions replays every case that is kept: the reference must compute what it
// computed when the case was saved, and every engine what the reference computes.
func TestRegressions(t *testing.T) {
	files, err := parity.CaseFiles(regressions)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Errorf("%d cases in %s, want 5 or more", len(files), regressions)
	}
	for _, file := range files {
		c, err := tinyphysics.LoadCase(file)
		if err != nil {
			t.Fatal(err)
		}
		c.Path = filepath.Join("parity", c.Path) // as seen from the repository's root
		t.Run(strings.TrimSuffix(filepath.Base(c.Path), ".json"), func(t *testing.T) {
			model := caseModel(t, c)
			ref, err := reference.New(model, c.Profile)
			if err != nil {
				t.Fatal(err)
			}
			results, err := c.Run(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Results) == 0 {
				t.Error("the case has no results")
			}
			if _, err := c.Check(results); err != nil {
				t.Errorf("reference: %v\nreplay: %s", err, c.Replay())
			}
			for _, e := range engines.Others() {
				t.Run(e.Name, func(t *testing.T) {
					sim := e.ForTest(
						t,
						engines.Config{
							Model:    model,
							Profile:  c.Profile,
							Chunk:    c.Chunk,
							Workers:  c.Workers,
							Shuffled: true,
						},
					)
					want := ref
					if sim.Profile() != c.Profile {
						// A library of this machine does some of the engine's arithmetic, and has
						// another profile than the case: the reference then computes with that one.
						if want, err = reference.New(model, sim.Profile()); err != nil {
							t.Fatal(err)
						}
					}
					report, err := c.Compare(t.Context(), want, sim)
					if err != nil {
						t.Fatal(err)
					}
					if err := report.Err(); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// caseModel is the path of a case's model.
func caseModel(t *testing.T, c *tinyphysics.DriveCase) string {
	t.Helper()
	path := ""
	switch c.Model {
	case tinyphysics.DefaultModel:
		path = defaultModel(t)
	case tinyphysics.OfficialModel:
		path = assetstest.Model(t)
	default:
		t.Fatalf("model %q is not one that tests have", c.Model)
	}
	if got, err := fileio.SHA256(path); err != nil || got != c.ModelSHA256 {
		t.Fatalf(
			"the %s model has SHA-256 %s, the case was made with %s (%v)", c.Model, got,
			c.ModelSHA256, err,
		)
	}
	return path
}

func defaultModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), defaults.ModelName)
	if err := os.WriteFile(path, defaults.Model(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
