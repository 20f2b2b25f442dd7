package report

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"unicode/utf8"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/search"
	"lockstep/reference"
)

// Class is what a cost is a cost of. Costs of different classes are not compared.
type Class string

// The classes. What overwrites the simulator is in none of them: nothing here can.
const (
	ClassController Class = "controller"
	ClassOracle     Class = "table that knows the draws"
	ClassTable      Class = "table, planned without the draws"
	ClassUnknown    Class = "table that may know the draws"
)

// ClassOf is a policy's class. What a Python controller knows nobody sees.
func ClassOf(p lockstep.Policy) Class {
	t, ok := p.(*lockstep.Table)
	switch {
	case !ok:
		return ClassController
	case t.Noise == lockstep.RouteNoise:
		return ClassOracle
	case t.Noise == 0:
		return ClassUnknown
	}
	return ClassTable
}

// SearchReport is what a search for policies came to: total costs by route, beside their
// bounds, of which the first are the routes' floors. NewSearch makes it.
type SearchReport struct {
	Title   string
	Columns []SearchColumn
	Routes  []string
	Bounds  []Bound
	Curve   *Curves // nil for none
	Origin
}

// SearchColumn is a policy's costs by route.
type SearchColumn struct {
	Policy string
	Class  Class
	Gains  []NamedGain // none where the policy has none
	Totals []float64
}

// NamedGain is a gain and its name.
type NamedGain struct {
	Name  string
	Value float64
}

// Bound is what costs are seen beside, by route.
type Bound struct {
	Name   string
	Totals []float64
}

// Mean is the mean over the routes.
func (b Bound) Mean() float64 { return meanTotal(b.Totals) }

// NewSearch is a report on routes, of no policies yet.
func NewSearch(title string, routes []*lockstep.Route) *SearchReport {
	s := &SearchReport{Title: title}
	floor := Bound{Name: "floor"}
	for _, r := range routes {
		s.Routes, floor.Totals = append(s.Routes, r.Name), append(floor.Totals, search.Floor(r))
	}
	s.Bounds = []Bound{floor}
	return s
}

// Add adds a policy's results on the routes. One that failed is an error.
func (s *SearchReport) Add(policy lockstep.Policy, results []lockstep.Result) error {
	c := SearchColumn{Policy: policy.String(), Class: ClassOf(policy)}
	if native, ok := policy.(lockstep.Native); ok {
		names := native.Kind().Info().GainNames()
		for i, value := range native.Gains() {
			c.Gains = append(c.Gains, NamedGain{names[i], value})
		}
	}
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
		c.Totals = append(c.Totals, r.Costs.Total)
	}
	s.Columns = append(s.Columns, c)
	return nil
}

// Mean is the mean total cost.
func (c SearchColumn) Mean() float64 { return meanTotal(c.Totals) }

// Short is the policy's name where it has a column.
func (c SearchColumn) Short() string {
	if utf8.RuneCountInString(c.Policy) <= 16 {
		return c.Policy
	}
	return fmt.Sprintf("%.12s…", c.Policy)
}

// meanTotal is the mean of the Python program.
func meanTotal(totals []float64) float64 {
	costs := make([]lockstep.Costs, len(totals))
	for i, x := range totals {
		costs[i].Total = x
	}
	return reference.MeanCosts(costs).Total
}

// WriteText writes a line for each route, the means, and what each policy is.
func (s *SearchReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, bound func(b Bound) string, cell func(c SearchColumn) string) {
		fmt.Fprintf(t, "%s\t", name)
		for _, b := range s.Bounds {
			fmt.Fprintf(t, "%s\t", bound(b))
		}
		for _, c := range s.Columns {
			fmt.Fprintf(t, "%s\t", cell(c))
		}
		fmt.Fprintln(t)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	fmt.Fprintln(t)
	row("route", func(b Bound) string { return b.Name }, SearchColumn.Short)
	for i, name := range s.Routes {
		row(
			name, func(b Bound) string { return number(b.Totals[i]) },
			func(c SearchColumn) string { return number(c.Totals[i]) },
		)
	}
	row(
		"mean", func(b Bound) string { return number(b.Mean()) },
		func(c SearchColumn) string { return number(c.Mean()) },
	)
	row(
		"geometric mean", func(Bound) string { return "" },
		func(c SearchColumn) string { return number(search.GeometricMean(c.Totals)) },
	)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range s.Columns {
		if _, err := fmt.Fprintf(w, "%s: %s; class: %s\n", c.Short(), c.Policy,
			c.Class); err != nil {
			return err
		}
	}
	return nil
}

// Curves are some lines over the steps of a search, from the first on, whose number is 1.
type Curves struct {
	Label, X string
	Names    []string
	Values   [][]float64 // of each name
}

// WriteSearch writes the report on a search.
func WriteSearch(path string, s *SearchReport) error {
	return fileio.Write(
		path,
		func(w io.Writer) error {
			return pages.ExecuteTemplate(w, "search.html", newSearchPage(s))
		},
	)
}

type searchPage struct {
	*SearchReport
	Rows  []searchRow
	Chart *chart
	Facts []Fact
}

type searchRow struct {
	Name           string
	Bounds, Totals []float64
}

func newSearchPage(s *SearchReport) searchPage {
	p := searchPage{SearchReport: s, Facts: s.Origin.facts()}
	for i, name := range s.Routes {
		row := searchRow{Name: name}
		for _, b := range s.Bounds {
			row.Bounds = append(row.Bounds, b.Totals[i])
		}
		for _, c := range s.Columns {
			row.Totals = append(row.Totals, c.Totals[i])
		}
		p.Rows = append(p.Rows, row)
	}
	if s.Curve != nil {
		p.Chart = curveChart(*s.Curve)
	}
	return p
}

// curveChart draws a curve from its first step on.
func curveChart(c Curves) *chart {
	const height, width = 1000, 1000
	s := linearScale(1e-3, c.Values...)
	n := 1
	for _, values := range c.Values {
		n = max(n, len(values)-1)
	}
	out := &chart{
		Label:  c.Label,
		Class:  "time",
		Width:  width,
		Height: height,
		XLabel: c.X,
		YLabel: c.Label,
		Y:      s.ticks(5),
	}
	out.X = scale{lo: 1, hi: float64(n + 1)}.ticks(min(6, n)) // whole steps
	for i, name := range c.Names {
		path := ""
		for k, v := range c.Values[i] {
			if drawable(v) {
				letter := "L"
				if path == "" {
					letter = "M"
				}
				path += letter + strconv.Itoa(k*width/n) + " " +
					strconv.Itoa(int((1-s.at(v))*height))
			}
		}
		out.Lines = append(
			out.Lines,
			line{Name: name, Class: [...]string{"test", "baseline", "ink"}[i%3], Path: path},
		)
	}
	return out
}
