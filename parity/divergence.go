package parity

import (
	"fmt"
	"math"
	"strings"
)

// A Divergence is the first place where two rollouts differ.
type Divergence struct {
	Route string
	Step  int // -1 for the costs
	Stage Stage
	Index int // of the value in its stage; -1 if only hashes are known

	Want, Got string // values with their bit patterns
	ULPs      uint64 // steps from one float to the next that lead from one to the other; 0 if that means nothing

	// Replay is the command that repeats just this case.
	Replay string
}

func (d *Divergence) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "route %s", d.Route)
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
	for i := range want {
		w, g := bits(want[i]), bits(got[i])
		if w != g {
			return &Divergence{Index: i, Want: show(want[i]), Got: show(got[i]), ULPs: ulps(want[i], got[i])}
		}
	}
	return nil
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
