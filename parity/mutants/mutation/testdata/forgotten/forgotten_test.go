package forgotten

import (
	"fmt"
	"testing"
)

// TestShow prints what a mutant makes of each function.
func TestShow(*testing.T) {
	r, y := statements(1)
	s, z := statements(2)
	fmt.Printf("statements %v %d %q %v %d %q\n", r.at, y, r.name, s.at, z, s.name)
	f := fields(6)
	fmt.Println("fields", f.at, f.next != nil && f.next.name != "", f.next != nil, f.wait)
	value, err := wide(7)
	fmt.Println("wide", value, err)
	fmt.Println("arguments", arguments(3, 4, 0.5))
	fmt.Println("constants", constants(4, 1), constants(4, -1))
}
