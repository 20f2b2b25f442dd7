package runs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep"
	"lockstep/internal/simtest"
)

// A keptFolder is what a run has really written, and goes on in.
type keptFolder struct {
	dir  string
	p    *Plan
	jobs []lockstep.Job
	// goes on, and returns what it comes to
	goOn func(dir string, p *Plan) (string, error)
	open *Journal // of another process
}

// file is a file of the folder; of a shard's there is one, whose name begins so.
func (k *keptFolder) file(name string) string {
	if found, _ := filepath.Glob(filepath.Join(k.dir, name+"*")); len(found) == 1 {
		return found[0]
	}
	return filepath.Join(k.dir, name)
}

// The results of a run, the choices of a search and shards, as a search with three routes and two
// steps or two controllers under five routes leave them.
var keptFolders = map[string]func(t *testing.T) *keptFolder{
	"run": func(t *testing.T) *keptFolder {
		p, jobs := sweep(2, 5)
		k := &keptFolder{dir: t.TempDir(), p: p, jobs: jobs}
		k.goOn = func(dir string, p *Plan) (string, error) {
			return emitted(t.Context(), newToy(2), p, jobs, dir)
		}
		return k
	},
	"search": func(t *testing.T) *keptFolder {
		p, jobs := sweep(1, 3)
		p.Planning = &Planning{Noise: []string{"own"}, Steps: 2}
		k := &keptFolder{dir: t.TempDir(), p: p, jobs: jobs}
		k.goOn = func(dir string, p *Plan) (string, error) {
			return search(dir, p, nil)
		}
		return k
	},
	"shards": func(t *testing.T) *keptFolder {
		p, jobs := sweep(2, 5)
		p.Shards = 3
		k := &keptFolder{dir: t.TempDir(), p: p, jobs: jobs}
		k.goOn = func(dir string, p *Plan) (string, error) {
			if err := writePlan(dir, p, Inputs{Engine: "toy"}); err != nil {
				return "", err
			}
			for shard := range p.Shards {
				file, err := p.keptShard(dir, shard)
				if from, to := p.Range(shard); err == nil && file == "" {
					_, err = p.runShard(t.Context(), dir, shard, newToy(1), jobs[from:to], nil)
				}
				if err != nil {
					return "", err
				}
			}
			return merged(dir)
		}
		return k
	},
}

// search chooses the steps of a plan, otherwise where it is told to.
func search(dir string, p *Plan, otherwise func(step, route int, c []float64) []float64) (
	whole string, err error,
) {
	j, err := OpenJournal(dir, p)
	if err != nil {
		return "", err
	}
	defer j.Close()
	n := len(p.Routes)
	for step := range p.Planning.Steps {
		chosen, err := j.Chosen(step*n, n, func() (chosen [][]float64, _ error) {
			for route := range n {
				c := []float64{0, float64(step), math.NaN()}
				if otherwise != nil {
					c = otherwise(step, route, c)
				}
				chosen = append(chosen, c)
			}
			return chosen, nil
		})
		if err != nil {
			return "", err
		}
		whole += fmt.Sprint(chosen)
	}
	return whole, nil
}

