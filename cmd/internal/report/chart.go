package report

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"lockstep"
)

// A chart is a plot area that is stretched to the width of the page: an SVG whose
// strokes keep their width, with the labels around it in HTML, so that text is as
// large on a phone as on a desk screen. Positions are in percent of the area.
type chart struct {
	Label         string // what a screen reader says
	Class         string
	Width, Height int // of the SVG's coordinates
	XLabel        string
	YLabel        string
	X, Y          []tick
	NoXText       bool // a chart below has the same x axis
	Marks         []mark
	Lines         []line
	Points        []point
	Corners       []corner

	// Top and Unit turn y coordinates back into values: Top - y·Unit. Unit is
	// empty where there is nothing to read off.
	Top, Unit string
}

// GridPath is the grid as a path.
func (c chart) GridPath() string {
	var b strings.Builder
	for _, t := range c.X {
		b.WriteString(
			"M" + strconv.Itoa(int(math.Round(t.at*float64(c.Width)))) + " 0v" +
				strconv.Itoa(c.Height),
		)
	}
	for _, t := range c.Y {
		b.WriteString(
			"M0 " + strconv.Itoa(int(math.Round((1-t.at)*float64(c.Height)))) + "h" +
				strconv.Itoa(c.Width),
		)
	}
	return b.String()
}

// HasLegend says whether there is more than one line to tell apart.
func (c chart) HasLegend() bool { return len(c.Lines) > 1 }

type tick struct {
	at   float64 // 0 left or bottom, 1 right or top
	Text string
}

func (t tick) Left() string { return percent(t.at) }
func (t tick) Top() string  { return percent(1 - t.at) }

// A mark is a vertical line, or a shaded range if To is not empty.
type mark struct {
	Class, Text string
	Left, Width string
}

type line struct {
	Name  string
	Class string
	Note  string // beside the name
	Path  string
}

type point struct{ Class, Path, Title string }

type corner struct{ Class, Text string }

func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 2, 64) }

// scale maps values to 0..1.
type scale struct {
	lo, hi float64
	log    bool
}

func (s scale) at(x float64) float64 {
	if !s.log {
		return (x - s.lo) / (s.hi - s.lo)
	}
	// Values of 0 have no place on a logarithmic axis and lie on its edge.
	return min(1, max(0, (math.Log(x)-math.Log(s.lo))/(math.Log(s.hi)-math.Log(s.lo))))
}

