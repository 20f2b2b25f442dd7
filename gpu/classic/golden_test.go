package classic

import (
	"testing"

	golden "lockstep/golden/classic"
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/emulated"
	sources "lockstep/gpu/kernels/classic"
	"lockstep/internal/want"
)

// onCPU executes the kernels on the CPU, with a compiler's checks or without.
func onCPU(t testing.TB, sanitize bool) Engine {
	want.Compiler.Need(t)
	files, err := sources.OnCPU()
	if err != nil {
		t.Fatal(err)
	}
	return Engine{Kind: "emulated", Open: func() (driver.Device, error) {
		return emulated.Open(emulated.Options{Sources: files, Sanitize: sanitize, Processors: 1})
	}}
}

// TestGymnasium compares the kernels, executed on the CPU, with recordings of
// unmodified Gymnasium.
func TestGymnasium(t *testing.T) {
	cases, err := golden.Goldens()
	if err != nil {
		t.Fatal(err)
	}
	engine := onCPU(t, false)
	for _, c := range cases {
		t.Run(c.Name(), func(t *testing.T) {
			if err := c.Compare(engine); err != nil {
				t.Error(err)
			}
		})
	}
}
