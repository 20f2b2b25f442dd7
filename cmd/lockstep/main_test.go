package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep"
	"lockstep/batched/onnxruntime"
	"lockstep/golden"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
	"lockstep/internal/goldentest"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
)

// profile is that of the main goldens.
const profile = "ort1.30-avx2-expU-sinfma-csv2"

// lockstepRun runs the command line and returns its exit status and output. A
// rollout that names no engine is the reference's, which runs anywhere.
func lockstepRun(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	if len(args) > 0 && args[0] == "rollout" {
		args = append(args, "--no-cache")
		if !slices.Contains(args, "--engine") {
			args = append(args, "--engine", "reference")
		}
	}
	var out bytes.Buffer
	var errs said
	status = watched(args, func() int { return run(ctx, args, &stickyWriter{w: &out}, &errs) })
	errs.Lock()
	defer errs.Unlock()
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "lockstep: ") { // as what is said on standard error begins
			leftovers.Lock()
			leftovers.found = append(leftovers.found,
				fmt.Sprintf("%q has on standard output %q", args, line))
			leftovers.Unlock()
		}
	}
	return status, out.String(), errs.text.String()
}

// said is what is written to standard error, by controllers' processes as well, all at once.
type said struct {
	sync.Mutex
	text strings.Builder
}

func (s *said) Write(data []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.text.Write(data)
}

// refuses holds a command to end as one that was called wrongly, and to say why.
func refuses(t *testing.T, what, why string, args ...string) {
	t.Helper()
	if status, _, stderr := lockstepRun(t.Context(), args...); status != exitUsage ||
		!strings.Contains(stderr, why) {
		t.Errorf("%s: exit %d, %s, want %s", what, status, stderr, why)
	}
}

// withoutNotices leaves out the lines that say whose network and routes are used: they stand
// before an error where the challenge's are not here.
func withoutNotices(stderr string) string {
	lines := strings.SplitAfter(stderr, "\n")
	return strings.Join(
		slices.DeleteFunc(
			lines, func(line string) bool { return strings.HasPrefix(line, "lockstep: using ") },
		),
		"",
	)
}

// rollout runs the rollout command in the goldens' profile, which must succeed
// and say nothing on stderr. Without --own it is of the official network.
func rollout(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	if !slices.Contains(args, "--own") {
		assetstest.Model(t)
	}
	args = append([]string{"rollout", "--profile", profile}, args...)
	status, stdout, stderr := lockstepRun(t.Context(), args...)
	if status != exitOK || stderr != "" {
		t.Fatalf("%q: exit %d, stderr %q; want 0 and nothing", args, status, stderr)
	}
	return stdout
}

// recording is what Python computed.
func recording(t *testing.T, route, controller string) *golden.Recording {
	t.Helper()
	recordings, err := golden.ReadFile(
		filepath.Join(goldentest.Root(), profile, route+"."+controller+".npz"),
	)
	if err != nil {
		t.Fatal(err)
	}
	return recordings[0]
}

func TestRolloutText(t *testing.T) {
	assetstest.Model(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--data_path", assetstest.RoutePath(t, "00000")}, "" +
			`00000  lataccel_cost:  1.293, jerk_cost:  35.56, total_cost:  100.2

Average lataccel_cost:  1.293, average jerk_cost:  35.56, average total_cost:  100.2
`},
		// The model and the routes are found by themselves.
		{[]string{"--num_segs", "2", "--pid", "0.3, 0.05, -0.1"}, "" +
			`00000  lataccel_cost:  1.482, jerk_cost:  32.76, total_cost:  106.9
00002  lataccel_cost:  1.694, jerk_cost:  20.01, total_cost:  104.7

Average lataccel_cost:  1.588, average jerk_cost:  26.38, average total_cost:  105.8
`},
	} {
		if diff := cmp.Diff(c.want, rollout(t, c.args...)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.args, diff)
		}
	}
}

