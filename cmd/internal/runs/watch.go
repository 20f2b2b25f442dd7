package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"time"

	"lockstep"
	"lockstep/internal/progress"
	"lockstep/reference"
)

// Progress is how far a run is, as its folder tells.
type Progress struct {
	Plan     *Plan  // nil where there is nothing but a curve
	Curve    *Curve // nil for none
	Finished int    // rollouts, failed ones included
	Failed   int
	Rate     float64 // rollouts/s since the first result; 0 where that cannot be told yet
	Last     time.Time
	Results  map[int]Result
}

// Done reports whether nothing is to come. Of a curve alone that is not known.
func (p *Progress) Done() bool { return p.Plan != nil && p.Finished == p.Plan.Rollouts() }

// Watch reads the progress of the run in a folder. It takes no lock and leaves no
// mark: the run does not know.
func Watch(dir string) (*Progress, error) {
	curve, err := ReadCurve(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	plan, err := openPlan(dir)
	if curve != nil && errors.Is(err, fs.ErrNotExist) {
		return &Progress{Curve: curve}, nil
	} else if err != nil {
		return nil, err
	}
	p := &Progress{Plan: plan, Curve: curve}
	k, err := readResults(filepath.Join(dir, resultsName), plan)
	if plan.Shards > 0 {
		k, err = plan.keptShards(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	} else if err != nil {
		return nil, err
	}
	p.Results, p.Finished, p.Last = k.have, len(k.have), k.last
	for _, r := range k.have {
		if r.Err != "" {
			p.Failed++
		}
	}
	if took := k.last.Sub(k.first).Seconds(); took > 0 && len(k.have) > 1 {
		p.Rate = float64(len(k.have)-1) / took
	}
	return p, nil
}

// keptShards is what the shards that are there hold.
func (p *Plan) keptShards(dir string) (*kept, error) {
	k := &kept{have: map[int]Result{}}
	for shard := range p.Shards {
		there, err := p.readShards(dir, shard)
		if err != nil {
			return nil, err
		}
		for _, r := range there.results {
			k.have[r.Rollout] = r
		}
	}
	return k, nil
}

// WriteText says how far the run is, and what it came to so far. The writer keeps its own
// errors.
func (p *Progress) WriteText(w io.Writer) {
	if p.Plan != nil {
		p.writePlan(w)
	}
	if p.Curve != nil {
		p.Curve.WriteText(w)
	}
}

// mostWatched is how many controllers are shown.
const mostWatched = 10

// unit is what the records of a plan are.
func (p *Plan) unit() string {
	if p.Planning != nil {
		return "choices"
	}
	return "rollouts"
}

// writePlan says how far the rollouts are, and what the controllers came to, the best
// first.
func (p *Progress) writePlan(w io.Writer) {
	text := progress.Describe(p.Finished, p.Plan.Rollouts(), p.Plan.unit(), p.Rate)
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	if !p.Last.IsZero() {
		text += ", last at " + p.Last.Format(time.TimeOnly)
	}
	fmt.Fprintf(w, "%s, %v\n%s\n", p.Plan.Engine, p.Plan.Profile, text)
	if p.Plan.Planning != nil {
		return // what is chosen has no costs yet
	}
	type score struct {
		name   string
		routes int
		mean   float64 // of the total costs
	}
	var scores []score
	for k, c := range p.Plan.Controllers {
		var costs []lockstep.Costs
		for i := range p.Plan.Routes {
			if r, ok := p.Results[k*len(p.Plan.Routes)+i]; ok && r.Err == "" {
				costs = append(costs, r.Costs)
			}
		}
		if len(costs) > 0 {
			scores = append(scores, score{c.Name, len(costs), reference.MeanCosts(costs).Total})
		}
	}
	slices.SortStableFunc(scores, func(a, b score) int {
		if math.IsNaN(a.mean) != math.IsNaN(b.mean) { // which no controller should come first with
			return -cmp.Compare(a.mean, b.mean)
		}
		return cmp.Compare(a.mean, b.mean)
	})
	for n, s := range scores {
		if n == mostWatched {
			fmt.Fprintf(w, "and %d others\n", len(scores)-n)
			return
		}
		fmt.Fprintf(
			w, "%-40s %d of %d routes, average total_cost so far: %s\n", s.name, s.routes,
			len(p.Plan.Routes), reference.FormatCost(s.mean),
		)
	}
}
