package parity

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"lockstep/parity/schema"
)

// A Divergence is one place where two rollouts differ.
type Divergence struct {
	Rollout string   `json:"rollout"` // in words, see rolloutText
	Key     []string `json:"key,omitempty"`
	Step    int      `json:"step"` // -1 for the inputs and the outcome
	Stage   string   `json:"stage"`
	// of the first value that differs; -1 if only hashes are known
	Index   int    `json:"index"`
	Element string `json:"element,omitempty"` // the name of that value
	Values  int    `json:"values,omitempty"`  // of the stage that differ, if known

	Want string `json:"want"` // values with their bit patterns
	Got  string `json:"got"`
	// steps from one float to the next that lead from one to the other; 0 if that means nothing
	ULPs uint64 `json:"ulps,omitempty"`

	// Forced tells that the difference showed when one side was given the other's trajectory
	// before each step. Neighbours, if not 0, is how many other rollouts have to be in the batch
	// for the difference to show: an engine may take other code for another batch. Unrepeated
	// tells that it did not show again at all: an engine does not always compute the same. Unread
	// is why the rollout could not be computed again, or empty.
	Forced     bool   `json:"forced,omitempty"`
	Neighbours int    `json:"neighbours,omitempty"`
	Unrepeated bool   `json:"unrepeated,omitempty"`
	Unread     string `json:"unread,omitempty"`

	// Explanation is how the step's choice was made on both sides, if that is known.
	Explanation *Explanation `json:"explanation,omitempty"`

	// Replay is the command that repeats just this case.
	Replay string `json:"replay,omitempty"`
}

// Place says where it is: "route 00000, controller pid, step 101, stage logits, index 7".
func (d *Divergence) Place() string {
	text := d.Rollout
	if d.Step >= 0 {
		text += fmt.Sprintf(", step %d", d.Step)
	}
	text += ", stage " + d.Stage
	if d.Index >= 0 {
		text += fmt.Sprintf(", index %d", d.Index)
	}
	if d.Element != "" {
		text += " (" + d.Element + ")"
	}
	return strings.TrimPrefix(text, ", ")
}

// Repeated says what is to be said of a difference that was not simply there again, or "".
func (d *Divergence) Repeated() string {
	switch {
	case d.Unread != "":
		return "it could not be repeated: " + d.Unread
	case d.Unrepeated && d.Forced: // it was found in a batch, and looked for alone
		return "alone a repetition did not show it again: another batch takes another kernel, " +
			"or an engine does not always compute the same"
	case d.Unrepeated:
		return "a repetition did not show it again: an engine does not always compute the same"
	case d.Neighbours > 0:
		return fmt.Sprintf(
			"alone the rollout does not show it, beside its %d neighbours it does: another "+
				"batch may take another kernel",
			d.Neighbours,
		)
	}
	return ""
}

func (d *Divergence) Error() string {
	text := fmt.Sprintf("%s: want %s, got %s", d.Place(), d.Want, d.Got)
	if d.ULPs > 0 {
		text += fmt.Sprintf(", %d ulp apart", d.ULPs)
	}
	if d.Values > 1 {
		text += fmt.Sprintf(", %d values differ", d.Values)
	}
	if repeated := d.Repeated(); repeated != "" {
		text += "; " + repeated
	}
	if d.Explanation != nil {
		text += "\n" + d.Explanation.String()
	}
	if d.Replay != "" {
		text += "\nreplay: " + d.Replay
	}
	return text
}

// rolloutText names a rollout by the words of its key: "route 00000, controller pid".
func rolloutText(s *schema.Schema, key []string) string {
	var words []string
	for i, word := range key {
		if word != "" && i < len(s.Key) {
			words = append(words, s.Key[i]+" "+word)
		}
	}
	return strings.Join(words, ", ")
}

// An Explanation says how both sides chose a stage's value, such as the token, from stages that an
// inexact comparison lets differ (schema.Stage.Soft), such as the probabilities.
type Explanation struct {
	Rollout string `json:"rollout,omitempty"`
	Step    int    `json:"step"`

	Text  string `json:"text,omitempty"` // a line
	Facts []Fact `json:"facts,omitempty"`

	// Explained tells that the stage differs only because the soft ones do. If it differs for
	// another reason, Why says which.
	Explained bool   `json:"explained"`
	Why       string `json:"why,omitempty"`
}

// A Fact is a name and what it stands for.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (e *Explanation) String() string {
	if e.Why == "" {
		return e.Text
	}
	return strings.TrimPrefix(e.Text+"; unexplained: "+e.Why, "; ")
}

// Difference is how far two arrays are apart at most.
type Difference struct {
	Abs  Float  `json:"abs"`
	ULPs uint64 `json:"ulps"`
}