func shortest(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// jsonCostText is the text of costs inside a JSON object.
func jsonCostText(c lockstep.Costs) string {
	return fmt.Sprintf(
		`"lataccel_cost":%s,"jerk_cost":%s,"total_cost":%s`, shortest(c.Lataccel), shortest(c.Jerk),
		shortest(c.Total),
	)
}

// TestRolloutJSON holds the lines to their exact text, made of what Python
// computed: keys, their order, shortest floats.
func TestRolloutJSON(t *testing.T) {
	for _, c := range []struct {
		controller string // as recorded
		args       []string
		routes     []string
	}{
		{"pid", []string{"--num_segs=2"}, []string{"00000", "00002"}},
		{"zero", []string{"--controller=zero", "--data_path", assetstest.RoutePath(t, "04744")},
			[]string{"04744"}},
		{
			"pid_0.3_0.05_-0.1",
			[]string{"--pid=0.3,0.05,-0.1", "--data_path",
				assetstest.RoutePath(t, "00004"), "--seed_prefix", "data"},
			[]string{"00004"},
		},
	} {
		lines := strings.SplitAfter(rollout(t, append(c.args, "--json")...), "\n")
		if len(lines) != len(c.routes)+2 || lines[len(c.routes)+1] != "" {
			t.Fatalf("%q: lines %q, want %d and a summary", c.args, lines, len(c.routes))
		}
		var mean lockstep.Costs
		for i, route := range c.routes {
			costs := recording(t, route, c.controller).Costs
			want := fmt.Sprintf(
				`{"route":"%s","controller":"%s","engine":"reference","profile":"%s",%s}`+"\n",
				route, c.controller, profile, jsonCostText(costs),
			)
			if lines[i] != want {
				t.Errorf("%q:\n got %swant %s", c.args, lines[i], want)
			}
			mean.Lataccel, mean.Jerk, mean.Total = mean.Lataccel+costs.Lataccel,
				mean.Jerk+costs.Jerk, mean.Total+costs.Total
		}
		n := float64(len(c.routes))
		mean.Lataccel, mean.Jerk, mean.Total = mean.Lataccel/n, mean.Jerk/n, mean.Total/n
		want := regexp.MustCompile(fmt.Sprintf(
			`^\{"routes":%d,"failed":0,"interrupted":0,"mean":\{%s\},"seconds":([0-9.e-]+)\}\n$`,
			len(c.routes), regexp.QuoteMeta(jsonCostText(mean)),
		))
		summary := lines[len(c.routes)]
		m := want.FindStringSubmatch(summary)
		if m == nil {
			t.Errorf("%q:\n got %swant %s", c.args, summary, want)
		} else if seconds, err := strconv.ParseFloat(m[1], 64); err != nil || seconds <= 0 ||
			seconds > 600 {
			t.Errorf("%q: %v seconds, %v", c.args, m[1], err)
		}
		for _, line := range lines[:len(lines)-1] {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q is no JSON", line)
			}
		}
	}
}

