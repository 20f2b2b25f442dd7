package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/defaults"
	"lockstep/internal/simtest"
	"lockstep/reference"
)

// wrapper is a simulator around another, with its faults.
type wrapper struct {
	lockstep.Simulator
	name     string
	profile  func() lockstep.Profile
	simulate func(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options) iter.Seq2[int,
		lockstep.Result]
}

func (w *wrapper) Name() string { return w.name }

func (w *wrapper) Profile() lockstep.Profile {
	if w.profile != nil {
		return w.profile()
	}
	return w.Simulator.Profile()
}

func (w *wrapper) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return w.simulate(ctx, jobs, opts)
}

type (
	sequence = iter.Seq2[int, lockstep.Result]
	ctxt     = context.Context
)

// A mutant is a simulator with a fault, the check that must find it, and what that
// must say, in each of some lines.
type mutant struct {
	name  string
	make  func(w *wrapper, sim lockstep.Simulator)
	check string
	want  string
}

// lacks are those lines of what is wanted that are not said, each behind the one before.
func lacks(said, want string) string {
	var none []string
	for line := range strings.Lines(want) {
		_, behind, ok := strings.Cut(said, strings.TrimSuffix(line, "\n"))
		if !ok {
			none = append(none, line)
			continue
		}
		said = behind
	}
	return strings.Join(none, "")
}

// results changes the results.
func results(
	change func(jobs []lockstep.Job, opts lockstep.Options, i int,
		r lockstep.Result) lockstep.Result,
) func(*wrapper, lockstep.Simulator) {
	return func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				for i, r := range sim.Simulate(ctx, jobs, opts) {
					if !yield(i, change(jobs, opts, i, r)) {
						return
					}
				}
			}
		}
	}
}

// inputs changes what the simulator is given.
func inputs(
	change func(ctx ctxt, jobs []lockstep.Job, opts *lockstep.Options) ctxt,
) func(*wrapper, lockstep.Simulator) {
	return func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			jobs = slices.Clone(jobs)
			ctx = change(ctx, jobs, &opts)
			return sim.Simulate(ctx, jobs, opts)
		}
	}
}

// observer changes what an observer sees.
func observer(
	change func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)),
) func(*wrapper, lockstep.Simulator) {
	return inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
		for i := range jobs {
			if observe := jobs[i].Observe; observe != nil {
				jobs[i].Observe = func(s *lockstep.Step) { change(&jobs[i], s, observe) }
			}
		}
		return ctx
	})
}

// controllers changes the controllers of custom policies.
func controllers(
	change func(new func() lockstep.Controller) func() lockstep.Controller,
) func(*wrapper, lockstep.Simulator) {
	return inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
		for i := range jobs {
			if c, ok := jobs[i].Policy.(lockstep.Custom); ok && c.New != nil {
				c.New = change(c.New)
				jobs[i].Policy = c
			}
		}
		return ctx
	})
}

// batches changes what batch controllers are told.
func batches(change func(*lockstep.BatchStep)) func(*wrapper, lockstep.Simulator) {
	return inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
		others := map[*lockstep.Batch]*lockstep.Batch{}
		for i := range jobs {
			b, ok := jobs[i].Policy.(*lockstep.Batch)
			if !ok || b == nil || b.New == nil {
				continue
			}
			if others[b] == nil {
				others[b] = &lockstep.Batch{Name: b.Name, New: func(
					routes []*lockstep.Route,
				) (lockstep.BatchController, error) {
					c, err := b.New(routes)
					return told{c, change}, err
				}}
			}
			jobs[i].Policy = others[b]
		}
		return ctx
	})
}

// told is a batch controller that is told something else.
type told struct {
	lockstep.BatchController
	change func(*lockstep.BatchStep)
}

func (t told) Update(s *lockstep.BatchStep) error {
	other := *s
	t.change(&other)
	return t.BatchController.Update(&other)
}

// planned changes the plans that custom controllers are told.
func planned(change func(*lockstep.FuturePlan)) func(*wrapper, lockstep.Simulator) {
	return controllers(func(new func() lockstep.Controller) func() lockstep.Controller {
		return func() lockstep.Controller {
			c := new()
			return update(
				func(target, current float64, state lockstep.State,
					plan lockstep.FuturePlan) float64 {
					for _, column := range []*[]float64{
						&plan.Lataccel, &plan.RollLataccel, &plan.VEgo, &plan.AEgo,
					} {
						*column = slices.Clone(*column)
					}
					change(&plan)
					return c.Update(target, current, state, plan)
				},
			)
		}
	})
}

// route changes the routes that the simulator sees.
func route(change func(r *lockstep.Route)) func(*wrapper, lockstep.Simulator) {
	return inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
		for i := range jobs {
			r := copied(jobs[i].Route)
			change(r)
			jobs[i].Route = r
		}
		return ctx
	})
}

