package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/simtest"
)

// toy is a simulator that finishes jobs in any order. A job's costs follow from its
// route and policy; route 3 fails.
type toy struct {
	order    *rand.Rand
	computed map[string]int
	stop     func(computed int) // called before each result
	options  lockstep.Options   // of the last call
}

func (*toy) Name() string              { return "toy" }
func (*toy) Profile() lockstep.Profile { return lockstep.Profile{} }

func (s *toy) Simulate(
	ctx context.Context, jobs []lockstep.Job, options lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	s.options = options
	return func(yield func(int, lockstep.Result) bool) {
		for n, i := range s.order.Perm(len(jobs)) {
			if s.stop != nil {
				s.stop(n)
			}
			name := fmt.Sprint(jobs[i].Route.Name, " ", jobs[i].Policy)
			result := lockstep.Result{Err: ctx.Err()}
			if result.Err == nil {
				s.computed[name]++
				if result = want(jobs[i]); result.Err != nil {
					result.Err = fmt.Errorf("%w\nand more", result.Err)
				}
			}
			if !yield(i, result) {
				return
			}
		}
	}
}

var errThree = errors.New("route 3 fails")

func want(job lockstep.Job) lockstep.Result {
	if job.Route.Name == "3" {
		return lockstep.Result{Err: errThree}
	}
	x := float64(job.Route.Seed) + job.Policy.(lockstep.PID).P
	return lockstep.Result{Costs: lockstep.Costs{Lataccel: x / 3, Jerk: math.NaN(), Total: -x}}
}

func newToy(seed uint64) *toy {
	return &toy{order: rand.New(rand.NewPCG(seed, 0)), computed: map[string]int{}}
}

// sweep is a plan of some gains and routes, with its jobs.
func sweep(gains, routes int) (*Plan, []lockstep.Job) {
	p := &Plan{Version: Version, Model: "m", Engine: "toy", Build: "b"}
	var jobs []lockstep.Job
	for g := range gains {
		policy := lockstep.PID{P: float64(g) + 0.1}
		p.Controllers = append(p.Controllers, PlannedController{Name: policy.String()})
		for r := range routes {
			route := &lockstep.Route{
				Name:           fmt.Sprint(r),
				Seed:           uint32(7 * r),
				TargetLataccel: []float64{float64(r)},
			}
			jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
			if g == 0 {
				p.Routes = append(p.Routes, PlanRoute(route))
			}
		}
	}
	return p, jobs
}

// emitted streams and writes what is emitted as text.
func emitted(
	ctx context.Context, s *toy, p *Plan, jobs []lockstep.Job, dir string,
) (string, error) {
	var journal *Journal
	if dir != "" {
		var err error
		if journal, err = OpenJournal(dir, p); err != nil {
			return "", err
		}
		defer journal.Close()
	}
	var text strings.Builder
	err := (&Work{Simulator: s, Jobs: jobs, Journal: journal}).Stream(
		ctx,
		func(i int, r lockstep.Result) {
			c, route := p.Controllers[i/len(p.Routes)], p.Routes[i%len(p.Routes)]
			fmt.Fprintf(
				&text, "%s %s %x %x %x %q\n", c.Name, route.Name,
				math.Float64bits(r.Costs.Lataccel), math.Float64bits(r.Costs.Jerk),
				math.Float64bits(r.Costs.Total), fmt.Sprint(r.Err),
			)
		},
	)
	return text.String(), err
}

// interrupted is a context that ends for a reason of the test's.
type interrupted struct {
	context.Context
	by error
}

func (c interrupted) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return c.by
}

// TestResume interrupts a run at any places, cuts off any number of bytes of what it
// has not yet reported, and holds what is emitted in the end to an undisturbed run.
func TestResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, jobs := sweep(
			rapid.IntRange(1, 3).Draw(t, "gains"), rapid.IntRange(1, 12).Draw(t, "routes"),
		)
		whole, err := emitted(context.Background(), newToy(1), p, jobs, "")
		if err != nil || strings.Count(whole, "\n") != len(jobs) {
			t.Fatalf("%d lines, %v", strings.Count(whole, "\n"), err)
		}
		dir, err := os.MkdirTemp("", "runs")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		computed := map[string]int{}
		for range rapid.IntRange(0, 4).Draw(t, "interruptions") {
			s := newToy(rapid.Uint64().Draw(t, "seed"))
			s.computed = computed
			inner, cancel := context.WithCancel(context.Background())
			ctx := interrupted{
				inner,
				rapid.SampledFrom([]error{context.Canceled, context.DeadlineExceeded}).Draw(
					t, "by",
				),
			}
			at := rapid.IntRange(0, len(jobs)).Draw(t, "interrupted before")
			s.stop = func(n int) {
				if n == at {
					cancel()
				}
			}
			part, err := emitted(ctx, s, p, jobs, dir)
			cancel()
			if err == nil && part != whole || err != nil && err != ctx.by {
				t.Fatalf("%v:\n%s", err, part)
			}
			for _, line := range strings.Split(strings.TrimSpace(part), "\n") {
				if !strings.Contains(whole, line) {
					t.Fatalf("%q is not of the run", line)
				}
			}
		}
		last := newToy(rapid.Uint64().Draw(t, "seed"))
		last.computed = computed
		for range 2 {
			if got, err := emitted(context.Background(), last, p, jobs, dir); err != nil ||
				got != whole {
				t.Fatalf("resumed: %v\n%s", err, cmp.Diff(whole, got))
			}
		}
		for name, n := range computed {
			if n != 1 {
				t.Errorf("%s was computed %d times", name, n)
			}
		}
	})
}

