package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"lockstep/classic"
	"lockstep/internal/fileio"
	"lockstep/internal/npz"
	"lockstep/internal/simtest"
)

// plan is of a run of three environments.
func plan() Plan {
	return Plan{
		Environment: "CartPole-v1", Options: map[string]string{"max_episode_steps": "9"}, Num: 3,
		Autoreset: "NextStep", Seed: 1<<40 + 1, Steps: 40, Program: "abc",
	}
}

// TestRun: a run's folder is made, kept by one process at a time, and found where it was left.
func TestRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "run")
	begin := time.Now()
	r, err := OpenRun(dir, plan())
	if err != nil {
		t.Fatal(err)
	}
	if p, s, at, err := WatchRun(dir); err != nil || s != nil || !at.IsZero() || p.Num != 3 ||
		r.Place != nil {
		t.Errorf("at its beginning: %+v, %v, %v, %v", p, s, at, err)
	}
	if _, err := OpenRun(dir, plan()); err == nil ||
		!strings.Contains(err.Error(), "another process is at work here") {
		t.Errorf("opened twice: %v", err)
	}
	s, err := started(t, "CartPole-v1", 3).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Keep(s); err != nil {
		t.Fatal(err)
	}
	if _, got, at, err := WatchRun(dir); err != nil || !reflect.DeepEqual(got, s) ||
		at.Before(begin.Add(-time.Minute)) || r.Place != s {
		t.Errorf("kept: %+v at %v, %v, want %+v", got, at, err, s)
	}
	kept := time.Unix(1_700_000_000, 0)
	err = os.Chtimes(filepath.Join(dir, stateName), kept, kept)
	if _, _, at, e := WatchRun(dir); errors.Join(err, e) != nil || !at.Equal(kept) {
		t.Errorf("kept at %v, %v, %v; want %v", at, err, e, kept)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOtherRun: a folder whose run is another is refused by what is another, whichever field of the
// plan it is, and where its run was is told from where another was.
func TestOtherRun(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenRun(dir, plan())
	if err != nil {
		t.Fatal(err)
	}
	s, err := started(t, "CartPole-v1", 3).Snapshot()
	if err := errors.Join(err, r.Keep(s), r.Close()); err != nil {
		t.Fatal(err)
	}
	type other struct {
		want   string
		change func(p *Plan)
	}
	simtest.Fields(t, map[string]other{
		"Plan.Version": {"", func(p *Plan) { p.Version = 9 }}, // it is that of all that are made
		"Plan.Environment": {
			"its environment is CartPole-v1,", func(p *Plan) { p.Environment = "Acrobot-v1" },
		},
		"Plan.Num":       {"its number of environments is 3, not 4", func(p *Plan) { p.Num = 4 }},
		"Plan.Autoreset": {"its autoreset is NextStep, not ", func(p *Plan) { p.Autoreset = "" }},
		"Plan.NumPy1":    {"its numpy1 is false, not true", func(p *Plan) { p.NumPy1 = true }},
		"Plan.Seed": {
			"its seed is 1099511627777, not 2199023255559", func(p *Plan) { p.Seed = 1<<41 + 7 },
		},
		"Plan.Steps":   {"its number of steps is 40, not 41", func(p *Plan) { p.Steps = 41 }},
		"Plan.Policy":  {"its policy is random, not 12", func(p *Plan) { p.Policy = "12" }},
		"Plan.Program": {"its program is abc, not abd", func(p *Plan) { p.Program = "abd" }},
		"Plan.Options": {
			`its option max_episode_steps is "9", not "8"`, func(p *Plan) {
				p.Options = map[string]string{"max_episode_steps": "8"}
			},
		},
	}, func(name string, o other) {
		p := plan()
		o.change(&p)
		holdOther(t, dir, p, s, o.want)
		if p.key() == plan().key() {
			t.Errorf("%s: the key is the same", name)
		}
	}, reflect.TypeFor[Plan]())
	p := plan()
	p.Options = map[string]string{"max_episode_steps": "9", "g": "10"}
	holdOther(t, dir, p, s, "it has 1 options, not 2")
}

// holdOther holds a folder to refuse a plan by what is another, or to go on where it was.
func holdOther(t *testing.T, dir string, p Plan, s *classic.Snapshot, want string) {
	t.Helper()
	r, err := OpenRun(dir, p)
	if (err == nil) != (want == "") ||
		err != nil && !strings.Contains(err.Error(), planName+": of another run: "+want) {
		t.Errorf("%v, want %q", err, want)
	}
	if err != nil {
		return
	}
	if !reflect.DeepEqual(r.Place, s) {
		t.Errorf("it goes on at %+v, want %+v", r.Place, s)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestDamagedRun: what is no plan, or not where the plan's run is, is named with what to do.
func TestDamagedRun(t *testing.T) {
	dir := t.TempDir()
	s, err := started(t, "CartPole-v1", 3).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenRun(dir, plan())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	state := func(runs ...npz.Array) string {
		data, err := marshal(s, runs...)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	whole := state(npz.Text("run", r.key))
	good, err := os.ReadFile(filepath.Join(dir, planName))
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	const anew = stateName + ": %s: remove it, and the run begins anew"
	other := fmt.Sprintf(anew, fmt.Sprintf("of another run than %.12s", r.key))
	for _, c := range []struct{ plan, state, want string }{
		{text, whole, ""},
		{"{", whole, planName + ": unexpected end of JSON input: remove the folder, whole"},
		{strings.Replace(text, `"version": 2`, `"version": 1`, 1), whole,
			planName + ": a plan of version 1, want 2: remove the folder, whole"},
		{text, whole[:99], "remove it, and the run begins anew"},
		{text, state(), other}, {text, state(npz.Text("run", "x")), other},
		{text, state(npz.Array{Name: "run", Type: "|S64", Shape: []int{2},
			Data: []byte(r.key + r.key)}), other},
		{text, state(npz.New("run", []int64{1}, 1)), other},
	} {
		for name, text := range map[string]string{planName: c.plan, stateName: c.state} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, got, _, err := WatchRun(dir)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		if err == nil != reflect.DeepEqual(got, s) {
			t.Errorf("read %+v beside %v", got, err)
		}
		if r, err := OpenRun(dir, plan()); (err == nil) != (c.want == "") {
			t.Errorf("opened: %v, want %s", err, c.want)
		} else if err == nil {
			r.Close()
		}
	}
}

// TestNoRun: what is no folder of a run, and what in it is no file.
func TestNoRun(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenRun(dir, plan())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, stateName)
	err = errors.Join(r.Close(), os.MkdirAll(filepath.Join(path, lockName), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := WatchRun(dir); err == nil ||
		!strings.Contains(err.Error(), "a folder, not") {
		t.Errorf("a folder where the run is: %v", err)
	}
	for _, below := range []string{planName + "/x", stateName} { // no folder, and no lock in one
		if _, err := OpenRun(filepath.Join(dir, below), plan()); err == nil {
			t.Errorf("opened in %s", below)
		}
	}
}

// clock is a disk of which the time is set.
type clock struct {
	fileio.FileSystem
	now time.Time
}

func (c *clock) Now() time.Time { return c.now }

// TestDue: where a run is is kept every two seconds, from its opening or from when it was kept.
func TestDue(t *testing.T) {
	c := &clock{fileio.Disk, time.Unix(1e9, 0)}
	fileio.Disk = c
	defer func() { fileio.Disk = c.FileSystem }()
	r, err := OpenRun(t.TempDir(), plan())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := started(t, "CartPole-v1", 3).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, due := range []bool{false, true, true} {
			if r.Due() != due {
				t.Errorf("at %v it is due: %v", c.now, !due)
			}
			c.now = c.now.Add(2 * time.Second)
		}
		if err := r.Keep(s); err != nil {
			t.Fatal(err)
		}
	}
}
