package tinyphysics

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/parity"
	"lockstep/parity/schema"
)

// searched is a case with something for every pass of a search.
func searched() *DriveCase {
	route := func(name string) CaseRoute {
		r := CaseRoute{Name: name, Seed: 7, Rows: 105}
		for _, column := range r.columns() {
			*column = CaseColumn{1}
		}
		return r
	}
	return &DriveCase{
		Chunk: 3, Routes: []CaseRoute{route("r"), route("s")},
		Batch: []CaseJob{
			{Route: 1, Policy: CasePolicy{Kind: "pid", Gains: []parity.Float{1, 0, 2}}},
			{Route: 0, Policy: CasePolicy{Kind: "zero"}, Draws: []parity.Float{0.5, 0.5}},
			{Route: 1, Policy: CasePolicy{
				Kind: "script", Name: "script", Steer: []parity.Float{3, 3},
			}},
		},
	}
}

// TestPasses: each pass of a search tries its own simplifications, no more often than it must, and
// keeps what is needed.
func TestPasses(t *testing.T) {
	always := func(*DriveCase) bool { return true }
	for _, c := range []struct {
		name  string
		pass  func(s *shrinker)
		key   []string // of the rollout that differs
		fails func(c *DriveCase) bool
		want  func(c *DriveCase)
		runs  int
	}{
		{"the job that differs", fewerJobs, []string{"s", "script"}, always, func(c *DriveCase) {
			c.Batch, c.Routes = c.Batch[2:], c.Routes[1:]
			c.Batch[0].Route = 0
		}, 2},
		{"another is needed", fewerJobs, []string{"r", "zero"},
			func(c *DriveCase) bool { return len(c.Batch) > 1 },
			func(c *DriveCase) {
				c.Batch, c.Routes = c.Batch[1:], []CaseRoute{c.Routes[0], c.Routes[1]}
			}, 5},
		{"shortcuts", shortcuts, nil, always, func(c *DriveCase) {
			c.Shortcuts = Shortcuts(lockstep.StopAtCostEnd | lockstep.SkipWarmup |
				lockstep.LastPosition)
		}, 4},
		{"a shortcut that hides it", shortcuts, nil,
			func(c *DriveCase) bool { return c.Shortcuts&Shortcuts(lockstep.SkipWarmup) == 0 },
			func(c *DriveCase) {
				c.Shortcuts = Shortcuts(lockstep.StopAtCostEnd | lockstep.LastPosition)
			}, 4},
		{"the batch", plainBatch, nil, always, func(c *DriveCase) { c.Chunk = 0 }, 2},
		{"policies", simplerPolicies, nil, always, func(c *DriveCase) {
			c.Batch[0].Policy = CasePolicy{Kind: "zero"}
			c.Batch[2].Policy = CasePolicy{Kind: "zero"}
		}, 3},
		{"gains and commands", simplerPolicies, nil,
			func(c *DriveCase) bool {
				return c.Batch[0].Policy.Kind == "pid" && c.Batch[0].Policy.Gains[2] != 0 &&
					c.Batch[2].Policy.Kind == "script"
			},
			func(c *DriveCase) {
				c.Batch[0].Policy.Gains[0] = 0
				clear(c.Batch[2].Policy.Steer)
			}, 6},
		{"draws", plainDraws, nil, always, func(c *DriveCase) { c.Batch[1].Draws = nil }, 2},
		{"draws that are needed", plainDraws, nil,
			func(c *DriveCase) bool { return c.Batch[1].Draws != nil },
			func(c *DriveCase) { clear(c.Batch[1].Draws) }, 3},
		{"columns", simplerColumns, nil, always, func(c *DriveCase) {
			for i := range c.Routes {
				c.Routes[i].Seed = 0
				for _, column := range c.Routes[i].columns() {
					*column = make(CaseColumn, 105)
				}
			}
		}, 13},
	} {
		runs := 0
		got, _, err := parity.Shrink(t.Context(), searched(),
			func(_ context.Context, d *DriveCase) (*parity.Divergence, error) {
				if runs++; !c.fails(d) {
					return nil, nil
				}
				return &parity.Divergence{Key: c.key}, nil
			}, 0, c.pass)
		want := searched()
		c.want(want)
		if text := fmt.Sprintf("%+v", *want); err != nil || fmt.Sprintf("%+v", *got) != text ||
			runs != c.runs {
			t.Errorf("%s: %+v after %d runs, %v; want %s after %d", c.name, *got, runs, err, text,
				c.runs)
		}
	}
}

// TestCut: a case of fewer rows has as many of each column, and draws and commands for the steps
// that are left.
func TestCut(t *testing.T) {
	c := searched()
	c.Routes[0].VEgo = slices.Repeat(CaseColumn{2}, 105)
	c.Batch[1].Draws = make([]parity.Float, 85)
	c.Batch[2].Policy.Steer = make([]parity.Float, 90)
	got := c.cut(103)
	if n := len(got.Routes[0].VEgo); n != 103 || got.Routes[0].Rows != 103 ||
		len(got.Routes[0].AEgo) != 1 || got.rows() != 103 {
		t.Errorf("%d rows of %d, %d of a column that is one; want 103 of 103, 1", n,
			got.Routes[0].Rows, len(got.Routes[0].AEgo))
	}
	if d, s := len(got.Batch[1].Draws), len(got.Batch[2].Policy.Steer); d != 83 || s != 83 {
		t.Errorf("%d draws and %d commands, want 83 of each", d, s)
	}
	if len(c.Routes[0].VEgo) != 105 || c.Routes[0].Rows != 105 || len(c.Batch[1].Draws) != 85 {
		t.Errorf("the case itself is cut: %+v", c)
	}
	two := c.clone() // a job keeps the draws of its own route's rows
	two.Routes = append(two.Routes, two.Routes[0])
	two.Routes[0].Rows, two.Batch[1].Route, two.Batch[2].Route = 101, len(two.Routes)-1, 0
	if got := two.cut(103); len(got.Batch[1].Draws) != 83 || len(got.Batch[2].Policy.Steer) != 81 {
		t.Errorf("of routes of 101 and 103 rows: %d draws of the second, %d commands of the first",
			len(got.Batch[1].Draws), len(got.Batch[2].Policy.Steer))
	}
	if more := c.cut(200); more.rows() != 105 || len(more.Batch[1].Draws) != 85 {
		t.Errorf("of 200 rows there are %d, %d draws; want 105, 85", more.rows(),
			len(more.Batch[1].Draws))
	}
}