// ticks are about n round numbers of the range.
func (s scale) ticks(n int) []tick {
	var ticks []tick
	if s.log {
		mantissas := []float64{1, 2, 5}
		decades := math.Log10(s.hi / s.lo)
		if decades > 2.5 {
			mantissas = mantissas[:1]
		}
		every := int(decades)/n + 1
		for e := int(math.Floor(math.Log10(s.lo))) - 1; math.Pow10(e) <= s.hi; e++ {
			for _, m := range mantissas {
				if x := m * math.Pow10(e); x >= s.lo*(1-1e-9) && x <= s.hi*(1+1e-9) &&
					e%every == 0 {
					ticks = append(ticks, tick{s.at(x), short(x)})
				}
			}
		}
		return ticks
	}
	step := niceStep((s.hi - s.lo) / float64(n))
	if n > 2 && math.Floor(s.hi/step)-math.Ceil(s.lo/step) < 2 {
		step = below(step) // two or fewer would be shown
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	for k := math.Ceil(s.lo/step - 1e-9); k*step <= s.hi+step*1e-9; k++ {
		size := math.Abs(k * step)
		text := strconv.FormatFloat(size, 'f', decimals, 64)
		if size >= 1e5 {
			text = short(size)
		}
		if k < 0 {
			text = "−" + text
		}
		ticks = append(ticks, tick{s.at(k * step), text})
	}
	return ticks
}

// niceStep is the smallest of 1, 2, 5 times a power of ten that is at least x.
func niceStep(x float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= x*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// short formats a round number for an axis: a very large or small one is 1, 2 or 5 times a power of
// ten.
func short(x float64) string {
	switch {
	case x >= 1e12 || x < 1e-4:
		return strconv.FormatFloat(x, 'e', 0, 64)
	case x >= 1e9:
		return short(x/1e9) + "G"
	case x >= 1e6:
		return short(x/1e6) + "M"
	case x >= 1e4:
		return short(x/1e3) + "k"
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// logScale spans positive values, ending on 1, 2 or 5 times a power of ten.
func logScale(values []float64) scale {
	const limit = 1e300 // no overflow in what follows
	lo, hi := math.Inf(1), 0.0
	for _, x := range values {
		if x > 0 && !math.IsInf(x, 0) {
			x = min(max(x, 1/limit), limit)
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	if hi == 0 {
		return scale{1, 10, true}
	}
	top, bottom := niceStep(hi), niceStep(lo)
	for bottom > lo || bottom == top {
		bottom = below(bottom)
	}
	return scale{bottom, top, true}
}

// below is the number before x among 1, 2, 5 times a power of ten.
func below(x float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(x)+1e-9))
	switch m := math.Round(x / p); {
	case m > 2:
		return 2 * p
	case m > 1:
		return p
	}
	return p / 2
}

// drawable leaves out what is no number and what is so large that nothing else
// could be seen beside it.
func drawable(x float64) bool { return math.Abs(x) <= 1e9 }

// linearScale spans the values, and at least a range of span around their middle.
func linearScale(span float64, columns ...[]float64) scale {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, column := range columns {
		for _, x := range column {
			if drawable(x) {
				lo, hi = min(lo, x), max(hi, x)
			}
		}
	}
	if lo > hi {
		lo, hi = 0, 0
	}
	pad := max(0.06*(hi-lo), (span-(hi-lo))/2)
	return scale{lo: lo - pad, hi: hi + pad}
}

// timeChart plots columns over the steps of a route, the first value at step from.
func timeChart(
	label, yLabel string, steps, from, yTicks int, span float64, lines []line, columns ...[]float64,
) chart {
	s := linearScale(span, columns...)
	// Whole units on a thousandth or less of the range: far below a pixel.
	exponent := int(math.Floor(math.Log10(s.hi-s.lo))) - 3
	unit := math.Pow10(exponent)
	// The top is a whole number of units, so that it has few digits.
	s.hi = math.Ceil(s.hi/unit) * unit
	c := chart{
		Label: label, Class: "time", YLabel: yLabel, XLabel: "time (s)",
		Width:  max(1, steps),
		Height: int(math.Ceil((s.hi - s.lo) / unit)),
		Top:    strconv.FormatFloat(s.hi, 'f', max(0, -exponent), 64),
		Unit:   strconv.FormatFloat(unit, 'f', max(0, -exponent), 64),
	}
	s.lo = s.hi - float64(c.Height)*unit
	c.Y = s.ticks(yTicks)
	seconds := scale{lo: 0, hi: float64(c.Width) * lockstep.DelT}
	c.X = seconds.ticks(6)
	for i, column := range columns {
		lines[i].Path = linePath(column, from, s.hi, unit)
	}
	c.Lines = lines
	c.Marks = costMarks(c.Width)
	return c
}

// costMarks show where the controller takes over and where costs end.
func costMarks(width int) []mark {
	at := func(step int) float64 { return min(1, float64(step)/float64(width)) }
	start, end := at(lockstep.ControlStartIdx), at(lockstep.CostEndIdx)
	marks := []mark{{Class: "idle", Left: "0", Width: percent(start)}}
	class := "edge"
	if start > 0.6 {
		class = "edge flip"
	}
	marks = append(marks, mark{Class: class, Text: "control start", Left: percent(start)})
	if end < 1 {
		marks = append(marks,
			mark{Class: "idle", Left: percent(end), Width: percent(1 - end)},
			mark{Class: "edge flip", Text: "cost end", Left: percent(end)})
	}
	return marks
}

// linePath is a polyline in relative coordinates, one value a step, interrupted
// where nothing can be drawn.
func linePath(values []float64, from int, top, unit float64) string {
	var b []byte
	last, drawing := 0, false
	for i, v := range values {
		if !drawable(v) {
			drawing = false
			continue
		}
		y := int(math.Round((top - v) / unit))
		if !drawing {
			b = append(b, 'M')
			b = strconv.AppendInt(b, int64(from+i), 10)
			b = append(b, ' ')
			b = strconv.AppendInt(b, int64(y), 10)
			b = append(b, 'l')
		} else {
			if b[len(b)-1] != 'l' {
				b = append(b, ' ')
			}
			b = append(b, '1')
			if y >= last {
				b = append(b, ' ')
			}
			b = strconv.AppendInt(b, int64(y-last), 10)
		}
		last, drawing = y, true
	}
	return strings.ReplaceAll(strings.TrimSuffix(string(b), "l"), "lM", "M")
}

// binCount bins of equal width, as np.arange(0, 1000, 10) makes in the challenge's
// report: edges 0 to 990.
const binCount = 99

// series is one controller's values of one cost.
type series struct {
	Name   string
	Class  string
	Values []float64
}

// histogram is a chart of one cost and what must be said about it.
type histogram struct {
	Title string
	Chart chart
	Notes []string
}

func newHistogram(title string, all ...series) histogram {
	var values []float64
	for _, s := range all {
		values = append(values, finite(s.Values)...)
	}
	slices.Sort(values)
	h := histogram{Title: title}

	tenth := binWidth(values)
	edge := func(i int) float64 { return float64(i*tenth) / 10 }

	of := func(s series) string {
		if len(all) == 1 {
			return ""
		}
		return " of " + s.Class // names may be long
	}
	counts := make([][binCount]int, len(all))
	bins, highest := 10, 1
	var over, missing []string
	for i, s := range all {
		beyond, none := 0, 0
		for _, x := range s.Values {
			switch {
			case math.IsNaN(x):
				none++
			case x > edge(binCount):
				beyond++
			default:
				// Half-open bins, of which the last is closed, as in NumPy.
				bin := max(
					0,
					min(
						binCount-1,
						sort.Search(binCount+1, func(i int) bool { return edge(i) > x })-1,
					),
				)
				counts[i][bin]++
				bins, highest = max(bins, bin+1), max(highest, counts[i][bin])
			}
		}
		if beyond > 0 {
			over = append(over, strconv.Itoa(beyond)+of(s))
		}
		if none > 0 {
			missing = append(missing, strconv.Itoa(none)+of(s))
		}
	}

	bins = min(binCount, (bins+9)/10*10)
	c := chart{
		Class: "bars", XLabel: "cost", YLabel: "routes",
		Width: bins, Height: highest + (highest+11)/12,
	}
	c.X = scale{lo: 0, hi: edge(bins)}.ticks(5)
	c.Y = scale{lo: 0, hi: float64(c.Height)}.ticks(min(5, c.Height))
	for i, s := range all {
		c.Lines = append(
			c.Lines, line{Name: s.Name, Class: s.Class, Path: outline(counts[i][:bins], c.Height)},
		)
	}
	c.Label = "Histogram of the " + title + " in bins of " + short(edge(1))
	h.Chart = c
	note := "Bins of " + short(edge(1)) + "."
	if tenth < 100 {
		note = "Bins of " + short(
			edge(1),
		) + ": in bins of 10, nine tenths would lie in the first two."
	}
	h.Notes = append(h.Notes, note)
	if len(over) > 0 {
		h.Notes = append(
			h.Notes, "Above "+short(edge(binCount))+" and not shown: "+strings.Join(over, ", ")+".",
		)
	}
	if len(missing) > 0 {
		h.Notes = append(h.Notes, "No number (NaN): "+strings.Join(missing, ", ")+".")
	}
	return h
}

// outline is that of columns that stand on the height of a chart.
func outline(counts []int, bottom int) string {
	path, height := "M0 "+strconv.Itoa(bottom), 0
	for _, n := range counts {
		if n != height {
			path += "v" + strconv.Itoa(height-n)
			height = n
		}
		path += "h1"
	}
	return path + "V" + strconv.Itoa(bottom) + "z"
}

// binWidth is the width of the bins of a histogram, in tenths: ten, unless nine tenths of
// the sorted values would lie in the first two.
func binWidth(values []float64) int {
	tenth := 100
	if n := len(values); n > 0 {
		ninetieth := values[(9*n+9)/10-1]
		for tenth > 1 && ninetieth < 2*float64(tenth)/10 {
			tenth /= 10
		}
	}
	return tenth
}

// cumulativeChart shows the share of routes that cost at most so much.
func cumulativeChart(all ...series) chart {
	var values []float64
	for _, s := range all {
		values = append(values, finite(s.Values)...)
	}
	x := logScale(values)
	c := chart{
		Label: "Share of routes whose total cost is at most so much",
		Class: "steps", XLabel: "total cost, logarithmic", YLabel: "% of routes",
		Width: grid, Height: grid,
		X: x.ticks(8), Y: scale{lo: 0, hi: 100}.ticks(5),
	}
	for _, s := range all {
		sorted := finite(s.Values)
		slices.Sort(sorted)
		var b strings.Builder
		b.WriteString("M0 " + strconv.Itoa(grid))
		px, py := 0, grid
		for i, v := range sorted {
			if i+1 < len(sorted) && sorted[i+1] == v {
				continue
			}
			qx := int(math.Round(x.at(v) * grid))
			qy := grid - int(math.Round(grid*float64(i+1)/float64(len(sorted))))
			if qx != px {
				b.WriteString("h" + strconv.Itoa(qx-px))
			}
			b.WriteString("v" + strconv.Itoa(qy-py))
			px, py = qx, qy
		}
		b.WriteString("H" + strconv.Itoa(grid))
		c.Lines = append(c.Lines, line{Name: s.Name, Class: s.Class, Path: b.String()})
	}
	return c
}

// grid is the resolution of charts whose coordinates are not whole numbers of
// anything.
const grid = 5000

func finite(values []float64) []float64 {
	var kept []float64
	for _, x := range values {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			kept = append(kept, x)
		}
	}
	return kept
}

// median is pandas' median: of what is a number.
func median(values []float64) float64 {
	sorted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	slices.Sort(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
