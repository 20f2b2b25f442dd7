package report

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
)

// testComparison is of two rollouts. With a stage, the second differs there.
func testComparison(stages ...string) verdict.Comparison {
	r := &parity.Report{
		Want:  parity.SideInfo{Name: "reference"},
		Got:   parity.SideInfo{Name: "onnxruntime"},
		Exact: true,
		Steps: 1160,
		Rollouts: []parity.Verdict{
			{
				Rollout: "route 00000, controller pid",
				Key:     []string{"00000", "pid"},
				Steps:   580,
				Equal:   true,
			},
			{
				Rollout: "route 00002, controller pid",
				Key:     []string{"00002", "pid"},
				Steps:   580,
				Equal:   true,
			},
		},
		Compared: map[string]int{},
	}
	r.Stages = tinyphysics.Schema(0).Required()
	for _, stage := range r.Stages {
		r.Compared[stage] = 1160
	}
	r.Compared[tinyphysics.Costs] = 2
	r.Compared[tinyphysics.CDF] = 0
	for _, s := range stages {
		r.Rollouts[1].Equal, r.Rollouts[1].Findings, r.Rollouts[1].First = false, 3,
			&parity.Finding{
				Step:  123,
				Stage: s,
			}
		r.Findings = append(
			r.Findings,
			parity.StageFindings{
				Stage:    s,
				Findings: 3,
				Rollouts: 1,
				Rollout:  "route 00002, controller pid",
				Key:      []string{"00002", "pid"},
				Step:     123,
			},
		)
	}
	if len(stages) == 0 {
		return verdict.Comparison{
			Kind:   "engines",
			Want:   "reference",
			Got:    "onnxruntime",
			Detail: "tinyphysics.onnx",
			Report: r,
		}
	}
	r.First = &parity.Divergence{
		Rollout: "route 00002, controller pid", Key: []string{"00002", "pid"}, Step: 123,
		Stage: stages[0], Index: 7, Values: 2, ULPs: 1,
		Want: "1 (3f800000)", Got: "1.0000001 (3f800001)", Replay: "lockstep compare --only " +
			"00002/pid",
		Explanation: &parity.Explanation{
			Rollout: "route 00002, controller pid",
			Step:    123,
			Text:    "draw 0.5",
			Why:     "the CDF got gives token 511, not 512",
			Facts: []parity.Fact{
				{
					Name: "nearest edge",
					Value: "0.48999999999999999 wanted, margin 0.01; 0.52000000000000002 got, " +
						"margin 0.02",
				},
				{Name: "tokens", Value: "511 wanted, 512 got"},
				{Name: "CDFs", Value: "1e-09 apart at most"},
			},
		},
	}
	for _, s := range stages[1:] {
		r.Others = append(
			r.Others,
			&parity.Divergence{
				Rollout: "route 00002, controller pid",
				Key:     []string{"00002", "pid"},
				Step:    200,
				Stage:   s,
				Index:   -1,
				Want:    "a",
				Got:     "b",
			},
		)
	}
	r.Flips.Examples = []*parity.Explanation{r.First.Explanation}
	line := func(n int, f func(i int) float64) (values []parity.Float) {
		for i := range n {
			values = append(values, parity.Float(f(i)))
		}
		return values
	}
	drive := func(i int) float64 { return math.Sin(float64(i) / 30) }
	off := func(i int) float64 {
		if i >= 103 {
			return 0.05
		}
		return 0
	}
	lines := func(want, got func(i int) float64, n int) []parity.Line {
		return []parity.Line{
			{Name: "wanted", Values: line(n, want)}, {Name: "got", Values: line(n, got)},
		}
	}
	p := &parity.Plot{Rollout: "route 00002, controller pid", Step: 123, Charts: []parity.Chart{
		{Label: "lateral acceleration", Unit: "m/s²", Span: 0.2, First: 20, Lines: append(
			lines(
				func(i int) float64 { return drive(i) + 0.1 },
				func(i int) float64 { return drive(i) + 0.1 + off(i) }, 580,
			),
			parity.Line{Name: "target", Values: line(580, drive)},
		)},
		{
			Label: "steer command",
			Unit:  "within ±2",
			Span:  0.1,
			First: 20,
			Lines: lines(
				func(i int) float64 { return drive(i) / 2 },
				func(i int) float64 { return drive(i)/2 - off(i) }, 580,
			),
		},
		{
			Label:  "CDF around the draw",
			Unit:   "cumulative probability",
			Span:   1e-12,
			First:  505,
			Stairs: "token",
			Note:   "The first above the draw.",
			Lines: append(
				lines(
					func(i int) float64 { return 0.35 + float64(i)/40 },
					func(i int) float64 { return 0.345 + float64(i)/40 }, 14,
				),
				parity.Line{Name: "draw", Values: []parity.Float{0.5}},
			),
		},
	}}
	r.Plot = p
	return verdict.Comparison{
		Kind:   "engines",
		Want:   "reference",
		Got:    "onnxruntime",
		Detail: "tinyphysics.onnx",
		Report: r,
	}
}