var mutants = []mutant{
	{"no name", func(w *wrapper, _ lockstep.Simulator) { w.name = "" }, "identity", "Name is \"\""},
	{"another profile each time", func(w *wrapper, sim lockstep.Simulator) {
		n := 0
		w.profile = func() lockstep.Profile {
			n++
			return lockstep.Profile{Exp: lockstep.Exp(n % 2)}
		}
	}, "identity", "Profile is"},
	{"a result for no job", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) { yield(0, lockstep.Result{}) }
		}
	}, "nothing", "a result for job 0 of 0"},
	{"drops the last result", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return sim.Simulate(ctx, jobs[:max(len(jobs)-1, 0)], opts)
		}
	}, "results", "job 7 of 8 has no result"},
	{"yields a result twice", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				for i, r := range sim.Simulate(ctx, jobs, opts) {
					if !yield(i, r) || i == 1 && !yield(i, r) {
						return
					}
				}
			}
		}
	}, "results", "job 1 of 8 has more than one result"},
	{"equal jobs have one result", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				seen := map[*lockstep.Route]bool{}
				for i, r := range sim.Simulate(ctx, jobs, opts) {
					if seen[jobs[i].Route] {
						continue
					}
					seen[jobs[i].Route] = true
					if !yield(i, r) {
						return
					}
				}
			}
		}
	}, "results", "has no result"},
	{"results of neighbours exchanged", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				all := make([]lockstep.Result, len(jobs))
				for i, r := range sim.Simulate(ctx, jobs, opts) {
					all[i] = r
				}
				if len(all) > 1 {
					all[0], all[1] = all[1], all[0]
				}
				for i, r := range all {
					if !yield(i, r) {
						return
					}
				}
			}
		}
	}, "results", "job 0 of 8, route g00002[:104], controller pid: stage trajectory's target"},
	{
		"a cost one ulp off",
		results(
			func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
				r.Costs.Lataccel = math.Nextafter(r.Costs.Lataccel, math.Inf(1))
				r.Costs.Total = float64(r.Costs.Lataccel*50) + r.Costs.Jerk
				return r
			},
		),
		"results", "stage costs, index 0 (lataccel): want ",
	},
	{
		"takes the first observer for all",
		inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
			for i := range jobs {
				jobs[i].Observe = jobs[0].Observe
			}
			return ctx
		}),
		"results", "job 0: Observe is called for step 20 after the job's result",
	},
	{"writes to the jobs", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			for i := range jobs {
				jobs[i].Observe = func(*lockstep.Step) {}
			}
			return sim.Simulate(ctx, jobs, opts)
		}
	}, "results", "job 0, its route or its teacher was written to"},
	{
		"leaves a step out",
		observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if s.Index != 50 {
				observe(s)
			}
		}),
		"results", "Observe is called for step 51, want step 50 next",
	},
	{"exchanges two steps", func(w *wrapper, sim lockstep.Simulator) {
		var held *lockstep.Step
		observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			switch {
			case s.Index == 30:
				held = clone(s)
			case s.Index == 31:
				observe(s)
				observe(held)
			default:
				observe(s)
			}
		})(w, sim)
	}, "results", "Observe is called for step 31, want step 30 next"},
	{
		"the last step is not shown",
		observer(func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if s.Index != job.Route.Len()-1 {
				observe(s)
			}
		}),
		"results", "83 steps are observed, want 84",
	},
	{"Observe after the result", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				late := slices.Clone(jobs)
				last := make([]*lockstep.Step, len(jobs))
				for i := range late {
					observe := late[i].Observe
					if observe == nil {
						continue
					}
					late[i].Observe = func(s *lockstep.Step) {
						if s.Index == late[i].Route.Len()-1 {
							last[i] = clone(s)
						} else {
							observe(s)
						}
					}
				}
				for i, r := range sim.Simulate(ctx, late, opts) {
					if !yield(i, r) {
						return
					}
					if last[i] != nil {
						jobs[i].Observe(last[i])
					}
				}
			}
		}
	}, "results", "Observe is called for step 103 after the job's result"},
	{
		"slices reused while Observe runs",
		observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if s.Index == lockstep.ControlStartIdx {
				s = clone(s)
				done := make(chan struct{})
				defer close(done)
				go func() {
					for x := float32(2); ; x++ {
						select {
						case <-done:
							return
						case <-time.After(50 * time.Microsecond):
							s.Probs[7] = x
						}
					}
				}()
			}
			observe(s)
		}),
		"results", "while Observe runs: step 100, stage probs, index 7: ",
	},
	{"stages of skipped steps", func(w *wrapper, sim lockstep.Simulator) {
		inputs(func(ctx ctxt, jobs []lockstep.Job, opts *lockstep.Options) ctxt {
			opts.Shortcuts &^= lockstep.SkipWarmup
			return ctx
		})(w, sim)
	}, "results", "step 20: the network was to be skipped"},
	{
		"a logit one ulp off at one step",
		observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if s.Logits != nil && s.Index == 102 {
				s = clone(s)
				s.Logits[1000] = math.Nextafter32(s.Logits[1000], 100)
			}
			observe(s)
		}),
		"results", "step 102, stage logits, index 1000: want ",
	},
	{
		"unnormalised CDF",
		observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if s = clone(s); s.CDF != nil {
				s.CDF[1023] = math.Nextafter(1, 0)
			}
			observe(s)
		}),
		"results", "stage cdf does not rise to 1 but to 0.9999999999999999",
	},
	{
		"a trajectory that nobody asked for",
		inputs(func(ctx ctxt, _ []lockstep.Job, opts *lockstep.Options) ctxt {
			opts.Trajectory = true
			return ctx
		}),
		"results", "a trajectory is there: true, want false",
	},
	{"no trajectory", inputs(func(ctx ctxt, _ []lockstep.Job, opts *lockstep.Options) ctxt {
		opts.Trajectory = false
		return ctx
	}), "results", "a trajectory is there: false, want true"},
	{
		"a trajectory one step short",
		results(
			func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
				if t := r.Trajectory; t != nil {
					t.Action = t.Action[:len(t.Action)-1]
				}
				return r
			},
		),
		"results", "stage trajectory's action: want 104 values, got 103 values",
	},
	{
		"a trajectory that is the route's own",
		results(
			func(jobs []lockstep.Job, _ lockstep.Options, i int,
				r lockstep.Result) lockstep.Result {
				if t := r.Trajectory; t != nil {
					t.Target = jobs[i].Route.TargetLataccel
				}
				return r
			},
		),
		"results", "writing to the trajectory changes the route's target",
	},
	{
		"SkipWarmup without its draws",
		undrawn(func(job *lockstep.Job, s *lockstep.Step) bool {
			return s.Index < lockstep.ControlStartIdx && s.Logits == nil
		}),
		"results", "step 20, stage draw, index 0: want ",
	},
	{
		"draws one late",
		observer(func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			s = clone(s)
			s.Draw = lockstep.Draws(job.Route.Seed, 1000)[s.Index-lockstep.ContextLength+1]
			observe(s)
		}),
		"results", "step 20, stage draw, index 0: want ",
	},
	{
		"trusts the route's draws",
		observer(func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if d := job.Route.Draws; len(d) >= job.Route.Len()-lockstep.ContextLength {
				s = clone(s)
				s.Draw = d[s.Index-lockstep.ContextLength]
			}
			observe(s)
		}),
		"draws", "draw",
	},
	{"ignores StopAtCostEnd", inputs(func(ctx ctxt, _ []lockstep.Job, opts *lockstep.Options) ctxt {
		opts.Shortcuts &^= lockstep.StopAtCostEnd
		return ctx
	}), "lengths", "481 steps are observed, want 480"},
	{"one controller for all jobs", func(w *wrapper, sim lockstep.Simulator) {
		made := map[string]lockstep.Controller{}
		inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
			clear(made)
			for i := range jobs {
				if c, ok := jobs[i].Policy.(lockstep.Custom); ok && c.Name == "weave" {
					c.New = func() lockstep.Controller {
						if made[c.Name] == nil {
							made[c.Name] = weave.New()
						}
						return made[c.Name]
					}
					jobs[i].Policy = c
				}
			}
			return ctx
		})(w, sim)
	}, "policies", "controller weave: step 100, stage action,"},
	{
		"New twice for a job",
		controllers(func(new func() lockstep.Controller) func() lockstep.Controller {
			return func() lockstep.Controller { new(); return new() }
		}),
		"policies", "New made 2 controllers, want 1",
	},
	{
		"controllers rest in the warm-up",
		controllers(func(new func() lockstep.Controller) func() lockstep.Controller {
			return func() lockstep.Controller {
				c, step := new(), lockstep.ContextLength-1
				return update(
					func(target, current float64, state lockstep.State,
						plan lockstep.FuturePlan) float64 {
						if step++; step < lockstep.ControlStartIdx {
							return 0
						}
						return c.Update(target, current, state, plan)
					},
				)
			}
		}),
		"results", "controller weave: step 100, stage action",
	},
	{
		"a plan of 48 steps",
		controllers(func(new func() lockstep.Controller) func() lockstep.Controller {
			return func() lockstep.Controller {
				c := new()
				return update(
					func(target, current float64, state lockstep.State,
						plan lockstep.FuturePlan) float64 {
						plan.AEgo = plan.AEgo[:min(48, len(plan.AEgo))]
						if len(plan.Lataccel) == 49 {
							plan.Lataccel, plan.RollLataccel, plan.VEgo = plan.Lataccel[:48],
								plan.RollLataccel[:48], plan.VEgo[:48]
						}
						return c.Update(target, current, state, plan)
					},
				)
			}
		}),
		"policies", "controller weave: step 100, stage action,",
	},
	{
		"controllers see the target as lataccel",
		controllers(func(new func() lockstep.Controller) func() lockstep.Controller {
			return func() lockstep.Controller {
				c := new()
				return update(
					func(target, current float64, state lockstep.State,
						plan lockstep.FuturePlan) float64 {
						return c.Update(target, target, state, plan)
					},
				)
			}
		}),
		"results", "controller weave: step 100, stage action",
	},
	{
		"batch controllers are not closed",
		inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
			for i := range jobs {
				if b, ok := jobs[i].Policy.(*lockstep.Batch); ok {
					jobs[i].Policy = &lockstep.Batch{
						Name: b.Name,
						New: func(r []*lockstep.Route) (lockstep.BatchController, error) {
							c, err := b.New(r)
							return unclosed{c}, err
						},
					}
				}
			}
			return ctx
		}),
		"policies", "a batch controller was closed 0 times, want once",
	},
	{"actions are not clipped", func(w *wrapper, sim lockstep.Simulator) {
		observer(func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if c, ok := job.Policy.(lockstep.Custom); ok && strings.HasPrefix(c.Name, "constant") &&
				s.Index >= lockstep.ControlStartIdx {
				s = clone(s)
				s.Action = c.New().Update(0, 0, lockstep.State{}, lockstep.FuturePlan{})
			}
			observe(s)
		})(w, sim)
	}, "clipping", "action"},
	{
		"an action one ulp off where a target is far",
		observer(func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if math.Abs(job.Route.TargetLataccel[s.Index]) > 6 && s.Index > 104 {
				s = clone(s)
				s.Action = math.Nextafter(s.Action, 3)
			}
			observe(s)
		}),
		"clipping", "job 0 of 2, route wild, controller pid: step 105, stage action",
	},
	{"ignores Teacher", inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
		for i := range jobs {
			jobs[i].Teacher = nil
		}
		return ctx
	}), "teacher", "step 100, stage lataccel, index 0: want "},
	{
		"reports the teacher's action as its own",
		observer(func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if job.Teacher != nil && len(job.Teacher.Action) > s.Index {
				s = clone(s)
				s.Action = job.Teacher.Action[s.Index]
			}
			observe(s)
		}),
		"teacher", "stage action",
	},
	{
		"a teacher that is too short is padded",
		inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
			for i := range jobs {
				if t := jobs[i].Teacher; t != nil {
					jobs[i].Teacher = &lockstep.Trajectory{
						Lataccel: append(slices.Clone(t.Lataccel), make([]float64, 700)...),
						Action:   append(slices.Clone(t.Action), make([]float64, 700)...),
					}
				}
			}
			return ctx
		}),
		"failures", "the teacher is too short: no error",
	},
	{"writes to the route", inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
		for i := range jobs {
			if r := jobs[i].Route; len(r.Draws) > 5 {
				r.Draws[5] /= 2 // which the reference does not read
			}
		}
		return ctx
	}), "results", "job 0, its route or its teacher was written to"},
	{"writes to a teacher", inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
		for i := range jobs {
			if teacher := jobs[i].Teacher; teacher != nil {
				teacher.Target = []float64{1} // which nobody is taught
			}
		}
		return ctx
	}), "teacher", "its route or its teacher was written to"},
	{"an error spreads to the next job", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				var before error
				for i, r := range sim.Simulate(ctx, jobs, opts) {
					if before != nil && !errors.Is(before, context.Canceled) && r.Err == nil &&
						len(jobs) == 5 &&
						jobs[0].Teacher == nil &&
						jobs[1].Teacher == nil {
						r = lockstep.Result{Err: before}
					}
					before = r.Err
					if !yield(i, r) {
						return
					}
				}
			}
		}
	}, "failures", "differs beside job 0, which fails: 81 steps and error "},
	{
		"NaN steers straight on",
		controllers(func(new func() lockstep.Controller) func() lockstep.Controller {
			return func() lockstep.Controller {
				c := new()
				return update(
					func(target, current float64, state lockstep.State,
						plan lockstep.FuturePlan) float64 {
						x := c.Update(target, current, state, plan)
						if x != x {
							return 0
						}
						return x
					},
				)
			}
		}),
		"failures", "the controller answers NaN: no error",
	},
	{
		"errors lose what they wrap",
		results(
			func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
				if r.Err != nil {
					r.Err = errors.New(r.Err.Error())
				}
				return r
			},
		),
		"failures", "does not wrap the controller's",
	},
	{
		"an error without the route",
		results(
			func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
				if r.Err != nil && errors.Unwrap(r.Err) != nil {
					r.Err = errors.Unwrap(r.Err)
				}
				return r
			},
		),
		"failures", "does not name the route",
	},
	{
		"costs of a job whose context has ended",
		results(
			func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
				if errors.Is(r.Err, context.Canceled) {
					r.Costs.Total = 1
				}
				return r
			},
		),
		"cancel", "job 0 did not finish, and has costs or a trajectory",
	},
	{
		"another trajectory where only costs are asked for",
		results(
			func(_ []lockstep.Job, opts lockstep.Options, _ int,
				r lockstep.Result) lockstep.Result {
				if opts.Shortcuts == lockstep.CostOnly && r.Trajectory != nil {
					r.Trajectory.Lataccel[101]++
				}
				return r
			},
		),
		"shortcuts", "job 0 of 2, route g00002[:102], controller pid: stage trajectory's lataccel",
	},
	{
		"costs of a failed job",
		results(
			func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
				if r.Err != nil {
					r.Costs.Total = 1
				}
				return r
			},
		),
		"failures", "the job failed, and has costs or a trajectory",
	},
	{"ignores the context", inputs(func(_ ctxt, _ []lockstep.Job, _ *lockstep.Options) ctxt {
		return context.Background()
	}), "cancel", "job 4 in a context that has ended: error <nil>, want context.DeadlineExceeded"},
	{"looks at the context at the start only", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			if ctx.Err() == nil {
				ctx = context.WithoutCancel(ctx)
			}
			return sim.Simulate(ctx, jobs, opts)
		}
	}, "cancel", "job 0 of three, during which the context ended: error <nil>\n" +
		"job 2 of three, during which the context ended: error <nil>"},
	{"yields after break", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				for i, r := range sim.Simulate(ctx, jobs, opts) {
					yield(i, r)
				}
			}
		}
	}, "break", "break: in Simulate: panic: "},
	{"works on after break", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				results := make(chan func() bool, 1000)
				go func() {
					defer close(results)
					for i, r := range sim.Simulate(ctx, jobs, opts) {
						results <- func() bool { return yield(i, r) }
					}
				}()
				for f := range results {
					if !f() {
						return
					}
				}
			}
		}
	}, "break", "after the loop was left"},
	{"swallows the caller's panic", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				defer func() { recover() }()
				sim.Simulate(ctx, jobs, opts)(yield)
			}
		}
	}, "break", "a panic in the loop"},
	{"a neighbour's history in batches", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			jobs = slices.Clone(jobs)
			if n := len(jobs); n > 1 && n%5 > 0 { // not all five, once or more often
				r := *jobs[1].Route
				r.SteerCommand = slices.Concat(
					r.SteerCommand[:lockstep.ContextLength],
					jobs[0].Route.SteerCommand[lockstep.ContextLength:lockstep.ControlStartIdx],
				)
				jobs[1].Route = &r
			}
			return sim.Simulate(ctx, jobs, opts)
		}
	}, "batches", "in a batch of 2: step \nin a batch of 3: step \nin a batch of 4: step \n" +
		"in a batch of 7: step \nin a batch of 16: step \nin a batch of 33: step "},
	{
		"costs that end a step late",
		results(
			func(jobs []lockstep.Job, opts lockstep.Options, i int,
				r lockstep.Result) lockstep.Result {
				if jobs[i].Route.Len() > lockstep.CostEndIdx &&
					opts.Shortcuts&lockstep.StopAtCostEnd == 0 {
					r.Costs.Jerk *= 1.01
					r.Costs.Total = float64(r.Costs.Lataccel*50) + r.Costs.Jerk
				}
				return r
			},
		),
		"lengths", "(jerk): want \nshortcuts 101: costs {",
	},
	{
		"a jerk of one step that costs",
		results(
			func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
				if math.IsNaN(r.Costs.Jerk) {
					r.Costs.Jerk, r.Costs.Total = 0, r.Costs.Lataccel*50
				}
				return r
			},
		),
		"results", "NaN NaN}",
	},
	{
		"a fault of the last token",
		observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if s.Sample == lockstep.VocabSize-1 {
				s = clone(s)
				s.Prediction = math.Nextafter(s.Prediction, 0)
			}
			observe(s)
		}),
		"branches", "route hard-high, controller pid_-3_0_0, step 20, stage prediction",
	},
	{
		"a fault late in one route",
		observer(func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if s.Index == 590 && job.Route.Name == "g00008" {
				s = clone(s)
				s.Probs[3] = math.Nextafter32(s.Probs[3], 1)
			}
			observe(s)
		}),
		"reference", "step 590, stage probs, index 3: want ",
	},
	{
		"a wrong seed", route(func(r *lockstep.Route) { r.Seed++ }), "results",
		"stage draw, index 0: want ",
	},
	{
		"other costs where nobody observes and only costs are asked for",
		results(
			func(jobs []lockstep.Job, opts lockstep.Options, _ int,
				r lockstep.Result) lockstep.Result {
				if opts.Shortcuts == lockstep.CostOnly &&
					!slices.ContainsFunc(
						jobs, func(j lockstep.Job) bool { return j.Observe != nil },
					) {
					r.Costs.Jerk, r.Costs.Total = r.Costs.Jerk+1, r.Costs.Total+1
				}
				return r
			},
		),
		"observe", "where the jobs [0 1 2 3 4] are not observed: stage costs, index 1 (jerk)",
	},
	{
		"another trajectory in batches of 17 and more",
		results(
			func(jobs []lockstep.Job, _ lockstep.Options, i int,
				r lockstep.Result) lockstep.Result {
				if len(jobs) > 16 && r.Trajectory != nil && i > 0 {
					r.Trajectory.Lataccel[40] = 1
				}
				return r
			},
		),
		"batches", "job 1 of 70",
	},
	{"a plan's speeds one ulp off", planned(func(p *lockstep.FuturePlan) {
		for i, v := range p.VEgo {
			p.VEgo[i] = math.Nextafter(v, 100)
		}
	}), "policies", "stage action, index 0: want "},
	{
		"a plan's roll for its acceleration",
		planned(func(p *lockstep.FuturePlan) { p.RollLataccel, p.AEgo = p.AEgo, p.RollLataccel }),
		"policies", "stage action, index 0: want ",
	},
	{
		"a plan's speeds one too long",
		planned(func(p *lockstep.FuturePlan) { p.VEgo = append(p.VEgo, 1) }), "policies",
		"stage action, index 0: want ",
	},
	{
		"two controllers where only costs are asked for",
		inputs(func(ctx ctxt, jobs []lockstep.Job, opts *lockstep.Options) ctxt {
			for i := range jobs {
				if c, ok := jobs[i].Policy.(lockstep.Custom); ok &&
					opts.Shortcuts == lockstep.CostOnly {
					c.New()
				}
			}
			return ctx
		}),
		"policies", "New made 2 controllers, want 1",
	},
	{
		"a total that is no sum",
		results(
			func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
				r.Costs.Total++
				return r
			},
		),
		"results", "costs {",
	},
	{"no states", observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
		s = clone(s)
		s.States = nil
		observe(s)
	}), "results", "stage states"},
	{
		"the states' actions one step old",
		observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
			if s = clone(s); s.States != nil {
				s.States[4*7] = s.States[4*6]
			}
			observe(s)
		}),
		"results", "action 7 of the states is ",
	},
	{"asks controllers twice", inputs(
		func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
			for i := range jobs {
				c, ok := jobs[i].Policy.(lockstep.Custom)
				if !ok || c.Name != "counted" { // in which nothing else is told
					continue
				}
				jobs[i].Policy = lockstep.Custom{Name: c.Name, New: func() lockstep.Controller {
					asked := c.New()
					return update(func(target, current float64, state lockstep.State,
						plan lockstep.FuturePlan) float64 {
						asked.Update(target, current, state, plan)
						return asked.Update(target, current, state, plan)
					})
				}}
			}
			return ctx
		}), "policies", "job 4: the controller was asked 170 times in 85 steps"},
	{"tells batch controllers the step before", batches(func(s *lockstep.BatchStep) { s.Step-- }),
		"policies", "step 19, want step 20 next"},
	{"steers one route without its batch controller",
		inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
			if b, ok := jobs[0].Policy.(*lockstep.Batch); ok && b.Name == "watched" {
				jobs[0].Policy = weave
			}
			return ctx
		}), "policies", " in 1 jobs more than batch controllers were made for it"},
	{"has no results of many jobs", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			if len(jobs) >= 40 {
				return func(func(int, lockstep.Result) bool) {}
			}
			return sim.Simulate(ctx, jobs, opts)
		}
	}, "break", "a panic in the loop over the results does not reach the caller"},
	{"never ends", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(func(int, lockstep.Result) bool) { time.Sleep(20 * time.Second) }
		}
	}, "nothing", "does not end within 50ms"},
	{
		"targets that the next call writes to",
		rewritten(func(t *lockstep.Trajectory) *[]float64 { return &t.Target }),
		"results", "job 0 of 8, after another call: stage trajectory's target, index \n" +
			"job 7 of 8, after another call: stage trajectory's target, index ",
	},
	{
		"lataccels that the next call writes to",
		rewritten(func(t *lockstep.Trajectory) *[]float64 { return &t.Lataccel }),
		"results", "job 0 of 8, after another call: stage trajectory's lataccel, index \n" +
			"job 7 of 8, after another call: stage trajectory's lataccel, index ",
	},
	{
		"actions that the next call writes to",
		rewritten(func(t *lockstep.Trajectory) *[]float64 { return &t.Action }),
		"results", "job 0 of 8, after another call: stage trajectory's action, index \n" +
			"job 7 of 8, after another call: stage trajectory's action, index ",
	},
	{
		"other costs where all shortcuts are taken",
		jerky(func(_ []lockstep.Job, o lockstep.Options, _ int) bool {
			return o.Shortcuts == lockstep.CostOnly
		}),
		"shortcuts",
		"job 0, shortcuts 111 and none: stage costs, index 1 (jerk)\n" +
			"job 1, shortcuts 111 and none: stage costs, index 1 (jerk)",
	},
	{
		"other costs where only the warm-up is skipped",
		jerky(func(_ []lockstep.Job, o lockstep.Options, _ int) bool {
			return o.Shortcuts == lockstep.SkipWarmup
		}),
		"shortcuts", "job 1, shortcuts 001 and none: stage costs, index 1 (jerk)",
	},
	{
		"other costs after break", left(false), "break",
		"job 4, run again after break: stage costs, index 1 (jerk)",
	},
	{
		"other costs after a panic", left(true), "break",
		"job 4, run again after a panic in the loop: stage costs, index 1 (jerk)",
	},
	{
		"other costs of the last of 70 jobs",
		jerky(func(jobs []lockstep.Job, _ lockstep.Options, i int) bool {
			return len(jobs) == 70 && i >= 65
		}),
		"batches",
		"job 65 of 70, and alone: stage costs, index 1\njob 69 of 70, and alone: stage costs",
	},
	{
		"other costs where some are not observed",
		jerky(func(jobs []lockstep.Job, o lockstep.Options, i int) bool {
			return i == 4 && jobs[0].Observe != nil && jobs[3].Observe == nil
		}),
		"observe", "job 4, where the jobs [1 3] are not observed: stage costs",
	},
	{
		"a total that is no sum where calls are counted",
		unsummed(func(jobs []lockstep.Job, _ lockstep.Options, i int) bool {
			c, ok := jobs[i].Policy.(lockstep.Custom)
			return ok && c.Name == "counted" && i == 4
		}),
		"policies", "job 4: costs {",
	},
	{
		"other costs of what a batch controller steers", jerky(watchedOnly), "policies",
		"job 0, steered by a batch controller: stage costs, index 1 (jerk)\n" +
			"job 5, steered by a batch controller: stage costs, index 1 (jerk)",
	},
	{
		"steers one of two equal jobs without its batch controller",
		inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
			seen := map[*lockstep.Route]bool{}
			for i := range jobs {
				if watchedOnly(jobs, lockstep.Options{}, i) && seen[jobs[i].Route] {
					jobs[i].Policy = weave
				}
				seen[jobs[i].Route] = true
			}
			return ctx
		}),
		"policies", "route g00002[:104] is in 1 jobs more than batch controllers were made for it",
	},
	{
		"errors that name the route alone",
		results(
			func(jobs []lockstep.Job, _ lockstep.Options, i int,
				r lockstep.Result) lockstep.Result {
				if r.Err != nil && jobs[i].Route != nil {
					r.Err = errors.New("it fails on " + jobs[i].Route.Name)
				}
				return r
			},
		),
		"failures",
		`the controller panics: error "it fails on g00002[:106]" does not say "step 104: panic: ` +
			`out of fuel"`,
	},
	{
		"other costs beside the third job where that fails",
		func(w *wrapper, sim lockstep.Simulator) {
			w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
				return func(yield func(int, lockstep.Result) bool) {
					all := make([]lockstep.Result, len(jobs))
					for i, r := range sim.Simulate(ctx, jobs, opts) {
						all[i] = r
					}
					for i, r := range all {
						if i == 4 && all[2].Err != nil {
							r.Costs.Total++
						}
						if !yield(i, r) {
							return
						}
					}
				}
			}
		},
		"failures", "job 4 of 5 differs beside job 2, which fails: stage costs",
	},
	{
		"pads a route's draws",
		undrawn(func(job *lockstep.Job, s *lockstep.Step) bool {
			d := job.Route.Draws
			return len(d) > 0 && s.Index-lockstep.ContextLength >= len(d)
		}),
		"draws", "job 6 of 12, route g00002[:103], controller zero: step 30, stage draw, index 0",
	},
	{
		"draws none for the last seed",
		undrawn(func(job *lockstep.Job, s *lockstep.Step) bool {
			return job.Route.Seed == math.MaxUint32
		}),
		"draws", "job 2 of 12, route g00002[:103], controller zero: ",
	},
	{
		"draws others where it is taught",
		undrawn(func(job *lockstep.Job, s *lockstep.Step) bool {
			return job.Teacher != nil && s.Index < lockstep.ControlStartIdx
		}),
		"draws", "job 0 of 12, route g00002[:103], controller zero: ",
	},
	{
		"a total that is no sum of the last seed, by the last position alone",
		unsummed(func(jobs []lockstep.Job, opts lockstep.Options, i int) bool {
			return opts.Shortcuts == lockstep.LastPosition && jobs[i].Route.Seed == math.MaxUint32
		}),
		"draws", "job 2 of 4, route g00002[:103], controller zero: costs {",
	},
	{"a name of two words", func(w *wrapper, _ lockstep.Simulator) { w.name = "a b" }, "identity",
		`Name is "a b", want one word that stays the same`},
	{"a name of two lines", func(w *wrapper, _ lockstep.Simulator) { w.name = "a\nb" }, "identity",
		`Name is "a\nb", want one word that stays the same`},
}

