package simtest

import "slices"

// Awkward are sizes at which an engine's work is cut, one beside each, and twice as many: of what
// says into how many it cuts. Others, such as the specification, cut nothing.
func Awkward(of ...any) []int {
	sizes := []int{1, 2}
	for _, e := range of {
		if e, ok := e.(interface{ Cuts() []int }); ok {
			for _, n := range e.Cuts() {
				sizes = append(sizes, n-1, n, n+1, 2*n-1, 2*n, 2*n+1)
			}
		}
	}
	slices.Sort(sizes)
	return slices.DeleteFunc(slices.Compact(sizes), func(n int) bool { return n < 1 })
}