func writeParity(t *testing.T, p Parity) *page {
	t.Helper()
	return written(t, func(path string) error { return WriteParity(path, p) })
}

// testGate has a check of each outcome.
func testGate() *verdict.GateResult {
	return &verdict.GateResult{
		Verdict: "blocked: 2 of 3 checks failed", Seconds: 61.5, Require: []string{"assets"},
		RequireHardware: true, Machine: "linux/amd64, 2 cores", Go: "go1.26",
		Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Change: verdict.Change{
			Base:      "main",
			MergeBase: "1234",
			Head:      "5678",
			Files:     []string{"batched/onnxruntime/graph.go", "gpu/a<b>.cu"},
			Why:       "changed: onnxruntime, gpu",
		},
		Checks: []verdict.Check{
			{
				Name:    "build",
				Title:   "Everything compiles.",
				Outcome: verdict.Passed,
				Cases:   []verdict.CheckCase{{Outcome: verdict.Passed}},
			},
			{
				Name:    "engines",
				Title:   "All engines.",
				Outcome: verdict.Failed,
				Why:     "1 of 2 cases failed",
				Output:  "not shown: a case says what failed",
				Seconds: 12.25,
				Command: "lockstep compare",
				Cases: []verdict.CheckCase{
					{Outcome: verdict.Passed},
					{
						Class:   "engines.onnxruntime",
						Name:    "00002/pid",
						Outcome: verdict.Failed,
						Message: "stage <logits>",
					},
					{Outcome: verdict.NotApplicable, Message: "another profile"},
				},
				Comparisons: []verdict.Comparison{
					testComparison(), testComparison(tinyphysics.Logits, tinyphysics.Draw),
					{Kind: "goldens", Want: "ort1.30", Got: "gpu", NotRun: "no device"},
				},
			},
			{
				Name:    "tests",
				Title:   "Tests.",
				Outcome: verdict.Failed,
				Why:     "it crashed: signal: killed",
				Output:  "fatal error <x>",
			},
			{Name: "hardware", Title: "Evidence.", Outcome: verdict.NotRun, Why: "not required"},
			{Name: "mutants", Title: "Faults.", Outcome: verdict.Passed, Mutants: []verdict.Mutant{
				{
					Name:     "a-mask",
					Title:    "The mask is off by one.",
					Engine:   "reference",
					Stage:    "logits",
					Caught:   true,
					Named:    "logits",
					Right:    true,
					Rollouts: 1,
					Steps:    20,
					Seconds:  3.25,
				},
				{Name: "b-cdf", Title: "Wrong.", Stage: "cdf", Caught: true, Named: "sample"},
				{Name: "c", Title: "Missed.", Stage: "cdf"},
				{Name: "d", Title: "Stale.", Stage: "cdf", Error: "its text is found 0 times"},
			}},
		},
	}
}

