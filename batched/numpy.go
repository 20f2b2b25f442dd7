package batched

import (
	"errors"
	"math"

	"lockstep"
)

// What NumPy computes around the network, in its order of operations. Products that
// feed sums are wrapped in a conversion, which keeps the compiler from fusing them.

// bins are the lateral accelerations that tokens stand for, in m/s²:
// np.linspace(-5, 5, 1024).
var bins = func() (b [vocabulary]float64) {
	const span = lockstep.LataccelMax - lockstep.LataccelMin
	for i := range b {
		b[i] = float64(float64(i)*(span/(vocabulary-1))) + lockstep.LataccelMin
	}
	b[vocabulary-1] = lockstep.LataccelMax
	return b
}()

// tokenOf is np.digitize(np.clip(x, -5, 5), bins, right=True), the first bin that is
// not below x. Of NaN it is 1024, which is no token.
func tokenOf(x float64) int32 {
	x = clip(x, lockstep.LataccelMin, lockstep.LataccelMax)
	low, high := int32(0), int32(vocabulary)
	for low < high {
		if middle := (low + high) / 2; x <= bins[middle] {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// clip is np.clip; NaN stays NaN.
func clip(x, low, high float64) float64 { return min(max(x, low), high) }

// pairwise is np.sum of up to 8192 contiguous elements: halves at multiples of 8 until
// there are 128 at most, eight running sums of these, and what is left one by one.
func pairwise[T float32 | float64](a []T) T {
	if n := len(a); n > 128 {
		half := n / 2 / 8 * 8
		return pairwise(a[:half]) + pairwise(a[half:])
	}
	var sum T
	if len(a) >= 8 {
		r := [8]T(a[:8])
		for a = a[8:]; len(a) >= 8; a = a[8:] {
			for k, x := range a[:8:8] {
				r[k] += x
			}
		}
		sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	}
	for _, x := range a {
		sum += x
	}
	return sum
}

// probabilities turns a row of logits into NumPy's softmax at the task's temperature.
func (w *worker) probabilities(probs, logits []float32) {
	k := w.kernels
	k.Divide(probs, logits, lockstep.Temperature)
	w.exp(probs, probs, -k.Max(probs))
	k.Divide(probs, probs, pairwise(probs))
}

// lanes is how many rows are summed side by side. A running sum waits for each of its
// additions; those of other rows fill the time.
const lanes = 4

// runningSums writes the running sums in float64 of rows of 1024 probabilities.
func runningSums(sums []float64, probs []float32) {
	const side = lanes * vocabulary
	for ; len(probs) >= side; sums, probs = sums[side:], probs[side:] {
		p0, p1 := (*[vocabulary]float32)(probs), (*[vocabulary]float32)(probs[vocabulary:])
		p2, p3 := (*[vocabulary]float32)(probs[2*vocabulary:]),
			(*[vocabulary]float32)(probs[3*vocabulary:])
		r0, r1 := (*[vocabulary]float64)(sums), (*[vocabulary]float64)(sums[vocabulary:])
		r2, r3 := (*[vocabulary]float64)(sums[2*vocabulary:]),
			(*[vocabulary]float64)(sums[3*vocabulary:])
		var t0, t1, t2, t3 float64
		for i := range vocabulary {
			t0 += float64(p0[i])
			t1 += float64(p1[i])
			t2 += float64(p2[i])
			t3 += float64(p3[i])
			r0[i], r1[i], r2[i], r3[i] = t0, t1, t2, t3
		}
	}
	for ; len(probs) > 0; sums, probs = sums[vocabulary:], probs[vocabulary:] {
		var total float64
		for i, x := range probs[:vocabulary] {
			total += float64(x)
			sums[i] = total
		}
	}
}

// sumTolerance is how far from 1 np.random.choice lets probabilities sum: the square
// root of float32's machine epsilon.
const sumTolerance = 0x1.6a09e6p-12

// checkSum refuses what np.random.choice refuses. It sums once more for that,
// compensated; a softmax gives NaN or a sum so close to 1 that the running sum decides
// the same.
func checkSum(total float64) error {
	if total != total {
		return errors.New("probabilities contain NaN")
	}
	if math.Abs(total-1) > sumTolerance {
		return errors.New("probabilities do not sum to 1")
	}
	return nil
}

// choose is np.random.choice for a draw u in [0, 1): the first token with u < its
// running sum divided by the last one. The quotients rise, so that those alone are
// computed that the search meets.
func choose(sums []float64, u float64) int {
	total := sums[vocabulary-1]
	low, high := 0, vocabulary
	for low < high {
		if middle := (low + high) / 2; u < sums[middle]/total {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// costsOf are a rollout's, of the steps that cost: the target and what was driven, in
// m/s². scratch is as long.
func costsOf(target, lataccel, scratch []float64) lockstep.Costs {
	mean := func(a []float64) float64 { return pairwise(a) / float64(len(a)) }
	squares := scratch[:len(lataccel)]
	for i, x := range lataccel {
		d := target[i] - x
		squares[i] = d * d
	}
	c := lockstep.Costs{Lataccel: mean(squares) * 100}
	squares = squares[:max(len(squares)-1, 0)]
	for i := range squares {
		jerk := (lataccel[i+1] - lataccel[i]) / lockstep.DelT
		squares[i] = jerk * jerk
	}
	c.Jerk = float64(mean(squares) * 100)
	c.Total = float64(c.Lataccel*lockstep.LatAccelCostMultiplier) + c.Jerk
	return c
}

// expectation is the mean of a distribution, in m/s².
func expectation(probs []float32) float64 {
	total := 0.0
	for i, p := range probs {
		total += float64(bins[i] * float64(p))
	}
	return total
}
