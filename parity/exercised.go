package parity

import (
	"fmt"
	"math"
	"strings"

	"lockstep/parity/schema"
)

// A Branch is one of the specification's branches or boundary cases.
type Branch struct {
	Name string `json:"name"`
	Is   string `json:"is"` // in some words
}

// A Watcher looks at one rollout of a comparison, at one of its sides, for the branches
// that it goes through. It is asked in the order of the steps, by one goroutine at a time.
type Watcher interface {
	Step(s *schema.Step)
	End(end End) Watched
}

// Watched is what a Watcher saw of a rollout.
type Watched struct {
	Times   []int    // at how many steps, or in how many rollouts, by branch
	Nearest *Nearest // nil if no choice was seen
}

// Nearest is the choice that came nearest to another.
type Nearest struct {
	Rollout  string `json:"rollout"`
	Step     int    `json:"step"`
	Draw     Float  `json:"draw"`
	Edge     Float  `json:"edge"`
	Distance Float  `json:"distance"`
}

func (n *Nearest) String() string {
	return fmt.Sprintf(
		"the draw nearest to an edge of the CDF is %.3g from it, at %s, step %d",
		float64(n.Distance), n.Rollout, n.Step,
	)
}

// Exercised says which of the specification's branches the rollouts went through, and how
// near one came to another: what was compared says nothing of the others.
type Exercised struct {
	Branches []BranchTimes `json:"branches"`
	Nearest  *Nearest      `json:"nearest,omitempty"`
}

// BranchTimes is how often a branch was taken.
type BranchTimes struct {
	Branch
	Times    int `json:"times"`
	Rollouts int `json:"rollouts"`
}

// newExercised has no branch taken; it is nil for a family without any.
func newExercised(branches []Branch) *Exercised {
	if len(branches) == 0 {
		return nil
	}
	e := &Exercised{}
	for _, b := range branches {
		e.Branches = append(e.Branches, BranchTimes{Branch: b})
	}
	return e
}

// add counts what was seen of a rollout.
func (e *Exercised) add(s Watched) {
	for i, n := range s.Times {
		if n > 0 {
			e.Branches[i].Times += n
			e.Branches[i].Rollouts++
		}
	}
	if s.Nearest != nil && (e.Nearest == nil || s.Nearest.Distance < e.Nearest.Distance) {
		e.Nearest = s.Nearest
	}
}

// Never are the names of the branches that were not taken.
func (e *Exercised) Never() (names []string) {
	for _, b := range e.Branches {
		if b.Times == 0 {
			names = append(names, b.Name)
		}
	}
	return names
}

// maxNever is how many names String lists.
const maxNever = 8

// String is "exercised 41 of 48; never: …".
func (e *Exercised) String() string {
	never := e.Never()
	text := fmt.Sprintf(
		"exercised %d of %d branches of the specification", len(e.Branches)-len(never),
		len(e.Branches),
	)
	if n := len(never); n > maxNever {
		never = append(never[:maxNever], fmt.Sprintf("and %d more", n-maxNever))
	}
	if len(never) > 0 {
		text += "; never: " + strings.Join(never, ", ")
	}
	return text
}

// Near is the nearer of two edges to a draw, of the CDF's values before and at a token.
func Near(draw, before, at float64) (edge float64) {
	if math.Abs(before-draw) < math.Abs(at-draw) {
		return before
	}
	return at
}

// watch makes the watchers of some tasks, none for a family without branches. They look at
// one side: the yardstick if it is live, else the other if that is, since recordings lack
// arrays.
func (c *comparison) watch(tasks []RolloutTask) {
	c.watchers = nil
	if c.family.Watch == nil {
		return
	}
	if c.watched = wanted; !c.live[wanted] && c.live[gotten] {
		c.watched = gotten
	}
	for i := range tasks {
		c.watchers = append(c.watchers, c.family.Watch(&tasks[i]))
	}
}

// seen enters what the watchers saw of the first pass, and ends their work.
func (c *comparison) seen(pairings []*pairing) {
	for i, w := range c.watchers {
		side := pairings[i].running
		if c.watched == c.held {
			side = pairings[i].held
		}
		if side.end.of == nil {
			continue
		}
		s := w.End(side.end)
		if s.Nearest != nil {
			s.Nearest.Rollout = pairings[i].Rollout
		}
		c.report.Exercised.add(s)
	}
	c.watchers = nil
}
