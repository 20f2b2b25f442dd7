package classic

import (
	"crypto/sha256"
	"math"
	"testing"
)

// TestNaN: one NaN is as good as another, as value and in the hash, and no number is.
func TestNaN(t *testing.T) {
	of := func(x float64) (string, error) {
		c := comparison{
			RecordedCase: RecordedCase{First: [][][]string{{{"0x1p+0", "nan"}, {"nan"}}}},
			hash:         sha256.New(),
		}
		column := []float64{1, x}
		err := c.put(0, column, []float32{float32(x)})
		if math.Float64bits(column[1]) != math.Float64bits(x) {
			t.Errorf("%x is %x once it was looked at", math.Float64bits(x),
				math.Float64bits(column[1]))
		}
		return string(c.hash.Sum(nil)), err
	}
	hash, err := of(math.NaN())
	if err != nil {
		t.Error(err)
	}
	if other, err := of(math.Float64frombits(0xfff8000000000007)); err != nil || other != hash {
		t.Errorf("another NaN has another hash, or %v", err)
	}
	if other, err := of(2); err == nil || other == hash {
		t.Error("a number is as good as a NaN")
	}
}
