package statement

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Deviation is one way to compute an operation otherwise: a kind of mistake at
// one place. The zero value is none.
type Deviation struct{ Kind, Place string }

func (d Deviation) String() string { return d.Place + ": " + d.Kind }

// Kinds of deviations.
const (
	up         = "one ulp up"             // of a constant
	down       = "one ulp down"           // of a constant
	rounded    = "not fused"              // a product is rounded before it is added
	fused      = "fused"                  // a product that should be rounded is not
	reciprocal = "times the reciprocal"   // for a division
	wide       = "in float64"             // for a float32 operation
	narrow     = "in float32"             // for a float64 operation
	otherSide  = "the other side"         // of a comparison, where both are equal
	backwards  = "from the last"          // a sum
	halves     = "in two halves"          // a sum
	tree       = "added as "              // sums that are folded
	chains     = "%d running sums for %d" // elements in turn
)

// Arithmetic is how one evaluation computes: right but for one deviation.
type Arithmetic struct {
	deviation Deviation
	seen      *[]Deviation // where all deviations that there are get collected
	watch     *watched     // of eight sums that are folded
}

// watched are eight sums, as they were folded last, how often eight were, and
// what takes the place of their total.
type watched struct {
	sums    [8]float64
	folds   int
	instead *float64
}

// is reports whether a place deviates in a way.
func (a *Arithmetic) is(kind, place string) bool {
	if a.seen != nil {
		if d := (Deviation{kind, place}); !slices.Contains(*a.seen, d) {
			*a.seen = append(*a.seen, d)
		}
	}
	return a.deviation.Place == place && a.deviation.Kind == kind
}

// c is a constant of float32.
func (a *Arithmetic) c(place string, x float32) float32 {
	switch {
	case a.is(up, place):
		return math.Nextafter32(x, float32(math.Inf(1)))
	case a.is(down, place):
		return math.Nextafter32(x, float32(math.Inf(-1)))
	}
	return x
}

// c64 is a constant of float64.
func (a *Arithmetic) c64(place string, x float64) float64 {
	switch {
	case a.is(up, place):
		return math.Nextafter(x, math.Inf(1))
	case a.is(down, place):
		return math.Nextafter(x, math.Inf(-1))
	case a.is(narrow, place):
		return float64(float32(x))
	}
	return x
}

// fma is x·y + z rounded once.
func (a *Arithmetic) fma(place string, x, y, z float32) float32 {
	if a.is(rounded, place) {
		return float32(x*y) + z
	}
	return fma(x, y, z)
}

// mulAdd is x·y + z rounded twice.
func (a *Arithmetic) mulAdd(place string, x, y, z float32) float32 {
	if a.is(fused, place) {
		return fma(x, y, z)
	}
	return float32(x*y) + z
}

// mulAdd64 is x·y + z rounded twice.
func (a *Arithmetic) mulAdd64(place string, x, y, z float64) float64 {
	if a.is(fused, place) {
		return math.FMA(x, y, z)
	}
	return float64(x*y) + z
}

// div is x/y.
func (a *Arithmetic) div(place string, x, y float32) float32 {
	switch {
	case a.is(reciprocal, place):
		return x * (1 / y)
	case a.is(reciprocal+" in float64", place):
		return float32(float64(x) * (1 / float64(y)))
	}
	return x / y
}

// div64 is x/y.
func (a *Arithmetic) div64(place string, x, y float64) float64 {
	if a.is(reciprocal, place) {
		return x * (1 / y)
	}
	return x / y
}

