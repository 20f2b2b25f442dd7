// Package goldentest gives tests the tables of single operations that Python
// computed (golden/testdata/units.npz).
package goldentest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"lockstep/internal/npz"
)

// Root is the repository's folder golden/testdata.
func Root() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return filepath.Join(dir, "golden", "testdata")
}

var units = sync.OnceValues(func() (map[string]npz.Array, error) {
	return npz.ReadFile(filepath.Join(Root(), "units.npz"))
})

func array(t testing.TB, name string) npz.Array {
	t.Helper()
	arrays, err := units()
	if err != nil {
		t.Fatal(err)
	}
	a, ok := arrays[name]
	if !ok || len(a.Data) == 0 {
		t.Fatalf("units.npz has no array %s, or an empty one", name)
	}
	return a
}

// Array returns the elements of a table.
func Array[T npz.Number](t testing.TB, name string) []T {
	t.Helper()
	elements, err := npz.Elements[T](array(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return elements
}

// Rows returns a table of shape (n, m) as n slices.
func Rows[T npz.Number](t testing.TB, name string) [][]T {
	t.Helper()
	elements, shape := Array[T](t, name), array(t, name).Shape
	if len(shape) != 2 {
		t.Fatalf("table %s has shape %v, want two dimensions", name, shape)
	}
	var rows [][]T
	for i := range shape[0] {
		rows = append(rows, elements[i*shape[1]:(i+1)*shape[1]])
	}
	return rows
}

// Strings returns a table of texts.
func Strings(t testing.TB, name string) []string {
	t.Helper()
	texts, err := npz.Strings(array(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
