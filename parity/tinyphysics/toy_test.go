package tinyphysics

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"sort"

	"lockstep"
)

// toy is a simulator of the same stages with a network of no cost, into whose stages
// faults can be planted. What a fault changes enters all that depends on it.
type toy struct {
	name string

	// plant, if not nil, may change a stage once it is computed.
	plant func(route string, step int, stage string, s *lockstep.Step)

	// fail, if not nil, fails a rollout at a step; late yields or drops results.
	fail func(route string, step int) error

	leaveOut func(route string, step int) bool // not shown to the observer
	noisy    func(route string, run int) bool  // then plant is not applied
	runs     map[string]int
	yield    func(i int) []int // indices that are yielded for a job; nil is its own
}

func (t *toy) Name() string              { return t.name }
func (t *toy) Profile() lockstep.Profile { return lockstep.Profile{} }

func (t *toy) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for i, job := range jobs {
			indices := []int{i}
			if t.yield != nil {
				indices = t.yield(i)
			}
			result := t.run(ctx, job, opts)
			for _, k := range indices {
				if !yield(k, result) {
					return
				}
			}
		}
	}
}

func toyEncode(x float64) int64 { return int64(min(max((x+5)/10*1023, 0), 1023)) }

func (t *toy) run(ctx context.Context, job lockstep.Job, opts lockstep.Options) lockstep.Result {
	r := job.Route
	plant := t.planted(r.Name)
	n := r.Len()
	if opts.Shortcuts&lockstep.StopAtCostEnd != 0 {
		n = min(n, lockstep.CostEndIdx)
	}
	lataccel := append([]float64(nil), r.TargetLataccel[:lockstep.ContextLength]...)
	action := append([]float64(nil), r.SteerCommand[:lockstep.ContextLength]...)
	draws := job.Uniforms(n - lockstep.ContextLength)
	integral := 0.0
	for step := lockstep.ContextLength; step < n; step++ {
		if err := t.failed(ctx, r.Name, step); err != nil {
			return lockstep.Result{Err: err}
		}
		s := &lockstep.Step{Index: step, Sample: -1, Draw: draws[step-lockstep.ContextLength]}
		computed := func(stage string) { plant(r.Name, step, stage, s) }
		warm := step < lockstep.ControlStartIdx
		current := lataccel[step-1]
		integral += r.TargetLataccel[step] - current
		if s.Action = float64(0.2*(r.TargetLataccel[step]-current)) + float64(0.05*integral); warm {
			s.Action = r.SteerCommand[step]
		}
		computed(Action)
		action = append(action, s.Action)
		if job.Teacher != nil {
			action[step] = job.Teacher.Action[step]
		}
		if !warm || opts.Shortcuts&lockstep.SkipWarmup == 0 {
			toyInputs(s, r, lataccel, action)
			computed(Tokens)
			computed(States)
			toyNetwork(s, computed)
		}
		computed(Draw)
		if s.CDF != nil {
			s.Sample = min(
				sort.Search(lockstep.VocabSize, func(i int) bool { return s.CDF[i] > s.Draw }),
				lockstep.VocabSize-1,
			)
			computed(Sample)
			s.Prediction = float64(s.Sample)*10/1023 - 5
			computed(Prediction)
		}
		if s.Lataccel = min(max(s.Prediction, current-0.5), current+0.5); warm {
			s.Lataccel = r.TargetLataccel[step]
		}
		computed(Lataccel)
		lataccel = append(lataccel, s.Lataccel)
		if job.Teacher != nil {
			lataccel[step] = job.Teacher.Lataccel[step]
		}
		if job.Observe != nil && (t.leaveOut == nil || !t.leaveOut(r.Name, step)) {
			job.Observe(s)
		}
	}
	c := &lockstep.Step{}
	for k := lockstep.ControlStartIdx; k < min(n, lockstep.CostEndIdx); k++ {
		d := lataccel[k] - r.TargetLataccel[k]
		c.Lataccel += float64(d * d)
	}
	plant(r.Name, -1, Costs, c)
	return lockstep.Result{
		Costs: lockstep.Costs{Lataccel: c.Lataccel, Jerk: 1, Total: c.Lataccel + 1},
	}
}