func writeGate(t *testing.T, r *verdict.GateResult) *page {
	t.Helper()
	return written(t, func(path string) error {
		return WriteGate(path, r, Origin{Command: []string{"lockstep", "gate", "--base", "main"}})
	})
}

// TestParityVerdicts: a row for each comparison, a cell for each stage.
func TestParityVerdicts(t *testing.T) {
	p := writeParity(t, Parity{Comparisons: []verdict.Comparison{
		testComparison(), testComparison(tinyphysics.Logits, tinyphysics.Draw),
		{
			Kind:       "goldens",
			Want:       "ort1.30",
			Got:        "gpu",
			Detail:     "own network",
			NotRun:     "gpu: no device",
			Identities: []string{"gpu of kernels abc", "another"},
		},
	}})
	p.wantText(t, "1 of 2 comparisons differ", "What computed: another; gpu of kernels abc.")
	table := p.all("table", "stages")[0]
	var heads []string
	for _, th := range table.all("thead", "")[0].all("th", "") {
		heads = append(heads, th.text)
	}
	if got := strings.Join(heads, " "); got != "judged verdict held to equal action tokens "+
		"states logits probs cdf draw sample prediction lataccel costs" {
		t.Errorf("columns %s", got)
	}
	rows := cells(table)
	for i, want := range []string{
		"onnxruntime|✓ equal|referencetinyphysics.onnx|2 of 21160 steps|✓|✓|✓|✓|✓|–|✓|✓|✓|✓|✓",
		"onnxruntime|✗ different|referencetinyphysics.onnx|1 of 21160 steps|✓|✓|✓|✗ 3|✓|–|✗ " +
			"3|✓|✓|✓|✓",
		"gpu|– not run|ort1.30own network|gpu: no device|",
	} {
		if got := strings.Join(rows[i], "|"); got != want {
			t.Errorf("row %d\n got %s\nwant %s", i, got, want)
		}
	}
	// The row leads to the divergence.
	if links := table.all("a", ""); len(links) != 1 || links[0].attrs["href"] != "#divergence-1" {
		t.Errorf("%d links", len(links))
	}
	// Stages that only differ have a column then.
	p = writeParity(t, Parity{Comparisons: []verdict.Comparison{testComparison(schema.Extent)}})
	if rows := cells(p.all("table", "stages")[0]); rows[0][len(rows[0])-1] != "✗ 3" {
		t.Errorf("%v", rows)
	}
	p.wantText(t, "The comparison differs")
}

// TestParityDivergence: place, bit patterns, distance, margins, replay, and plots.
func TestParityDivergence(t *testing.T) {
	p := writeParity(
		t,
		Parity{
			Comparisons: []verdict.Comparison{testComparison(tinyphysics.Logits, tinyphysics.Draw)},
		},
	)
	d := p.all("figure", "divergence")[0]
	d.wantText(
		t, "onnxruntime against reference, tinyphysics.onnx",
		"route 00002, controller pid, step 123, stage logits, index 7", "1 (3f800000)",
		"1.0000001 (3f800001)", "1 ulp", "2 of this stage differ",
		"lockstep compare --only 00002/pid",
		"0.48999999999999999 wanted, margin 0.01; 0.52000000000000002 got, margin 0.02",
		"511 wanted, 512 got", "1e-09 apart at most", "the CDF got gives token 511, not 512",
		"route 00002, controller pid, step 200, stage draw: want a, got b",
	)
	var bits []string
	for _, b := range d.all("span", "bits") {
		bits = append(bits, b.text)
		if differ := b.all("b", ""); len(differ) != 1 || len(differ[0].text) != 1 {
			t.Errorf("%d parts of %s are marked", len(differ), b.text)
		}
	}
	const patterns = "0 01111111 00000000000000000000000|0 01111111 00000000000000000000001"
	if strings.Join(bits, "|") != patterns {
		t.Errorf("bits %q", bits)
	}
	svgs := d.all("svg", "")
	if len(svgs) != 3 {
		t.Fatalf("%d plots, want lataccel, steer command and the CDF", len(svgs))
	}
	for i, want := range []string{
		"lateral acceleration on route 00002, controller pid, steps 98 to 158",
		"steer command on route 00002, controller pid, steps 98 to 158",
		"CDF around the draw, tokens 505 to 518",
	} {
		if svgs[i].attrs["aria-label"] != want {
			t.Errorf("plot %d is %q, want %q", i, svgs[i].attrs["aria-label"], want)
		}
	}
	partingLines(t, svgs[0])
	marks := d.all("span", "mark")
	if len(marks) != 2 || marks[0].text != "step 123" || marks[0].attrs["style"] != "left:41.67%" {
		t.Errorf("%d marks, the first %q at %s", len(marks), marks[0].text, marks[0].attrs["style"])
	}
	// The stair of the sampled token is the first above the draw.
	stairs := drawnLines(svgs[2])
	if len(stairs["wanted"]) != 2+1+13*2 || len(stairs["got"]) != 2+1+13*2 ||
		len(stairs["draw"]) != 3 {
		t.Errorf("stairs %v", stairs)
	}
}

