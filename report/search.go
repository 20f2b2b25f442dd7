package report

import (
	"io"
	"strconv"

	"lockstep/internal/fileio"
)

// Class is what a cost is a cost of. Costs of different classes are not compared.
type Class string

// The classes. What overwrites the simulator is in none of them: nothing here can.
const (
	ClassController Class = "controller"
	ClassOracle     Class = "table that knows the draws"
	ClassTable      Class = "table, planned without the draws"
)

// Search is what a search for policies came to.
type Search struct {
	Title     string
	Columns   []SearchColumn
	Routes    []string
	Floors    []float64 // of each route: no trajectory costs less
	MeanFloor float64
	Curve     *Curve // nil for none
	Origin
}

// SearchColumn is a policy's costs by route.
type SearchColumn struct {
	Policy string
	Class  Class
	Totals []float64
	Mean   float64
}

// Curve is some lines over the steps of a search.
type Curve struct {
	Label, X string
	Names    []string
	Values   [][]float64 // of each name
}

// WriteSearch writes the report on a search.
func WriteSearch(path string, s Search) error {
	return fileio.Write(path, func(w io.Writer) error { return pages.ExecuteTemplate(w, "search.html", newSearchPage(s)) })
}

type searchPage struct {
	Search
	Rows  []searchRow
	Chart *chart
	Facts []Fact
}

type searchRow struct {
	Name   string
	Floor  float64
	Totals []float64
}

func newSearchPage(s Search) searchPage {
	p := searchPage{Search: s, Facts: s.Origin.facts()}
	for i, name := range s.Routes {
		row := searchRow{Name: name, Floor: s.Floors[i]}
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
func curveChart(c Curve) *chart {
	const height, width = 1000, 1000
	s := linearScale(1e-3, c.Values...)
	n := 1
	for _, values := range c.Values {
		n = max(n, len(values)-1)
	}
	out := &chart{Label: c.Label, Class: "time", Width: width, Height: height, XLabel: c.X, YLabel: c.Label, Y: s.ticks(5)}
	out.X = scale{lo: 0, hi: float64(n)}.ticks(6)
	for i, name := range c.Names {
		path := ""
		for k, v := range c.Values[i] {
			if drawable(v) {
				letter := "L"
				if path == "" {
					letter = "M"
				}
				path += letter + strconv.Itoa(k*width/n) + " " + strconv.Itoa(int((1-s.at(v))*height))
			}
		}
		out.Lines = append(out.Lines, line{Name: name, Class: [...]string{"test", "baseline", "ink"}[i%3], Path: path})
	}
	return out
}
