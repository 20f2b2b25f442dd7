package fuzz

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep/classic"
	golden "lockstep/golden/classic"
	"lockstep/internal/simtest"
)

// The calls of a history.
var classicCallNames = []string{
	"reset", "reset some", "step", "uniform", "network", "recorded", "long run", "snapshot",
	"restore", "reopen", "cancelled", "alone", "apart",
}

// TestClassic: any calls in any order, with what an environment did before, and what its
// neighbours do: all engines answer with the bits of the reference, and the reference with
// those of each environment alone in a new one. `make histories` runs many.
func TestClassic(t *testing.T) {
	p := classicHistories(classicEngines(t))
	var neighbours []string
	for _, a := range classicResets {
		for _, b := range classicResets {
			neighbours = append(neighbours, a+", "+b)
		}
	}
	checkHistories(
		t, 0.2, classicCallNames, neighbours,
		func(t *rapid.T, _, pair func(string)) { p(t, pair) },
	)
}

// classicHistory is environments in every engine, the reference's first, and what is known
// of them.
type classicHistory struct {
	t       *rapid.T
	task    classic.Task
	engines []classic.Maker
	vectors []classic.Vector
	handed  []classic.Totals // last by each, and written to since
	log     []classicEntry   // since the last reset of all
	saved   []classicSaved
	pair    func(string)
	kind    string // of the last reset
}

// classicEntry is one of a reset, a step and a restored snapshot of all environments.
type classicEntry struct {
	reset *classic.Reset
	step  *classic.Transition // what the reference answered
	put   *classic.Snapshot
}

// classicSaved is a snapshot, and how its environments came there.
type classicSaved struct {
	snapshot *classic.Snapshot
	log      []classicEntry
}

// classicHistories is the property of such engines; cover is told of pairs of calls, and of pairs
// of kinds of resets.
func classicHistories(all []classic.Maker) func(t *rapid.T, cover func(pair string)) {
	return func(t *rapid.T, cover func(string)) {
		h := &classicHistory{t: t, task: classicTask(t, all), engines: all, pair: cover}
		h.open()
		defer h.close()
		calls := map[string]func(){
			"reset": h.resets, "reset some": h.resetSome, "step": h.step,
			"uniform": h.uniform, "network": h.network,
			"recorded": h.recorded, "long run": h.long, "snapshot": h.snapshot,
			"restore": h.restore, "reopen": h.reopen,
			"cancelled": h.cancelled, "alone": h.alone, "apart": h.apart,
		}
		before := ""
		if rapid.IntRange(0, 9).Draw(
			t, "not reset",
		) < 9 { // what has not been reset refuses everything
			h.reset(nil)
			before = "reset"
			if rapid.Bool().Draw(t, "at once apart") {
				h.apart()
			}
		}
		for range length(24).Draw(t, "calls") {
			call := rapid.SampledFrom(classicCallNames).Draw(t, "call")
			calls[call]()
			if before != "" {
				cover(before + ", " + call)
			}
			before = call
		}
		h.alone()
	}
}

func (h *classicHistory) open() {
	h.vectors, h.log, h.kind = nil, nil, ""
	h.handed = make([]classic.Totals, len(h.engines))
	for _, e := range h.engines {
		v, err := e.Make(h.task)
		if err != nil {
			h.t.Fatal(err)
		}
		h.vectors = append(h.vectors, v)
	}
}

// close closes all, twice.
func (h *classicHistory) close() {
	for i, v := range slices.Repeat(h.vectors, 2) {
		if err := v.Close(); err != nil {
			h.t.Fatalf("%s does not close: %v", h.engines[i%len(h.engines)].Name(), err)
		}
	}
}