// near are simulators with a fault of one job or number that others are beside: the last of all.
var near = []mutant{
	{
		"other costs of the last job",
		jerky(func(_ []lockstep.Job, _ lockstep.Options, i int) bool { return i == 7 }),
		"results", "job 7 of 8, route g00002[:104], controller pid: stage costs, index 1 (jerk)",
	},
	{
		"a total that is no sum in the last job",
		unsummed(func(_ []lockstep.Job, _ lockstep.Options, i int) bool {
			return i == 7
		}),
		"results", "job 7 of 8, route g00002[:104], controller pid: costs {",
	},
	{
		"other costs of the fourth job where only costs are asked for",
		jerky(func(_ []lockstep.Job, o lockstep.Options, i int) bool {
			return i == 3 && o.Shortcuts == lockstep.CostOnly
		}),
		"results", "job 3 of 8, route g00010[:103], controller pid: stage costs, index 1 (jerk)",
	},
	{"writes to the last job", func(w *wrapper, sim lockstep.Simulator) {
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			jobs[len(jobs)-1].Observe = func(*lockstep.Step) {}
			return sim.Simulate(ctx, jobs, opts)
		}
	}, "results", "job 7, its route or its teacher was written to"},
	{"tells controllers the target one ulp off", ulp(0), "results",
		"controller weave: step 100, stage action"},
	{"tells controllers the lataccel one ulp off", ulp(1), "results",
		"controller weave: step 100, stage action"},
}