// A keptRun is a run that has ended, whose results are damaged.
type keptRun struct {
	p     *Plan
	jobs  []lockstep.Job
	dir   string
	path  string // of the results
	whole string // what the run came to
}

// resume ends the run once more, after a result, lets it go on, and holds what is computed to
// what is lost.
func (k *keptRun) resume(t *testing.T, what string, data []byte, lost int) {
	t.Helper()
	if err := os.WriteFile(k.path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{1, len(k.jobs), len(k.jobs)} {
		ctx, cancel := context.WithCancel(context.Background())
		s := newToy(2)
		s.stop = func(n int) {
			if n == after {
				cancel()
			}
		}
		got, err := emitted(ctx, s, k.p, k.jobs, k.dir)
		cancel()
		if err == nil && got != k.whole ||
			err != nil && (after > 1 || !errors.Is(err, context.Canceled)) {
			t.Fatalf("%s: %v\n%s", what, err, cmp.Diff(k.whole, got))
		}
		if lost -= len(s.computed); lost < 0 {
			t.Fatalf("%s: %d more are computed than were lost", what, -lost)
		}
	}
	now, err := os.ReadFile(k.path)
	if err != nil || !bytes.HasPrefix(now, data) {
		t.Fatalf("%s: something was cut off, %v", what, err)
	}
	if n := len(data); n > 0 && data[n-1] != '\n' && now[n] != '\n' {
		t.Fatalf("%s: what comes then is written behind it in one line", what)
	}
}

// TestJournal damages the results: what is whole is kept, before the damage and behind it, what is
// not is computed again, nothing is taken for a result that is none, and nothing is cut off.
func TestJournal(t *testing.T) {
	p, jobs := sweep(2, 5)
	k := &keptRun{p: p, jobs: jobs, dir: t.TempDir()}
	var err error
	if k.whole, err = emitted(context.Background(), newToy(1), p, jobs, k.dir); err != nil {
		t.Fatal(err)
	}
	k.path = filepath.Join(k.dir, resultsName)
	good, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(good, []byte("\n")); lines != 1+len(jobs) {
		t.Errorf("%d lines of %d results", lines, len(jobs))
	}
	k.damagedBytes(t, good)
	k.damageIsTold(t, good)
	k.joinedLines(t, good)
	k.doubledResults(t, good)
}

// damagedBytes cuts the results off, ends them in a zero, and flips a bit, at many places.
func (k *keptRun) damagedBytes(t *testing.T, good []byte) {
	t.Helper()
	begin := bytes.IndexByte(good, '\n') + 1 // of the records
	cuts := []int{begin + 1}
	for cut := 0; cut < len(good); cut += 17 {
		cuts = append(cuts, cut)
	}
	zeros := append(slices.Clone(good), make([]byte, maxLine)...)
	k.resume(t, "zeros for as long as a line may be", zeros, 0)
	for _, cut := range cuts {
		left := len(k.jobs) - max(0, bytes.Count(good[:cut], []byte("\n"))-1)
		k.resume(t, fmt.Sprintf("cut at byte %d", cut), good[:cut], left)
		if cut >= begin {
			k.resume(
				t, fmt.Sprintf("a zero at byte %d", cut), append(slices.Clone(good[:cut]), 0), left,
			)
		}
		flipped := slices.Clone(good)
		flipped[cut] ^= 1
		lost := 1
		if cut < begin || good[cut] == '\n' {
			lost = 0
		}
		k.resume(t, fmt.Sprintf("a bit at byte %d", cut), flipped, lost)
	}
}

// damageIsTold: who opens damaged results is told what was left out.
func (k *keptRun) damageIsTold(t *testing.T, good []byte) {
	t.Helper()
	damaged := slices.Clone(good)
	damaged[bytes.IndexByte(good, '\n')+1+20] ^= 1
	if err := os.WriteFile(k.path, damaged, 0o666); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournal(k.dir, k.p)
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	const said = "results:2: a record with another checksum: such lines, of which there are 1,"
	if !strings.Contains(j.Dropped, said) {
		t.Errorf("it says %q, want %q", j.Dropped, said)
	}
}

// joinedLines: a line that does not end loses nothing.
func (k *keptRun) joinedLines(t *testing.T, good []byte) {
	t.Helper()
	for i, x := range good {
		if flipped := slices.Clone(good); x == '\n' {
			flipped[i] = ' '
			k.resume(t, fmt.Sprintf("the end of a line at byte %d", i), flipped, 0)
		}
	}
}

// doubledResults: a result may stand twice, but not two of one rollout.
func (k *keptRun) doubledResults(t *testing.T, good []byte) {
	t.Helper()
	lines := bytes.SplitAfter(good, []byte("\n"))
	k.resume(t, "a result that stands twice", append(slices.Clone(good), lines[1]...), 0)
	other := appendLine(nil, k.p.Key(), Result{Rollout: 3, Err: "other"}, 0)
	if err := os.WriteFile(k.path, append(slices.Clone(good), other...), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := OpenJournal(k.dir, k.p)
	simtest.Refused(t, "two results of one rollout", err,
		"results:12: rollout 3 stands there twice, with different")
}

// TestParseLines: in a line that is damaged each whole record is found, wherever it begins and
// ends.
func TestParseLines(t *testing.T) {
	const key, n, at = "key", 9, 1_600_000_000_123 // milliseconds, of more than 32 bits
	record := func(i int) string {
		return strings.TrimSuffix(string(appendLine(nil, key, Result{Rollout: i}, at)), "\n")
	}
	for text, want := range map[string][]int{
		record(3): {3}, "x" + record(3): {3}, "xx" + record(3): {3}, "x" + record(3) + "y": {3},
		record(3) + "y": {3}, record(3) + " " + record(4): {3, 4},
		"\x00" + record(3) + "\x00" + record(4) + "\x00" + record(5): {3, 4, 5},
		record(3)[1:]: nil, record(3)[1:] + " " + record(4): {4}, "": nil, record(n): nil,
		// by the first ten bytes is the next record known
		record(3) + "x" + record(4)[:10]: {3},
	} {
		found, why := parseLines([]byte(text), key, n)
		var got []int
		for _, r := range found {
			if got = append(got, r.Rollout); r.ms != at {
				t.Errorf("%q: a record of %d, want %d", text, r.ms, int64(at))
			}
		}
		if !slices.Equal(got, want) || (why == nil) != (text == record(3)) {
			t.Errorf("%q: rollouts %v, %v; want %v", text, got, why, want)
		}
	}
}

// TestNoRecord: why a line is no record is said.
func TestNoRecord(t *testing.T) {
	for text, want := range map[string]string{
		"": "not a record", "00000000": "not a record", "00000000x{}": "not a record",
		"00000000 ": "another checksum", "zzzzzzzz {}": "another checksum",
		"00000000 {}": "another checksum",
		fmt.Sprintf("%08x x", checksum("key", []byte("x"))):   "invalid character",
		fmt.Sprintf("%08x {}", checksum("key", []byte("{}"))): "makes no sense, of rollout 0 of 9",
	} {
		_, _, err := parseLine([]byte(text), "key", 9)
		simtest.Refused(t, text, err, want)
	}
}

// TestStream: results are emitted in the order of their jobs, each once and as soon as those before
// it are there; at the end those that wait are, and what no engine gave fails, unless it was
// interrupted.
func TestStream(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		var emitted []string
		s := &stream{first: 10, results: make([]*lockstep.Result, 5)}
		s.emit = func(i int, r lockstep.Result) {
			emitted = append(emitted, fmt.Sprint(i, " ", r.Costs.Total, " ", r.Err))
		}
		hold := func(want ...string) {
			t.Helper()
			if !slices.Equal(emitted, want) {
				t.Errorf("%q are emitted, want %q", emitted, want)
			}
			emitted = nil
		}
		arrive := func(k int) {
			s.results[k] = &lockstep.Result{Costs: lockstep.Costs{Total: float64(k)}}
			s.advance()
		}
		arrive(1)
		hold()
		arrive(0)
		hold("10 0 <nil>", "11 1 <nil>")
		if s.results[0] != nil || s.results[1] != nil {
			t.Error("what was emitted is kept")
		}
		arrive(3)
		hold()
		s.rest(interrupted)
		lost := fmt.Sprint(" 0 ", errNoResult)
		if interrupted {
			hold("13 3 <nil>")
		} else {
			hold("12"+lost, "13 3 <nil>", "14"+lost)
		}
	}
}

// A prompt engine gives a result once the one before it is emitted.
type prompt struct {
	*toy
	emitted chan int
	late    bool
}

func (s *prompt) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for i := range jobs {
			if !yield(i, want(jobs[i])) {
				return
			}
			select {
			case <-s.emitted:
			case <-time.After(5 * time.Second):
				s.late = true
				return
			}
		}
	}
}

