package report

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"strings"

	"lockstep"
	"lockstep/internal/fileio"
)

// A Role is a run's part in a table of costs: "test" or "baseline", as in the
// challenge's report.
type Role string

const (
	Test     Role = "test"
	Baseline Role = "baseline"
)

// CostTable is the table of all costs: one row for each run and route, in order.
type CostTable struct {
	Runs []RoleRun
	Origin
}

// RoleRun is a run and its part.
type RoleRun struct {
	Role
	Run
}

// Costs is the table of both runs.
func (e Eval) Costs() CostTable {
	return CostTable{Runs: []RoleRun{{Test, e.Test}, {Baseline, e.Baseline}}, Origin: e.Origin}
}

// The columns of a table of costs.
var costColumns = []string{
	"role", "controller", "route", "lataccel_cost", "jerk_cost", "total_cost", "error",
}

// each calls f for every row; costs is nil where the route failed.
func (c CostTable) each(f func(run RoleRun, route string, costs *lockstep.Costs, err error)) {
	for _, run := range c.Runs {
		for i := range run.Routes {
			r := &run.Routes[i]
			costs := &r.Costs
			if r.Err != nil {
				costs = nil
			}
			f(run, r.Name, costs, r.Err)
		}
	}
}

// cell is a text that no spreadsheet takes for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// WriteCSV writes the table with the fewest digits that read back as the same
// numbers. The costs of a route that failed are empty; NaN is a cost.
func WriteCSV(path string, c CostTable) error {
	return fileio.Write(path, func(w io.Writer) error {
		out := csv.NewWriter(w)
		out.Write(costColumns) // errors stick until Flush
		c.each(func(run RoleRun, route string, costs *lockstep.Costs, err error) {
			record := []string{string(run.Role), cell(run.Controller), cell(route), "", "", "", ""}
			if costs != nil {
				record[3], record[4], record[5] = exact(costs.Lataccel), exact(costs.Jerk),
					exact(costs.Total)
			}
			if err != nil {
				record[6] = cell(err.Error())
			}
			out.Write(record)
		})
		out.Flush()
		return out.Error()
	})
}

// WriteParquet writes the table with null for the costs of a route that failed
// and for the error of one that did not. The file's metadata holds its origin.
func WriteParquet(path string, c CostTable) error {
	columns := make([]parquetColumn, len(costColumns))
	for i, name := range costColumns {
		columns[i] = parquetColumn{name: name, optional: i > 2, double: i > 2 && i < 6}
	}
	c.each(func(run RoleRun, route string, costs *lockstep.Costs, err error) {
		for i, text := range []string{string(run.Role), run.Controller, route} {
			columns[i].appendString(text)
		}
		if costs != nil {
			for i, x := range []float64{costs.Lataccel, costs.Jerk, costs.Total} {
				columns[3+i].appendDouble(x)
			}
			columns[6].appendNull()
		} else {
			for i := 3; i < 6; i++ {
				columns[i].appendNull()
			}
			columns[6].appendString(err.Error())
		}
	})
	var facts []Fact
	for _, run := range c.Runs {
		prefix := "lockstep." + string(run.Role) + "."
		facts = append(
			facts, Fact{prefix + "engine", run.Engine},
			Fact{prefix + "profile", run.Profile.String()},
		)
	}
	for _, f := range c.Origin.facts() {
		facts = append(facts, Fact{"lockstep." + strings.ReplaceAll(f.Name, " ", "_"), f.Value})
	}
	return fileio.Write(path, func(w io.Writer) error { return writeParquet(w, columns, facts) })
}

// exact formats x with the fewest digits that read back as x.
func exact(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// fixed formats a cost for people, with the three decimals of the challenge's report.
func fixed(x float64) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "∞"
	case math.IsInf(x, -1):
		return "−∞"
	case math.Abs(x) >= 1e9:
		return strconv.FormatFloat(x, 'e', 6, 64)
	}
	text := strconv.FormatFloat(math.Abs(x), 'f', 3, 64)
	if x < 0 && text != "0.000" {
		return "−" + text
	}
	return text
}

// signed is fixed with a plus in front of what is positive.
func signed(x float64) string {
	text := fixed(x)
	if x > 0 && text != "0.000" {
		return "+" + text
	}
	return text
}