// drawnLines are the numbers of a plot's lines, by their names.
func drawnLines(svg *element) map[string][]string {
	numbers := map[string][]string{}
	for _, path := range svg.all("path", "line") {
		numbers[path.attrs["data-name"]] = regexp.MustCompile(`-?\d+`).FindAllString(
			path.attrs["d"], -1)
	}
	return numbers
}

// partingLines: both trajectories are one line up to the step, and two from there on.
func partingLines(t *testing.T, svg *element) {
	t.Helper()
	lines := drawnLines(svg)
	want, got := lines["wanted"], lines["got"]
	if len(want) != 2*61 || len(got) != 2*61 {
		t.Fatalf("%d and %d numbers, want 61 points", len(want), len(got))
	}
	first := 0
	for first < len(want) && want[first] == got[first] {
		first++
	}
	if first/2 != 123-98 {
		t.Errorf("the lines part at point %d, want %d", first/2, 123-98)
	}
}

// TestParityOdd must not fail on what a divergence may lack.
func TestParityOdd(t *testing.T) {
	nan := parity.Float(math.NaN())
	cut := func(r *parity.Report, chart, line, n int) {
		l := &r.Plot.Charts[chart].Lines[line]
		l.Values = l.Values[:n]
	}
	value := func(r *parity.Report, chart, at int, x parity.Float) {
		r.Plot.Charts[chart].Lines[0].Values[at] = x
	}
	for name, change := range map[string]func(*parity.Report){
		"no plot":       func(r *parity.Report) { r.Plot = nil },
		"no choice":     func(r *parity.Report) { r.First.Explanation = nil },
		"no divergence": func(r *parity.Report) { r.First, r.Plot = nil, nil },
		"no step":       func(r *parity.Report) { r.First.Step, r.Plot.Step = -1, -1 },
		"first step":    func(r *parity.Report) { r.First.Step, r.Plot.Step = 20, 20 },
		"last step":     func(r *parity.Report) { r.First.Step, r.Plot.Step = 599, 599 },
		"beyond":        func(r *parity.Report) { r.First.Step, r.Plot.Step = 5000, 5000 },
		"before":        func(r *parity.Report) { r.First.Step, r.Plot.Step = 0, 0 },
		"one side": func(r *parity.Report) {
			cut(r, 0, 1, 0)
			cut(r, 1, 1, 0)
			cut(r, 2, 1, 0)
		},
		"shorter":   func(r *parity.Report) { cut(r, 0, 1, 50); cut(r, 1, 1, 105) },
		"two steps": func(r *parity.Report) { cut(r, 0, 0, 2); cut(r, 0, 1, 1) },
		"no steps":  func(r *parity.Report) { cut(r, 0, 0, 0); cut(r, 0, 1, 0) },
		"no numbers": func(r *parity.Report) {
			value(r, 0, 103, nan)
			value(r, 2, 3, nan)
			r.Plot.Charts[2].Lines[2].Values[0] = nan
		},
		"flat": func(r *parity.Report) {
			for _, l := range r.Plot.Charts[2].Lines {
				clear(l.Values)
			}
		},
		"hashes": func(r *parity.Report) {
			r.First.Index, r.First.Want, r.First.Got = -1, "values of hash 0123456789abcdef",
				"values of hash x"
		},
		"another length": func(r *parity.Report) { r.First.Got = "2 (4000000000000000)" },
		"no hexadecimals": func(r *parity.Report) {
			r.First.Want, r.First.Got = "(gggggggg)", "(11111111)"
		},
		"far": func(r *parity.Report) { r.First.ULPs = math.MaxUint64 },
	} {
		t.Run(name, func(t *testing.T) {
			c := testComparison(tinyphysics.Logits)
			change(c.Report)
			if c.Outcome() != verdict.Different {
				t.Fatalf("outcome %s", c.Outcome())
			}
			p := writeParity(t, Parity{Comparisons: []verdict.Comparison{c}})
			if figures := p.all("figure", "divergence"); len(figures) != 1 ||
				!strings.Contains(figures[0].text, "00002") {
				t.Errorf("%d divergences", len(figures))
			}
			if strings.Contains(string(p.bytes), "NaN") && name != "no numbers" {
				t.Error("a NaN in the page")
			}
		})
	}
}

