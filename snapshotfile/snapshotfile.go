// Package snapshotfile writes a lockstep.Snapshot as bytes, and reads it.
package snapshotfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"unicode/utf8"

	"lockstep"
	"lockstep/internal/plain"
)

// version is that of the form below.
const version = 1

// header is a line of JSON at the beginning of a snapshot's bytes. The
// numbers of all rollouts follow in the order of the lengths, float64 with the
// lowest byte first, and at the end the CRC-32 (IEEE) of all that.
type header struct {
	Version  int              `json:"lockstep_snapshot"`
	Profile  lockstep.Profile `json:"profile"`
	Model    string           `json:"model_sha256"`
	Step     int              `json:"step"`
	Rollouts []rollout        `json:"rollouts"`
}

type rollout struct {
	Route   string `json:"route"`
	SHA256  string `json:"route_sha256,omitempty"` // of its columns
	Lengths [3]int `json:"lengths"`                // of lataccels, actions, the policy's memory
	Err     string `json:"error,omitempty"`
}

// Marshal writes a snapshot down; all bits are kept. A text that is no UTF-8, such as a route's
// name, is refused.
func Marshal(s *lockstep.Snapshot) ([]byte, error) {
	h := header{Version: version, Profile: s.Profile, Model: s.Model, Step: s.Step}
	if !utf8.ValidString(s.Model) {
		return nil, fmt.Errorf("the network's hash %.60q is no UTF-8", s.Model)
	}
	var numbers []byte
	for i := range s.Rollouts {
		r := &s.Rollouts[i]
		if err := plain.Kept("route", r.Route); err != nil {
			return nil, err
		}
		for what, text := range map[string]string{"hash": r.RouteSHA256, "error": r.Err} {
			if !utf8.ValidString(text) {
				return nil, fmt.Errorf(
					"route %s: its %s %.60q is no UTF-8, and would be read as another", r.Route,
					what, text,
				)
			}
		}
		lengths := [3]int{len(r.Lataccel), len(r.Action), len(r.Policy)}
		h.Rollouts = append(h.Rollouts, rollout{r.Route, r.RouteSHA256, lengths, r.Err})
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

// Unmarshal reads what Marshal wrote.
func Unmarshal(data []byte) (*lockstep.Snapshot, error) {
	end := bytes.IndexByte(data, '\n')
	var h header
	if end < 0 || json.Unmarshal(data[:end], &h) != nil || h.Version == 0 {
		return nil, errors.New("not a snapshot: it does not begin with a snapshot's header")
	}
	if h.Version != version {
		return nil, fmt.Errorf(
			"a snapshot of version %d, this program reads version %d", h.Version, version)
	}
	numbers := data[end+1:]
	want := 4
	for _, r := range h.Rollouts {
		for _, n := range r.Lengths {
			if n < 0 || n > len(numbers)/8 {
				return nil, fmt.Errorf(
					"the snapshot of route %.60q: %d numbers, more than the file has", r.Route, n)
			}
			want += 8 * n
		}
	}
	if len(numbers) != want {
		return nil, fmt.Errorf(
			"the snapshot has %d bytes of numbers, its header says %d", len(numbers), want)
	}
	text, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if sum != crc32.ChecksumIEEE(text) {
		return nil, errors.New("the snapshot is damaged: its checksum is another")
	}
	s := &lockstep.Snapshot{Profile: h.Profile, Model: h.Model, Step: h.Step}
	for _, r := range h.Rollouts {
		var columns [3][]float64
		for k, n := range r.Lengths {
			for range n {
				columns[k] = append(
					columns[k], math.Float64frombits(binary.LittleEndian.Uint64(numbers)))
				numbers = numbers[8:]
			}
		}
		s.Rollouts = append(s.Rollouts, lockstep.RolloutState{
			Route: r.Route, RouteSHA256: r.SHA256,
			Lataccel: columns[0], Action: columns[1], Policy: columns[2], Err: r.Err,
		})
	}
	return s, nil
}
