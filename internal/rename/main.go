// Command rename gives the module another path, in all of its files: where it is published, it
// must have the path at which it is found. It runs at the root of the project.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	to := flag.String("module", "", "the new path, such as example.org/team/lockstep")
	flag.Parse()
	if err := run(".", *to); err != nil {
		fmt.Fprintln(os.Stderr, "rename:", err)
		os.Exit(1)
	}
}

var (
	modulePattern = regexp.MustCompile(`(?m)^module (\S+)$`)
	pathPattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)
)

// run renames the module of a folder, and those below it that are named after it.
func run(root, to string) error {
	if !pathPattern.MatchString(to) {
		return fmt.Errorf("module %q: want a path such as example.org/team/lockstep", to)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	m := modulePattern.FindSubmatch(text)
	if m == nil {
		return errors.New("go.mod names no module")
	}
	command := exec.Command("git", "ls-files", "-z")
	command.Dir = root
	listed, err := command.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	r := renaming{from: string(m[1]), to: to, folder: func(name string) bool {
		info, err := os.Stat(filepath.Join(root, name))
		return err == nil && info.IsDir()
	}}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		if err := r.file(root, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// renaming is from one path to another. Which folders there are at the root tells paths of
// packages from other text.
type renaming struct {
	from, to string
	folder   func(name string) bool
}

// file writes a file again with the new path, if it has the old one.
func (r renaming) file(root, name string) error {
	change := r.text
	switch {
	case path.Ext(name) == ".mod":
		change = r.module
	case path.Ext(name) == ".go":
		change = r.source
	case !strings.HasPrefix(name, "parity/mutants/faults/"): // texts of the source
		return nil
	}
	file := filepath.Join(root, filepath.FromSlash(name))
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if changed := change(text); !bytes.Equal(text, changed) {
		return os.WriteFile(file, changed, info.Mode().Perm())
	}
	return nil
}

// module changes the path in a go.mod: the module's, and those of modules that are named after
// it, which others of the project require and replace.
func (r renaming) module(text []byte) []byte {
	return r.below(modulePattern.ReplaceAllFunc(text, func(line []byte) []byte {
		if string(line) != "module "+r.from {
			return line
		}
		return []byte("module " + r.to)
	}))
}

// source changes the strings of a Go file: imports of the module's own packages, and other
// strings in which their paths stand.
func (r renaming) source(text []byte) []byte {
	f := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(f, text, nil, 0)
	var out bytes.Buffer
	at, importing, grouped := 0, false, false
	for {
		pos, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			out.Write(text[at:])
			return out.Bytes()
		case token.IMPORT:
			importing = true
		case token.LPAREN:
			grouped = importing
		case token.RPAREN:
			importing, grouped = importing && !grouped, false
		case token.SEMICOLON:
			importing = importing && grouped
		case token.STRING:
			begin, size := f.Offset(pos), len(literal)
			out.Write(text[at:begin])
			if importing && literal == `"`+r.from+`"` {
				literal = `"` + r.to + `"`
			}
			// A go.mod's first line, as a program knows its own source by it.
			literal = strings.ReplaceAll(literal, `module `+r.from+`\n`, `module `+r.to+`\n`)
			out.Write(r.below([]byte(literal)))
			at = begin + size
		}
	}
}

// text changes what stands in a text as it does in a Go file: imports, and paths of packages.
func (r renaming) text(text []byte) []byte {
	whole := regexp.MustCompile(`(?m)^(\s*(?:import )?")` + regexp.QuoteMeta(r.from) + `"$`)
	return r.below(whole.ReplaceAll(text, []byte("${1}"+r.to+`"`)))
}

// below changes the paths of packages below the module's own.
func (r renaming) below(text []byte) []byte {
	pattern := regexp.MustCompile(
		`(^|[^A-Za-z0-9_./-])` + regexp.QuoteMeta(r.from) + `/([A-Za-z0-9_.-]*)`)
	return pattern.ReplaceAllFunc(text, func(found []byte) []byte {
		parts := pattern.FindSubmatch(found)
		if len(parts[2]) > 0 && !r.folder(string(parts[2])) {
			return found
		}
		return []byte(string(parts[1]) + r.to + "/" + string(parts[2]))
	})
}
