package f32

import (
	"math"
	"math/bits"
	"testing"
)

// TestOneRow: one row is as long as the context, whatever the distance to a next one would be.
func TestOneRow(t *testing.T) {
	for _, set := range Available() {
		for _, stride := range []int{0, 1, Context - 1, 1 << (bits.UintSize - 2)} {
			for name, run := range map[string]func(s []float32, rows, stride, first int){
				"Softmax512": set.Softmax512,
				"Softmax256": set.Softmax256,
				"Softmax4":   set.Softmax4,
			} {
				row := make([]float32, Context)
				run(row, 1, stride, Context-1)
				sum := float32(0)
				for _, x := range row {
					sum += x
				}
				if math.Abs(float64(sum-1)) > 1e-6 {
					t.Errorf("%s: %s of equal scores sums to %v", set.Name, name, sum)
				}
			}
		}
	}
}

// TestSums: the plain softmaxes of scores that differ have probabilities that are those of
// float64, but for what roundings make of them: whoever shares their code shares its faults.
func TestSums(t *testing.T) {
	for name, run := range map[string]func(s []float32, rows, stride, first int){
		"Softmax512": Go.Softmax512, "Softmax256": Go.Softmax256, "Softmax4": Go.Softmax4,
	} {
		for first := range Context {
			row, want, sum := make([]float32, Context), make([]float64, first+1), 0.0
			for i := range row {
				row[i] = float32(i*i%7) - 3
			}
			for i := range want {
				want[i] = math.Exp(float64(row[i]))
				sum += want[i]
			}
			run(row, 1, Context, first)
			for i, x := range want {
				if got := float64(row[i]); math.Abs(got-x/sum) > 1e-6*x/sum {
					t.Errorf(
						"%s: probability %d of %d is %v, want %v", name, i, first+1, got, x/sum,
					)
				}
			}
		}
	}
	lanes := 0
	for n := range uint32(1000) {
		var e [Context]float32
		var c [4]float32
		plain := float32(0)
		for i := range e {
			e[i] = float32(1+(n*2654435761+uint32(i)*40503)%65521) / 7
			c[i%4] += e[i]
			plain += e[i]
		}
		want := (c[0] + c[1]) + (c[2] + c[3])
		if got := sum4(&e); got != want {
			t.Errorf("the sum of %v in four lanes is %v, want %v", e, got, want)
		}
		if want != plain {
			lanes++
		}
	}
	if lanes == 0 {
		t.Error("sums in four lanes are those of one: they cannot tell")
	}
	y, x := make([]float32, 64), make([]float32, 64)
	const shift = 0.25
	for i := range x {
		x[i] = float32(i)/8 - 4
	}
	for name, run := range map[string]func(y, x []float32, shift float32){
		"Exp512": Go.Exp512, "Exp256": Go.Exp256, "ExpNumPy": Go.ExpNumPy,
		"ExpNumPyFused": Go.ExpNumPyFused, "ExpLibrary": Go.ExpLibrary,
	} {
		run(y, x, shift)
		for i := range x {
			if want := math.Exp(float64(x[i] + shift)); math.Abs(float64(y[i])-want) > 1e-6*want {
				t.Errorf("%s(%v + %v) is %v, want %v", name, x[i], shift, y[i], want)
			}
		}
	}
}
