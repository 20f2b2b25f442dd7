package guard

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEach: every call is made, those after one that ends early too, and each of
// these is reported with its cause.
func TestEach(t *testing.T) {
	own := errors.New("own")
	var called, failed []string
	Each(6, func(i int) {
		called = append(called, fmt.Sprint(i))
		switch i {
		case 0, 5:
			runtime.Goexit()
		case 1:
			panic("one")
		case 3:
			Fail(own)
		}
	}, func(i int, err error) {
		line, _, _ := strings.Cut(err.Error(), "\n")
		failed = append(failed, fmt.Sprint(i, " ", line, " ", err == own))
	})
	if d := cmp.Diff([]string{"0", "1", "2", "3", "4", "5"}, called); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	const exit = " it called runtime.Goexit, as t.Fatal does false"
	want := []string{"0" + exit, "1 panic: one false", "3 own true", "5" + exit}
	if d := cmp.Diff(want, failed); d != "" {
		t.Errorf("failures (-want +got):\n%s", d)
	}
	Each(0, func(int) { t.Error("a call of none") }, nil)
}

func TestDo(t *testing.T) {
	if err := Do(func() {}); err != nil {
		t.Error(err)
	}
	if err := Do(func() { var p *int; *p = 1 }); err == nil ||
		!strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("error %v, want the panic's", err)
	}
}
