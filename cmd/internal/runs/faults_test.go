//go:build linux

package runs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep"
	"lockstep/internal/faulty"
	"lockstep/internal/fileio"
	"lockstep/internal/routecache"
	"lockstep/routefile"
)

var (
	histories = flag.Int("histories", 1500, "TestFaults: how many")
	first     = flag.Int("first", 0, "TestFaults: the number of the first one")
	seed      = flag.Uint64("seed", 1, "TestFaults: of all of them")
)

// TestFaults has runs, searches, shards and caches on a disk that fails on purpose, with processes
// that are ended at any call and power cuts. What is printed is right, or there is an error; what
// was printed of a run that is kept is on the disk; and once nothing fails any more, the same
// command ends with what it would have printed undisturbed.
func TestFaults(t *testing.T) {
	count := map[string]int{}
	for i := *first; i < *first+*histories; i++ {
		h := &history{rng: rand.New(rand.NewPCG(*seed, uint64(i))), count: count}
		kind := kinds[i%len(kinds)]
		count[kind.name]++
		var wrong error
		synctest.Test(t, func(*testing.T) { wrong = h.live(kind.run) })
		if wrong != nil {
			t.Fatalf(
				"history %d of seed %d, %s: %v\n%s\nto repeat it: go test ./cmd/internal/runs "+
					"-run '^TestFaults$' -args -seed %d -first %d -histories 1",
				i, *seed, kind.name, wrong, strings.Join(h.log(), "\n"), *seed, i,
			)
		}
	}
	t.Logf("seed %d: %d histories, of which %v", *seed, *histories, count)
	for _, what := range []string{
		"ended", "power cut", "failed", "whole", "kept", "cached", "parsed",
	} {
		if *histories >= 1000 && count[what] == 0 {
			t.Errorf(
				"in none of %d histories was there a process or call that %s", *histories, what,
			)
		}
	}
}

var kinds = []struct {
	name string
	run  func(*history) error
}{
	{"runs", (*history).runs},
	{"shards", (*history).shards},
	{"searches", (*history).searches},
	{"caches", (*history).caches},
}

// history is one of what may happen.
type history struct {
	rng     *rand.Rand
	disk    *faulty.Disk
	count   map[string]int
	damaged bool // something on the disk, for good
}

const runDir = "/home/runs/one"

// live lives through a history.
func (h *history) live(run func(*history) error) error {
	h.disk = faulty.New(h.rng)
	defer func(before fileio.FileSystem) { fileio.Disk = before }(fileio.Disk)
	fileio.Disk = h.disk
	return run(h)
}

func (h *history) log() []string { return h.disk.Trace }

func (h *history) note(format string, args ...any) {
	h.disk.Trace = append(h.disk.Trace, fmt.Sprintf(format, args...))
}

// trouble decides what goes wrong during the next process, which is the last one of n with k = n-1:
// nothing in that.
func (h *history) trouble(k, n int) {
	if h.disk.Ended() {
		h.count["ended"]++
		power := h.rng.IntN(2) == 0
		if power {
			h.count["power cut"]++
		}
		h.disk.Restart(power)
	} else if k > 0 && h.rng.IntN(4) == 0 { // after a process that ended by itself
		h.count["power cut"]++
		h.disk.Restart(true)
	}
	h.disk.Rate, h.disk.Flip, h.disk.End = 0, 0, 0
	if k == n-1 {
		return
	}
	h.disk.Rate = []float64{0, 0, 0.02, 0.2}[h.rng.IntN(4)]
	h.disk.Flip = []float64{0, 0, 0, 0.2}[h.rng.IntN(4)]
	if h.rng.IntN(2) == 0 {
		h.disk.End = 1 + h.rng.IntN(60)
	}
}

// clear is what is wrong with an error that a command gives: nothing, if it says what failed and
// where.
func (h *history) clear(err error) error {
	h.note("error: %v", err)
	h.count["failed"]++
	if err.Error() == "" {
		return errors.New("an error without a word")
	}
	return nil
}

// hasher is an engine that makes costs of a hash, in any order and at any time.
type hasher struct {
	rng   *rand.Rand
	lossy bool   // loses processes
	end   func() // the context's
	endAt int
}