// ulp tells controllers the next number for one of target and lataccel.
func ulp(at int) func(*wrapper, lockstep.Simulator) {
	return controllers(func(new func() lockstep.Controller) func() lockstep.Controller {
		return func() lockstep.Controller { return off{new(), at} }
	})
}

// off is a controller that is told the next number for one.
type off struct {
	lockstep.Controller
	at int
}

func (o off) Update(
	target, current float64, state lockstep.State, plan lockstep.FuturePlan,
) float64 {
	told := []float64{target, current}
	told[o.at] = math.Nextafter(told[o.at], 9)
	return o.Controller.Update(told[0], told[1], state, plan)
}

// sound are simulators without a fault that are unlike others, of which nothing is said.
var sound = []mutant{
	{"wraps the context's errors", wrapping, "cancel", "<nil>"},
	{"wraps controllers' errors", wrapping, "failures", "<nil>"},
	{"makes batch controllers for a list that it writes to", relisting, "policies", "<nil>"},
}

// relisting clears the routes that batch controllers are made for, once they are made.
var relisting = inputs(func(ctx ctxt, jobs []lockstep.Job, _ *lockstep.Options) ctxt {
	others := map[*lockstep.Batch]*lockstep.Batch{}
	for i := range jobs {
		b, ok := jobs[i].Policy.(*lockstep.Batch)
		if !ok {
			continue
		}
		if others[b] == nil {
			others[b] = &lockstep.Batch{Name: b.Name, New: func(
				routes []*lockstep.Route,
			) (lockstep.BatchController, error) {
				list := slices.Clone(routes)
				defer clear(list)
				return b.New(list)
			}}
		}
		jobs[i].Policy = others[b]
	}
	return ctx
})

