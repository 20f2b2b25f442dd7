package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep"
)

// TestSearchPage holds the report on a search to what tells its policies apart: names over
// columns, gains by their names, generations in whole numbers.
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
			if strings.Contains(tick.Text, ".") {
				t.Errorf("%d generations: a tick at %s", n, tick.Text)
			}
		}
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
	if s.Columns[0].Short() == s.Columns[1].Short() {
		t.Errorf("both columns are headed %s", s.Columns[0].Short())
	}
}
