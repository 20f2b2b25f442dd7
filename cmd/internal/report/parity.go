package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockstep/internal/fileio"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/verdict"
)

// Parity is what `lockstep compare`, `replay` or `mutants` found.
type Parity struct {
	Comparisons []verdict.Comparison
	Mutants     []verdict.Mutant
	Failure     error // of the mutants, if it is not enough that was caught
	Origin
}

// WriteParity writes the report on comparisons: the verdicts by implementation and
// stage, and for each divergence its place, bit patterns, and what happened around it.
func WriteParity(path string, p Parity) error {
	if len(p.Comparisons)+len(p.Mutants) == 0 {
		return errors.New("report: nothing was compared")
	}
	page := newParityPage(p.Comparisons, p.Mutants, p.Origin)
	page.Kicker = "lockstep · parity"
	differ, equal := 0, 0
	for i := range p.Comparisons {
		switch p.Comparisons[i].Outcome() {
		case verdict.Different, verdict.Failed:
			differ++
		case verdict.Equal:
			equal++
		}
	}
	page.Good = differ == 0 && p.Failure == nil && (equal > 0 || len(p.Mutants) > 0)
	switch {
	case p.Failure != nil:
		page.Headline, page.Detail = "Not enough faults are found", p.Failure.Error()
	case len(p.Comparisons) == 0:
		page.Headline = "Planted faults are found"
	case differ > 0:
		page.Headline = "The comparison differs"
		if n := differ + equal; n > 1 {
			page.Headline = fmt.Sprintf("%d of %d comparisons differ", differ, n)
		}
	case equal == 0:
		page.Headline = "Nothing was compared"
	case anyInexact(p.Comparisons):
		page.Headline = "Every difference is explained"
	default:
		page.Headline = "Every bit is equal"
	}
	return page.write(path)
}

func anyInexact(list []verdict.Comparison) bool {
	for i := range list {
		if r := list[i].Report; r != nil && !r.Exact {
			return true
		}
	}
	return false
}

// WriteGate writes the report on a gate.
func WriteGate(path string, r *verdict.GateResult, o Origin) error {
	var comparisons []verdict.Comparison
	var mutants []verdict.Mutant
	for _, c := range r.Checks {
		comparisons = append(comparisons, c.Comparisons...)
		mutants = append(mutants, c.Mutants...)
	}
	page := newParityPage(comparisons, mutants, o)
	page.Kicker, page.Good = "lockstep · gate", r.Passed
	page.Headline = "Blocked"
	if r.Passed {
		page.Headline = "Passed"
	}
	page.Detail = r.Verdict + ", in " + strconv.FormatFloat(r.Seconds, 'f', 0, 64) + " s"
	page.Change = &r.Change
	for i := range r.Checks {
		row := newCheckRow(&r.Checks[i])
		if row.Class == "bad" {
			row.ID = "check-" + strconv.Itoa(i+1)
			page.Failed = append(page.Failed, row)
		}
		page.Checks = append(page.Checks, row)
	}
	page.Skips = r.Skips(verdict.NotRun, verdict.NotApplicable)
	require := strings.Join(r.Require, ", ")
	if r.RequireHardware {
		require = strings.TrimPrefix(require+", hardware", ", ")
	}
	facts := []Fact{
		{"base", r.Change.Base},
		{"compared with", r.Change.MergeBase},
		{"commit", r.Change.Head},
		{"required", require},
		{"machine", r.Machine},
		{"Go", r.Go},
		{"begun", r.Start.Format("2006-01-02 15:04:05 MST")},
	}
	for _, f := range facts {
		if f.Value != "" {
			page.Facts = append(page.Facts, f)
		}
	}
	return page.write(path)
}

type parityPage struct {
	Kicker, Headline, Detail string
	Good                     bool

	Change      *verdict.Change
	Checks      []checkRow
	Failed      []checkRow // of Checks
	Stages      []string   // columns of Verdicts
	Verdicts    []verdictRow
	Identities  []string // of the engines, what they prove to be
	Exercised   []exercisedPart
	Divergences []divergencePart
	Mutants     []mutantRow
	Caught      string
	Skips       []verdict.Skip
	Facts       []Fact
}

