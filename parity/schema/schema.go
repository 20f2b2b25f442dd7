// Package schema describes what a step simulator computes, so that comparisons, traces
// and reports need to know nothing of it: the stages of a step in the order of
// computation, what each is computed from, and what a rollout comes to.
//
// A Schema is data, which a trace carries in its header. A View is a Schema together
// with the places of its values in a simulator's own steps.
package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A Schema describes the rollouts of one family of simulators.
type Schema struct {
	Name string `json:"name"`

	// Key names what tells rollouts apart, such as a route and a controller. A rollout is
	// computed from Key[0], for example its route. If the two sides have other contents
	// for it, that is a finding whose stage is Key[0].
	Key []string `json:"key"`

	// First is the index of a rollout's first step. Steps before Warmup are a warm-up,
	// in which Given stages are inputs and Skipped ones are not computed. Steps from End
	// on are not compared; 0 compares all.
	First  int `json:"first,omitempty"`
	Warmup int `json:"warmup,omitempty"`
	End    int `json:"end,omitempty"`

	Stages  []Stage `json:"stages"` // of a step, in the order of computation
	Outcome Outcome `json:"outcome"`
}

// A Stage is one value that every implementation computes at every step: a number, or
// an array of a fixed shape.
type Stage struct {
	Name  string  `json:"name"`
	Type  Type    `json:"type"`
	Shape []int   `json:"shape,omitempty"` // of an array; a number has none
	From  []Input `json:"from,omitempty"`  // what it is computed from

	Given   bool `json:"given,omitempty"`   // in a warm-up it is an input of the rollout
	Skipped bool `json:"skipped,omitempty"` // in a warm-up it is not computed
	Teach   bool `json:"teach,omitempty"`   // later steps can be forced to go on from another's
	Soft    bool `json:"soft,omitempty"`    // may differ in an inexact comparison
	Effect  bool `json:"effect,omitempty"`  // a number of which reports say how it went

	// Optional: not every rollout has it. One that only one of two engines shows is missing.
	Optional bool `json:"optional,omitempty"`

	// Elements name parts of the last axis, in order.
	Elements []Element `json:"elements,omitempty"`

	// Varies: some rollouts have an array of another length. Of those a trace keeps digests, and
	// the elements have no names here.
	Varies bool `json:"varies,omitempty"`
}

// An Element is the name of Count neighbours in the last axis of an array.
type Element struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// An Input is a stage that another is computed from: of the same step if Steps is 0, of
// that many steps before it, or of All before it.
type Input struct {
	Stage string `json:"stage"`
	Steps int    `json:"steps,omitempty"`
}

// All is the Steps of an Input of all steps before.
const All = -1

// Same, Last and Before make inputs: of the same step, of the last n steps before it,
// of all steps before it.
func Same(stage string) Input        { return Input{stage, 0} }
func Last(n int, stage string) Input { return Input{stage, n} }
func Before(stage string) Input      { return Input{stage, All} }

// An Outcome is what a rollout comes to: some numbers, float64, computed from stages of
// the steps from Begin up to but without End; 0 is the rollout's own.
type Outcome struct {
	Name     string   `json:"name"`
	Elements []string `json:"elements"`
	From     []string `json:"from,omitempty"`
	Begin    int      `json:"begin,omitempty"`
	End      int      `json:"end,omitempty"`
}

// Extent is the name of the stage that is at fault where rollouts do not have the same
// steps or do not end alike.
const Extent = "steps"

// MaxStages is the most that a Set holds.
const MaxStages = 32

// maxArray bounds the bytes of an array.
const maxArray = 1 << 19

// Validate returns what is wrong with a schema.
func (s *Schema) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("schema %.60q: %w", s.Name, fmt.Errorf(format, args...))
	}
	switch {
	case len(s.Stages) == 0 || len(s.Stages) > MaxStages:
		return fail("%d stages, want 1 to %d", len(s.Stages), MaxStages)
	case len(s.Key) == 0 || s.Outcome.Name == "":
		return fail("no key, or an outcome without a name")
	case s.First < 0 || s.Warmup < 0 || s.End < 0:
		return fail("steps %d, %d and %d, want none below 0", s.First, s.Warmup, s.End)
	}
	for _, name := range s.names() {
		if strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return fail("the name %.60q has characters that cannot be printed", name)
		}
	}
	names := []string{s.Key[0], s.Outcome.Name, Extent}
	for i := range s.Stages {
		g := &s.Stages[i]
		if g.Name == "" || slices.Contains(names, g.Name) {
			return fail("stage %.60q has no name, or another's", g.Name)
		}
		if err := g.validate(); err != nil {
			return fail("stage %.60q: %w", g.Name, err)
		}
		if in := s.early(i); in != nil {
			return fail(
				"stage %.60q is computed from %.60q of %d steps before, which is not there yet",
				g.Name, in.Stage, in.Steps,
			)
		}
		names = append(names, g.Name)
	}
	for _, from := range s.Outcome.From {
		if s.Index(from) < 0 {
			return fail("%.60s are computed from %.60q, which is no stage", s.Outcome.Name, from)
		}
	}
	return nil
}