// restore puts a folder's files back: into those that are there, which may be locked still.
func restore(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for path, is := range simtest.OnDisk(t, dir) {
		if _, ok := files[path]; !ok && is[0] != 'd' || ok && is[0] != '-' {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, text := range files {
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			err = os.WriteFile(path, text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An alteration is what becomes of a folder before it is refused.
type alteration func(t *testing.T, k *keptFolder)

// edited has the lines of a file changed, which have their ends.
func edited(file string, change func(k *keptFolder, lines [][]byte) [][]byte) alteration {
	return func(t *testing.T, k *keptFolder) {
		text, err := os.ReadFile(k.file(file))
		if err == nil {
			text = bytes.Join(change(k, bytes.SplitAfter(text, []byte("\n"))), nil)
			err = os.WriteFile(k.file(file), text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// replaced has a text in a file replaced by another.
func replaced(file, old, new string) alteration {
	return edited(file, func(_ *keptFolder, lines [][]byte) [][]byte {
		return [][]byte{bytes.Replace(bytes.Join(lines, nil), []byte(old), []byte(new), 1)}
	})
}

func becomes(file, text string) alteration {
	return edited(file, func(*keptFolder, [][]byte) [][]byte { return [][]byte{[]byte(text)} })
}

func removed(file string) alteration {
	return func(t *testing.T, k *keptFolder) {
		if err := os.RemoveAll(k.file(file)); err != nil {
			t.Fatal(err)
		}
	}
}

// atWork has another process at work in the folder.
func atWork(t *testing.T, k *keptFolder) {
	var err error
	if k.open, err = OpenJournal(k.dir, k.p); err != nil {
		t.Fatal(err)
	}
}

// twice has the result of a rollout once more, changed, before the first one or behind all.
func twice(rollout int, before bool, change func(r *Result)) alteration {
	return edited(resultsName, func(k *keptFolder, lines [][]byte) [][]byte {
		for _, text := range lines[1:] {
			r, ms, err := parseLine(bytes.TrimSuffix(text, []byte("\n")), k.p.Key(),
				k.p.Rollouts())
			if err != nil || r.Rollout != rollout {
				continue
			}
			change(&r)
			at := len(lines)
			if before {
				at = 1
			}
			return slices.Insert(lines, at, appendLine(nil, k.p.Key(), r, ms))
		}
		return nil
	})
}

const shardOne = shardsName + "/000001-"

// signed has the lines of shard 1 changed, and gives it the hash and the name that it then should
// have, beside the one that is there or in its place.
func signed(beside bool, change func(lines [][]byte) [][]byte) alteration {
	return func(t *testing.T, k *keptFolder) {
		path := k.file(shardOne)
		text, err := os.ReadFile(path)
		if err == nil && !beside {
			err = os.Remove(path)
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		text = bytes.Join(change(lines[:len(lines)-2]), nil)
		text = fmt.Appendf(text, "sha256 %x\n", sha256.Sum256(text))
		path = filepath.Join(filepath.Dir(path), fmt.Sprintf("000001-%s.shard", hash16(text)))
		if err == nil {
			err = os.WriteFile(path, text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// record is a line of a shard.
func record(r Result) []byte { return appendLine(nil, "", r, 0) }

// merged is the hash of shards. The error is of what is wrong with them.
func merged(dir string) (string, error) {
	m, err := Merge(dir)
	if err != nil {
		return "", err
	}
	if len(m.Wrong) > 0 {
		err = errors.New(strings.Join(m.Wrong, "\n"))
	}
	return m.SHA256, err
}

func merges(_ *testing.T, k *keptFolder) error {
	_, err := merged(k.dir)
	return err
}

func runsShard(shard int) func(t *testing.T, k *keptFolder) error {
	return func(t *testing.T, k *keptFolder) error {
		_, err := RunShard(t.Context(), k.dir, shard, Here{}, 1, nil)
		return err
	}
}

func plansShards(shards int) func(t *testing.T, k *keptFolder) error {
	return func(t *testing.T, k *keptFolder) error {
		p := *k.p
		p.Shards = shards
		return writePlan(k.dir, &p, Inputs{})
	}
}

// nameless is an engine that says nothing of itself.
type nameless struct{ lockstep.Implementation }

func (nameless) Name() string          { return "nameless" }
func (nameless) About() lockstep.About { return lockstep.About{} }

// refusals are the guards of a run that goes on: what becomes of a folder that was really written,
// what is then asked of it, which is to go on if nothing is said, and why it is refused.
var refusals = []struct {
	what, kind string
	alter      alteration
	ask        func(t *testing.T, k *keptFolder) error
	says       string
}{
	{"no plan", "run", removed(planName), nil, "results: of an unknown run"},
	{"no plan, one byte", "run", func(t *testing.T, k *keptFolder) {
		removed(planName)(t, k)
		becomes(resultsName, "r")(t, k)
	}, nil, "results: of an unknown run"},
	{"an empty plan", "run", becomes(planName, ""), nil, "plan.json: not a plan: EOF"},
	{"a cut plan", "run", becomes(planName, `{"version": 2,`), nil, "not a plan: unexpected EOF"},
	{"a plan of more", "run", replaced(planName, `"engine"`, `"motor"`), nil, `field "motor"`},
	{"an older plan", "run", replaced(planName, `n": 2`, `n": 1`), nil, "version 1, want 2"},
	{"a newer plan", "search", replaced(planName, `n": 2`, `n": 3`), nil, "version 3, want 2"},
	{"a plan of nothing", "search", replaced(planName, `"steps": 2`, `"steps": 0`), nil,
		"plan.json: a plan of no rollouts"},
	{"11 shards", "shards", replaced(planName, `"shards": 3`, `"shards": 11`), merges,
		"plan.json: 11 shards of 10 rollouts"},
	{"-1 shards", "shards", replaced(planName, `"shards": 3`, `"shards": -1`), merges,
		"plan.json: -1 shards of 10 rollouts"},
	{"another's plan", "run", replaced(planName, `"toy"`, `"boy"`), nil,
		"plan.json is of another run: the engine is toy, there it is boy"},
	{"another's shards", "shards", replaced(planName, `"shards": 3`, `"shards": 2`), nil,
		"plan.json is of another run: 3 shards, there 2"},
	{"another's results", "run", edited(resultsName, func(_ *keptFolder, l [][]byte) [][]byte {
		return append([][]byte{[]byte("results of plan 00\n")}, l[1][1:])
	}), nil, `results: begins with "results of plan 00", and has neither the head`},
	{"somebody's notes", "search", becomes(resultsName, "notes\n"), nil, `begins with "notes"`},
	{"somebody's long line", "search", becomes(resultsName, strings.Repeat("x", 99)), nil,
		`begins with "` + strings.Repeat("x", 90) + `"`},
	{"a folder of results", "run", func(t *testing.T, k *keptFolder) {
		removed(resultsName)(t, k)
		if err := os.Mkdir(filepath.Join(k.dir, resultsName), 0o777); err != nil {
			t.Fatal(err)
		}
	}, nil, "results: not a regular file (d"},
	{"another lataccel", "run", twice(6, false, func(r *Result) { r.Costs.Lataccel++ }), nil,
		"results:12: rollout 6 stands there twice, with different results"},
	{"another jerk", "run", twice(0, false, func(r *Result) { r.Costs.Jerk = 0 }), nil,
		"results:12: rollout 0 stands there twice"},
	{"another total, before", "run", twice(9, true, func(r *Result) {
		r.Costs.Total = math.Nextafter(r.Costs.Total, 0)
	}), nil, "rollout 9 stands there twice"},
	{"another sign", "run", twice(1, false, func(r *Result) { r.Costs.Lataccel *= -1 }), nil,
		"rollout 1 stands there twice"},
	{"costs of what failed", "run", twice(3, false, func(r *Result) { r.Err = "" }), nil,
		"rollout 3 stands there twice"},
	{"another failure", "run", twice(3, true, func(r *Result) { r.Err = "x" }), nil,
		"rollout 3 stands there twice"},
	{"another choice", "search", twice(4, false, func(r *Result) { r.Chosen = r.Chosen[:2] }), nil,
		"results:8: rollout 4 stands there twice"},
	{"two processes", "run", atWork, nil, "another process is at work"},
	{"a result again", "run", atWork, func(_ *testing.T, k *keptFolder) error {
		return k.open.Add(Result{Rollout: 7})
	}, "rollout 7 was computed twice"},
	{"results that are gone", "run", func(t *testing.T, k *keptFolder) {
		atWork(t, k)
		removed(resultsName)(t, k)
	}, func(_ *testing.T, k *keptFolder) error { return k.open.Check() },
		"results: removed or replaced under way"},
	{"0 shards", "shards", nil, plansShards(0), "0 shards: want 1 or more"},
	{"more shards than rollouts", "shards", nil, plansShards(11), "11 shards of 10 rollouts"},
	{"a run in one piece", "run", nil, merges, "plan.json: the run is not in shards"},
	{"a shard behind the last", "shards", nil, runsShard(3), "shard 3: the plan has 3, from 0"},
	{"a shard before the first", "shards", nil, runsShard(-1), "shard -1: the plan has 3"},
	{"inputs that are cut", "shards", func(t *testing.T, k *keptFolder) {
		becomes(inputsName, "{")(t, k)
		removed(shardOne)(t, k)
	}, runsShard(1), "inputs.json: not the inputs of a plan: unexpected EOF"},
	{"inputs of more", "shards", func(t *testing.T, k *keptFolder) {
		replaced(inputsName, `"limit"`, `"most"`)(t, k)
		removed(shardOne)(t, k)
	}, runsShard(1), `not the inputs of a plan: json: unknown field "most"`},
	{"a damaged shard", "shards", replaced(shardOne, "rollout", "rollouT"), merges,
		"its hash is not that of its content"},
	{"a cut shard", "shards", edited(shardOne, func(_ *keptFolder, l [][]byte) [][]byte {
		return l[:3]
	}), merges, "its hash is not that of its content"},
	{"a shard of another name", "shards", func(t *testing.T, k *keptFolder) {
		path := k.file(shardOne)
		if err := os.Rename(path, strings.Replace(path, "000001-", "000001-0", 1)); err != nil {
			t.Fatal(err)
		}
	}, merges, "its name is not that of its content"},
	{"a shard without a head", "shards", signed(false, func(l [][]byte) [][]byte {
		return l[1:]
	}), merges, "its first line: "},
	{"another shard", "shards", signed(false, func(l [][]byte) [][]byte {
		l[0] = bytes.Replace(l[0], []byte(`"shard":1`), []byte(`"shard":2`), 1)
		return l
	}), merges, "it is shard 2 of 3 of plan"},
	{"another plan's shard", "shards", signed(true, func(l [][]byte) [][]byte {
		l[0] = bytes.Replace(l[0], []byte(`"plan":"`), []byte(`"plan":"0`), 1)
		return l
	}), merges, "another profile, build, network, route or controller"},
	{"a shard of one less", "shards", signed(false, func(l [][]byte) [][]byte {
		return l[:len(l)-1]
	}), merges, "it has 2 results, want those of rollouts 3 to 5"},
	{"a shard of one more", "shards", signed(true, func(l [][]byte) [][]byte {
		return append(l, record(Result{Rollout: 6}))
	}), merges, "it has 4 results, want those of rollouts 3 to 5"},
	{"another order", "shards", signed(true, func(l [][]byte) [][]byte {
		l[1], l[2] = l[2], l[1]
		return l
	}), merges, "line 2: rollout 4, want 3 next"},
	{"no records", "shards", signed(false, func(l [][]byte) [][]byte {
		l[2] = []byte("notes\n")
		return l
	}), merges, "line 3: not a record"},
	{"a record's other text", "shards", signed(true, func(l [][]byte) [][]byte {
		l[2][20] ^= 1
		return l
	}), merges, "line 3: a record with another checksum"},
	{"a rollout behind the last", "shards", signed(true, func(l [][]byte) [][]byte {
		l[3] = record(Result{Rollout: 10})
		return l
	}), merges, "line 4: a record that makes no sense, of rollout 10 of 10"},
	{"a choice", "shards", signed(false, func(l [][]byte) [][]byte {
		l[3] = record(Result{Rollout: 5, Chosen: []float64{1}})
		return l
	}), merges, "line 4: what a search chose, and no result"},
	{"an engine without a network", "run", nil, func(*testing.T, *keptFolder) error {
		_, err := NewPlan("", nameless{}, nil, nil)
		return err
	}, "the nameless engine does not say which network it has"},
	{"a program that is gone", "run", nil, func(_ *testing.T, k *keptFolder) error {
		_, err := HashProgram(filepath.Join(k.dir, "none"))
		return err
	}, "the program that computes cannot be read"},
	{"a source without a hash", "run", nil, func(*testing.T, *keptFolder) error {
		_, err := NewController(&lockstep.Batch{Name: "mine"})
		return err
	}, "controller mine: nobody knows the hash of its source"},
	{"two results of a shard", "shards", signed(true, func(l [][]byte) [][]byte {
		l[1] = record(Result{Rollout: 3, Err: "x"})
		return l
	}), merges, "shard 1 was computed with different results, so that a machine is broken"},
}

// TestRefusals: whatever has become of the folder of a run, a search or shards, who goes on in it
// is refused and told why, and nothing in it is changed by that; when all is as it was, the same
// command goes on in the same process.
func TestRefusals(t *testing.T) {
	type written struct {
		*keptFolder
		files map[string][]byte
		whole string
	}
	made := map[string]written{}
	for kind, folder := range keptFolders {
		k := folder(t)
		whole, err := k.goOn(k.dir, k.p)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		files := map[string][]byte{}
		for path := range simtest.OnDisk(t, k.dir) {
			if text, err := os.ReadFile(path); err == nil {
				files[path] = text
			}
		}
		made[kind] = written{k, files, whole}
	}
	var said []string
	for _, c := range refusals {
		k := made[c.kind]
		k.keptFolder = &keptFolder{dir: k.dir, p: k.p, jobs: k.jobs, goOn: k.goOn}
		ask := c.ask
		if ask == nil {
			ask = func(_ *testing.T, k *keptFolder) error {
				_, err := k.goOn(k.dir, k.p)
				return err
			}
		}
		if c.alter != nil {
			c.alter(t, k.keptFolder)
		}
		before := simtest.OnDisk(t, k.dir)
		err := ask(t, k.keptFolder)
		simtest.Refused(t, c.kind+", "+c.what, err, c.says)
		said = append(said, fmt.Sprint(err))
		if d := cmp.Diff(before, simtest.OnDisk(t, k.dir)); d != "" {
			t.Errorf("%s, %s: it is refused, and now there is other on the disk\n%s", c.kind,
				c.what, d)
		}
		k.open.Close()
		restore(t, k.dir, k.files)
		if again, err := k.goOn(k.dir, k.p); err != nil || again != k.whole {
			t.Errorf("%s, %s: when all is as it was, it comes to %s, %v; want %s", c.kind, c.what,
				again, err, k.whole)
		}
	}
	texts := refusalTexts(t)
	for text, at := range texts {
		is := func(words string) bool { return strings.Contains(text.String(), words) }
		if slices.ContainsFunc(said, text.MatchString) == slices.ContainsFunc(elsewhere, is) {
			t.Errorf("%s: no line of this test, or one of elsewhere too, is refused with %s", at,
				text)
		}
	}
}

// elsewhere are words of what other tests see refused, since it needs an engine, inputs or a curve.
var elsewhere = []string{
	"chose otherwise for route",                 // TestChosenOtherwise
	"would compute something else than planned", // TestParts
	"is not kept, and the same command",         // TestLost
	"shard .*, rollout .*: ",                    // TestLost
	"the engine gave no result",                 // TestShardWithoutResult
	"is not a number",                           // TestCurve
}

// refusalTexts are the errors of this package's source, of those that say more than where, as what
// matches them, and where they are made.
func refusalTexts(t *testing.T) map[*regexp.Regexp]token.Position {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, texts := token.NewFileSet(), map[*regexp.Regexp]token.Position{}
	verb := regexp.MustCompile(`%[-+#0-9.]*[a-z]`)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Errorf" && f.Sel.Name != "New" || len(call.Args) == 0 {
				return true
			}
			text := ""
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if part, ok := n.(*ast.BasicLit); ok && part.Kind == token.STRING {
					s, err := strconv.Unquote(part.Value)
					if err != nil {
						t.Fatal(err)
					}
					text += s
				}
				return true
			})
			parts := verb.Split(text, -1)
			if len(strings.Join(parts, "")) > 5 {
				for i := range parts {
					parts[i] = regexp.QuoteMeta(parts[i])
				}
				as := regexp.MustCompile("(?s)" + strings.Join(parts, ".*"))
				texts[as] = files.Position(call.Pos())
			}
			return true
		})
	}
	if len(texts) < 30 {
		t.Errorf("%d errors are found in %q", len(texts), paths)
	}
	return texts
}

// remembers: what a search chose stays in its journal, whatever becomes of what it chose with.
func (k *keptFolder) remembers(t *testing.T) {
	t.Helper()
	j, err := OpenJournal(t.TempDir(), k.p)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	n := len(k.p.Routes)
	mine := make([][]float64, n)
	for i := range mine {
		mine[i] = []float64{float64(i), 5}
	}
	choose := func() ([][]float64, error) { return mine, nil }
	if _, err := j.Chosen(0, n, choose); err != nil {
		t.Fatal(err)
	}
	for i := range mine {
		mine[i][1] = 7
	}
	kept, err := j.Chosen(0, n, choose)
	for i, c := range kept {
		if !slices.Equal(c, []float64{float64(i), 5}) {
			t.Errorf("route %d: %v is kept of [%d 5]", i, c, i)
		}
	}
	if len(kept) != n || err != nil {
		t.Errorf("%d routes of %d are kept, %v", len(kept), n, err)
	}
	// Of a step that chooses for some routes at a time, the last one alone is there.
	one := func() ([][]float64, error) { return mine[:1], nil }
	if _, err = j.Chosen(2*n-1, 1, one); err == nil {
		_, err = j.Chosen(2*n-2, 2, func() ([][]float64, error) { return mine[1:3], nil })
	}
	simtest.Refused(t, "another choice for the last of two routes", err,
		"step 1 chose otherwise for route "+k.p.Routes[n-1].Name+" before")
}

// TestChosenOtherwise: whichever routes' choices are kept of a step that was not written whole,
// each of them is what it comes to again, to the bit, or the search is refused.
func TestChosenOtherwise(t *testing.T) {
	k := keptFolders["search"](t)
	whole, err := k.goOn(k.dir, k.p)
	if err != nil {
		t.Fatal(err)
	}
	k.remembers(t)
	path := k.file(resultsName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(good, []byte("\n"))
	n := len(k.p.Routes)
	for kept := range 1 << n {
		text := bytes.Join(lines[:1+n], nil) // the head and step 0
		for route := range n {
			if kept>>route&1 == 1 {
				text = append(text, lines[1+n+route]...)
			}
		}
		for other := range n {
			for what, change := range map[string]func(c []float64) []float64{
				"another value": func(c []float64) []float64 { return append(c[:1], 7, c[2]) },
				"-0": func(c []float64) []float64 {
					return append([]float64{math.Copysign(0, -1)}, c[1:]...)
				},
				"one less": func(c []float64) []float64 { return c[:2] },
				"one more": func(c []float64) []float64 { return append(c, 0) },
			} {
				if err := os.WriteFile(path, text, 0o666); err != nil {
					t.Fatal(err)
				}
				before := simtest.OnDisk(t, k.dir)
				_, err := search(k.dir, k.p, func(step, route int, c []float64) []float64 {
					if step == 1 && route == other {
						return change(c)
					}
					return c
				})
				// Of a step that is there whole nothing is chosen again.
				if torn := kept != 1<<n-1; !torn || kept>>other&1 == 0 {
					if err != nil {
						t.Errorf("%03b are kept, %d is %s: %v", kept, other, what, err)
					}
					continue
				}
				simtest.Refused(t, fmt.Sprintf("%03b are kept, %d is %s", kept, other, what), err,
					fmt.Sprintf("step 1 chose otherwise for route %d before", other))
				if d := cmp.Diff(before, simtest.OnDisk(t, k.dir)); d != "" {
					t.Errorf("%03b are kept, %d is %s: on the disk\n%s", kept, other, what, d)
				}
				if again, err := k.goOn(k.dir, k.p); err != nil || again != whole {
					t.Errorf("%03b are kept: %s, %v; want %s", kept, again, err, whole)
				}
			}
		}
	}
}
