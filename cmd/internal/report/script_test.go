package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep/internal/want"
)

// TestScript: pointing at a plot shows the values of the nearest step, in all plots, as exactly as
// they are drawn: those that fall and rise, change their sign, begin late, have gaps, or are large.
// A cursor stands there until the pointer leaves.
func TestScript(t *testing.T) {
	node := want.Node.Need(t)
	nan, inf := math.NaN(), math.Inf(-1)
	type lineOf struct {
		Name string `json:"name"`
		Path string `json:"d"`
	}
	type plotOf struct {
		Top   string   `json:"top"`
		Unit  string   `json:"unit"`
		Width int      `json:"width"`
		Lines []lineOf `json:"lines"`
	}
	const steps = 9
	columns := [][][]float64{
		{{0.25, -0.5, -0.5, 0.75, nan, -1, 0.125}, {1, nan, nan, 2, 2}},
		{{-12345, 54321, 12, inf, 1e10, 7, -9}},
		{{0.001, 0.002, -0.0005}, {nan}, {}},
	}
	var page struct {
		Script string   `json:"script"`
		Steps  int      `json:"steps"`
		Plots  []plotOf `json:"plots"`
	}
	page.Script, page.Steps = text("script.js"), steps
	for i, of := range columns {
		var lines []line
		for k := range of {
			lines = append(lines, line{Name: fmt.Sprint("line", k)})
		}
		c := timeChart("label", "unit", steps, i, 5, 0.1, lines, of...)
		p := plotOf{Top: c.Top, Unit: c.Unit, Width: c.Width}
		for _, l := range c.Lines {
			p.Lines = append(p.Lines, lineOf{l.Name, l.Path})
		}
		page.Plots = append(page.Plots, p)
	}
	input, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(node, "testdata/point.js")
	command.Stdin = bytes.NewReader(input)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	var shown [][]string
	if err := json.Unmarshal(output, &shown); err != nil || len(shown) != steps+1 {
		t.Fatalf("%v: %s", err, output)
	}
	for step, got := range shown[:steps] {
		for i, of := range columns {
			words := pointedAt(of, step-i, page.Plots[i].Unit)
			want := fmt.Sprintf(
				"%.1f s: %s at %v%%", float64(step)/10, words, float64(100*step)/steps)
			if got[i] != want {
				t.Errorf("plot %d, step %d: it shows %q, want %q", i, step, got[i], want)
			}
		}
	}
	if last := shown[steps]; !slices.Equal(last, []string{"", "", ""}) {
		t.Errorf("when the pointer has left, there is %q", last)
	}
}

// pointedAt are the columns' values at an index, in whole units, with the unit's decimals.
func pointedAt(columns [][]float64, at int, unitText string) string {
	var words []string
	unit, _ := strconv.ParseFloat(unitText, 64)
	_, decimals, _ := strings.Cut(unitText, ".")
	for k, values := range columns {
		if at < 0 || at >= len(values) || !drawable(values[at]) {
			continue
		}
		text := strconv.FormatFloat(math.Round(values[at]/unit)*unit, 'f', len(decimals), 64)
		words = append(words, fmt.Sprintf("line%d %s", k, text))
	}
	return strings.Join(words, ", ")
}