// diff compares two arrays bit by bit. If they differ it returns the first index at which
// they do, and a Divergence that lacks only its place.
func diff(t schema.Type, want, got []byte) *Divergence {
	size := t.Size()
	if len(want) != len(got) {
		return &Divergence{
			Index: -1,
			Want:  fmt.Sprintf("%d values", len(want)/size),
			Got:   fmt.Sprintf("%d values", len(got)/size),
		}
	}
	var d *Divergence
	for i := 0; i < len(want); i += size {
		w, g := t.Bits(want[i:]), t.Bits(got[i:])
		if w == g {
			continue
		}
		if d == nil {
			d = &Divergence{Index: i / size, Want: t.Show(w), Got: t.Show(g), ULPs: t.ULPs(w, g)}
		}
		d.Values++
	}
	return d
}

// Farthest is the greatest absolute difference between two arrays and the greatest in ulps, which
// may be of different elements. It is false if one of the arrays is not there or their lengths
// differ. NaN is infinitely far from all else.
func Farthest(t schema.Type, a, b []byte) (d Difference, ok bool) {
	if len(a) != len(b) || len(a) == 0 {
		return d, false
	}
	for i := 0; i < len(a); i += t.Size() {
		if x, y := t.Bits(a[i:]), t.Bits(b[i:]); x != y {
			d.Abs, d.ULPs = max(d.Abs, apart(t.Float(x), t.Float(y))), max(d.ULPs, t.ULPs(x, y))
		}
	}
	return d, true
}

// apart is how far two numbers are from each other.
func apart(a, b float64) Float {
	if abs := math.Abs(a - b); abs == abs {
		return Float(abs)
	}
	return Float(math.Inf(1))
}

// diffStage compares a stage, in full where both steps have it so.
func diffStage(g *schema.Stage, i int, want, got *schema.Step) *Divergence {
	d := diffDigests(g, i, want, got)
	if d != nil && want.Data[i] != nil && got.Data[i] != nil {
		d = diff(g.Type, want.Data[i], got.Data[i])
		if len(want.Data[i]) == g.Size() { // else the schema's names are not of these elements
			d.Element = g.Element(d.Index)
		}
	}
	return d
}

// diffDigests compares a stage as far as digests tell.
func diffDigests(g *schema.Stage, i int, want, got *schema.Step) *Divergence {
	switch both := want.Has.Has(i) && got.Has.Has(i); {
	case both && want.Bits[i] == got.Bits[i]:
		return nil
	case both && !g.IsArray():
		return diff(
			g.Type, g.Type.AppendBits(nil, want.Bits[i]), g.Type.AppendBits(nil, got.Bits[i]),
		)
	}
	text := func(s *schema.Step) string {
		switch {
		case !s.Has.Has(i):
			return "no value"
		case g.IsArray():
			return fmt.Sprintf("values of hash %016x", s.Bits[i])
		}
		return "a value, " + g.Type.Show(s.Bits[i])
	}
	return &Divergence{Index: -1, Want: text(want), Got: text(got)}
}

// Differ compares two arrays bit by bit, and returns the first index at which they
// differ, with both values; nil if they do not.
func Differ[T float32 | float64 | int32 | int64 | uint8](want, got []T) *Divergence {
	return diff(schema.TypeOf[T](), schema.Bytes(want), schema.Bytes(got))
}

// DifferStep is the first stage in which two steps differ that were both exposed, or that
// one of them lacks; nil if there is none.
func DifferStep(s *schema.Schema, want, got *schema.Step) *Divergence {
	for i := range s.Stages {
		if d := diffStage(&s.Stages[i], i, want, got); d != nil && (want.Has | got.Has).Has(i) {
			d.Step, d.Stage = want.Index, s.Stages[i].Name
			return d
		}
	}
	return nil
}

// DifferOutcome compares outcomes. One NaN is equal to any other: IEEE 754 leaves open which
// sign and payload 0/0 has.
func DifferOutcome(s *schema.Schema, want, got []float64) *Divergence {
	w, g := slices.Clone(want), slices.Clone(got)
	for i := range min(len(w), len(g)) {
		if w[i] != w[i] && g[i] != g[i] {
			g[i] = w[i]
		}
	}
	d := Differ(w, g)
	if d != nil {
		d.Step, d.Stage = -1, s.Outcome.Name
		if d.Index >= 0 && d.Index < len(s.Outcome.Elements) {
			d.Element = s.Outcome.Elements[d.Index]
		}
	}
	return d
}

// Differs says where one rollout parts from another, or nil.
func Differs(s *schema.Schema, want, got []*schema.Step, wantEnd, gotEnd End) error {
	for i := range min(len(want), len(got)) {
		if want[i].Index != got[i].Index {
			return fmt.Errorf("step %d, want step %d", got[i].Index, want[i].Index)
		}
		if d := DifferStep(s, want[i], got[i]); d != nil {
			return d
		}
	}
	if len(want) != len(got) || (wantEnd.Err == nil) != (gotEnd.Err == nil) {
		return fmt.Errorf(
			"%d steps and error %v, want %d and %v", len(got), gotEnd.Err, len(want), wantEnd.Err,
		)
	}
	if d := DifferOutcome(s, wantEnd.Outcome, gotEnd.Outcome); d != nil {
		return d
	}
	return nil
}