// wrapping has errors say once more what they are of.
func wrapping(w *wrapper, sim lockstep.Simulator) {
	results(func(_ []lockstep.Job, _ lockstep.Options, _ int, r lockstep.Result) lockstep.Result {
		if r.Err != nil {
			r.Err = fmt.Errorf("the simulator: %w", r.Err)
		}
		return r
	})(w, sim)
}

// jerky adds to the costs of some jobs, which stay those of lataccel and jerk.
func jerky(
	is func(jobs []lockstep.Job, opts lockstep.Options, i int) bool,
) func(*wrapper, lockstep.Simulator) {
	return results(
		func(jobs []lockstep.Job, opts lockstep.Options, i int, r lockstep.Result) lockstep.Result {
			if r.Err == nil && is(jobs, opts, i) {
				r.Costs.Jerk++
				r.Costs.Total = float64(r.Costs.Lataccel*50) + r.Costs.Jerk
			}
			return r
		},
	)
}

// unsummed adds to the total of some jobs, which then is no sum.
func unsummed(
	is func(jobs []lockstep.Job, opts lockstep.Options, i int) bool,
) func(*wrapper, lockstep.Simulator) {
	return results(
		func(jobs []lockstep.Job, opts lockstep.Options, i int, r lockstep.Result) lockstep.Result {
			if is(jobs, opts, i) {
				r.Costs.Total++
			}
			return r
		},
	)
}

