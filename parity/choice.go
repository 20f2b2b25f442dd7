package parity

import (
	"fmt"
	"math"
	"sort"

	"lockstep/parity/trace"
)

// A Choice is how one draw chose a token on both sides: the first whose CDF is
// greater than the draw.
type Choice struct {
	Route  string `json:"route,omitempty"`
	Policy string `json:"policy,omitempty"`
	Step   int    `json:"step"`

	Draw Float  `json:"draw"` // of the wanted side
	Want Chosen `json:"want"`
	Got  Chosen `json:"got"`

	// CDF is the greatest difference between the two CDFs at any token.
	CDF Float `json:"cdf_difference"`

	// Explained tells that the tokens differ for no other reason than the CDFs: the
	// draws are equal, each token is the one that its own CDF gives, and the edges
	// between the two tokens are no further from the draw than CDF. If not, and the
	// tokens differ, Why says what is wrong.
	Explained bool   `json:"explained"`
	Why       string `json:"why,omitempty"`
}

// Chosen is one side of a choice.
type Chosen struct {
	Token int64 `json:"token"`

	// Edge is the value of the CDF that is nearest to the draw, and Margin its
	// distance.
	Edge   Float `json:"edge"`
	Margin Float `json:"margin"`

	// Crossed is the distance from the draw to the furthest edge that lies between
	// the two sides' tokens: by so much the CDF would have to be another for the other
	// token. It is 0 if the tokens are equal.
	Crossed Float `json:"crossed"`
}

func (c *Choice) String() string {
	text := fmt.Sprintf("draw %v: token %d, %.3g from the nearest edge of the CDF; got token %d, %.3g from it; greatest difference of the CDFs %.3g",
		float64(c.Draw), c.Want.Token, float64(c.Want.Margin), c.Got.Token, float64(c.Got.Margin), float64(c.CDF))
	if c.Why != "" {
		text += "; unexplained: " + c.Why
	}
	return text
}

// newChoice describes the choice of a step, or returns nil if the draw, the tokens or
// the CDFs of a side are not known.
func newChoice(want, got *trace.Step) *Choice {
	needed := trace.Set(Draw, Sample)
	if want == nil || got == nil || want.Has&needed != needed || got.Has&needed != needed || len(want.CDF) == 0 || len(want.CDF) != len(got.CDF) {
		return nil
	}
	c := &Choice{Step: int(want.Index), Draw: Float(want.Draw)}
	c.Want, c.Got = chosen(want), chosen(got)
	greatest, _ := farthest(want.CDF, got.CDF)
	c.CDF = Float(greatest.Abs)
	w, g := want.Sample, got.Sample
	if w == g {
		return c
	}
	switch right, ok := search(want.CDF, want.Draw); {
	case math.Float64bits(want.Draw) != math.Float64bits(got.Draw):
		c.Why = "the draws differ"
		return c
	case !ok:
		c.Why = "the wanted CDF is none"
		return c
	case w != right:
		c.Why = fmt.Sprintf("the wanted CDF gives token %d, not %d", right, w)
		return c
	}
	switch right, ok := search(got.CDF, got.Draw); {
	case !ok:
		c.Why = "the CDF got is none"
		return c
	case g != right:
		c.Why = fmt.Sprintf("the CDF got gives token %d, not %d", right, g)
		return c
	}
	// Between the tokens lie the edges from the lower token's to that before the
	// higher. The side with the lower token has them above the draw, the other below.
	low, high := min(w, g), max(w, g)
	above := func(s *trace.Step) Float { return Float(s.CDF[high-1] - s.Draw) }
	below := func(s *trace.Step) Float { return Float(s.Draw - s.CDF[low]) }
	if w < g {
		c.Want.Crossed, c.Got.Crossed = above(want), below(got)
	} else {
		c.Want.Crossed, c.Got.Crossed = below(want), above(got)
	}
	if c.Explained = c.Want.Crossed <= c.CDF && c.Got.Crossed <= c.CDF; !c.Explained {
		c.Why = "the CDFs differ by less than the margins"
	}
	return c
}

func chosen(s *trace.Step) Chosen {
	c := Chosen{Token: s.Sample, Margin: Float(math.Inf(1))}
	for _, edge := range s.CDF {
		if m := Float(math.Abs(edge - s.Draw)); m < c.Margin {
			c.Edge, c.Margin = Float(edge), m
		}
	}
	return c
}

// search is the token of a draw, and false if the CDF does not grow to above the
// draw.
func search(cdf []float64, draw float64) (int64, bool) {
	for i, x := range cdf {
		if !(x >= 0) || i > 0 && !(x >= cdf[i-1]) {
			return 0, false
		}
	}
	i := sort.Search(len(cdf), func(i int) bool { return cdf[i] > draw })
	return int64(i), i < len(cdf)
}

// Difference is how far two arrays are apart at most.
type Difference struct {
	Abs  Float  `json:"abs"`
	ULPs uint64 `json:"ulps"`
}

// farthest is the greatest differences between two arrays, each on its own, and false
// if one of them is not there or their lengths differ. What is not a number is infinitely
// far from all else.
func farthest[T float32 | float64](a, b []T) (d Difference, ok bool) {
	if len(a) != len(b) || len(a) == 0 {
		return d, false
	}
	for i := range a {
		if bits(a[i]) == bits(b[i]) {
			continue
		}
		abs := math.Abs(float64(a[i]) - float64(b[i]))
		if abs != abs {
			abs = math.Inf(1)
		}
		d.Abs = max(d.Abs, Float(abs))
		d.ULPs = max(d.ULPs, ulps(a[i], b[i]))
	}
	return d, true
}
