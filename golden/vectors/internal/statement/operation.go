package statement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"lockstep/golden/vectors"
)

// An Operation is what one line of ARITHMETIC.md states, or one part of it.
type Operation struct {
	Name string
	Line string // the first cell of its line

	// Right computes it from a vector's arguments.
	Right func(a *Arithmetic, v vectors.Vector) any

	// Others are alternatives of another structure, by what they do.
	Others map[string]func(v vectors.Vector) any

	// First are arguments that are kept whether or not they tell something apart.
	First []map[string]any

	// Draws make arguments of different kinds.
	Draws []func(r *rand.Rand) map[string]any

	// Fold is the tree in which eight sums are folded, if they are.
	Fold string

	// Tries is how many arguments the search looks at at most.
	Tries int
}

// An Alternative is another way to compute an operation.
type Alternative struct {
	Name string
	Run  func(v vectors.Vector) any
}

// Alternatives are all plausible ones: the deviations that arise on some vectors,
// and Others.
func (o *Operation) Alternatives(vs []vectors.Vector) []Alternative {
	var seen []Deviation
	for _, v := range vs {
		o.Right(&Arithmetic{seen: &seen}, v)
	}
	var all []Alternative
	for _, d := range seen {
		all = append(
			all,
			Alternative{
				d.String(),
				func(v vectors.Vector) any { return o.Right(&Arithmetic{deviation: d}, v) },
			},
		)
	}
	for name, run := range o.Others {
		all = append(all, Alternative{name, run})
	}
	slices.SortFunc(all, func(x, y Alternative) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// Enough is how many vectors the search wants that tell an alternative apart.
const Enough = 2

// Search draws arguments and keeps those that tell apart an alternative that few
// vectors do yet. It returns the vectors, which of them tell each alternative
// apart, and the alternatives for which none was found.
func (o *Operation) Search(
	seed uint64,
) (vs []vectors.Vector, tell map[string][]int, alike []string) {
	r := rand.New(rand.NewPCG(seed, uint64(len(o.Name))))
	draw := func(i int) vectors.Vector {
		var v vectors.Vector
		if i < len(o.First) {
			v.Args = o.First[i]
		} else {
			v.Args = o.Draws[i%len(o.Draws)](r)
		}
		v.Want = o.Right(&Arithmetic{}, v)
		return v
	}
	var samples []vectors.Vector
	for i := range len(o.First) + 4*len(o.Draws) {
		samples = append(samples, draw(i))
	}
	open := o.Alternatives(samples)
	tell = map[string][]int{}
	for i := 0; i < len(o.First) || i < o.Tries && len(open) > 0; i++ {
		v, kept := draw(i), false
		if i < len(o.First) {
			vs, kept = append(vs, v), true
		}
		for k := 0; k < len(open); k++ {
			name := open[k].Name
			if vectors.Difference(open[k].Run(v), v.Want) == "" {
				continue
			}
			if !kept {
				vs, kept = append(vs, v), true
			}
			tell[name] = append(tell[name], len(vs)-1)
			if len(tell[name]) == Enough {
				open = slices.Delete(open, k, k+1)
				k--
			}
		}
	}
	for _, a := range open {
		if len(tell[a.Name]) == 0 {
			alike = append(alike, a.Name)
		}
	}
	left := o.folds()
	for i := 0; i < len(vs); i++ {
		left = o.survivors(vs[i], left)
	}
	for i := range o.Tries {
		if len(left) == 0 {
			break
		}
		v := draw(len(o.First) + i)
		if still := o.survivors(v, left); len(still) < len(left) {
			vs, left = append(vs, v), still
		}
	}
	if len(left) > 0 {
		alike = append(alike, fmt.Sprintf("%d folds of eight sums", len(left)))
	}
	return vs, tell, alike
}

// folds are all other ways to fold the eight sums; there are 135,134.
func (o *Operation) folds() (all []*node) {
	if o.Fold == "" {
		return nil
	}
	right, _ := parse(o.Fold)
	for _, n := range foldsOf8() {
		if !n.same(right) {
			all = append(all, n)
		}
	}
	return all
}

var foldsOf8 = sync.OnceValue(func() []*node { return trees(8) })

// survivors are those of some folds that give the right bits on a vector, too.
// Many folds have one total, which is tried once.
func (o *Operation) survivors(v vectors.Vector, folds []*node) []*node {
	var w watched
	o.Right(&Arithmetic{watch: &w}, v)
	if w.folds != 1 {
		return folds
	}
	_, narrow := v.Want.([]float32)
	right := map[float64]bool{}
	var left []*node
	for _, n := range folds {
		x := total(n, w.sums[:])
		if narrow {
			x = float64(total32(n, &w.sums))
		}
		same, known := right[x]
		if !known {
			same = vectors.Difference(
				o.Right(&Arithmetic{watch: &watched{instead: &x}}, v), v.Want,
			) == ""
			right[x] = same
		}
		if same {
			left = append(left, n)
		}
	}
	return left
}

// Operations are all of them, in the order of ARITHMETIC.md.
func Operations() []Operation {
	return slices.Concat(
		products(), layerNorms(), elementary(), softmaxes(), inputs(), sine(), random(), tokens(),
		rollout(), controllers(),
	)
}

// args are a vector's arguments: names and values in turn.
func args(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// What arguments are made of.

func normals(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(scale * r.NormFloat64())
	}
	return x
}

func normals64(r *rand.Rand, n int, scale float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = scale * r.NormFloat64()
	}
	return x
}

// cancelling are normals among which large numbers cancel, so that the order of
// adding shows in what is left.
func cancelling(r *rand.Rand, n int, large float64) []float32 {
	x, order := normals(r, n, 1), r.Perm(n)
	for i := 0; i+1 < n/2; i += 2 {
		v := float32(large * r.NormFloat64())
		x[order[i]], x[order[i+1]] = v, -v
	}
	return x
}

// spread are normals of very different sizes.
func spread(r *rand.Rand, n, exponents int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(exponents)-exponents/2))
	}
	return x
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// Alternatives are what the search found for an operation: an entry of
// alternatives.json.
type Alternatives struct {
	Operation, Line string
	Vectors         int
	Tell            map[string][]int // by alternative, the vectors that tell it apart
	Tried           int
	// alternatives that differ on none of the arguments tried
	Alike []string `json:",omitempty"`
}
