package want

import (
	"path/filepath"
	"testing"

	"lockstep/internal/fileio/readonly"
)

// TestLibraryReadOnly: ONNX Runtime in a home that nothing can be written to is found.
func TestLibraryReadOnly(t *testing.T) {
	if !cgo {
		t.Skip("built without cgo, which knows no library")
	}
	t.Setenv("ONNXRUNTIME_LIB", "")
	const name = "onnxruntime/9.9.9/libonnxruntime.so.9.9.9"
	readonly.Home(t, map[string]string{name: "x"}, func(kept string) {
		if got, err := findONNXRuntime(); err != nil || got != filepath.Join(kept, name) {
			t.Errorf("found %q, %v; want %s in %s", got, err, name, kept)
		}
	})
}
