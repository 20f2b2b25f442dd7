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

// TestEachOfSome: whichever calls end early, at both ends and in a row, all are made in order, and
// those are reported.
func TestEachOfSome(t *testing.T) {
	for n := range 5 {
		for bad := range 1 << n {
			calls, failures := 0, 0
			Each(n, func(i int) {
				if i != calls || i >= n {
					t.Fatalf("%d of %d is called after %d", i, n, calls)
				}
				if calls++; bad>>i&1 == 1 {
					panic("bad")
				}
			}, func(i int, err error) {
				if failures |= 1 << i; err == nil {
					t.Errorf("%d of %d failed without an error", i, n)
				}
			})
			if calls != n || failures != bad {
				t.Errorf("%d of %d calls; %b failed, want %b", calls, n, failures, bad)
			}
		}
	}
}

// TestNobody: nil and nil pointers and functions are nobody, whatever interface they are in; an
// empty value that can be called is not.
func TestNobody(t *testing.T) {
	var wrapped error = (*one)(nil)
	for i, c := range []struct {
		made any
		want bool
	}{
		{nil, true}, {(*one)(nil), true}, {wrapped, true}, {(func())(nil), true},
		{&one{}, false}, {one{}, false}, {func() {}, false}, {[]int(nil), false}, {0, false},
	} {
		if Nobody(c.made) != c.want {
			t.Errorf("case %d, %T: %v, want %v", i, c.made, !c.want, c.want)
		}
	}
}

type one struct{}

func (one) Error() string { return "one" }

func TestDo(t *testing.T) {
	own := errors.New("own")
	for what, f := range map[error]func() error{
		nil: func() error { return nil }, own: func() error { return own },
	} {
		if err := Try(f); err != what {
			t.Errorf("%v, want %v", err, what)
		}
	}
	if err := Try(func() error { Fail(own); return nil }); err != own {
		t.Errorf("%v, want %v", err, own)
	}
	if err := Do(func() {}); err != nil {
		t.Error(err)
	}
	if err := Do(func() { var p *int; *p = 1 }); err == nil ||
		!strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("error %v, want the panic's", err)
	}
}
