package generate

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/routefile"
)

// statistics are what generated routes are compared with real ones by, and the
// least and the greatest value of each among the six real routes of the
// project's goldens.
var statistics = []struct {
	name      string
	of        func(r *lockstep.Route) float64
	low, high float64 // to four digits
}{
	{"speed, mean (m/s)", func(r *lockstep.Route) float64 { return mean(r.VEgo) }, 9.154, 33.61},
	{
		"speed, standard deviation (m/s)",
		func(r *lockstep.Route) float64 { return deviation(r.VEgo) }, 0.03731, 8.643,
	},
	{
		"acceleration, standard deviation (m/s²)",
		func(r *lockstep.Route) float64 { return deviation(r.AEgo) }, 0.04741, 0.7616,
	},
	{
		"acceleration, standard deviation of steps (m/s²)",
		func(r *lockstep.Route) float64 { return deviation(steps(r.AEgo)) }, 0.06321, 0.168,
	},
	{
		"roll, mean (m/s²)", func(r *lockstep.Route) float64 { return mean(r.RollLataccel) },
		0.002013, 0.4985,
	},
	{
		"roll, standard deviation (m/s²)",
		func(r *lockstep.Route) float64 { return deviation(r.RollLataccel) }, 0.0276, 0.3229,
	},
	{
		"roll, standard deviation of steps (m/s²)",
		func(r *lockstep.Route) float64 { return deviation(steps(r.RollLataccel)) }, 0.003337,
		0.01747,
	},
	{
		"target, standard deviation (m/s²)",
		func(r *lockstep.Route) float64 { return deviation(r.TargetLataccel) }, 0.05256, 1.862,
	},
	{
		"target, autocorrelation over 1 s",
		func(r *lockstep.Route) float64 { return autocorrelation(r.TargetLataccel, 10) }, 0.102,
		0.953,
	},
	{
		"target's jerk, standard deviation (m/s³)",
		func(r *lockstep.Route) float64 {
			return deviation(steps(r.TargetLataccel)) * lockstep.FPS
		},
		0.1259, 1.699,
	},
	{
		"target's jerk, autocorrelation over 0.1 s",
		func(r *lockstep.Route) float64 { return autocorrelation(steps(r.TargetLataccel), 1) },
		0.424, 0.8919,
	},
	{
		"steer, standard deviation",
		func(r *lockstep.Route) float64 { return deviation(recorded(r)) }, 0.056, 0.6382,
	},
	{
		"steer, standard deviation of steps",
		func(r *lockstep.Route) float64 { return deviation(steps(recorded(r))) }, 0.01149, 0.05344,
	},
	{
		"steer, greatest magnitude",
		func(r *lockstep.Route) float64 { return magnitude(recorded(r)) }, 0.1766, 1.233,
	},
}

// TestStatistics compares 400 routes with the six real ones: in every statistic
// the median route is within the range of the real ones, and the real ones are
// within the range of the generated.
func TestStatistics(t *testing.T) {
	const n = 400
	values := make([][]float64, len(statistics))
	var still, hard int
	for k := range n {
		r := route(t, 1, k)
		for i, s := range statistics {
			values[i] = append(values[i], s.of(r))
		}
		if slices.Min(r.VEgo) == 0 {
			still++
		}
		if magnitude(r.TargetLataccel) > 3 {
			hard++
		}
		if v := magnitude(r.VEgo); v > 40 {
			t.Errorf("route %d: %v m/s", k, v)
		}
		if a := magnitude(r.TargetLataccel); a > 5 {
			t.Errorf("route %d: target %v m/s², the network knows 5", k, a)
		}
	}
	var table strings.Builder
	for i, s := range statistics {
		v := values[i]
		slices.Sort(v)
		median := v[n/2]
		fmt.Fprintf(
			&table, "| %s | %.4g to %.4g | %.3g, %.3g, %.3g, %.3g, %.3g |\n", s.name, s.low, s.high,
			v[0], v[n/10], median, v[n-n/10], v[n-1],
		)
		if !(s.low <= median && median <= s.high) {
			t.Errorf(
				"%s: the median is %.4g, real routes have %.4g to %.4g", s.name, median, s.low,
				s.high,
			)
		}
		if !(v[0] <= s.low && s.high <= v[n-1]) {
			t.Errorf(
				"%s: generated routes have %.4g to %.4g, real ones %.4g to %.4g", s.name, v[0],
				v[n-1], s.low, s.high,
			)
		}
	}
	t.Logf(
		"statistic, least and greatest of the real routes, least, 10 %%, median, 90 %% and "+
			"greatest of %d generated ones\n%s",
		n, &table,
	)
	t.Logf("%d of %d routes stand still, %d corner with more than 3 m/s²", still, n, hard)
	if still < n/20 || hard < n/20 {
		t.Errorf(
			"%d of %d routes stand still and %d corner hard: want %d or more of each", still, n,
			hard, n/20,
		)
	}
}

// TestStatisticsOfRealRoutes holds the table to the real routes.
func TestStatisticsOfRealRoutes(t *testing.T) {
	profile := lockstep.Profile{CSV: lockstep.CSVExact}
	var routes []*lockstep.Route
	for _, name := range assetstest.RouteNames {
		routes = append(routes, assetstest.Route(t, name, profile))
	}
	for _, s := range statistics {
		var v []float64
		for _, r := range routes {
			v = append(v, s.of(r))
		}
		want, got := fmt.Sprintf("%.4g to %.4g", s.low, s.high),
			fmt.Sprintf("%.4g to %.4g", slices.Min(v), slices.Max(v))
		if got != want {
			t.Errorf("%s: the table says %s, the real routes have %s", s.name, want, got)
		}
	}
}

func route(t *testing.T, seed uint64, k int) *lockstep.Route {
	t.Helper()
	r, err := routefile.Loader{
		Profile: lockstep.Profile{CSV: lockstep.CSVExact},
	}.Read(bytes.NewReader(Route(seed, k)), FileName(k))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func recorded(r *lockstep.Route) []float64 { return r.SteerCommand[:lockstep.ControlStartIdx] }

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// covariance of x with itself k steps later.
func covariance(x []float64, k int) float64 {
	m, sum := mean(x), 0.0
	for i := range len(x) - k {
		sum += (x[i] - m) * (x[i+k] - m)
	}
	return sum / float64(len(x)-k)
}

func deviation(x []float64) float64 { return math.Sqrt(covariance(x, 0)) }

func autocorrelation(x []float64, k int) float64 { return covariance(x, k) / covariance(x, 0) }

func steps(x []float64) []float64 {
	d := make([]float64, len(x)-1)
	for i := range d {
		d[i] = x[i+1] - x[i]
	}
	return d
}

func magnitude(x []float64) float64 { return max(slices.Max(x), -slices.Min(x)) }
