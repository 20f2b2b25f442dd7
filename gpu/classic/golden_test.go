package classic

import (
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