// early is an input of stage i that is not there yet when it is computed, or nil.
func (s *Schema) early(i int) *Input {
	for k, in := range s.Stages[i].From {
		at := s.Index(in.Stage)
		if at < 0 || in.Steps < All || in.Steps == 0 && at >= i {
			return &s.Stages[i].From[k]
		}
	}
	return nil
}

// names are all that reports print of a schema.
func (s *Schema) names() []string {
	all := slices.Concat([]string{s.Name, s.Outcome.Name}, s.Key, s.Outcome.Elements)
	for i := range s.Stages {
		all = append(all, s.Stages[i].Name)
		for _, e := range s.Stages[i].Elements {
			all = append(all, e.Name)
		}
	}
	return all
}

func (g *Stage) validate() error {
	bytes := g.Type.Size()
	if bytes == 0 {
		return fmt.Errorf("type %.60q is not known, want one of %s", g.Type, types)
	}
	for _, n := range g.Shape {
		if n < 1 || bytes > maxArray/n {
			return fmt.Errorf(
				"shape %.60s, want dimensions of 1 and more, and %d bytes at most",
				fmt.Sprint(g.Shape), maxArray,
			)
		}
		bytes *= n
	}
	if g.Effect && g.IsArray() || (len(g.Elements) > 0 || g.Varies) && !g.IsArray() {
		return errors.New("an array has no effect, and a number no elements and one length")
	}
	return nil
}

// Index is the position of a stage, -1 if there is none of that name.
func (s *Schema) Index(name string) int {
	return slices.IndexFunc(s.Stages, func(g Stage) bool { return g.Name == name })
}

// Required are the names of the stages that every rollout has, and of the outcome.
func (s *Schema) Required() (names []string) {
	for i := range s.Stages {
		if !s.Stages[i].Optional {
			names = append(names, s.Stages[i].Name)
		}
	}
	return append(names, s.Outcome.Name)
}

// Set is the set of the stages of these names, which must be there.
func (s *Schema) Set(names ...string) (set StageSet) {
	for _, name := range names {
		set |= 1 << s.Index(name)
	}
	return set
}

// Known reports whether a stage can be at fault: the inputs, those of a step, the
// outcome, the extent.
func (s *Schema) Known(name string) bool {
	return s.Index(name) >= 0 || slices.Contains([]string{s.Key[0], s.Outcome.Name, Extent}, name)
}

// Warm reports whether a step is one of the warm-up.
func (s *Schema) Warm(step int) bool { return step < s.Warmup }

// Agree returns why values of two schemas cannot be held to each other.
func Agree(a, b *Schema) error {
	if a.Name != b.Name || a.First != b.First || !slices.Equal(a.Key, b.Key) ||
		!slices.Equal(a.Outcome.Elements, b.Outcome.Elements) {
		return fmt.Errorf("%.60s and %.60s are other simulators", a.Name, b.Name)
	}
	for i := range a.Stages {
		g := &a.Stages[i]
		if k := b.Index(g.Name); k >= 0 &&
			(b.Stages[k].Type != g.Type || !slices.Equal(b.Stages[k].Shape, g.Shape)) {
			return fmt.Errorf(
				"stage %.60s is %s %v on one side and %s %v on the other", g.Name, g.Type, g.Shape,
				b.Stages[k].Type, b.Stages[k].Shape,
			)
		}
	}
	return nil
}

// IsArray reports whether the stage is an array, and not a number.
func (g *Stage) IsArray() bool { return len(g.Shape) > 0 }

// Size is the number of bytes of a value.
func (g *Stage) Size() int {
	n := g.Type.Size()
	for _, d := range g.Shape {
		n *= d
	}
	return n
}

// Element is the name of the value at an index of the array, "" if it has none.
func (g *Stage) Element(index int) string {
	if !g.IsArray() || index < 0 {
		return ""
	}
	at := index % g.Shape[len(g.Shape)-1]
	for _, e := range g.Elements {
		if at < e.Count {
			return e.Name
		}
		at -= e.Count
	}
	return ""
}

// A StageSet is a set of a schema's stages, a bit for each.
type StageSet uint32

// Has reports whether the stage at an index is in the set.
func (set StageSet) Has(stage int) bool { return set>>stage&1 == 1 }

// Arrays are the stages that are arrays.
func (s *Schema) Arrays() StageSet {
	return s.filter(func(g *Stage) bool { return g.IsArray() })
}

// At are the stages that a step must have.
func (s *Schema) At(step int) StageSet {
	return s.filter(func(g *Stage) bool { return !g.Optional && !(g.Skipped && s.Warm(step)) })
}

func (s *Schema) filter(keep func(*Stage) bool) (set StageSet) {
	for i := range s.Stages {
		if keep(&s.Stages[i]) {
			set |= 1 << i
		}
	}
	return set
}