// shortRoute makes a route of n rows, of which edit may change the text.
func shortRoute(t *testing.T, path string, n int, edit func(string) string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n")
	for i := range n {
		steer := "0.1"
		if i >= lockstep.ControlStartIdx {
			steer = ""
		}
		fmt.Fprintf(&b, "%d,30,0,0.01,0.5,%s\n", i, steer)
	}
	text := b.String()
	if edit != nil {
		text = edit(text)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestRolloutNaN: one step that costs has no jerk; Python prints nan, and JSON
// has no number for it.
func TestRolloutNaN(t *testing.T) {
	path := filepath.Join(t.TempDir(), `a "b".csv`)
	shortRoute(t, path, lockstep.MinRows, nil)
	text := rollout(t, "--own", "--data_path", path)
	want := regexp.MustCompile(
		`^a "b"  lataccel_cost: +[0-9.e-]+, jerk_cost:    nan, total_cost:    nan\n\nAverage ` +
			`lataccel_cost: +[0-9.e-]+, average jerk_cost:    nan, average total_cost:    nan\n$`,
	)
	if !want.MatchString(text) {
		t.Errorf("got %s, want %s", text, want)
	}
	var line struct {
		Route    string   `json:"route"`
		Lataccel *float64 `json:"lataccel_cost"`
		Jerk     *float64 `json:"jerk_cost"`
		Total    *float64 `json:"total_cost"`
	}
	out := json.NewDecoder(strings.NewReader(rollout(t, "--own", "--data_path", path, "--json")))
	if err := out.Decode(&line); err != nil || line.Route != `a "b"` || line.Lataccel == nil ||
		line.Jerk != nil ||
		line.Total != nil {
		t.Errorf("got %+v, %v; want a lataccel cost and two nulls", line, err)
	}
	var summary struct {
		Routes int                 `json:"routes"`
		Mean   map[string]*float64 `json:"mean"`
	}
	if err := out.Decode(&summary); err != nil || summary.Routes != 1 ||
		summary.Mean["lataccel_cost"] == nil ||
		summary.Mean["jerk_cost"] != nil {
		t.Errorf("got %+v, %v; want one route and a lataccel cost", summary, err)
	}
}

// tracedFile opens a trace that was just written.
func tracedFile(t *testing.T, path string) *trace.File {
	t.Helper()
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestRolloutTrace holds a trace to what Python recorded, bit by bit.
func TestRolloutTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.trace")
	plain := rollout(t, "--data_path", assetstest.RoutePath(t, "00002"), "--pid", "0.3,0.05,-0.1")
	if traced := rollout(t, "--data_path", assetstest.RoutePath(t, "00002"), "--pid",
		"0.3,0.05,-0.1", "--trace", path, "--trace-values"); traced != plain {
		t.Errorf("with a trace:\n%swithout:\n%s", traced, plain)
	}
	f, want := tracedFile(t, path), recording(t, "00002", "pid_0.3_0.05_-0.1")
	if err := f.Rehash(schema.SHA256); err != nil || len(f.Rollouts) != 1 ||
		f.Rollouts[0].Digests.Len() != want.Steps() ||
		f.Hashed != 0 {
		t.Fatalf(
			"%v, %d rollouts, stages %b only as digests; want one of %d steps, all in full", err,
			len(f.Rollouts), f.Hashed, want.Steps(),
		)
	}
	if got := tinyphysics.Outcome(want.Costs); !slices.Equal(got, f.Rollouts[0].End.Outcome) {
		t.Errorf("costs %v, want %v", f.Rollouts[0].End.Outcome, got)
	}
	for i := range want.Steps() {
		s := f.Rollouts[0].Digests.At(i)
		for stage, bits := range map[string]uint64{
			tinyphysics.Tokens: schema.SHA256.Bytes(schema.Bytes(want.Tokens[20*i : 20*i+20])),
			tinyphysics.States: schema.SHA256.Bytes(schema.Bytes(want.States[80*i : 80*i+80])),
			tinyphysics.Logits: want.LogitsHash[i], tinyphysics.Probs: want.ProbsHash[i],
			tinyphysics.CDF:        want.CDFHash[i],
			tinyphysics.Draw:       math.Float64bits(want.Draw[i]),
			tinyphysics.Sample:     uint64(want.Sample[i]),
			tinyphysics.Prediction: math.Float64bits(want.Prediction[i]),
			tinyphysics.Lataccel:   math.Float64bits(want.Lataccel[i]),
			tinyphysics.Action:     math.Float64bits(want.Action[i]),
		} {
			if got := s.Bits[f.Header.Schema.Index(stage)]; got != bits ||
				s.Index != lockstep.ContextLength+i {
				t.Fatalf("step %d, %s: %x, want %x", s.Index, stage, got, bits)
			}
		}
	}
}

// TestSeedPrefix: another prefix draws other numbers.
func TestSeedPrefix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "00000.csv")
	shortRoute(t, path, lockstep.MinRows+3, nil)
	seed := func(args ...string) float64 {
		trace := filepath.Join(t.TempDir(), "a.trace")
		rollout(t, append(args, "--own", "--data_path", path, "--trace", trace)...)
		f := tracedFile(t, trace)
		return math.Float64frombits(
			f.Rollouts[0].Digests.At(0).Bits[f.Header.Schema.Index(tinyphysics.Draw)],
		)
	}
	plain, data, other := seed(), seed("--seed_prefix", "data"), seed("--seed_prefix", "other")
	if plain != data || plain == other {
		t.Errorf(
			"first draws %v, with prefix data %v, other %v; want two alike", plain, data, other,
		)
	}
	if want := recording(t, "00000", "pid").Draw[0]; plain != want {
		t.Errorf("first draw %v, Python has %v", plain, want)
	}
}

