package onnxruntime

import (
	"errors"
	"math"

	"lockstep"
)

// What NumPy computes around the network, in its order of operations. Products
// that feed sums are wrapped in a conversion, which keeps Go from fusing them.

// NumPy's float32 exponential, e^x ≈ n(r)/d(r) · 2^q with q = round(x·log2 e)
// and r = x - q·ln 2.
const (
	expMin   = -0x1.9fe36ap+6 // e^x is 0 from here down
	log2E    = 0x1.715476p+0
	expMagic = 0x1.8p+23   // adding it rounds to an integer
	ln2High  = 0x1.62e4p-1 // 15 bits, so that q·ln2High is exact
	ln2Low   = 0x1.7f7d1cp-20

	expP0 = 1
	expP1 = 0x1.7397aap-1
	expP2 = 0x1.fa98bp-3
	expP3 = 0x1.a2fb18p-5
	expP4 = 0x1.bae2b2p-8
	expP5 = 0x1.0a7bbp-11
	expQ0 = 1
	expQ1 = -0x1.18d0aep-2
	expQ2 = 0x1.61d064p-6
)

// expRow replaces each x of a row by NumPy's e^(x-shift). No x-shift is
// positive, NaN stays NaN. fused is the variant ExpF.
//
// NumPy fuses products and sums. The product of two float32 is exact in float64;
// adding a third there and rounding to float32 rounds twice instead of once,
// which could matter, and does not here: TestExpFused tried every float32.
func expRow(row []float32, shift float32, fused bool) {
	for i, x := range row {
		x -= shift
		q := float32(x*log2E) + expMagic
		if fused {
			q = float32(float64(float64(x)*log2E) + expMagic)
		}
		q -= expMagic
		r := fma(float64(q), -ln2High, float64(x))
		r = fma(float64(q), -ln2Low, r)
		n := fma(expP5, r, expP4)
		n = fma(n, r, expP3)
		n = fma(n, r, expP2)
		n = fma(n, r, expP1)
		n = fma(n, r, expP0)
		d := fma(expQ2, r, expQ1)
		d = fma(d, r, expQ0)
		y := float32(n) / float32(d)
		// y·2^q by way of y·2^(q+64), which is exact, so that a result below the
		// normal range is rounded once.
		y *= math.Float32frombits(uint32(int32(q)+127+64) << 23)
		y *= 0x1p-64
		switch {
		case x != x:
			y = x
		case x <= expMin:
			y = 0
		}
		row[i] = y
	}
}

// fma is x·y + z of float32 numbers, rounded to float32.
func fma(x, y, z float64) float64 { return float64(float32(float64(x*y) + z)) }

// softmax turns a row of logits into probabilities at the task's temperature and
// writes their running sums in float64, the last of which it returns.
//
// NaN is no maximum here, as it is in NumPy; all probabilities are NaN either
// way.
func softmax(logits, probs []float32, running []float64, fused bool) float64 {
	probs, running = probs[:len(logits)], running[:len(logits)]
	highest := float32(math.Inf(-1))
	for i, x := range logits {
		x /= lockstep.Temperature
		probs[i] = x
		if x > highest {
			highest = x
		}
	}
	expRow(probs, highest, fused)
	s := sum(probs)
	var total float64
	for i, x := range probs {
		x /= s
		probs[i] = x
		total += float64(x)
		running[i] = total
	}
	return total
}

// sum is np.sum of up to 8192 contiguous elements.
func sum[T float32 | float64](a []T) T {
	var zero T
	return zero + pairwiseSum(a)
}

// pairwiseSum halves arrays of more than 128 elements at a multiple of 8 and
// adds shorter ones up in eight running sums.
func pairwiseSum[T float32 | float64](a []T) T {
	n := len(a)
	if n > 128 {
		half := n / 2 &^ 7
		return pairwiseSum(a[:half]) + pairwiseSum(a[half:])
	}
	var s T
	tail := a
	if n >= 8 {
		s0, s1, s2, s3, s4, s5, s6, s7 := a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
		for tail = a[8:]; len(tail) >= 8; tail = tail[8:] {
			s0 += tail[0]
			s1 += tail[1]
			s2 += tail[2]
			s3 += tail[3]
			s4 += tail[4]
			s5 += tail[5]
			s6 += tail[6]
			s7 += tail[7]
		}
		s = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
	}
	for _, x := range tail {
		s += x
	}
	return s
}