// undrawn shows a draw of 0 where is says so.
func undrawn(
	is func(job *lockstep.Job, s *lockstep.Step) bool,
) func(*wrapper, lockstep.Simulator) {
	return observer(func(job *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
		if is(job, s) {
			s = clone(s)
			s.Draw = 0
		}
		observe(s)
	})
}

// left adds to the costs of the last job once a loop was left, by break or by panic.
func left(byPanic bool) func(*wrapper, lockstep.Simulator) {
	return func(w *wrapper, sim lockstep.Simulator) {
		was := false
		jerky(func(jobs []lockstep.Job, _ lockstep.Options, i int) bool {
			return was && i == len(jobs)-1
		})(w, sim)
		simulate := w.simulate
		w.simulate = func(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
			return func(yield func(int, lockstep.Result) bool) {
				simulate(ctx, jobs, opts)(func(i int, r lockstep.Result) bool {
					done := false
					defer func() { was = was || byPanic && !done }()
					more := yield(i, r)
					done, was = true, was || !byPanic && !more
					return more
				})
			}
		}
	}
}

// watchedOnly is whether a job is steered by a batch controller that is watched.
func watchedOnly(jobs []lockstep.Job, _ lockstep.Options, i int) bool {
	b, ok := jobs[i].Policy.(*lockstep.Batch)
	return ok && b != nil && b.Name == "watched"
}

