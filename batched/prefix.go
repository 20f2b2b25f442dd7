package batched

import (
	"math"

	"lockstep/internal/model"
)

// plan says which rows a run computes. Where the inputs of two sequences are equal from the
// first position on, so is all that follows from them up to there, since a position sees
// none behind it: it is computed for the first of the two, which lends its keys and values.
//
// One thing a position does see of those behind it: their values, times a weight of +0. That
// changes a sum that is -0, and one that is finite where the value is not. So what is lent
// must be neither zero nor infinite nor NaN; else each sequence is computed by itself.
type plan struct {
	unique []int              // sequences of which none before is equal
	same   []int              // of every sequence: which of the unique ones it equals
	start  []int              // of every unique one: its first row; and the end
	shared []int              // of every unique one: how many positions it has from others
	rows   [][positions]int32 // of every unique one: the row of each position
	lent   []bool             // of every row
}

func newPlan(capacity int) plan {
	return plan{
		unique: make([]int, 0, capacity),
		same:   make([]int, capacity),
		start:  make([]int, 1, capacity+1),
		shared: make([]int, 0, capacity),
		rows:   make([][positions]int32, 0, capacity),
		lent:   make([]bool, capacity*positions),
	}
}

// count is how many rows there are.
func (p *plan) count() int { return p.start[len(p.unique)] }

// arrange plans a run of so many sequences, or one that shares nothing.
func (n *network) arrange(count int, share bool) {
	p := &n.plan
	p.unique, p.start, p.shared, p.rows = p.unique[:0], p.start[:1], p.shared[:0], p.rows[:0]
	clear(p.lent)
	for s := range count {
		from, most := -1, 0
		for u := 0; share && u < len(p.unique) && most < positions; u++ {
			if common := n.common(p.unique[u], s); common > most {
				from, most = u, common
			}
		}
		if most == positions {
			p.same[s] = from
			continue
		}
		p.same[s] = len(p.unique)
		p.add(s, from, most)
	}
}

// add plans a sequence that has so many positions from another.
func (p *plan) add(sequence, from, shared int) {
	first := p.count()
	var rows [positions]int32
	for i := range rows {
		rows[i] = int32(first + i - shared)
		if i < shared {
			rows[i] = p.rows[from][i]
			p.lent[rows[i]] = true
		}
	}
	p.unique, p.shared, p.rows = append(p.unique, sequence), append(p.shared, shared),
		append(p.rows, rows)
	p.start = append(p.start, first+positions-shared)
}

// common is how many leading positions of two sequences have the same bits.
func (n *network) common(a, b int) int {
	for i := range positions {
		x, y := a*positions+i, b*positions+i
		if n.tokens[x] != n.tokens[y] {
			return i
		}
		for k := range model.StateSize {
			if math.Float32bits(n.states[x*model.StateSize+k]) !=
				math.Float32bits(n.states[y*model.StateSize+k]) {
				return i
			}
		}
	}
	return positions
}

// lend keeps the keys and values of the rows from first on that other sequences use.
func (n *network) lend(first, rows int) {
	for r := range rows {
		if n.plan.lent[first+r] {
			copy(n.kept[(first+r)*2*width:][:2*width], n.qkv[r*qkvStride+width:])
		}
	}
}

// keysOf are the keys of all positions of a unique sequence, whose own rows begin in
// qkv. The values follow width further in each row.
func (n *network) keysOf(u int, own []float32) []float32 {
	shared := n.plan.shared[u]
	if shared == 0 {
		return own[width:]
	}
	for i, row := range n.plan.rows[u] {
		into := n.window[i*qkvStride+width:][:2*width]
		if i < shared {
			copy(into, n.kept[int(row)*2*width:])
		} else {
			copy(into, own[(i-shared)*qkvStride+width:])
		}
	}
	return n.window[width:]
}

// ordinary reports whether attention's output of the lent rows from first on is one that no
// masked value can have changed.
func (n *network) ordinary(first, rows int) bool {
	for r := range rows {
		if !n.plan.lent[first+r] {
			continue
		}
		for _, x := range n.a[r*width:][:width] {
			if x == 0 || x-x != 0 {
				return false
			}
		}
	}
	return true
}