// together does the same in all engines, compares what they answer or say, and where they
// are then. It reports whether they did it.
func (h *classicHistory) together(
	what string, do func(i int, v classic.Vector) ([]classic.Transition, error),
) bool {
	var first []classic.Transition
	var complaint string
	var totals classic.Totals
	for i, v := range h.vectors {
		got, err := do(i, v)
		text := ""
		if err != nil {
			got, text = nil, err.Error()
		}
		got = append(got, observed(v))
		now := v.Totals()
		if i == 0 {
			first, complaint, totals = got, text, h.mine(i, now)
			continue
		}
		reference, name := h.engines[0].Name(), h.engines[i].Name()
		if text != complaint {
			h.t.Fatalf("%s: %s says %q, %s %q", what, reference, complaint, name, text)
		}
		for k := range got {
			if got[k].States == nil {
				continue // of a run that was not recorded
			}
			if err := sameTransition(&first[k], &got[k]); err != nil {
				h.t.Fatalf(
					"%s: step %d of %d: %s and %s: %v", what, k, len(got)-1, reference, name, err,
				)
			}
		}
		if err := errors.Join(simtest.SameBits("rewards", now.Rewards, totals.Rewards),
			simtest.SameBits("episodes", now.Episodes, totals.Episodes)); err != nil ||
			now.Steps != totals.Steps {
			h.t.Fatalf(
				"%s: totals of %s and %s: %d and %d steps, %v", what, reference, name, totals.Steps,
				now.Steps, err,
			)
		}
		h.mine(i, now)
	}
	return complaint == ""
}

// mine returns a copy of totals that an engine handed out, and writes to them: they are the
// caller's. Those that it handed out before are as they were written.
func (h *classicHistory) mine(i int, now classic.Totals) classic.Totals {
	before, own := h.handed[i], now
	own.Rewards, own.Episodes = slices.Clone(now.Rewards), slices.Clone(now.Episodes)
	for k := range now.Rewards {
		if before.Rewards != nil && (before.Rewards[k] != -7 || before.Episodes[k] != -7) {
			h.t.Fatalf("%s: totals of environment %d, which the caller set to -7, are %v and %d",
				h.engines[i].Name(), k, before.Rewards[k], before.Episodes[k])
		}
		now.Rewards[k], now.Episodes[k] = -7, -7
	}
	h.handed[i] = now
	return own
}

// resets resets all environments, again and again: what a reset is given ends with it.
func (h *classicHistory) resets() {
	for k := range rapid.IntRange(1, 4).Draw(h.t, "resets") {
		if k > 0 {
			h.step()
			h.alone()
		}
		h.reset(nil)
	}
}

// reset resets all environments, or some.
func (h *classicHistory) reset(mask []bool) {
	kind := rapid.SampledFrom(classicResets).Draw(h.t, "kind of reset")
	r := classicReset(h.t, h.task, kind)
	if mask != nil && (h.task.Autoreset == classic.Disabled || h.task.Autoreset == classic.Off) {
		r.Mask = mask
	}
	if !h.together(
		"reset",
		func(_ int, v classic.Vector) ([]classic.Transition, error) { return nil, v.Reset(r) },
	) {
		return
	}
	if h.kind != "" {
		h.pair(h.kind + ", " + kind)
	}
	h.kind = kind
	if r.Mask == nil && !r.Continue {
		h.log = nil
	}
	h.log = append(slices.Clip(h.log), classicEntry{reset: &r})
}

func (h *classicHistory) resetSome() {
	mask := make([]bool, h.task.Num)
	for i := range mask {
		mask[i] = (i+1)%rapid.IntRange(1, 3).Draw(h.t, "every") == 0
	}
	h.reset(mask)
}

// enter keeps what the reference answered.
func (h *classicHistory) enter(record []classic.Transition) {
	h.log = slices.Clip(h.log)
	for k := range record {
		h.log = append(h.log, classicEntry{step: &record[k]})
	}
}

// run runs a policy in all engines. Without a record only the reference keeps one.
func (h *classicHistory) run(what string, p classic.Policy, steps int, recorded bool) {
	var kept []classic.Transition
	if h.together(what, func(i int, v classic.Vector) ([]classic.Transition, error) {
		record := make([]classic.Transition, steps)
		if i > 0 && !recorded {
			return record, v.Run(context.Background(), p, steps, nil)
		}
		for k := range record {
			record[k] = classic.NewTransition(h.task)
		}
		err := v.Run(context.Background(), p, steps, record)
		if i == 0 {
			kept = slices.Clone(record)
		}
		return record, err
	}) {
		h.enter(kept)
		return
	}
	h.log = nil // of recorded actions those before a bad one were taken
}

func (h *classicHistory) steps() int { return rapid.IntRange(1, 12).Draw(h.t, "steps") }

