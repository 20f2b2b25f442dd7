// Package archive reads and writes policies and snapshots of classic control as .npz archives,
// which numpy.load and numpy.savez know, too.
package archive

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/classic"
	"lockstep/internal/fileio"
	"lockstep/internal/npz"
)

// version is of a snapshot's layout.
const version = "lockstep classic snapshot 1"

// Marshal writes a snapshot down; all bits are kept.
func Marshal(s *classic.Snapshot) ([]byte, error) { return marshal(s) }

// marshal writes a snapshot down, and more arrays behind it.
func marshal(s *classic.Snapshot, more ...npz.Array) ([]byte, error) {
	ended := make([]uint8, len(s.Ended))
	for i, e := range s.Ended {
		if e {
			ended[i] = 1
		}
	}
	var out bytes.Buffer
	err := npz.Write(&out, append([]npz.Array{
		npz.Text("version", version),
		npz.New("steps", []int64{s.Steps}, 1),
		npz.New("states", s.States, len(s.States)),
		npz.New("observations", s.Observations, len(s.Observations)),
		npz.New("elapsed", s.Elapsed, len(s.Elapsed)),
		npz.New("ended", ended, len(ended)),
		npz.New("generators", s.Generators, len(s.Generators)),
		npz.New("rewards", s.Rewards, len(s.Rewards)),
		npz.New("episodes", s.Episodes, len(s.Episodes)),
	}, more...))
	return out.Bytes(), err
}

// Unmarshal reads what Marshal wrote. Task.CheckSnapshot says whether a task's environments can
// go on from it.
func Unmarshal(data []byte) (*classic.Snapshot, error) {
	all, err := npz.Read(data)
	if err != nil {
		return nil, err
	}
	if text, err := npz.Strings(all["version"]); err != nil || len(text) != 1 ||
		text[0] != version {
		return nil, fmt.Errorf(
			"not a snapshot of classic control: its version is %.60q, want %q", all["version"].Data,
			version,
		)
	}
	r := reader{arrays: all}
	steps := elements[int64](&r, "steps")
	s := &classic.Snapshot{
		States:       elements[float64](&r, "states"),
		Observations: elements[float32](&r, "observations"),
		Elapsed:      elements[int32](&r, "elapsed"),
		Generators:   elements[uint64](&r, "generators"),
		Rewards:      elements[float64](&r, "rewards"),
		Episodes:     elements[int64](&r, "episodes"),
	}
	for _, e := range elements[uint8](&r, "ended") {
		s.Ended = append(s.Ended, e != 0)
	}
	if r.err == nil && len(steps) != 1 {
		r.err = fmt.Errorf("array \"steps\" has %d numbers, want 1", len(steps))
	}
	if r.err != nil {
		return nil, fmt.Errorf("a snapshot of classic control: %w", r.err)
	}
	s.Steps = steps[0]
	return s, nil
}

// reader keeps the first error.
type reader struct {
	arrays map[string]npz.Array
	err    error
}

func elements[T npz.Number](r *reader, name string) []T {
	a, ok := r.arrays[name]
	if r.err == nil && !ok {
		r.err = fmt.Errorf("no array %q", name)
	}
	if r.err != nil {
		return nil
	}
	var out []T
	out, r.err = npz.Elements[T](a)
	return out
}

