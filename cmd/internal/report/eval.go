package report

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"lockstep"
	"lockstep/reference"
)

// worstCount is the length of the lists of worst routes.
const worstCount = 10

// fewPoints is up to how many points are drawn larger.
const fewPoints = 50

type evalPage struct {
	Test, Baseline string // labels
	Incomparable   string // why, or empty
	Rollouts       int
	Verdict        string // "better", "worse", "same"
	Headline       string
	Detail         string

	Compared   int
	Wins       []share
	Table      aggregates
	Histograms []histogram
	Cumulative chart
	Scatter    chart
	Worst      []pair
	Lost       []pair
	Samples    []drive
	All        []pair
	Failures   failureList
	Facts      []Fact
}

// share is a part of a bar.
type share struct {
	Class, Text string
	Count       int
	Width       string
}

// pair is one route with the costs of both.
type pair struct {
	Name           string
	ID             string // of its plots, if any
	Test, Baseline lockstep.Costs
	Difference     float64 // of the total costs
	Floor          float64
}

func newEvalPage(e Eval) evalPage {
	p := evalPage{
		Test:     "test: " + e.Test.Controller,
		Baseline: "baseline: " + e.Baseline.Controller,
		Rollouts: 2 * len(e.Test.Routes),
	}
	p.Incomparable = e.incomparable()
	var test, baseline []lockstep.Costs
	identical := true
	for i, t := range e.Test.Routes {
		b := e.Baseline.Routes[i]
		if t.Err != nil || b.Err != nil {
			continue
		}
		row := pair{
			Name:       t.Name,
			Test:       t.Costs,
			Baseline:   b.Costs,
			Difference: t.Costs.Total - b.Costs.Total,
			Floor:      t.Floor,
		}
		if t.Trajectory != nil && b.Trajectory != nil {
			row.ID = driveID(i)
			p.Samples = append(p.Samples, p.sample(row, *t.Trajectory, *b.Trajectory))
		}
		p.All = append(p.All, row)
		test, baseline = append(test, t.Costs), append(baseline, b.Costs)
		identical = identical && sameBits(t.Costs, b.Costs)
	}
	p.Compared = len(test)
	p.Failures = append(failures(p.Test, e.Test.Routes), failures(p.Baseline, e.Baseline.Routes)...)
	p.Facts = e.facts(e.Test, e.Baseline)
	if p.Compared == 0 {
		p.Verdict, p.Headline = "same", "Nothing to compare"
		p.Detail = "No route has the costs of both controllers."
		return p
	}

	means := []lockstep.Costs{reference.MeanCosts(test), reference.MeanCosts(baseline)}
	p.Table = comparison(
		p.Test, p.Baseline, means, []lockstep.Costs{medians(test), medians(baseline)},
	)
	p.judge(means[0].Total, means[1].Total, identical)
	p.Wins = shares(p.All)

	for _, kind := range costKinds {
		p.Histograms = append(p.Histograms, newHistogram(
			kind.Name,
			series{p.Baseline, "baseline", column(baseline, kind.Value)},
			series{p.Test, "test", column(test, kind.Value)},
		))
	}
	total := costKinds[0].Value
	p.Cumulative = cumulativeChart(
		series{p.Baseline, "baseline", column(baseline, total)},
		series{p.Test, "test", column(test, total)},
	)
	p.Scatter = p.scatter()

	worst := descending(p.All, func(r pair) float64 { return r.Test.Total })
	p.Worst = worst[:min(worstCount, len(worst))]
	for _, r := range descending(p.All, func(r pair) float64 { return r.Difference }) {
		if r.Difference > 0 && len(p.Lost) < worstCount {
			p.Lost = append(p.Lost, r)
		}
	}
	return p
}

// incomparable says why the costs cannot be compared, if they are of different classes.
func (e Eval) incomparable() string {
	if e.Test.Class == e.Baseline.Class {
		return ""
	}
	return fmt.Sprintf(
		"Costs of different classes are not comparable: test is a %s, baseline a %s.", e.Test.Class,
		e.Baseline.Class,
	)
}

// WriteText writes a line for each controller: its average over the routes that both
// have finished.
func (e Eval) WriteText(w io.Writer) error {
	var costs [2][]lockstep.Costs
	for i, t := range e.Test.Routes {
		if b := e.Baseline.Routes[i]; t.Err == nil && b.Err == nil {
			costs[0], costs[1] = append(costs[0], t.Costs), append(costs[1], b.Costs)
		}
	}
	for i, role := range []string{"test", "baseline"} {
		if len(costs[i]) == 0 {
			continue
		}
		controller := []string{e.Test.Controller, e.Baseline.Controller}[i]
		if _, err := fmt.Fprintf(w, "%-9s %-20s %d routes, %s\n", role, controller, len(costs[i]),
			costsText("average ", reference.MeanCosts(costs[i]))); err != nil {
			return err
		}
	}
	if why := e.incomparable(); why != "" {
		_, err := fmt.Fprintln(w, why)
		return err
	}
	return nil
}