// TestKeep: a case of some of its jobs has the routes that these need, each once.
func TestKeep(t *testing.T) {
	c := &DriveCase{}
	for _, name := range []string{"a", "b", "c", "d"} {
		c.Routes = append(c.Routes, CaseRoute{Name: name})
	}
	jobs := []CaseJob{{Route: 2}, {Route: 1}, {Route: 2}, {Route: 1}}
	got := c.keep(jobs)
	var routes, of []string
	for _, r := range got.Routes {
		routes = append(routes, r.Name)
	}
	for _, j := range got.Batch {
		of = append(of, got.Routes[j.Route].Name)
	}
	if !slices.Equal(routes, []string{"c", "b"}) ||
		!slices.Equal(of, []string{"c", "b", "c", "b"}) {
		t.Errorf("routes %q, and jobs of %q", routes, of)
	}
}

// TestPlot: what is drawn around a choice: twelve tokens to each side of both, as far as there are
// any, and the target behind the history.
func TestPlot(t *testing.T) {
	edges := make([]float64, lockstep.VocabSize)
	for i := range edges {
		edges[i] = float64(i+1) / 1024
	}
	at := func(token int64) *schema.Step {
		draw := edges[token] - 0.25/1024
		return seen{index: 120, sample: &token, draw: &draw, cdf: edges}.step()
	}
	var none [2]*schema.Digests
	none[0], none[1] = &schema.Digests{}, &schema.Digests{}
	route := zeros(130)
	route.TargetLataccel[20], route.TargetLataccel[129] = 4, 5
	for _, c := range []struct {
		name        string
		at          [2]*schema.Step
		from, edges int // of the third chart, and how many it has of each side
		other       int
	}{
		{"one token", [2]*schema.Step{at(500), at(500)}, 488, 24, 24},
		{"two tokens", [2]*schema.Step{at(500), at(510)}, 488, 34, 34},
		{"the other way", [2]*schema.Step{at(510), at(500)}, 488, 34, 34},
		{"the first", [2]*schema.Step{at(0), at(3)}, 0, 15, 15},
		{"the last", [2]*schema.Step{at(1023), at(1020)}, 1008, 16, 16},
		{"one side", [2]*schema.Step{at(500), nil}, 488, 24, 0},
		{"the other side", [2]*schema.Step{nil, at(500)}, 488, 0, 24},
	} {
		charts := plot(&parity.RolloutTask{Job: job{lockstep.Job{Route: route}, 0}}, none, c.at)
		if len(charts) != 3 {
			t.Fatalf("%s: %d charts, want 3", c.name, len(charts))
		}
		target := charts[0].Lines[0].Values
		if len(target) != 110 || target[0] != 4 || target[109] != 5 {
			t.Errorf("%s: the target is %v, want rows 20 to 129", c.name, target)
		}
		l := charts[2]
		if l.First != c.from || len(l.Lines[0].Values) != c.edges ||
			len(l.Lines[1].Values) != c.other || len(l.Lines[2].Values) != 1 {
			t.Errorf("%s: from token %d on %d and %d edges; want from %d on %d and %d", c.name,
				l.First, len(l.Lines[0].Values), len(l.Lines[1].Values), c.from, c.edges, c.other)
		}
	}
	const note = "The sampled token is the first whose stair is above the draw."
	for i, want := range []parity.Chart{
		{Label: "lateral acceleration", Unit: "m/s²", Span: 0.2, First: 20},
		{Label: "steer command", Unit: "within ±2", Span: 0.1, First: 20},
		{Label: "CDF around the draw", Unit: "cumulative probability", Span: 1e-12, First: 488,
			Stairs: "token", Note: note},
	} {
		charts := plot(&parity.RolloutTask{}, none, [2]*schema.Step{at(500), nil})
		var names []string
		for _, l := range charts[i].Lines {
			names = append(names, l.Name)
		}
		if charts[i].Lines = nil; !reflect.DeepEqual(charts[i], want) {
			t.Errorf("chart %d is %+v, want %+v", i, charts[i], want)
		}
		if lines := []string{"target wanted got", "wanted got", "wanted got draw"}[i]; strings.Join(
			names, " ") != lines {
			t.Errorf("chart %d has lines %q, want %s", i, names, lines)
		}
	}
	if charts := plot(&parity.RolloutTask{}, none, [2]*schema.Step{}); len(charts) != 2 ||
		len(charts[0].Lines[0].Values) > 0 {
		t.Errorf("of no choice and no job: %+v, want two charts without a target", charts)
	}
}
