package installed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/model"
	"lockstep/reference"
	"lockstep/routefile"
)

// The last probe is the beginning of a rollout that steers with 0: the project's own
// network on the first rows of a route of its own.
const (
	rolloutRoute = "g00000.csv"
	rolloutFirst = lockstep.ControlStartIdx
	rolloutEnd   = rolloutFirst + 10
)

// RolloutVerdict is what came of it: steps at which all logits, and the lataccel, have the bits
// that the profile gives.
type RolloutVerdict struct {
	Steps   int    `json:"steps"`
	Equal   int    `json:"equal"`
	Bits    string `json:"bits,omitempty"` // the first 8 bytes of the answer's SHA-256
	Missing bool   `json:"missing,omitempty"`
	Error   string `json:"error,omitempty"`
}

type rolloutQuestion struct {
	Route string `json:"route"` // as CSV
	Seed  string `json:"seed"`  // the text whose hash seeds the draws
	First int    `json:"first"`
	End   int    `json:"end"`
}

func newRolloutQuestion() (rolloutQuestion, error) {
	text, err := fs.ReadFile(defaults.Routes(), rolloutRoute)
	if err != nil {
		return rolloutQuestion{}, err
	}
	lines := slices.Collect(strings.Lines(string(text)))
	return rolloutQuestion{
		Route: strings.Join(lines[:1+rolloutEnd], ""),
		Seed:  routefile.DefaultSeedPrefix + "/" + rolloutRoute,
		First: rolloutFirst,
		End:   rolloutEnd,
	}, nil
}

// judgeRollout compares an answer with what the reference computes in a profile.
func judgeRollout(p lockstep.Profile, r *Replies) RolloutVerdict {
	reply, ok := r.Replies["rollout"]
	switch {
	case !ok:
		return RolloutVerdict{Error: "the process ended before it answered"}
	case reply.Missing || reply.Error != "":
		return RolloutVerdict{Missing: reply.Missing, Error: reply.Error}
	}
	logits, lataccels, err := expectedRollout(p)
	if err != nil {
		return RolloutVerdict{Error: err.Error()}
	}
	sum := sha256.Sum256(slices.Concat(r.Logits, r.Lataccel))
	v := RolloutVerdict{Steps: len(lataccels), Bits: hex.EncodeToString(sum[:8])}
	if len(r.Logits) != len(logits)*len(logits[0]) || len(r.Lataccel) != 8*len(lataccels) {
		v.Error = "an answer of another length"
		return v
	}
	for i, want := range logits {
		if bytes.Equal(r.Logits[i*len(want):(i+1)*len(want)], want) &&
			bytes.Equal(r.Lataccel[8*i:8*i+8], lataccels[i]) {
			v.Equal++
		}
	}
	return v
}

// weights are those of the project's own network.
var weights = sync.OnceValues(
	func() (*model.Weights, error) { return model.Parse(defaults.Model()) },
)

// expectedRollout are the logits and the lataccel of each step, as bits.
func expectedRollout(p lockstep.Profile) (logits, lataccels [][]byte, err error) {
	w, err := weights()
	if err != nil {
		return nil, nil, err
	}
	q, err := newRolloutQuestion()
	if err != nil {
		return nil, nil, err
	}
	route, err := routefile.Loader{Profile: p}.Read(strings.NewReader(q.Route), rolloutRoute)
	if err != nil {
		return nil, nil, err
	}
	little := func(x any) []byte {
		data, _ := binary.Append(nil, binary.LittleEndian, x)
		return data
	}
	job := lockstep.Job{Route: route, Policy: lockstep.Zero{}, Observe: func(s *lockstep.Step) {
		if s.Index >= rolloutFirst {
			logits, lataccels = append(
				logits,
				little(s.Logits),
			), append(
				lataccels,
				little(s.Lataccel),
			)
		}
	}}
	sim, options := reference.Of(w, p), lockstep.Options{Shortcuts: lockstep.CostOnly}
	for _, result := range sim.Simulate(context.Background(), []lockstep.Job{job}, options) {
		err = result.Err
	}
	return logits, lataccels, err
}
