package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep/parity"
)

// bars turns the outline of a histogram back into counts.
func bars(t require, c chart, l line) []int {
	var counts []int
	height := 0
	body, _ := strings.CutSuffix(l.Path, "V"+strconv.Itoa(c.Height)+"z")
	body = strings.TrimPrefix(body, "M0 "+strconv.Itoa(c.Height))
	for _, m := range regexp.MustCompile(`([vh])(-?\d+)`).FindAllStringSubmatch(body, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatalf("%v", err)
		}
		if m[1] == "v" {
			height -= n
		} else {
			counts = append(counts, height)
		}
	}
	return counts
}

type require interface{ Fatalf(string, ...any) }

// TestHistogramBins: bins are those of np.histogram(values, np.arange(0, 1000, 10)).
func TestHistogramBins(t *testing.T) {
	values := []float64{
		0, 9.999999999999998, 10, math.Nextafter(30, 0), 30, 979.9, 980, 990,
		math.Nextafter(990, 1000), 1e6, math.Inf(1), math.NaN(), 50, 50, 50,
	}
	h := newHistogram("total cost", series{"a", "test", values})
	counts := bars(t, h.Chart, h.Chart.Lines[0])
	want := make([]int, 99)
	want[0], want[1], want[2], want[3], want[5], want[97], want[98] = 2, 1, 1, 1, 3, 1, 2
	if !slices.Equal(counts, want) {
		t.Errorf("bins %v, want %v", counts, want)
	}
	if notes := strings.Join(h.Notes, " "); notes != "Bins of 10. Above 990 and not shown: 3. "+
		"No number (NaN): 1." {
		t.Errorf("notes %q", notes)
	}
}

func TestHistogramIsTrimmed(t *testing.T) {
	h := newHistogram(
		"total cost", series{"a", "test", []float64{5, 105, 131}},
		series{"b", "baseline", []float64{42}},
	)
	if h.Chart.Width != 20 || h.Chart.X[len(h.Chart.X)-1].Text != "200" {
		t.Errorf("%d bins, axis %v", h.Chart.Width, h.Chart.X)
	}
}

// TestHistogramFiner: where bins of ten tell nothing, bins are narrower.
func TestHistogramFiner(t *testing.T) {
	h := newHistogram(
		"lataccel cost", series{"a", "test", []float64{9.95, 9.9, 2.6, 1.99, 1.25, 0.3, 0.1, 0.05}},
	)
	counts := bars(t, h.Chart, h.Chart.Lines[0])
	if !strings.HasPrefix(h.Notes[0], "Bins of 1: ") ||
		!slices.Equal(counts, []int{3, 2, 1, 0, 0, 0, 0, 0, 0, 2}) {
		t.Errorf("%q: %v", h.Notes, counts)
	}
	h = newHistogram("lataccel cost", series{"a", "test", []float64{1.5}})
	if !strings.HasPrefix(h.Notes[0], "Bins of 0.1: ") ||
		!strings.HasSuffix(h.Chart.Label, " in bins of 0.1") {
		t.Errorf("of one value: %q, %s", h.Notes, h.Chart.Label)
	}
	// Nine tenths are 9 of 10 routes, and 10 of 11.
	for n, bins := range map[int]string{10: "Bins of 1: ", 11: "Bins of 10.", 20: "Bins of 10."} {
		costs := append(slices.Repeat([]float64{7}, 9), slices.Repeat([]float64{700}, n-9)...)
		h = newHistogram("total cost", series{"a", "test", costs})
		if !strings.HasPrefix(h.Notes[0], bins) {
			t.Errorf("9 of %d routes are in the first bin: %q, want %s", n, h.Notes[0], bins)
		}
	}
	many := append(slices.Repeat([]float64{0.05}, 19), 9.95)
	h = newHistogram("lataccel cost", series{"a", "test", many})
	if len(h.Notes) != 2 || h.Notes[1] != "Above 9.9 and not shown: 1." {
		t.Errorf("of one beyond narrow bins: %q", h.Notes)
	}
	h = newHistogram("lataccel cost", series{"a", "test", []float64{0.05, 0.1, 0.3, 1.25, 1.99}})
	counts = bars(t, h.Chart, h.Chart.Lines[0])
	want := make([]int, 20)
	want[0], want[1], want[3], want[12], want[19] = 1, 1, 1, 1, 1
	if !strings.HasPrefix(h.Notes[0], "Bins of 0.1: ") || !slices.Equal(counts, want) {
		t.Errorf("%q: %v", h.Notes, counts)
	}
}

