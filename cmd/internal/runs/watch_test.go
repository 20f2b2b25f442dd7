package runs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/simtest"
	"lockstep/reference"
)

// TestWatch: whatever has come of a run, and in what order, watch counts it, leaves what failed
// out of the averages, and shows the lowest of these first, those that are no number last.
func TestWatch(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 5))
		plan, jobs := sweep(1+random.IntN(13), 1+random.IntN(4))
		journal, err := OpenJournal(t.TempDir(), plan)
		if err != nil {
			t.Fatal(err)
		}
		var results []Result
		failed := 0
		totals := make([][]float64, len(plan.Controllers)) // of what did not fail
		for _, i := range random.Perm(len(jobs)) {
			r, of := Result{Rollout: i}, &totals[i/len(plan.Routes)]
			switch random.IntN(5) {
			case 0:
				continue // it is yet to come
			case 1:
				r.Err = "it fails"
				failed++
			case 2:
				r.Costs.Total = math.NaN()
				*of = append(*of, r.Costs.Total)
			default:
				r.Costs.Total = float64(1<<40 + random.IntN(1000))
				*of = append(*of, r.Costs.Total)
			}
			results = append(results, r)
		}
		if err := journal.Add(results...); err != nil {
			t.Fatal(err)
		}
		curve := ""
		if seed == 7 {
			c := &Curve{Names: []string{"generation", "best"}, Rows: [][]float64{{1, 7}}}
			if err := journal.WriteCurve(c); err != nil {
				t.Fatal(err)
			}
			curve = fmt.Sprintf("generation 1\n%-20s %9d to %9d  ▁\n", "best", 7, 7)
		}
		p, err := Watch(journal.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(p.Last); len(results) > 0 && (age < 0 || age > time.Hour) {
			t.Errorf("seed %d: the last result came %v ago", seed, age)
		}
		if n := len(results); p.Finished != n || p.Failed != failed ||
			p.Done() != (n == len(jobs)) {
			t.Errorf("seed %d: %d results, %d of them failed: %+v", seed, n, failed, p)
		}
		var got strings.Builder
		p.WriteText(&got)
		_, lines, _ := strings.Cut(got.String(), "\n") // engine and profile
		_, lines, _ = strings.Cut(lines, "\n")         // how many are there
		if want := watched(plan, totals) + curve; lines != want {
			t.Errorf("seed %d: watch says of the totals %v\n%swant\n%s", seed, totals, lines, want)
		}
		if err := journal.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// watched are the lines for controllers of which some rollouts came to these totals. All sums of
// theirs are exact.
func watched(plan *Plan, totals [][]float64) string {
	type line struct {
		text string
		mean float64 // infinite where there is none, so that it comes last
	}
	var lines []line
	for k, c := range plan.Controllers {
		if len(totals[k]) == 0 {
			continue
		}
		sum, n := 0.0, 0
		for _, x := range totals[k] {
			if !math.IsNaN(x) {
				sum, n = sum+x, n+1
			}
		}
		l := line{mean: math.Inf(1)}
		if n > 0 {
			l.mean = sum / float64(n)
		}
		l.text = fmt.Sprintf(
			"%-40s %d of %d routes, average total_cost so far: %s\n", c.Name, len(totals[k]),
			len(plan.Routes), reference.FormatCost(sum/float64(n)),
		)
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		switch {
		case a.mean < b.mean:
			return -1
		case a.mean > b.mean:
			return 1
		}
		return 0
	})
	var text strings.Builder
	for i, l := range lines {
		if i == mostWatched {
			fmt.Fprintf(&text, "and %d others\n", len(lines)-i)
			break
		}
		text.WriteString(l.text)
	}
	return text.String()
}

