package installed

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"lockstep/internal/fileio/readonly"
)

// TestReadOnly: an answer that is kept in a home that nothing can be written to is read.
func TestReadOnly(t *testing.T) {
	data, err := json.Marshal(record{
		Watched: []stamp{stampOf("/nowhere")},
		Found:   judge("py", replies(t), nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	const name = "0.json"
	files := map[string]string{filepath.Join(profiles, name): string(data)}
	readonly.Home(t, files, func(string) {
		if f := (key{name}).read(); f == nil || f.Python != "py" {
			t.Errorf("read %+v", f)
		}
	})
}
