package tinyphysics

import (
	"fmt"
	"path/filepath"
	"slices"

	"lockstep"
	"lockstep/golden"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// Golden makes a source of a set of recordings of the Python program.
func Golden(set *golden.Set) (parity.Side, error) {
	g := &goldens{set: set}
	for _, e := range set.Recordings {
		policy, err := e.Policy()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.Dir, err)
		}
		r := trace.Rollout{Key: []string{e.Route, policy.String()}}
		if slices.ContainsFunc(
			g.rollouts, func(o trace.Rollout) bool { return slices.Equal(o.Key, r.Key) },
		) {
			return nil, fmt.Errorf("%s: two recordings of %s: take one away", set.Dir, r.Name())
		}
		g.rollouts = append(g.rollouts, r)
	}
	return parity.Recorded(g), nil
}

// GoldenJobs are the jobs that a set recorded, on routes that load gives by their names.
func GoldenJobs(
	set *golden.Set, load func(route string) (*lockstep.Route, error),
) ([]lockstep.Job, error) {
	var jobs []lockstep.Job
	for _, e := range set.Recordings {
		route, err := load(e.Route)
		if err != nil {
			return nil, err
		}
		policy, err := e.Policy()
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
	}
	return jobs, nil
}

// goldens are a parity.Recording, of all stages of all steps, with the digests that
// Python has built in.
type goldens struct {
	set      *golden.Set
	rollouts []trace.Rollout
}

func (g *goldens) Info() parity.SideInfo {
	return parity.SideInfo{
		Name:    "golden " + filepath.Base(g.set.Dir),
		Profile: g.set.Profile.String(),
	}
}

func (g *goldens) Schema() *schema.Schema    { return &view.Schema }
func (g *goldens) Digest() schema.Hash       { return schema.SHA256 }
func (g *goldens) Rollouts() []trace.Rollout { return g.rollouts }

func (g *goldens) Rehash(h schema.Hash) error {
	return fmt.Errorf(
		"%s holds digests of kind %s, not %s, and %w", g.Info().Name, g.Digest(), h,
		trace.ErrHashed,
	)
}

func (g *goldens) Read(
	n int, _ bool, show func(s *schema.Step),
) (trace.Rollout, parity.End, error) {
	entry := g.set.Recordings[n]
	r, err := g.set.Read(entry)
	if err != nil {
		return trace.Rollout{}, parity.End{}, err
	}
	const tokens, states = lockstep.ContextLength, 4 * lockstep.ContextLength
	s := view.NewStep()
	for i := range r.Steps() {
		own := &lockstep.Step{
			Index:      lockstep.ContextLength + i,
			Action:     r.Action[i],
			Draw:       r.Draw[i],
			Prediction: r.Prediction[i],
			Lataccel:   r.Lataccel[i],
			Sample:     int(r.Sample[i]),
			Tokens:     r.Tokens[i*tokens : (i+1)*tokens],
			States:     r.States[i*states : (i+1)*states],
		}
		Expose(own, s)
		s.Sum(schema.SHA256)
		s.Has |= view.Set(Logits, Probs, CDF, Sample, Prediction)
		s.Bits[logits], s.Bits[probs], s.Bits[cdf] = r.LogitsHash[i], r.ProbsHash[i], r.CDFHash[i]
		if full, chances, ok := r.Full(own.Index); ok {
			s.Data[logits], s.Data[probs] = schema.Bytes(full), schema.Bytes(chances)
		}
		show(s)
	}
	return rollout(
		entry.Route,
		g.rollouts[n].Key[1],
		entry.Rows,
		entry.Seed,
		r.RouteHash,
	), parity.End{Outcome: Outcome(r.Costs)}, nil
}
