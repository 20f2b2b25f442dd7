package simtest

import (
	"reflect"
	"testing"
)

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

// TestInsides: a field is found behind so many pointers, interfaces and structs, and no more, so
// that what points to itself has an end.
func TestInsides(t *testing.T) {
	type leaf struct{ a int }
	type first struct{ In any }
	pointers, structs := reflect.ValueOf(leaf{7}), any(leaf{7})
	for behind := range insides + 2 {
		if got := Inside(pointers.Interface(), "a").IsValid(); got != (behind < insides) {
			t.Errorf("behind %d pointers it is found: %v", behind, got)
		}
		if got := Inside(structs, "a").IsValid(); got != (2*behind < insides) {
			t.Errorf("behind %d structs and interfaces it is found: %v", behind, got)
		}
		into := reflect.New(pointers.Type())
		into.Elem().Set(pointers)
		pointers, structs = into, first{structs}
	}
	type ring struct{ next *ring }
	of := &ring{}
	of.next = of
	if Inside(of, "a").IsValid() {
		t.Error("a ring has a field that it has not")
	}
}
