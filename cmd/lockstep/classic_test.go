package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/classic"
	"lockstep/cmd/internal/archive"
	"lockstep/cmd/internal/runs"
	"lockstep/engines"
	"lockstep/internal/npz"
	"lockstep/internal/simtest"
)

// TestEnvs: the list has every environment, with its options.
func TestEnvs(t *testing.T) {
	status, stdout, stderr := lockstepRun(t.Context(), "envs")
	if status != exitOK || stderr != "" {
		t.Fatalf("exit %d, %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 1+len(classic.Environments()) {
		t.Fatalf("%d lines:\n%s", len(lines), stdout)
	}
	actions := map[string]string{
		"CartPole-v1": "0 to 1", "CartPoleVectorEnv": "0 to 1", "MountainCar-v0": "0 to 2",
		"MountainCarContinuous-v0": "float32, ±1", "Pendulum-v1": "float32, ±2",
		"Acrobot-v1": "0 to 2",
	}
	for i, e := range classic.Environments() {
		words := strings.Fields(lines[i+1])
		taken := strings.Join(words[1:], " ")
		if words[0] != e.Name ||
			!strings.HasPrefix(taken, actions[e.Name]+" "+e.Observation[0]) ||
			!strings.HasSuffix(lines[i+1], strings.Join(e.Options(), ", ")) ||
			!slices.Contains(words, fmt.Sprint(e.MaxSteps)) {
			t.Errorf("%q", lines[i+1])
		}
	}
}

// TestRolloutEnv: every engine prints the same returns, in a line or as JSON, and what
// cannot be is refused in a line.
func TestRolloutEnv(t *testing.T) {
	for _, e := range classic.Environments() {
		sameReturns(t, e.Name)
	}
	for steps, want := range map[string]string{
		"1":  "2 steps in .*; 0 episodes ended, rewards of 2, no episode ended\n$",
		"60": "120 steps in .*; 5 episodes ended, rewards of 115, 23 a finished episode\n$",
	} {
		status, stdout, _ := lockstepRun(t.Context(), "rollout", "--env", "CartPole-v1",
			"--num-envs", "2", "--steps", steps)
		if status != exitOK || !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("%s steps: exit %d, %s, want %s", steps, status, stdout, want)
		}
	}
	for args, want := range map[string]string{
		"--env CartPole-v2": "environment \"CartPole-v2\" is " +
			"unknown: there are CartPole-v1, ",
		"--env CartPole-v1 --num-envs 0": "CartPole-v1: 0 environments: at " +
			"least 1 are needed",
		"--env CartPole-v1 --steps 0": "--steps 0: at least 1 is needed",
		"--env CartPole-v1 --env-seed=-1": "CartPole-v1: environment 0: seed " +
			"-1 is negative",
		"--env CartPole-v1 --option g=3": "CartPole-v1 has no option \"g\": " +
			"it has max_episode_steps, ",
		"--env Pendulum-v1 --option g=NaN": "Pendulum-v1: option g is \"NaN\": " +
			"it wants a finite number",
		"--env CartPole-v1 --autoreset never": "autoreset mode \"never\" is unknown",
		"--env CartPole-v1 --policy none.npz": "--policy open none.npz: no such file",
		"--env CartPole-v1 --policy classic_test.go": "--policy classic_test.go: not an " +
			".npz archive: zip: ",
		"--num-envs 2 --policy random": "--num-envs goes with --env",
		"--env CartPole-v1 --autoreset disabled": "CartPole-v1: environment 0 has " +
			"ended: reset it before the next step",
		"--env CartPoleVectorEnv --autoreset same-step": "CartPoleVectorEnv resets at the " +
			"next step",
		"--env CartPole-v1 --engine gpu --steps 1000000000": "gpu",
		"--env CartPole-v1 --num-envs 2000000000": "CartPole-v1: 2000000000 " +
			"environments: at least 1 are needed, and at most 16777216 can be",
		"--env CartPole-v1 --trace x":        "--trace does not go with --env",
		"--env CartPole-v1 --controller pid": "--controller does not go with --env",
		"--num-envs 3":                       "--num-envs goes with --env",
	} {
		status, stdout, stderr := lockstepRun(
			t.Context(),
			append([]string{"rollout"}, strings.Fields(args)...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, want %q", args, status, stderr, want)
		}
	}
}

// sameReturns: engines come to the same in an environment, as JSON and in the line that is
// printed without.
func sameReturns(t *testing.T, env string) {
	t.Helper()
	type result struct {
		Env      string
		Engine   string
		Num      int `json:"num_envs"`
		Steps    int
		Seconds  float64
		Rate     float64 `json:"steps_per_second"`
		Episodes int
		Reward   float64
		Rewards  []float64
	}
	args := []string{
		"rollout", "--env", env, "--num-envs", "5", "--steps", "1100", "--env-seed", "3",
	}
	var first result
	for _, engine := range []string{"reference", "batched", "auto"} {
		status, stdout, stderr := lockstepRun(
			t.Context(), append(slices.Clone(args), "--engine", engine, "--json")...)
		var r result
		if err := json.Unmarshal([]byte(stdout), &r); status != exitOK || stderr != "" ||
			err != nil {
			t.Fatalf("%s: exit %d, %v\n%s%s", env, status, err, stdout, stderr)
		}
		if r.Env != env || r.Num != 5 || r.Steps != 5500 || len(r.Rewards) != 5 ||
			r.Rate != 5500/max(r.Seconds, 1e-9) || engine != "auto" && r.Engine != engine {
			t.Errorf("%+v", r)
		}
		if first.Env == "" {
			first = r
		}
		if err := simtest.Same("rewards", r.Rewards, first.Rewards); err != nil ||
			r.Reward != first.Reward || r.Episodes != first.Episodes {
			t.Errorf(
				"%s: %s: %v, the reference has %v: %v", env, engine, r.Reward, first.Reward, err,
			)
		}
	}
	_, stdout, _ := lockstepRun(t.Context(), args...)
	if want := env + ", reference: 5500 steps in "; !strings.HasPrefix(stdout, want) ||
		!strings.Contains(stdout, fmt.Sprintf(
			" steps/s; %d episodes ended, rewards of %.10g, ", first.Episodes, first.Reward,
		)) ||
		strings.Count(stdout, "\n") != 1 {
		t.Errorf("%q", stdout)
	}
}

// TestRolloutEnvInterrupted: it ends, and says that it was interrupted.
func TestRolloutEnvInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args := strings.Fields("rollout --env CartPole-v1 --num-envs 64 --steps 100000000")
	for means, more := range map[string][]string{
		"nothing is kept": nil, goesOn: {"--out", filepath.Join(t.TempDir(), "run")},
	} {
		status, stdout, stderr := lockstepRun(ctx, with(args, more...)...)
		if want := "lockstep: interrupted; " + means + "\n"; status != exitInterrupted ||
			stdout != "" || stderr != want {
			t.Errorf("exit %d, %q, %q, want %q", status, stdout, stderr, want)
		}
	}
}

