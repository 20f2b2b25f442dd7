package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"

	"lockstep"
)

// Result is what one rollout of a plan came to.
type Result struct {
	Rollout int
	Costs   lockstep.Costs
	Err     string // why it failed, or empty
}

// NewResult is the result of a plan's rollout.
func NewResult(i int, r lockstep.Result) Result {
	if r.Err != nil {
		return Result{Rollout: i, Err: r.Err.Error()}
	}
	return Result{Rollout: i, Costs: r.Costs}
}

// Result is the engine's result that this came from.
func (r Result) Result() lockstep.Result {
	if r.Err != "" {
		return lockstep.Result{Err: errors.New(r.Err)}
	}
	return lockstep.Result{Costs: r.Costs}
}

// line is a record in a file: a line of JSON behind its CRC-32C. A line that was
// not written whole is none.
type line struct {
	Rollout int      `json:"rollout"`
	Costs   *[3]bits `json:"costs,omitempty"` // lataccel, jerk, total
	Error   string   `json:"error,omitempty"`
	Time    int64    `json:"ms,omitempty"` // since 1970, in a journal
}

// bits is a float64 as its bit pattern, in hexadecimal: NaN has one too.
type bits float64

func (x bits) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%016x", math.Float64bits(float64(x))), nil
}

func (x *bits) UnmarshalText(text []byte) error {
	b, err := strconv.ParseUint(string(text), 16, 64)
	*x = bits(math.Float64frombits(b))
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendLine appends the record of a result.
func appendLine(b []byte, r Result, ms int64) []byte {
	l := line{Rollout: r.Rollout, Error: r.Err, Time: ms}
	if r.Err == "" {
		l.Costs = &[3]bits{bits(r.Costs.Lataccel), bits(r.Costs.Jerk), bits(r.Costs.Total)}
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // strings and numbers
	}
	return fmt.Appendf(b, "%08x %s\n", crc32.Checksum(text, castagnoli), text)
}

// parseLine reads a record, which is of one of the first n rollouts.
func parseLine(text []byte, n int) (r Result, ms int64, err error) {
	if len(text) < 9 || text[8] != ' ' {
		return r, 0, errors.New("not a record")
	}
	sum, err := strconv.ParseUint(string(text[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(text[9:], castagnoli) {
		return r, 0, errors.New("a record with another checksum")
	}
	var l line
	if err := json.Unmarshal(text[9:], &l); err != nil {
		return r, 0, err
	}
	if l.Rollout < 0 || l.Rollout >= n || (l.Costs == nil) != (l.Error != "") {
		return r, 0, fmt.Errorf("a record that makes no sense, of rollout %d of %d", l.Rollout, n)
	}
	r = Result{Rollout: l.Rollout, Err: l.Error}
	if l.Costs != nil {
		r.Costs = lockstep.Costs{Lataccel: float64(l.Costs[0]), Jerk: float64(l.Costs[1]), Total: float64(l.Costs[2])}
	}
	return r, l.Time, nil
}
