// Command tables writes what kernels and the Python package know of the kinds of policies:
// lockstep.Kinds in C++ and in Python. It runs at the root of the project; with -check it
// compares the files with what it would write.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"lockstep"
)

func main() {
	check := flag.Bool("check", false, "compare the files, write nothing")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	names, err := constants("policy.go", "Kind")
	if err != nil {
		return err
	}
	if len(names) != len(lockstep.Kinds()) {
		return fmt.Errorf(
			"policy.go has %d constants of type Kind and %d rows of kinds: want one for each",
			len(names), len(lockstep.Kinds()))
	}
	var failed error
	for path, text := range map[string]string{
		"gpu/internal/kernels/kinds.h": header(names),
		"python/lockstep/_kinds.py":    python(),
	} {
		if !check {
			failed = errors.Join(failed, os.WriteFile(path, []byte(text), 0o644))
			continue
		}
		have, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(have, []byte(text)) {
			err = fmt.Errorf("%s is not what lockstep.Kinds makes of it: run `make generate`", path)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// constants are the names of a file's constants of a type, in the order of their values,
// which iota counts.
func constants(path, kind string) (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		first := group.Specs[0].(*ast.ValueSpec)
		if id, ok := first.Type.(*ast.Ident); !ok || id.Name != kind {
			continue
		}
		for _, s := range group.Specs {
			names = append(names, s.(*ast.ValueSpec).Names[0].Name)
		}
	}
	return names, nil
}

// header is kinds.h.
func header(names []string) string {
	var rows []string
	for i, k := range lockstep.Kinds() {
		rows = append(rows, fmt.Sprintf(
			"K(k%s, %d, %d)", strings.TrimPrefix(names[i], "Kind"), len(k.Gains), len(k.Memory)))
	}
	return `// Made by internal/tables from lockstep.Kinds: run ` + "`make generate`" + ` and ` +
		"`make kernels`" + `.
//
// The kinds of policies that run on the device: names, and how many gains each has and
// how many numbers it remembers. A kind's number is its place here. The host compares
// the list with its own when it has loaded the module.
#pragma once

#define LOCKSTEP_KINDS(K) ` + strings.Join(rows, " ") + "\n"
}

// python is _kinds.py.
func python() string {
	var b strings.Builder
	b.WriteString(`# Made by internal/tables from lockstep.Kinds: run ` + "`make generate`" + `.
"""The kinds of policies that have gains, and the names of these, in order."""

from __future__ import annotations

GAINS: dict[str, tuple[str, ...]] = {
`)
	for _, k := range lockstep.Kinds() {
		if len(k.Gains) > 0 {
			fmt.Fprintf(&b, "    %q: (\"%s\"),\n", k.Name, strings.Join(k.GainNames(), `", "`))
		}
	}
	b.WriteString("}\n")
	return b.String()
}