// shifted is the reference whose rewards are one more where the cart is right of 0.1.
type shifted struct{ classic.Maker }

func (shifted) Name() string { return "shifted" }

func (s shifted) Make(t classic.Task) (classic.Vector, error) {
	v, err := s.Maker.Make(t)
	return shiftedVector{v}, err
}

type shiftedVector struct{ classic.Vector }

func (v shiftedVector) Run(
	ctx context.Context, p classic.Policy, steps int, record []classic.Transition,
) error {
	err := v.Vector.Run(ctx, p, steps, record)
	for i := range record {
		for e := range record[i].Rewards {
			if record[i].States[e] > 0.1 {
				record[i].Rewards[e]++
			}
		}
	}
	return err
}

// TestCompareEnv: engines are held to each other; a difference is named, shrunk, kept and
// replayed, and gone once it is mended.
func TestCompareEnv(t *testing.T) {
	dir := t.TempDir()
	whole := []string{
		"compare", "--env", "CartPole-v1", "--num-envs", "6", "--steps", "200", "--autoreset",
		"same-step",
	}
	if status, stdout, stderr := lockstepRun(t.Context(),
		append(whole, "reference", "batched", "--json")...); status != exitOK ||
		!strings.Contains(
			stdout, `"compared":{"action":200,"elapsed":200,"ended":200,"final":200,`,
		) {
		t.Fatalf("exit %d\n%s%s", status, stdout, stderr)
	}
	before := engines.Classic().All()
	plant := func(bad bool) {
		twin := engines.Member[classic.Maker]{
			Name: "shifted",
			New: func(int) (classic.Maker, error) {
				e, err := engines.Classic().Open("reference", 0)
				if !bad {
					return engines.Classic().Open("batched", 0)
				}
				return shifted{e}, err
			},
		}
		t.Cleanup(engines.Classic().Replace(append(slices.Clone(before), twin)))
	}
	plant(true)
	status, stdout, stderr := lockstepRun(
		t.Context(),
		append(whole, "reference", "shifted", "--keep", dir)...)
	if status != exitParity {
		t.Fatalf("exit %d\n%s%s", status, stdout, stderr)
	}
	for _, want := range []string{
		"different       shifted against reference, CartPole-v1: 0 of 1 rollouts equal, 200 steps",
		"stage reward, index ", "(environment ", "replay: lockstep compare --env CartPole-v1",
		"kept: 1 of 6 environments, ", " stage reward; replay: lockstep replay " + dir,
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "reward-shifted-cartpole-v1.json"))
	if len(files) != 1 {
		t.Fatalf("%v", files)
	}
	status, stdout, _ = lockstepRun(t.Context(), "replay", dir)
	if status != exitParity ||
		!strings.Contains(stdout, "equal           reference against kept results") ||
		!strings.Contains(stdout, "different       shifted against reference") ||
		!strings.Contains(stdout, "replay: lockstep replay "+files[0]) {
		t.Errorf("exit %d\n%s", status, stdout)
	}
	plant(false)
	if status, stdout, _ = lockstepRun(t.Context(), "replay", files[0]); status != exitOK {
		t.Errorf("mended: exit %d\n%s", status, stdout)
	}
	for names, want := range map[string]int{
		"batched": 1, "batched,reference": 2, "onnxruntime,reference": 1, "onnxruntime": 0,
	} {
		status, stdout, stderr := lockstepRun(t.Context(), "replay", files[0], "--engines", names)
		none := "not applicable  onnxruntime against kept results, reward-shifted-cartpole-v1: " +
			"no engine of these names computes classic control\n"
		if strings.Count(stdout, "equal  ") != want || (status == exitOK) != (want > 0) ||
			strings.Contains(stdout, none) != (want == 0) {
			t.Errorf("%s: exit %d, %s%s, want %d that are equal", names, status, stdout, stderr,
				want)
		}
	}
	for args, want := range map[string]string{
		"--inexact":            "--inexact does not go with --env",
		"--only 0/pid":         "--only does not go with --env",
		"--autoreset disabled": "nobody resets what has ended",
		"--num-envs 0":         "0 environments: at least 1 are needed",
		"reference warp":       "no engine \"warp\" computes classic control",
		"reference reference": "both sides are lockstep/reference/classic on reference: " +
			"nothing is proved",
	} {
		if status, stdout, stderr := lockstepRun(t.Context(),
			append([]string{"compare", "--env", "CartPole-v1"},
				strings.Fields(args)...)...); status != exitUsage ||
			!strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit %d, %s%s, want %q", args, status, stdout, stderr, want)
		}
	}
}

