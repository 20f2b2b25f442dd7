// Package kernelhash tells by a hash what a compiler sees of CUDA sources: to it belong what was
// compiled of them, and what ran on a GPU.
package kernelhash

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Sources is the hash of all that a GPU's kernels are made of: the names of the files
// in the kernels' folder itself, in order, and of each what the compiler sees. Comments,
// indentation and where lines end are not of it, so that who mends a comment needs no
// compiler.
func Sources(sources fs.FS) (string, error) {
	var names []string
	for _, pattern := range []string{"*.cu", "*.cuh", "*.h"} {
		found, err := fs.Glob(sources, pattern)
		if err != nil {
			return "", err
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	plain, seen := make([]string, len(names)), make([]string, len(names))
	located := false
	for i, name := range names {
		data, err := fs.ReadFile(sources, name)
		if err != nil {
			return "", err
		}
		var asks bool
		plain[i] = string(data)
		seen[i], asks = see(plain[i])
		located = located || asks
	}
	if located { // a macro of one file may be used in any other
		seen = plain
	}
	h := sha256.New()
	for i, name := range names {
		fmt.Fprintf(h, "%s %d\n%s", path.Base(name), len(seen[i]), seen[i])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// token is one of C++, or what stands between two: white space, a comment, an end of a
// line behind a backslash. A string
// without its end is a punctuator and what follows, and so is one that is written raw.
var token = regexp.MustCompile(`^(?s:` +
	`(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?\*/)|` +
	`(?P<space>(?:[ \t\r\f\v]|\\\r?\n)+)|` +
	`(?P<line>\n)|` +
	`(?P<text>(?:u8?|[LU])?R"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|` +
	`\.?[0-9](?:[eEpP][+-]|'?[0-9A-Za-z_.])*|[\pL_$][\pL\pN_$]*|` +
	`<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||##|\.\*|.))`)

// asking are words by which the compiler sees where in a file something stands, or how
// it is written: then white space is of the program.
var asking = regexp.MustCompile(
	`^(__LINE__|__FILE__|__BASE_FILE__|__builtin_\w*|source_location|assert|(u8?|[LU])?R")$`,
)

// see returns the tokens of a source as the compiler sees them, one space between any
// two, directives as lines of their own; and whether the source asks for its own text.
func see(source string) (text string, asks bool) {
	var out strings.Builder
	var directive []string // the words of one so far
	spaced := true         // since the last word
	for begins := true; len(source) > 0; {
		m := token.FindStringSubmatch(source)
		source = source[len(m[0]):]
		switch word := m[token.SubexpIndex("text")]; {
		case word == "" && m[token.SubexpIndex("line")] == "":
			spaced = true
		case word == "":
			if directive != nil {
				out.WriteByte('\n')
			}
			directive, begins, spaced = nil, true, true
		default:
			switch {
			case word == "#" && begins:
				directive = []string{}
				out.WriteByte('\n')
			case word == "(" && len(directive) == 3 && directive[1] == "define" && !spaced:
				out.WriteByte('\b') // of a macro with arguments
			}
			if directive != nil {
				directive = append(directive, word)
			}
			// A # within a line makes a string of what is written.
			asks = asks || asking.MatchString(word) || word == "#" && !begins
			out.WriteString(" " + word)
			begins, spaced = false, false
		}
	}
	return out.String(), asks
}
