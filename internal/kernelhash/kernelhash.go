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
	"sync"
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
	plain := make([]string, len(names))
	for i, name := range names {
		data, err := fs.ReadFile(sources, name)
		if err != nil {
			return "", err
		}
		plain[i] = string(data)
	}
	of := hash(names, plain)
	if known, ok := known.Load(of); ok {
		return known.(string), nil
	}
	sum := hash(names, compiled(plain))
	known.Store(of, sum)
	return sum, nil
}

// known are results by the hash of the files as they are: to see what a compiler sees takes
// longer than all else that opening an emulated device does.
var known sync.Map

// compiled is what a compiler sees of files.
func compiled(plain []string) []string {
	seen, located := make([]string, len(plain)), false
	for i, text := range plain {
		var asks bool
		seen[i], asks = see(text)
		located = located || asks
	}
	if located { // a macro of one file may be used in any other
		return plain
	}
	return seen
}

// hash is of the names of files and of texts of them, in order.
func hash(names, texts []string) string {
	h := sha256.New()
	for i, name := range names {
		fmt.Fprintf(h, "%s %d\n%s", path.Base(name), len(texts[i]), texts[i])
	}
	return hex.EncodeToString(h.Sum(nil))
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