// pendulums are the flags of the run that TestRolloutEnvKept keeps.
var pendulums = []string{
	"rollout", "--env", "Pendulum-v1", "--num-envs", "3", "--steps", "1500", "--env-seed", "4",
	"--option", "g=9.5",
}

// with are a command's words and some more.
func with(words []string, more ...string) []string { return append(slices.Clone(words), more...) }

// TestRolloutEnvKept: a run that is kept goes on where it was, on any engine, to what it would have
// come to; watch says how far it is; a folder of another run is refused.
func TestRolloutEnvKept(t *testing.T) {
	type result struct {
		Rewards  []float64
		Episodes int
		Seconds  float64
		Rate     float64 `json:"steps_per_second"`
		Stats    struct {
			Steps int     `json:"steps_computed"`
			Step  float64 `json:"ns_per_step"`
		}
	}
	rollout := func(more ...string) (r result) {
		t.Helper()
		status, stdout, stderr := lockstepRun(
			t.Context(), with(with(pendulums, "--json", "--stats"), more...)...)
		if err := json.Unmarshal([]byte(stdout), &r); status != exitOK || err != nil {
			t.Fatalf("exit %d, %v: %s%s", status, err, stdout, stderr)
		}
		if rate := float64(r.Stats.Steps) / max(r.Seconds, 1e-9); r.Rate != rate {
			t.Errorf("%v steps/s of %d steps that it computed in %v s", r.Rate, r.Stats.Steps,
				r.Seconds)
		}
		return r
	}
	want := rollout("--engine", "batched")
	if want.Stats.Steps != 4500 || want.Stats.Step <= 0 {
		t.Errorf("%+v", want.Stats)
	}
	dir := filepath.Join(t.TempDir(), "run")
	plan, after := pendulumsAfter(t, 700)
	run, err := archive.OpenRun(dir, plan)
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, "two at once", "another process is at work here", with(pendulums, "--out", dir)...)
	if err := errors.Join(run.Keep(after), run.Close()); err != nil {
		t.Fatal(err)
	}
	watched := func(want string) {
		t.Helper()
		if status, stdout, stderr := lockstepRun(t.Context(), "watch", "--once",
			dir); status != exitOK ||
			!strings.Contains(stdout, want) {
			t.Errorf("watch: exit %d, %s%s, want %s", status, stdout, stderr, want)
		}
	}
	ended := func(want bool) { // else watch would go on for ever, or not at all
		t.Helper()
		if done, err := (&classicFlags{}).watch(io.Discard, dir); err != nil || done != want {
			t.Errorf("done: %v, %v, want %v", done, err, want)
		}
	}
	sum := 0.0
	for _, r := range after.Rewards {
		sum += r
	}
	watched("3 Pendulum-v1, seed 4\n700 of 1500 steps of each, " +
		fmt.Sprintf("9 episodes ended, rewards of %.10g, last at ", sum))
	ended(false)
	keepsOthersOut(t, dir)
	for round, left := range []int{2400, 0} { // the second time all is there
		got := rollout("--engine", "reference", "--out", dir)
		if err := simtest.Same("rewards", got.Rewards, want.Rewards); err != nil ||
			got.Episodes != want.Episodes ||
			got.Stats.Steps != left {
			t.Errorf("round %d: %+v, want %+v and %d steps: %v", round, got, want, left, err)
		}
		ended(true)
	}
	watched("1500 of 1500 steps of each, ")
	refusesOtherFlags(t, dir)
	refusesOtherStates(t, dir, plan, after)
}

