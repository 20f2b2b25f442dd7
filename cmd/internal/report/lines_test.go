package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep"
)

// TestLines: results are printed as they come, failures beside them, and after each controller
// what its results come to; one that was interrupted counts as neither.
func TestLines(t *testing.T) {
	results := []lockstep.Result{
		{Costs: costs(1.1, 2.3)}, {Err: errors.New("it broke")}, {Costs: costs(3, math.NaN())},
		{Costs: costs(5.7, 6.1)}, {Err: fmt.Errorf("so: %w", context.Canceled)},
	}
	const broke = "lockstep: it broke\n"
	for _, c := range []struct {
		json        bool
		controllers []string
		ends        [2]int // finished, failed
		out, errors string
	}{
		{false, []string{"pid"}, [2]int{2, 2}, "a  lataccel_cost: 1.1, jerk_cost: 2.3, " +
			"total_cost: 57.3\nc  lataccel_cost: 3.0, jerk_cost: nan, total_cost: nan\n\nAverage " +
			"lataccel_cost: 2.05, average jerk_cost: 2.3, average total_cost: 57.3\n", broke},
		{false, []string{"pid", "zero", "none"}, [2]int{3, 4},
			"pid                           2 routes, average lataccel_cost: 2.05, average " +
				"jerk_cost: 2.3, average total_cost: 57.3\nzero                          1 routes" +
				", average lataccel_cost: 5.7, average jerk_cost: 6.1, average total_cost: 291.1\n",
			broke},
		{true, []string{"pid", "zero"}, [2]int{3, 3}, jsonLines, broke},
		{true, []string{"pid"}, [2]int{2, 2}, strings.Replace(
			jsonLines[:strings.Index(jsonLines, `{"route":"a","controller":"zero"`)],
			`{"controller":"pid","routes"`, `{"routes"`, 1), broke},
	} {
		var out, failed strings.Builder
		l := &Lines{
			Controllers: c.controllers, Routes: []string{"a", "b", "c"}, Engine: "batched",
			Unread: []RouteResult{{Name: "d", Result: lockstep.Result{Err: errors.New("torn")}}},
			Out:    &out, Errors: &failed, JSON: c.json, Start: time.Now(),
		}
		for i, r := range results[:min(len(results), 3*len(c.controllers))] {
			l.Add(i, r)
		}
		l.End()
		got := regexp.MustCompile(`"seconds":[0-9.e-]+`).ReplaceAllString(out.String(), `SECONDS`)
		got = strings.ReplaceAll(got, `,"profile":"`+l.Profile.String()+`"`, "")
		if d := cmp.Diff(c.out, narrow(got)); d != "" {
			t.Errorf("JSON is %v, %q: %s", c.json, c.controllers, d)
		}
		if ends := [2]int{l.Finished, l.Failed}; ends != c.ends || failed.String() != c.errors {
			t.Errorf("%q: %v finished and failed, want %v; errors %q, want %q", c.controllers, ends,
				c.ends, failed.String(), c.errors)
		}
	}
}