// sumTolerance is how far from 1 np.random.choice lets probabilities sum: the
// square root of float32's machine epsilon.
const sumTolerance = 0x1.6a09e6p-12

// checkSum refuses what np.random.choice refuses. NumPy sums once more for that,
// compensated; softmax gives NaN or sums so close to 1 that the running sum
// decides the same.
func checkSum(total float64) error {
	if total != total {
		return errors.New("probabilities contain NaN")
	}
	if math.Abs(total-1) > sumTolerance {
		return errors.New("probabilities do not sum to 1")
	}
	return nil
}

// divide makes running sums the cumulative distribution.
func divide(running []float64) {
	total := running[len(running)-1]
	for i := range running {
		running[i] /= total
	}
}

// choose is np.random.choice for a draw u in [0, 1): the first token with
// u < running[token]/total, where total is the last running sum. Only the
// quotients that the search meets are computed; division by a positive number
// keeps the order of the rest.
func choose(running []float64, u float64) int {
	total := running[len(running)-1]
	low, high := 0, len(running)
	for low < high {
		middle := (low + high) / 2
		if u < running[middle]/total {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// bins are the lateral accelerations that tokens stand for, in m/s²,
// np.linspace(-5, 5, 1024).
var bins = func() (b [lockstep.VocabSize]float64) {
	const n = lockstep.VocabSize - 1
	const step = (lockstep.LataccelMax - lockstep.LataccelMin) / n
	for i := range n {
		b[i] = float64(float64(i)*step) + lockstep.LataccelMin
	}
	b[n] = lockstep.LataccelMax
	return b
}()

// encode is np.digitize(np.clip(x, -5, 5), bins, right=True), the first bin
// that is not below x. For NaN it is VocabSize, which is no token.
func encode(x float64) int64 {
	x = clip(x, lockstep.LataccelMin, lockstep.LataccelMax)
	if x != x {
		return lockstep.VocabSize
	}
	// The bins are evenly spaced up to rounding, so a guess is at most one off.
	i := int((x - lockstep.LataccelMin) * ((lockstep.VocabSize - 1) / (lockstep.LataccelMax - lockstep.LataccelMin)))
	for i > 0 && x <= bins[i-1] {
		i--
	}
	for x > bins[i] {
		i++
	}
	return int64(i)
}

// clip is np.clip; NaN stays NaN.
func clip(x, low, high float64) float64 {
	if x < low {
		return low
	}
	if x > high {
		return high
	}
	return x
}

// costs of a rollout from the target and the simulated lateral acceleration,
// both from step ControlStartIdx to the last that costs. scratch is at least as
// long as they are.
func costs(target, lataccel, scratch []float64) lockstep.Costs {
	n := len(lataccel)
	squares := scratch[:n]
	for i, x := range lataccel {
		d := target[i] - x
		squares[i] = d * d
	}
	tracking := (sum(squares) / float64(n)) * 100

	squares = scratch[:max(n-1, 0)]
	for i := range squares {
		d := (lataccel[i+1] - lataccel[i]) / lockstep.DelT
		squares[i] = d * d
	}
	jerk := float64((sum(squares) / float64(len(squares))) * 100)

	return lockstep.Costs{
		Lataccel: tracking,
		Jerk:     jerk,
		Total:    float64(tracking*lockstep.LatAccelCostMultiplier) + jerk,
	}
}

// expectation is the mean of the distribution, in m/s²: in the order of the bins.
func expectation(probs []float32) float64 {
	mean := 0.0
	for i, bin := range bins {
		mean += float64(float64(probs[i]) * bin)
	}
	return mean
}
