package conformance_test

import (
	"testing"

	"lockstep/engines"
	"lockstep/internal/defaults"
	"lockstep/parity/conformance"
	"lockstep/reference"
)

// TestEngines: every engine conforms in the profile that it has here. A slow one runs
// whole routes for the tests of parity.
func TestEngines(t *testing.T) {
	for _, e := range engines.Checked() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			model, _, err := defaults.Write(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			var options []conformance.Option
			if e.Slow {
				options = append(options, conformance.Brief())
			}
			config := engines.Config{
				Model:    model,
				Profile:  reference.HostProfile(),
				Workers:  2,
				Chunk:    3,
				Shuffled: true,
			}
			conformance.Test(t, e.ForTest(t, config), options...)
		})
	}
}
