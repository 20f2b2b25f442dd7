package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"lockstep"
	"lockstep/internal/installed"
	"lockstep/reference"
)

// Lines prints the results of a run as they come, in the order of its controllers and
// of their routes, and what they come to: as the Python program does; of several
// controllers the averages alone; or as one object of JSON a line.
type Lines struct {
	Controllers, Routes []string
	// routes that could not be loaded: each fails under each controller
	Unread  []RouteResult
	Engine  string
	Profile lockstep.Profile
	// of the Python that was asked for the profile, nil if none was
	Found *installed.Found

	Out, Errors io.Writer
	JSON        bool
	Start       time.Time

	Finished, Failed int // rollouts, so far

	controller int              // whose results come
	costs      []lockstep.Costs // of this controller
	failures   int              // of this controller
}

// costsText is costs as the Python program prints them, each name behind a word.
func costsText(word string, c lockstep.Costs) string {
	f := reference.FormatCost
	return fmt.Sprintf(
		"%slataccel_cost: %s, %[1]sjerk_cost: %[3]s, %[1]stotal_cost: %[4]s", word, f(c.Lataccel),
		f(c.Jerk), f(c.Total),
	)
}

// jsonCosts has null where JSON has no number: the jerk cost of a route with one step
// that costs is NaN.
type jsonCosts struct {
	Lataccel *float64 `json:"lataccel_cost"`
	Jerk     *float64 `json:"jerk_cost"`
	Total    *float64 `json:"total_cost"`
}

func toJSON(c lockstep.Costs) jsonCosts {
	number := func(x float64) *float64 {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
		return &x
	}
	return jsonCosts{number(c.Lataccel), number(c.Jerk), number(c.Total)}
}

// json prints a value. Out keeps its own errors, and a value always has its form.
func (l *Lines) json(v any) { json.NewEncoder(l.Out).Encode(v) }

// Add prints the result of rollout i: of route i mod N under controller i div N, of N
// routes. The numbers ascend.
func (l *Lines) Add(i int, r lockstep.Result) {
	for l.controller < i/len(l.Routes) {
		l.endController()
	}
	route, controller := l.Routes[i%len(l.Routes)], l.Controllers[l.controller]
	switch {
	case r.Err == nil:
		l.costs = append(l.costs, r.Costs)
		if l.JSON {
			l.json(struct {
				Route      string           `json:"route"`
				Controller string           `json:"controller"`
				Engine     string           `json:"engine"`
				Profile    lockstep.Profile `json:"profile"`
				jsonCosts
			}{route, controller, l.Engine, l.Profile, toJSON(r.Costs)})
		} else if len(l.Controllers) == 1 {
			fmt.Fprintf(l.Out, "%s  %s\n", route, costsText("", r.Costs))
		}
	case !errors.Is(r.Err, context.Canceled):
		l.failures++
		l.fail(route, controller, r.Err)
		fmt.Fprintf(l.Errors, "lockstep: %v\n", r.Err)
	}
}

// fail prints a failure for programs; people read it on Errors.
func (l *Lines) fail(route, controller string, err error) {
	if l.JSON {
		l.json(struct {
			Route      string `json:"route"`
			Controller string `json:"controller"`
			Error      string `json:"error"`
		}{route, controller, err.Error()})
	}
}

// endController prints what the results of a controller come to.
func (l *Lines) endController() {
	controller := l.Controllers[l.controller]
	for _, r := range l.Unread {
		l.fail(r.Name, controller, r.Err)
	}
	finished, failed, mean := len(l.costs), l.failures+len(l.Unread), reference.MeanCosts(l.costs)
	switch sweep := len(l.Controllers) > 1; {
	case l.JSON:
		if !sweep {
			controller = ""
		}
		l.json(struct {
			Controller  string    `json:"controller,omitempty"`
			Routes      int       `json:"routes"`
			Failed      int       `json:"failed"`
			Interrupted int       `json:"interrupted"`
			Mean        jsonCosts `json:"mean"`
			Seconds     float64   `json:"seconds"`

			Arithmetic *installed.Found `json:"arithmetic,omitempty"`
		}{
			controller, finished, failed, len(l.Routes) - finished - l.failures, toJSON(mean),
			time.Since(l.Start).Seconds(), l.Found,
		})
	case finished == 0:
	case sweep:
		fmt.Fprintf(
			l.Out, "%-28s  %d routes, %s\n", controller, finished, costsText("average ", mean),
		)
	default:
		fmt.Fprintf(l.Out, "\nA%s\n", costsText("average ", mean)[1:])
	}
	l.Finished += finished
	l.Failed += failed
	l.controller, l.costs, l.failures = l.controller+1, nil, 0
}

// End prints what is left to be printed.
func (l *Lines) End() {
	for l.controller < len(l.Controllers) {
		l.endController()
	}
}