func (*hasher) Name() string              { return "hasher" }
func (*hasher) Profile() lockstep.Profile { return lockstep.Profile{} }

func hashed(job lockstep.Job) lockstep.Result {
	sum := sha256.Sum256(fmt.Append(nil, job.Route.Name, job.Route.Seed, job.Policy))
	if sum[8]%8 == 0 {
		return lockstep.Result{Err: fmt.Errorf("route %s: no steer command", job.Route.Name)}
	}
	x := float64(binary.LittleEndian.Uint32(sum[:]))
	return lockstep.Result{Costs: lockstep.Costs{Lataccel: x / 3, Jerk: 1 / x, Total: -x}}
}

var errKilled = lockstep.Passing(errors.New("the Python process has ended: signal: killed"))

func (s *hasher) Simulate(
	ctx context.Context, jobs []lockstep.Job, _ lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for n, i := range s.rng.Perm(len(jobs)) {
			time.Sleep(time.Duration(s.rng.IntN(90)) * time.Millisecond)
			if n == s.endAt {
				s.end()
			}
			result := lockstep.Result{Err: ctx.Err()}
			switch {
			case result.Err != nil:
			case s.lossy && s.rng.IntN(4) == 0:
				result.Err = errKilled
			default:
				result = hashed(jobs[i])
			}
			if !yield(i, result) {
				return
			}
		}
	}
}

// engine is one for the k-th of n processes: in the last, nothing is lost.
func (h *history) engine(k, n, jobs int) (*hasher, context.Context) {
	ctx, end := context.WithCancel(context.Background())
	s := &hasher{rng: rand.New(rand.NewPCG(h.rng.Uint64(), 0)), end: end, endAt: -1}
	if k < n-1 {
		s.lossy = h.rng.IntN(4) == 0
		if h.rng.IntN(4) == 0 {
			s.endAt = h.rng.IntN(jobs)
		}
	}
	return s, ctx
}

func printed(i int, r lockstep.Result) string {
	return fmt.Sprintf("%d %x %v", i, r.Costs, r.Err)
}

// runs has one run that is kept, in as many processes as it takes.
func (h *history) runs() error {
	p, jobs := sweep(1+h.rng.IntN(2), 1+h.rng.IntN(4))
	safe := map[int]bool{} // what must be on the disk
	n := 2 + h.rng.IntN(5)
	for k := range n {
		h.trouble(k, n)
		whole, err := h.process(p, jobs, k, n, safe)
		if err != nil {
			return err
		}
		if k == n-1 && !whole && !h.damaged {
			return errors.New("nothing fails any more, and yet the run does not end")
		}
		if h.rng.IntN(16) == 0 {
			h.damaged = true
			h.disk.Damage(filepath.Join(runDir, []string{planName, resultsName}[h.rng.IntN(2)]))
		}
	}
	return nil
}

// process is one of a run, and reports whether it ended well. The error is what is wrong.
func (h *history) process(
	p *Plan, jobs []lockstep.Job, k, n int, safe map[int]bool,
) (whole bool, wrong error) {
	h.note("process %d of %d", k+1, n)
	flipped := h.disk.Flipped
	journal, err := OpenJournal(runDir, p)
	if err != nil {
		return false, h.clear(err)
	}
	defer journal.Close()
	for i := range safe {
		if _, ok := journal.Result(i); !ok && !h.damaged && !h.disk.Unsynced &&
			h.disk.Flipped == flipped {
			return false, fmt.Errorf("rollout %d was printed, and is not on the disk", i)
		}
	}
	if h.rng.IntN(8) == 0 && !h.disk.Ended() {
		if second, err := OpenJournal(runDir, p); err == nil {
			second.Close()
			return false, errors.New("two processes write to one folder")
		}
	}
	s, ctx := h.engine(k, n, len(jobs))
	right, next := 0, 0
	err = (&Work{Simulator: s, Jobs: jobs, Journal: journal}).Stream(
		ctx,
		func(i int, r lockstep.Result) {
			if h.disk.Ended() {
				return // nobody sees it
			}
			switch {
			case i < next:
				wrong = fmt.Errorf("rollout %d after %d", i, next-1)
			case printed(i, r) == printed(i, hashed(jobs[i])):
				right++
				safe[i] = true
			case !lockstep.IsPassing(r.Err) || !s.lossy:
				wrong = fmt.Errorf(
					"printed %s, want %s", printed(i, r), printed(i, hashed(jobs[i])),
				)
			}
			next = i + 1
		},
	)
	if wrong != nil || h.disk.Ended() {
		return false, wrong
	}
	if err != nil {
		return false, h.clear(err)
	}
	if right != len(jobs) && !s.lossy {
		return false, fmt.Errorf("%d of %d results, and no error", right, len(jobs))
	}
	h.count["whole"]++
	return right == len(jobs), nil
}