// TestUsage: every fault is one line on stderr, exit 2, and nothing else.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	model, _, err := defaults.Keep()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"half.onnx":  data[:len(data)/2],
		"text.onnx":  []byte("hello"),
		"empty.onnx": nil,
	} {
		if err := os.WriteFile(path(name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path("empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	trace := path("a.trace")
	for _, c := range []struct{ args, want string }{
		{"", "expected "},
		{"drive", "unexpected argument drive"},
		{"rollout extra", "unexpected argument extra"},
		{"rollout --speed 9", "unknown flag --speed"},
		{"rollout --controller mpc",
			`--controller "mpc": want one of zero, pid_P_I_D, ` +
				`pidff_P_I_D_ff0_ff1_ff2_ff3_ffv_smooth_leak, network from a .onnx file, table ` +
				`from a .json file, a policy file, a Python file, or the name of one in ` +
				`./controllers`},
		{"rollout --engine warp", `--engine must be one of "auto","reference"`},
		{"rollout --pid 1,2", `--pid "1,2": want the 3 gains of pid: P,I,D`},
		{"rollout --pid 1,2,3,4", `--pid "1,2,3,4": want the 3 gains of pid: P,I,D`},
		{"rollout --pid 1,,3", `--pid "1,,3": gain I is "", want a finite number`},
		{"rollout --pid 1,two,3", `--pid "1,two,3": gain I is "two", want a finite number`},
		{"rollout --pid 1,2,nan", `--pid "1,2,nan": gain D is "nan", want a finite number`},
		{"rollout --pid 1,2,1e999", `--pid "1,2,1e999": gain D is "1e999", want a finite number`},
		{"rollout --controller zero --pid 1,2,3", "--pid and --pid-grid go with --controller pid"},
		{
			"rollout --profile fast",
			`profile "fast": want five words such as ort1.30-avx512-expU-sinfma-csv2`,
		},
		{"rollout --profile ort9-avx2-expU-sinfma-csv2",
			`profile "ort9-avx2-expU-sinfma-csv2": "ort9" is not known, want one of ort1.30, ` +
				`ort1.27, ort1.23`},
		// what would be passed over
		{"verify --check none --num_segs 3", "--num_segs does not go with --check: the score"},
		{"verify --check none --profile host", "--profile does not go with --check: the score"},
		{"verify c.py --check none --seed_prefix data", "--seed_prefix does not go with --check"},
		{"bench --python python3", "--python python3 goes with --upstream, or with --env"},
		{"rollout --timeout 5s", "--timeout goes with a controller that is written in Python"},
		{"rollout --pid 1,2,3 --sandbox", "--sandbox goes with a controller that is written in"},
		{"eval --test_controller zero --memory 9", "--memory goes with a controller that is"},
		{"plan --timeout 5s", "--timeout goes with a controller that is written in Python"},
		{"compare --sandbox", "--sandbox goes with a controller that is written in Python"},
		{"shard plan --out S --shards 1 --memory 9", "--memory goes with a controller that is"},
		{"plan --noise expected,seeded --window 5", "--window goes with --noise route, not with " +
			"expected,seeded"},
		{"plan --noise expected --horizon 24", "--horizon goes with --noise route, not with"},
		{"plan --seeds 24", "--seeds goes with --noise seeded, not with route"},
		{"plan --noise route,expected --seed 1", "--seed goes with --noise seeded, not with"},
		{"export pid --out x.py --unchecked --engine reference",
			"--engine does not go with --unchecked: nothing is run"},
		{"gate --packages --all", "--all does not go with --packages: no check is run"},
		{"mutants --json --markdown", "--markdown does not go with --json: no table is printed"},
		{"fetch model --revision main", `revision "main": that is of the data`},
		{"rollout --num_segs 0", "--num_segs 0: want 1 or more"},
		{"rollout --num_segs=-1", "--num_segs -1: want 1 or more"},
		{"rollout --num_segs many", "--num_segs: "},
		{"rollout --model_path " + path("none.onnx"), "open " + path("none.onnx") + ": no such " +
			"file or directory"},
		{"rollout --model_path " + path("half.onnx"), path("half.onnx") + ": not an ONNX model, " +
			"or a damaged one: "},
		{"rollout --model_path " + path("text.onnx"), path("text.onnx") + ": not an ONNX model, " +
			"or a damaged one: "},
		{"rollout --model_path " + path("empty.onnx"), path("empty.onnx") + ": not an ONNX " +
			"model: it holds no graph"},
		{"rollout --model_path " + dir, "read " + dir + ": a folder, not a network"},
		{"rollout --data_path " + path("none"), "stat " + path("none") + ": no such file or " +
			"directory"},
		{"rollout --data_path " + path("empty"), path("empty") + ": no .csv file in this folder"},
	} {
		args := strings.Fields(c.args)
		if len(args) > 0 && args[0] == "rollout" {
			args = append(args, "--trace", trace)
		}
		status, stdout, stderr := lockstepRun(t.Context(), args...)
		stderr = withoutNotices(stderr)
		if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "lockstep: "+c.want) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf(
				"lockstep %s: exit %d, stdout %q, stderr %q; want 2 and lockstep: %s", c.args,
				status, stdout, stderr, c.want,
			)
		}
		if _, err := os.Stat(trace); err == nil {
			t.Errorf("lockstep %s: a trace is left behind", c.args)
		}
	}
}

// TestNoAssets: without assets the message says how to get them.
func TestNoAssets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LOCKSTEP_ASSETS", dir)
	for _, name := range []string{assets.Model, assets.Routes} {
		status, stdout, stderr := lockstepRun(t.Context(), "rollout")
		if status != exitUsage || stdout != "" ||
			!strings.HasPrefix(stderr, "lockstep: no "+name+" in "+dir+": set LOCKSTEP_ASSETS ") {
			t.Errorf(
				"exit %d, stdout %q, stderr %q; want 2 and how to get %s", status, stdout, stderr,
				name,
			)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"--help", "-h", "help", "rollout --help", "help rollout"} {
		status, stdout, stderr := lockstepRun(t.Context(), strings.Fields(args)...)
		if status != exitOK || !strings.HasPrefix(stdout, "Usage: lockstep ") || stderr != "" {
			t.Errorf("lockstep %s: exit %d, stderr %q, stdout:\n%s", args, status, stderr, stdout)
		}
	}
	_, stdout, _ := lockstepRun(t.Context(), "rollout", "--help")
	for _, flag := range []string{
		"model_path", "data_path", "num_segs", "controller", "pid", "engine", "profile",
		"seed_prefix", "json", "trace",
	} {
		if !strings.Contains(stdout, "--"+flag) {
			t.Errorf("the help does not name --%s:\n%s", flag, stdout)
		}
	}
}

// TestBadRoute: a bad route in a folder is reported with its place, and the
// others run.
func TestBadRoute(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name+".csv") }
	shortRoute(t, file("a"), 110, nil)
	shortRoute(
		t, file("b"), 110,
		func(text string) string { return strings.Replace(text, "\n7,30,", "\n7,fast,", 1) },
	)
	shortRoute(t, file("c"), 110, nil)
	shortRoute(t, file("d"), 50, nil)
	good, trace := filepath.Join(t.TempDir(), "good"), filepath.Join(dir, "a.trace")
	if err := os.Mkdir(good, 0o777); err != nil {
		t.Fatal(err)
	}
	shortRoute(t, filepath.Join(good, "a.csv"), 110, nil)
	shortRoute(t, filepath.Join(good, "c.csv"), 110, nil)
	want := rollout(t, "--own", "--data_path", good)

	status, stdout, stderr := lockstepRun(
		t.Context(), "rollout", "--own", "--profile", profile, "--data_path", dir,
		"--trace", trace,
	)
	if status != exitUsage || stdout != want {
		t.Errorf(
			"exit %d, want 2; stdout:\n%swant as without the bad routes:\n%s", status, stdout, want,
		)
	}
	wantErr := "lockstep: " + file("b") + ":9:3: vEgo: \"fast\" is not a number\n" +
		"lockstep: " + file("d") + ": 50 rows; want at least 101: steps 0 to 99 warm up, costs " +
		"count from step 100\n" +
		"lockstep: 2 of 4 rollouts failed\n"
	if stderr != wantErr {
		t.Errorf("stderr:\n%swant:\n%s", stderr, wantErr)
	}
	// Under each controller.
	if status, _, stderr := lockstepRun(t.Context(), "rollout", "--own", "--profile", profile,
		"--data_path", dir, "--pid", "1,0,0", "--pid", "2,0,0"); status != exitUsage ||
		!strings.HasSuffix(stderr, "lockstep: 4 of 8 rollouts failed\n") {
		t.Errorf("exit %d of two controllers\n%s", status, stderr)
	}
	searchesWhole(t, dir)
	if f := tracedFile(t, trace); len(f.Rollouts) != 2 || f.Rollouts[0].Key[0] != "a" ||
		f.Rollouts[1].Key[0] != "c" {
		t.Errorf("%d routes in the trace; want a and c", len(f.Rollouts))
	}

	// Only bad ones: no mean, no trace.
	const failed = `{"routes":0,"failed":1,"interrupted":0,"mean":{` +
		`"lataccel_cost":null,"jerk_cost":null,"total_cost":null},"seconds":`
	trace = filepath.Join(dir, "none.trace")
	for _, args := range [][]string{
		{"--data_path", file("b")}, {"--data_path", file("b"), "--json"},
	} {
		status, stdout, stderr = lockstepRun(
			t.Context(),
			append([]string{"rollout", "--own", "--trace", trace}, args...)...,
		)
		if status != exitUsage || len(args) == 2 && stdout != "" ||
			len(args) == 3 && !strings.Contains(stdout, failed) ||
			!strings.HasSuffix(stderr, "lockstep: 1 of 1 rollouts failed\n") {
			t.Errorf(
				"%q: exit %d, stdout %q, stderr %q; want 2 and that 1 of 1 failed", args, status,
				stdout, stderr,
			)
		}
		if _, err := os.Stat(trace); err == nil {
			t.Errorf("%q: a trace of nothing", args)
		}
	}
}

