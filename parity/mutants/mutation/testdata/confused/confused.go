// Package confused has what people take for something else, for each operator that does so.
package confused

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
)

type (
	row  []int
	flag bool
	pair struct {
		share float64
		seed  uint64
		whole int64
	}
)

// copies are those by Clone, and what is appended to nothing of its own type.
func copies(all row, m map[string]int, b []byte) (row, row, row, row, map[string]int, []byte) {
	a, c := slices.Clone(all), append(row{}, all...)
	d, e := append(row(nil), all...), append(row{1}, all...)
	return a, c, d, e, maps.Clone(m), bytes.Clone(b)
}

// others are a copy of another type, and one of what a call returns.
func others(all row) ([]int, row) {
	return append([]int{}, all...), slices.Clone(fresh(all))
}

func fresh(all row) row { return all[:len(all):len(all)] }

// elements are those that a variable chooses, of what is counted by integers.
func elements(all row, at [2]int, text string, m map[int]int, i int) string {
	p, grid := &at, [][]int{{1, 2}, {3, 4}}
	all[i] = 7
	return fmt.Sprint(all, at[i], p[i], text[i], grid[i][i], m[i], all[0])
}

// loops leave out the last: of elements, of an array's places, of a number; not those of an
// array's elements, nor of what has no order.
func loops(all row, at [2]int, m map[int]int, n uint8) (sum int) {
	for i, x := range all {
		sum += i + x
	}
	for i := range at {
		sum += 10 * at[i]
	}
	for _, x := range at {
		sum += x
	}
	for range m {
		sum++
	}
	for i := range n {
		sum += 100 * int(i)
	}
	for range 3 {
		sum += 1000
	}
	for i := 0; i < len(all); i++ {
		sum += 10000
	}
	for i := uint8(1); i <= 2; i++ {
		sum += 100000
	}
	return sum
}

// numbers of 64 bits are cut where they are given, put into a struct and returned; not those that
// are converted or printed, nor where 32 bits say the same.
func numbers(x float64, seed uint64, whole int64, n int) (string, float64) {
	p := pair{share: x, seed: seed, whole: 5}
	q := pair{p.share, 1, whole}
	text := fmt.Sprint(p, q, x, less(x, 0.1), less(0.1, float64(n)), math.IsNaN(x))
	return text + fmt.Sprint(less(0.2, math.NaN())), x
}

func less(x, y float64) bool { return x < y }

// conditions compare nothing.
func conditions(a, b bool, f flag) (string, bool) {
	text := ""
	if a {
		text += "a"
	}
	if f {
		text += "f"
	}
	if !(b) && less(1, 2) || bool(f) {
		text += "b"
	}
	for a {
		text += "loop"
		break
	}
	switch {
	case b:
		text += "case"
	case 1 < 2:
	}
	return text, true
}
