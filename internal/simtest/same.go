// Package simtest compares what simulators compute, for tests: by bits, and naming the first
// value that differs; and errors by what they say.
package simtest

import (
	"fmt"
	"math"
)

// A Difference is how an array differs from what it should be.
type Difference struct {
	Index, Of int // the first value that differs, and how many there are
	text      string
}

func (d *Difference) Error() string { return d.text }

type value interface {
	float32 | float64 | int32 | int64 | uint64 | uint8 | bool
}

// Same is nil if got has the bits of want, where one NaN is as good as another: which of them an
// operation gives nothing prescribes. Else it names the array, the first element that differs and
// both of its values, and counts those that differ.
func Same[T value](array string, got, want []T) error {
	return same(
		array, got, want, func(a, b T) bool { return bits(a) == bits(b) || a != a && b != b })
}

// SameBits is Same for arrays whose NaNs, too, have the same bits.
func SameBits[T value](array string, got, want []T) error {
	return same(array, got, want, func(a, b T) bool { return bits(a) == bits(b) })
}

func same[T value](array string, got, want []T, equal func(a, b T) bool) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s has %d values, want %d", array, len(got), len(want))
	}
	first, differ := -1, 0
	for i := range got {
		if equal(got[i], want[i]) {
			continue
		}
		if first < 0 {
			first = i
		}
		differ++
	}
	if first < 0 {
		return nil
	}
	return &Difference{first, len(got), fmt.Sprintf(
		"%s[%d] is %v (%x), want %v (%x); %d of %d values differ",
		array, first, got[first], bits(got[first]), want[first], bits(want[first]),
		differ, len(got))}
}

// bits is a value's pattern.
func bits[T comparable](x T) any {
	switch x := any(x).(type) {
	case float32:
		return math.Float32bits(x)
	case float64:
		return math.Float64bits(x)
	case bool:
		if x {
			return 1
		}
		return 0
	}
	return x
}