// Policy reads a policy from an archive. A table has the array actions, (steps,) or (steps, N),
// int32 or int64, or float32. A network has weights0 (outputs, inputs), bias0, weights1 and so on,
// float32, and may have noise, float32, and seed, uint64 or int64, and nothing else. Of a table the
// policy has as many steps. The SHA-256 is of the file as it was read.
func Policy(path string, t classic.Task) (policy classic.Policy, sum string, err error) {
	data, err := fileio.ReadFile(path, fileio.Policy)
	if err != nil {
		return classic.Policy{}, "", err
	}
	arrays, err := npz.Read(data)
	if err != nil {
		return classic.Policy{}, "", fmt.Errorf("%s: %w", path, err)
	}
	var p classic.Policy
	steps := 0
	if table, ok := arrays["actions"]; ok {
		p.Recorded, err = recorded(table, t)
		steps = len(p.Recorded)
	} else {
		p.Network, err = network(arrays)
	}
	if err == nil {
		err = p.Check(t, steps)
	}
	if err != nil {
		return classic.Policy{}, "", fmt.Errorf("%s: %w", path, err)
	}
	return p, fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// recorded are a table's actions, for all environments where there is one a step.
func recorded(a npz.Array, t classic.Task) ([]classic.Actions, error) {
	width := 1
	if len(a.Shape) == 2 {
		width = a.Shape[1]
	}
	if len(a.Shape) < 1 || len(a.Shape) > 2 || a.Shape[0] < 1 || width != 1 && width != t.Num {
		return nil, fmt.Errorf(
			"array \"actions\" has shape %v, want (steps, %d), or (steps,) for the same actions "+
				"in all environments",
			a.Shape, t.Num,
		)
	}
	all := make([]classic.Actions, a.Shape[0])
	if t.Actions == 0 {
		x, err := npz.Elements[float32](a)
		for s := range all {
			all[s].Continuous = row(x, s, width, t.Num)
		}
		return all, err
	}
	x, err := integers(a)
	for s := range all {
		all[s].Discrete = row(x, s, width, t.Num)
	}
	return all, err
}

// row is a step's row of a table, filled up to n.
func row[T any](table []T, step, width, n int) []T {
	if len(table) == 0 {
		return nil
	}
	r := table[step*width : (step+1)*width]
	if width < n {
		r = slices.Repeat(r, n)
	}
	return r
}

// integers are an array's, those that are no int32 as one that is no action.
func integers(a npz.Array) ([]int32, error) {
	if narrow, err := npz.Elements[int32](a); err == nil {
		return narrow, nil
	}
	wide, err := npz.Elements[int64](a)
	narrow := make([]int32, len(wide))
	for i, x := range wide {
		narrow[i] = int32(min(max(x, -1), 1<<30))
	}
	return narrow, err
}

func network(arrays map[string]npz.Array) (*classic.Perceptron, error) {
	r, n := reader{arrays: arrays}, &classic.Perceptron{}
	for i := 0; r.err == nil; i++ {
		name := fmt.Sprintf("weights%d", i)
		if _, ok := arrays[name]; !ok && i > 0 {
			break
		}
		l := classic.Layer{
			Weights: elements[float32](&r, name),
			Bias:    elements[float32](&r, fmt.Sprintf("bias%d", i)),
		}
		n.Layers = append(n.Layers, l)
		shape := arrays[name].Shape // whose product alone does not say which way it lies
		if r.err == nil && (len(shape) != 2 || shape[0] != len(l.Bias)) {
			return nil, fmt.Errorf("array %q has shape %v, want (outputs, inputs), with %d outputs",
				name, shape, len(l.Bias))
		}
	}
	if _, ok := arrays["noise"]; ok {
		n.Noise = elements[float32](&r, "noise")
	}
	if seed, ok := arrays["seed"]; ok {
		if seed.Type == "<i8" {
			seed.Type = "<u8"
		}
		words, err := npz.Elements[uint64](seed)
		if err != nil || len(words) != 1 {
			return nil, fmt.Errorf("array \"seed\": want one integer of 64 bits")
		}
		n.Seed = words[0]
	}
	if r.err != nil {
		return nil, fmt.Errorf(
			"neither a table, which has the array actions, nor a network: %w", r.err)
	}
	known := []string{"noise", "seed"}
	for i := range n.Layers {
		known = append(known, fmt.Sprintf("weights%d", i), fmt.Sprintf("bias%d", i))
	}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		if !slices.Contains(known, name) { // as a layer behind one that lacks
			return nil, fmt.Errorf("array %.60q is none of a network of %d layers: want %s", name,
				len(n.Layers), strings.Join(known, ", "))
		}
	}
	return n, nil
}
