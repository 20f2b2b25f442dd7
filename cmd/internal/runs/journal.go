package runs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/internal/fileio"
)

// Names in the folder of a run.
const (
	planName    = "plan.json"
	resultsName = "results"
)

// Journal is the folder of a run; nil keeps nothing. It is for one goroutine at a time, and for one
// process: who writes to its results has locked them, and the lock ends with the process. Nothing
// that stands in them is ever cut off or written over.
type Journal struct {
	Dir  string
	Plan *Plan

	// Dropped says which lines of the results are no whole records of this run, as a power
	// cut may leave them, so that what they held is computed again; or is empty.
	Dropped string

	have    map[int]Result
	key     string // the plan's
	results fileio.File
	pending []byte
}

// OpenJournal opens the folder of a run, which it makes if there is none. A folder
// of another plan is refused.
func OpenJournal(dir string, plan *Plan) (*Journal, error) {
	if err := fileio.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	j := &Journal{Dir: dir, Plan: plan, key: plan.Key()}
	if err := j.open(); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// open holds the folder to the plan, and reads the results that are there. Results
// without a plan may be anybody's.
func (j *Journal) open() error {
	path := filepath.Join(j.Dir, resultsName)
	if _, err := fileio.Disk.Stat(filepath.Join(j.Dir, planName)); errors.Is(err, fs.ErrNotExist) {
		if info, err := fileio.Disk.Lstat(path); err == nil &&
			(info.Size() > 0 || !info.Mode().IsRegular()) {
			return fmt.Errorf(
				"%s: of an unknown run, since there is no %s beside it; give another folder, or "+
					"remove this one, whole",
				path, planName,
			)
		}
	}
	if err := j.Plan.adopt(j.Dir); err != nil { // before anything is made in another run's folder
		return err
	}
	// Who wrote the plan may have been ended before the folder knew of it on the disk, and a power
	// cut may leave the results alone.
	if err := fileio.SyncDir(j.Dir); err != nil {
		return err
	}
	var err error
	if j.results, err = lockResults(path); err != nil {
		return err
	}
	if err := j.Plan.adopt(j.Dir); err != nil { // another process may have been first
		return err
	}
	kept, err := readResults(path, j.Plan)
	if err != nil {
		return err
	}
	j.have, j.Dropped = kept.have, kept.dropped(path)
	if _, err := j.results.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	var text []byte
	if kept.open {
		text = append(text, '\n')
	}
	if !kept.headed && len(kept.have) == 0 {
		text = append(text, head(j.key)...)
	}
	if _, err := j.results.Write(text); err != nil {
		return err
	}
	// Before any record: a power cut may leave what comes behind, and zeros in the head's place.
	return errors.Join(j.results.Sync(), fileio.SyncDir(j.Dir))
}

// lockResults opens and locks the file that results are written to. A link may lead to
// anybody's file.
func lockResults(path string) (fileio.File, error) {
	for try := 0; ; try++ {
		if info, err := fileio.Disk.Lstat(path); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf(
				"%s: not a regular file (%v), and results are written to nothing else; "+
					"give another folder",
				path, info.Mode().Type(),
			)
		}
		f, err := fileio.Disk.Lock(path)
		if err != nil {
			return nil, err
		}
		if err = inPlace(f, path); err == nil {
			return f, nil
		}
		f.Close() // it was removed before it was locked
		if try == 10 {
			return nil, err
		}
	}
}

// inPlace is an error unless the open file is what is found at the path.
func inPlace(f fileio.File, path string) error {
	ours, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := fileio.Disk.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !fileio.Disk.SameFile(ours, there) {
		return fmt.Errorf(
			"%s: removed or replaced under way, so that nothing of this run is kept", path,
		)
	}
	return nil
}

// kept is what a journal's results hold.
type kept struct {
	have        map[int]Result
	first, last time.Time // when results came
	headed      bool      // the plan's head is there
	open        bool      // the last line has no end
	damaged     int       // lines that are neither the head nor whole records of this run
	line        int       // the first of them
	why         error     // it is none
}

// maxLine is longer than any record.
const maxLine = 1 << 20

// head is a line at the beginning of a plan's results.
func head(key string) []byte {
	return fmt.Appendf(nil, "results of plan %s\n", key)
}