// keepsOthersOut: a run that goes on has its folder for itself, as long as it is open.
func keepsOthersOut(t *testing.T, dir string) {
	t.Helper()
	steps := 1500
	f := &classicFlags{
		Env: "Pendulum-v1", NumEnvs: 3, Steps: &steps, Policy: random, EnvSeed: 4,
		Option: map[string]string{"g": "9.5"}, Autoreset: "next-step",
	}
	env := &environment{ctx: t.Context(), stdout: &stickyWriter{w: io.Discard}, stderr: io.Discard}
	c := &rolloutCommand{Out: dir, simulatorFlags: simulatorFlags{Engine: "reference"}}
	if e, err := f.open(env, c); err != nil || e.Totals().Steps != 3*700 {
		t.Fatalf("%+v, %v", e, err)
	}
	refuses(t, "beside one", "another process is at work here", with(pendulums, "--out", dir)...)
	for _, end := range env.ends {
		end()
	}
}

// pendulumsAfter are the plan of the run of those flags, and its environments after steps of it.
func pendulumsAfter(t *testing.T, steps int) (archive.Plan, *classic.Snapshot) {
	t.Helper()
	options := map[string]string{"g": "9.5"}
	task, err := classic.Make("Pendulum-v1", 3, options)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engines.Classic().Open("batched", 0)
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	key := uint64(4)
	if err := errors.Join(v.Reset(classic.Reset{Seed: 4}),
		v.Run(t.Context(), classic.Policy{Uniform: &key}, steps, nil)); err != nil {
		t.Fatal(err)
	}
	after, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	program, err := runs.HashProgram("")
	if err != nil {
		t.Fatal(err)
	}
	return archive.Plan{
		Environment: "Pendulum-v1",
		Options:     options,
		Num:         3,
		Autoreset:   "next-step",
		Seed:        4,
		Steps:       1500,
		Program:     program,
	}, after
}

