package reference_test

import (
	"testing"

	"lockstep/internal/goldentest"
	"lockstep/reference"
)

// TestFormatCost: the texts are Python's.
func TestFormatCost(t *testing.T) {
	texts := goldentest.Strings(t, "fmt_text")
	for i, x := range goldentest.Array[float64](t, "fmt_x") {
		if got := reference.FormatCost(x); got != texts[i] {
			t.Errorf("FormatCost(%v) = %q, Python has %q", x, got, texts[i])
		}
	}
}
