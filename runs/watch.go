package runs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"
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

// Left is about how long the run will still take, or 0 where that cannot be told.
func (p *Progress) Left() time.Duration {
	if p.Rate == 0 {
		return 0
	}
	return time.Duration(float64(p.Plan.Rollouts()-p.Finished) / p.Rate * float64(time.Second))
}

// Watch reads the progress of the run in a folder. It takes no lock and leaves no
// mark: the run does not know.
func Watch(dir string) (*Progress, error) {
	curve, err := ReadCurve(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	plan, err := OpenPlan(dir)
	if curve != nil && errors.Is(err, fs.ErrNotExist) {
		return &Progress{Curve: curve}, nil
	} else if err != nil {
		return nil, err
	}
	p := &Progress{Plan: plan, Curve: curve}
	k, err := readResults(filepath.Join(dir, resultsName), plan.Rollouts())
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
