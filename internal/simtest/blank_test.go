package simtest

import (
	"reflect"
	"testing"
)

func TestBlank(t *testing.T) {
	type inner struct {
		Name   string
		Deep   [][]float64
		hidden []int
	}
	type outer struct {
		*inner
		Of    *inner
		All   []inner
		Alone int
		None  *inner
		Last  []int
	}
	got := outer{
		Of: &inner{"a", [][]float64{{1, 2}, {3}}, []int{4}}, All: []inner{{Name: "b"}}, Alone: 5,
		Last: []int{6, 7},
	}
	want := outer{
		Of: &inner{"", [][]float64{{0, 0}, {0}}, []int{4}}, All: []inner{{}}, Alone: 5,
		Last: []int{0, 0},
	}
	if n := Blank(got); n != 7 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d blanked, want 7: %+v, want %+v", n, got, want)
	}
}