// searchesWhole: what looks for the best of all routes, or is held to them, leaves none out of a
// folder with two that cannot be loaded, and takes none without a jerk.
func searchesWhole(t *testing.T, dir string) {
	t.Helper()
	python := filepath.Join(t.TempDir(), "c.py")
	if err := os.WriteFile(python, []byte("class Controller: pass\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"a search", "plan"}, {"a search", "tune"}, {"a score", "verify", python},
	} {
		args := append(words[1:], "--own", "--profile", profile, "--data_path", dir)
		refuses(t, words[1], "lockstep: 2 routes could not be loaded, and "+words[0]+
			" would leave them out: mend them, or take them out of "+dir+"\n", args...)
	}
	shortest := filepath.Join(dir, "e.csv")
	shortRoute(t, shortest, lockstep.MinRows, nil)
	for _, command := range []string{"plan", "tune"} {
		refuses(t, command, "route e has 101 rows, one step that costs count, and so no jerk",
			command, "--own", "--profile", profile, "--data_path", shortest)
	}
}

// TestFailingRoute: a route on which the network gives up is reported as well.
func TestFailingRoute(t *testing.T) {
	dir := t.TempDir()
	shortRoute(
		t, filepath.Join(dir, "a.csv"), 102,
		func(text string) string { return strings.ReplaceAll(text, ",30,", ",1e300,") },
	)
	shortRoute(t, filepath.Join(dir, "b.csv"), 102, nil)
	args := []string{"rollout", "--own", "--data_path", dir}
	status, stdout, stderr := lockstepRun(t.Context(), args...)
	if status != exitUsage || !strings.HasPrefix(stdout, "b  lataccel_cost: ") ||
		!strings.Contains(stdout, "\nAverage lataccel_cost: ") {
		t.Errorf("exit %d, stdout %q; want 2 and the costs of b", status, stdout)
	}
	if want := "lockstep: route a, controller pid, step 100: probabilities contain " +
		"NaN\nlockstep: 1 of 2 rollouts failed\n"; stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	// A trace has the network's answers before step 100, too.
	trace := filepath.Join(t.TempDir(), "a.trace")
	lockstepRun(t.Context(), append(args, "--trace", trace)...)
	rollouts := tracedFile(t, trace).Rollouts
	if a, b := rollouts[0].End, rollouts[1].End; len(rollouts) != 2 || len(a.Outcome) > 0 ||
		a.Error != "route a, controller pid, step 20: probabilities contain NaN" ||
		len(b.Outcome) != 3 || b.Error != "" {
		t.Errorf("the trace ends with %+v and %+v", a, b)
	}
}

// countdown is a context that ends when it has been asked often enough, which
// simulators do at every step.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterrupted: what is done by then is printed.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	data, one := filepath.Join(dir, "data"), filepath.Join(dir, "one")
	for _, d := range []string{data, one} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
		shortRoute(t, filepath.Join(d, "a.csv"), 110, nil)
	}
	shortRoute(t, filepath.Join(data, "b.csv"), 110, nil)
	shortRoute(t, filepath.Join(data, "c.csv"), 110, nil)
	want := rollout(t, "--own", "--data_path", one)
	trace := filepath.Join(dir, "a.trace")
	args := []string{
		"rollout", "--own", "--profile", profile, "--data_path", data, "--trace", trace,
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	status, stdout, stderr := lockstepRun(cancelled, args...)
	if status != exitInterrupted || stdout != "" ||
		stderr != "lockstep: interrupted; routes were being loaded\n" {
		t.Errorf(
			"before it began: exit %d, stdout %q, stderr %q; want 130 and nothing done", status,
			stdout, stderr,
		)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a trace of nothing")
	}

	status, stdout, stderr = lockstepRun(
		&countdown{t.Context(), 110 - lockstep.ContextLength + 40},
		args...)
	if status != exitInterrupted || stdout != want ||
		stderr != "lockstep: interrupted; 1 of 3 rollouts have finished\n" {
		t.Errorf(
			"in the second route: exit %d, stderr %q, stdout:\n%swant 130 and:\n%s", status, stderr,
			stdout, want,
		)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a trace that is not whole")
	}
}