// TestBitPair: the bits of both values are told apart by sign, exponent and fraction, of 32 bits
// and of 64, each run of equal ones and of others a part; there are none of what is no such pair.
func TestBitPair(t *testing.T) {
	text := func(parts []bitPart) (all string) {
		for _, p := range parts {
			if p.Differs {
				all += "[" + p.Text + "]"
			} else {
				all += p.Text
			}
		}
		return all
	}
	for _, c := range []struct{ want, got, shownWant, shownGot string }{
		{
			"1 (3f800000)", "-1 (bf800001)",
			"[0] 01111111 0000000000000000000000[0]", "[1] 01111111 0000000000000000000000[1]",
		},
		{
			"1 (3ff0000000000000)", "1 (3ff8000000000002)",
			"0 01111111111 [0]" + strings.Repeat("0", 49) + "[0]0",
			"0 01111111111 [1]" + strings.Repeat("0", 49) + "[1]0",
		},
		{"1 (3f800000)", "1 (3ff0000000000000)", "", ""},
		{"1 (3f8000000)", "1 (3f8000000)", "", ""},
		{"1 (3ff00000000000000)", "1 (3ff00000000000000)", "", ""},
	} {
		pair := newBitPair(c.want, c.got)
		if pair == nil {
			pair = &bitPair{}
		}
		if w, g := text(pair.Want), text(pair.Got); w != c.shownWant || g != c.shownGot {
			t.Errorf("%s and %s: %q and %q, want %q and %q", c.want, c.got, w, g, c.shownWant,
				c.shownGot)
		}
	}
}

// TestStepsAround: what is drawn lies around the step of a divergence, at both ends of a rollout
// too, and is two steps at least; without a step, or of few, it is all.
func TestStepsAround(t *testing.T) {
	for _, c := range []struct {
		step, values int
		want         string
	}{
		{-1, 300, "20 to 319"}, {20, 300, "20 to 55"}, {100, 300, "75 to 135"},
		{319, 300, "294 to 319"}, {500, 300, "318 to 319"}, {0, 300, "20 to 35"},
		{21, 2, "20 to 21"}, {22, 3, "20 to 22"},
	} {
		values := make([]parity.Float, c.values)
		p := &parity.Plot{Rollout: "r", Step: c.step, Charts: []parity.Chart{{
			Label: "x", First: 20, Span: 1,
			Lines: []parity.Line{
				{Name: "wanted", Values: values[:1]}, {Name: "got", Values: values},
				{Name: "target", Values: make([]parity.Float, 400)}, // of the whole route
			},
		}}}
		charts := newCharts(p)
		if len(charts) != 1 || charts[0].chart.Label != "x on r, steps "+c.want {
			t.Errorf("step %d of %d: %+v, want %s", c.step, c.values, charts, c.want)
		}
	}
}

