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
