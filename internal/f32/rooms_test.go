//go:build (amd64 || arm64) && !noasm

package f32

import (
	"math"
	"math/big"
	"testing"
)

// TestHolds: what a kernel is let to touch is what one long addition after the other says, also of
// numbers that no int holds.
func TestHolds(t *testing.T) {
	numbers := []int{-1 << 62, -17, -1, 0, 1, 2, 3, 5, 1 << 33, 1 << 62, math.MaxInt}
	for _, length := range []int{0, 1, 4, 12} {
		s := make([]float32, length)
		for _, m := range []int{1, 2, 3, 1 << 32} {
			for _, n := range []int{1, 2, 4, 1 << 32} {
				for _, stride := range numbers {
					for _, step := range numbers {
						for _, width := range []int{0, 1, 3, 12, 13} {
							end := new(big.Int).Mul(
								big.NewInt(int64(m-1)),
								big.NewInt(int64(stride)),
							)
							last := new(big.Int).Mul(
								big.NewInt(int64(n-1)),
								big.NewInt(int64(step)),
							)
							end.Add(end.Add(end, last), big.NewInt(int64(width)))
							want := stride >= 0 && step >= 0 &&
								end.Cmp(big.NewInt(int64(length))) <= 0
							if got := holds(s, m, stride, n, step, width); got != want {
								t.Fatalf(
									"%d runs by %d, %d by %d, of %d, in %d: %v, want %v", m, stride,
									n, step, width, length, got, want,
								)
							}
						}
					}
				}
			}
		}
	}
}
