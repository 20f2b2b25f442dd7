package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockstep"
	"lockstep/internal/plain"
)

//go:embed *.html style.css script.js
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"style":  func() template.CSS { return template.CSS(text("style.css")) },
	"script": func() template.JS { return template.JS(text("script.js")) },
	// The policy lets the browser load nothing at all and run this script only.
	"policy": func() string {
		sum := sha256.Sum256([]byte(text("script.js")))
		return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
			base64.StdEncoding.EncodeToString(sum[:]) + "'"
	},
	"fixed":  fixed,
	"signed": signed,
	"plural": plural,
}).ParseFS(files, "*.html"))

func text(name string) string {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // embedded
	}
	return string(data)
}

// plural is "1 route", "2 routes".
func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// failure is a route without costs.
type failure struct{ Route, Controller, Error string }

// failureList is shown up to a length: a controller that fails everywhere with a
// long traceback would make a report that no browser opens.
type failureList []failure

const maxFailures = 100

func (l failureList) Shown() failureList { return l[:min(len(l), maxFailures)] }
func (l failureList) More() int          { return len(l) - len(l.Shown()) }

func failures(controller string, routes []RouteResult) failureList {
	var all failureList
	for _, r := range routes {
		if r.Err != nil {
			all = append(all, failure{r.Name, controller, r.Err.Error()})
		}
	}
	return all
}

// Costs of one kind, in the order in which the pages show them.
var costKinds = []struct {
	Name  string
	Value func(lockstep.Costs) float64
}{
	{"total cost", func(c lockstep.Costs) float64 { return c.Total }},
	{"lataccel cost", func(c lockstep.Costs) float64 { return c.Lataccel }},
	{"jerk cost", func(c lockstep.Costs) float64 { return c.Jerk }},
}

func column(costs []lockstep.Costs, value func(lockstep.Costs) float64) []float64 {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = value(c)
	}
	return values
}

func medians(costs []lockstep.Costs) lockstep.Costs {
	return lockstep.Costs{
		Total:    median(column(costs, costKinds[0].Value)),
		Lataccel: median(column(costs, costKinds[1].Value)),
		Jerk:     median(column(costs, costKinds[2].Value)),
	}
}

// aggregates is a table of means and medians.
type aggregates struct {
	Columns []aggregateColumn
	Groups  [][]aggregateRow
}

type aggregateColumn struct{ Name, Class string }

type aggregateRow struct {
	Name  string
	Cells []aggregateCell
}

// aggregateCell is a number as the challenge's report rounds it and, if not
// empty, with all its digits.
type aggregateCell struct{ Text, Digits string }

func aggregateOf(x float64) aggregateCell { return aggregateCell{fixed(x), exact(x)} }

// comparison has a column for each controller; means and medians are the test
// controller's and the baseline's.
func comparison(test, baseline string, means, medians []lockstep.Costs) aggregates {
	a := aggregates{
		Columns: []aggregateColumn{{test, "test"}, {baseline, "baseline"}, {"difference", ""}},
	}
	for i, costs := range [][]lockstep.Costs{means, medians} {
		var rows []aggregateRow
		for _, kind := range costKinds {
			t, b := kind.Value(costs[0]), kind.Value(costs[1])
			rows = append(rows, aggregateRow{
				Name:  [...]string{"mean ", "median "}[i] + strings.TrimSuffix(kind.Name, " cost"),
				Cells: []aggregateCell{aggregateOf(t), aggregateOf(b), {Text: signed(t - b)}},
			})
		}
		a.Groups = append(a.Groups, rows)
	}
	return a
}

// summary has a column for the mean and one for the median.
func summary(mean, median lockstep.Costs) aggregates {
	a := aggregates{Columns: []aggregateColumn{{"mean", ""}, {"median", ""}}}
	var rows []aggregateRow
	for _, kind := range costKinds {
		rows = append(
			rows,
			aggregateRow{
				kind.Name,
				[]aggregateCell{aggregateOf(kind.Value(mean)), aggregateOf(kind.Value(median))},
			},
		)
	}
	a.Groups = append(a.Groups, rows)
	return a
}

// descending orders by value, highest first, NaN last, equal ones as they are.
func descending[T any](rows []T, value func(T) float64) []T {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b T) int {
		x, y := value(a), value(b)
		switch {
		case x > y || math.IsNaN(y) && !math.IsNaN(x):
			return -1
		case x < y || math.IsNaN(x) && !math.IsNaN(y):
			return 1
		}
		return 0
	})
	return sorted
}

// facts are the lines of the origin, with what the runs were computed by.
func (o Origin) facts(runs ...Run) []Fact {
	var all []Fact
	add := func(name, value string) {
		if value != "" {
			all = append(all, Fact{name, value})
		}
	}
	add("command", plain.Command(o.Command))
	add("model", o.Model)
	add("model SHA-256", o.ModelSHA256)
	add("routes", o.Data)
	add("seed prefix", o.SeedPrefix)
	for i, run := range runs {
		if i == 0 || run.Engine != runs[0].Engine || run.Profile != runs[0].Profile {
			add("engine", run.Engine)
			add("profile", run.Profile.String())
		}
		if run.Class != "" {
			add("class of "+run.Controller, string(run.Class))
		}
	}
	return append(all, o.Facts...)
}

// drive is the plots of one route.
type drive struct {
	ID, Name string
	Charts   []chart
}

func driveID(i int) string { return "route-" + strconv.Itoa(i+1) }
