package tinyphysics

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"lockstep/internal/simtest"
)

var write = flag.Bool("write", false, "write schema.json")

// TestJSON: schema.json, which programs in other languages read, says what Schema says.
func TestJSON(t *testing.T) {
	text, err := json.MarshalIndent(Schema(0), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *write {
		if err := os.WriteFile("schema.json", text, 0o666); err != nil {
			t.Fatal(err)
		}
	} else {
		kept, err := os.ReadFile("schema.json")
		if err := errors.Join(err, simtest.Same("schema.json", kept, text)); err != nil {
			t.Errorf("go test ./parity/tinyphysics -run JSON -write: %v", err)
		}
	}
}