// TestHistogramOfLowCosts: bins stay as they are in the challenge's report as long
// as they tell something.
func TestHistogramOfLowCosts(t *testing.T) {
	h := newHistogram("jerk cost", series{"a", "test", []float64{3, 8, 14, 20, 21}})
	if h.Notes[0] != "Bins of 10." {
		t.Errorf("%q", h.Notes)
	}
}

func anyCost() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64Range(0, 3), rapid.Float64Range(0, 1000), rapid.Float64Min(0),
		rapid.SampledFrom([]float64{
			0, 10, 980, 990, math.NaN(), math.Inf(1), 1e6, math.SmallestNonzeroFloat64,
			math.MaxFloat64,
		}),
	)
}

// TestHistogramCounts: every value is in a bin or in a note.
func TestHistogramCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(anyCost()).Draw(t, "values")
		h := newHistogram("total cost", series{"a", "test", values})
		n := 0
		for _, count := range bars(t, h.Chart, h.Chart.Lines[0]) {
			if count < 0 || count > h.Chart.Height {
				t.Fatalf("a bar of %d in a plot of %d", count, h.Chart.Height)
			}
			n += count
		}
		for _, note := range h.Notes {
			for _, m := range regexp.MustCompile(`: (\d+)\.$`).FindAllStringSubmatch(note, -1) {
				more, _ := strconv.Atoi(m[1])
				n += more
			}
		}
		if n != len(values) {
			t.Fatalf("%d of %d values are accounted for", n, len(values))
		}
	})
}

func checkTicks(t *rapid.T, s scale, n int) {
	ticks := s.ticks(n)
	if len(ticks) < 2 || len(ticks) > 4*n+2 {
		t.Fatalf("%v has %d ticks", s, len(ticks))
	}
	seen := map[string]bool{}
	last := math.Inf(-1)
	for _, tick := range ticks {
		if !(tick.at > last && tick.at > -1e-6 && tick.at < 1+1e-6) || seen[tick.Text] {
			t.Fatalf("%v has ticks %v", s, ticks)
		}
		seen[tick.Text], last = true, tick.at
	}
}

func TestScales(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Float64Range(-100, 100)).Draw(t, "values")
		span := rapid.SampledFrom([]float64{0.2, 1, 2}).Draw(t, "span")
		s := linearScale(span, values)
		for _, x := range values {
			if at := s.at(x); at < 0 || at > 1 {
				t.Fatalf("%v is at %v of %v", x, at, s)
			}
		}
		checkTicks(t, s, rapid.IntRange(3, 6).Draw(t, "ticks"))
	})
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(anyCost()).Draw(t, "values")
		s := logScale(values)
		for _, x := range values {
			if at := s.at(x); !math.IsNaN(x) && !(at >= 0 && at <= 1) {
				t.Fatalf("%v is at %v of %v", x, at, s)
			}
		}
		if s.hi > s.lo*1e-12 && s.lo > 1e-4 && s.hi < 1e12 {
			checkTicks(t, s, 6)
		}
	})
}

