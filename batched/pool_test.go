package batched

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep"
)

// TestPool: rollouts of many lengths keep all workers busy until the last few, whatever
// their number, and each is finished once. A step takes a millisecond a rollout, of a
// clock that the test turns.
func TestPool(t *testing.T) {
	for _, c := range []struct {
		jobs, workers int
		busy          float64 // share of the workers' time, at least
	}{
		{100, 1, 1},
		{100, 2, 0.99},
		{100, 7, 0.97},
		{100, 64, 0.85},
		{64, 64, 0.85},
		{3, 64, 0.04},
		{5000, 64, 0.99},
	} {
		t.Run(fmt.Sprintf("%d jobs, %d workers", c.jobs, c.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const shortest, longest, most = 350, 400, 20
				var work, finished atomic.Int64
				p := newPool(make([]lockstep.Job, c.jobs), c.workers, most)
				p.begin = func(u unit) *gang {
					i := u.jobs[0]
					r := &rollout{index: i, end: shortest + i*7919%(longest-shortest+1)}
					work.Add(int64(r.end))
					return &gang{rollouts: []*rollout{r}}
				}
				p.advance = func(_ int, all []*rollout) {
					if len(all) > most || len(all) > atFirst && finished.Load() == 0 {
						t.Errorf("a worker holds %d rollouts", len(all))
					}
					time.Sleep(time.Duration(len(all)) * time.Millisecond)
					for _, r := range all {
						r.step++
					}
				}
				p.finish = func(r *rollout) { finished.Add(1) }
				start := time.Now()
				p.run()
				took := time.Since(start)
				busy := float64(work.Load()) * float64(time.Millisecond) / float64(took) /
					float64(c.workers)
				t.Logf("%.1f %% busy", 100*busy)
				if finished.Load() != int64(c.jobs) || busy < c.busy {
					t.Errorf(
						"%d of %d jobs finished; workers are busy %.1f %% of the time, want "+
							"%.0f %%",
						finished.Load(), c.jobs, 100*busy, 100*c.busy,
					)
				}
			})
		})
	}
}

// TestUnits: how many routes the controllers of a batch policy steer, one after the other: few at
// first, a unit for each worker, then as many as leave two units for each. The jobs of others, and
// of a batch that is none, are alone.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		jobs, workers, capacity int
		want                    []int
	}{
		{101, 2, 80, []int{4, 4, 26, 26, 26, 15}},
		{101, 2, 20, []int{4, 4, 20, 20, 20, 20, 13}},
		{100, 1, 80, []int{4, 50, 46}},
		{9, 3, 80, []int{2, 2, 2, 2, 1}},
		{3, 4, 80, []int{1, 1, 1}},
	} {
		batch, jobs := &lockstep.Batch{}, []lockstep.Job{{Policy: (*lockstep.Batch)(nil)}}
		for range c.jobs {
			jobs = append(jobs, lockstep.Job{Policy: batch})
		}
		p := newPool(append(jobs, lockstep.Job{}), c.workers, c.capacity)
		var got []int
		for _, u := range p.together {
			got = append(got, len(u.jobs))
		}
		if !slices.Equal(got, c.want) || len(p.alone) != 2 {
			t.Errorf("%+v: units of %v, and %d jobs alone", c, got, len(p.alone))
		}
	}
}

