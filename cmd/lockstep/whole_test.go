package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/internal/simtest"
)

// TestManyJobs: of 200,004 rollouts the first result is there, and the command ends after Ctrl-C,
// for as little of the processors' time as of few: 3 seconds and 1 at most, those of the rollouts
// that were begun included.
func TestManyJobs(t *testing.T) {
	lockstep, data := program(t), shortRoutes(t, 13)
	if err := os.Remove(filepath.Join(data, "g00012.csv")); err != nil { // which cannot be loaded
		t.Fatal(err)
	}
	var grid strings.Builder
	for i := range 16667 {
		fmt.Fprintf(&grid, "0.%05d,0.1,-0.05\n", i)
	}
	file := filepath.Join(t.TempDir(), "grid.txt")
	if err := os.WriteFile(file, []byte(grid.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, extra := range [][]string{nil, {"--out", filepath.Join(t.TempDir(), "run")}} {
		command := exec.CommandContext(
			t.Context(),
			lockstep,
			append([]string{"rollout", "--json", "--engine", "batched", "--profile", profile,
				"--data_path", data, "--pid-grid", file}, extra...)...)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		first, err := lines.ReadString('\n')
		if err != nil || !strings.Contains(first, `"total_cost"`) {
			t.Fatalf("the first line is %s, %v", first, err)
		}
		result := time.Since(begin)
		begin = time.Now()
		if err := command.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(lines)
		if err != nil {
			t.Fatal(err)
		}
		command.Wait() // its status is looked at below
		used := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
		t.Logf(
			"%v: %v of the processors for all; by the clock, also of what else the machine "+
				"does, %v to the first result and %v after Ctrl-C",
			extra, used, result, time.Since(begin),
		)
		if command.ProcessState.ExitCode() != exitInterrupted || used > 4*time.Second {
			t.Errorf(
				"%v: exit %d, %v of the processors, want 4s at most; %d bytes", extra,
				command.ProcessState.ExitCode(), used, len(rest),
			)
		}
	}
}

// TestBuilds: a folder of a run is of the program that computes, whatever name its version has. Two
// are built of sources that differ in a formula, and in nothing that version control knows of.
func TestBuilds(t *testing.T) {
	if !simtest.Whole(t) {
		t.Skip("it builds the command twice")
	}
	dir := t.TempDir()
	source, err := filepath.Abs(filepath.Join("..", "..", "task.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	built := func(name, factor string) string {
		const formula = "LatAccelCostMultiplier = 50.0"
		changed := strings.Replace(string(text), formula, "LatAccelCostMultiplier = "+factor, 1)
		if !strings.Contains(string(text), formula) {
			t.Fatalf("%s has no %s", source, formula)
		}
		file, overlay, path := filepath.Join(dir, name+".go"), filepath.Join(dir, name+".json"),
			filepath.Join(dir, name)
		list := fmt.Sprintf(`{"Replace":{%q:%q}}`, source, file)
		for path, text := range map[string]string{file: changed, overlay: list} {
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", path,
			".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return path
	}
	one, other := built("one", "50.0"), built("other", "51.0")
	data, out, parts := shortRoutes(t, 2), filepath.Join(dir, "run"), filepath.Join(dir, "parts")
	if err := os.Remove(filepath.Join(data, "g00001.csv")); err != nil { // which cannot be loaded
		t.Fatal(err)
	}
	run := func(program string, args ...string) string {
		t.Helper()
		text, _ := exec.Command(program, args...).CombinedOutput() // an error is in the text
		return secondsPattern.ReplaceAllString(string(text), "")
	}
	inputs := []string{
		"--json", "--no-cache", "--engine", "reference", "--profile", profile, "--data_path", data,
	}
	rollout := func(program string, extra ...string) string {
		t.Helper()
		return run(program, append(append([]string{"rollout"}, inputs...), extra...)...)
	}
	first, second := rollout(one), rollout(other)
	if version := run(one, "version"); version != run(other, "version") || first == second ||
		!strings.Contains(second, `"total_cost"`) {
		t.Fatalf("both say they are %s, and compute\n%s%s", version, first, second)
	}
	if got := rollout(one, "--out", out); got != first {
		t.Errorf("kept: %s, want %s", got, first)
	}
	if got := rollout(other, "--out", out); !strings.Contains(
		got, "is of another run: the engine's build is",
	) ||
		strings.Contains(got, "total_cost") {
		t.Errorf("the other goes on with a run of the one: %s", got)
	}
	run(one, append([]string{"shard", "plan", "--out", parts, "--shards", "1"}, inputs[2:]...)...)
	shard := []string{"shard", "run", "--out", parts, "--index", "0"}
	if got := run(other, shard...); !strings.Contains(
		got, "would compute something else than planned: the engine's build is",
	) {
		t.Errorf("the other computes a shard of the one: %s", got)
	}
	if got := run(one, shard...); strings.Contains(got, "lockstep: ") {
		t.Errorf("the one does not compute its own shard: %s", got)
	}
}
