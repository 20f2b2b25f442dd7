package classic

import "math"

// sin32 and cos32 are np.sin and np.cos of a float32 up to 71,476, as NumPy's
// kernels for AVX2 and AVX-512 compute them.
func sin32(x float32) float32 { return quadrant32(x, 0) }
func cos32(x float32) float32 { return quadrant32(x, 1) }

// quadrant32 is the sine of x + shift·π/2.
func quadrant32(x float32, shift int32) float32 {
	const magic = 0x1.8p23
	n := float32(float32(x*0x1.45f306p-1)+magic) - magic
	r := fma32(n, -0x1.921fb0p+00, x)
	r = fma32(n, -0x1.5110b4p-22, r)
	r = fma32(n, -0x1.846988p-48, r)
	r2 := r * r
	quadrant := int32(n) + shift
	var y float32
	if quadrant&1 != 0 {
		y = fma32(0x1.98e616p-16, r2, -0x1.6c06dcp-10)
		y = fma32(y, r2, 0x1.55553cp-05)
		y = fma32(y, r2, -0.5)
		y = fma32(y, r2, 1)
	} else {
		y = fma32(0x1.7d3bbcp-19, r2, -0x1.a06bbap-13)
		y = fma32(y, r2, 0x1.11119ap-07)
		y = fma32(y, r2, -0x1.555556p-03)
		y = fma32(float32(y*r2), r, r)
	}
	if quadrant&2 != 0 {
		y = -y
	}
	return y
}

// fma32 is x·y + z with one rounding. The float64 sum is rounded to odd, so that
// rounding it again gives the float32 nearest to the exact value.
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	b := s - p
	e := (p - (s - b)) + (c - b)
	if bits := math.Float64bits(s); e != 0 && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