func TestParityHeadlines(t *testing.T) {
	inexact := testComparison()
	inexact.Report.Exact, inexact.Report.Budget.Flips, inexact.Report.Flips.Explained = false, 5, 3
	absent := verdict.Comparison{NotRun: "no device"}
	for _, c := range []struct {
		parity Parity
		want   string
		good   bool
	}{
		{Parity{Comparisons: []verdict.Comparison{testComparison()}}, "Every bit is equal", true},
		{Parity{Comparisons: []verdict.Comparison{inexact}}, "Every difference is explained", true},
		{Parity{Comparisons: []verdict.Comparison{testComparison(), inexact}},
			"Every difference is explained", true},
		{Parity{Comparisons: []verdict.Comparison{testComparison(), {Error: "broken"}}},
			"1 of 2 comparisons differ", false},
		{Parity{Comparisons: []verdict.Comparison{absent}}, "Nothing was compared", false},
		{Parity{Comparisons: []verdict.Comparison{{Differs: "costs"}}}, "The comparison differs",
			false},
		{Parity{Mutants: testGate().Checks[4].Mutants}, "Planted faults are found", true},
		{Parity{Mutants: testGate().Checks[4].Mutants[:1]}, "Planted faults are found", true},
		{Parity{Mutants: testGate().Checks[4].Mutants, Failure: errors.New("c was not caught")},
			"Not enough faults are found", false},
	} {
		p := writeParity(t, c.parity)
		h1 := p.all("h1", "")[0]
		class, sign := "bad", "✗ "
		if c.good {
			class, sign = "good", "✓ "
		}
		if h1.text != sign+c.want || h1.attrs["class"] != class {
			t.Errorf("%q of class %s, want %s and %s", h1.text, h1.attrs["class"], c.want, class)
		}
	}
	if err := WriteParity(filepath.Join(t.TempDir(), "r.html"), Parity{}); err == nil {
		t.Error("a report on nothing")
	}
}

// TestGateReport: checks, failures, what was not run, faults, and where it was.
func TestGateReport(t *testing.T) {
	p := writeGate(t, testGate())
	p.wantText(
		t, "✗ Blocked", "blocked: 2 of 3 checks failed, in 62 s", "changed: onnxruntime, gpu",
		"gpu/a<b>.cu", "1234", "5678", "assets, hardware", "linux/amd64, 2 cores",
		"lockstep gate --base main",
	)
	tables := p.all("table", "checks")
	if len(tables) != 3 {
		t.Fatalf("%d tables, want checks, faults and what was not run", len(tables))
	}
	for i, want := range [][]string{
		{
			"build|✓ passed|1||0.0|Everything compiles.",
			"engines|✗ failed|2|1|12.2|All engines. 1 of 2 cases failed",
			"tests|✗ failed|0||0.0|Tests. it crashed: signal: killed",
			"hardware|– not run|0||0.0|Evidence. not required",
			"mutants|✓ passed|0||0.0|Faults.",
		},
		{
			"a-mask|✓ caught|logits|logits|1|20|3.2|The mask is off by one.",
			"b-cdf|✓ caught|cdf|sample|0|0|0.0|Wrong.",
			"c|✗ not caught|cdf|–|0|0|0.0|Missed.",
			"d|not tried: its text is found 0 times|cdf|–|0|0|0.0|Stale.",
		},
		{"engines|1|another profile"},
	} {
		rows := cells(tables[i])
		if len(rows) != len(want) {
			t.Errorf("table %d has %d rows, want %d", i, len(rows), len(want))
			continue
		}
		for k := range want {
			if got := strings.Join(rows[k], "|"); got != want[k] {
				t.Errorf("table %d\n got %s\nwant %s", i, got, want[k])
			}
		}
	}
	p.wantText(t, "2 of 4 caught, the stage named rightly for 1.")
	figures := p.all("figure", "divergence")
	if len(figures) != 3 {
		t.Fatalf("%d figures, want a divergence and two failures", len(figures))
	}
	figures[1].wantText(
		t, "engines", "1 of 2 cases failed", "lockstep compare", "1 failure",
		"engines.onnxruntime 00002/pid: stage <logits>",
	)
	figures[2].wantText(t, "tests", "it crashed: signal: killed", "fatal error <x>")

	passed := testGate()
	passed.Passed, passed.Verdict, passed.Checks = true, "passed: only documentation differs, "+
		"nothing was compared", passed.Checks[:1]
	p = writeGate(t, passed)
	p.wantText(t, "✓ Passed", "only documentation differs, nothing was compared")
	if len(p.all("table", "stages")) != 0 {
		t.Error("verdicts of nothing")
	}

	many := testGate()
	for range 30 {
		many.Checks[1].Cases = append(
			many.Checks[1].Cases,
			verdict.CheckCase{Class: "a", Name: "b", Outcome: verdict.Failed, Message: "again"},
		)
	}
	writeGate(t, many).wantText(t, "20 failures of 31", "All are in gate.json.")
}

