package arbitrary

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/model"
)

// TestRoute: routes are ones that an engine takes, and reach the edges.
func TestRoute(t *testing.T) {
	t.Parallel()
	routes := drawn(Route(rapid.OneOf(ShortRows(), LongRows())), 1500)
	reached, least := map[string]int{}, map[string]int{ // what comes of other numbers, too
		"a road to the left": 600, "a road of -0": 450, "steer of 2 and of -2": 35,
	}
	for _, r := range routes {
		holdRoute(t, r)
		for edge, there := range edges(r) {
			reached[edge] += map[bool]int{true: 1}[there]
		}
	}
	for edge, n := range reached {
		if n <= least[edge] {
			t.Errorf("%d of %d routes, want more than %d: %s", n, len(routes), least[edge], edge)
		}
	}
	if n := reached["a number beyond reason"]; n > len(routes)/10 {
		t.Errorf("%d of %d routes have a number beyond reason", n, len(routes))
	}
}

// holdRoute: a route has columns of one length and finite numbers, but for steer commands, which
// may end at row 100.
func holdRoute(t *testing.T, r *lockstep.Route) {
	t.Helper()
	n := r.Len()
	if n < lockstep.MinRows || n > 650 || len(r.VEgo) != n || len(r.AEgo) != n ||
		len(r.RollLataccel) != n ||
		len(r.SteerCommand) != n && len(r.SteerCommand) != 100 ||
		len(r.Draws) > n-lockstep.ContextLength {
		t.Fatalf(
			"%d rows; columns of %d, %d, %d, %d; %d draws", n, len(r.VEgo), len(r.AEgo),
			len(r.RollLataccel), len(r.SteerCommand), len(r.Draws),
		)
	}
	for _, c := range [][]float64{
		r.TargetLataccel, r.VEgo, r.AEgo, r.RollLataccel, r.SteerCommand[:100],
	} {
		for i, x := range c {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("%v in row %d", x, i)
			}
		}
	}
}

// edges are those that routes should reach, and whether this one does.
func edges(r *lockstep.Route) map[string]bool {
	n := r.Len()
	bin := func(x float64) bool {
		i := math.Round((x + 5) * 102.3)
		return i >= 0 && i < 1024 && x == Bin(int(i))
	}
	begins := func(seed uint32, count int) bool {
		return len(r.Draws) == count && slices.Equal(r.Draws[:3], lockstep.Draws(seed, 3))
	}
	beyond := func(x []float64) bool {
		return slices.ContainsFunc(x, func(x float64) bool {
			return math.Abs(x) > 1e9 && !math.IsInf(x, 0)
		})
	}
	columns := slices.DeleteFunc(
		[][]float64{r.VEgo, r.AEgo, r.RollLataccel, r.SteerCommand},
		func(x []float64) bool { return !beyond(x) },
	)
	return map[string]bool{
		"101 rows":              n == 101,
		"500 rows":              n == 500,
		"501 rows":              n == 501,
		"over 600 rows":         n > 600,
		"standstill":            slices.Contains(r.VEgo, 0),
		"standstill throughout": slices.Max(r.VEgo) == 0,
		"subnormal speed": slices.ContainsFunc(r.VEgo,
			func(x float64) bool { return x > 0 && x < 0x1p-126 }),
		"target of 5":     slices.Contains(r.TargetLataccel, 5),
		"target of -5":    slices.Contains(r.TargetLataccel, -5),
		"target beyond":   slices.Max(r.TargetLataccel) > 5,
		"target of a bin": slices.ContainsFunc(r.TargetLataccel, bin),
		"beside a bin": slices.ContainsFunc(r.TargetLataccel,
			func(x float64) bool { return !bin(x) && bin(math.Nextafter(x, 9)) }),
		"-0": slices.ContainsFunc(r.TargetLataccel,
			func(x float64) bool { return x == 0 && math.Signbit(x) }),
		"a step at every row":       slices.Min(steps(r.TargetLataccel)) > 1,
		"steer ends at row 100":     len(r.SteerCommand) == 100,
		"no steer from row 100":     len(r.SteerCommand) > 100 && math.IsNaN(r.SteerCommand[100]),
		"steer beyond 2":            has(r.SteerCommand[:100], math.Nextafter(2, 3)),
		"steer of 2 and of -2":      has(r.SteerCommand[:100], 2) && has(r.SteerCommand[:100], -2),
		"steer within -2":           has(r.SteerCommand[:100], math.Nextafter(-2, 0)),
		"steer far beyond":          has(r.SteerCommand[:100], -1e9),
		"steer to the left":         within(r.SteerCommand[:100], -3, -2),
		"steer to the right":        within(r.SteerCommand[:100], 2, 3),
		"an infinite steer":         has(r.SteerCommand, math.Inf(1)),
		"braking":                   within(r.AEgo, -9, -3),
		"gathering speed":           within(r.AEgo, 3, 9),
		"a float32's least":         has(r.AEgo, -1e-46), // which becomes -0
		"subnormal":                 has(r.AEgo, 1e-310),
		"a road of -0":              has(r.RollLataccel, math.Copysign(0, -1)),
		"a road upright":            has(r.RollLataccel, 9.81) && has(r.RollLataccel, -9.81),
		"a road to the left":        within(r.RollLataccel, -3, -1),
		"a road to the right":       within(r.RollLataccel, 1, 3),
		"beyond float32":            slices.Max(r.VEgo) > math.MaxFloat32,
		"a number beyond reason":    len(columns) > 0,
		"two columns beyond reason": len(columns) > 1,
		"draws of another seed":     begins(r.Seed+1, n-20),
		"its own draws":             begins(r.Seed, n-20),
		"a draw too few":            begins(r.Seed, n-21),
		"few draws":                 len(r.Draws) > 0 && len(r.Draws) < n/4,
		"no draws":                  r.Draws == nil,
		"seed beyond a loader's":    r.Seed > 9999,
	}
}