// searches has a search of actions that is kept, each of whose choices follows from all before.
func (h *history) searches() error {
	p, _ := sweep(1, 1+h.rng.IntN(4))
	p.Planning = &Planning{Noise: []string{"own"}, Steps: 1 + h.rng.IntN(4)}
	safe, n := 0, 2+h.rng.IntN(5) // steps that must be on the disk, and processes
	for k := range n {
		h.trouble(k, n)
		done, err := h.search(p, k, n, safe)
		if err != nil {
			return err
		}
		if safe = max(safe, done); k == n-1 && done < p.Planning.Steps && !h.damaged {
			return errors.New("nothing fails any more, and yet the search does not end")
		}
		if h.rng.IntN(16) == 0 {
			h.damaged = true
			h.disk.Damage(filepath.Join(runDir, []string{planName, resultsName}[h.rng.IntN(2)]))
		}
	}
	return nil
}

// search is one process of a search, and returns how many of its steps are kept.
func (h *history) search(p *Plan, k, n, safe int) (done int, wrong error) {
	h.note("process %d of %d", k+1, n)
	flipped, routes := h.disk.Flipped, len(p.Routes)
	journal, err := OpenJournal(runDir, p)
	if err != nil {
		return 0, h.clear(err)
	}
	defer journal.Close()
	state := "begin"
	for step := range p.Planning.Steps {
		var right [][]float64
		for i := range routes {
			sum := sha256.Sum256(fmt.Append(nil, state, i))
			right = append(right, []float64{float64(sum[0]), -1 / float64(sum[1]), 0}[:1+sum[2]%3])
		}
		chosen, err := journal.Chosen(step*routes, routes, func() ([][]float64, error) {
			if step < safe && !h.damaged && !h.disk.Unsynced && h.disk.Flipped == flipped {
				wrong = fmt.Errorf("step %d was kept, and is not on the disk", step)
			}
			if k < n-1 && h.rng.IntN(4) == 0 {
				return nil, context.Canceled
			}
			return right, nil
		})
		if wrong != nil || h.disk.Ended() {
			return done, wrong
		}
		if err != nil {
			return done, h.clear(err)
		}
		if fmt.Sprint(chosen) != fmt.Sprint(right) {
			return done, fmt.Errorf("step %d chose %v, want %v", step, chosen, right)
		}
		h.count["kept"]++
		done, state = step+1, fmt.Sprint(state, chosen)
	}
	h.count["whole"]++
	return done, nil
}

// shards has a plan in shards, each computed by processes of its own, and merged.
func (h *history) shards() error {
	p, jobs := sweep(1+h.rng.IntN(2), 1+h.rng.IntN(4))
	p.Shards = 1 + h.rng.IntN(min(3, len(jobs)))
	safe := map[int]bool{}
	n := 2 + h.rng.IntN(5)
	for k := range n {
		h.trouble(k, n)
		flipped := h.disk.Flipped
		h.note("processes %d of %d", k+1, n)
		if err := writePlan(runDir, p, Inputs{}); err != nil {
			if err := h.clear(err); err != nil {
				return err
			}
		} else if err := h.shard(p, jobs, k, n, safe); err != nil {
			return err
		}
		if h.disk.Ended() {
			continue
		}
		m, err := Merge(runDir)
		switch {
		case h.disk.Ended():
		case err != nil:
			if err := h.clear(err); err != nil {
				return err
			}
		case m.Results == nil:
			h.note("missing %v, wrong %q", m.Missing, m.Wrong)
			for _, shard := range m.Missing {
				if safe[shard] && !h.damaged && !h.disk.Unsynced && h.disk.Flipped == flipped &&
					h.disk.Rate == 0 {
					return fmt.Errorf("shard %d was computed, and is not on the disk", shard)
				}
			}
		default:
			if err := h.merged(m, jobs); err != nil {
				return err
			}
			if k == n-1 {
				return nil
			}
		}
		if h.rng.IntN(16) == 0 {
			h.damaged = true
			files, _ := shardFiles(runDir, h.rng.IntN(p.Shards))
			h.disk.Damage(append(files, filepath.Join(runDir, planName))[0])
		}
	}
	if !h.damaged {
		return errors.New("nothing fails any more, and yet the shards are not merged")
	}
	return nil
}

