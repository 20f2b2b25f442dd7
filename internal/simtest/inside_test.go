package simtest

import "testing"

// TestInside: a field is found behind pointers, interfaces and structs, the outer one first.
func TestInside(t *testing.T) {
	type deep struct{ a, b int }
	type outer struct {
		none *deep
		any  any
		b    int
	}
	of := &outer{none: nil, any: &deep{a: 4, b: 5}, b: 6}
	if a, b, c := Inside(of, "a"), Inside(of, "b"), Inside(of, "c"); a.Int() != 4 || b.Int() != 6 ||
		c.IsValid() {
		t.Errorf("a is %v, b %v, and c %v: want 4, 6 and none", a, b, c)
	}
}
