package vectors_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep/golden/vectors"
	"lockstep/internal/npz"
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

// TestOf: vectors that are handed out are the caller's.
func TestOf(t *testing.T) {
	const operation = "tanh"
	before := vectors.All(t, operation)
	clear(append(before[:1], vectors.Vector{}))
	if after := vectors.All(t, operation); after[0].Args == nil || after[1].Args == nil {
		t.Error("who writes to the vectors that he was given changes those of others")
	}
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
	const operation = "exp-numpy-U"
	right := map[uint32]float32{}
	var inputs []float32
	for _, v := range vectors.All(t, operation) {
		for i, x := range v.Float32s("x") {
			inputs = append(inputs, x)
			right[math.Float32bits(x)] = v.Want.([]float32)[i]
		}
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
		"the first of forty": func(_, x []float32) int {
			if len(x) == 40 {
				return 0
			}
			return none
		},
		"the last of all, alone": func(_, x []float32) int {
			if len(x) == 1 && x[0] == inputs[len(inputs)-1] {
				return 0
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
		vectors.Map(r, operation, func(y, x []float32) {
			bad := broken(y, x)
			for i, v := range x {
				y[i] = right[math.Float32bits(v)]
				if i == bad {
					y[i] = math.Float32frombits(math.Float32bits(y[i]) ^ 1)
				}
			}
		})
		if found := len(r.errors) > 0; found != (name != "nothing") {
			t.Errorf("wrong is %s: %q", name, r.errors)
		}
		all := fmt.Sprintf("%s, inputs 0 to %d (", operation, len(inputs)-1)
		if name == "the last" && !strings.HasPrefix(r.errors[0], all) {
			t.Errorf("%s, want %s", r.errors[0], all)
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
	const want = "element 1 is 2 (0x40000000), want 3 (0x40400000); 2 of 3 differ"
	if d := vectors.Difference([]float32{1, 2, 3}, []float32{1, 3, 4}); d != want {
		t.Errorf("%s, want %s", d, want)
	}
}

// TestArchive: vectors of every type are read as they were written, lengths that are none are
// refused, and so is what has no name or no type.
func TestArchive(t *testing.T) {
	all := map[string][]vectors.Vector{
		"a": {
			{Args: map[string]any{"x": []float32{1, 2}, "t": "\t one", "lengths": []int64{1}},
				Want: []int64{3}},
			{Args: map[string]any{"x": []float32{}, "t": "", "lengths": []int64{}},
				Want: []int64{4, 5}},
			{Args: map[string]any{"x": []float32{3}, "t": "two  ", "lengths": []int64{7}},
				Want: []int64{6}},
		},
		"b": {{Args: map[string]any{"y": []float64{0.1}}, Want: "three"}},
	}
	data, err := vectors.Encode(all)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := vectors.Decode(data); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v, want %+v", got, err, all)
	} else { // who makes an argument longer writes over no other
		for _, v := range got["a"] {
			_, _ = append(v.Float32s("x"), 9), append(v.Want.([]int64), 9)
		}
		if !reflect.DeepEqual(got, all) {
			t.Errorf("with longer arguments %+v, want %+v", got, all)
		}
	}
	for want, v := range map[string]vectors.Vector{
		"array c/x has elements of type int":     {Args: map[string]any{"x": 1}, Want: "w"},
		"array c/want has elements of type bool": {Args: map[string]any{}, Want: true},
	} {
		if _, err := vectors.Encode(map[string][]vectors.Vector{"c": {v}}); err == nil ||
			err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, lengths := range map[string][]int64{
		"2 elements are left, want -1":  {-1, 3},
		"2 elements are left, want 3":   {3},
		"1 elements are left, want 2":   {1, 2},
		"1 elements too many":           {0, 1},
		"vectors.npz, array a/x: ":      {-1, 3},
		"array a/y: 2 vectors, want 1":  {2},
		"golden/vectors has no vectors": nil,
	} {
		var b bytes.Buffer
		if err := npz.Write(&b, []npz.Array{
			npz.New("a/x", []int64{6, 7}, 2), npz.New("a/x.lengths", lengths, len(lengths)),
			npz.New("a/y", []int64{6, 7}, 2), npz.New("a/y.lengths", []int64{1, 1}, 2),
		}); err != nil {
			t.Fatal(err)
		}
		_, err := vectors.Decode(b.Bytes())
		if lengths == nil {
			_, err = vectors.Of("none")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lengths %v: %v, want %s", lengths, err, want)
		}
	}
}
