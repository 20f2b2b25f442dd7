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
	if err := SameBits("x", []float64{nan}, []float64{other}); err == nil {
		t.Error("another NaN has the same bits")
	}
	if err := Same("ended", []bool{true, false}, []bool{true, true}); err == nil ||
		err.Error() != "ended[1] is false (0), want true (1); 1 of 2 values differ" {
		t.Error(err)
	}
}