// refusesOtherFlags: flags of another run than the one that is kept there.
func refusesOtherFlags(t *testing.T, dir string) {
	t.Helper()
	for args, why := range map[string]string{
		"--env Pendulum-v1 --num-envs 3 --steps 1500 --env-seed 5 --option g=9.5": "its seed is " +
			"4, not 5",
		"--env Pendulum-v1 --num-envs 3 --steps 1501 --env-seed 4 --option g=9.5": "its number " +
			"of steps is 1500, not 1501",
		"--env Pendulum-v1 --num-envs 3 --steps 1500 --env-seed 4": `its option g is "9.5", not ""`,
		"--env CartPole-v1 --num-envs 3 --steps 1500 --env-seed 4": "its environment is " +
			"Pendulum-v1, not CartPole-v1",
	} {
		refuses(t, args, why, with([]string{"rollout", "--out", dir}, strings.Fields(args)...)...)
	}
}

// TestRolloutEnvFlags: each flag of an environment is of the run that is kept with it: a folder of
// the run without it, or with another value, is refused. A flag that is new has no line here, and
// fails.
func TestRolloutEnvFlags(t *testing.T) {
	dir := t.TempDir()
	network := filepath.Join(dir, "network.npz")
	if err := npz.WriteFile(network, []npz.Array{
		npz.New("weights0", []float32{0, 0, 0, 0, 0.1, 0.3, 1, 0.4}, 2, 4),
		npz.New("bias0", []float32{0, 0}, 2),
	}); err != nil {
		t.Fatal(err)
	}
	words := []string{"rollout", "--env", "CartPole-v1", "--out", filepath.Join(dir, "run")}
	if status, stdout, stderr := lockstepRun(t.Context(), words...); status != exitOK {
		t.Fatalf("exit %d, %s%s", status, stdout, stderr)
	}
	flags := map[string]string{
		"env": "Acrobot-v1", "num-envs": "2", "steps": "999", "policy": network, "env-seed": "1",
		"option": "sutton_barto_reward=True", "autoreset": "same-step", "numpy1": "true",
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[classicFlags]()) {
		flag, ok := field.Tag.Lookup("name")
		if !ok {
			continue
		}
		value, ok := flags[flag]
		if !ok {
			t.Errorf("--%s: this test has no other value of it", flag)
			continue
		}
		other := with(words, fmt.Sprintf("--%s=%s", flag, value))
		if flag == "env" {
			other[2] = value
			other = other[:len(words)]
		}
		refuses(t, "--"+flag, "of another run: it", other...)
	}
	if status, stdout, stderr := lockstepRun(t.Context(), words...); status != exitOK {
		t.Errorf("as it was: exit %d, %s%s", status, stdout, stderr)
	}
}

