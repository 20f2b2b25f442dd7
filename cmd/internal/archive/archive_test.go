package archive

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep/classic"
	"lockstep/engines"
	"lockstep/internal/fileio"
	"lockstep/internal/npz"
)

// started are environments in the middle of their episodes.
func started(t *testing.T, name string, num int) classic.Vector {
	t.Helper()
	task, err := classic.Make(name, num, map[string]string{"max_episode_steps": "9"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engines.Classic().Open("batched", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	key := uint64(3)
	if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	if err := v.Run(t.Context(), classic.Policy{Uniform: &key}, 31, nil); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSnapshot: what is written is read again, whole, and what is damaged is refused.
func TestSnapshot(t *testing.T) {
	for _, e := range classic.Environments() {
		s, err := started(t, e.Name, 3).Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		s.Ended = []bool{false, true, true}
		s.Steps += 1 << 40
		data, err := Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Unmarshal(data); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%s: %v, %+v, want %+v", e.Name, err, got, s)
		}
		for _, at := range []int{0, 60, len(data) / 2, len(data) - 10} {
			bad := append([]byte(nil), data...)
			bad[at] ^= 1
			if got, err := Unmarshal(bad); err == nil && !reflect.DeepEqual(got, s) {
				t.Errorf("%s: byte %d is another, and %+v is read, want %+v", e.Name, at, got, s)
			}
		}
	}
	for want, a := range map[string]npz.Array{
		"its version is \"x\", want ": npz.Text("version", "x"),
		"its version is \"" + version + version[:13]: {Name: "version", Shape: []int{2},
			Type: fmt.Sprintf("|S%d", len(version)), Data: []byte(version + version)},
		"its version is \"\\x00":  npz.New("version", []int64{0}, 1),
		"\"steps\" has 2 numbers": npz.New("steps", []int64{1, 2}, 2),
		"no array \"elapsed\"":    {Name: "elapsed"},
	} {
		s, err := started(t, "CartPole-v1", 1).Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		data, err := Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		all, err := npz.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		if all[a.Name] = a; a.Type == "" {
			delete(all, a.Name)
		}
		var b bytes.Buffer
		if err := npz.Write(&b, slices.Collect(maps.Values(all))); err != nil {
			t.Fatal(err)
		}
		if _, err := Unmarshal(b.Bytes()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFork: an environment goes on in the fork as in the vector.
func TestFork(t *testing.T) {
	v := started(t, "Pendulum-v1", 5)
	s, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	places := []int{4, 1, 4}
	forked, err := s.Fork(v.Task(), places)
	if err != nil {
		t.Fatal(err)
	}
	w := started(t, "Pendulum-v1", 3)
	if err := w.Restore(forked); err != nil {
		t.Fatal(err)
	}
	all, some := classic.NewTransition(v.Task()), classic.NewTransition(w.Task())
	for range 20 {
		a := classic.Actions{Continuous: []float32{-1, 0.5, 0, 2, 1.5}}
		if err := v.Step(a, &all); err != nil {
			t.Fatal(err)
		}
		var b classic.Actions
		for _, p := range places {
			b.Continuous = append(b.Continuous, a.Continuous[p])
		}
		if err := w.Step(b, &some); err != nil {
			t.Fatal(err)
		}
		for k, p := range places {
			if some.Rewards[k] != all.Rewards[p] || some.States[k] != all.States[p] ||
				some.States[3+k] != all.States[5+p] {
				t.Fatalf("environment %d goes on otherwise than %d", k, p)
			}
		}
	}
	if v.Totals().Rewards[4] != w.Totals().Rewards[0] {
		t.Error("the totals are not those of the environment that it was")
	}
	for why, bad := range map[string][]int{
		"0 to 4":              {5},
		"not in the snapshot": {-1},
		"at least 1":          {},
	} {
		if _, err := s.Fork(v.Task(), bad); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v, want %s", bad, err, why)
		}
	}
}

// TestPolicy: tables and networks as numpy.savez writes them, and what is none.
func TestPolicy(t *testing.T) {
	cart, err := classic.Make("CartPole-v1", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	swing, err := classic.Make("Pendulum-v1", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	ones := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = 1
		}
		return x
	}
	layers := func(i, outputs, inputs int) []npz.Array {
		return []npz.Array{
			npz.New(fmt.Sprintf("weights%d", i), ones(outputs*inputs), outputs, inputs),
			npz.New(fmt.Sprintf("bias%d", i), ones(outputs), outputs),
		}
	}
	for _, c := range []struct {
		task   classic.Task
		arrays []npz.Array
		want   string // in the error; or how many steps
		steps  int
	}{
		{cart, []npz.Array{npz.New("actions", []int64{0, 1, 1}, 3)}, "", 3},
		{cart, []npz.Array{npz.New("actions", []int32{0, 1, 1, 0}, 2, 2)}, "", 2},
		{swing, []npz.Array{npz.New("actions", ones(4), 2, 2)}, "", 2},
		{
			cart,
			[]npz.Array{npz.New("weights0", ones(8), 2, 4), npz.New("bias0", ones(2), 2),
				npz.New("noise", ones(4), 4), npz.New("seed", []int64{7}, 1)},
			"",
			0,
		},
		{swing, []npz.Array{npz.New("actions", []int64{1, 1}, 2)}, "want <f4", 0},
		{
			cart,
			[]npz.Array{npz.New("actions", []int64{0, 1, 1}, 1, 3)},
			"want (steps, 2), or (steps,)",
			0,
		},
		{cart, []npz.Array{npz.New("weights0", ones(4), 1, 4), npz.New("bias0", ones(1), 1)},
			"1 outputs, want 2", 0},
		{cart, []npz.Array{npz.New("weights0", ones(8), 2, 4)}, "no array \"bias0\"", 0},
		{cart, []npz.Array{npz.New("looks", ones(8), 8)}, "neither a table", 0},
		{cart, []npz.Array{npz.New("actions", []int64{1})}, "want (steps, 2), or (steps,)", 0},
		{cart, []npz.Array{npz.New("actions", []int64{}, 0)}, "want (steps, 2), or (steps,)", 0},
		{cart, []npz.Array{npz.New("actions", []int64{}, 0, 2)}, "want (steps, 2), or (steps,)", 0},
		{cart, []npz.Array{npz.New("actions", []int64{0, 1}, 1, 2, 1)},
			"want (steps, 2), or (steps,)", 0},
		{cart, []npz.Array{npz.New("actions", []int64{0, 1}, 2, 1)}, "", 2},
		{cart, []npz.Array{npz.New("weights0", ones(8), 2, 4), npz.New("bias0", ones(2), 2),
			npz.New("seed", []int64{7, 8}, 2)}, "want one integer of 64 bits", 0},
		{cart, []npz.Array{npz.New("weights0", ones(8), 2, 4), npz.New("bias0", ones(2), 2),
			npz.New("seed", []int32{7}, 1)}, "want one integer of 64 bits", 0},
		// as many numbers, and another network
		{cart, []npz.Array{npz.New("weights0", ones(8), 4, 2), npz.New("bias0", ones(2), 2)},
			"array \"weights0\" has shape [4 2], want (outputs, inputs), with 2 outputs", 0},
		{cart, []npz.Array{npz.New("weights0", ones(8), 8), npz.New("bias0", ones(2), 2)},
			"array \"weights0\" has shape [8], want (outputs, inputs)", 0},
		{cart, append(layers(0, 8, 4), npz.New("weights1", ones(16), 8, 2),
			npz.New("bias1", ones(2), 2)), "array \"weights1\" has shape [8 2]", 0},
		{cart, append(layers(0, 2, 4), layers(2, 2, 2)...), "array \"bias2\" is none of a " +
			"network of 1 layers: want noise, seed, weights0, bias0", 0},
		{cart, append(layers(0, 2, 4), npz.New("noises", ones(4), 4)),
			"array \"noises\" is none", 0},
	} {
		path := filepath.Join(t.TempDir(), "policy.npz")
		if err := npz.WriteFile(path, c.arrays); err != nil {
			t.Fatal(err)
		}
		p, sum, err := Policy(path, c.task)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasPrefix(err.Error(), path) {
				t.Errorf("%v, want %s", err, c.want)
			}
			continue
		}
		if want, _ := fileio.SHA256(path); sum != want {
			t.Errorf("%v: its file has SHA-256 %s, want %s", err, sum, want)
		}
		if err != nil || len(p.Recorded) != c.steps ||
			c.steps == 0 && (p.Network == nil || p.Network.Seed != 7 || len(p.Network.Noise) != 4) {
			t.Errorf("%v: %+v, want %d steps", err, p, c.steps)
		}
	}
	if _, _, err := Policy(filepath.Join(t.TempDir(), "none.npz"), cart); !os.IsNotExist(err) {
		t.Errorf("%v of no file", err)
	}
}

// TestTable: a row is for all environments where it has one action, and what is no int32 is no
// action.
func TestTable(t *testing.T) {
	cart, err := classic.Make("CartPole-v1", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shape []int
		want  []int32 // of the second step
	}{{[]int{2}, []int32{1, 1}}, {[]int{2, 1}, []int32{1, 1}}, {[]int{2, 2}, []int32{1, 0}}} {
		path := filepath.Join(t.TempDir(), "policy.npz")
		x := []int32{0, 1, 1, 0}
		if c.want[1] == 1 {
			x = x[:2]
		}
		if err := npz.WriteFile(path, []npz.Array{npz.New("actions", x, c.shape...)}); err != nil {
			t.Fatal(err)
		}
		p, _, err := Policy(path, cart)
		if err != nil || !reflect.DeepEqual(p.Recorded[1].Discrete, c.want) {
			t.Errorf("a table of shape %v: %+v, %v; want %v", c.shape, p.Recorded, err, c.want)
		}
	}
	swing, err := classic.Make("Pendulum-v1", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.npz")
	forces := []float32{0.25, -0.5, 1, 0.75, -1, 0.125}
	if err := npz.WriteFile(path, []npz.Array{npz.New("actions", forces, 3, 2)}); err != nil {
		t.Fatal(err)
	}
	p, _, err := Policy(path, swing)
	if err != nil || len(p.Recorded) != 3 {
		t.Fatalf("%+v, %v", p.Recorded, err)
	}
	for step, a := range p.Recorded {
		if want := forces[2*step:][:2]; !slices.Equal(a.Continuous, want) || a.Discrete != nil {
			t.Errorf("step %d of a table of forces: %+v, want %v", step, a, want)
		}
	}
	wide, err := integers(npz.New("actions", []int64{1<<32 + 1, 7, -1<<32 + 1}, 3))
	if err != nil || !reflect.DeepEqual(wide, []int32{1 << 30, 7, -1}) {
		t.Errorf("what is no int32 is %v, %v, want what is no action", wide, err)
	}
}
