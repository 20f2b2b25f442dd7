package report

import (
	"fmt"
	"math"

	"lockstep"
	"lockstep/reference"
)

type rolloutPage struct {
	Run
	Done       int // routes that have costs
	Mean       lockstep.Costs
	Table      aggregates
	Histograms []histogram
	Worst      []rolloutRow
	All        []rolloutRow
	Long       bool // All is folded, Worst shown
	Drives     []drive
	Failures   failureList
	Facts      []Fact
}

// rolloutRow is one route with a bar of its total cost: the part from tracking
// errors and the part from jerk.
type rolloutRow struct {
	Name, ID       string
	Costs          lockstep.Costs
	Floor          float64
	Tracking, Jerk string // width in percent
}

// longTable is the length from which a table of routes is folded.
const longTable = 50

func newRolloutPage(r Single) rolloutPage {
	p := rolloutPage{Run: r.Run, Failures: failures(r.Controller, r.Routes), Facts: r.facts(r.Run)}
	var costs []lockstep.Costs
	highest := 0.0
	for i, route := range r.Routes {
		if route.Err != nil {
			continue
		}
		row := rolloutRow{Name: route.Name, Costs: route.Costs, Floor: route.Floor}
		if route.Trajectory != nil {
			row.ID = driveID(i)
			p.Drives = append(p.Drives, newDrive(row, r.Controller, route))
		}
		p.All = append(p.All, row)
		costs = append(costs, route.Costs)
		if total := route.Costs.Total; total > highest && !math.IsInf(total, 0) {
			highest = total
		}
	}
	p.Done = len(costs)
	if p.Done == 0 {
		return p
	}
	for i := range p.All {
		row := &p.All[i]
		row.Tracking = bar(lockstep.LatAccelCostMultiplier*row.Costs.Lataccel, highest)
		row.Jerk = bar(row.Costs.Jerk, highest)
	}
	p.Mean = reference.MeanCosts(costs)
	p.Table = summary(p.Mean, medians(costs))
	p.Long = len(p.All) > longTable
	if p.Long {
		p.Worst = descending(p.All,
			func(r rolloutRow) float64 { return r.Costs.Total })[:worstCount]
		for _, kind := range costKinds {
			p.Histograms = append(
				p.Histograms,
				newHistogram(kind.Name, series{r.Controller, "test", column(costs, kind.Value)}),
			)
		}
	}
	return p
}

func bar(part, whole float64) string {
	if !(part > 0 && part <= whole) {
		return "0"
	}
	return percent(part / whole)
}

// newDrive plots everything that is known about a rollout.
func newDrive(row rolloutRow, controller string, r RouteResult) drive {
	t := r.Trajectory
	steps := len(t.Lataccel)
	d := drive{ID: row.ID, Name: r.Name}
	add := func(what, unit string, from int, span float64, lines []line, columns ...[]float64) {
		label := what + " (" + unit + ")"
		yTicks := 3
		if len(d.Charts) == 0 {
			yTicks = 6
		}
		c := timeChart(
			fmt.Sprintf(
				"%s on route %s over %s s. Control starts at %s s.", label, r.Name, seconds(steps),
				seconds(lockstep.ControlStartIdx),
			),
			label,
			steps,
			from,
			yTicks,
			span,
			lines,
			columns...)
		c.NoXText = true
		if len(d.Charts) > 0 {
			c.Class += " low"
			for i := range c.Marks {
				c.Marks[i].Text = "" // said by the chart on top
			}
		}
		d.Charts = append(d.Charts, c)
	}
	add(
		"lateral acceleration", "m/s²", 0, 1,
		[]line{{Name: "target", Class: "target"}, {Name: controller, Class: "test"}}, t.Target,
		t.Lataccel,
	)
	add("steer command", "within ±2", 0, 0.2, []line{{Name: "steer", Class: "ink"}}, t.Action)
	add("lateral jerk", "m/s³", 1, 1, []line{{Name: "jerk", Class: "ink"}}, jerk(t.Lataccel))
	if r.Route != nil {
		n := min(steps, r.Route.Len())
		add(
			"lateral acceleration from road roll", "m/s²", 0, 0.5,
			[]line{{Name: "roll", Class: "ink"}}, r.Route.RollLataccel[:n],
		)
		add("speed", "m/s", 0, 2, []line{{Name: "speed", Class: "ink"}}, r.Route.VEgo[:n])
	}
	d.Charts[len(d.Charts)-1].NoXText = false
	return d
}

// jerk is the change of lateral acceleration per second, the first at step 1.
func jerk(lataccel []float64) []float64 {
	if len(lataccel) == 0 {
		return nil
	}
	j := make([]float64, len(lataccel)-1)
	for i := range j {
		j[i] = (lataccel[i+1] - lataccel[i]) / lockstep.DelT
	}
	return j
}
