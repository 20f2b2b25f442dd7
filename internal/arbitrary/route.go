package arbitrary

import (
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"lockstep"
)

// ShortRows are lengths of routes that take few steps of the network.
func ShortRows() *rapid.Generator[int] {
	return rapid.OneOf(rapid.Just(lockstep.MinRows), rapid.IntRange(lockstep.MinRows, 130))
}

// LongRows are lengths around those where costs end, and others.
func LongRows() *rapid.Generator[int] {
	return rapid.OneOf(
		rapid.SampledFrom([]int{101, 102, 499, 500, 501, 502, 599, 600, 601, 650}),
		rapid.IntRange(101, 650),
	)
}

// Bin is the lateral acceleration of a token, in m/s².
func Bin(token int) float64 {
	if token == lockstep.VocabSize-1 {
		return lockstep.LataccelMax
	}
	const step = (lockstep.LataccelMax - lockstep.LataccelMin) / (lockstep.VocabSize - 1)
	return float64(float64(token)*step) + lockstep.LataccelMin
}

// Edge is a number that arithmetic could trip over: zeros, subnormal numbers of
// both widths, the ends of float32 and float64, halves of an ulp.
func Edge() *rapid.Generator[float64] {
	return rapid.SampledFrom([]float64{
		0, math.Copysign(0, -1), 1, -1,
		math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1023, 0x1p-1022,
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-150, 0x1.000002p-150,
		0x1p-127, 0x1p-126,
		0x1.000001p0, 0x1.000003p0, -0x1.000001p0, // between two float32
		1e-7, 1e4, -1e10, 1e19, -1e30,
		math.MaxFloat32, -math.MaxFloat32, 0x1.ffffffp127, 0x1.fffffefp127, math.MaxFloat64,
		-math.MaxFloat64,
	})
}

// Lataccel is a finite lateral acceleration in m/s²: a bin, its neighbour, an end
// of the range or beyond it, or any other.
func Lataccel() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) float64 {
			x := Bin(rapid.IntRange(0, lockstep.VocabSize-1).Draw(t, "token"))
			switch rapid.IntRange(-1, 1).Draw(t, "side") {
			case -1:
				return math.Nextafter(x, math.Inf(-1))
			case 1:
				return math.Nextafter(x, math.Inf(1))
			}
			return x
		}),
		rapid.Float64Range(-5, 5),
		rapid.Float64Range(-1, 1),
		rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), 5, -5, 4.5, -4.5, 5.5, -5.5, 0.5, 40, -40,
			math.SmallestNonzeroFloat64, 1e300, -1e300,
		}),
	)
}

// shape is how a piece of a column goes on from one value towards another.
type shape int

const (
	hold shape = iota
	ramp
	alternate
	noise
)

// column makes a column of n rows: pieces, and then single rows changed.
func column(t *rapid.T, name string, n int, value *rapid.Generator[float64]) []float64 {
	x := make([]float64, n)
	from := 0
	for k := rapid.IntRange(1, 3).Draw(t, name+" pieces"); from < n; k-- {
		to := n
		if k > 1 {
			to = min(n, from+rapid.IntRange(1, 120).Draw(t, "rows"))
		}
		a, kind := value.Draw(t, "from"),
			shape(rapid.IntRange(int(hold), int(noise)).Draw(t, "shape"))
		b := a
		if kind != hold {
			b = value.Draw(t, "to")
		}
		random := rand.New(rand.NewPCG(math.Float64bits(a), math.Float64bits(b)))
		for i := from; i < to; i++ {
			switch part := float64(i-from) / float64(to-from); {
			case kind == ramp:
				x[i] = float64((1-part)*a) + float64(part*b)
			case kind == alternate && (i-from)%2 == 1:
				x[i] = b
			case kind == noise:
				part = random.Float64()
				x[i] = float64((1-part)*a) + float64(part*b)
			default:
				x[i] = a
			}
		}
		from = to
	}
	for range rapid.IntRange(0, 3).Draw(t, name+" changes") {
		x[row(n).Draw(t, "row")] = value.Draw(t, "value")
	}
	return x
}