// TestGateReportAgain: what comes back from gate.json makes the same report.
func TestGateReportAgain(t *testing.T) {
	data, err := json.Marshal(testGate())
	if err != nil {
		t.Fatal(err)
	}
	var again verdict.GateResult
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if a, b := writeGate(t, testGate()), writeGate(t, &again); string(a.bytes) != string(b.bytes) {
		t.Error("another report")
	}
}

// TestGateReportUnwritable: nothing half written is left.
func TestGateReportUnwritable(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "report.html"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := WriteGate(filepath.Join(dir, "report.html"), testGate(), Origin{}); err == nil {
		t.Error("no error")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestVerdictContrast holds the colours of verdicts to WCAG's 4.5.
func TestVerdictContrast(t *testing.T) {
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(text("style.css"), -1)
	for i, block := range blocks {
		colours := map[string]string{}
		colour := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]+);`)
		for _, m := range colour.FindAllStringSubmatch(block[1], -1) {
			colours[m[1]] = m[2]
		}
		for _, pair := range [][2]string{
			{"good", "page"}, {"good", "card"}, {"bad", "page"}, {"bad", "card"},
			{"bad", "bad-page"},
		} {
			if c := contrast(t, colours[pair[0]], colours[pair[1]]); c < 4.5 {
				t.Errorf("set %d: %s on %s has a contrast of %.2f", i, pair[0], pair[1], c)
			}
		}
	}
}

// TestParityExercised: the page of an equal comparison says what of the specification was
// gone through and what never was, which drives were compared, and how near one came to
// another.
func TestParityExercised(t *testing.T) {
	c := testComparison()
	c.Report.Exercised = &parity.Exercised{
		Branches: []parity.BranchTimes{
			{Branch: parity.Branch{Name: "cut plan", Is: "by the end"}, Times: 7, Rollouts: 2},
			{Branch: parity.Branch{Name: "no plan", Is: "at the last step"}},
		},
		Nearest: &parity.Nearest{
			Rollout:  "route 00002, controller pid",
			Step:     321,
			Distance: 0x1p-20,
		},
	}
	c.Report.Rollouts[1].Error = "it broke\nin a place"
	c.Report.Tolerated = []parity.Tolerance{{Stage: tinyphysics.Probs, Steps: 3}}
	html := string(writeParity(t, Parity{Comparisons: []verdict.Comparison{c}}).bytes)
	for _, want := range []string{
		"exercised 1 of 2 branches of the specification; never: no plan; the draw nearest to an " +
			"edge of the CDF is 9.54e-07 from it, at route 00002, controller pid, step 321.",
		`<th scope="row">cut plan</th><td>by the end</td><td>7</td><td>2</td>`,
		`<th scope="row">no plan</th><td>at the last step</td><td class="none">never</td>`,
		"<dt>00000/pid</dt><dd>580 steps</dd>", "≈ 3", "580 steps, then on both sides: it broke<",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
}
