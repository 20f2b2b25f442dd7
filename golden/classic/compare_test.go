package classic_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	family "lockstep/classic"
	"lockstep/golden/classic"
	"lockstep/internal/simtest"
	reference "lockstep/reference/classic"
)

// named are the recorded cases of names that begin so, the first of each.
func named(t *testing.T, names ...string) (found []classic.RecordedCase) {
	t.Helper()
	all, err := classic.Goldens()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(c classic.RecordedCase) bool {
			return strings.HasPrefix(c.Name(), name)
		})
		if i < 0 {
			t.Fatalf("no case %s is recorded", name)
		}
		found = append(found, all[i])
	}
	return found
}

// closing is an engine that counts its vectors that are open.
type closing struct {
	family.Maker
	open int
}

type closed struct {
	family.Vector
	of *closing
}

func (c *closing) Make(t family.Task) (family.Vector, error) {
	v, err := c.Maker.Make(t)
	c.open++
	return closed{v, c}, err
}

func (c closed) Close() error { c.of.open--; return c.Vector.Close() }

// longer makes a column longer.
func longer(row [][]string, column int, text string) {
	row[column] = append(slices.Clip(row[column]), text)
}

// TestRecorder: what Python complains of is told, and a word of a recording that is not known is
// refused.
func TestRecorder(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("for want of sh, which stands for a Python")
	}
	script := filepath.Join(t.TempDir(), "record.sh")
	for _, c := range []struct{ text, want string }{
		{"echo no such module >&2; exit 3", script + ": exit status 3\nno such module"},
		{"echo '{'", "unexpected end of JSON"},
		{`echo '{"gymnasium": "1.3", "numpy": "2.4"}'`, ""},
	} {
		if err := os.WriteFile(script, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := classic.Record(t.Context(), sh, script, nil)
		if c.want != "" {
			simtest.Refused(t, c.text, err, c.want)
		} else if err != nil || r.Gymnasium != "1.3" || r.NumPy != "2.4" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	for _, text := range []string{`{"gymnazium": "1.3"}`, `{"cases": [{"hash": []}]}`} {
		_, err := classic.Read(strings.NewReader(text))
		simtest.Refused(t, text, err, "unknown field")
	}
}

// TestDifferent: of what was answered otherwise the place is told, and a recording that lacks
// something is none.
func TestDifferent(t *testing.T) {
	cases := named(t, "CartPole-v1/off/", "CartPole-v1/disabled/", "CartPole-v1/same-step/")
	engine := &closing{Maker: reference.Reference{}}
	for _, c := range cases {
		for i := range c.Hashes { // the first and the last, too
			changed := c
			changed.Hashes = slices.Clone(c.Hashes)
			changed.Hashes[i] = "0"
			want := fmt.Sprintf("steps %d to %d differ", i*c.Every, (i+1)*c.Every-1)
			simtest.Refused(t, c.Name(), changed.Compare(engine), want)
		}
		if engine.open != 0 {
			t.Errorf("%s: %d vectors were left open", c.Name(), engine.open)
		}
		if err := c.Compare(reference.Reference{}); err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
	}
	shown := ""
	for _, b := range []struct {
		change func(c *classic.RecordedCase)
		want   string
	}{
		{func(c *classic.RecordedCase) { c.Hashes[1] = "0" }, "steps %d to %d differ from"},
		{func(c *classic.RecordedCase) { c.Hashes[len(c.Hashes)-1] = "0" }, "differ from"},
		{func(c *classic.RecordedCase) { c.Every = 0 }, "hashes of"},
		{func(c *classic.RecordedCase) { c.Every = -c.Every }, "hashes of"},
		{func(c *classic.RecordedCase) { c.Hashes = c.Hashes[1:] }, "4 hashes of"},
		{func(c *classic.RecordedCase) { c.Hashes = nil }, "0 hashes of"},
		{func(c *classic.RecordedCase) { c.Hashes, c.Steps = nil, 0 }, "0 hashes of 0 steps"},
		{func(c *classic.RecordedCase) { c.Steps++ }, "hashes of"},
		{func(c *classic.RecordedCase) { c.Env = "none" }, "none"},
		{func(c *classic.RecordedCase) { c.First[0][1][0] = "7" }, "step 0, column 1: "},
		{func(c *classic.RecordedCase) { c.First[2][1][0] = "7" }, "step 2, column 1: "},
		{func(c *classic.RecordedCase) {
			x, err := strconv.ParseFloat(c.First[2][1][1], 64)
			if err != nil {
				t.Fatal(err)
			}
			c.First[2][1][1] = "7"
			shown = fmt.Sprintf("step 2, column 1: element 1 is %x, Gymnasium has 0x1.cp+02", x)
		}, "SHOWN"},
		{func(c *classic.RecordedCase) { c.First[2] = c.First[2][:5] },
			"step 2 has 6 columns, 5 were recorded"},
		{func(c *classic.RecordedCase) { c.First[2] = append(slices.Clip(c.First[2]), nil) },
			"step 2 has 6 columns, 7 were recorded"},
		{func(c *classic.RecordedCase) { longer(c.First[2], 1, "1") }, "step 2, column 1: "},
		{func(c *classic.RecordedCase) { longer(c.First[0], 0, "1") }, "step 0, column 0: "},
		{func(c *classic.RecordedCase) { c.First[1][2] = c.First[1][2][:len(c.First[1][2])-1] },
			"step 1, column 2: "},
		{func(c *classic.RecordedCase) {
			c.Bounds = map[string]float64{"low": 1, "high": 0}
		}, "low"},
	} {
		for i := range cases {
			c := named(t, cases[i].Name())[0]
			c.Hashes, c.First = slices.Clone(c.Hashes), slices.Clone(c.First)
			b.change(&c)
			want := strings.Replace(b.want, "SHOWN", shown, 1)
			if strings.Contains(want, "%d") {
				want = fmt.Sprintf(want, c.Every, 2*c.Every-1)
			}
			if err := c.Compare(reference.Reference{}); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", c.Name(), err, want)
			}
		}
	}
	c := cases[0]
	c.First = append(slices.Clip(c.First), c.First[1])
	if err := c.Compare(reference.Reference{}); err == nil {
		t.Error("a row twice is as recorded")
	}
}

