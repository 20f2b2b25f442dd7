package parity

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/simtest"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// TestCaseFile: a case is kept under the words of its stage, engine and what it is, arrays of
// numbers in a line, and comes back.
func TestCaseFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "my folder")
	type whole struct {
		Case
		Numbers []int   `json:"numbers"`
		Nested  [][]int `json:"nested"`
	}
	w := whole{Case{What: "It's Broken!", Stage: "CDF", Engine: "gpu (h100)"}, []int{1, 2},
		[][]int{{3, 4}, {5}}}
	if w.Replay() != "" {
		t.Errorf("a case without a file is replayed by %q", w.Replay())
	}
	if err := w.Save(dir, &w); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "cdf-gpu-h100-it-s-broken.json")
	if w.Path != path || w.Replay() != "lockstep replay '"+path+"'" {
		t.Errorf("kept in %s, replayed by %q; want %s", w.Path, w.Replay(), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"{\n  \"format\": 2,\n", "  \"numbers\": [1, 2],\n", "    [3, 4],\n    [5]\n  ]\n}\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q:\n%s", path, want, text)
		}
	}
	var back whole
	if err := back.Load(path, &back); err != nil || back.Path != path ||
		fmt.Sprint(back.Nested) != "[[3 4] [5]]" || back.Engine != w.Engine {
		t.Errorf("%+v came back, %v; want %+v", back, err, w)
	}
	if err := w.Save(path, &w); err == nil {
		t.Error("a case is kept in a file")
	}
	if err := w.Save(dir, func() {}); err == nil {
		t.Error("what JSON has no word for is kept")
	}
}

// TestCaseNames: a name is no longer than files may have, and a folder's cases come in order.
func TestCaseNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*") // which a shell would take for a pattern
	short := Case{What: "x", Stage: "s", Engine: "e"}
	long := Case{What: strings.Repeat("x", 200), Stage: "r", Engine: "e"}
	if err := errors.Join(short.Save(dir, &short), long.Save(dir, &long)); err != nil {
		t.Fatal(err)
	}
	if n := len(filepath.Base(long.Path)); n != 120+len(".json") {
		t.Errorf("a long name is of %d bytes, want 125", n)
	}
	if got, err := CaseFiles(dir); err != nil ||
		!slices.Equal(got, []string{long.Path, short.Path}) {
		t.Errorf("%q, %v; want %s and %s", got, err, long.Path, short.Path)
	}
	if got, err := CaseFiles(short.Path); err != nil || !slices.Equal(got, []string{short.Path}) {
		t.Errorf("%q, %v; want %s", got, err, short.Path)
	}
	if got, err := CaseFiles(short.Path + "x"); err == nil {
		t.Errorf("of no file: %q", got)
	}
}

// TestCaseRefused: what is no case is refused, with its path.
func TestCaseRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "case.json")
	type whole struct {
		Case
		Numbers []int `json:"numbers"`
	}
	for text, want := range map[string]string{
		`{"format": 1}`:                "format version 1, want 2",
		`{"format": 2, "other": 1}`:    `unknown field "other"`,
		`{"format": 2, "what": 1}`:     "cannot unmarshal number",
		`nothing`:                      "invalid character",
		`{"format": 1, "numbers": {}}`: "format version 1, want 2",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var back whole
		err := back.Load(path, &back)
		simtest.Refused(t, text, err, want)
		simtest.Refused(t, text, err, path)
		if back.Path != "" {
			t.Errorf("%s: the case is of %s", text, back.Path)
		}
	}
	var none whole
	if err := none.Load(path+"x", &none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
}

// TestCheckEachResult: each field of each rollout's result is held to what was kept.
func TestCheckEachResult(t *testing.T) {
	s := &schema.Schema{
		Key:     []string{"route"},
		Outcome: schema.Outcome{Name: "costs", Elements: []string{"a", "b"}},
	}
	var tasks []RolloutTask
	results := func() (all []CaseResult) {
		for i := range 3 {
			all = append(all, CaseResult{Steps: 3, Hash: 4, Outcome: []Float{0, Float(i)}})
		}
		return all
	}
	for i := range 3 {
		tasks = append(tasks, RolloutTask{Rollout: trace.Rollout{Key: []string{fmt.Sprint(i)}}})
	}
	for i := range tasks {
		for name, change := range map[string]func(*CaseResult){
			"a step more":      func(r *CaseResult) { r.Steps++ },
			"a step less":      func(r *CaseResult) { r.Steps-- },
			"another hash":     func(r *CaseResult) { r.Hash ^= 1 << 63 },
			"an error":         func(r *CaseResult) { r.Error = true },
			"the other zero":   func(r *CaseResult) { r.Outcome[0] = Float(math.Copysign(0, -1)) },
			"the last number":  func(r *CaseResult) { r.Outcome[1] += 0x1p-50 },
			"one number less":  func(r *CaseResult) { r.Outcome = r.Outcome[:1] },
			"a NaN":            func(r *CaseResult) { r.Outcome[0] = Float(math.NaN()) },
			"no number at all": func(r *CaseResult) { r.Outcome = nil },
		} {
			changed := results()
			change(&changed[i])
			for _, sides := range [][2][]CaseResult{{results(), changed}, {changed, results()}} {
				_, err := CheckResults(s, tasks, sides[0], sides[1])
				simtest.Refused(t, name, err, fmt.Sprint("route ", i))
			}
		}
	}
}

// TestCheckResults: each way in which a result is another is said, and of equal ones what was
// compared is counted.
func TestCheckResults(t *testing.T) {
	s := &schema.Schema{
		Key:     []string{"route"},
		Stages:  []schema.Stage{{Name: "x", Type: "float64"}},
		Outcome: schema.Outcome{Name: "costs", Elements: []string{"a"}},
	}
	tasks := []RolloutTask{{Rollout: trace.Rollout{Key: []string{"7"}}}, {}}
	kept := func() []CaseResult {
		return []CaseResult{{Steps: 3, Hash: 4, Outcome: []Float{5}}, {Steps: 2, Error: true}}
	}
	r, err := CheckResults(s, tasks, kept(), kept())
	if err != nil || !r.Exact || r.Steps != 5 || r.Compared["x"] != 5 || r.Compared["costs"] != 2 ||
		r.Equal() != 2 || r.Rollouts[0].Rollout != "route 7" || r.Rollouts[0].Steps != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	for want, change := range map[string]func(r []CaseResult) []CaseResult{
		"1 results of 2 rollouts, and 2 are kept": func(r []CaseResult) []CaseResult {
			return r[:1]
		},
		"route 7: an error: true, want false": func(r []CaseResult) []CaseResult {
			r[0].Error = true
			return r
		},
		"route 7: 4 steps, want 3": func(r []CaseResult) []CaseResult { r[0].Steps++; return r },
		"route 7: stages of hash 0000000000000005, want 0000000000000004": func(
			r []CaseResult,
		) []CaseResult {
			r[0].Hash++
			return r
		},
		"route 7, stage costs, index 0 (a): want 5": func(r []CaseResult) []CaseResult {
			r[0].Outcome = []Float{6}
			return r
		},
	} {
		_, err := CheckResults(s, tasks, kept(), change(kept()))
		simtest.Refused(t, want, err, want)
	}
	_, err = CheckResults(s, tasks, kept()[:1], kept())
	simtest.Refused(t, "fewer are kept", err, "2 results of 2 rollouts, and 1 are kept")
	_, err = CheckResults(s, tasks[:1], kept(), kept())
	simtest.Refused(t, "fewer rollouts", err, "2 results of 1 rollouts, and 2 are kept")
}
