package reference

// The NumPy operations that the simulator uses, in NumPy's order.

// clip is np.clip for numbers; NaN stays NaN.
func clip(x, low, high float64) float64 { return min(max(x, low), high) }

// sum is np.sum of a contiguous array: pairwise inside buffers of 8192 elements,
// which are added left to right.
func sum[T float32 | float64](a []T) T {
	const buffer = 8192
	var s T
	for len(a) > buffer {
		s += pairwise(a[:buffer])
		a = a[buffer:]
	}
	return s + pairwise(a)
}

// pairwise halves arrays above 128 elements and keeps eight running sums below.

func pairwise[T float32 | float64](a []T) T {
	n := len(a)
	switch {
	case n < 8:
		var s T
		s = -s // np.add's identity here is -0
		for _, x := range a {
			s += x
		}
		return s
	case n <= 128:
		r := [8]T(a)
		i := 8
		for ; i+8 <= n; i += 8 {
			b := (*[8]T)(a[i:])
			r[0] += b[0]
			r[1] += b[1]
			r[2] += b[2]
			r[3] += b[3]
			r[4] += b[4]
			r[5] += b[5]
			r[6] += b[6]
			r[7] += b[7]
		}
		s := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
		for ; i < n; i++ {
			s += a[i]
		}
		return s
	default:
		half := n / 2
		half -= half % 8
		return pairwise(a[:half]) + pairwise(a[half:])
	}
}

// mean is np.mean; NaN of no elements.
func mean(a []float64) float64 { return sum(a) / float64(len(a)) }

// diff is np.diff.
func diff(a []float64) []float64 {
	var d []float64
	for i := 1; i < len(a); i++ {
		d = append(d, a[i]-a[i-1])
	}
	return d
}