func (h *classicHistory) uniform() {
	key := rapid.Uint64().Draw(h.t, "key")
	h.run("uniform", classic.Policy{Uniform: &key}, h.steps(), rapid.Bool().Draw(h.t, "recorded"))
}

func (h *classicHistory) network() {
	n := *golden.Goal(h.task.Name)
	if bits := rapid.IntRange(-1, 5).Draw(h.t, "bits of noise"); bits >= 0 {
		for i := range 1 << bits {
			n.Noise = append(n.Noise, float32(i%7)-3)
		}
		n.Seed = rapid.Uint64().Draw(h.t, "seed of noise")
	}
	h.run("network", classic.Policy{Network: &n}, h.steps(), rapid.Bool().Draw(h.t, "recorded"))
}

func (h *classicHistory) recorded() {
	var all []classic.Actions
	for range rapid.IntRange(1, 3).Draw(h.t, "steps") {
		all = append(all, classicActions(h.t, h.task))
	}
	h.run("recorded", classic.Policy{Recorded: all}, len(all), true)
}

// long is longer than any stretch in which an engine works, where that is cheap.
func (h *classicHistory) long() {
	steps := 30
	if h.task.Num <= 2 {
		steps = rapid.SampledFrom([]int{1023, 1024, 1025, 1100}).Draw(h.t, "steps")
	}
	key := rapid.Uint64Range(0, 3).Draw(h.t, "key")
	h.run("long run", classic.Policy{Uniform: &key}, steps, false)
}

func (h *classicHistory) step() {
	a := classicActions(h.t, h.task)
	var kept classic.Transition
	if h.together("step", func(i int, v classic.Vector) ([]classic.Transition, error) {
		answer := classic.NewTransition(h.task)
		err := v.Step(a, &answer)
		if i == 0 {
			kept = answer
			kept.Actions = a
		}
		answer.Actions = classic.Actions{}
		return []classic.Transition{answer}, err
	}) {
		h.enter([]classic.Transition{kept})
	}
}

// cancelled: a run in a context that has ended says so, and leaves all as it was.
func (h *classicHistory) cancelled() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	key := uint64(1)
	h.together("a cancelled run", func(_ int, v classic.Vector) ([]classic.Transition, error) {
		return nil, v.Run(ctx, classic.Policy{Uniform: &key}, 3, nil)
	})
}

// snapshot keeps the snapshot of any engine.
func (h *classicHistory) snapshot() {
	var first, kept *classic.Snapshot
	from := rapid.IntRange(0, len(h.vectors)-1).Draw(h.t, "of engine")
	if h.together("snapshot", func(i int, v classic.Vector) ([]classic.Transition, error) {
		s, err := v.Snapshot()
		if err == nil && i == 0 {
			first = s
		}
		if err == nil && i > 0 {
			if err := sameSnapshot(first, s); err != nil {
				h.t.Fatalf(
					"snapshots of %s and %s: %v", h.engines[0].Name(), h.engines[i].Name(), err,
				)
			}
		}
		if i == from {
			kept = s
		}
		return nil, err
	}) {
		h.saved = append(h.saved, classicSaved{kept, slices.Clone(h.log)})
	}
}

// restore goes back, or forward, to any snapshot, also twice.
func (h *classicHistory) restore() {
	var s classicSaved
	if len(h.saved) > 0 {
		s = h.saved[rapid.IntRange(0, len(h.saved)-1).Draw(h.t, "snapshot")]
	}
	if h.together(
		"restore",
		func(_ int, v classic.Vector) ([]classic.Transition, error) {
			return nil, v.Restore(s.snapshot)
		},
	) {
		h.log = slices.Clone(s.log)
	}
}

