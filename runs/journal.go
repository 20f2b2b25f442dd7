package runs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lockstep/internal/fileio"
)

// Names in the folder of a run.
const (
	planName    = "plan.json"
	resultsName = "results"
	lockName    = "lock"
)

// Journal is the folder of a run; nil keeps nothing. It is for one goroutine at a time, and for one
// process: a lock keeps others out, and ends with the process that has it.
type Journal struct {
	Dir  string
	Plan *Plan

	// Dropped says what at the end of the results was not whole, as a power cut may
	// leave it, and is computed again; or is empty.
	Dropped string

	have    map[int]Result
	lock    *os.File
	results *os.File
	pending []byte
}

// OpenJournal opens the folder of a run, which it makes if there is none. A folder
// of another plan is refused.
func OpenJournal(dir string, plan *Plan) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	lock, err := fileio.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	j := &Journal{Dir: dir, Plan: plan, lock: lock}
	if err := j.open(); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// open holds the folder to the plan, and reads the results that are there. Results
// without a plan may be anybody's.
func (j *Journal) open() error {
	plan, path := filepath.Join(j.Dir, planName), filepath.Join(j.Dir, resultsName)
	if _, err := os.Stat(plan); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: of an unknown run, since there is no %s beside it; give another folder, or remove this one, whole", path, planName)
		}
	}
	if err := j.Plan.adopt(j.Dir); err != nil {
		return err
	}
	var err error
	if j.results, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return err
	}
	kept, err := readResults(path, j.Plan.Rollouts())
	if err != nil {
		return err
	}
	j.have, j.Dropped = kept.have, kept.dropped
	if err := j.results.Truncate(kept.whole); err != nil {
		return err
	}
	if _, err := j.results.Seek(kept.whole, io.SeekStart); err != nil {
		return err
	}
	return fileio.SyncDir(j.Dir)
}

// kept is what a journal's results hold.
type kept struct {
	have        map[int]Result
	first, last time.Time // when results came
	whole       int64     // bytes of whole records
	dropped     string    // what is wrong with what follows
}

// readResults reads a journal's results, up to the first record that is not whole.
func readResults(path string, n int) (*kept, error) {
	f, err := fileio.Open(path, fileio.Journal)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	k := &kept{have: map[int]Result{}}
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if err == io.EOF { // whatever is left, the process ended while it wrote it
			return k, nil
		} else if err != nil {
			return nil, err
		}
		r, ms, err := parseLine(text[:len(text)-1], n)
		if err != nil {
			k.dropped = fmt.Sprintf("%s:%d: %v: what follows is computed again", path, number, err)
			return k, nil
		}
		if _, twice := k.have[r.Rollout]; twice {
			return nil, fmt.Errorf("%s:%d: rollout %d stands there twice", path, number, r.Rollout)
		}
		k.have[r.Rollout] = r
		if k.last = time.UnixMilli(ms); k.first.IsZero() {
			k.first = k.last
		}
		k.whole += int64(len(text))
	}
}

// Result is a rollout's result, if the journal has it.
func (j *Journal) Result(i int) (Result, bool) {
	if j == nil {
		return Result{}, false
	}
	r, ok := j.have[i]
	return r, ok
}

// Add adds results. They are on the disk when it returns.
func (j *Journal) Add(results ...Result) error {
	if j == nil || len(results) == 0 {
		return nil
	}
	now := time.Now().UnixMilli()
	j.pending = j.pending[:0]
	for _, r := range results {
		if _, twice := j.have[r.Rollout]; twice {
			return fmt.Errorf("%s: rollout %d was computed twice", j.Dir, r.Rollout)
		}
		j.pending = appendLine(j.pending, r, now)
		j.have[r.Rollout] = r
	}
	if _, err := j.results.Write(j.pending); err != nil {
		return err
	}
	return j.results.Sync()
}

// WriteCurve writes the curve of a search so far into the folder.
func (j *Journal) WriteCurve(c *Curve) error {
	if j == nil {
		return nil
	}
	return c.Write(j.Dir)
}

// Close ends the use of the folder.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	var err error
	if j.results != nil {
		err = j.results.Close()
	}
	return errors.Join(err, j.lock.Close())
}
