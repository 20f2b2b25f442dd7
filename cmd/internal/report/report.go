// Package report writes what people look at after a run: the challenge's report
// on two controllers, a report on one controller with its trajectories, and the
// costs of all routes as CSV and Parquet.
//
// A report is one HTML file that refers to nothing outside itself. Its plots are
// SVG and need no JavaScript; with it, pointing at a plot shows its values. The
// same input gives the same bytes, and a file appears whole or not at all.
package report

import (
	"fmt"
	"io"

	"lockstep"
	"lockstep/internal/fileio"
)

// A Run is one controller over some routes.
type Run struct {
	Controller string // the name that people gave or know
	Class      Class  // of the controller; empty leaves it out
	Engine     string
	Profile    lockstep.Profile
	Routes     []RouteResult
}

// RouteResult is what became of one route. Where Err is set, nothing else of
// the result counts. A route that could not be loaded belongs here, too.
type RouteResult struct {
	Name string
	lockstep.Result
	Floor float64 // search.Floor of the route: no trajectory costs less

	// Route, if not nil, adds road roll and speed to the plots of WriteRollout.
	Route *lockstep.Route
}

// Costs are the costs of the routes that did not fail, and how many did.
func (r Run) Costs() (costs []lockstep.Costs, failed int) {
	for _, route := range r.Routes {
		if route.Err != nil {
			failed++
		} else {
			costs = append(costs, route.Costs)
		}
	}
	return costs, failed
}

// Origin is what it takes to make a report again. Empty parts are left out.
type Origin struct {
	Command     []string // command line, from the program's name on
	Model       string   // name or path of the network
	ModelSHA256 string   // in hexadecimal
	Data        string   // where the routes are from
	SeedPrefix  string
	Facts       []Fact // whatever else: versions, the machine, how long it took
}

// A Fact is a line of the table at the end of a report.
type Fact struct{ Name, Value string }

// Eval compares two controllers over the same routes in the same order.
// Rollouts with trajectories in both runs are drawn.
type Eval struct {
	Test, Baseline Run
	Origin
}

// Single is one controller over some routes. Those with trajectories are drawn.
type Single struct {
	Run
	Origin
}

// WriteEval writes the report on two controllers.
func WriteEval(path string, e Eval) error {
	if err := sameRoutes(e.Test, e.Baseline); err != nil {
		return err
	}
	return fileio.Write(
		path,
		func(w io.Writer) error { return pages.ExecuteTemplate(w, "eval.html", newEvalPage(e)) },
	)
}

// WriteRollout writes the report on one controller.
func WriteRollout(path string, r Single) error {
	return fileio.Write(
		path,
		func(w io.Writer) error {
			return pages.ExecuteTemplate(w, "rollout.html", newRolloutPage(r))
		},
	)
}

func sameRoutes(test, baseline Run) error {
	if len(test.Routes) != len(baseline.Routes) {
		return fmt.Errorf(
			"report: %d routes of the test controller, %d of the baseline", len(test.Routes),
			len(baseline.Routes),
		)
	}
	for i, r := range test.Routes {
		if r.Name != baseline.Routes[i].Name {
			return fmt.Errorf(
				"report: route %d is %q for the test controller, %q for the baseline", i, r.Name,
				baseline.Routes[i].Name,
			)
		}
	}
	return nil
}
