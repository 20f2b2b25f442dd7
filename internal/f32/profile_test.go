package f32

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// TestNamed: a set is found by its name, the first and fastest without one, and where there is none
// it is said which there are.
func TestNamed(t *testing.T) {
	all, names := Available(), []string{}
	for _, k := range all {
		names = append(names, k.Name)
		if got, err := Named(k.Name); err != nil || got != k {
			t.Errorf("%s: %v, %v", k.Name, got, err)
		}
	}
	if got, err := Named(""); err != nil || got != all[0] || Best() != all[0] ||
		all[len(all)-1] != Go {
		t.Errorf("the best of %q is %v, %v", names, got, err)
	}
	want := `no kernels "sse" here, only ` + strings.Join(names, ", ")
	if _, err := Named("sse"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestFor: what a profile decides is in each of its forms what the form's name says, of the set's
// kernels where it has one for it, and no part of a profile decides another's.
func TestFor(t *testing.T) {
	called := ""
	k := &Kernels{}
	set := reflect.ValueOf(k).Elem()
	for i := range set.NumField() { // each kernel says its name
		if f := set.Field(i); f.Kind() == reflect.Func {
			name := set.Type().Field(i).Name
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) (none []reflect.Value) {
				called = name
				for r := range f.Type().Outs() {
					none = append(none, reflect.Zero(r))
				}
				return none
			}))
		}
	}
	const ofNone = "a function of no set"
	says := func(f func()) string {
		called = ofNone
		f()
		return called
	}
	none := make([]float32, 8)
	norms := map[lockstep.LayerNorm]string{
		lockstep.LayerNorm130: "LayerNorm", lockstep.LayerNorm130ARM: "LayerNormARM",
		lockstep.LayerNorm127: ofNone, lockstep.LayerNorm123: ofNone,
	}
	softmaxes := map[lockstep.Softmax]string{
		lockstep.SoftmaxAVX512: "Softmax512 Exp512 16",
		lockstep.SoftmaxAVX2:   "Softmax256 Exp256 8",
		lockstep.SoftmaxNEON:   "Softmax4 Exp256 4",
	}
	exponentials := map[lockstep.Exp]string{
		lockstep.ExpU: "ExpNumPy", lockstep.ExpF: "ExpNumPyFused", lockstep.ExpC: "ExpLibrary",
	}
	for norm, wantNorm := range norms {
		for softmax, wantSoftmax := range softmaxes {
			for exp, wantExp := range exponentials {
				p := lockstep.Profile{LayerNorm: norm, Softmax: softmax, Exp: exp}
				a := k.For(p)
				got := strings.Join([]string{
					says(func() { a.LayerNorm(none, none, none, none) }),
					says(func() { a.Softmax(none, 0, 0, 0) }),
					says(func() { a.Weights(none, none, 0) }), fmt.Sprint(a.Lanes),
					says(func() { a.Exp(none, none, 0) }),
				}, " ")
				if want := wantNorm + " " + wantSoftmax + " " + wantExp; got != want {
					t.Errorf("%v: %s, want %s", p, got, want)
				}
			}
		}
	}
	// The functions of no set, at numbers at which they differ.
	x, ones := []float32{1e4, 1e4 + 1, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4 + 2}, slices.Repeat(
		[]float32{1}, 8)
	want, other := make([]float32, 8), make([]float32, 8)
	LayerNorm127(want, x, ones, none)
	LayerNorm123(other, x, ones, none)
	if slices.Equal(want, other) {
		t.Fatalf("two forms of LayerNorm compute %v", want)
	}
	for norm, want := range map[lockstep.LayerNorm][]float32{
		lockstep.LayerNorm127: want, lockstep.LayerNorm123: other,
	} {
		y := make([]float32, 8)
		p := lockstep.Profile{LayerNorm: norm}
		k.For(p).LayerNorm(y, x, ones, none)
		if err := simtest.Same("normalised", y, want); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}