func (p *parityPage) write(path string) error {
	return fileio.Write(
		path, func(w io.Writer) error { return pages.ExecuteTemplate(w, "parity.html", p) },
	)
}

// checkRow is one check of a gate.
type checkRow struct {
	ID                       string // of what is said about its failure
	Name, Title, Class, Word string
	Cases, Skipped           int
	Seconds                  string
	Why, Brief, Note         string   // Brief is the first line
	Failures                 []string // messages of cases
	More                     int      // all failures, if these are not all
	Output                   string
	Command                  string
}

// maxMessages is how many failures of a check are shown.
const maxMessages = 20

func newCheckRow(c *verdict.Check) checkRow {
	r := checkRow{
		Name: c.Name, Title: c.Title, Why: c.Why, Note: c.Note, Command: c.Command,
		Seconds: strconv.FormatFloat(c.Seconds, 'f', 1, 64),
		Brief:   strings.SplitN(c.Why, "\n", 2)[0],
		Cases:   c.Count(verdict.Passed) + c.Count(verdict.Failed),
		Skipped: c.Count(verdict.NotRun) + c.Count(verdict.NotApplicable),
	}
	r.Class, r.Word = outcomeClass(c.Outcome)
	if c.Outcome != verdict.Failed {
		return r
	}
	r.Failures = c.Failures()
	if n := len(r.Failures); n > maxMessages {
		r.More, r.Failures = n, r.Failures[:maxMessages]
	}
	if len(r.Failures) == 0 {
		r.Output = c.Output
	}
	return r
}

func outcomeClass(outcome string) (class, word string) {
	switch outcome {
	case verdict.Passed, verdict.Equal:
		return "good", "✓ " + outcome
	case verdict.Failed, verdict.Different:
		return "bad", "✗ " + outcome
	}
	return "none", "– " + outcome
}

// verdictRow is one comparison, stage by stage.
type verdictRow struct {
	ID                   string // of its divergence, if any
	Got, Want, Detail    string
	Class, Word, Why     string
	Equal, Rollouts, All int // rollouts, and steps of all of them
	Cells                []stageCell
}

type stageCell struct{ Class, Text, Note string }

// newVerdict has a cell for each stage: how many values were compared, or how many
// were at fault.
func newVerdict(c *verdict.Comparison, stages []string) verdictRow {
	r := verdictRow{Got: c.Got, Want: c.Want, Detail: c.Detail}
	r.Class, r.Word = outcomeClass(c.Outcome())
	if c.Report == nil || len(c.Report.Rollouts) == 0 {
		r.Why = c.Why()
		return r
	}
	r.Equal, r.Rollouts, r.All = c.Report.Equal(), len(c.Report.Rollouts), c.Report.Steps
	findings := map[string]int{}
	for _, f := range c.Report.Findings {
		findings[f.Stage] = f.Findings
	}
	tolerated := map[string]int{}
	for _, t := range c.Report.Tolerated {
		tolerated[t.Stage] = t.Steps
	}
	if n := c.Report.Flips.Explained; n > 0 {
		tolerated[c.Report.Flips.Stage] = n
	}
	for _, s := range stages {
		cell := stageCell{Class: "none", Text: "–", Note: "not compared"}
		switch n := c.Report.Compared[s]; {
		case findings[s] > 0:
			cell = stageCell{
				"bad", "✗ " + strconv.Itoa(findings[s]), plural(findings[s], "finding"),
			}
		case tolerated[s] > 0:
			cell = stageCell{"none", "≈ " + strconv.Itoa(tolerated[s]), "differ and are excused"}
		case n > 0:
			cell = stageCell{"good", "✓", plural(n, "value") + " equal"}
		}
		r.Cells = append(r.Cells, cell)
	}
	return r
}

// exercisedPart is what of the specification one comparison went through, and its drives.
type exercisedPart struct {
	Title, Text, Nearest string
	Branches             []parity.BranchTimes
	Drives               []Fact // of each rollout, how much was compared
	More                 int    // drives that are not listed
}