// TestPrompt: a result is emitted as soon as those before it are there, and not when all are.
func TestPrompt(t *testing.T) {
	_, jobs := sweep(1, 3)
	s := &prompt{toy: newToy(1), emitted: make(chan int, len(jobs))}
	err := (&Work{Simulator: s, Jobs: jobs}).Stream(t.Context(), func(i int, _ lockstep.Result) {
		s.emitted <- i
	})
	if err != nil || s.late {
		t.Errorf("a result waits for those behind it: %v, %v", s.late, err)
	}
}

// A counting disk knows how many files are open.
type counting struct {
	fileio.FileSystem
	open int
}

type countedFile struct {
	fileio.File
	of *counting
}

func (d *counting) OpenFile(path string, flag int, mode fs.FileMode) (fileio.File, error) {
	f, err := d.FileSystem.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	d.open++
	return &countedFile{f, d}, nil
}

func (f *countedFile) Close() error {
	f.of.open--
	return f.File.Close()
}

// TestOpenFiles: who has watched a run, or has ended one, leaves no file open.
func TestOpenFiles(t *testing.T) {
	disk := &counting{FileSystem: fileio.Disk}
	fileio.Disk = disk
	defer func() { fileio.Disk = disk.FileSystem }()
	p, jobs := sweep(1, 2)
	dir := t.TempDir()
	if _, err := emitted(t.Context(), newToy(1), p, jobs, dir); err != nil || disk.open != 0 {
		t.Errorf("a run has ended, and %d files are open, %v", disk.open, err)
	}
	if _, err := Watch(dir); err != nil || disk.open != 0 {
		t.Errorf("a run is watched, and %d files are open, %v", disk.open, err)
	}
}