// refusesOtherStates: a run of another program, its state where that of this one was, and a state
// that is damaged.
func refusesOtherStates(t *testing.T, dir string, plan archive.Plan, s *classic.Snapshot) {
	t.Helper()
	const name = "environments.npz"
	other := filepath.Join(t.TempDir(), "other")
	plan.Program = "another"
	run, err := archive.OpenRun(other, plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(run.Keep(s), run.Close()); err != nil {
		t.Fatal(err)
	}
	refuses(t, "of another program", "its program is another, not ",
		with(pendulums, "--out", other)...)
	state := filepath.Join(dir, name)
	if err := os.Rename(filepath.Join(other, name), state); err != nil {
		t.Fatal(err)
	}
	refuses(t, "where another run is", name+": of another run than ",
		with(pendulums, "--out", dir)...)
	if err := os.WriteFile(state, []byte("PK"), 0o666); err != nil {
		t.Fatal(err)
	}
	refuses(t, "damaged", name+": not an .npz archive: zip: ", with(pendulums, "--out", dir)...)
}

// TestPolicyEnv: a table and a network from files, in a rollout and in a comparison.
func TestPolicyEnv(t *testing.T) {
	dir := t.TempDir()
	table, network := filepath.Join(dir, "table.npz"), filepath.Join(dir, "network.npz")
	if err := errors.Join(
		npz.WriteFile(table, []npz.Array{npz.New("actions", []int64{0, 1, 1, 0, 1}, 5)}),
		npz.WriteFile(network, []npz.Array{
			npz.New("weights0", []float32{0, 0, 0, 0, 0.1, 0.3, 1, 0.4}, 2, 4),
			npz.New("bias0", []float32{0, 0}, 2),
		})); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"rollout --policy " + table: " 20 steps in ",
		// which balances
		"rollout --engine reference --policy " + network: " 4000 steps in ",
		"compare reference batched --policy " + table: "1 of 1 rollouts equal, 5 " +
			"steps",
		"compare reference batched --steps 60 --policy " + network: "1 of 1 rollouts equal, 60 " +
			"steps",
	} {
		line := append(strings.Fields(args), "--env", "CartPole-v1", "--num-envs", "4")
		if status, stdout, stderr := lockstepRun(t.Context(), line...); status != exitOK ||
			!strings.Contains(stdout, want) {
			t.Errorf("%s: exit %d, %s%s, want %s", args, status, stdout, stderr, want)
		}
	}
	if status, _, stderr := lockstepRun(t.Context(), "rollout", "--env", "CartPole-v1", "--steps",
		"4", "--policy", table); status != exitUsage ||
		!strings.Contains(stderr, "--steps 4: the table of --policy has 5") {
		t.Errorf("exit %d, %s", status, stderr)
	}
}