// shard computes all shards that are not there.
func (h *history) shard(p *Plan, jobs []lockstep.Job, k, n int, safe map[int]bool) error {
	for shard := range p.Shards {
		path, err := p.keptShard(runDir, shard)
		if err == nil && path == "" {
			from, to := p.Range(shard)
			s, ctx := h.engine(k, n, to-from)
			_, err = p.runShard(ctx, runDir, shard, s, jobs[from:to], nil)
		}
		if h.disk.Ended() {
			return nil
		}
		if err != nil {
			if err := h.clear(err); err != nil {
				return err
			}
			continue
		}
		h.count["kept"]++
		safe[shard] = true
	}
	return nil
}

func (h *history) merged(m *Merged, jobs []lockstep.Job) error {
	h.count["whole"]++
	var got, want []string
	for _, r := range m.Results {
		got = append(got, printed(r.Rollout, r.Result()))
	}
	for i, job := range jobs {
		want = append(want, printed(i, hashed(job)))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("merged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return nil
}

// versions are texts of a route's file, all of one size, and what a plan knows them by.
var versions = sync.OnceValue(func() (v [3]struct {
	text  []byte
	entry PlannedRoute
}) {
	for i := range v {
		text := "roll,vEgo,aEgo,targetLateralAcceleration,steerCommand\n"
		for row := range lockstep.MinRows {
			text += fmt.Sprintf("0.0,2%d.5,0.25,0.%02d,0.5\n", i, row%100)
		}
		route, err := routefile.Loader{}.Read(strings.NewReader(text), "0.csv")
		if err != nil {
			panic(err)
		}
		v[i].text, v[i].entry = []byte(text), PlanRoute(route)
	}
	return v
})

// caches has a folder of one route that is edited between processes, at times that the file
// system's clock may not tell apart, and its cache.
func (h *history) caches() error {
	const file, cacheDir = "/data/0.csv", "/home/cache/routes"
	h.disk.Skip = "/data" // in which a bit that is read wrongly is the user's own
	h.disk.Tick = []time.Duration{1, time.Second}[h.rng.IntN(2)]
	if err := fileio.MkdirAll("/data", 0o777); err != nil {
		return err
	}
	version := 0
	h.disk.Put(file, versions()[version].text)
	n := 3 + h.rng.IntN(5)
	for k := range n {
		h.trouble(k, n)
		if h.rng.IntN(3) == 0 {
			version = h.rng.IntN(len(versions()))
			h.disk.Put(file, versions()[version].text)
			h.note("version %d", version)
		}
		cache := routecache.Cache{Dir: cacheDir, Workers: 1}
		routes, errs, stats := cache.Load(context.Background(), []string{file})
		h.note("%+v, %v", stats, errs)
		h.count["cached"] += stats.Cached
		h.count["parsed"] += stats.Parsed
		switch {
		case h.disk.Ended():
		case errs[0] != nil:
			if err := h.clear(errs[0]); err != nil {
				return err
			}
			if k == n-1 {
				return errors.New("nothing fails any more, and yet the route is not loaded")
			}
		case PlanRoute(routes[0]) != versions()[version].entry:
			return errors.New("the route that was loaded is not what its file holds")
		}
		if entries, _ := h.disk.ReadDir(cacheDir); h.rng.IntN(4) == 0 && len(entries) > 0 {
			h.disk.Damage(filepath.Join(cacheDir, entries[h.rng.IntN(len(entries))].Name()))
		}
	}
	return nil
}