// TestSparse: what a power cut may leave behind the last result takes no memory.
func TestSparse(t *testing.T) {
	p, jobs := sweep(1, 5)
	dir := t.TempDir()
	whole, err := emitted(t.Context(), newToy(1), p, jobs, dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, resultsName)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	const hole = 256 << 20
	if err := os.Truncate(path, info.Size()-3+hole); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// the last result is damaged
	if _, err := file.WriteAt(make([]byte, 3), info.Size()-3); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for want := 1; want >= 0; want-- {
		s := newToy(2)
		if got, err := emitted(t.Context(), s, p, jobs, dir); err != nil || got != whole ||
			len(s.computed) != want {
			t.Errorf(
				"%d are computed, want %d; %v\n%s", len(s.computed), want, err,
				cmp.Diff(whole, got),
			)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > hole/8 {
		t.Errorf("%d bytes of memory for a hole of %d", n, hole)
	}
}

// TestGone: a run whose folder or results are taken away under way fails, also if it is interrupted
// then, and does not write to what is there in their place; a second one finds the folder usable.
func TestGone(t *testing.T) {
	for what, take := range map[string]func(dir string) error{
		"the folder":  os.RemoveAll,
		"the results": func(dir string) error { return os.Remove(filepath.Join(dir, resultsName)) },
		"both, others are there": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-moved"), os.Mkdir(dir, 0o777))
		},
	} {
		for _, at := range []int{0, 7, 9} { // of ten jobs
			p, jobs := sweep(2, 5)
			dir := filepath.Join(t.TempDir(), "run")
			for _, interrupted := range []bool{true, false} {
				os.RemoveAll(dir)
				os.RemoveAll(dir + "-moved")
				ctx, interrupt := context.WithCancel(t.Context())
				s := newToy(1)
				s.stop = func(n int) {
					if n == at {
						if err := take(dir); err != nil {
							t.Error(err)
						}
						if interrupted {
							interrupt()
						}
					}
				}
				_, err := emitted(ctx, s, p, jobs, dir)
				simtest.Refused(t, fmt.Sprintf("%s, before result %d, interrupted: %v", what, at,
					interrupted), err, "removed or replaced under way")
				interrupt()
			}
			whole, _ := emitted(t.Context(), newToy(1), p, jobs, "")
			if what == "the results" {
				if got, err := emitted(t.Context(), newToy(1), p, jobs, dir); err != nil ||
					got != whole {
					t.Errorf("%s, again: %v\n%s", what, err, cmp.Diff(whole, got))
				}
			}
		}
	}
}

// TestLinked: results that are a link to somebody's file are refused, and that file stays as it is.
func TestLinked(t *testing.T) {
	p, _ := sweep(1, 5)
	for _, text := range []string{"", "theirs\n"} {
		dir, theirs := t.TempDir(), filepath.Join(t.TempDir(), "theirs")
		if err := os.WriteFile(theirs, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := p.adopt(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(theirs, filepath.Join(dir, resultsName)); err != nil {
			t.Fatal(err)
		}
		if j, err := OpenJournal(dir, p); err == nil ||
			!strings.Contains(err.Error(), "not a regular file (L") {
			t.Errorf("a link: %v", err)
			j.Close()
		}
		if now, err := os.ReadFile(theirs); err != nil || string(now) != text {
			t.Errorf("their file holds %q, %v", now, err)
		}
	}
}

// moved is a disk on which a file that is locked is another by then, so many times.
type moved struct {
	fileio.FileSystem
	times, locks int
}

func (d *moved) Lock(path string) (fileio.File, error) {
	d.locks++
	return d.FileSystem.Lock(path)
}

func (d *moved) SameFile(a, b fs.FileInfo) bool {
	return d.locks > d.times && d.FileSystem.SameFile(a, b)
}

// TestMoved: results that are replaced between opening and locking are opened again, ten times.
func TestMoved(t *testing.T) {
	for times, want := range map[int]int{0: 1, 1: 2, 10: 11, 11: 11, 1000: 11} {
		disk := &moved{FileSystem: fileio.Disk, times: times}
		fileio.Disk = disk
		p, _ := sweep(1, 2)
		j, err := OpenJournal(t.TempDir(), p)
		fileio.Disk = disk.FileSystem
		if (err == nil) != (times <= 10) || disk.locks != want ||
			err != nil && !strings.Contains(err.Error(), "removed or replaced under way") {
			t.Errorf("replaced %d times: %v after %d locks, want %d", times, err, disk.locks, want)
		}
		j.Close()
	}
}

// TestStops: when results can no longer be kept, the engine is not asked for all others.
func TestStops(t *testing.T) {
	p, jobs := sweep(1, 2000)
	dir := t.TempDir()
	s := newToy(1)
	s.stop = func(n int) {
		if n == 1 {
			if err := os.Remove(filepath.Join(dir, resultsName)); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := emitted(t.Context(), s, p, jobs, dir); err == nil || len(s.computed) == len(jobs) {
		t.Errorf("%v, after %d of %d results", err, len(s.computed), len(jobs))
	}
}

// TestForeign: results of another plan are not this one's, neither as a whole file nor a
// record at a time; a folder of an older lockstep is refused.
func TestForeign(t *testing.T) {
	p, jobs := sweep(1, 5)
	q, others := sweep(1, 5)
	for i := range others {
		others[i].Policy = lockstep.PID{P: 100}
	}
	q.Controllers[0].Name = others[0].Policy.String()
	dir, other := t.TempDir(), t.TempDir()
	whole, err := emitted(t.Context(), newToy(1), p, jobs, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := emitted(t.Context(), newToy(1), q, others, other); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, resultsName)
	own, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(filepath.Join(other, resultsName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, foreign, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(dir, p); err == nil ||
		!strings.Contains(err.Error(), "it is another's") {
		t.Errorf("another run's results: %v", err)
	}
	now, err := os.ReadFile(path)
	if err := errors.Join(err, simtest.Same("what was refused", now, foreign)); err != nil {
		t.Error(err)
	}
	if _, err := Watch(dir); err == nil || !strings.Contains(err.Error(), "it is another's") {
		t.Errorf("another run's results are watched: %v", err)
	}
	_, records, _ := bytes.Cut(foreign, []byte("\n"))
	begin := own[:bytes.IndexByte(own, '\n')+1]
	if err := os.WriteFile(path, append(slices.Clone(begin), records...), 0o666); err != nil {
		t.Fatal(err)
	}
	s := newToy(2)
	if got, err := emitted(t.Context(), s, p, jobs, dir); err != nil || got != whole ||
		len(s.computed) != len(jobs) {
		t.Errorf(
			"another run's records: %d are computed, %v\n%s", len(s.computed), err,
			cmp.Diff(whole, got),
		)
	}

	old := filepath.Join(dir, planName)
	text := bytes.Replace(p.text(), []byte(`"version": 2`), []byte(`"version": 1`), 1)
	if err := os.WriteFile(old, text, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = OpenJournal(dir, p)
	if err == nil ||
		!strings.Contains(err.Error(), "a plan of version 1, want 2: it is another lockstep's") {
		t.Errorf("an old folder: %v", err)
	}
}

// TestFolder holds a folder to one run and one process.
func TestFolder(t *testing.T) {
	p, _ := sweep(2, 5)
	p.Search = &Search{Kind: "pid", Seed: 1, Population: 8, Generations: 10}
	dir := t.TempDir()
	j, err := OpenJournal(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(dir, p); err == nil ||
		!strings.Contains(err.Error(), "another process is at work") {
		t.Errorf("two at once: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 { // the lock is that of the results
		t.Errorf("%v, %v; want plan and results", entries, err)
	}
	j.Close()
	if !Kept(dir) || Kept(t.TempDir()) {
		t.Errorf("a folder with a plan: %v, one without: %v", Kept(dir), Kept(t.TempDir()))
	}
	for want, change := range map[string]func(*Plan){
		"the network has":             func(p *Plan) { p.Model = "n" },
		"the engine is other":         func(p *Plan) { p.Engine = "other" },
		"the engine's build is other": func(p *Plan) { p.Build = "other" },
		"the profile is ort1.30-avx2": func(p *Plan) { p.Profile.Softmax = lockstep.SoftmaxAVX2 },
		`route 1 is "1" (seed 8`: func(p *Plan) {
			p.Routes = slices.Clone(p.Routes)
			p.Routes[1].Seed = 8
		},
		"the search is none":  func(p *Plan) { p.Search = nil },
		"the search is 9 gen": func(p *Plan) { p.Search = &Search{"pid", 1, 8, 9} },
		"4 routes, there 5":   func(p *Plan) { p.Routes = p.Routes[:4] },
		`controller 0 is "pid_0.1_0_0" (`: func(p *Plan) {
			p.Controllers = []PlannedController{{Name: p.Controllers[0].Name, SHA256: "x"},
				p.Controllers[1]}
		},
		`controller 0 is made of file gain.txt 02, there of nothing else`: func(p *Plan) {
			p.Controllers = slices.Clone(p.Controllers)
			p.Controllers[0].Made = "file gain.txt 02"
		},
	} {
		other := *p
		change(&other)
		if _, err := OpenJournal(dir, &other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if other.Key() == p.Key() {
			t.Errorf("%q: the same key", want)
		}
	}
	if _, err := Merge(dir); err == nil ||
		!strings.Contains(err.Error(), "the run is not in shards") {
		t.Errorf("a run that is not in shards is merged: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, planName)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(dir, p); err == nil ||
		!strings.Contains(err.Error(), "of an unknown run") {
		t.Errorf("results without a plan: %v", err)
	}
}

// TestNoResults: the folder of a run without results is anybody's, with their head or, as a power
// cut may leave it, without plan and head; it has one head then.
func TestNoResults(t *testing.T) {
	p, _ := sweep(1, 2)
	dir := t.TempDir()
	path := filepath.Join(dir, resultsName)
	for _, text := range []string{string(head(p.Key())), ""} {
		err := os.WriteFile(path, []byte(text), 0o666)
		if err == nil && text == "" {
			err = os.Remove(filepath.Join(dir, planName))
		} else if err == nil {
			err = p.adopt(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(dir, p)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		j.Close()
		if now, err := os.ReadFile(path); err != nil || string(now) != string(head(p.Key())) {
			t.Errorf("results of %q became %q, %v", text, now, err)
		}
	}
}

// TestOpenedClose: what was opened is ended, all of it, whichever part fails.
func TestOpenedClose(t *testing.T) {
	for fails := range 4 {
		ended := 0
		var o Opened
		for k := range 3 {
			o.close = append(o.close, func() error {
				if ended++; k == fails {
					return fs.ErrInvalid
				}
				return nil
			})
		}
		if err := o.Close(); ended != 3 || errors.Is(err, fs.ErrInvalid) != (fails < 3) {
			t.Errorf("where part %d fails, %d parts are ended, %v", fails, ended, err)
		}
	}
}

// TestPlanRoute: a plan knows each number of a route.
func TestPlanRoute(t *testing.T) {
	const rows = 3
	route := &lockstep.Route{}
	for _, column := range route.Columns() {
		*column = make([]float64, rows)
	}
	seen := map[PlannedRoute]bool{PlanRoute(route): true}
	other := &lockstep.Route{Name: "other", Seed: 1 << 31}
	all := PlanRoutes([]*lockstep.Route{route, other, route})
	if want := []PlannedRoute{
		PlanRoute(route), PlanRoute(other), PlanRoute(route),
	}; !slices.Equal(all, want) {
		t.Errorf("three routes are planned as %v, want %v", all, want)
	}
	for _, column := range route.Columns() {
		for i := range rows {
			for _, x := range []float64{math.Copysign(0, -1), math.SmallestNonzeroFloat64} {
				(*column)[i] = x
				seen[PlanRoute(route)] = true
			}
			(*column)[i] = 0
		}
	}
	if n := 1 + len(route.Columns())*rows*2; len(seen) != n {
		t.Errorf("%d of %d routes, each of which differs in a number, are told apart", len(seen), n)
	}
}

// TestDifference: whatever in a plan is another, it is another plan.
func TestDifference(t *testing.T) {
	named, _ := sweep(2, 3)
	if controllers, routes := named.Names(); len(controllers) != 2 || len(routes) != 3 ||
		controllers[1] != named.Controllers[1].Name || routes[2] != named.Routes[2].Name {
		t.Errorf("its controllers are %q, its routes %q", controllers, routes)
	}
	made := func() *Plan {
		p, _ := sweep(2, 3)
		p.Search, p.Shards = &Search{Kind: "pid", Seed: 1, Population: 8, Generations: 10}, 2
		p.Planning = &Planning{
			Noise:   []string{"own", "seeded"},
			Window:  5,
			Horizon: 24,
			Seeds:   1,
			Steps:   9,
		}
		return p
	}
	p, q := made(), made()
	if d := p.Difference(q); d != "" || p.Key() != q.Key() {
		t.Fatalf("the same plan differs: %s", d)
	}
	var visit func(v reflect.Value, name string)
	visit = func(v reflect.Value, name string) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		switch {
		case name == ".Version": // of another a plan is not read
			return
		case name == ".Profile":
			v.Set(reflect.ValueOf(lockstep.Profile{Exp: lockstep.ExpF}))
		case v.Kind() == reflect.Pointer:
			visit(v.Elem(), name)
			return
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				visit(v.Field(i), name+"."+v.Type().Field(i).Name)
			}
			return
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i), fmt.Sprintf("%s[%d]", name, i))
			}
			return
		case v.CanInt():
			v.SetInt(v.Int() + 1)
		case v.CanUint():
			v.SetUint(v.Uint() + 1)
		default:
			v.SetString(v.String() + "x")
		}
		if p.Difference(q) == "" || q.Difference(p) == "" || p.Key() == q.Key() {
			t.Errorf(
				"plans that differ in %s are told apart by %q and %q, keys %.8s and %.8s", name,
				p.Difference(q), q.Difference(p), p.Key(), q.Key(),
			)
		}
		v.Set(was)
	}
	visit(reflect.ValueOf(q), "")
}

// TestShards computes shards in any order and number and merges them; then each
// file is lost, damaged, of another plan, or there twice.
func TestShards(t *testing.T) {
	merged := map[string]bool{}
	for _, shards := range []int{1, 3, 10} {
		p, jobs := sweep(2, 5)
		p.Shards = shards
		dir := t.TempDir()
		if err := writePlan(dir, p, Inputs{}); err != nil {
			t.Fatal(err)
		}
		if m, err := Merge(dir); err != nil || len(m.Missing) != shards || m.Results != nil {
			t.Fatalf("%+v, %v", m, err)
		}
		for _, k := range rand.Perm(shards) {
			computeShard(t, dir, p, k, jobs)
		}
		merged[mergeAll(t, dir, jobs)] = true
		if w, err := Watch(dir); err != nil || !w.Done() || len(w.Results) != p.Rollouts() {
			t.Errorf("watched: %+v, %v", w, err)
		}
		damageShards(t, dir, p)
	}
	if len(merged) != 1 {
		t.Errorf("hashes %v depend on the number of shards", merged)
	}
}

// computeShard computes each rollout of a shard once, and nothing when it is asked again.
func computeShard(t *testing.T, dir string, p *Plan, k int, jobs []lockstep.Job) {
	t.Helper()
	s := newToy(uint64(k))
	from, to := p.Range(k)
	path, err := p.runShard(t.Context(), dir, k, s, jobs[from:to], nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.options != (lockstep.Options{Shortcuts: lockstep.CostOnly}) {
		t.Errorf("a shard is computed with %+v, and its costs alone are kept", s.options)
	}
	// Nothing in it depends on when it was computed.
	if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte(`"ms"`)) {
		t.Errorf("a shard that says when it was computed: %s, %v", text, err)
	}
	// What is there is not computed again: these inputs describe nothing.
	if file, err := RunShard(t.Context(), dir, k, Here{}, 1, nil); err != nil || file == "" {
		t.Fatal(file, err)
	}
	for name, n := range s.computed {
		if n != 1 {
			t.Errorf("%s was computed %d times", name, n)
		}
	}
}

// mergeAll merges shards that are all there, holds each result to the job's, and returns the hash.
func mergeAll(t *testing.T, dir string, jobs []lockstep.Job) (hash string) {
	t.Helper()
	m, err := Merge(dir)
	if err != nil || len(m.Missing)+len(m.Wrong) > 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	for i, r := range m.Results {
		w := NewResult(i, want(jobs[i]))
		if w.Err != "" {
			w.Err += "\nand more"
		}
		if string(appendLine(nil, "", r, 0)) != string(appendLine(nil, "", w, 0)) {
			t.Errorf("rollout %d: %+v, want %+v", i, r, w)
		}
	}
	whole := *m.Plan // in one piece: the hash is of its key and of each result
	whole.Shards = 0
	text := []byte(whole.Key() + "\n")
	for _, r := range m.Results {
		text = appendLine(text, "", r, 0)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	if m.SHA256 != sum || len(m.Results) != len(jobs) {
		t.Errorf("the hash of %d results of %d is %s, want %s", len(m.Results), len(jobs), m.SHA256,
			sum)
	}
	return m.SHA256
}

// lossy loses some jobs, as the death of their process does.
type lossy struct {
	*toy
	lost map[int]bool
}

func (s lossy) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for i, r := range s.toy.Simulate(ctx, jobs, opts) {
			if s.lost[i] {
				r = lockstep.Result{
					Err: fmt.Errorf("route: %w", lockstep.Passing(errors.New("killed"))),
				}
			}
			if !yield(i, r) {
				return
			}
		}
	}
}

// TestKnown: what the caller knows of a result beyond what is kept, such as its trajectory, it gets
// back, whether the folder has the result or not; and what the folder has stays as it was.
func TestKnown(t *testing.T) {
	p, jobs := sweep(1, 3)
	journal, err := OpenJournal(t.TempDir(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	drive := &lockstep.Trajectory{Action: []float64{7}}
	known := map[int]lockstep.Result{}
	for i := range 2 { // of the third the folder alone knows, the second time
		known[i] = lockstep.Result{Costs: want(jobs[i]).Costs, Trajectory: drive}
	}
	for _, when := range []string{"before anything is kept", "once all is kept"} {
		s := newToy(1)
		work := &Work{Simulator: s, Jobs: jobs, Journal: journal, Known: known}
		err := work.Stream(t.Context(), func(i int, r lockstep.Result) {
			if i < 2 != (r.Trajectory == drive) || r.Costs.Total != want(jobs[i]).Costs.Total {
				t.Errorf("%s: result %d is %+v, the caller knows %+v", when, i, r, known[i])
			}
		})
		if err != nil || len(journal.have) != 3 {
			t.Errorf("%s: %d results are kept, want 3; %v", when, len(journal.have), err)
		}
	}
}

// TestLost: what was lost with a process is told and never kept, in no folder and in no shard,
// and the next run computes it, and nothing else.
func TestLost(t *testing.T) {
	p, jobs := sweep(2, 5)
	whole, err := emitted(t.Context(), newToy(1), p, jobs, "")
	if err != nil {
		t.Fatal(err)
	}
	journal, err := OpenJournal(t.TempDir(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	s := lossy{newToy(1), map[int]bool{2: true, 7: true}}
	known := map[int]lockstep.Result{4: {Err: lockstep.Passing(errors.New("late"))}}
	work := &Work{Simulator: s, Jobs: jobs, Journal: journal, Known: known}
	told := 0
	err = work.Stream(t.Context(), func(_ int, r lockstep.Result) {
		if lockstep.IsPassing(r.Err) {
			told++
		}
	})
	if err != nil || told != 3 || len(journal.have) != len(jobs)-3 {
		t.Errorf(
			"%d are told to be lost, %d are kept, %v; want 3 of %d", told, len(journal.have), err,
			len(jobs),
		)
	}
	journal.Close()
	again := newToy(2)
	got, err := emitted(t.Context(), again, p, jobs, journal.Dir)
	if err != nil || got != whole || len(again.computed) != 3 {
		t.Errorf("again: %d are computed, %v\n%s", len(again.computed), err, cmp.Diff(whole, got))
	}

	p.Shards = 2
	dir := t.TempDir()
	if err := writePlan(dir, p, Inputs{}); err != nil {
		t.Fatal(err)
	}
	half := lossy{newToy(1), map[int]bool{0: true, 2: true}} // of which rollout 5 is the first
	_, err = p.runShard(t.Context(), dir, 1, half, jobs[5:], nil)
	simtest.Refused(t, "a shard", err, "2 of its rollouts were lost")
	simtest.Refused(t, "a shard", err, "shard 1, rollout 7: route: killed")
	if m, err := Merge(dir); err != nil || len(m.Missing) != 2 {
		t.Errorf("a shard with what was lost is kept: %+v, %v", m, err)
	}
}

// deaf gives no result for the second job.
type deaf struct{ *toy }

func (s deaf) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for i, r := range s.toy.Simulate(ctx, jobs, opts) {
			if i != 1 && !yield(i, r) {
				return
			}
		}
	}
}

// TestShardWithoutResult: a shard of which the engine gives no result for a rollout is not
// there, and is computed again.
func TestShardWithoutResult(t *testing.T) {
	p, jobs := sweep(2, 5)
	p.Shards = 1
	dir := t.TempDir()
	if err := writePlan(dir, p, Inputs{}); err != nil {
		t.Fatal(err)
	}
	_, err := p.runShard(t.Context(), dir, 0, deaf{newToy(1)}, jobs, nil)
	if !errors.Is(err, errNoResult) || !strings.Contains(err.Error(), "shard 0, rollout 1: ") {
		t.Errorf("error %v", err)
	}
	if m, err := Merge(dir); err != nil || len(m.Missing) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := p.runShard(t.Context(), dir, 0, newToy(1), jobs, nil); err != nil {
		t.Error(err)
	}
}

// damageShards holds Merge to notice what is wrong with a file.
func damageShards(t *testing.T, dir string, p *Plan) {
	files, err := shardFiles(dir, 0)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, missing int, wrong string) {
		t.Helper()
		m, err := Merge(dir)
		if err != nil || len(m.Missing) != missing || m.Results != nil ||
			wrong != "" && !strings.Contains(strings.Join(m.Wrong, "\n"), wrong) {
			t.Errorf("%s: %v, %+v", what, err, m)
		}
	}
	os.Remove(files[0])
	expect("lost", 1, "")
	for i := range good {
		if i%7 == 0 {
			data := slices.Clone(good)
			data[i] ^= 4
			os.WriteFile(files[0], data, 0o666)
			expect("a flipped bit", 1, "it is damaged")
		}
	}
	os.WriteFile(files[0], good[:len(good)/2], 0o666)
	expect("cut", 1, "it is damaged")
	// these inputs describe nothing
	if file, err := RunShard(context.Background(), dir, 0, Here{}, 1, nil); err == nil {
		t.Errorf("%s is damaged, and is not computed again", file)
	}
	os.WriteFile(files[0], good, 0o666)

	put := func(p *Plan, change func([]Result) []Result) string {
		other := t.TempDir()
		if err := writePlan(other, p, Inputs{}); err != nil {
			t.Fatal(err)
		}
		_, jobs := sweep(2, 5)
		from, to := p.Range(0)
		var results []Result
		for i := from; i < to; i++ {
			results = append(results, NewResult(i, want(jobs[i])))
		}
		text := p.shardText(0, change(results))
		path := filepath.Join(dir, shardsName, fmt.Sprintf("000000-%s.shard", hash16(text)))
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := put(p, func(r []Result) []Result {
		r[0].Costs.Total = math.Nextafter(r[0].Costs.Total, 1)
		return r
	})
	expect("computed differently", 0, "shard 0 was computed with different results")
	os.Remove(path)
	other := *p
	other.Build = "other"
	path = put(&other, func(r []Result) []Result { return r })
	expect("another build", 0, "another profile, build")
	os.Remove(path)
	// Each rollout once, at its place, and no other: whichever is wrong, beside good ones.
	for i := range p.Rollouts() / p.Shards {
		for what, change := range map[string]func([]Result) []Result{
			"one lost":     func(r []Result) []Result { return slices.Delete(r, i, i+1) },
			"one twice":    func(r []Result) []Result { return slices.Insert(r, i, r[i]) },
			"one for next": func(r []Result) []Result { r[i].Rollout++; return r },
			"one chosen": func(r []Result) []Result {
				r[i] = Result{Rollout: r[i].Rollout, Chosen: []float64{1}}
				return r
			},
			"one for before": func(r []Result) []Result { r[len(r)-1-i].Rollout--; return r },
		} {
			path = put(p, change)
			expect(what, 0, path+": ")
			os.Remove(path)
		}
	}
	if m, err := Merge(dir); err != nil || m.Results == nil {
		t.Errorf("good again: %+v, %v", m, err)
	}
}