// TestLongEnv: steps beyond those that the command computes at a time go on by the policy where
// it was: a table's next action, and the next draw. The reference comes to the same in one run.
func TestLongEnv(t *testing.T) {
	const name, steps = "MountainCarContinuous-v0", 2300
	actions := make([]float32, steps)
	table := make([]classic.Actions, steps)
	for i := range actions {
		actions[i] = float32(i%89) / 89 * float32(i%2*2-1) * float32(i) / steps
		table[i].Continuous = actions[i : i+1]
	}
	file, key := filepath.Join(t.TempDir(), "table.npz"), uint64(0)
	if err := npz.WriteFile(file, []npz.Array{npz.New("actions", actions, steps)}); err != nil {
		t.Fatal(err)
	}
	for args, policy := range map[string]classic.Policy{
		"--policy " + file: {Recorded: table}, "--steps 2300": {Uniform: &key},
	} {
		task, err := classic.Make(name, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		maker, err := engines.Classic().Open("reference", 1)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := maker.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(whole.Reset(classic.Reset{}),
			whole.Run(t.Context(), policy, steps, nil)); err != nil {
			t.Fatal(err)
		}
		line := strings.Fields("rollout --json --env " + name + " " + args)
		status, stdout, stderr := lockstepRun(t.Context(), line...)
		var got struct{ Rewards []float64 }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitOK {
			t.Fatalf("%s: exit %d, %v, %s", args, status, err, stderr)
		}
		if err := simtest.Same(args+": rewards", got.Rewards, whole.Totals().Rewards); err != nil {
			t.Error(err)
		}
	}
}

// TestBenchEnv: every engine that runs here is measured, held to the reference, and what is
// missing is named; what a Python answers is in the table.
func TestBenchEnv(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	answers := "#!/bin/sh\necho '{\"contestants\": [\"Gymnasium, vector class\"], \"missing\": " +
		"{\"EnvPool\": \"it is not here\"}}'\n" +
		"while read line; do echo '{\"steps\": 640, \"seconds\": 0.5}'; done\n"
	if err := os.WriteFile(python, []byte(answers), 0o777); err != nil {
		t.Fatal(err)
	}
	line := []string{
		"bench", "--env", "Acrobot-v1", "--num-envs", "8", "--steps", "640", "--repetitions", "2",
		"--json", "--python",
	}
	status, stdout, stderr := lockstepRun(t.Context(), append(line, python)...)
	var b struct {
		Missing map[string]string
		Rows    []struct {
			Name   string
			Rate   spread            `json:"steps_per_second"`
			Ratios map[string]spread `json:"ratios"`
			Equal  *bool             `json:"equal_to_reference"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &b); status != exitOK || err != nil {
		t.Fatalf("exit %d, %v: %s%s", status, err, stdout, stderr)
	}
	if len(b.Rows) < 3 || b.Rows[0].Name != "Gymnasium, vector class" ||
		b.Rows[0].Rate.Median != 1280 ||
		b.Missing["EnvPool"] != "it is not here" {
		t.Fatalf("%+v", b)
	}
	for i, row := range b.Rows[1:] {
		if row.Equal == nil || !*row.Equal || row.Rate.Min <= 0 || len(row.Ratios) != i+1 {
			t.Errorf("%+v", row)
		}
	}
	if status, stdout, _ = lockstepRun(t.Context(),
		append(line, python+"-none", "--steps", "1")...); status != exitOK ||
		!regexp.MustCompile(`"steps":1,.*no such file`).MatchString(stdout) {
		t.Errorf("exit %d, %s", status, stdout)
	}
	for args, want := range map[string]string{
		"--env Acrobot-v1 --jobs 3":  "--jobs does not go with --env",
		"--env Acrobot-v1 --steps 0": "--steps 0: want 1 or more",
		"--num-envs 3":               "--num-envs goes with --env",
		"--env Acrobat-v1":           "environment \"Acrobat-v1\" is unknown",
	} {
		if status, _, stderr := lockstepRun(t.Context(),
			append([]string{"bench"}, strings.Fields(args)...)...); status != exitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s, want %s", args, status, stderr, want)
		}
	}
	t.Cleanup(engines.Classic().Replace(append(
		engines.Classic().All(),
		engines.Member[classic.Maker]{Name: "doubled", New: func(int) (classic.Maker, error) {
			e, err := engines.Classic().Open("reference", 0)
			return doubled{e}, err
		}},
	)))
	if status, stdout, _ := lockstepRun(t.Context(),
		append(line, python)...); status != exitParity ||
		!strings.Contains(stdout, `"equal_to_reference":false`) {
		t.Errorf("an engine that is another: exit %d, %s", status, stdout)
	}
}

// TestBenchEnvTold: the table says of how many steps of how many environments engines are equal.
func TestBenchEnvTold(t *testing.T) {
	status, stdout, _ := lockstepRun(t.Context(), "bench", "--env", "Acrobot-v1", "--num-envs", "8",
		"--steps", "1", "--repetitions", "1", "--python", "none")
	if status != exitOK || !strings.Contains(stdout, "  equal, 64 steps of 8\n") {
		t.Errorf("exit %d, %s", status, stdout)
	}
}

// doubled is the reference whose environments earn twice as much.
type doubled struct{ classic.Maker }

func (d doubled) Make(t classic.Task) (classic.Vector, error) {
	v, err := d.Maker.Make(t)
	return doubledVector{v}, err
}

type doubledVector struct{ classic.Vector }

func (v doubledVector) Totals() classic.Totals {
	t := v.Vector.Totals()
	for i := range t.Rewards {
		t.Rewards[i] *= 2
	}
	return t
}
