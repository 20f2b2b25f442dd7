package kernelhash_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"lockstep/internal/kernelhash"
)

// TestSources: the hash is of all that the compiler sees, and of nothing else.
func TestSources(t *testing.T) {
	const first = "#pragma once\n#define F(x) (x) // doubled\nfloat f(float a) {\n\treturn " +
		"a+F(a) > 1e-3f ? a : '\"'; /* one\ntwo */\n}\n"
	base := map[string]string{
		"a.cu":    first,
		"b.h":     `const char *s = "a  // b";`,
		"cpu/c.h": "3",
		"x.go":    "4",
	}
	hashWith := func(name, text string) string {
		files := fstest.MapFS{}
		for k, v := range base {
			files[k] = &fstest.MapFile{Data: []byte(v)}
		}
		files[name] = &fstest.MapFile{Data: []byte(text)}
		h, err := kernelhash.Sources(files)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	want := hashWith("x.go", "4")
	change := func(old, new string) string {
		if !strings.Contains(first, old) {
			t.Fatalf("there is no %q", old)
		}
		return strings.Replace(first, old, new, 1)
	}
	for _, c := range []struct {
		name, text string
		same       bool
	}{
		{"cpu/c.h", "changed", true},
		{"x.go", "changed", true},
		{"new.cuh", "", false},
		{"a.cu", change("doubled", `"changed" */ /*`), true},
		{"a.cu", change(" // doubled", "  \\\n /* also\nhere */"), true},
		{"a.cu", change("one\ntwo", "return b;"), true},
		{"a.cu", change("\treturn a+F(a)", "  return a /**/ +\n F ( a )\r\n"), true},
		{"a.cu", strings.ReplaceAll(first, "\n", "\r\n"), true},
		{"a.cu", change("a+F", "a-F"), false},
		{"a.cu", change("a+F", "a++F"), false},
		{"a.cu", change("return a", "returna"), false},
		{"a.cu", change("1e-3f", "1e-3"), false},
		{"a.cu", change("F(x)", "F (x)"), false}, // a macro without arguments
		{"a.cu", change("\n#define", " #define"), false},
		{"a.cu", change("(x) //", "(x) \n//"), true},
		{"a.cu", change("(x) //", "\n(x) //"), false},
		{"a.cu", change("'\"'", "'/'"), false},
		{"b.h", `const char *s = "a // b";`, false},
		{"b.h", `const char *s = "a  // c";`, false},
		{"b.h", `const char *s /* \" */ = "a  // b"; // "`, true},
	} {
		if got := hashWith(c.name, c.text) == want; got != c.same {
			t.Errorf("%s, changed to %q: the hash is the same: %v", c.name, c.text, got)
		}
	}
	// Who asks for lines or for his own text sees white space: then all of it counts.
	for _, asking := range []string{
		"int l = __LINE__;", "#define S(x) #x", "assert(a);", `auto s = R"(x  // y)";`,
	} {
		for _, file := range []string{"0.h", "b.h"} { // before and behind it
			had := base[file]
			base[file] = asking
			if hashWith("a.cu", first) == hashWith("a.cu", change("doubled", "changed")) {
				t.Errorf("with %q in file %s a comment does not count", asking, file)
			}
			base[file] = had
		}
	}
}