// maxDrives is how many drives of a comparison are listed.
const maxDrives = 200

func newExercisedPart(c *verdict.Comparison) *exercisedPart {
	if c.Report == nil || c.Report.Exercised == nil {
		return nil
	}
	e := c.Report.Exercised
	part := &exercisedPart{Title: c.Title(), Text: e.String(), Branches: e.Branches}
	if e.Nearest != nil {
		part.Nearest = e.Nearest.String()
	}
	for i := range c.Report.Rollouts {
		if i == maxDrives {
			part.More = len(c.Report.Rollouts) - i
			break
		}
		v := &c.Report.Rollouts[i]
		text := plural(v.Steps, "step")
		if v.Error != "" {
			text += ", then on both sides: " + strings.SplitN(v.Error, "\n", 2)[0]
		}
		part.Drives = append(part.Drives, Fact{v.Name(), text})
	}
	return part
}

type mutantRow struct {
	verdict.Mutant
	Class, Word, NamedClass string
	Took                    string
}

func newParityPage(
	comparisons []verdict.Comparison, mutants []verdict.Mutant, o Origin,
) *parityPage {
	p := &parityPage{Facts: o.facts()}
	p.Stages = stagesOf(comparisons)
	for i := range comparisons {
		c := &comparisons[i]
		row := newVerdict(c, p.Stages)
		if c.Outcome() == verdict.Different {
			d := newDivergencePart(c)
			d.ID = "divergence-" + strconv.Itoa(len(p.Divergences)+1)
			row.ID = d.ID
			p.Divergences = append(p.Divergences, d)
		}
		p.Verdicts = append(p.Verdicts, row)
		if e := newExercisedPart(c); e != nil {
			p.Exercised = append(p.Exercised, *e)
		}
		p.Identities = append(p.Identities, c.Identities...)
	}
	slices.Sort(p.Identities)
	p.Identities = slices.Compact(p.Identities)
	caught, right := 0, 0
	for _, m := range mutants {
		row := mutantRow{Mutant: m, Took: strconv.FormatFloat(m.Seconds, 'f', 1, 64)}
		switch {
		case m.Error != "":
			row.Class, row.Word = "bad", "not tried: "+m.Error
		case m.Caught:
			row.Class, row.Word = "good", "✓ caught"
			caught++
		default:
			row.Class, row.Word = "bad", "✗ not caught"
		}
		row.NamedClass = "bad"
		if m.Right {
			row.NamedClass = "good"
			right++
		}
		p.Mutants = append(p.Mutants, row)
	}
	if len(mutants) > 0 {
		p.Caught = fmt.Sprintf(
			"%d of %d caught, the stage named rightly for %d", caught, len(mutants), right,
		)
	}
	return p
}

// stagesOf are the stages of all comparisons. The inputs and the extent are among them
// only where they are at fault.
func stagesOf(comparisons []verdict.Comparison) []string {
	var stages, before, after []string
	add := func(list *[]string, stage string) {
		if !slices.Contains(stages, stage) && !slices.Contains(*list, stage) {
			*list = append(*list, stage)
		}
	}
	for i := range comparisons {
		if r := comparisons[i].Report; r != nil {
			for _, s := range r.Stages {
				add(&stages, s)
			}
		}
	}
	for i := range comparisons {
		if r := comparisons[i].Report; r != nil {
			for _, f := range r.Findings {
				if f.Stage == schema.Extent {
					add(&after, f.Stage)
				} else {
					add(&before, f.Stage)
				}
			}
		}
	}
	return slices.Concat(before, stages, after)
}

// divergencePart is what is known of one comparison's first divergence, and how much
// else differs.
type divergencePart struct {
	ID, Title string
	Why       string // if there is no place
	Place     []Fact
	Bits      *bitPair
	Replay    string
	Charts    []notedChart
	Findings  []parity.StageFindings
	Effects   string
	Others    []Fact
	Flips     []string
}

