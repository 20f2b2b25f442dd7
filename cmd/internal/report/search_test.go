package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep"
	"lockstep/internal/search"
)

// TestSearchPage holds the report on a search to what tells its policies apart: names over
// columns, gains by their names, generations in whole numbers,
// of which the first is 1.
func TestSearchPage(t *testing.T) {
	best := lockstep.PIDFF{P: 0.25, I: 0.125, D: -0.5}
	s := &SearchReport{
		Title:  "Gains of pidff",
		Routes: []string{"00000"},
		Bounds: []Bound{{"floor", []float64{1}}},
	}
	for _, policy := range []lockstep.Policy{lockstep.DefaultPID(), best} {
		if err := s.Add(policy, []lockstep.Result{{Costs: lockstep.Costs{Total: 3}}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= 7; n++ {
		values := make([]float64, n+1)
		for _, tick := range curveChart(Curves{
			X: "generation", Names: []string{"best"}, Values: [][]float64{values},
		}).X {
			generation, err := strconv.Atoi(tick.Text)
			if err != nil || tick.at != float64(generation-1)/float64(n) {
				t.Errorf("%d generations: a tick of %s at %v", n+1, tick.Text, tick.at)
			}
		}
	}
	broke := []lockstep.Result{{}, {Err: errors.New("it broke")}}
	if err := s.Add(lockstep.Zero{}, broke); err != broke[1].Err || len(s.Columns) != 2 {
		t.Errorf("%v of a policy that failed, and %d columns", err, len(s.Columns))
	}
	path := filepath.Join(t.TempDir(), "search.html")
	if err := WriteSearch(path, s); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`>` + s.Columns[0].Short() + `</th>`, `>` + s.Columns[1].Short() + `</th>`,
		`<th scope="col">ffv</th>`, `<td>0.125</td>`, `<td>-0.5</td>`,
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	for long, want := range map[string]string{
		strings.Repeat("p", 16): strings.Repeat("p", 16),
		strings.Repeat("p", 17): strings.Repeat("p", 12) + "…",
		strings.Repeat("ш", 16): strings.Repeat("ш", 16),
		strings.Repeat("ш", 17): strings.Repeat("ш", 12) + "…",
	} {
		if got := (SearchColumn{Policy: long}).Short(); got != want {
			t.Errorf("a policy of %d letters is headed %s", len(long), got)
		}
	}
	if s.Columns[0].Short() == s.Columns[1].Short() {
		t.Errorf("both columns are headed %s", s.Columns[0].Short())
	}
}

// TestNewSearch: a search's routes are all there from its beginning, each with its floor.
func TestNewSearch(t *testing.T) {
	var routes []*lockstep.Route
	for _, far := range []float64{1, 2, 3} {
		r := &lockstep.Route{Name: fmt.Sprint(far), TargetLataccel: make([]float64, 120)}
		for i := range r.TargetLataccel {
			r.TargetLataccel[i] = far * float64(i%2)
		}
		r.SteerCommand = make([]float64, 120)
		routes = append(routes, r)
	}
	s := NewSearch("Gains", routes)
	want := &SearchReport{Title: "Gains", Routes: []string{"1", "2", "3"}, Bounds: []Bound{{
		"floor", []float64{
			search.Floor(routes[0]), search.Floor(routes[1]), search.Floor(routes[2]),
		},
	}}}
	if d := cmp.Diff(want, s); d != "" || want.Bounds[0].Totals[0] == want.Bounds[0].Totals[2] {
		t.Errorf("%s, floors %v", d, want.Bounds)
	}
}

// TestSearchText: the table has a line for each route and of means, a column for each bound and
// each policy, and below it says what each policy is.
func TestSearchText(t *testing.T) {
	s := &SearchReport{Routes: []string{"a", "b"}, Bounds: []Bound{
		{"floor", []float64{0.5, 33_554_433.125}}, {"pid", []float64{40, 60}},
	}}
	const far = 16_777_217 // no number of 32 bits
	for _, policy := range []lockstep.Policy{
		lockstep.PID{P: 0.25}, lockstep.PIDFF{P: 0.25, I: 0.125, D: -0.5}, lockstep.PID{},
	} {
		n := float64(len(s.Columns))
		if err := s.Add(policy, []lockstep.Result{
			{Costs: lockstep.Costs{Total: 2 + n}}, {Costs: lockstep.Costs{Total: 8 + 16*n + far*n}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	if err := s.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	short := make([]string, len(s.Columns))
	want := []string{
		"", "", "a 0.500 40.000 2.000 3.000 4.000",
		"b 33554433.125 60.000 8.000 16777241.000 33554474.000",
		"mean 16777216.812 50.000 5.000 8388622.000 16777239.000",
		"geometric mean 4.000 7094.485 11585.245",
	}
	for i, c := range s.Columns {
		short[i] = c.Short()
		want = append(want, fmt.Sprintf("%s: %s; class: %s", c.Short(), c.Policy, c.Class))
	}
	want[1] = "route floor pid " + strings.Join(short, " ")
	if d := cmp.Diff(append(want, ""), lines); d != "" {
		t.Error(d)
	}
}