// TestNames: a case is named by all of its options and bounds, no other has its name, so that a
// test that fails says which it is, and there are some of either NumPy.
func TestNames(t *testing.T) {
	c := classic.RecordedCase{
		Env: "E", Autoreset: "off", Num: 2, Seed: 3, Options: map[string]string{"a": "1", "b": "2"},
		Bounds: map[string]float64{"low": -1, "high": 0.5}, NumPy1: true,
	}
	const want = "E/off/n2/seed3/a=1/b=2/high=0.5/low=-1/numpy1"
	if got := c.Name(); got != want {
		t.Errorf("it is named %s, want %s", got, want)
	}
	all, err := classic.Goldens()
	if err != nil {
		t.Fatal(err)
	}
	of, seen := map[bool]int{}, map[string]bool{}
	for _, c := range all {
		of[c.NumPy1]++
		if seen[c.Name()] {
			t.Errorf("two cases are named %s", c.Name())
		}
		seen[c.Name()] = true
	}
	if of[true] != len(classic.Cases(true)) || of[false] != len(classic.Cases(false)) {
		t.Errorf("%v cases are of NumPy 1", of)
	}
}

// TestFunctions: functions were recorded, and what was not is refused.
func TestFunctions(t *testing.T) {
	for _, name := range []string{"pow", "powf", "sin", "cos", "sin32", "cos32"} {
		x, y, err := classic.Function(name)
		if err != nil || len(x) < 400 || len(y) != len(x) {
			t.Errorf("%s: %d arguments, %d values, %v", name, len(x), len(y), err)
		}
		if slices.Equal(x, y) || slices.Max(y) == slices.Min(y) {
			t.Errorf("%s: of %x is recorded %x", name, x[:4], y[:4])
		}
	}
	if _, _, err := classic.Function("tan"); err == nil ||
		err.Error() != "0 values of tan were recorded, 400 are wanted" {
		t.Errorf("tan: %v", err)
	}
}