// bitPair is both bit patterns, in parts that are equal and parts that are not.
type bitPair struct{ Want, Got []bitPart }

type bitPart struct {
	Text    string
	Differs bool
}

func newDivergencePart(c *verdict.Comparison) divergencePart {
	r := c.Report
	if r == nil {
		return divergencePart{Title: c.Title(), Why: c.Why()}
	}
	d := divergencePart{Title: c.Title(), Findings: r.Findings, Effects: r.Effects()}
	for _, o := range r.Others {
		d.Others = append(d.Others, Fact{o.Stage, o.Error()})
	}
	for _, f := range r.Flips.Examples {
		if !f.Explained {
			d.Flips = append(d.Flips, fmt.Sprintf("%s, step %d: %v", f.Rollout, f.Step, f))
		}
	}
	first := r.First
	if first == nil {
		d.Why = c.Why()
		return d
	}
	add := func(name, value string) { d.Place = append(d.Place, Fact{name, value}) }
	add("place", first.Place())
	add("want", first.Want)
	add("got", first.Got)
	if first.ULPs > 0 {
		add("distance", plural(int(min(first.ULPs, math.MaxInt32)), "ulp"))
		if first.ULPs > math.MaxInt32 {
			d.Place[len(d.Place)-1].Value = strconv.FormatUint(first.ULPs, 10) + " ulps"
		}
	}
	d.Bits = newBitPair(first.Want, first.Got)
	if first.Values > 1 {
		add("values", strconv.Itoa(first.Values)+" of this stage differ")
	}
	if first.Forced {
		add("found", "with one side forced onto the other's trajectory")
	}
	if text := first.Repeated(); text != "" {
		add("repeated", text)
	}
	if e := first.Explanation; e != nil {
		for _, f := range e.Facts {
			add(f.Name, f.Value)
		}
		if e.Why != "" {
			add("unexplained", e.Why)
		}
	}
	d.Replay = first.Replay
	if p := r.Plot; p != nil {
		d.Charts = newCharts(p)
	}
	return d
}

// newBitPair marks where the hexadecimal patterns at the ends of two values differ, or
// is nil if they do not end with such.
func newBitPair(want, got string) *bitPair {
	pattern := func(s string) string {
		i := strings.LastIndex(s, "(")
		if i < 0 || !strings.HasSuffix(s, ")") {
			return ""
		}
		digits := s[i+1 : len(s)-1]
		bits, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || len(digits) != 8 && len(digits) != 16 {
			return ""
		}
		return fmt.Sprintf("%0*b", 4*len(digits), bits)
	}
	w, g := pattern(want), pattern(got)
	if w == "" || len(w) != len(g) {
		return nil
	}
	// Sign, exponent and fraction apart.
	fields := []int{1, 9, 32}
	if len(w) == 64 {
		fields = []int{1, 12, 64}
	}
	var p bitPair
	add := func(parts *[]bitPart, text string, differs bool) {
		if n := len(*parts); n > 0 && (*parts)[n-1].Differs == differs {
			(*parts)[n-1].Text += text
		} else {
			*parts = append(*parts, bitPart{text, differs})
		}
	}
	for i := range w {
		if i == fields[0] || i == fields[1] {
			add(&p.Want, " ", false)
			add(&p.Got, " ", false)
		}
		add(&p.Want, w[i:i+1], w[i] != g[i])
		add(&p.Got, g[i:i+1], w[i] != g[i])
	}
	return &p
}

// Steps around a divergence that are drawn.
const (
	stepsBefore = 25
	stepsAfter  = 35
)

// notedChart is a chart and what is said below it.
type notedChart struct {
	chart
	Note string
}

// lineClasses are those of lines by their names; others are those of targets.
var lineClasses = map[string]string{"wanted": "want", "got": "got", "draw": "draw"}

