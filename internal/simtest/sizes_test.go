package simtest

import (
	"fmt"
	"testing"
)

type cuts []int

func (c cuts) Cuts() []int { return c }

func TestAwkward(t *testing.T) {
	for want, of := range map[string][]any{
		"[1 2]":                         {"whole"},
		"[1 2 3]":                       {cuts{1}},
		"[1 2 3 4 5 7 8 9]":             {cuts{4}, "whole", cuts{2}},
		"[1 2 7 8 9 15 16 17]":          {cuts{8}},
		"[1 2 7 8 9 15 16 17 31 32 33]": {cuts{8, 16}},
	} {
		if got := fmt.Sprint(Awkward(of...)); got != want {
			t.Errorf("sizes of %v are %s, want %s", of, got, want)
		}
	}
}
