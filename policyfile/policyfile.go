// Package policyfile reads and writes the files that policies come from: a network
// in ONNX, gains and tables of actions in JSON, and lists of gains to sweep over;
// and writes policies as controllers of the challenge's own program.
//
//	{"policy": "pidff", "gains": [0.3, 0.1, -0.05, …]}   in the order of the kind
//	{"policy": "table", "noise": "route", "actions": {"00000": [400 numbers], …}}   by route
//
// The noise is that under which a search found the actions; it may be left out.
package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/plain"
)

// IsFile reports whether a name is that of a policy's file, by its extension.
func IsFile(name string) bool {
	ext := filepath.Ext(name)
	return slices.ContainsFunc(
		lockstep.Kinds(), func(k lockstep.KindInfo) bool { return ext != "" && k.File == ext },
	)
}

// Load reads a policy from a file. An error names the file and what does not fit.
func Load(path string) (lockstep.Native, error) {
	data, err := fileio.ReadFile(path, fileio.Policy)
	if err != nil {
		return nil, err
	}
	p, err := Unmarshal(data, filepath.Ext(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Unmarshal reads a policy from the bytes of a file with an extension.
func Unmarshal(data []byte, ext string) (lockstep.Native, error) {
	if ext == lockstep.KindNetwork.Info().File {
		return Network(data)
	}
	return parse(data)
}

// file is the form of gains and tables.
type file struct {
	Policy  string              `json:"policy"`
	Gains   []number            `json:"gains,omitempty"`
	Noise   string              `json:"noise,omitempty"`
	Actions map[string][]number `json:"actions,omitempty"`
}

// number is one that must be there: package json takes null for 0. What is none is NaN, which no
// JSON has, until finite tells of it: an error from here would not say where it is.
type number float64

func (n *number) UnmarshalJSON(text []byte) error {
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		x = math.NaN()
	}
	*n = number(x)
	return nil
}

// finite is an error unless all numbers are.
func (f *file) finite() error {
	lists := map[string][]number{"gains": f.Gains}
	for route, actions := range f.Actions {
		lists[fmt.Sprintf("actions[%.60q]", route)] = actions
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		none := func(n number) bool { return math.IsNaN(float64(n)) }
		if i := slices.IndexFunc(lists[name], none); i >= 0 {
			return fmt.Errorf("not a policy: %s[%d] is no finite number", name, i)
		}
	}
	return nil
}

// place is in which line a text is what an error of package json says, where that is known.
func place(err error, text []byte) string {
	var end int
	var syntax *json.SyntaxError
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		end = int(syntax.Offset) - 1 // of a line's end where none may be
	case errors.As(err, &other):
		end = int(other.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		end = len(bytes.TrimRight(text, " \t\r\n"))
	default:
		return ""
	}
	return fmt.Sprintf("line %d: ", 1+bytes.Count(text[:min(max(end, 0), len(text))], []byte("\n")))
}

// list is a list of numbers of one type as those of another.
func list[To, From ~float64](from []From) []To {
	to := make([]To, len(from))
	for i, x := range from {
		to[i] = To(x)
	}
	return to
}

func parse(data []byte) (lockstep.Native, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var f file
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("%snot a policy: %w", place(err, data), err)
	}
	if err := f.finite(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one policy in a file")
	}
	kind, ok := lockstep.KindOf(f.Policy)
	if !ok {
		return nil, fmt.Errorf("no kind of policy %.60q", f.Policy)
	}
	if kind == lockstep.KindTable {
		return f.table()
	}
	if f.Actions != nil || f.Noise != "" {
		return nil, fmt.Errorf("a policy of kind %s has no actions and no noise", kind)
	}
	return kind.New(list[float64](f.Gains))
}

func (f *file) table() (*lockstep.Table, error) {
	if f.Gains != nil || len(f.Actions) == 0 {
		return nil, errors.New("a table has actions by route, and no gains")
	}
	actions := map[string][]float64{}
	for route, numbers := range f.Actions {
		actions[route] = list[float64](numbers)
	}
	t, err := lockstep.NewTable(actions)
	if err == nil && f.Noise != "" {
		t.Noise, err = lockstep.ParseNoise(f.Noise)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Grid reads gains of the pid controller: P,I,D on each line that is neither empty nor a
// comment (#).
func Grid(path string) (policies []lockstep.Policy, err error) {
	text, err := fileio.ReadFile(path, fileio.List)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		pid, err := lockstep.KindPID.ParseGains(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		policies = append(policies, pid)
	}
	if len(policies) == 0 {
		return nil, fmt.Errorf("%s: no gains; want P,I,D on each line", path)
	}
	return policies, nil
}

// Write writes a policy to a file, which is whole or not there.
func Write(path string, p lockstep.Native) error {
	data, err := Marshal(p)
	if err != nil {
		return err
	}
	return fileio.WriteFile(path, data)
}

// Marshal is what a policy's file holds.
func Marshal(p lockstep.Native) ([]byte, error) {
	f := file{Policy: p.Kind().String(), Gains: list[number](p.Gains())}
	switch p := p.(type) {
	case *lockstep.Network:
		return Encode(p), nil
	case *lockstep.Table:
		f.Actions = map[string][]number{}
		for route, actions := range p.Actions {
			if err := plain.Kept("route", route); err != nil {
				return nil, err
			}
			f.Actions[route] = list[number](actions)
		}
		if p.Noise != 0 {
			f.Noise = p.Noise.String()
		}
	}
	data, err := json.Marshal(f)
	return append(data, '\n'), err
}
