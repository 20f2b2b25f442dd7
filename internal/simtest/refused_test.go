package simtest

import (
	"errors"
	"fmt"
	"testing"
)

// told is a test that keeps what it is told.
type told struct {
	testing.TB
	text string
}

func (t *told) Helper() {}

func (t *told) Log(args ...any) { t.text += fmt.Sprint(args...) }

func (t *told) Errorf(format string, args ...any) { t.text += fmt.Sprintf(format, args...) }

// TestRefused: no error and another error are reported, and the one that was wanted is not.
func TestRefused(t *testing.T) {
	full := errors.New("line 3: the disk is full")
	for err, want := range map[error]string{
		nil:                   `a cut file: <nil>, want an error that says "disk is full"`,
		errors.New("no disk"): `a cut file: no disk, want an error that says "disk is full"`,
		full:                  "",
	} {
		got := &told{TB: t}
		if Refused(got, "a cut file", err, "disk is full"); got.text != want {
			t.Errorf("of the error %v it says %q, want %q", err, got.text, want)
		}
	}
}
