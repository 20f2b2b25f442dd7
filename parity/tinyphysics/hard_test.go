package tinyphysics

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/schema"
)

// TestHardJobs: which routes the hard jobs drive, by what, how far, and what makes them hard.
func TestHardJobs(t *testing.T) {
	jobs, err := Hard(t.Context(), &toy{name: "toy"})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(`hard-steps pid_3_0_0 130, -3 to 3, 16 to 23.8
hard-shortest zero 101, -1 to 1, 16 to 23.8
hard-long table 504, -1 to 1, 16 to 23.8
hard-edges zero 101, -1 to 1, 16 to 23.8, 81 draws of edges 0
hard-edges zero 101, -1 to 1, 16 to 23.8, 81 draws of edges 1
hard-edges zero 101, -1 to 1, 16 to 23.8, 81 draws of edges 2
hard-high pid_-3_0_0 105, 6 to 6, 16 to 23.8, 85 draws of 0.9999999999999999
hard-low pid_-3_0_0 105, -6 to -6, 16 to 23.8, 85 draws of 0
hard-plan network 154, -1.5 to 1.5, 16 to 23.8, scale 2
hard-plan network 154, -1.5 to 1.5, 16 to 23.8, scale 2
hard-slow network 110, -1 to 1, 3 to 3, scale 0.25
hard-plan hard-code 154, -1.5 to 1.5, 16 to 23.8
hard-plan hard-batch 154, -1.5 to 1.5, 16 to 23.8
hard-slow pidff_0.2_0.1_-0.05_0.1_0.2_-0.1_0.05_0.3_0.2_0.02 110, -1 to 1, 3 to 3
hard-slow pid 110, -1 to 1, 3 to 3, expected
hard-taught pid 110, -1 to 1, 16 to 23.8, taught 110
hard-nan-roll zero 104, -1 to 1, 16 to 23.8
hard-nan-speed zero 104, -1 to 1, 16 to 23.8
hard-nan-acceleration zero 104, -1 to 1, 16 to 23.8
hard-nan-target zero 104, -1 to 1, 16 to 23.8
hard-nan-command zero 104, -1 to 1, 16 to 23.8`, "\n")
	for i, j := range jobs {
		policy := j.Policy.String()
		switch j.Policy.(type) { // whose names end with what they are
		case *lockstep.Network, *lockstep.Table:
			policy, _, _ = strings.Cut(policy, "_")
		}
		got := fmt.Sprintf("%s %s %d%s", j.Route.Name, policy, j.Route.Len(), particulars(t, &j))
		if i >= len(want) || got != want[i] {
			t.Errorf("job %d is %s", i, got)
		}
		for k, column := range j.Route.Columns() {
			at := slices.IndexFunc(*column, math.IsNaN)
			place := -1
			if n := len(jobs) - 5; i-n == k {
				if place = 101; k == 4 {
					place = 30
				}
			}
			if at != place {
				t.Errorf("%s, column %d has a NaN in row %d, want %d", j.Route.Name, k, at, place)
			}
		}
	}
	if len(jobs) != len(want) {
		t.Errorf("%d jobs, want %d", len(jobs), len(want))
	}
	var sampled []lockstep.Sampling
	for _, j := range jobs {
		if j.Sampling != nil {
			sampled = append(sampled, *j.Sampling)
		}
	}
	if own := []lockstep.Sampling{{Seed: 1<<63 | 1, ID: 7}, {Seed: 5, ID: 3}}; !slices.Equal(
		sampled, own,
	) {
		t.Errorf("sampled are %+v, want %+v", sampled, own)
	}
}

// particulars are what makes a hard job one: bounds of target and speed, draws, what teaches it,
// the scale of its network.
func particulars(t *testing.T, j *lockstep.Job) (text string) {
	for _, column := range [][]float64{j.Route.TargetLataccel, j.Route.VEgo} {
		there := slices.DeleteFunc(slices.Clone(column), math.IsNaN)
		text += fmt.Sprintf(", %v to %v", slices.Min(there), slices.Max(there))
	}
	if n := len(j.Draws); n > 0 {
		of := fmt.Sprint(j.Draws[0])
		edges, err := edgeDraws(t.Context(), &toy{name: "toy"}, j.Route)
		if err != nil {
			t.Fatal(err)
		}
		for i := range edges {
			if slices.Equal(edges[i], j.Draws) {
				of = fmt.Sprint("edges ", i)
			}
		}
		text += fmt.Sprintf(", %d draws of %s", n, of)
	}
	if n, ok := j.Policy.(*lockstep.Network); ok {
		text += fmt.Sprintf(", scale %v", n.Scale)
	}
	if j.Teacher != nil {
		text += fmt.Sprintf(", taught %d", len(j.Teacher.Action))
	}
	if j.Expected {
		text += ", expected"
	}
	return text
}