// TestTraceUnwritable: a trace that cannot be written is named before the work begins.
func TestTraceUnwritable(t *testing.T) {
	dir := t.TempDir()
	route := filepath.Join(dir, "a.csv")
	shortRoute(t, route, 102, nil)
	for _, trace := range []string{filepath.Join(dir, "none", "a.trace"), dir} {
		status, stdout, stderr := lockstepRun(
			t.Context(), "rollout", "--own", "--data_path", route, "--trace", trace,
		)
		if status != exitUsage || stdout != "" ||
			!strings.HasPrefix(stderr, "lockstep: --trace "+trace+": ") {
			t.Errorf(
				"exit %d, stdout %q, stderr %q; want 2 and an error for %s", status, stdout, stderr,
				trace,
			)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v in the folder, want the route only", entries, err)
		}
	}
}

// TestProgress: nothing is drawn where stderr is no terminal.
func TestProgress(t *testing.T) {
	route := filepath.Join(t.TempDir(), "a.csv")
	shortRoute(t, route, 102, nil)
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	if status := run(t.Context(), []string{"rollout", "--own", "--data_path", route},
		&stickyWriter{w: io.Discard}, stderr); status != exitOK {
		t.Errorf("exit %d, want 0", status)
	}
	if text, err := os.ReadFile(stderr.Name()); err != nil || len(text) > 0 {
		t.Errorf("stderr holds %q, %v; want nothing", text, err)
	}
}

