package simtest

import (
	"strings"
	"testing"
)

// Refused reports a case in which nothing was refused, or for another reason than one that says
// this.
func Refused(t testing.TB, what string, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want an error that says %q", what, err, says)
	}
}