// rewritten has each job's column be in the same array in each call.
func rewritten(
	column func(*lockstep.Trajectory) *[]float64,
) func(*wrapper, lockstep.Simulator) {
	return func(w *wrapper, sim lockstep.Simulator) {
		rooms := map[int][]float64{}
		results(
			func(_ []lockstep.Job, _ lockstep.Options, i int, r lockstep.Result) lockstep.Result {
				if r.Trajectory != nil {
					x := column(r.Trajectory)
					rooms[i] = append(rooms[i][:0], *x...)
					*x = rooms[i]
				}
				return r
			},
		)(w, sim)
	}
}

// asked notes what checks ask of a simulator: for each of them jobs and calls, in words.
type asked struct {
	*reference.Simulator
	mutex sync.Mutex
	check string
	times map[string]int
}

func (a *asked) Simulate(ctx ctxt, jobs []lockstep.Job, opts lockstep.Options) sequence {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.times[fmt.Sprintf("%s: %d jobs", a.check, len(jobs))]++
	for _, j := range jobs {
		if j.Route == nil {
			continue
		}
		a.times[fmt.Sprintf("%s: %d rows by %03b, trajectory %v", a.check, j.Route.Len(),
			opts.Shortcuts, opts.Trajectory)]++
		a.times[fmt.Sprintf("%s: seed %d, %d draws, taught %v, %03b", a.check, j.Route.Seed,
			len(j.Route.Draws), j.Teacher != nil, opts.Shortcuts)]++
	}
	return a.Simulator.Simulate(ctx, jobs, opts)
}

// asks are what has to be asked of a simulator, by check: batches about as wide as vectors are,
// costs that end before, at and after a route does, each combination of shortcuts, plans that the
// route ends before, and draws of seeds at both ends, too few and none.
var asks = map[string][]string{
	"results": {
		"8 jobs", "101 rows by 101, trajectory true", "101 rows by 111, trajectory false",
	},
	"observe": {"5 jobs", "101 rows by 101, trajectory true", "101 rows by 111, trajectory false"},
	"shortcuts": {
		"102 rows by 000, trajectory true", "103 rows by 001, trajectory true",
		"103 rows by 010, trajectory true", "103 rows by 011, trajectory true",
		"103 rows by 100, trajectory true", "103 rows by 101, trajectory true",
		"103 rows by 110, trajectory true", "102 rows by 111, trajectory true",
	},
	"draws": {
		"seed 0, 0 draws, taught false, 111", "seed 4294967295, 83 draws, taught false, 111",
		"seed 0, 10 draws, taught false, 111", "seed 4294967295, 0 draws, taught false, 111",
		"seed 4294967295, 0 draws, taught false, 100",
	},
	"policies": {"160 rows by 101, trajectory true", "101 rows by 111, trajectory false", "6 jobs"},
	"batches": {
		"1 jobs", "2 jobs", "3 jobs", "4 jobs", "7 jobs", "10 jobs", "16 jobs", "33 jobs",
		"70 jobs",
	},
	"break":     {"40 jobs"},
	"failures":  {"5 jobs", "50 rows by 101, trajectory true", "106 rows by 101, trajectory true"},
	"cancel":    {"3 jobs"},
	"reference": {"600 rows by 101, trajectory true", "600 rows by 000, trajectory true"},
	"lengths": {
		"101 rows by 111, trajectory true", "102 rows by 111, trajectory true",
		"499 rows by 111, trajectory true", "500 rows by 111, trajectory true",
		"501 rows by 111, trajectory true", "601 rows by 111, trajectory true",
		"500 rows by 101, trajectory true", "501 rows by 101, trajectory true",
		"601 rows by 101, trajectory true",
	},
}