// TestLinesMissing: whichever results do not come, as where a run is ended, the others are those of
// their own controllers and routes, and each controller is told of.
func TestLinesMissing(t *testing.T) {
	controllers, routes := []string{"pid", "zero", "none"}, []string{"a", "b"}
	for come := range 1 << (len(controllers) * len(routes)) {
		var out strings.Builder
		l := &Lines{Controllers: controllers, Routes: routes, Out: &out, JSON: true}
		want := ""
		for k, controller := range controllers {
			n := 0
			for i, route := range routes {
				if at := k*len(routes) + i; come>>at&1 == 1 {
					l.Add(at, lockstep.Result{Costs: costs(float64(at), 0)})
					want += fmt.Sprintf("%s of %s: %d\n", route, controller, at)
					n++
				}
			}
			want += fmt.Sprintf("%s: %d of 2\n", controller, n)
		}
		l.End()
		got := ""
		for line := range strings.Lines(out.String()) {
			var r struct {
				Route, Controller string
				Routes            int
				Lataccel          float64 `json:"lataccel_cost"`
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Route != "" {
				got += fmt.Sprintf("%s of %s: %v\n", r.Route, r.Controller, r.Lataccel)
			} else {
				got += fmt.Sprintf("%s: %d of 2\n", r.Controller, r.Routes)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("results %06b: %s", come, d)
		}
	}
}

// TestNoNumber: costs that JSON has no number for are null.
func TestNoNumber(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		text, err := json.Marshal(toJSON(lockstep.Costs{Lataccel: x, Jerk: -2, Total: x}))
		if want := `{"lataccel_cost":null,"jerk_cost":-2,"total_cost":null}`; err != nil ||
			string(text) != want {
			t.Errorf("%v: %s, %v, want %s", x, text, err, want)
		}
	}
}

// TestCostsText: a cost may be larger than any number of 32 bits.
func TestCostsText(t *testing.T) {
	got := narrow(costsText("mean ", lockstep.Costs{Lataccel: 1e40, Jerk: 2e-60, Total: 3e50}))
	want := "mean lataccel_cost: 1e+40, mean jerk_cost: 2e-60, mean total_cost: 3e+50"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// narrow has no room before costs.
func narrow(text string) string { return regexp.MustCompile(`: +`).ReplaceAllString(text, ": ") }

const jsonLines = `{"route":"a","controller":"pid","engine":"batched",` +
	`"lataccel_cost":1.1,"jerk_cost":2.3,"total_cost":57.300000000000004}
{"route":"b","controller":"pid","error":"it broke"}
{"route":"c","controller":"pid","engine":"batched",` +
	`"lataccel_cost":3,"jerk_cost":null,"total_cost":null}
{"route":"d","controller":"pid","error":"torn"}
{"controller":"pid","routes":2,"failed":2,"interrupted":0,` +
	`"mean":{"lataccel_cost":2.05,"jerk_cost":2.3,"total_cost":57.300000000000004},SECONDS}
{"route":"a","controller":"zero","engine":"batched",` +
	`"lataccel_cost":5.7,"jerk_cost":6.1,"total_cost":291.1}
{"route":"d","controller":"zero","error":"torn"}
{"controller":"zero","routes":1,"failed":1,"interrupted":2,` +
	`"mean":{"lataccel_cost":5.7,"jerk_cost":6.1,"total_cost":291.1},SECONDS}
`

// TestWriteText: averages are over the routes that both controllers have finished.
func TestWriteText(t *testing.T) {
	e := Eval{Test: testRun("pid", 4, 1), Baseline: testRun("zero", 4, 2)}
	e.Test.Routes[1].Err, e.Baseline.Routes[2].Err = errors.New("a"), errors.New("b")
	var got strings.Builder
	if err := e.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	const want = "test      pid                  2 routes, average lataccel_cost: 1.5, average " +
		"jerk_cost: 24.5, average total_cost: 99.5\nbaseline  zero                 2 routes, " +
		"average lataccel_cost: 3.0, average jerk_cost: 29.0, average total_cost: 179.0\n"
	if d := cmp.Diff(want, narrow(got.String())); d != "" {
		t.Error(d)
	}
	e.Test.Routes[0].Err, e.Test.Routes[3].Err = errors.New("a"), errors.New("a")
	if got.Reset(); e.WriteText(&got) != nil || got.Len() > 0 {
		t.Errorf("of nothing: %s", got.String())
	}
}

// TestDescending: what is no number comes last, and what is equal stays as it is.
func TestDescending(t *testing.T) {
	nan := math.NaN()
	for _, x := range [][]float64{{nan, 1, 3, nan, 2}, {3, 2, 1, nan, nan}, {1, nan, 2, nan, 3}} {
		places := []int{0, 1, 2, 3, 4}
		sorted := descending(places, func(i int) float64 { return x[i] })
		for k, want := range []float64{3, 2, 1} {
			if x[sorted[k]] != want {
				t.Errorf("%v: %v is at place %d", x, x[sorted[k]], k)
			}
		}
		if sorted[3] > sorted[4] {
			t.Errorf("%v: equal ones are at %v", x, sorted)
		}
	}
	if got := descending([]int{4, 5, 6}, func(int) float64 { return 1 }); !slices.Equal(got,
		[]int{4, 5, 6}) {
		t.Errorf("equal ones are %v", got)
	}
}
