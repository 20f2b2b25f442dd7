package confused

import (
	"fmt"
	"testing"
)

// TestShow prints what a mutant makes of each function.
func TestShow(*testing.T) {
	all, m, text := row{1, 2, 3}, map[string]int{"a": 1}, []byte("abc")
	a, b, c, d, e, f := copies(all, m, text)
	x, y := others(all)
	all[0], m["a"], text[0] = 9, 9, '9'
	fmt.Println("copies", a, b, c, d, e, string(f), x, y)
	fmt.Println("elements",
		elements(row{1, 2}, [2]int{3, 4}, "ab", map[int]int{0: 5, 1: 6}, 1))
	fmt.Println("loops", loops(row{1, 2}, [2]int{3, 4}, map[int]int{1: 1}, 3))
	shown, returned := numbers(0.1, 1<<40+1, -1<<40-2, 6)
	fmt.Println("numbers", shown, returned)
	for _, on := range []bool{false, true} {
		shown, known := conditions(on, !on, flag(on))
		fmt.Println("conditions", on, shown, known)
	}
}
