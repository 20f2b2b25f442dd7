package simtest

import (
	"reflect"
	"testing"
)

// Fields calls f with each field of some structs and its line in a table, in which it is called
// Type.Field, embedded structs being fields. A field without a line fails, so that nothing that is
// new is forgotten, and so does a line that is of no field.
func Fields[L any](
	t testing.TB, lines map[string]L, f func(name string, line L), types ...reflect.Type,
) {
	t.Helper()
	known := map[string]bool{}
	for _, of := range types {
		for i := range of.NumField() {
			name := of.Name() + "." + of.Field(i).Name
			known[name] = true
			if line, ok := lines[name]; ok {
				f(name, line)
			} else {
				t.Errorf("%s: this test has no line of it", name)
			}
		}
	}
	for name := range lines {
		if !known[name] {
			t.Errorf("%s: there is no such field", name)
		}
	}
}
