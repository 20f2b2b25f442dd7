package vectors_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep/golden/vectors"
)

// A recorder is a test that keeps what it is told.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// TestHold: an implementation that is wrong on any one vector, in any one element, is
// found, and one that is right is not.
func TestHold(t *testing.T) {
	const operation = "layer-norm-1.30"
	all := vectors.All(t, operation)
	for wrong := -1; wrong < len(all); wrong++ {
		k := 0
		r := &recorder{TB: t}
		vectors.Hold(r, operation, func(v vectors.Vector) any {
			y := slices.Clone(v.Want.([]float32))
			if k == wrong {
				i := (7 * k) % len(y)
				if k == len(all)-1 {
					i = len(y) - 1
				}
				y[i] = math.Float32frombits(math.Float32bits(y[i]) ^ 1)
			}
			k++
			return y
		})
		if wrong < 0 != (len(r.errors) == 0) {
			t.Errorf("wrong on vector %d: %q", wrong, r.errors)
		}
		if wrong >= 0 &&
			!strings.Contains(strings.Join(r.errors, ""), fmt.Sprintf("vector %d: ", wrong)) {
			t.Errorf("wrong on vector %d: %q", wrong, r.errors)
		}
	}
}

// TestMap: a function is found that is wrong in the last element of a call, in calls
// of one length only, or in place.
func TestMap(t *testing.T) {
	right := map[float32]float32{}
	for _, v := range vectors.All(t, "tanh") {
		right[v.Float32("x")] = v.Want.([]float32)[0]
	}
	none := -1
	for name, broken := range map[string]func(y, x []float32) int{ // the element that is wrong
		"nothing":  func(_, _ []float32) int { return none },
		"the last": func(_, x []float32) int { return len(x) - 1 },
		"the tenth of seventeen": func(_, x []float32) int {
			if len(x) == 17 {
				return 9
			}
			return none
		},
		"in place": func(y, x []float32) int {
			if &y[0] == &x[0] {
				return 0
			}
			return none
		},
	} {
		r := &recorder{TB: t}
		vectors.Map(r, "tanh", func(y, x []float32) {
			bad := broken(y, x)
			for i, v := range x {
				y[i] = right[v]
				if i == bad {
					y[i]++
				}
			}
		})
		if found := len(r.errors) > 0; found != (name != "nothing") {
			t.Errorf("wrong is %s: %q", name, r.errors)
		}
	}
}

// TestDifference: results differ in bits, in number and in type; all NaN are one.
func TestDifference(t *testing.T) {
	nan, other := math.Float32frombits(0x7fc00001), math.Float32frombits(0xffc00002)
	for _, c := range []struct {
		got, want any
		differ    bool
	}{
		{[]float32{1, 2}, []float32{1, 2}, false}, {[]float32{1, 2}, []float32{1, 3}, true},
		{[]float32{1}, []float32{1, 2}, true},
		{[]float32{nan}, []float32{other}, false}, {[]float32{1}, []float32{nan}, true},
		{[]float32{nan}, []float32{1}, true},
		{[]float64{0}, []float64{math.Copysign(0, -1)}, true}, {[]float64{1}, []float32{1}, true},
		{[]int64{1}, []int64{1}, false},
		{[]int64{1 << 60}, []int64{1<<60 + 1}, true}, {"a", "a", false}, {"a", "b", true},
		{nil, []int64{1}, true},
	} {
		if d := vectors.Difference(c.got, c.want); (d != "") != c.differ {
			t.Errorf("%v and %v: %q", c.got, c.want, d)
		}
	}
}
