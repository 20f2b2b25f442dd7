package tinyphysics

import (
	"math"
	"slices"

	"lockstep"
	"lockstep/parity"
	b "lockstep/parity/branches"
	"lockstep/parity/schema"
)

// Positions of the other numbers of a step.
var action, prediction, lataccel, raw = view.Index(Action), view.Index(Prediction),
	view.Index(Lataccel), view.Index(Raw)

// watcher looks at a rollout for the branches of the specification. Of a rollout without a
// job, as traces have, it sees what the steps show.
type watcher struct {
	*job  // nil if there is none
	times []int
	plans bool // the policy reads the plan
	near  *parity.Nearest
}

// watch is of a task.
func watch(t *parity.RolloutTask) parity.Watcher {
	w := &watcher{times: make([]int, len(b.TinyPhysics()))}
	if own, ok := t.Job.(job); ok {
		w.job = &own
		w.enter()
	}
	return w
}

func (w *watcher) count(branch int, is bool) {
	if is {
		w.times[branch]++
	}
}

// enter counts what the job is.
func (w *watcher) enter() {
	r, n, end := w.Route, w.Route.Len(), w.Job.End(w.shortcuts)
	w.count(b.ShortestRoute, n == lockstep.MinRows)
	w.count(b.RouteEndsEarly, n < lockstep.CostEndIdx)
	w.count(b.RouteGoesOn, end > lockstep.CostEndIdx)
	commands := r.SteerCommand[:min(len(r.SteerCommand), lockstep.ControlStartIdx)]
	for branch, column := range map[int][]float64{
		b.NaNRoll: r.RollLataccel, b.NaNSpeed: r.VEgo, b.NaNAcceleration: r.AEgo,
		b.NaNTarget: r.TargetLataccel, b.NaNCommand: commands,
	} {
		w.count(branch, slices.ContainsFunc(column[:min(end, len(column))], math.IsNaN))
	}
	for _, x := range r.TargetLataccel[:min(lockstep.ContextLength, n)] {
		w.history(x)
	}
	w.count(b.GivenDraws, w.Draws != nil)
	switch p := w.Policy.(type) {
	case lockstep.Zero:
		w.count(b.PolicyZero, true)
	case lockstep.PID:
		w.count(b.PolicyPID, true)
	case lockstep.PIDFF:
		w.count(b.PolicyPIDFF, true)
		w.plans = p.FF != [4]float64{}
	case *lockstep.Network:
		w.count(b.NetworkMean, w.Sampling == nil)
		w.count(b.NetworkSampled, w.Sampling != nil)
		w.plans = true
	case *lockstep.Table:
		w.count(b.PolicyTable, true)
	case lockstep.Custom:
		w.count(b.PolicyCode, true)
		w.plans = true
	case *lockstep.Batch:
		w.count(b.PolicyBatch, true)
		w.plans = true
	}
}

// history counts a lataccel that the network sees from the next step on.
func (w *watcher) history(x float64) {
	w.count(b.BeyondLastBin, x > lockstep.LataccelMax)
	w.count(b.BeyondFirstBin, x < lockstep.LataccelMin)
	w.count(b.FirstBin, x <= lockstep.LataccelMin)
	w.count(b.LastBin, x >= lockstep.LataccelMax)
}

// Step counts what a step went through.
func (w *watcher) Step(s *schema.Step) {
	value := func(stage int) float64 { return math.Float64frombits(s.Bits[stage]) }
	warm := s.Index < lockstep.ControlStartIdx
	w.count(b.Warmup, warm)
	w.count(b.FirstControlled, s.Index == lockstep.ControlStartIdx)
	if s.Has.Has(action) {
		w.command(s.Index, value(action))
	}
	given := w.job != nil && w.Teacher != nil
	if s.Has.Has(lataccel) && !given {
		w.history(value(lataccel))
	}
	ran := s.Has.Has(sample)
	if s.Has.Has(lataccel) && s.Has.Has(prediction) && ran && !warm {
		x, p := value(lataccel), value(prediction)
		w.count(b.PredictionHigh, x < p)
		w.count(b.PredictionLow, x > p)
		w.count(b.PredictionWithin, x == p)
		w.count(b.OnBin, x == p && int64(s.Bits[sample]) >= 0)
	}
	w.count(b.BetweenBins, s.Has.Has(lataccel) && !onBin(value(lataccel)))
	if ran && s.Has.Has(draw) {
		w.choice(s)
	}
	if w.job != nil {
		w.asJob(s)
	}
}

