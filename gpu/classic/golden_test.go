package classic

import (
	"math"
	"os"
	"testing"

	"lockstep/classic"
	golden "lockstep/golden/classic"
	kernelsources "lockstep/gpu/internal/kernels/classic"
	module "lockstep/gpu/internal/module/classic"
	"lockstep/internal/kernelhash"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// TestGymnasium compares the kernels, executed on the CPU, with recordings of
// unmodified Gymnasium. Of those in which a launch is one step it takes a seed each.
func TestGymnasium(t *testing.T) {
	want.Compiler.Need(t)
	cases, err := golden.Goldens()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := OnCPU(1)
	if name := os.Getenv("LOCKSTEP_ENGINE"); name == "ptx" || name == "sass" {
		engine, err = Translated(name, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	compared, left := 0, 0
	whole := simtest.Whole(t)
	for i, c := range cases {
		if c.Autoreset == classic.Disabled.String() && c.Seed != 0 {
			continue
		}
		if !whole && i%2 != 0 {
			left++
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			if err := c.Compare(engine); err != nil {
				t.Error(err)
			}
		})
		compared++
	}
	if compared+left < len(cases)*8/10 {
		t.Errorf("%d of %d recordings were compared", compared, len(cases))
	}
}

// TestSquares: a pendulum that stands upright, and is left alone, is rewarded by a tenth of the
// square of its speed, which has Python's last bit on the device, near midpoints, too.
func TestSquares(t *testing.T) {
	want.Compiler.Need(t)
	x, y, err := golden.Function("pow")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	task, err := classic.Make("Pendulum-v1", len(x), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := engine.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	shot, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	clear(shot.States)
	for i, x := range x {
		if math.Abs(x) <= 8 { // there is no faster one
			shot.States[len(y)+i] = x
		} else {
			y[i] = 0
		}
	}
	if err := v.Restore(shot); err != nil {
		t.Fatal(err)
	}
	answer := classic.NewTransition(task)
	still := classic.Actions{Continuous: make([]float32, len(x))}
	if err := v.Step(still, &answer); err != nil {
		t.Fatal(err)
	}
	for i := range y {
		if want := 0.1 * y[i]; -answer.Rewards[i] != want {
			t.Errorf("a tenth of the square of %x is %x, Python has %x", x[i], -answer.Rewards[i],
				want)
		}
	}
}

// TestModule: the compiled kernels are those of the sources.
func TestModule(t *testing.T) {
	got, err := kernelhash.Sources(kernelsources.Sources)
	if err != nil {
		t.Fatal(err)
	}
	if got != module.Sources() {
		t.Errorf(
			"the kernels' sources have hash %s, the compiled ones %s: run `make kernels`", got,
			module.Sources(),
		)
	}
	for _, text := range []func() (string, error){module.PTX, module.Cubin} {
		if data, err := text(); err != nil || len(data) == 0 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
	}
}