// readResults reads a plan's results. Lines that are damaged are passed over. A file that has
// nothing of this plan is refused.
func readResults(path string, plan *Plan) (*kept, error) {
	f, err := fileio.Open(path, fileio.Journal)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxLine)
	k := &kept{have: map[int]Result{}}
	head, begin := head(plan.Key()), ""
	for number := 1; ; number++ {
		text, err := readLine(in)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if number == 1 {
			// Of a head that was not written whole, what is there before the zeros.
			begin, _, _ = strings.Cut(string(text[:min(len(text), 90)]), "\x00")
			begin = strings.TrimSuffix(begin, "\n")
		}
		if len(text) > 0 {
			k.open = text[len(text)-1] != '\n'
			if err := k.add(plan, head, text, number); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, number, err)
			}
		}
		if err == io.EOF {
			break
		}
	}
	if !k.headed && len(k.have) == 0 && !bytes.HasPrefix(head, []byte(begin)) {
		return nil, fmt.Errorf("%s: begins with %q, and has neither the head %q nor any record of "+
			"this run: it is another's; give another folder, or remove this one, whole",
			path, begin, bytes.TrimSpace(head))
	}
	return k, nil
}

// readLine reads a line with its end. Of one that is longer than any record, as the zeros that
// a power cut may leave, it is a part.
func readLine(in *bufio.Reader) ([]byte, error) {
	text, err := in.ReadSlice('\n')
	for err == bufio.ErrBufferFull {
		if text, err = in.ReadSlice('\n'); err == io.EOF && len(text) == 0 {
			return []byte{0}, err
		}
	}
	return text, err
}

// add takes what a line holds. A result may stand there twice, since a record that could not be
// read for once was computed again. The error is of one that is not the same.
func (k *kept) add(plan *Plan, head, text []byte, number int) error {
	if bytes.Equal(text, head) {
		k.headed = true
		return nil
	}
	results, why := parseLines(bytes.TrimSuffix(text, []byte("\n")), plan.Key(), plan.Rollouts())
	if why != nil && !k.open { // else the process ended while it wrote it
		if k.damaged++; k.damaged == 1 {
			k.line, k.why = number, why
		}
	}
	for _, r := range results {
		if before, twice := k.have[r.Rollout]; twice && !before.same(r.Result) {
			return fmt.Errorf("rollout %d stands there twice, with different results, so that a "+
				"machine is broken; remove the folder, whole", r.Rollout)
		}
		k.have[r.Rollout] = r.Result
		if k.last = time.UnixMilli(r.ms); k.first.IsZero() {
			k.first = k.last
		}
	}
	return nil
}

// dropped says which lines were passed over.
func (k *kept) dropped(path string) string {
	if k.damaged == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d: %v: such lines, of which there are %d, stay where they are and "+
		"are passed over; what they held is computed again", path, k.line, k.why, k.damaged)
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
	now := fileio.Disk.Now().UnixMilli()
	j.pending = j.pending[:0]
	for _, r := range results {
		if _, twice := j.have[r.Rollout]; twice {
			return fmt.Errorf("%s: rollout %d was computed twice", j.Dir, r.Rollout)
		}
		j.pending = appendLine(j.pending, j.key, r, now)
		j.have[r.Rollout] = r
	}
	if _, err := j.results.Write(j.pending); err != nil {
		return err
	}
	return errors.Join(j.results.Sync(), j.Check())
}

// Chosen is what a step of a search chose for some routes, whose records begin at first: what is
// kept of it, or what choose returns, which is on the disk before it is returned.
func (j *Journal) Chosen(
	first, routes int, choose func() ([][]float64, error),
) ([][]float64, error) {
	var kept [][]float64
	for i := range routes {
		if r, ok := j.have[first+i]; ok {
			kept = append(kept, r.Chosen)
		}
	}
	if len(kept) == routes {
		return kept, nil
	}
	chosen, err := choose()
	if err != nil {
		return nil, err
	}
	var fresh []Result
	for i := range chosen {
		r := Result{Rollout: first + i, Chosen: slices.Clone(chosen[i])}
		if before, ok := j.have[r.Rollout]; !ok {
			fresh = append(fresh, r)
		} else if !before.same(r) {
			n := len(j.Plan.Routes)
			return nil, fmt.Errorf("%s: step %d chose otherwise for route %s before, so that a "+
				"machine is broken or the policy is not the same each time; remove the folder, "+
				"whole",
				j.Dir, r.Rollout/n, j.Plan.Routes[r.Rollout%n].Name)
		}
	}
	return chosen, j.Add(fresh...)
}

// Check is an error if the results are no longer in their folder.
func (j *Journal) Check() error {
	if j == nil {
		return nil
	}
	return inPlace(j.results, filepath.Join(j.Dir, resultsName))
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
	if j.results == nil {
		return nil
	}
	return j.results.Close()
}