// command counts a step's action.
func (w *watcher) command(step int, x float64) {
	if step < lockstep.ControlStartIdx {
		if w.job != nil && step < len(w.Route.SteerCommand) {
			recorded := w.Route.SteerCommand[step]
			w.count(b.RecordedHigh, recorded > lockstep.SteerMax)
			w.count(b.RecordedLow, recorded < lockstep.SteerMin)
		}
		return
	}
	w.count(b.CommandHigh, x == lockstep.SteerMax)
	w.count(b.CommandLow, x == lockstep.SteerMin)
	w.count(b.CommandWithin, lockstep.SteerMin < x && x < lockstep.SteerMax)
}

// onBin reports whether a token stands for a lataccel.
func onBin(x float64) bool {
	const width = (lockstep.LataccelMax - lockstep.LataccelMin) / (lockstep.VocabSize - 1)
	i := math.Round((x - lockstep.LataccelMin) / width)
	return x == lockstep.LataccelMax ||
		i >= 0 && i < lockstep.VocabSize-1 && x == float64(i*width)+lockstep.LataccelMin
}

// choice counts how a draw chose a token, and notes how near it was to another.
func (w *watcher) choice(s *schema.Step) {
	token, x := int64(s.Bits[sample]), math.Float64frombits(s.Bits[draw])
	w.count(b.LastToken, token == lockstep.VocabSize-1)
	w.count(b.FirstToken, token == 0)
	w.count(b.ExpectedValue, token < 0)
	if token < 0 || token >= lockstep.VocabSize || len(s.Data[cdf]) == 0 {
		return
	}
	edges := schema.Elements[float64](s.Data[cdf])
	at, before := edges[token], math.Inf(-1)
	if token > 0 {
		before = edges[token-1]
	}
	w.count(b.DrawOnEdge, x == before)
	w.count(b.DrawBelowEdge, math.Nextafter(x, 2) == at)
	w.count(b.DrawAboveEdge, math.Nextafter(x, -1) == before)
	edge := parity.Near(x, before, at)
	if d := parity.Float(math.Abs(edge - x)); w.near == nil || d < w.near.Distance {
		w.near = &parity.Nearest{
			Step:     s.Index,
			Draw:     parity.Float(x),
			Edge:     parity.Float(edge),
			Distance: d,
		}
	}
}

// asJob counts what a step is of its job.
func (w *watcher) asJob(s *schema.Step) {
	w.count(b.TaughtBefore, w.Teacher != nil && s.Index < lockstep.ControlStartIdx)
	w.count(b.TaughtAfter, w.Teacher != nil && s.Index >= lockstep.ControlStartIdx)
	if s.Index < lockstep.ControlStartIdx {
		return
	}
	left := w.Route.Len() - 1 - s.Index // rows of the plan, if it is not whole
	if w.plans {
		w.count(b.WholePlan, left >= lockstep.FuturePlanSteps-1)
		w.count(b.CutPlan, 0 < left && left < lockstep.FuturePlanSteps-1)
		w.count(b.NoPlan, left == 0)
	}
	switch p := w.Policy.(type) {
	case lockstep.PIDFF:
		bands := lockstep.PlanBands()
		w.count(b.SlowPIDFF, p.FFV != 0 && w.Route.VEgo[s.Index] < 5)
		w.count(b.EmptyBand, w.plans && left <= bands[len(bands)-1][0])
	case *lockstep.Network:
		w.count(b.NetworkChange, s.Has.Has(raw) &&
			math.Abs(math.Float64frombits(s.Bits[raw])*p.Scale) > lockstep.MaxChange)
	case *lockstep.Table:
		w.count(b.TableOver, s.Index >= lockstep.ControlStartIdx+lockstep.TableSteps)
	}
}

// End is what was seen.
func (w *watcher) End(end parity.End) parity.Watched {
	w.count(b.Failure, end.Err != nil)
	return parity.Watched{Times: w.times, Nearest: w.near}
}