// apart puts environments where no two neighbours are, nor their likes in another block: other
// steps of their episodes, other returns and numbers of episodes. After a reset all have one step.
func (h *classicHistory) apart() {
	s, err := h.vectors[0].Snapshot()
	if err != nil {
		return // they have not been reset
	}
	most := h.task.MaxSteps - 1 // an episode has one step left at least
	if most < 1 {
		most = 1000
	}
	for i := range s.Elapsed {
		s.Elapsed[i] = int32((i + i/7) % most)
		s.Rewards[i], s.Episodes[i] = s.Rewards[i]-float64(i), s.Episodes[i]+int64(i)
	}
	if h.together("apart", func(_ int, v classic.Vector) ([]classic.Transition, error) {
		return nil, v.Restore(s)
	}) {
		h.log = []classicEntry{{put: s}}
		for i, v := range h.vectors {
			got, err := v.Snapshot()
			if err == nil {
				err = sameSnapshot(s, got)
			}
			if err != nil {
				h.t.Fatalf("%s: a snapshot of what was restored: %v", h.engines[i].Name(), err)
			}
		}
	}
}

// reopen goes on in new environments, from a snapshot if there is one.
func (h *classicHistory) reopen() {
	h.close()
	h.open()
	if len(h.saved) > 0 && rapid.Bool().Draw(h.t, "restored") {
		h.restore()
	}
}

// alone: what the reference answered for an environment among others is what it answers
// for it alone. Those of one generator are never alone; and the log of an environment may
// begin where its generator's does not.
func (h *classicHistory) alone() {
	if h.task.Shared || len(h.log) == 0 {
		return
	}
	if r := h.log[0].reset; h.log[0].put == nil && (r == nil || r.Continue || r.Mask != nil) {
		return
	}
	i := rapid.IntRange(0, h.task.Num-1).Draw(h.t, "environment")
	task := h.task
	task.Num = 1
	v, err := h.engines[0].Make(task)
	if err != nil {
		h.t.Fatal(err)
	}
	defer v.Close()
	one, answer := classic.NewTransition(task), classic.NewTransition(task)
	for k, e := range h.log {
		if e.reset != nil {
			h.resetAlone(v, e.reset, i)
			continue
		}
		if e.put != nil {
			h.putAlone(v, e.put, i)
			continue
		}
		ofOne(&one, e.step, i, h.task.Num)
		clear(answer.Final)
		if err := v.Step(one.Actions, &answer); err != nil {
			h.t.Fatalf("entry %d: environment %d of %d alone: %v", k, i, h.task.Num, err)
		}
		answer.Actions = one.Actions
		if !one.Terminated[0] && !one.Truncated[0] { // what is left alone
			clear(one.Final)
		}
		if err := sameTransition(&answer, &one); err != nil {
			h.t.Fatalf(
				"entry %d of %d: environment %d of %d is not what it is alone: %v", k, len(h.log),
				i, h.task.Num, err,
			)
		}
	}
}

// resetAlone is a reset of all or some, for one of them.
func (h *classicHistory) resetAlone(v classic.Vector, r *classic.Reset, i int) {
	if r.Mask != nil && !r.Mask[i] {
		return
	}
	own := *r
	own.Mask, own.Seed = nil, r.Seed+int64(i)
	if r.Seeds != nil {
		own.Seed, own.Seeds = 0, r.Seeds[i:i+1]
	}
	if err := v.Reset(own); err != nil {
		h.t.Fatalf("environment %d of %d alone: %v", i, h.task.Num, err)
	}
}

// putAlone restores a snapshot of all, for one of them.
func (h *classicHistory) putAlone(v classic.Vector, s *classic.Snapshot, i int) {
	own, err := s.Fork(h.task, []int{i})
	if err == nil { // nothing is restored in what was never reset
		err = v.Reset(classic.Reset{})
	}
	if err == nil {
		err = v.Restore(own)
	}
	if err != nil {
		h.t.Fatalf("environment %d of %d alone: %v", i, h.task.Num, err)
	}
}

// ofOne is what a step was for environment i of num.
func ofOne(to, from *classic.Transition, i, num int) {
	column(to.States, from.States, i, num)
	column(to.Observations, from.Observations, i, num)
	column(to.Rewards, from.Rewards, i, num)
	column(to.Terminated, from.Terminated, i, num)
	column(to.Truncated, from.Truncated, i, num)
	column(to.Final, from.Final, i, num)
	column(to.Actions.Discrete, from.Actions.Discrete, i, num)
	column(to.Actions.Continuous, from.Actions.Continuous, i, num)
}

func column[T any](to, from []T, i, num int) {
	for k := range to {
		to[k] = from[k*num+i]
	}
}
