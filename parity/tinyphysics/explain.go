package tinyphysics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"lockstep"
	"lockstep/parity"
	"lockstep/parity/schema"
)

// Positions in a step.
var (
	logits, probs, cdf = view.Index(Logits), view.Index(Probs), view.Index(CDF)
	draw, sample       = view.Index(Draw), view.Index(Sample)
)

// A choice is how one draw chose a token on both sides: the first whose CDF is
// greater than the draw.
type choice struct {
	want, got *chosen

	// apart is the greatest difference between the two CDFs at any token.
	apart float64

	// explained tells that the tokens differ for no other reason than the CDFs: the
	// draws are equal, and each token is the one that its own CDF gives. Then the edges
	// between the two tokens, which the draw parts, are no further from it than apart. If
	// not, and the tokens differ, why says what is wrong.
	explained bool
	why       string
}

// chosen is one side of a choice.
type chosen struct {
	cdf   []float64
	draw  float64
	token int64

	// edge is the value of the CDF that is nearest to the draw, and margin its
	// distance.
	edge, margin float64
}

// explain describes the choice of a step, or returns nil if the draw, the tokens or the
// CDFs of a side are not known.
func explain(want, got *schema.Step) *parity.Explanation {
	c := newChoice(want, got)
	if c == nil {
		return nil
	}
	digits := func(x float64) string { return strconv.FormatFloat(x, 'g', 17, 64) }
	return &parity.Explanation{
		Explained: c.explained, Why: c.why,
		Text: fmt.Sprintf(
			"draw %v: token %d, %.3g from the nearest edge of the CDF; got token %d, %.3g from "+
				"it; greatest difference of the CDFs %.3g",
			c.want.draw, c.want.token, c.want.margin, c.got.token, c.got.margin, c.apart,
		),
		Facts: []parity.Fact{
			{Name: "draw", Value: digits(c.want.draw)},
			{
				Name: "nearest edge",
				Value: fmt.Sprintf(
					"%s wanted, margin %.3g; %s got, margin %.3g", digits(c.want.edge),
					c.want.margin, digits(c.got.edge), c.got.margin,
				),
			},
			{Name: "tokens", Value: fmt.Sprintf("%d wanted, %d got", c.want.token, c.got.token)},
			{Name: "CDFs", Value: fmt.Sprintf("%.3g apart at most", c.apart)},
		},
	}
}

func newChoice(want, got *schema.Step) *choice {
	w, g := newChosen(want), newChosen(got)
	if w == nil || g == nil || len(w.cdf) != len(g.cdf) {
		return nil
	}
	apart, _ := parity.Farthest(view.Stages[cdf].Type, want.Data[cdf], got.Data[cdf])
	c := &choice{want: w, got: g, apart: float64(apart.Abs)}
	if w.token == g.token {
		return c
	}
	c.why = cmp.Or(w.wrong("the wanted CDF"), g.wrong("the CDF got"))
	if math.Float64bits(w.draw) != math.Float64bits(g.draw) {
		c.why = "the draws differ"
	}
	c.explained = c.why == ""
	return c
}

// newChosen is a step's side of a choice, or nil if it is not known.
func newChosen(s *schema.Step) *chosen {
	if s == nil || !s.Has.Has(draw) || !s.Has.Has(sample) || len(s.Data[cdf]) == 0 {
		return nil
	}
	c := &chosen{
		cdf: schema.Elements[float64](s.Data[cdf]), draw: math.Float64frombits(s.Bits[draw]),
		token: int64(s.Bits[sample]), margin: math.Inf(1),
	}
	for _, edge := range c.cdf {
		if m := math.Abs(edge - c.draw); m < c.margin {
			c.edge, c.margin = edge, m
		}
	}
	return c
}

// wrong says why a side's token is not the one that its own CDF gives, or "".
func (c *chosen) wrong(name string) string {
	right := sort.Search(len(c.cdf), func(i int) bool { return c.cdf[i] > c.draw })
	switch {
	// NaN is less than all numbers
	case !(c.cdf[0] >= 0) || !slices.IsSorted(c.cdf) || right == len(c.cdf):
		return name + " is none"
	case int64(right) != c.token:
		return fmt.Sprintf("%s gives token %d, not %d", name, right, c.token)
	}
	return ""
}

// plotTokens is how many tokens to each side of the choice a plot shows.
const plotTokens = 12

// plot draws lataccel and steer command of both sides, and both CDFs around the draw.
func plot(task *parity.RolloutTask, sides [2]*schema.Digests, at [2]*schema.Step) []parity.Chart {
	family := parity.Family{Schema: &view.Schema}
	var target []parity.Float
	if j, ok := task.Job.(job); ok {
		target = parity.Floats(j.Route.TargetLataccel[min(lockstep.ContextLength, j.Route.Len()):])
	}
	charts := []parity.Chart{
		{
			Label: "lateral acceleration",
			Unit:  "m/s²",
			Span:  0.2,
			First: view.First,
			Lines: append(
				[]parity.Line{{Name: "target", Values: target}},
				family.Lines(sides, Lataccel)...),
		},
		{
			Label: "steer command",
			Unit:  "within ±2",
			Span:  0.1,
			First: view.First,
			Lines: family.Lines(sides, Action),
		},
	}
	w, g := newChosen(at[0]), newChosen(at[1])
	known := cmp.Or(w, g)
	if known == nil {
		return charts
	}
	low, high := known.token, known.token
	var edges [2][]float64
	for i, side := range []*chosen{w, g} {
		if side != nil {
			low, high, edges[i] = min(low, side.token), max(high, side.token), side.cdf
		}
	}
	from := int(min(max(low-plotTokens, 0), lockstep.VocabSize))
	to := int(min(max(high, 0), lockstep.VocabSize)) + plotTokens
	cut := func(cdf []float64) []parity.Float {
		return parity.Floats(cdf[min(from, len(cdf)):min(to, len(cdf))])
	}
	c := parity.Chart{
		Label: "CDF around the draw", Unit: "cumulative probability", Span: 1e-12, First: from,
		Stairs: "token",
		Note:   "The sampled token is the first whose stair is above the draw.",
		Lines: []parity.Line{
			{Name: "wanted", Values: cut(edges[0])}, {Name: "got", Values: cut(edges[1])},
			{Name: "draw", Values: []parity.Float{parity.Float(known.draw)}},
		},
	}
	if k := newChoice(at[0], at[1]); k != nil {
		c.Note += fmt.Sprintf(
			" The draw is %.3g from the nearest edge of the wanted CDF, %.3g from that of the "+
				"other; the CDFs are %.3g apart at most.",
			k.want.margin, k.got.margin, k.apart,
		)
	}
	return append(charts, c)
}