func TestTickTexts(t *testing.T) {
	texts := func(ticks []tick) string {
		var all []string
		for _, t := range ticks {
			all = append(all, t.Text)
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct {
		s    scale
		n    int
		want string
	}{
		{scale{lo: -1.2, hi: 1.2}, 6, "−1.0 −0.5 0.0 0.5 1.0"},
		{scale{lo: 0, hi: 60}, 6, "0 10 20 30 40 50 60"},
		{scale{lo: 0, hi: 100}, 5, "0 20 40 60 80 100"},
		{scale{lo: -1.1, hi: 1.6}, 3, "−1 0 1"},
		{scale{10, 1e6, true}, 6, "10 100 1000 10k 100k 1M"},
		{scale{20, 200, true}, 6, "20 50 100 200"},
		{scale{lo: 0, hi: 1.2}, 6, "0.0 0.2 0.4 0.6 0.8 1.0 1.2"},
		{scale{lo: -0.1, hi: 0.3}, 3, "−0.1 0.0 0.1 0.2 0.3"},
		{scale{lo: 99999, hi: 99999.01}, 5, "99999.000 99999.002 99999.004 99999.006 99999.008"},
		{scale{1e-300, 1e300, true}, 2, "1"},
		{scale{1e-251, 1e-250, true}, 6, "1e-251 2e-251 5e-251 1e-250"},
		{scale{1e250, 1e252, true}, 6, "1e+250 2e+250 5e+250 1e+251 2e+251 5e+251 1e+252"},
		{scale{lo: -2e5, hi: 2e5}, 4, "−200k −100k 0 100k 200k"},
		{scale{lo: -9e4, hi: 3e4}, 6, "−80000 −60000 −40000 −20000 0 20000"},
		{scale{lo: -1e9, hi: 0}, 2, "−1G −500M 0"},
	} {
		if got := texts(c.s.ticks(c.n)); got != c.want {
			t.Errorf("ticks of %v are %s, want %s", c.s, got, c.want)
		}
	}
}

// TestCumulative reads shares off the steps.
func TestCumulative(t *testing.T) {
	c := cumulativeChart(series{"a", "test", []float64{100, 30, 1000, 30, math.NaN()}})
	x := scale{20, 1000, true} // the numbers around
	thirty := int(math.Round(grid * x.at(30)))
	hundred := int(math.Round(grid * x.at(100)))
	want := "M0 5000h" + strconv.Itoa(thirty) + "v-2500h" + strconv.Itoa(hundred-thirty) +
		"v-1250h" + strconv.Itoa(grid-hundred) + "v-1250H5000"
	if c.Lines[0].Path != want {
		t.Errorf("path %s, want %s", c.Lines[0].Path, want)
	}
	c = cumulativeChart(series{"a", "test", []float64{1, 1e8, 1e8}})
	if want := "M0 5000v-1667h5000v-3333H5000"; c.Lines[0].Path != want {
		t.Errorf("path of equal last ones %s, want %s", c.Lines[0].Path, want)
	}
	var ticks []string
	for _, tick := range c.X {
		ticks = append(ticks, tick.Text)
	}
	if got := strings.Join(ticks, " "); got != "1 100 10k 1M 100M" {
		t.Errorf("of eight decades each other one is named: %s", got)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, math.NaN(), 3, 2}, 2.5}, {[]float64{1}, 1}} {
		was := fmt.Sprint(c.values)
		if got := median(c.values); got != c.want || fmt.Sprint(c.values) != was {
			t.Errorf("median of %v is %v, want %v; they are %v now", was, got, c.want, c.values)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

// TestRound: where numbers are shortened, and which are round.
func TestRound(t *testing.T) {
	for x, want := range map[float64]string{
		1e12: "1e+12", 9e11: "900G", 1e9: "1G", 9e8: "900M", 1e6: "1M", 9e5: "900k", 1e4: "10k",
		100_000_000.5: "100.0000005M", 100_000_000_005: "100.000000005G",
		123_456_001: "123.456001M", 12_345.5: "12.3455k", 1_234_567_000: "1.234567G",
		1e300: "1e+300", 9999: "9999", 0.5: "0.5", 1e-4: "0.0001", 9e-5: "9e-05",
	} {
		if got := short(x); got != want {
			t.Errorf("%v is shortened to %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64][2]float64{ // that is not below x, and before that
		1: {1, 0.5}, 1.1: {2, 1}, 2: {2, 1}, 2.1: {5, 2}, 5: {5, 2}, 5.1: {10, 5},
		0.01: {0.01, 0.005}, 300: {500, 200}, 1e40: {1e40, 5e39}, 3e40: {5e40, 2e40},
	} {
		if got := [2]float64{niceStep(x), below(niceStep(x))}; got != want {
			t.Errorf("%v lies between %v, want %v", x, got, want)
		}
	}
	for want, values := range map[scale][]float64{
		{1, 10, true}:  {0, -1, math.Inf(1), math.NaN()},
		{0.5, 1, true}: {1, 0},
		{2, 50, true}:  {3, 40},
	} {
		if got := logScale(values); got != want {
			t.Errorf("%v are on %v, want %v", values, got, want)
		}
	}
	for want, values := range map[scale][]float64{
		{lo: -1, hi: 1}: {}, {lo: 4, hi: 6}: {5, 1e9 + 1, math.NaN()},
		{lo: -0.6, hi: 10.6}:      {0, 10},
		{lo: -6e7, hi: 1e9 + 6e7}: {0, 1e9}, {lo: 0, hi: 2}: {0.5, 1.5},
	} {
		if got := linearScale(2, values); got != want {
			t.Errorf("%v are on %v, want %v", values, got, want)
		}
	}
	for _, c := range []struct {
		s    scale
		want string // the last of its ticks
	}{
		{scale{lo: 0, hi: 1e5}, "100k"}, {scale{lo: 0, hi: 9e4}, "80000"},
		{scale{lo: -2e5, hi: 0}, "0"},
	} {
		ticks := c.s.ticks(5)
		if got := ticks[len(ticks)-1].Text; got != c.want {
			t.Errorf("ticks of %v end at %s, want %s", c.s, got, c.want)
		}
	}
	for width, want := range map[int]string{
		600: "0 16.67|16.67 edge|83.33 16.67|83.33 edge flip", 150: "0 66.67|66.67 edge flip",
		50: "0 100.00|100.00 edge flip", 500: "0 20.00|20.00 edge",
	} {
		var got []string
		for _, m := range costMarks(width) {
			if m.Class == "idle" {
				got = append(got, m.Left+" "+m.Width)
			} else {
				got = append(got, m.Left+" "+m.Class)
			}
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("of %d steps: %s, want %s", width, text, want)
		}
	}
}

// TestFar: what is drawn of numbers depends on how far they are from one another, not on how far
// they are from 0, and of what is too large to be drawn nothing is.
func TestFar(t *testing.T) {
	const far = 1e8 // where a number of 32 bits has steps of 8
	curve := []float64{0, 1.4953, 0.25, 1e9 + 1, 0.75, 1}
	off := make([]float64, len(curve))
	for i, x := range curve {
		off[i] = x + far
	}
	drawn := func(values []float64) []chart {
		c := &parity.Chart{
			Label: "l", Stairs: "bin", Span: 0.5,
			Lines: []parity.Line{{Name: "got", Values: parity.Floats(values)}},
		}
		return []chart{
			timeChart("l", "y", 7, 0, 6, 0.5, make([]line, 1), values),
			stairsChart(c, len(values)),
			stepsChart(&parity.Plot{Step: -1}, c),
			*curveChart(Curves{Names: []string{"a"}, Values: [][]float64{values}}),
		}
	}
	near, moved := drawn(curve), drawn(off)
	for i, c := range moved {
		if c.Lines[0].Path != near[i].Lines[0].Path || c.Height != near[i].Height {
			t.Errorf("chart %d: %s of %d, want %s of %d", i, c.Lines[0].Path, c.Height,
				near[i].Lines[0].Path, near[i].Height)
		}
		want := []string{"100M", "100.0000005M", "100.000001M", "100.0000015M"}
		for k, y := range c.Y {
			if y.Top() != near[i].Y[k].Top() || y.Text != want[k] {
				t.Errorf("chart %d: %s at %s, want %s at %s", i, y.Text, y.Top(), want[k],
					near[i].Y[k].Top())
			}
		}
	}
	if bins := near[1].X; len(bins) != len(curve) || bins[5].Text != "5" {
		t.Errorf("bins %v, want all of %d", bins, len(curve))
	}
	if seconds(7) != "0.7" {
		t.Errorf("step 7 is at %s s", seconds(7))
	}
	level := timeChart("l", "y", 7, 0, 6, 0.2, make([]line, 1), []float64{0, 0})
	tens := timeChart("l", "y", 7, 0, 6, 0.2, make([]line, 1), []float64{0, 9.9999999 / 1.12})
	if level.Height != 2000 || level.Top != "0.1000" || tens.Unit != "0.001" {
		t.Errorf("a level is on %d up to %s, tens by %s", level.Height, level.Top, tens.Unit)
	}
}
