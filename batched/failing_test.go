package batched_test

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"lockstep"
	"lockstep/batched"
	"lockstep/internal/simtest"
)

var errBroken = errors.New("the network broke")

// breaking is a network of a worker whose logits follow from the last token, and which breaks
// in one call of all that workers make.
type breaking struct {
	tokens         []int32
	states, logits []float32
	*calls
}

// calls counts the calls of all workers.
type calls struct {
	made    atomic.Int64
	breaks  int64        // in which call; 0: in none
	at, old atomic.Int64 // sequences of the call that broke; networks that were given back
	opened  atomic.Int64
	held    sync.Map // weak pointers to the networks
}

func (b *breaking) Tokens() []int32   { return b.tokens }
func (b *breaking) States() []float32 { return b.states }
func (b *breaking) Logits() []float32 { return b.logits }
func (b *breaking) Close() error      { b.old.Add(1); return nil }

func (b *breaking) Run(count int) error {
	if b.made.Add(1) == b.breaks {
		b.at.Store(int64(count))
		return errBroken
	}
	for i := range count {
		row := b.logits[i*lockstep.VocabSize:][:lockstep.VocabSize]
		clear(row)
		row[b.tokens[(i+1)*lockstep.ContextLength-1]] = 9
	}
	return nil
}

func breakingSimulator(t *testing.T, workers int, c *calls) *batched.Simulator {
	t.Helper()
	s, err := batched.New(batched.Config{
		Workers: workers, Chunk: 4, Model: "none", Inside: func() string { return "a test" },
		Open: func(capacity int, _ bool) (batched.Inference, error) {
			rows := capacity * lockstep.ContextLength
			c.opened.Add(1)
			b := &breaking{
				tokens: make([]int32, rows), states: make([]float32, 4*rows),
				logits: make([]float32, capacity*lockstep.VocabSize), calls: c,
			}
			c.held.Store(weak.Make(b), true)
			return b, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	about := s.About()
	if about.Inside != "a test" || about.Model != "none" || about.Kernels != "" {
		t.Errorf("of what is opened it says %+v", about)
	}
	return s
}

// TestBreaks: where a network breaks, all rollouts of that call fail at their step, with their
// routes' names, and no other one does; those have the results that they have without it.
func TestBreaks(t *testing.T) {
	sample := jobs(t, 110, 104, 120, 110, 107, 103, 115)
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	for _, workers := range []int{1, 2} {
		var want []lockstep.Result
		for _, breaks := range []int64{0, 1, 3, 7, 12} {
			c := &calls{breaks: breaks}
			got, broken := make([]lockstep.Result, len(sample)), 0
			s := breakingSimulator(t, workers, c)
			for i, r := range s.Simulate(t.Context(), sample, opts) {
				got[i] = r
			}
			if want == nil {
				want = slices.Clone(got)
			}
			for i, r := range got {
				what := fmt.Sprintf("%d workers, call %d, job %d", workers, breaks, i)
				if r.Err != nil {
					broken++
					checkBroken(t, what, sample[i].Route, r.Err)
					continue
				}
				if r.Costs != want[i].Costs {
					t.Errorf("%s: costs %v, without a break %v", what, r.Costs, want[i].Costs)
				}
				if err := simtest.Same(
					what+": lataccel", r.Trajectory.Lataccel, want[i].Trajectory.Lataccel,
				); err != nil {
					t.Error(err)
				}
			}
			if broken != int(c.at.Load()) || (broken == 0) != (breaks == 0) {
				t.Errorf("%d workers: call %d of %d rollouts broke, %d failed", workers, breaks,
					c.at.Load(), broken)
			}
			givenBack(t, fmt.Sprintf("%d workers, call %d", workers, breaks), c)
		}
	}
}

func checkBroken(t *testing.T, what string, r *lockstep.Route, err error) {
	t.Helper()
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "route "+r.Name) {
		t.Errorf("%s, route %s: %v", what, r.Name, err)
	}
}

// TestStepperBreaks: the same step by step, where what failed goes on from a snapshot.
func TestStepperBreaks(t *testing.T) {
	sample := jobs(t, 110, 110, 110)
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	c := &calls{breaks: 4}
	p, err := breakingSimulator(t, 1, c).Reset(t.Context(), sample, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n := len(sample)
	lataccels := make([]float64, n)
	step := func() {
		t.Helper()
		if err := p.Step(t.Context(), make([]float64, n), lataccels); err != nil {
			t.Fatal(err)
		}
	}
	for p.Index() < lockstep.ControlStartIdx+3 {
		step()
	}
	shot, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	step()
	for i := range n {
		if p.Running(i) || lataccels[i] == lataccels[i] {
			t.Errorf("rollout %d goes on with %v, where its network broke", i, lataccels[i])
		}
		checkBroken(t, "step by step", sample[i].Route, p.Err(i))
	}
	if err := p.Restore(t.Context(), shot); err != nil {
		t.Fatal(err)
	}
	for !p.Done() {
		step()
	}
	for i := range n {
		if p.Err(i) != nil {
			t.Errorf("rollout %d, from a snapshot before its network broke: %v", i, p.Err(i))
		}
	}
}

// givenBack: networks were opened, and all of them were closed.
func givenBack(t *testing.T, what string, c *calls) {
	t.Helper()
	if opened, old := c.opened.Load(), c.old.Load(); opened == 0 || old != opened {
		t.Errorf("%s: of %d networks %d are given back", what, opened, old)
	}
}

// TestGivenBack: what workers compute with is given back when a Stepper is closed, whichever of
// them compute, and held no longer; and when nobody wants more results. There are as many workers
// as Go has threads, which stay as many, if no number is given.
func TestGivenBack(t *testing.T) {
	const threads = 2
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	for workers := range 5 {
		c := &calls{}
		s := breakingSimulator(t, workers, c)
		for range s.Simulate(t.Context(), jobs(t, 101, 150, 150), lockstep.Options{}) {
			break
		}
		givenBack(t, fmt.Sprintf("%d workers, which are left", workers), c)
	}
	for workers := range 5 {
		c := &calls{}
		p, err := breakingSimulator(t, workers, c).Reset(
			t.Context(), jobs(t, 101, 101, 101), lockstep.Options{Shortcuts: lockstep.CostOnly})
		if err != nil {
			t.Fatal(err)
		}
		want := min(cmp.Or(workers, threads), 3)
		if c.opened.Load() != int64(want) || c.old.Load() != 0 {
			t.Errorf("%d workers of 3 rollouts open %d networks", workers, c.opened.Load())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		givenBack(t, fmt.Sprintf("%d workers of a Stepper", workers), c)
		runtime.GC()
		for network := range c.held.Range {
			if network.(weak.Pointer[breaking]).Value() != nil {
				t.Errorf("%d workers: a Stepper that is closed holds a network", workers)
			}
		}
		runtime.KeepAlive(p)
	}
}

// TestUnopened: where a worker's network cannot be opened, its rollouts fail by that, each with its
// route's name, and those of others go on; in step nothing begins, and what was made is closed.
func TestUnopened(t *testing.T) {
	sample := jobs(t, 101, 101, 101, 101, 101)
	for _, fails := range []int64{1, 2} {
		opened, c := atomic.Int64{}, &calls{}
		s, err := batched.New(batched.Config{
			Workers: 2, Chunk: 4, Model: "none", Inside: func() string { return "a test" },
			Open: func(capacity int, _ bool) (batched.Inference, error) {
				if opened.Add(1) == fails {
					return nil, errBroken
				}
				rows := capacity * lockstep.ContextLength
				return &breaking{
					tokens: make([]int32, rows), states: make([]float32, 4*rows),
					logits: make([]float32, capacity*lockstep.VocabSize), calls: c,
				}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		results, failed := 0, 0
		for i, r := range s.Simulate(t.Context(), sample, lockstep.Options{}) {
			if results++; r.Err != nil {
				failed++
				checkBroken(t, "unopened", sample[i].Route, r.Err)
			}
		}
		if results != len(sample) || failed == 0 && opened.Load() >= fails {
			t.Errorf("%d results of %d, of which %d failed, of %d networks", results, len(sample),
				failed, opened.Load())
		}
		opened.Store(0)
		c.old.Store(0)
		closed := 0
		gang := slices.Clone(sample)
		gang[1].Policy = &lockstep.Batch{
			Name: "closing", New: func([]*lockstep.Route) (lockstep.BatchController, error) {
				return closing{&closed}, nil
			},
		}
		if _, err := s.Reset(t.Context(), gang, lockstep.Options{}); !errors.Is(err, errBroken) ||
			c.old.Load() != fails-1 || closed != 1 {
			t.Errorf("in step: %v, %d of %d networks and %d of 1 controllers closed", err,
				c.old.Load(), fails-1, closed)
		}
	}
}

// closing counts how often it is closed.
type closing struct{ times *int }

func (closing) Update(*lockstep.BatchStep) error { return nil }
func (c closing) Close() error                   { *c.times++; return nil }