// row is one of n rows; it likes those where something begins or ends.
func row(n int) *rapid.Generator[int] {
	edges := []int{0, 19, 20, 80, 99}
	for _, i := range []int{100, 101, 119, 120, 121, 499, 500, n - 1} {
		if i < n {
			edges = append(edges, i)
		}
	}
	return rapid.OneOf(rapid.SampledFrom(edges), rapid.IntRange(0, n-1))
}

// Seed is a seed of a route's draws. A loader makes them below 10,000, a caller
// may give any.
func Seed() *rapid.Generator[uint32] {
	return rapid.OneOf(
		rapid.SampledFrom([]uint32{0, 1, 3285, 9739, 9999, 1 << 31, math.MaxUint32}),
		rapid.Uint32Range(0, 9999),
	)
}

// Route is a route of numbers that an engine must take: finite, except that the
// steer command may be anything from row ControlStartIdx on, or end there.
func Route(rows *rapid.Generator[int]) *rapid.Generator[*lockstep.Route] {
	return rapid.Custom(func(t *rapid.T) *lockstep.Route {
		n := rows.Draw(t, "rows")
		bounded := func(low, high float64, often ...float64) *rapid.Generator[float64] {
			return rapid.OneOf(rapid.SampledFrom(often), rapid.Float64Range(low, high))
		}
		r := &lockstep.Route{
			Name:           "arbitrary",
			Seed:           Seed().Draw(t, "seed"),
			TargetLataccel: column(t, "target", n, Lataccel()),
			VEgo: column(
				t, "v ego", n, bounded(0, 45, 0, math.SmallestNonzeroFloat64, 1e-40, 33.3),
			),
			AEgo: column(t, "a ego", n, bounded(-9, 9, 0, -1e-46, 1e-310)),
			RollLataccel: column(
				t, "roll", n, bounded(-3, 3, 0, math.Copysign(0, -1), 9.81, -9.81),
			),
			SteerCommand: column(
				t, "steer", n,
				bounded(-3, 3, 0, 2, -2, math.Nextafter(2, 3), math.Nextafter(-2, 0), 7, -1e9),
			),
		}
		switch rapid.IntRange(0, 3).Draw(t, "steer from row 100 on") {
		case 0:
			r.SteerCommand = r.SteerCommand[:lockstep.ControlStartIdx]
		case 1:
			fill(r.SteerCommand[lockstep.ControlStartIdx:], math.NaN())
		case 2:
			fill(r.SteerCommand[lockstep.ControlStartIdx:], math.Inf(1))
		}
		if rapid.IntRange(0, 7).Draw(t, "a number beyond reason") == 7 {
			column := rapid.SampledFrom([][]float64{r.VEgo, r.AEgo, r.RollLataccel, r.SteerCommand})
			for _, c := range rapid.SliceOfN(column, 1, 2).Draw(t, "columns") {
				c[row(len(c)).Draw(t, "row")] = Edge().Draw(t, "number")
			}
		}
		r.Draws = draws(t, r)
		return r
	})
}

// draws are what a route may carry as its draws: none, its own, too few of them,
// or those of another seed. An engine must not be led astray.
func draws(t *rapid.T, r *lockstep.Route) []float64 {
	n := r.Len() - lockstep.ContextLength
	switch rapid.IntRange(0, 3).Draw(t, "draws") {
	case 1:
		return lockstep.Draws(r.Seed, n)
	case 2:
		return lockstep.Draws(r.Seed, rapid.IntRange(0, n-1).Draw(t, "number of draws"))
	case 3:
		return lockstep.Draws(r.Seed+1, n)
	}
	return nil
}

func fill(x []float64, v float64) {
	for i := range x {
		x[i] = v
	}
}
