package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"

	"lockstep"
)

// Result is what one rollout of a plan came to, or what a step of a search chose for a route.
type Result struct {
	Rollout int
	Costs   lockstep.Costs
	Err     string    // why it failed, or empty
	Chosen  []float64 // of a step of a search, or nil
}

// maxError is the longest error that is kept, in bytes; however JSON writes it, its record is
// shorter than maxLine.
const maxError = 1 << 16

// NewResult is the result of a plan's rollout.
func NewResult(i int, r lockstep.Result) Result {
	if r.Err != nil {
		text := r.Err.Error()
		return Result{
			Rollout: i,
			Err:     strings.ToValidUTF8(text[:min(len(text), maxError)], "\ufffd"),
		}
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

// same reports whether two results are one, NaN included.
func (r Result) same(s Result) bool {
	return bytes.Equal(appendLine(nil, "", r, 0), appendLine(nil, "", s, 0))
}

// line is a record in a file: a line of JSON behind the CRC-32C of the key of what it belongs
// to and of itself. A line that was not written whole is none, nor is one of another plan.
type line struct {
	Rollout int      `json:"rollout"`
	Costs   *[3]bits `json:"costs,omitempty"` // lataccel, jerk, total
	Error   string   `json:"error,omitempty"`
	Chosen  []bits   `json:"chosen,omitempty"`
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

// checksum is that of a line.
func checksum(key string, text []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, text)
}

// appendLine appends the record of a result. The key is the plan's in a journal, and empty in
// a shard, which has the plan's key in its name and is hashed as a whole.
func appendLine(b []byte, key string, r Result, ms int64) []byte {
	l := line{Rollout: r.Rollout, Error: r.Err, Time: ms}
	for _, x := range r.Chosen {
		l.Chosen = append(l.Chosen, bits(x))
	}
	if r.Err == "" && len(r.Chosen) == 0 {
		l.Costs = &[3]bits{bits(r.Costs.Lataccel), bits(r.Costs.Jerk), bits(r.Costs.Total)}
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // strings and numbers
	}
	return fmt.Appendf(b, "%08x %s\n", checksum(key, text), text)
}

// parseLine reads a record under a key, which is of one of the first n rollouts.
func parseLine(text []byte, key string, n int) (r Result, ms int64, err error) {
	if len(text) < 9 || text[8] != ' ' {
		return r, 0, errors.New("not a record")
	}
	sum, err := strconv.ParseUint(string(text[:8]), 16, 32)
	if err != nil || uint32(sum) != checksum(key, text[9:]) {
		return r, 0, errors.New("a record with another checksum")
	}
	var l line
	if err := json.Unmarshal(text[9:], &l); err != nil {
		return r, 0, err
	}
	if l.Rollout < 0 || l.Rollout >= n || !l.whole() {
		return r, 0, fmt.Errorf("a record that makes no sense, of rollout %d of %d", l.Rollout, n)
	}
	r = Result{Rollout: l.Rollout, Err: l.Error}
	if l.Costs != nil {
		r.Costs = lockstep.Costs{
			Lataccel: float64(l.Costs[0]),
			Jerk:     float64(l.Costs[1]),
			Total:    float64(l.Costs[2]),
		}
	}
	for _, x := range l.Chosen {
		r.Chosen = append(r.Chosen, float64(x))
	}
	return r, l.Time, nil
}

// whole reports whether a record says what came, and one thing alone.
func (l *line) whole() bool {
	says := 0
	for _, there := range []bool{l.Costs != nil, l.Error != "", len(l.Chosen) > 0} {
		if there {
			says++
		}
	}
	return says == 1
}

// timed is a result and when it came.
type timed struct {
	Result
	ms int64 // since 1970
}

// parseLines reads what stands in a line, which is one record. Of a line that is damaged, and so
// may be several that have lost their ends, it finds whole records, and says why it is none.
func parseLines(text []byte, key string, n int) (found []timed, why error) {
	r, ms, why := parseLine(text, key, n)
	if why == nil {
		return []timed{{r, ms}}, nil
	}
	begin := 0
	try := func(end int) {
		if r, ms, err := parseLine(text[begin:end], key, n); err == nil {
			found = append(found, timed{r, ms})
		}
	}
	for i := 1; i+10 <= len(text); i++ {
		if text[i+8] == ' ' && text[i+9] == '{' { // where a record begins, or its text has the same
			try(i - 1)
			begin = i
		}
	}
	if begin > 0 {
		try(len(text))
	}
	try(max(begin, len(text)-1))
	return found, why
}
