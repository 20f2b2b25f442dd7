package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"lockstep/parity/schema"
)

const (
	magic   = "lstrace\n"
	version = 2

	// Bounds on what a reader takes into memory at once.
	maxHeader = 1 << 20
	maxRecord = 1 << 20

	// payload is where a record's begins, after its kind and length.
	payload = 5
)

// Kinds of records.
const (
	kindBegin = 'B'
	kindStep  = 'S'
	kindEnd   = 'E'
	kindClose = 'Z'
)

// What an end record holds.
const (
	endOutcome = 1 << iota
	endError
)

// Header says what a trace is of. All of it but the schema may be empty.
type Header struct {
	Producer    string      `json:"producer,omitempty"`     // the program that wrote it
	Engine      string      `json:"engine,omitempty"`       // the implementation that computed it
	Profile     string      `json:"profile,omitempty"`      // its arithmetic
	ModelSHA256 string      `json:"model_sha256,omitempty"` // of the network's file
	Digest      schema.Hash `json:"digest"`                 // of arrays, xxh64 if not given
	// what was left out, in the family's words
	Shortcuts []string      `json:"shortcuts,omitempty"`
	Comment   string        `json:"comment,omitempty"`
	Schema    schema.Schema `json:"schema"`
}

// A Rollout says what was rolled out.
type Rollout struct {
	// Key tells rollouts of a trace apart, one word for each of the schema's.
	Key []string `json:"key"`

	// Inputs are what else is known of what the rollout was computed from, such as
	// hashes. Rollouts of one key whose inputs differ are not held to each other.
	Inputs map[string]string `json:"inputs,omitempty"`
}

// Name joins the words of the key: "00000/pid".
func (r *Rollout) Name() string { return strings.Join(r.Key, "/") }

// Hex is a hash whose JSON form is 16 hexadecimal digits, since JSON's numbers do
// not hold it in every program.
type Hex uint64

func (h Hex) String() string { return fmt.Sprintf("%016x", uint64(h)) }

// MarshalText writes the digits.
func (h Hex) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *Hex) UnmarshalText(text []byte) error {
	x, err := strconv.ParseUint(string(text), 16, 64)
	if *h = Hex(x); err != nil || h.String() != string(text) {
		return fmt.Errorf("hash %.60q: want 16 hexadecimal digits", text)
	}
	return nil
}

// End is the end of a rollout.
type End struct {
	Steps   int       // number of its step records
	Outcome []float64 // nil if not known
	Error   string    // not empty if the rollout failed
}

// unmarshal decodes JSON without keys that are not known. Its error is a line, however
// long the value that does not fit: the middle is left out, and what names the key stays.
func unmarshal(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("a JSON object that is cut off")
	}
	if err == nil && d.More() {
		err = errors.New("more than one JSON object")
	}
	if err != nil && len(err.Error()) > 300 {
		text := err.Error()
		err = fmt.Errorf("%.150s…%s", text, strings.ToValidUTF8(text[len(text)-150:], ""))
	}
	return err
}
