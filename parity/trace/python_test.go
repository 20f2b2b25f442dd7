package trace

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/golden"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/parity/schema"
)

// runPython runs a script that may import writer, with arguments, in a Python with
// numpy, or skips the test.
func runPython(t *testing.T, script string, arguments ...string) {
	t.Helper()
	python := want.Python.Need(t)
	c := exec.CommandContext(
		t.Context(),
		python,
		append([]string{"-B", "-c", script}, arguments...)...)
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
import json
import sys
import numpy as np
from writer import Writer

npz = np.load(sys.argv[1])
a = {key.split("/")[1]: npz[key] for key in npz.files if "/" in key}
schema = json.load(open("../tinyphysics/schema.json"))
w = Writer(sys.argv[2], schema, engine="python", profile="mine", digest="sha256")
all, some = w.begin([sys.argv[3], "pid"], rows=600), w.begin([sys.argv[3], "zero"])
full = {step: i for i, step in enumerate(a["full_steps"])}
for j in range(len(a["sample"])):
    step = {
        k: a[k][j]
        for k in ("action", "tokens", "states", "draw", "sample", "prediction", "lataccel")
    }
    if 20 + j in full:
        i = full[20 + j]
        probs = a["probs"][i]
        cdf = probs.astype(np.float64).cumsum()
        step.update(logits=a["logits"][i], probs=probs, cdf=cdf / cdf[-1])
    w.step(all, 20 + j, **step)
    w.step(some, 20 + j, lataccel=float(a["lataccel"][j]), sample=int(a["sample"][j]))
w.end(all, outcome=a["costs"])
w.end(some, error="gave up")
w.close()
`, filepath.Join(set, name+".pid.npz"), path, name)

	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Header.Engine != "python" || f.Header.Profile != "mine" || f.Digest() != schema.SHA256 ||
		f.Hashed != 0 {
		t.Errorf("header %+v, hashed %b", f.Header, f.Hashed)
	}
	if len(f.Rollouts) != 2 {
		t.Fatalf("%d rollouts, want 2", len(f.Rollouts))
	}
	s, all, some := &f.Header.Schema, f.Rollouts[0], f.Rollouts[1]
	if all.Name() != "00000/pid" || all.Inputs["rows"] != "600" || some.Name() != "00000/zero" ||
		len(some.Inputs) != 0 {
		t.Errorf("rollouts %+v and %+v", all.Rollout, some.Rollout)
	}
	costs := []float64{want.Costs.Lataccel, want.Costs.Jerk, want.Costs.Total}
	if err := simtest.Same("costs", all.End.Outcome, costs); err != nil ||
		some.End.Outcome != nil ||
		some.End.Error != "gave up" {
		t.Errorf("ends %+v and %+v: %v", all.End, some.End, err)
	}
	if all.Digests.Len() != want.Steps() || some.Digests.Len() != want.Steps() {
		t.Fatalf("%d and %d steps, want %d", all.Digests.Len(), some.Digests.Len(), want.Steps())
	}
	for i := range want.Steps() {
		bits := recordedBits(want, i)
		holdDigests(t, s, all.Digests.At(i), 20+i, bits)
		holdDigests(t, s, some.Digests.At(i), 20+i, map[string]uint64{
			"sample": bits["sample"], "lataccel": bits["lataccel"],
		})
	}
}

// recordedBits are the digests of what a recording has of a step, by stage.
func recordedBits(r *golden.Recording, i int) map[string]uint64 {
	float := math.Float64bits
	bits := map[string]uint64{
		"action":     float(r.Action[i]),
		"draw":       float(r.Draw[i]),
		"sample":     uint64(r.Sample[i]),
		"prediction": float(r.Prediction[i]),
		"lataccel":   float(r.Lataccel[i]),
		"tokens":     schema.SHA256.Bytes(schema.Bytes(r.Tokens[20*i : 20*i+20])),
		"states":     schema.SHA256.Bytes(schema.Bytes(r.States[80*i : 80*i+80])),
	}
	if _, _, ok := r.Full(20 + i); ok {
		bits["logits"], bits["probs"] = r.LogitsHash[i], r.ProbsHash[i]
		bits["cdf"] = r.CDFHash[i]
	}
	return bits
}

// holdDigests holds a step of a trace to these stages and no others.
func holdDigests(
	t *testing.T, s *schema.Schema, d *schema.Step, step int, wanted map[string]uint64,
) {
	t.Helper()
	if d.Index != step {
		t.Fatalf("step %d, want step %d", d.Index, step)
	}
	for k, g := range s.Stages {
		if w, ok := wanted[g.Name]; d.Has.Has(k) != ok || d.Bits[k] != w {
			t.Fatalf("step %d, %s: %x, want %x", d.Index, g.Name, d.Bits[k], w)
		}
	}
}

// TestPythonWriterRefuses: values of another shape, or that would lose bits.
func TestPythonWriterRefuses(t *testing.T) {
	runPython(t, `
import json
import sys
import numpy as np
from writer import Writer

w = Writer(sys.argv[1], json.load(open("../tinyphysics/schema.json")))
r = w.begin(["00000", "pid"])
for bad in (
    {"tokens": np.arange(19)},
    {"sample": 1.5},
    {"logits": np.zeros(1025, np.float32)},
    {"lataccel": [1.0, 2.0]},
    {"lataccell": 1.0},
):
    try:
        w.step(r, 20, **bad)
    except (TypeError, ValueError):
        continue
    sys.exit(f"{bad} was written")
`, filepath.Join(t.TempDir(), "mine.trace"))
}

// TestPythonArrays: in Python each stage's array has those steps that have it, wherever they are.
func TestPythonArrays(t *testing.T) {
	runPython(t, `
import json
import sys
import numpy as np
from reader import arrays
from writer import Writer

with Writer(sys.argv[1], json.load(open("../tinyphysics/schema.json"))) as w:
    late, early, none = (w.begin(["00000", name]) for name in ("late", "early", "none"))
    w.step(late, 20, lataccel=0.5)
    w.step(late, 22, lataccel=0.25, tokens=np.arange(20))
    w.step(early, 20, lataccel=1.5, tokens=np.arange(20) + 1)
    w.step(early, 21, lataccel=2.5)
    for rollout in (late, early, none):
        w.end(rollout, error="" if rollout else "gave up")
found = arrays(sys.argv[1])
assert [r["key"][1] for r in found.values()] == ["late", "early", "none"], found
assert [(r["steps"], r["error"], r["outcome"]) for r in found.values()] == [
    (2, "gave up", None), (2, "", None), (0, "", None)
], found
assert found[late]["index"].tolist() == [20, 22], found
assert found[late]["lataccel"].tolist() == [0.5, 0.25], found
assert found[late]["tokens"].tolist() == [list(range(20))], found
assert found[early]["lataccel"].tolist() == [1.5, 2.5], found
assert found[early]["tokens"].tolist() == [list(range(1, 21))], found
assert "tokens" not in found[none], found
`, filepath.Join(t.TempDir(), "mine.trace"))
}

// TestPythonReader reads in Python what was written here, writes it again, and finds it
// unchanged.
func TestPythonReader(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	rollouts := invent(random, 3, 6)
	rollouts[0].err = errors.New("it broke \xff") // as a name of a file may, or where it is cut
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.trace"), filepath.Join(dir, "b.trace")
	for _, full := range []schema.StageSet{everything, drift.Set("tokens")} {
		var data bytes.Buffer
		if err := errors.Join(write(&data, Header{}, full, rollouts, random),
			os.WriteFile(a, data.Bytes(), 0o666)); err != nil {
			t.Fatal(err)
		}
		runPython(t, `
import struct
import sys
import zlib
from reader import arrays, records
from writer import Writer

for kind, rollout, content in records(sys.argv[1]):
    if kind == "header":
        assert rollout == -1, rollout
        w = Writer(sys.argv[2], content.pop("schema"), **content)
    elif kind == "begin":
        w.begin(content["key"], **content["inputs"])
    elif kind == "end":
        w.end(rollout, content["outcome"], content["error"])
    else:
        index = content.pop("index")
        digests = {name for name in content if name.endswith("_digest")}
        assert all(content[name].dtype == "<u8" and content[name].shape == () for name in digests)
        rest = {name: value for name, value in content.items() if name not in digests}
        w.step(rollout, index, **rest)
w.close()
whole = arrays(sys.argv[2])
assert len(whole) == 3, whole
assert all(len(r["index"]) == 6 and r["key"][1] == "pid" for r in whole.values()), whole
good = open(sys.argv[1], "rb").read()
for at, summed in (0, True), (8, True), (len(good) // 2, False), (len(good) - 1, False):
    damaged = bytearray(good)
    damaged[at] ^= 1
    if summed:  # it is no damage, but no trace of this format
        damaged[-4:] = struct.pack("<I", zlib.crc32(damaged[:-4]))
    open(sys.argv[1] + ".damaged", "wb").write(damaged)
    try:
        list(records(sys.argv[1] + ".damaged"))
        sys.exit(f"another byte {at} is not noticed")
    except AssertionError:
        pass
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
		if full == everything {
			if data, err := os.ReadFile(b); err != nil ||
				got.Rollouts[0].End.Error != `it broke \xff` ||
				len(data) == 0 {
				t.Error(err)
			}
		}
		for i := range want.Rollouts {
			w, g := want.Rollouts[i], got.Rollouts[i]
			if diff := cmp.Diff(w.Rollout, g.Rollout); diff != "" {
				t.Errorf("rollout (-want +got):\n%s", diff)
			}
			if w.End.Error != g.End.Error ||
				fmt.Sprint(w.End.Outcome) != fmt.Sprint(g.End.Outcome) {
				t.Errorf("ends %+v and %+v", w.End, g.End)
			}
			for k := range w.Digests.Len() {
				d := w.Digests.At(k)
				for stage := range drift.Stages {
					if drift.Arrays().Has(stage) && !full.Has(stage) {
						d.Has &^= 1 << stage
						d.Bits[stage] = 0
					}
				}
				if diff := cmp.Diff(d, g.Digests.At(k)); diff != "" {
					t.Fatalf("step (-want +got):\n%s", diff)
				}
			}
		}
	}
}
