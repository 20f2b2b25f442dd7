package tinyphysics

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var write = flag.Bool("write", false, "write schema.json")

// TestJSON: what other languages read is the schema.
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
	} else if kept, err := os.ReadFile("schema.json"); err != nil || !bytes.Equal(text, kept) {
		t.Error("schema.json is old: go test ./parity/tinyphysics -run JSON -write")
	}
}
