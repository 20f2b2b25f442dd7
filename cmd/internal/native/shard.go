//go:build cgo

package native

import (
	"fmt"
	"math"

	"lockstep/cmd/internal/runs"
	"lockstep/internal/defaults"
	"lockstep/internal/installed"
)

// without is a method of no object, with requests of type Q.
func without[Q any](f func(t *task, request Q) (any, error)) method {
	return func(t *task, _ int64, request, _ []byte) (any, error) {
		var q Q
		if err := parse(request, &q); err != nil {
			return nil, err
		}
		return f(t, q)
	}
}

type planRequest struct {
	runs.Inputs
	Out             string
	Program         string // the file of this library
	Shards, Workers int
}

type planAnswer struct {
	Key      string   `json:"key"`
	Rollouts int      `json:"rollouts"`
	Notices  []string `json:"notices"`
}

// planShards plans a run in parts.
func planShards(t *task, q planRequest) (any, error) {
	model, notices, err := findModel(q.Model)
	if err != nil {
		return nil, err
	}
	q.Model = model
	for i, path := range q.Data {
		if path == "own" {
			if _, q.Data[i], err = defaults.Keep(); err != nil {
				return nil, err
			}
		}
	}
	profile, found, err := installed.Choose(t, q.Profile, q.Python)
	if err != nil {
		return nil, usage(err)
	}
	if q.Profile = profile.String(); found != nil {
		notices = append(notices, found.Warnings()...)
	}
	q.Inputs.Program = q.Program
	o, err := q.Inputs.Open(t, q.Workers)
	if err != nil {
		return nil, usage(err)
	}
	defer o.Close()
	if err := o.WritePlan(q.Out, q.Shards); err != nil {
		return nil, usage(err)
	}
	return planAnswer{o.Plan.Key(), o.Plan.Rollouts(), append(notices, o.Notices...)}, nil
}

type shardRequest struct {
	Out            string
	Model          string   // where it is on this machine, if not where it was planned
	Data           []string // likewise
	Python         string   // that runs controllers
	Program        string   // the file of this library
	Index, Workers int
}

// runShard computes one part and answers with its file.
func runShard(t *task, q shardRequest) (any, error) {
	here := runs.Here{Model: q.Model, Data: q.Data, Python: q.Python, Program: q.Program}
	return runs.RunShard(t, q.Out, q.Index, here, q.Workers, func() { t.done.Add(1) })
}

type mergeAnswer struct {
	Shards      int      `json:"shards"`
	Missing     []int    `json:"missing"`
	Wrong       []string `json:"wrong"`
	Controllers []string `json:"controllers"`
	Routes      []string `json:"routes"`
	// three for each rollout, as bit patterns: JSON has no NaN
	Costs  []string       `json:"costs"`
	Errors map[int]string `json:"errors"` // by rollout
	SHA256 string         `json:"sha256"`
}

// mergeShards puts the parts together.
func mergeShards(_ *task, q struct{ Out string }) (any, error) {
	m, err := runs.Merge(q.Out)
	if err != nil {
		return nil, err
	}
	a := mergeAnswer{
		Shards:  m.Plan.Shards,
		Missing: m.Missing,
		Wrong:   m.Wrong,
		SHA256:  m.SHA256,
		Errors:  map[int]string{},
	}
	a.Controllers, a.Routes = m.Plan.Names()
	for _, r := range m.Results {
		var costs [3]float64
		put3(costs[:], r.Result())
		for _, x := range costs {
			a.Costs = append(a.Costs, fmt.Sprintf("%016x", math.Float64bits(x)))
		}
		if r.Err != "" {
			a.Errors[r.Rollout] = r.Err
		}
	}
	return a, nil
}