// planted is the fault that this run of a route has, which does nothing if it has none.
func (t *toy) planted(route string) func(route string, step int, stage string, s *lockstep.Step) {
	plant := t.plant
	if t.runs != nil {
		t.runs[route]++
		if t.noisy(route, t.runs[route]) {
			plant = nil
		}
	}
	if plant == nil {
		return func(string, int, string, *lockstep.Step) {}
	}
	return plant
}

// failed is why a rollout ends before a step.
func (t *toy) failed(ctx context.Context, route string, step int) error {
	if err := ctx.Err(); err != nil || t.fail == nil {
		return err
	}
	return t.fail(route, step)
}

// toyInputs are what the network sees: the histories' last numbers.
func toyInputs(s *lockstep.Step, r *lockstep.Route, lataccel, action []float64) {
	for i := range lockstep.ContextLength {
		k := s.Index - lockstep.ContextLength + i
		s.Tokens = append(s.Tokens, toyEncode(lataccel[k]))
		s.States = append(
			s.States, float32(action[k+1]), float32(r.RollLataccel[k+1]),
			float32(r.VEgo[k+1]), float32(r.AEgo[k+1]),
		)
	}
}

// toyNetwork computes logits, probabilities and their distribution, each bit of which depends on
// each bit of the inputs.
func toyNetwork(s *lockstep.Step, computed func(stage string)) {
	hash := uint64(0)
	for _, x := range s.Tokens {
		hash = hash*6364136223846793005 + uint64(x)
	}
	for _, x := range s.States {
		hash = hash*6364136223846793005 + uint64(math.Float32bits(x))
	}
	center := float32(s.Tokens[lockstep.ContextLength-1]) + float32(hash>>40)/(1<<20)
	s.Logits = make([]float32, lockstep.VocabSize)
	for i := range s.Logits {
		s.Logits[i] = (float32(i) - center) / 4
	}
	computed(Logits)
	s.Probs = make([]float32, lockstep.VocabSize)
	total := float32(0)
	for i, x := range s.Logits {
		s.Probs[i] = 1 / (1 + float32(x*x*x*x))
		total += s.Probs[i]
	}
	for i := range s.Probs {
		s.Probs[i] /= total
	}
	computed(Probs)
	s.CDF = make([]float64, lockstep.VocabSize)
	sum := 0.0
	for i, p := range s.Probs {
		sum += float64(p)
		s.CDF[i] = sum
	}
	for i := range s.CDF {
		s.CDF[i] /= sum
	}
	computed(CDF)
}

// toyJobs are jobs on random routes.
func toyJobs(n, rows int) []lockstep.Job {
	var jobs []lockstep.Job
	for i := range n {
		random := rand.New(rand.NewPCG(uint64(i), 9))
		column := func() []float64 {
			out := make([]float64, rows)
			for k := range out {
				out[k] = random.Float64() - 0.5
			}
			return out
		}
		jobs = append(jobs, lockstep.Job{Policy: lockstep.DefaultPID(), Route: &lockstep.Route{
			Name:           fmt.Sprintf("%05d", i),
			Seed:           uint32(i),
			RollLataccel:   column(),
			VEgo:           column(),
			AEgo:           column(),
			TargetLataccel: column(),
			SteerCommand:   column(),
		}})
	}
	return jobs
}

// flipBit changes one bit of a stage.
func flipBit(s *lockstep.Step, stage string, index, bit int) {
	f64 := func(x *float64) { *x = math.Float64frombits(math.Float64bits(*x) ^ 1<<(bit%64)) }
	f32 := func(a []float32) {
		x := &a[index%len(a)]
		*x = math.Float32frombits(math.Float32bits(*x) ^ 1<<(bit%32))
	}
	switch stage {
	case Action:
		f64(&s.Action)
	case Tokens:
		s.Tokens[index%len(s.Tokens)] ^= 1 << (bit % 10)
	case States:
		f32(s.States)
	case Logits:
		f32(s.Logits)
	case Probs:
		f32(s.Probs)
	case CDF:
		f64(&s.CDF[index%len(s.CDF)])
	case Draw:
		f64(&s.Draw)
	case Sample:
		s.Sample ^= 1 << (bit % 10)
	case Prediction:
		f64(&s.Prediction)
	case Lataccel, Costs:
		f64(&s.Lataccel)
	}
}