func sameBits(a, b lockstep.Costs) bool {
	for _, kind := range costKinds {
		if math.Float64bits(kind.Value(a)) != math.Float64bits(kind.Value(b)) {
			return false
		}
	}
	return true
}

// judge says what the challenge's report says: the test controller passes if its
// mean total cost is below the baseline's.
func (p *evalPage) judge(test, baseline float64, identical bool) {
	over := "over " + plural(p.Compared, "route")
	switch {
	case identical:
		p.Verdict, p.Headline = "same", "No difference"
		p.Detail = "All costs of both controllers are equal, bit for bit, " + over + "."
		return
	case math.IsNaN(test) || math.IsNaN(baseline):
		p.Verdict, p.Headline = "same", "No verdict"
		p.Detail = "There is no mean total cost " + over + ": no route has one."
		return
	case test < baseline:
		p.Verdict, p.Headline = "better", "The test controller beats the baseline"
	default:
		p.Verdict, p.Headline = "worse", "The test controller does not beat the baseline"
	}
	change := ""
	if baseline > 0 && test != baseline && !math.IsInf(test, 0) && !math.IsInf(baseline, 0) {
		word := "lower"
		if test > baseline {
			word = "higher"
		}
		change = fmt.Sprintf(
			", %s %% %s", strconv.FormatFloat(100*math.Abs(test-baseline)/baseline, 'f', 1, 64),
			word,
		)
	}
	p.Detail = fmt.Sprintf(
		"Mean total cost %s against %s%s, %s.", fixed(test), fixed(baseline), change, over,
	)
}

// shares counts who is cheaper.
func shares(rows []pair) []share {
	parts := []share{
		{Class: "test", Text: "test cheaper"},
		{Class: "tie", Text: "equal"},
		{Class: "none", Text: "not comparable (NaN)"},
		{Class: "baseline", Text: "baseline cheaper"},
	}
	for _, r := range rows {
		parts[winner(r)].Count++
	}
	kept := parts[:0]
	for _, part := range parts {
		part.Width = percent(float64(part.Count) / float64(len(rows)))
		if part.Count > 0 {
			kept = append(kept, part)
		}
	}
	return kept
}

// winner is an index of the parts of shares.
func winner(r pair) int {
	switch {
	case r.Test.Total < r.Baseline.Total:
		return 0
	case r.Test.Total == r.Baseline.Total:
		return 1
	case r.Test.Total > r.Baseline.Total:
		return 3
	}
	return 2
}

// scatter is one point a route: the baseline's total cost to the right, the test
// controller's upwards.
func (p *evalPage) scatter() chart {
	var values []float64
	for _, r := range p.All {
		values = append(values, r.Test.Total, r.Baseline.Total)
	}
	s := logScale(values)
	c := chart{
		Label:  "Total cost of the test controller against that of the baseline, one point a route",
		Class:  "scatter",
		XLabel: "total cost, baseline", YLabel: "total cost, test",
		Width: grid, Height: grid, X: s.ticks(6), Y: s.ticks(6),
		Lines:   []line{{Class: "diagonal", Path: fmt.Sprintf("M0 %dL%d 0", grid, grid)}},
		Corners: []corner{{"test", "test cheaper"}, {"baseline", "baseline cheaper"}},
	}
	if len(p.All) <= fewPoints {
		c.Class += " few"
	}
	classes := []string{"test", "tie", "", "baseline"}
	for _, r := range p.All {
		x, y := r.Baseline.Total, r.Test.Total
		if math.IsNaN(x) || math.IsNaN(y) || math.IsInf(x, 0) || math.IsInf(y, 0) {
			continue
		}
		c.Points = append(c.Points, point{
			Class: classes[winner(r)],
			Path: fmt.Sprintf(
				"M%d %dh1", int(math.Round(grid*s.at(x))), int(math.Round(grid*(1-s.at(y)))),
			),
			Title: fmt.Sprintf("%s: test %s, baseline %s", r.Name, fixed(y), fixed(x)),
		})
	}
	return c
}

func (p *evalPage) sample(r pair, test, baseline lockstep.Trajectory) drive {
	steps := max(len(test.Target), len(baseline.Target))
	c := timeChart(
		fmt.Sprintf(
			"Lateral acceleration on route %s over %s s: target, %s, %s. Control starts at %s s.",
			r.Name, seconds(steps), p.Test, p.Baseline, seconds(lockstep.ControlStartIdx),
		),
		"lateral acceleration (m/s²)",
		steps,
		0,
		6,
		1,
		[]line{
			{Name: "target", Class: "target"},
			{Name: p.Baseline, Class: "baseline", Note: fixed(r.Baseline.Total)},
			{Name: p.Test, Class: "test", Note: fixed(r.Test.Total)},
		},
		test.Target,
		baseline.Lataccel,
		test.Lataccel,
	)
	return drive{ID: r.ID, Name: r.Name, Charts: []chart{c}}
}

// seconds is the time of a step.
func seconds(step int) string {
	return strconv.FormatFloat(float64(step)/lockstep.FPS, 'f', -1, 64)
}