// TestHardRoute: a target that steps up and down every twelve rows, and all else a saw of forty.
func TestHardRoute(t *testing.T) {
	r := hardRoute("r", 50, 3)
	if r.Seed != 50 || r.Len() != 50 {
		t.Errorf("seed %d, %d rows; want 50 of each", r.Seed, r.Len())
	}
	up, down := slices.Repeat([]float64{3}, 12), slices.Repeat([]float64{-3}, 12)
	target := slices.Concat(up, down, up, down, up)
	if err := simtest.Same("target", r.TargetLataccel, target[:50]); err != nil {
		t.Error(err)
	}
	for i, saw := range map[int]float64{0: -1, 1: 0.05 - 1, 10: -0.5, 20: 0, 30: 0.5, 40: -1} {
		for k, want := range []float64{0.3 * saw, 20 + 4*saw, -0.2 * saw, target[i], 2.5 * saw} {
			if got := (*r.Columns()[k])[i]; got != want {
				t.Errorf("row %d, column %d: %v, want %v", i, k, got, want)
			}
		}
	}
	high := flatRoute("f", 6)
	for i, x := range high.TargetLataccel {
		if x != 6 {
			t.Errorf("a flat route has target %v in row %d, want 6", x, i)
		}
	}
	if draws := level(0.25); len(draws) != high.Len()-lockstep.ContextLength || draws[0] != 0.25 ||
		slices.Max(draws) != 0.25 || slices.Min(draws) != 0.25 {
		t.Errorf("draws that are all 0.25 are %v", draws)
	}
}

// TestHardPolicies: what the hard policies answer, and the trajectory that is taught, are the same.
func TestHardPolicies(t *testing.T) {
	network, err := hardNetwork()
	if err != nil {
		t.Fatal(err)
	}
	even, err := evenNetwork()
	if err != nil {
		t.Fatal(err)
	}
	table, err := hardTable("r")
	if err != nil {
		t.Fatal(err)
	}
	taught := hardTeacher(12)
	for _, c := range []struct {
		what      string
		got, want []float64
	}{
		{"bias", wide(network.Layers[0].Bias), []float64{0.5, -0.25}},
		{"weights", wide(network.Layers[0].Weights[:12]), []float64{
			-0.625, -0.5, -0.375, -0.25, -0.125, 0, 0.125, 0.25, 0.375, 0.5, 0.625, -0.625,
		}},
		{"table", table.Actions["r"][:18], []float64{
			-1, -0.875, -0.75, -0.625, -0.5, -0.375, -0.25, -0.125, 0, 0.125, 0.25, 0.375, 0.5,
			0.625, 0.75, 0.875, -1, -0.875,
		}},
		{"even bias", wide(even.Layers[0].Bias), []float64{0.5, 0.5}},
		{"scales", []float64{network.Scale, even.Scale}, []float64{2, 0.25}},
		{"taught lataccel", taught.Lataccel, []float64{
			-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, -1, -0.75, -0.5,
		}},
		{"taught action", taught.Action, []float64{
			-0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, -0.75, -0.5, -0.25, 0, 0.25,
		}},
		{"taught target", taught.Target, make([]float64, 12)},
		{"answers", []float64{
			hardAnswer(2, 0, lockstep.State{}, lockstep.FuturePlan{}),
			hardAnswer(0, 2, lockstep.State{}, lockstep.FuturePlan{}),
			hardAnswer(0, 0, lockstep.State{RollLataccel: 1000, VEgo: 2000, AEgo: 4000},
				lockstep.FuturePlan{}),
			hardAnswer(0, 0, lockstep.State{}, lockstep.FuturePlan{
				Lataccel: []float64{500, 500}, RollLataccel: []float64{2000},
				VEgo: []float64{4000}, AEgo: []float64{8000},
			}),
		}, []float64{0.6 - 1.5, -0.6 - 1.5, 5.5, 13.5}},
	} {
		if err := simtest.Same(c.what, c.got, c.want); err != nil {
			t.Error(err)
		}
	}
}

func wide(a []float32) (all []float64) {
	for _, x := range a {
		all = append(all, float64(x))
	}
	return all
}

// certain is a simulator each of whose tokens takes all of the distribution, or none of it.
type certain struct {
	toy
	edge  float64
	token int
}

func (c *certain) Simulate(
	_ context.Context, jobs []lockstep.Job, _ lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for i, j := range jobs {
			j.Observe(&lockstep.Step{Index: 50, Sample: c.token, CDF: []float64{c.edge}})
			yield(i, lockstep.Result{})
		}
	}
}