// TestMutants: every fault is found by the check that is named with it, which says
// what is wrong; and by then all was asked that has to be.
func TestMutants(t *testing.T) {
	t.Parallel()
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reference.New(model, reference.HostProfile())
	if err != nil {
		t.Fatal(err)
	}
	sim := &asked{Simulator: ref, times: map[string]int{}}
	base, err := newSuite(sim, []Option{Timeout(10 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	// What takes long comes last, so that what fails is soon red.
	long := []string{"cancel", "lengths", "branches", "reference"}
	all := slices.Concat(mutants, near, sound)
	slices.SortStableFunc(all, func(a, b mutant) int {
		return slices.Index(long, a.check) - slices.Index(long, b.check)
	})
	for _, m := range all {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			w := &wrapper{Simulator: sim, name: "mutant", simulate: sim.Simulate}
			m.make(w, sim)
			s := *base
			s.sim = w
			if m.name == "never ends" {
				s.timeout = 50 * time.Millisecond
			}
			sim.check = m.check
			ran++
			i := slices.IndexFunc(checks, func(c check) bool { return c.name == m.check })
			errs, _ := s.perform(checks[i])
			if said := fmt.Sprint(errors.Join(errs...)); lacks(said, m.want) != "" {
				t.Errorf("check %s says\n%s\nwant %q", m.check, said, lacks(said, m.want))
			}
		})
	}
	if ran < len(all) {
		return // -run has chosen some
	}
	for check, all := range asks {
		for _, what := range all {
			if sim.times[check+": "+what] == 0 {
				t.Errorf("%s: of %s none", check, what)
			}
		}
	}
}

// TestREADME: the table has the checks, in their order, and the count of the mutants is
// theirs.
func TestREADME(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	rows := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| \\S")
	for _, row := range rows.FindAllStringSubmatch(string(data), -1) {
		got = append(got, row[1])
	}
	for _, c := range checks {
		want = append(want, c.name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table is of %v, want %v", got, want)
	}
	if count := fmt.Sprintf(" has %d simulators with one fault each",
		len(mutants)+len(near)); !strings.Contains(string(data), count) {
		t.Errorf("README.md lacks %q", count)
	}
}

// TestLeftOut: options leave out what they name, and say so. The simulator has no step
// mode, so that stepping is always left out.
func TestLeftOut(t *testing.T) {
	for _, c := range []struct {
		option Option
		want   []string
	}{
		{Brief(), []string{"stepping", "branches", "lengths", "reference", "goldens"}},
		{ContractOnly(), []string{"stepping", "branches", "reference", "goldens"}},
	} {
		// A simulator that does nothing passes no check that is not left out, but that nothing
		// comes of nothing.
		out, err := Check(&wrapper{
			profile: reference.HostProfile,
			simulate: func(ctxt, []lockstep.Job, lockstep.Options) sequence {
				return func(func(int, lockstep.Result) bool) {}
			},
		}, Timeout(time.Second), c.option)
		var got []string
		for _, line := range out {
			name, _, _ := strings.Cut(line, ": left out: ")
			got = append(got, name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("left out: %v, want %v", got, c.want)
		}
		said := "\n" + fmt.Sprint(err)
		for _, check := range checks {
			fails := !slices.Contains(c.want, check.name) && check.name != "nothing"
			if strings.Contains(said, "\n"+check.name+": ") != fails {
				t.Errorf("check %s fails: %v, want %v", check.name, !fails, fails)
			}
		}
	}
}

// TestNothingLeft: what checks write they remove again.
func TestNothingLeft(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, err := newSuite(&wrapper{profile: func() lockstep.Profile {
		return lockstep.Profile{Exp: lockstep.ExpC} // which nobody recorded
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.timeout != 2*time.Minute {
		t.Errorf("without an option a call may take %v", s.timeout)
	}
	if errs, note := s.perform(checks[len(checks)-1]); len(errs) > 0 || note == "" {
		t.Errorf("recordings: %v, %q", errs, note)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("%v, %v are left", err, left)
	}
	errs, _ := s.perform(check{check: func(s *suite) { s.goldenSet(&golden.Set{}) }})
	simtest.Refused(t, "another network's", errors.Join(errs...), "of another network than that")
}

// TestNoSimulator: what is no simulator is told from one that does not conform.
func TestNoSimulator(t *testing.T) {
	_, err := Check(nil)
	simtest.Refused(t, "nil", err, "no simulator")
	_, err = Check(&wrapper{profile: func() lockstep.Profile { panic("not yet") }})
	simtest.Refused(t, "a panic", err, "the simulator has no profile: panic: not yet")
}

type unclosed struct{ lockstep.BatchController }

func (unclosed) Close() error { return nil }

// TestGoldenMutant: a fault that the reference shares is found by the recordings.
func TestGoldenMutant(t *testing.T) {
	t.Parallel()
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sets, err := golden.Sets("../../golden/testdata/default")
	if err != nil || len(sets) == 0 {
		t.Fatal(len(sets), err)
	}
	sim, err := reference.New(model, sets[0].Profile)
	if err != nil {
		t.Fatal(err)
	}
	w := &wrapper{Simulator: sim, name: "mutant", simulate: sim.Simulate}
	observer(func(_ *lockstep.Job, s *lockstep.Step, observe func(*lockstep.Step)) {
		if s.Index == 333 {
			s = clone(s)
			s.CDF[5] = math.Nextafter(s.CDF[5], 1)
		}
		observe(s)
	})(w, sim)
	s, err := newSuite(w, nil)
	if err != nil {
		t.Fatal(err)
	}
	errs, note := s.perform(checks[len(checks)-1])
	if len(errs) == 0 || !strings.Contains(errs[0].Error(), ", step 333, stage cdf") {
		t.Errorf("%v, %s", errs, note)
	}
	s.sim = sim
	if errs, note := s.perform(checks[len(checks)-1]); len(errs) > 0 || note != "" {
		t.Errorf("without the fault: %v, %s", errs, note)
	}
	s.sim = &wrapper{profile: func() lockstep.Profile {
		return lockstep.Profile{Exp: lockstep.ExpC}
	}}
	var recorded []string
	for _, set := range sets {
		recorded = append(recorded, set.Profile.String())
	}
	slices.Sort(recorded)
	want := "left out: recorded are " + strings.Join(slices.Compact(recorded), ", ") + ", the "
	if errs, note := s.perform(checks[len(checks)-1]); len(errs) > 0 ||
		!strings.HasPrefix(note, want) {
		t.Errorf("in a profile that nobody recorded: %v, %s", errs, note)
	}
}
