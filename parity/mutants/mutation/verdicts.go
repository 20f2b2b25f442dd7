package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Verdicts are kept in a file, so that a run of the same sources goes on behind those in it.
type verdicts struct {
	known map[string]string
	kept  *os.File // nil if none are to be
}

func openVerdicts(path string) (*verdicts, error) {
	v := &verdicts{known: map[string]string{}}
	if path == "" {
		return v, nil
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if status, of, ok := strings.Cut(line, "\t"); ok {
			v.known[of] = status
		}
	}
	v.kept, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	return v, err
}

// judge is that of a mutant, unless it was judged before.
func (v *verdicts) judge(tests []test, i int, m mutant) (string, error) {
	of := fmt.Sprintf("%d %s:%d:%d %s\n", i, m.File, m.Line, m.Column, m.Operator)
	if status := v.known[of]; status != "" {
		return status, nil
	}
	status, err := judge(tests, i)
	if err == nil && v.kept != nil && status != unknown {
		_, err = fmt.Fprintf(v.kept, "%s\t%s", status, of)
	}
	return status, err
}
