package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/defaults"
	"lockstep/parity/mutants"
)

// TestPlantedFault: a fault in an engine turns the command red, from its source to its
// exit status; and the doctor names the network that is built in.
func TestPlantedFault(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	root, err := mutants.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	faults, err := mutants.All()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for _, f := range faults {
		if f.Name != "batched-digitize-side" {
			continue
		}
		for _, e := range f.Edits {
			data, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil || strings.Count(string(data), e.Text) != 1 {
				t.Fatalf("%s: %v", e.File, err)
			}
			copied := filepath.Join(dir, filepath.Base(e.File))
			if err := os.WriteFile(copied,
				[]byte(strings.Replace(string(data), e.Text, e.Replacement,
					1)), 0o666); err != nil {
				t.Fatal(err)
			}
			replace[filepath.Join(root, e.File)] = copied
		}
	}
	network := strings.Replace(string(defaults.Model()), "lockstep", "lockstop", 1) // its producer
	replace[filepath.Join(root, "internal", "defaults", defaults.ModelName)] = filepath.Join(
		dir, defaults.ModelName,
	)
	if err := os.WriteFile(filepath.Join(dir, defaults.ModelName), []byte(network),
		0o666); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil || len(replace) == 0 {
		t.Fatalf("no fault to plant: %v", err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "lockstep")
	if err := os.WriteFile(list, overlay, 0o666); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(
		t.Context(), "go", "build", "-ldflags=-w", "-overlay", list, "-o", program,
		"./cmd/lockstep",
	)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(
		t.Context(),
		program,
		append(
			[]string{"compare", "reference", "batched", "--num_segs", "1"},
			shortInputs(t)...)...).Output()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != exitParity ||
		!strings.Contains(string(out), "stage tokens") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Setenv("XDG_CACHE_HOME", dir)
	out, _ = exec.CommandContext(t.Context(), program, "doctor").Output()
	sum := sha256.Sum256([]byte(network))
	if want := fmt.Sprintf("embedded, %x…", sum[:6]); !strings.Contains(string(out), want) {
		t.Errorf("the doctor does not say %q:\n%s", want, out)
	}
}
