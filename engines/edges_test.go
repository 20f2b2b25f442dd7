package engines

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/generate"
	"lockstep/internal/simtest"
	"lockstep/routefile"
)

// edgeRoute is a generated route's first rows.
func edgeRoute(t *testing.T, rows int) *lockstep.Route {
	t.Helper()
	r, err := routefile.Loader{}.Read(bytes.NewReader(generate.Route(77, 1)), "edge.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range []*[]float64{
		&r.RollLataccel, &r.VEgo, &r.AEgo, &r.TargetLataccel, &r.SteerCommand,
	} {
		*column = (*column)[:min(rows, len(*column))]
	}
	if r.Len() != rows {
		t.Fatalf("a generated route has %d rows, want %d", r.Len(), rows)
	}
	return r
}

// TestPoliciesAtEdges: every kind of policy where few rollouts are: behind the last step that
// costs, after a row of the warm-up that is no ordinary number, as slow as what is divided by the
// square of the speed begins to be bounded, and beyond what is observed. Engines are held to the
// reference.
func TestPoliciesAtEdges(t *testing.T) {
	c := config(t)
	long := edgeRoute(t, lockstep.CostEndIdx+3)
	type edge struct {
		name  string
		route *lockstep.Route
		from  int // the step that is gone to at once, or 0
	}
	edges := []edge{{"behind the last step that costs", long, lockstep.CostEndIdx - 1}}
	slow := edgeRoute(t, lockstep.ControlStartIdx+6)
	copy(slow.VEgo[lockstep.ControlStartIdx:],
		[]float64{1.2, 1, math.Nextafter(1, 2), 0.9, 1.4, 0x1p-20})
	far := edgeRoute(t, lockstep.ControlStartIdx+6)
	for i, column := range far.Columns() {
		for row := lockstep.ControlStartIdx + 2; row < far.Len(); row++ {
			(*column)[row] = math.Copysign(1e4, float64((i+row)%2)-0.5)
		}
	}
	edges = append(edges, edge{"slow", slow, 0}, edge{"far", far, 0})
	for name, x := range map[string]float64{
		"NaN": math.NaN(), "-Inf": math.Inf(-1), "-0": math.Copysign(0, -1),
	} {
		// behind what the network sees from ControlStartIdx on
		for column, of := range map[string]func(*lockstep.Route) []float64{
			"v": func(r *lockstep.Route) []float64 { return r.VEgo },
			"a": func(r *lockstep.Route) []float64 { return r.AEgo },
		} {
			r := edgeRoute(t, lockstep.ControlStartIdx+3)
			of(r)[40] = x
			edges = append(edges, edge{column + " is " + name, r, 0})
		}
	}
	want := map[string][]float64{}
	reference := Reference().ForTest(t, c)
	for _, at := range edges {
		want[at.name] = drivenFrom(t, reference, at.route, at.from)
	}
	for _, e := range Others() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			for _, at := range edges {
				got := drivenFrom(t, s, at.route, at.from)
				if err := simtest.Same("lataccels and actions", got, want[at.name]); err != nil {
					t.Errorf("%s: %v", at.name, err)
				}
			}
		})
	}
}

// drivenFrom is what policies of all kinds come to on a route: lataccels after each step, and
// the actions.
func drivenFrom(
	t *testing.T, s lockstep.Implementation, r *lockstep.Route, from int,
) (all []float64) {
	t.Helper()
	var jobs []lockstep.Job
	for _, p := range somePolicies(t, []*lockstep.Route{r}, 5) {
		jobs = append(jobs, lockstep.Job{Route: r, Policy: p})
	}
	p, err := s.Reset(t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.SkipWarmup})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if from > 0 { // as if they had followed the target beside it
		shot, err := p.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shot.Step = from
		for i := range shot.Rollouts {
			o := &shot.Rollouts[i]
			o.Lataccel, o.Action = slices.Clone(r.TargetLataccel[:from]), make([]float64, from)
			for k := range o.Lataccel { // each at its own distance
				o.Lataccel[k] += float64(i) / 16
				o.Action[k] = float64(i)/32 - float64(k)/1024
			}
		}
		if err := p.Restore(t.Context(), shot); err != nil {
			t.Fatal(err)
		}
	}
	all = through(t, p, len(jobs), r.Len())
	end, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range end.Rollouts {
		all = append(all, o.Action...)
	}
	return all
}