// TestWatchText: what is watched is told in full: how far it is, what failed, and the controllers,
// the best first, those whose mean is no number last, and no more than ten of them.
func TestWatchText(t *testing.T) {
	p, _ := sweep(4, 2)
	for i := range p.Controllers {
		p.Controllers[i].Name = fmt.Sprintf("c%d", i)
	}
	w := &Progress{
		Plan: p, Finished: 6, Failed: 1, Rate: 0.5,
		Last: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Results: map[int]Result{
			0: {Costs: lockstep.Costs{Total: math.NaN()}}, // controller 0, route 0
			3: {Costs: lockstep.Costs{Total: 9}},
			4: {Costs: lockstep.Costs{Total: 2}}, 5: {Err: "it fails"},
			6: {Costs: lockstep.Costs{Total: 3}}, 7: {Costs: lockstep.Costs{Total: 6}},
		},
	}
	row := func(name string, routes int, cost string) string {
		return fmt.Sprintf("%-40s %d of 2 routes, average total_cost so far: %6s\n", name, routes,
			cost)
	}
	want := "6 of 8 rollouts, 0.5/s, 4s left, 1 failed, last at 03:04:05\n" + row("c2", 1, "2.0") +
		row("c3", 2, "4.5") + row("c1", 1, "9.0") + row("c0", 1, "nan")
	told := func() string {
		var text strings.Builder
		w.WriteText(&text)
		first, rest, _ := strings.Cut(text.String(), "\n")
		if first != fmt.Sprintf("toy, %v", p.Profile) {
			t.Errorf("the first line is %q", first)
		}
		return rest
	}
	if got := told(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	w.Rate = 2 / 86400.5 // as a float32, a second less is left
	want = "6 of 8 rollouts, 2.31e-05/s, 24h0m1s left, 1 failed"
	if got := told(); !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	// A controller without any result is not told of, nor is a failure where there is none.
	w.Failed, w.Last, w.Rate = 0, time.Time{}, 0
	w.Results = map[int]Result{5: {Costs: lockstep.Costs{Total: 1}}}
	if got, want := told(), "6 of 8 rollouts\n"+row("c2", 1, "1.0"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, n := range []int{mostWatched, mostWatched + 1, mostWatched + 3} {
		p, _ = sweep(n+4, 2) // four of them have no result yet
		w.Plan, w.Finished, w.Results = p, 2*n, map[int]Result{}
		want = fmt.Sprintf("%d of %d rollouts\n", 2*n, 2*n+8)
		for i := range n {
			p.Controllers[i].Name = fmt.Sprintf("c%d", i)
			w.Results[2*i] = Result{Costs: lockstep.Costs{Total: float64(i)}}
			if i < mostWatched {
				want += row(p.Controllers[i].Name, 1, fmt.Sprintf("%d.0", i))
			}
		}
		if n > mostWatched {
			want += fmt.Sprintf("and %d others\n", n-mostWatched)
		}
		if got := told(); got != want {
			t.Errorf("%d controllers: %s\nwant\n%s", n, got, want)
		}
	}
	p.Planning = &Planning{Steps: 9}
	if got, want := told(), "26 of 18 choices\n"; got != want {
		t.Errorf("choices: %s\nwant\n%s", got, want)
	}
}

// TestRate: the rate is that of the results behind the first one, and none is told where it cannot
// be known: of one result, or of results that came at once.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		at   []int64 // ms
		want float64
	}{
		{nil, 0}, {[]int64{5000}, 0}, {[]int64{5000, 5000, 5000}, 0}, {[]int64{5000, 9000}, 0.25},
		{[]int64{5000, 6000, 9000}, 0.5}, {[]int64{5000, 5250}, 4},
		{[]int64{1<<41 + 5000, 1<<41 + 9000}, 0.25},
	} {
		p, _ := sweep(1, 5)
		dir := t.TempDir()
		if err := p.adopt(dir); err != nil {
			t.Fatal(err)
		}
		if w, err := Watch(dir); err != nil || w.Finished != 0 || w.Plan == nil {
			t.Errorf("before there are results: %+v, %v", w, err)
		}
		text := head(p.Key())
		for i, ms := range c.at {
			r := Result{Rollout: i, Err: map[bool]string{true: "it fails"}[i == 1]}
			text = appendLine(text, p.Key(), r, ms)
		}
		if err := os.WriteFile(filepath.Join(dir, resultsName), text, 0o666); err != nil {
			t.Fatal(err)
		}
		w, err := Watch(dir)
		if err != nil || w.Rate != c.want || w.Finished != len(c.at) || w.Done() ||
			w.Failed != map[bool]int{true: 1}[len(c.at) > 1] {
			t.Errorf("results at %v: %+v, %v; want a rate of %v", c.at, w, err, c.want)
		}
		if n := len(c.at); n > 0 && !w.Last.Equal(time.UnixMilli(c.at[n-1])) {
			t.Errorf("results at %v: the last at %v", c.at, w.Last)
		}
	}
}

// TestBars: bars go from the least to the most, evenly picked where there are many, the last
// among them; where all are one, or not finite, they lie.
func TestBars(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	var many []float64
	for i := range 150 {
		many = append(many, float64(i/50))
	}
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7}, "▁▂▃▄▅▆▇█"},
		{[]float64{7, 3.5, nan, 0}, "█▄ ▁"},
		{[]float64{3, 3}, "▁▁"},
		{[]float64{0, inf, 1}, "▁▁▁"},
		{[]float64{-inf, 0}, "▁▁"},
		{[]float64{nan}, " "},
		{many, strings.Repeat("▁", 20) + strings.Repeat("▄", 20) + strings.Repeat("█", 20)},
		{append(make([]float64, 149), 1), strings.Repeat("▁", 59) + "█"},
		{append(many[:59:59], 100), strings.Repeat("▁", 59) + "█"},
	} {
		if got := bars(c.values); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}

// TestErrorTexts: why a rollout failed is kept as it was said, to the byte, but for what no UTF-8
// has and what is beyond the longest.
func TestErrorTexts(t *testing.T) {
	long := strings.Repeat("é", maxError)
	for text, want := range map[string]string{ // as it was said, where nothing is
		" a\n": "", "\tb ": "", "<&>\u2028\x00\"\\": "", "a\xffb": "a\ufffdb",
		long: long[:maxError], "x" + long: "x" + long[:maxError-2] + "\ufffd",
	} {
		want = cmp.Or(want, text)
		r := NewResult(3, lockstep.Result{Err: errors.New(text)})
		line := appendLine(nil, "k", r, 7)
		kept, _, err := parseLine(line[:len(line)-1], "k", 4)
		if err != nil || r.Err != want || kept.Err != want || kept.Result().Err.Error() != want {
			t.Errorf("%.20q is kept as %.20q and %.20q, %v; want %.20q", text, r.Err, kept.Err, err,
				want)
		}
		if len(line) > maxLine {
			t.Errorf("%.20q: a line of %d bytes", text, len(line))
		}
	}
}

// TestBits: numbers are kept as bits.
func TestBits(t *testing.T) {
	all := []float64{0, math.Copysign(0, -1), 1, math.NaN(), math.Inf(-1), math.MaxFloat64,
		math.Float64frombits(0x7ff8000000000123)}
	line := appendLine(nil, "k", Result{Rollout: 1, Chosen: all}, 7)
	r, ms, err := parseLine(line[:len(line)-1], "k", 2)
	if err := simtest.Same("chosen", r.Chosen, all); err != nil {
		t.Error(err)
	}
	if err != nil || ms != 7 || r.Rollout != 1 {
		t.Errorf("%+v, at %d, %v", r, ms, err)
	}
}