// fma is x·y + z rounded once. The product is exact in float64; the sum is
// rounded to odd there, which the second rounding survives. TestFMA holds it to
// math/big.
func fma(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := float64(p) + c
	bits := math.Float64bits(s)
	if bits&(1<<29-1) != 1<<28 && bits<<1 >= (1023-126)<<53 {
		return float32(s) // no tie, nor below the normal range
	}
	v := s - p
	if e := (p - (s - v)) + (c - v); e != 0 && bits&1 == 0 && !math.IsInf(s, 0) && s == s &&
		e == e {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}

type float interface{ float32 | float64 }

// sums adds n elements in running sums, element i in sum i mod lanes, with add
// for one element. It deviates in how many sums there are.
func sums[T float](a *Arithmetic, place string, n, lanes int, add func(sum T, i int) T) []T {
	return startedSums(a, place, n, lanes, make([]T, 64), add)
}

// startedSums is sums from the first elements of start.
func startedSums[T float](
	a *Arithmetic, place string, n, lanes int, start []T, add func(sum T, i int) T,
) []T {
	have := lanes
	for _, other := range []int{1, 2, 4, 8, 16, 32} {
		if other != lanes && a.is(fmt.Sprintf(chains, other, lanes), place) {
			have = other
		}
	}
	s := make([]T, max(have, lanes))
	copy(s, start[:lanes])
	switch {
	case a.is(backwards, place):
		for i := n - 1; i >= 0; i-- {
			s[i%have] = add(s[i%have], i)
		}
	case lanes > 1 && a.is("neighbours in one sum", place):
		for i := range n {
			k := i * lanes / n
			s[k] = add(s[k], i)
		}
	case a.is(halves, place):
		second := make([]T, len(s))
		for i := range n {
			if i < n/2 {
				s[i%have] = add(s[i%have], i)
			} else {
				second[i%have] = add(second[i%have], i)
			}
		}
		for i := range s {
			s[i] += second[i]
		}
	default:
		for i := range n {
			s[i%have] = add(s[i%have], i)
		}
	}
	for n := have; n > lanes; n /= 2 { // folded to as many as are wanted
		for i := range n / 2 {
			s[i] += s[i+n/2]
		}
	}
	return s[:lanes]
}

// dot is the chain of fused products acc = fma(x[i], y[i], acc), continued in
// float64 where it deviates so.
func (a *Arithmetic) dot(place string, x, y []float32) float32 {
	if a.is(wide, place) {
		var acc float64
		for i := range x {
			acc += float64(float64(x[i]) * float64(y[i]))
		}
		return float32(acc)
	}
	notFused := a.is(rounded, place)
	return sums(a, place, len(x), 1, func(acc float32, i int) float32 {
		if notFused {
			return float32(x[i]*y[i]) + acc
		}
		return fma(x[i], y[i], acc)
	})[0]
}

// A node is how sums are folded into one: a sum of two nodes, or a leaf.
type node struct {
	left, right *node
	leaf        int
}

func (n *node) String() string {
	if n.left == nil {
		return fmt.Sprint(n.leaf)
	}
	return "(" + n.left.String() + "+" + n.right.String() + ")"
}

// parse reads a tree as node.String writes it.
func parse(s string) (*node, string) {
	if s[0] != '(' {
		return &node{leaf: int(s[0] - '0')}, s[1:]
	}
	left, rest := parse(s[1:])
	right, rest := parse(rest[1:])
	return &node{left: left, right: right}, rest[1:]
}

// trees are all ways to add the leaves from 0 to n-1, sides not counted.
func trees(n int) []*node {
	all := []*node{{leaf: 0}}
	for leaf := 1; leaf < n; leaf++ {
		var next []*node
		for _, t := range all {
			next = append(next, t.joined(leaf)...)
		}
		all = next
	}
	return all
}

// joined are the trees that have one leaf more than n, added at each of its sums
// and leaves.
func (n *node) joined(leaf int) []*node {
	out := []*node{{left: n, right: &node{leaf: leaf}}}
	if n.left != nil {
		for _, l := range n.left.joined(leaf) {
			out = append(out, &node{left: l, right: n.right})
		}
		for _, r := range n.right.joined(leaf) {
			out = append(out, &node{left: n.left, right: r})
		}
	}
	return out
}

func total[T float](n *node, s []T) T {
	if n.left == nil {
		return s[n.leaf]
	}
	return total(n.left, s) + total(n.right, s)
}

// total32 is total in float32.
func total32(n *node, s *[8]float64) float32 {
	if n.left == nil {
		return float32(s[n.leaf])
	}
	return total32(n.left, s) + total32(n.right, s)
}

// Trees in which sums are plausibly folded, besides all of four.
var plausible = map[int][]string{
	8: {
		"(((0+1)+(2+3))+((4+5)+(6+7)))", "(((0+4)+(2+6))+((1+5)+(3+7)))",
		"(((0+4)+(1+5))+((2+6)+(3+7)))",
		"(((0+2)+(1+3))+((4+6)+(5+7)))", "(((0+2)+(4+6))+((1+3)+(5+7)))",
		"(((0+1)+(4+5))+((2+3)+(6+7)))",
		"(((((((0+1)+2)+3)+4)+5)+6)+7)", "(((((((7+6)+5)+4)+3)+2)+1)+0)",
		"((((0+1)+2)+3)+(((4+5)+6)+7))",
		"((((0+4)+(1+5))+(2+6))+(3+7))",
	},
}

var foldsOf4 = func() (all []string) {
	for _, n := range trees(4) {
		all = append(all, n.String())
	}
	return all
}()

var parsed = map[string]*node{}

// fold adds sums as a tree says. The deviations of four sums are all other
// trees, those of eight the plausible ones; Operation.Survivors tries all of
// those.
func fold[T float](a *Arithmetic, place, right string, s []T) T {
	others := plausible[len(s)]
	if len(s) == 4 {
		others = foldsOf4
	}
	use := right
	if a.deviation.Place == place {
		if name, ok := strings.CutPrefix(a.deviation.Kind, tree); ok {
			use = name
		}
	}
	if a.seen != nil {
		wanted, _ := parse(right)
		for _, other := range others {
			if n, _ := parse(other); !n.same(wanted) {
				a.is(tree+other, place)
			}
		}
	}
	if a.watch != nil && len(s) == 8 {
		a.watch.folds++
		for i, x := range s {
			a.watch.sums[i] = float64(x)
		}
		if a.watch.instead != nil {
			return T(*a.watch.instead)
		}
	}
	n := parsed[use]
	if n == nil {
		n, _ = parse(use)
		if len(parsed) < 1000 {
			parsed[use] = n
		}
	}
	return total(n, s)
}

// same reports whether two trees add alike, on whichever side.
func (n *node) same(m *node) bool {
	if n.left == nil || m.left == nil {
		return n.left == m.left && n.leaf == m.leaf
	}
	return n.left.same(m.left) && n.right.same(m.right) ||
		n.left.same(m.right) && n.right.same(m.left)
}
