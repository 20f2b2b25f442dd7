// Package forgotten has what people forget or mix up, for each operator that leaves such out.
package forgotten

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
)

const (
	size          = 3
	share float32 = 0.5
)

type row struct {
	at   [size]int
	next *row
	name string
	wait time.Duration
	err  error
}

func (r *row) reset() { r.at = [size]int{} }

// statements are calls and assignments, of which one is a loop's.
func statements(x int) (r row, y int) {
	r.at[0] = x
	copy(r.at[1:], []int{4, 5})
	defer func() { r.name = "end" }()
	switch {
	case x > 1:
		r.reset()
	case x < 0:
		panic(x)
	}
	var i int
	for i = 0; i < x; i = next(i) {
		_ = i
	}
	y, _ = i, 0
	return r, y
}

func next(i int) int { return i + 1 }

// fields are those of literals; of other packages' types, too.
func fields(x int) row {
	other := &row{name: "other"}
	return row{at: [size]int{x}, next: other, wait: size, name: "", err: nil}
}

func wide(x int) (int, bool) {
	r := row{err: &os.PathError{Op: "op"}, at: [size]int{x}, wait: 0}
	return r.at[0], r.err != nil
}

// arguments are neighbours of one type; those of max, and what is printed, are none.
func arguments(a, b int, c float64) string {
	all := []int{a, b}
	out := fmt.Sprint(less(a, b), " ", less(7, 1), max(a, b), c, a, b)
	out += fmt.Sprint(mixed(a, c, 0.25), less(next(a), b), less(all[0], all[0]))
	return out + fmt.Sprint(less(a, b, all...), many(all, all[:1]...))
}

func many(all []int, more ...int) int { return len(all) - len(more) }

func less(a, b int, more ...int) bool { return a < b }

func mixed(a int, b, c float64) float64 { return float64(a) + b/c }

// constants are numbers, and names of numbers; a table's are none, nor a capacity.
func constants(x float64, i int) string {
	table := []float64{1, 2}
	buffer := make([]byte, 1, 9)
	x *= 0.75 * math.Floor(math.Pi)
	if i == -1 {
		i = size
	}
	half, _ := strconv.ParseFloat("0.5", 64)
	text := fmt.Sprint(x*half, float32(x)*share, table, len(buffer))
	return text + strconv.Itoa(i<<2)
}
