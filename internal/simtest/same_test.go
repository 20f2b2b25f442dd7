package simtest

import (
	"math"
	"testing"
)

func TestSame(t *testing.T) {
	nan, other := math.NaN(), math.Float64frombits(math.Float64bits(math.NaN())^1)
	for _, c := range []struct {
		got, want []float64
		says      string
	}{
		{nil, nil, ""},
		{[]float64{1, nan}, []float64{1, other}, ""},
		{[]float64{1}, nil, "x has 1 values, want 0"},
		{
			[]float64{1, 0, nan}, []float64{1, math.Copysign(0, -1), 3},
			"x[1] is 0 (0), want -0 (8000000000000000); 2 of 3 values differ",
		},
	} {
		text := ""
		if err := Same("x", c.got, c.want); err != nil {
			text = err.Error()
		}
		if text != c.says {
			t.Errorf("%v and %v: %q, want %q", c.got, c.want, text, c.says)
		}
	}
	if err := Same("n", []int32{1, 2}, []int32{3, 4}); err == nil ||
		err.Error() != "n[0] is 1 (1), want 3 (3); 2 of 2 values differ" {
		t.Error(err)
	}
	if err := SameBits("x", []float64{nan}, []float64{other}); err == nil ||
		err.Error() != "x[0] is NaN (7ff8000000000001), want NaN (7ff8000000000000); "+
			"1 of 1 values differ" {
		t.Errorf("of another NaN's bits it says %v", err)
	}
	if err := Same("ended", []bool{true, false}, []bool{true, true}); err == nil ||
		err.Error() != "ended[1] is false (0), want true (1); 1 of 2 values differ" {
		t.Error(err)
	}
}

// TestWhole: all cases run where it is asked for, and nowhere else, which is said.
func TestWhole(t *testing.T) {
	for asked, want := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv("LOCKSTEP_WHOLE", asked)
		got := &told{TB: t}
		if whole := Whole(got); whole != want || (got.text == "") != want {
			t.Errorf("LOCKSTEP_WHOLE=%s: %v, and it says %q", asked, whole, got.text)
		}
	}
}