// has says whether a number is there, by its bits.
func has(x []float64, want float64) bool {
	return slices.ContainsFunc(x, func(x float64) bool {
		return math.Float64bits(x) == math.Float64bits(want)
	})
}

func within(x []float64, low, high float64) bool {
	return slices.ContainsFunc(x, func(x float64) bool { return low < x && x < high })
}

func steps(x []float64) []float64 {
	d := make([]float64, len(x)-1)
	for i := range d {
		d[i] = math.Abs(x[i+1] - x[i])
	}
	return d
}

// TestNetwork: each is a network of tinyphysics' graph, and another one.
func TestNetwork(t *testing.T) {
	seen := map[string]bool{defaults.ModelSHA256: true}
	embedded, err := model.Parse(defaults.Model())
	if err != nil {
		t.Fatal(err)
	}
	for _, scale := range Scales[1:] {
		for seed := range uint64(2) {
			n := Reweighted{Seed: seed, Scale: scale}
			w, err := model.Parse(n.Model())
			if err != nil {
				t.Fatal(err)
			}
			if seen[w.SHA256] {
				t.Errorf("%v is not new", n)
			}
			seen[w.SHA256] = true
			deviation := 0.0
			for _, x := range w.Head {
				deviation += float64(float64(x)*float64(x)) / float64(len(w.Head))
			}
			if got := math.Sqrt(deviation) / float64(scale); got < 0.98 || got > 1.02 {
				t.Errorf("%v: weights of %v times the scale", n, got)
			}
			if last := len(w.Head) - 1; w.Head[last] == embedded.Head[last] {
				t.Errorf("%v: the head's last weight is the embedded network's", n)
			}
			if x := w.Layers[2].MLPNorm.Weight[7]; scale < 0.1 && math.Abs(float64(x)-1) > 0.5 {
				t.Errorf("%v: weight %v of a layer normalisation", n, x)
			}
		}
	}
	if w, err := model.Parse(Reweighted{}.Model()); err != nil || w.SHA256 != defaults.ModelSHA256 {
		t.Errorf("the zero value is not the embedded network (%v)", err)
	}
}
