package lockstep

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// A Snapshot is the state of rollouts between two steps. It is data: a simulator's
// state is its histories, and draws are a function of seed and step.
type Snapshot struct {
	Profile  Profile
	Model    string // SHA-256 of the network's file, in hexadecimal
	Step     int    // the next one
	Rollouts []RolloutState
}

// RolloutState is the state of one rollout: its histories up to Snapshot.Step, or
// to its end or failure.
type RolloutState struct {
	Route    string
	Lataccel []float64 // m/s²
	Action   []float64 // steer command after clipping
	Policy   []float64 // what the policy remembers, in the order of its kind; nil without
	Err      string    // why it failed, or empty
}

// snapshotVersion is that of the form below.
const snapshotVersion = 1

// snapshotHeader is a line of JSON at the beginning of a snapshot's bytes. The
// numbers of all rollouts follow in the order of the lengths, float64 with the
// lowest byte first, and at the end the CRC-32 (IEEE) of all that.
type snapshotHeader struct {
	Version  int               `json:"lockstep_snapshot"`
	Profile  Profile           `json:"profile"`
	Model    string            `json:"model_sha256"`
	Step     int               `json:"step"`
	Rollouts []snapshotRollout `json:"rollouts"`
}

type snapshotRollout struct {
	Route   string `json:"route"`
	Lengths [3]int `json:"lengths"` // of lataccels, actions, what the policy remembers
	Err     string `json:"error,omitempty"`
}

// MarshalBinary writes a snapshot down; all bits are kept.
func (s *Snapshot) MarshalBinary() ([]byte, error) {
	h := snapshotHeader{Version: snapshotVersion, Profile: s.Profile, Model: s.Model, Step: s.Step}
	var numbers []byte
	for i := range s.Rollouts {
		r := &s.Rollouts[i]
		h.Rollouts = append(h.Rollouts, snapshotRollout{r.Route, [3]int{len(r.Lataccel), len(r.Action), len(r.Policy)}, r.Err})
		for _, column := range [][]float64{r.Lataccel, r.Action, r.Policy} {
			for _, x := range column {
				numbers = binary.LittleEndian.AppendUint64(numbers, math.Float64bits(x))
			}
		}
	}
	data, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	data = append(append(data, '\n'), numbers...)
	return binary.LittleEndian.AppendUint32(data, crc32.ChecksumIEEE(data)), nil
}

// UnmarshalBinary is the inverse of MarshalBinary.
func (s *Snapshot) UnmarshalBinary(data []byte) error {
	end := bytes.IndexByte(data, '\n')
	var h snapshotHeader
	if end < 0 || json.Unmarshal(data[:end], &h) != nil || h.Version == 0 {
		return errors.New("not a snapshot: it does not begin with a snapshot's header")
	}
	if h.Version != snapshotVersion {
		return fmt.Errorf("a snapshot of version %d, this program reads version %d", h.Version, snapshotVersion)
	}
	numbers := data[end+1:]
	want := 4
	for _, r := range h.Rollouts {
		for _, n := range r.Lengths {
			if n < 0 || n > len(numbers)/8 {
				return fmt.Errorf("the snapshot of route %.60q: %d numbers, more than the file has", r.Route, n)
			}
			want += 8 * n
		}
	}
	if len(numbers) != want {
		return fmt.Errorf("the snapshot has %d bytes of numbers, its header says %d", len(numbers), want)
	}
	if sum := binary.LittleEndian.Uint32(data[len(data)-4:]); sum != crc32.ChecksumIEEE(data[:len(data)-4]) {
		return errors.New("the snapshot is damaged: its checksum is another")
	}
	*s = Snapshot{Profile: h.Profile, Model: h.Model, Step: h.Step}
	for _, r := range h.Rollouts {
		var columns [3][]float64
		for k, n := range r.Lengths {
			for range n {
				columns[k] = append(columns[k], math.Float64frombits(binary.LittleEndian.Uint64(numbers)))
				numbers = numbers[8:]
			}
		}
		s.Rollouts = append(s.Rollouts, RolloutState{Route: r.Route, Lataccel: columns[0], Action: columns[1], Policy: columns[2], Err: r.Err})
	}
	return nil
}
