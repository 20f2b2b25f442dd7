package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/simtest"
	"lockstep/reference"
	"lockstep/routefile"
)

// TestDebug: what the challenge's program prints of one route with --debug, and a word where
// nothing is shown.
func TestDebug(t *testing.T) {
	inputs := shortInputs(t)
	// Past the steps that cost, and of a target that is another at each.
	shortRoute(t, filepath.Join(inputs[3], "a.csv"), 512, func(text string) string {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			lines[i] = strings.Replace(line, ",0.5,", fmt.Sprintf(",0.%02d,", i*37%97), 1)
		}
		return strings.Join(lines, "\n")
	})
	one := []string{
		"rollout", "--model_path", inputs[1], "--data_path", filepath.Join(inputs[3], "a.csv"),
		"--engine", "reference", "--debug",
	}
	route, err := routefile.Loader{Profile: reference.HostProfile()}.Load(one[4])
	if err != nil {
		t.Fatal(err)
	}
	sim, err := reference.New(inputs[1], reference.HostProfile())
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, r := range sim.Simulate(
		t.Context(), []lockstep.Job{{Route: route, Policy: lockstep.DefaultPID()}},
		lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true},
	) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		for i := 29; i < route.Len(); i += 10 {
			fmt.Fprintf(
				&want, "Step %-5d: Current lataccel: %6.2f, Target lataccel: %6.2f\n", i+1,
				r.Trajectory.Lataccel[i], r.Trajectory.Target[i],
			)
		}
	}
	if n := strings.Count(want.String(), "\n"); n != 49 {
		t.Fatalf("%d lines", n)
	}
	status, stdout, stderr := lockstepRun(t.Context(), one...)
	if status != exitOK || !strings.HasPrefix(stdout, want.String()+"a  lataccel_cost: ") {
		t.Errorf("exit %d, %s\n%s\nwant\n%s", status, stderr, stdout, &want)
	}
	status, stdout, stderr = lockstepRun(t.Context(), append(one, "--json")...)
	if first := strings.SplitAfter(stdout, "\n")[0]; status != exitOK ||
		!json.Valid([]byte(first)) ||
		!strings.Contains(stderr, want.String()) {
		t.Errorf("exit %d, %s\n%s", status, stderr, stdout)
	}
	for args, says := range map[string]string{
		"--data_path " + inputs[3]: "--debug prints the steps of one rollout, and " +
			"these are 2: name one route and one controller",
		"--out " + t.TempDir():                "--debug goes without --out and --trace",
		"--trace " + t.TempDir() + "/a.trace": "--debug goes without --out and --trace",
	} {
		if _, stdout, stderr := lockstepRun(t.Context(),
			append(one, strings.Fields(args)...)...); strings.Contains(stdout, "Step ") ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: %s, want %s\n%s", args, stderr, says, stdout)
		}
	}
}

// TestOwn: the project's own network with a user's routes, as Python has it, and the other way.
func TestOwn(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	assets := t.TempDir() // as if the challenge's files were here
	t.Setenv("LOCKSTEP_ASSETS", assets)
	inputs := shortInputs(t)
	if err := os.Mkdir(filepath.Join(assets, "routes"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"tinyphysics.onnx": []byte("another network"),
		"routes/x.csv":     []byte("no route"),
	} {
		if err := os.WriteFile(filepath.Join(assets, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	mine, err := os.ReadFile(inputs[1])
	if err := errors.Join(err, simtest.Same("the network", mine, defaults.Model())); err != nil {
		t.Fatalf("these are not the project's own inputs: %v", err)
	}
	costs := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := lockstepRun(
			t.Context(),
			append(
				[]string{
					"rollout", "--engine", "reference", "--profile",
					"ort1.30-avx2-expU-sinfma-csv2", "--num_segs", "2",
				},
				args...)...)
		if status != exitOK || strings.Contains(stderr, "own network") {
			t.Fatalf("%q: exit %d, %s", args, status, stderr)
		}
		return stdout
	}
	want := costs(inputs...)
	for _, own := range [][]string{{"--model_path", "own"}, {"--own"}} {
		if got := costs(append(own, "--data_path", inputs[3])...); got != want ||
			!strings.Contains(got, "\nb  lataccel_cost") {
			t.Errorf("%q: %s, want %s", own, got, want)
		}
	}
	routes := costs("--model_path", inputs[1], "--data_path", "own")
	if got := costs("--own"); got != routes || !strings.HasPrefix(got, "g00000  ") {
		t.Errorf("--own: %s, want %s", got, routes)
	}
	status, _, stderr := lockstepRun(t.Context(), "rollout", "--own", "--model_path", inputs[1])
	if status != exitUsage || !strings.Contains(stderr, "--data_path own") {
		t.Errorf("--own with another network: exit %d, %s", status, stderr)
	}
}

// TestKindsHelp: rollout --help names every kind of policy and its gains, and so does the
// error of a controller that is none.
func TestKindsHelp(t *testing.T) {
	_, help, _ := lockstepRun(t.Context(), "rollout", "--help")
	_, _, stderr := lockstepRun(t.Context(), "rollout", "--own", "--controller", "mpc")
	for what, text := range map[string]string{"the help": help, "the error": stderr} {
		text = strings.Join(strings.Fields(text), "")
		for _, k := range lockstep.Kinds() {
			if name := strings.Join(append([]string{k.Name}, k.GainNames()...),
				"_"); !strings.Contains(text, name) {
				t.Errorf("%s does not name %s", what, name)
			}
		}
	}
}
