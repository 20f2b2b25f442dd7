package trace

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/want"
)

// runPython runs a script that may import writer, with arguments, in a Python with
// numpy, or skips the test.
func runPython(t *testing.T, script string, arguments ...string) {
	t.Helper()
	python := want.Python.Need(t)
	c := exec.CommandContext(t.Context(), python, append([]string{"-B", "-c", script}, arguments...)...)
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	c.Env = append(os.Environ(), "PYTHONPATH="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestPythonWriter writes a golden recording as a trace, in Python, and reads it.
func TestPythonWriter(t *testing.T) {
	const set, name = "../../golden/testdata/ort1.30-avx2-expU-sinfma-csv2", "00000"
	recordings, err := golden.ReadFile(filepath.Join(set, name+".pid.npz"))
	if err != nil {
		t.Fatal(err)
	}
	want := recordings[0]
	path := filepath.Join(t.TempDir(), "mine.trace")
	runPython(t, `
import sys
import numpy as np
from writer import Writer

npz = np.load(sys.argv[1])
a = {key.split("/")[1]: npz[key] for key in npz.files if "/" in key}
w = Writer(sys.argv[2], engine="python", profile="mine", digest="sha256")
all, some = w.begin(sys.argv[3], "pid", rows=600), w.begin(sys.argv[3], "zero")
full = {step: i for i, step in enumerate(a["full_steps"])}
for j in range(len(a["sample"])):
    step = {k: a[k][j] for k in ("action", "tokens", "states", "draw", "sample", "prediction", "lataccel")}
    if 20 + j in full:
        i = full[20 + j]
        probs = a["probs"][i]
        cdf = probs.astype(np.float64).cumsum()
        step.update(logits=a["logits"][i], probs=probs, cdf=cdf / cdf[-1])
    w.step(all, 20 + j, **step)
    w.step(some, 20 + j, lataccel=float(a["lataccel"][j]), sample=int(a["sample"][j]))
w.end(all, costs=a["costs"])
w.end(some, error="gave up")
w.close()
`, filepath.Join(set, name+".pid.npz"), path, name)

	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Header.Engine != "python" || f.Header.Profile != "mine" || f.Digest() != SHA256 || f.Hashed != 0 {
		t.Errorf("header %+v, hashed %b", f.Header, f.Hashed)
	}
	if len(f.Rollouts) != 2 {
		t.Fatalf("%d rollouts, want 2", len(f.Rollouts))
	}
	all, some := f.Rollouts[0], f.Rollouts[1]
	if all.Key() != "00000/pid" || all.Rows != 600 || some.Key() != "00000/zero" || some.Rows != 0 {
		t.Errorf("rollouts %+v and %+v", all.Rollout, some.Rollout)
	}
	if all.End.Costs == nil || *all.End.Costs != want.Costs || some.End.Costs != nil || some.End.Error != "gave up" {
		t.Errorf("ends %+v and %+v", all.End, some.End)
	}
	if len(all.Digests) != want.Steps() || len(some.Digests) != want.Steps() {
		t.Fatalf("%d and %d steps, want %d", len(all.Digests), len(some.Digests), want.Steps())
	}
	const n, m = lockstep.ContextLength, 4 * lockstep.ContextLength
	for i := range want.Steps() {
		d := Digest{
			Index: int32(n + i), Has: AllStages &^ Set(Logits, Probs, CDF),
			Action: want.Action[i], Draw: want.Draw[i], Sample: want.Sample[i], Prediction: want.Prediction[i], Lataccel: want.Lataccel[i],
			Tokens: SHA256.Bytes(bytesOf(want.Tokens[i*n : (i+1)*n])), States: SHA256.Bytes(bytesOf(want.States[i*m : (i+1)*m])),
		}
		if _, _, ok := want.Full(n + i); ok {
			d.Has, d.Logits, d.Probs, d.CDF = AllStages, want.LogitsHash[i], want.ProbsHash[i], want.CDFHash[i]
		}
		if all.Digests[i] != d {
			t.Fatalf("step %d: %+v, want %+v", n+i, all.Digests[i], d)
		}
		if d := (Digest{Index: int32(n + i), Has: Set(Sample, Lataccel), Sample: want.Sample[i], Lataccel: want.Lataccel[i]}); some.Digests[i] != d {
			t.Fatalf("step %d: %+v, want %+v", n+i, some.Digests[i], d)
		}
	}
}

// TestPythonWriterRefuses: values of another shape, or that would lose bits.
func TestPythonWriterRefuses(t *testing.T) {
	runPython(t, `
import sys
import numpy as np
from writer import Writer

w = Writer(sys.argv[1])
r = w.begin("00000", "pid")
for bad in ({"tokens": np.arange(19)}, {"sample": 1.5}, {"logits": np.zeros(1025, np.float32)}, {"lataccel": [1.0, 2.0]}, {"lataccell": 1.0}):
    try:
        w.step(r, 20, **bad)
    except (AssertionError, TypeError, ValueError):
        continue
    sys.exit(f"{bad} was written")
`, filepath.Join(t.TempDir(), "mine.trace"))
}

// TestPythonReader reads in Python what was written here, writes it again, and finds it
// unchanged.
func TestPythonReader(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	rollouts := invent(random, 3, 6)
	rollouts[0].result = lockstep.Result{Err: errors.New("it broke")}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.trace"), filepath.Join(dir, "b.trace")
	for _, full := range []Stages{AllStages, Set(Tokens)} {
		var data bytes.Buffer
		if err := errors.Join(write(&data, Header{}, full, rollouts, random), os.WriteFile(a, data.Bytes(), 0o666)); err != nil {
			t.Fatal(err)
		}
		runPython(t, `
import sys
from reader import records
from writer import Writer

w = Writer(sys.argv[2])
for kind, rollout, content in records(sys.argv[1]):
    if kind == "begin":
        w.begin(**content)
    elif kind == "end":
        w.end(rollout, content["costs"], content["error"])
    else:
        index = content.pop("index")
        digests = {name for name in content if name.endswith("_digest")}
        assert all(content[name].dtype == "<u8" and content[name].shape == () for name in digests)
        w.step(rollout, index, **{name: value for name, value in content.items() if name not in digests})
w.close()
`, a, b)
		want, err := Open(a)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		got, err := Open(b)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		for i := range want.Rollouts {
			w, g := want.Rollouts[i], got.Rollouts[i]
			if diff := cmp.Diff(w.Rollout, g.Rollout); diff != "" {
				t.Errorf("rollout (-want +got):\n%s", diff)
			}
			if w.End.Error != g.End.Error || (w.End.Costs == nil) != (g.End.Costs == nil) || full == AllStages && *w.End.Rolling != *g.End.Rolling {
				t.Errorf("ends %+v and %+v", w.End, g.End)
			}
			if w.End.Costs != nil && !cmp.Equal(*w.End.Costs, *g.End.Costs, bitwise) {
				t.Errorf("costs %v and %v", *w.End.Costs, *g.End.Costs)
			}
			for k := range w.Digests {
				d := w.Digests[k]
				if full != AllStages {
					d.Has &^= Arrays &^ Set(Tokens)
					d.States, d.Logits, d.Probs, d.CDF = 0, 0, 0, 0
				}
				if diff := cmp.Diff(d, g.Digests[k], bitwise); diff != "" {
					t.Fatalf("step (-want +got):\n%s", diff)
				}
			}
		}
	}
}