func TestParsePID(t *testing.T) {
	for text, want := range map[string]lockstep.PID{
		"0.195,0.1,-0.053":    lockstep.DefaultPID(),
		" 0.195 , .1,-5.3e-2": lockstep.DefaultPID(),
		"-0,0,1e308":          {P: math.Copysign(0, -1), D: 1e308},
	} {
		if got, err := lockstep.KindPID.ParseGains(text); err != nil || got != want ||
			math.Signbit(got.Gains()[0]) != math.Signbit(want.P) {
			t.Errorf("ParseGains(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

// TestEngines runs the same rollouts on every engine: the lines are the same but
// for the engine's name.
func TestEngines(t *testing.T) {
	dir := t.TempDir()
	shortRoute(t, filepath.Join(dir, "a.csv"), 104, nil)
	shortRoute(t, filepath.Join(dir, "b.csv"), 107, nil)
	args := []string{
		"rollout", "--own", "--data_path", dir, "--json",
		"--pid", "0.3,0.05,-0.1", "--pid=-0.1,0.2,0",
		"--workers", "2",
	}
	_, want, _ := lockstepRun(t.Context(), append(args, "--engine", "reference")...)
	for _, engine := range []string{"onnxruntime", "auto"} {
		status, got, stderr := lockstepRun(t.Context(), append(args, "--engine", engine)...)
		if _, err := onnxruntime.FindLibrary(); err != nil && engine == "onnxruntime" {
			if status != exitUsage || !strings.Contains(stderr, "make onnxruntime") {
				t.Errorf("exit %d, stderr %q; want 2 and how to get ONNX Runtime", status, stderr)
			}
			continue
		}
		seconds := regexp.MustCompile(`"seconds":[^}]*`)
		clean := func(s string) string {
			return regexp.MustCompile(`"engine":"[a-z]*"`).ReplaceAllString(
				seconds.ReplaceAllString(s, ""), "",
			)
		}
		if diff := cmp.Diff(clean(want), clean(got)); status != exitOK || diff != "" {
			t.Errorf(
				"%s: exit %d, stderr %q (-reference +%s):\n%s", engine, status, stderr, engine,
				diff,
			)
		}
	}
	if n := strings.Count(want, "\n"); n != 6 {
		t.Errorf("%d lines of two sweeps over two routes, want 6:\n%s", n, want)
	}
}

// TestSweepGrid reads gains from a file and prints a line for each.
func TestSweepGrid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grid.txt")
	if err := os.WriteFile(path, []byte("# gains\n0.195, 0.1, -0.053\n\n0.3,0.05,-0.1\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	want := `pid                           2 routes, ` +
		`average lataccel_cost:  1.172, average jerk_cost:  28.13, average total_cost:  86.75
pid_0.3_0.05_-0.1             2 routes, ` +
		`average lataccel_cost:  1.588, average jerk_cost:  26.38, average total_cost:  105.8
`
	if diff := cmp.Diff(want, rollout(t, "--num_segs", "2", "--pid-grid", path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"":                 "no gains; want P,I,D on each line",
		"# gains\n\n1,2\n": "--pid-grid " + path + `:3: "1,2": want the 3 gains of pid`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if status, _, stderr := lockstepRun(t.Context(), "rollout", "--pid-grid",
			path); status != exitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, stderr %q; want 2 and %s", text, status, stderr, want)
		}
	}
}
