package parity

import (
	"fmt"
	"math"
	"strings"
)

// A Divergence is one place where two rollouts differ.
type Divergence struct {
	Route  string `json:"route"`
	Policy string `json:"policy,omitempty"`
	Step   int    `json:"step"` // -1 for the route and the costs
	Stage  Stage  `json:"stage"`
	Index  int    `json:"index"`            // of the first value that differs; -1 if only hashes are known
	Values int    `json:"values,omitempty"` // of the stage that differ, if known

	Want string `json:"want"` // values with their bit patterns
	Got  string `json:"got"`
	ULPs uint64 `json:"ulps,omitempty"` // steps from one float to the next that lead from one to the other; 0 if that means nothing

	// Forced tells that the difference showed when one side was forced onto the
	// other's trajectory; Unrepeated that it did not show again when the rollout was
	// repeated, so that an engine does not always compute the same.
	Forced     bool `json:"forced,omitempty"`
	Unrepeated bool `json:"unrepeated,omitempty"`

	// Choice is how the step's draw met both distributions, if these are known.
	Choice *Choice `json:"choice,omitempty"`

	// Replay is the command that repeats just this case.
	Replay string `json:"replay,omitempty"`
}

func (d *Divergence) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "route %s", d.Route)
	if d.Policy != "" {
		fmt.Fprintf(&b, ", controller %s", d.Policy)
	}
	if d.Step >= 0 {
		fmt.Fprintf(&b, ", step %d", d.Step)
	}
	fmt.Fprintf(&b, ", stage %s", d.Stage)
	if d.Index >= 0 {
		fmt.Fprintf(&b, ", index %d", d.Index)
	}
	fmt.Fprintf(&b, ": want %s, got %s", d.Want, d.Got)
	if d.ULPs > 0 {
		fmt.Fprintf(&b, ", %d ulp apart", d.ULPs)
	}
	if d.Values > 1 {
		fmt.Fprintf(&b, ", %d values differ", d.Values)
	}
	if d.Unrepeated {
		b.WriteString("; a repetition did not show it again: an engine does not always compute the same")
	}
	if d.Choice != nil {
		fmt.Fprintf(&b, "\n%v", d.Choice)
	}
	if d.Replay != "" {
		fmt.Fprintf(&b, "\nreplay: %s", d.Replay)
	}
	return b.String()
}

// number is any type that a stage consists of.
type number interface {
	float32 | float64 | int64
}

// diff compares two arrays bit by bit. If they differ it returns the first index
// at which they do, and a Divergence that lacks only its place.
func diff[T number](want, got []T) *Divergence {
	if len(want) != len(got) {
		return &Divergence{Index: -1, Want: fmt.Sprintf("%d values", len(want)), Got: fmt.Sprintf("%d values", len(got))}
	}
	var d *Divergence
	for i := range want {
		if bits(want[i]) == bits(got[i]) {
			continue
		}
		if d == nil {
			d = &Divergence{Index: i, Want: show(want[i]), Got: show(got[i]), ULPs: ulps(want[i], got[i])}
		}
		d.Values++
	}
	return d
}

func bits[T number](x T) uint64 {
	switch v := any(x).(type) {
	case float32:
		return uint64(math.Float32bits(v))
	case float64:
		return math.Float64bits(v)
	default:
		return uint64(v.(int64))
	}
}

// show formats a value with enough digits to read it back, and its bits.
func show[T number](x T) string {
	switch v := any(x).(type) {
	case float32:
		return fmt.Sprintf("%v (%08x)", v, math.Float32bits(v))
	case float64:
		return fmt.Sprintf("%v (%016x)", v, math.Float64bits(v))
	default:
		return fmt.Sprint(v)
	}
}

// showHash stands for values of which only the hash is known.
func showHash(hash uint64) string { return fmt.Sprintf("values of hash %016x", hash) }

// ulps is how many steps from one float to the next lead from a to b, 0 if one
// of them is not a number.
func ulps[T number](a, b T) uint64 {
	if math.IsNaN(float64(a)) || math.IsNaN(float64(b)) {
		return 0
	}
	var x, y int64
	switch v := any(a).(type) {
	case float32:
		x, y = int64(ordered(uint64(math.Float32bits(v)), 31)), int64(ordered(uint64(math.Float32bits(any(b).(float32))), 31))
	case float64:
		x, y = ordered(math.Float64bits(v), 63), ordered(math.Float64bits(any(b).(float64)), 63)
	default:
		return 0
	}
	if x < y {
		x, y = y, x
	}
	return uint64(x) - uint64(y)
}

// ordered maps bit patterns to integers in the order of the numbers, with both
// zeros at 0. sign is the place of the sign bit.
func ordered(pattern uint64, sign uint) int64 {
	magnitude := int64(pattern &^ (1 << sign))
	if pattern>>sign&1 == 1 {
		return -magnitude
	}
	return magnitude
}