// TestTake: how many of the gangs that are ready a worker takes, which of its own it gives back,
// and whether others hear that it wants more.
func TestTake(t *testing.T) {
	gangsOf := func(sizes ...int) (gangs []*gang) {
		for _, n := range sizes {
			gangs = append(gangs, &gang{rollouts: make([]*rollout, n)})
		}
		return gangs
	}
	for _, c := range []struct {
		what           string
		mine, ready    []int // rollouts of gangs
		together       int   // units that may not begin, since enough controllers are asked
		waiting        int
		wanting        bool
		want           []int
		left           int // that are ready
		wants          bool
		capacity, jobs int
	}{
		{
			"all that is over", []int{1}, []int{1, 1, 1}, 0, 1, false,
			[]int{1, 1, 1}, 1, false, 20, 6,
		},
		{
			"nothing that another waits for", []int{1}, []int{1}, 0, 1, false,
			[]int{1}, 1, false, 20, 6,
		},
		{"nothing there", []int{1}, nil, 0, 1, false, []int{1}, 0, true, 20, 6},
		{
			"a unit that may not begin counts", []int{1}, []int{1}, 1, 1, false,
			[]int{1, 1}, 0, true, 20, 6,
		},
		{"its share", []int{2}, []int{1, 1}, 0, 0, false, []int{2, 1}, 1, false, 20, 6},
		{"what fits its room", []int{2}, []int{2, 1}, 0, 0, false, []int{2, 1}, 1, false, 3, 8},
		{
			"less than it held, since another wants some", []int{2, 2, 1}, nil, 0, 0, true,
			[]int{2, 1}, 1, false, 20, 6,
		},
		{
			"less than it held, since another waits", []int{1, 1}, nil, 0, 1, false,
			[]int{1}, 1, false, 20, 2,
		},
		{
			"no more than it held if nobody wants any", []int{2, 2, 1}, nil, 0, 0, false,
			[]int{2, 2, 1}, 0, false, 20, 6,
		},
	} {
		p := &pool{
			workers: 2, capacity: c.capacity, jobs: c.jobs + 1, unfinished: c.jobs,
			ready: gangsOf(c.ready...), together: make([]unit, c.together), asking: 4,
			waiting: c.waiting, wanting: c.wanting,
		}
		p.changed.L = &p.mutex
		var got []int
		for _, g := range p.take(gangsOf(c.mine...)) {
			got = append(got, len(g.rollouts))
		}
		if !slices.Equal(got, c.want) || len(p.ready) != c.left || p.wanting != c.wants {
			t.Errorf("%s: takes gangs of %v, leaves %d, and wants more: %v; want %v, %d, %v",
				c.what, got, len(p.ready), p.wanting, c.want, c.left, c.wants)
		}
	}
}

// TestUnit: a batch controller begins while fewer are asked than there are workers, or twice as
// many once there is a result; jobs that come before its own begin before it.
func TestUnit(t *testing.T) {
	for _, c := range []struct {
		asking, unfinished int
		alone              []int
		want               int // the unit's first job, -1 without one
	}{
		{0, 9, nil, 5}, {1, 9, nil, 5}, {2, 9, nil, -1}, {2, 8, nil, 5}, {3, 8, nil, 5},
		{4, 8, nil, -1}, {2, 9, []int{7}, 7}, {0, 9, []int{7}, 5}, {0, 9, []int{3}, 3},
	} {
		p := &pool{
			workers: 2, jobs: 9, unfinished: c.unfinished, asking: c.asking,
			together: []unit{{policy: &lockstep.Batch{}, jobs: []int{5}}},
		}
		for _, job := range c.alone {
			p.alone = append(p.alone, unit{jobs: []int{job}})
		}
		got, asking := -1, c.asking
		if u, ok := p.unit(); ok {
			if got = u.jobs[0]; u.policy != nil {
				asking++
			}
		}
		if got != c.want || p.asking != asking {
			t.Errorf("%+v: job %d begins, and %d are asked", c, got, p.asking)
		}
	}
}

// TestFinished: all who wait hear of the first result, after which more may begin, and of the
// last; of others nobody hears.
func TestFinished(t *testing.T) {
	for unfinished, heard := range map[int]bool{5: true, 4: false, 2: false, 1: true} {
		synctest.Test(t, func(t *testing.T) {
			p := &pool{jobs: 5, unfinished: unfinished}
			p.changed.L = &p.mutex
			var woken atomic.Int64
			for range 2 {
				go func() {
					p.mutex.Lock()
					defer p.mutex.Unlock()
					p.changed.Wait()
					woken.Add(1)
				}()
			}
			synctest.Wait()
			p.finished()
			synctest.Wait()
			if got, want := woken.Load(), map[bool]int64{true: 2}[heard]; got != want {
				t.Errorf("with %d of 5 unfinished %d of 2 hear of a result, want %d",
					unfinished, got, want)
			}
			p.changed.Broadcast()
		})
	}
}
