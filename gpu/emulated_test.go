package gpu

import (
	"testing"

	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// TestOpenTranslated: the shipped kernels, PTX and machine code, are read each for what they are,
// and no others are there.
func TestOpenTranslated(t *testing.T) {
	want.Compiler.Need(t)
	for _, name := range []string{"ptx", "sass"} {
		d, err := OpenTranslated(name, Emulation{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if info := d.Info(); info.Name != name {
			t.Errorf("%s: the device is %q", name, info.Name)
		}
		if err := d.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := OpenTranslated("other", Emulation{})
	simtest.Refused(t, "kernels of another name", err, `no kernels "other" are shipped`)
}