func newCharts(p *parity.Plot) (all []notedChart) {
	for i := range p.Charts {
		c := &p.Charts[i]
		n := 0 // a line of one value is a level
		for _, l := range c.Lines {
			n = max(n, len(l.Values))
		}
		switch {
		case c.Stairs != "" && n > 1:
			all = append(all, notedChart{stairsChart(c, n), c.Note})
		case c.Stairs == "" && n > 1 &&
			slices.ContainsFunc(c.Lines, func(l parity.Line) bool {
				return l.Name == "wanted" || l.Name == "got"
			}):
			all = append(all, notedChart{stepsChart(p, c), c.Note})
		}
	}
	return all
}

// stepsChart draws both sides around the step of the divergence, or all of it where that is
// at none.
func stepsChart(p *parity.Plot, c *parity.Chart) chart {
	n := 0
	for _, l := range c.Lines {
		if l.Name == "wanted" || l.Name == "got" {
			n = max(n, len(l.Values))
		}
	}
	from, to := 0, n
	if p.Step >= 0 {
		at := p.Step - c.First
		from, to = max(0, min(at-stepsBefore, n-2)), max(2, min(n, at+stepsAfter+1))
	}
	var columns [][]float64
	for _, l := range c.Lines {
		columns = append(
			columns, parity.Numbers(l.Values[min(from, len(l.Values)):min(to, len(l.Values))]),
		)
	}
	s := linearScale(c.Span, columns...)
	label := c.Label
	if c.Unit != "" {
		label += " (" + c.Unit + ")"
	}
	out := chart{
		Label: fmt.Sprintf(
			"%s on %s, steps %d to %d", c.Label, p.Rollout, c.First+from, c.First+to-1,
		),
		Class: "time", YLabel: label, XLabel: "step", Width: to - from - 1, Height: grid,
		Y: s.ticks(5),
		X: scale{lo: float64(c.First + from), hi: float64(c.First + to - 1)}.ticks(6),
	}
	for i, l := range c.Lines {
		out.Lines = append(
			out.Lines,
			line{
				Name:  l.Name,
				Class: cmp.Or(lineClasses[l.Name], "target"),
				Path:  linePath(columns[i], 0, s.hi, (s.hi-s.lo)/grid),
			},
		)
	}
	if p.Step >= 0 {
		at := float64(p.Step-c.First-from) / float64(max(1, out.Width))
		m := mark{
			Class: "edge",
			Text:  "step " + strconv.Itoa(p.Step),
			Left:  percent(min(1, max(0, at))),
		}
		if at > 0.6 {
			m.Class += " flip"
		}
		out.Marks = []mark{m}
	}
	return out
}

// stairsChart draws lines of n values as stairs, and those of one value as levels.
func stairsChart(c *parity.Chart, n int) chart {
	var columns [][]float64
	for _, l := range c.Lines {
		columns = append(columns, parity.Numbers(l.Values))
	}
	s := linearScale(c.Span, columns...)
	unit := (s.hi - s.lo) / grid
	out := chart{
		Label: fmt.Sprintf("%s, %ss %d to %d", c.Label, c.Stairs, c.First, c.First+n-1),
		Class: "steps", YLabel: c.Unit, XLabel: c.Stairs, Width: n, Height: grid, Y: s.ticks(5),
	}
	every := max(1, (n+6)/7)
	for i := 0; i < n; i += every {
		out.X = append(out.X, tick{(float64(i) + 0.5) / float64(n), strconv.Itoa(c.First + i)})
	}
	y := func(v float64) string { return strconv.Itoa(int(math.Round((s.hi - v) / unit))) }
	for k, l := range c.Lines {
		var b strings.Builder
		for i, v := range columns[k] {
			width := 1
			if len(columns[k]) == 1 {
				width = n
			}
			switch {
			case !drawable(v):
				continue
			case b.Len() == 0 || !drawable(columns[k][i-1]):
				b.WriteString("M" + strconv.Itoa(i) + " " + y(v))
			default:
				b.WriteString("V" + y(v))
			}
			b.WriteString("H" + strconv.Itoa(i+width))
		}
		if b.Len() > 0 || l.Name != "draw" {
			out.Lines = append(
				out.Lines,
				line{Name: l.Name, Class: cmp.Or(lineClasses[l.Name], "target"), Path: b.String()},
			)
		}
	}
	return out
}
