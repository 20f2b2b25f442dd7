package simtest

import "testing"

func TestDeclares(t *testing.T) {
	for words, want := range map[string]bool{
		"Test": true, "TestDeclares(t *testing.T) {": true,
		"TestDeclared": false, "Declares": false,
	} {
		if Declares(t, ".", words) != want {
			t.Errorf("a test begins with %q: %v", words, !want)
		}
	}
	if Declares(t, "none", "Test") {
		t.Error("a folder that is not there has tests")
	}
}