// TestEdgeDraws: draws lie on an edge, 1 ulp below and above one in turn, differently in each of
// the three, up to step 100; where no edge is between 0 and 1 nothing can be compared.
func TestEdgeDraws(t *testing.T) {
	route := hardRoute("r", 110, 1)
	cdfs := map[int]float64{}
	sim := &toy{name: "toy", plant: func(_ string, step int, stage string, s *lockstep.Step) {
		if stage == Draw && s.CDF != nil {
			for k, edge := range s.CDF {
				if edge > s.Draw {
					cdfs[step] = s.CDF[k]
					break
				}
			}
		}
	}}
	draws, err := edgeDraws(t.Context(), sim, route)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for k := range draws[0] {
		step := lockstep.ContextLength + k
		edge := cdfs[step]
		around := [3]float64{edge, math.Nextafter(edge, 0), math.Nextafter(edge, 1)}
		if step > lockstep.ControlStartIdx || !(0 < edge && edge < 1) {
			around = [3]float64{0.5, 0.5, 0.5}
		} else {
			compared++
		}
		for i := range draws {
			if got, want := draws[i][k], around[(step+i)%3]; got != want {
				t.Errorf("draws %d, step %d: %v, want %v", i, step, got, want)
			}
		}
	}
	if compared == 0 {
		t.Error("no step has an edge")
	}
	for _, edge := range []float64{0, 1, math.NaN()} {
		_, err := edgeDraws(t.Context(), &certain{edge: edge}, route)
		simtest.Refused(t, fmt.Sprint("an edge at ", edge), err, "the yardstick shows no CDF")
	}
	for _, token := range []int{-1, 1} {
		_, err := edgeDraws(t.Context(), &certain{edge: 0.5, token: token}, route)
		simtest.Refused(t, fmt.Sprint("token ", token, " of one"), err, "shows no CDF")
	}
	if _, err := edgeDraws(t.Context(), &certain{edge: 0.5}, route); err != nil {
		t.Errorf("an edge at 0.5: %v", err)
	}
}

// TestChosen: the edge that is nearest to a draw, and how far it is.
func TestChosen(t *testing.T) {
	token := int64(1)
	for _, c := range []struct{ draw, edge, margin float64 }{
		{0.25, 0.25, 0}, {0.375, 0.25, 0.125}, {0.4375, 0.5, 0.0625}, {0, 0.25, 0.25}, {2, 1, 1},
	} {
		s := seen{sample: &token, draw: &c.draw, cdf: []float64{0.25, 0.5, 1}}.step()
		got := newChosen(s)
		if got == nil || got.edge != c.edge || got.margin != c.margin || got.token != 1 {
			t.Errorf("of draw %v: %+v, want edge %v, %v away", c.draw, got, c.edge, c.margin)
		}
	}
	draw := 0.5
	for what, s := range map[string]*schema.Step{
		"no step": nil, "no draw": seen{sample: &token, cdf: []float64{1}}.step(),
		"no token": seen{draw: &draw, cdf: []float64{1}}.step(),
		"no CDF":   seen{draw: &draw, sample: &token}.step(),
	} {
		if got := newChosen(s); got != nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestRan: the network was run where there is a token, the first too, or where there are logits.
func TestRan(t *testing.T) {
	for _, c := range []struct {
		sample int
		logits []float32
		want   bool
	}{{0, nil, true}, {7, nil, true}, {-1, nil, false}, {-1, []float32{1}, true}} {
		if got := ran(&lockstep.Step{Sample: c.sample, Logits: c.logits}); got != c.want {
			t.Errorf("token %d, logits %v: ran %v, want %v", c.sample, c.logits, got, c.want)
		}
	}
}

// TestFewerRows: the rows just beyond the step that fails are tried first, and no fewer than the
// least; of several routes the longest one counts.
func TestFewerRows(t *testing.T) {
	for _, c := range []struct {
		rows, step, first, want int
	}{
		{300, 150, 151, 151}, {300, 20, lockstep.MinRows, lockstep.MinRows},
		{300, -1, lockstep.MinRows, lockstep.MinRows}, {200, 199, 150, 200},
	} {
		at := &DriveCase{Routes: []CaseRoute{{Rows: 120}, {Rows: c.rows}}}
		var tried []int
		run := func(_ context.Context, d *DriveCase) (*parity.Divergence, error) {
			tried = append(tried, d.rows())
			if d.rows() > c.step {
				return &parity.Divergence{Step: c.step}, nil
			}
			return nil, nil
		}
		small, _, err := parity.Shrink(t.Context(), at, run, 0, fewerRows)
		if err != nil || len(tried) < 2 || tried[1] != c.first || small.rows() != c.want {
			t.Errorf("%d rows, step %d: %d rows after %v, %v; want %d, after %d at first", c.rows,
				c.step, small.rows(), tried, err, c.want, c.first)
		}
	}
}
