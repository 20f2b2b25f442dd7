package archive

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lockstep/classic"
	"lockstep/internal/fileio"
)

// Names in the folder of a run.
const (
	planName  = "environments.json"
	stateName = "environments.npz"
	lockName  = "lock"
)

// A Plan is what a run computes. No engine is in it, since all give the same bits.
type Plan struct {
	Version     int               `json:"version"`
	Environment string            `json:"environment"`
	Options     map[string]string `json:"options,omitempty"`
	Num         int               `json:"num"`
	Autoreset   string            `json:"autoreset"`
	NumPy1      bool              `json:"numpy1,omitempty"`
	Seed        int64             `json:"seed"`
	Steps       int               `json:"steps"`            // of each environment
	Policy      string            `json:"policy,omitempty"` // the SHA-256 of its file; none are uniform actions
}

// A Run is the folder of a run, which one process at a time writes to.
type Run struct {
	Dir   string
	Place *classic.Snapshot // where the run is; nil: at its beginning
	lock  fileio.File
	saved time.Time
}

// every is how often a run is kept.
const every = 2 * time.Second

// OpenRun opens the folder of a run, which it makes if there is none. That of another plan is
// refused.
func OpenRun(dir string, p Plan) (*Run, error) {
	p.Version = 1
	if err := fileio.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	lock, err := fileio.Disk.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: dir, lock: lock, saved: fileio.Disk.Now()}
	if err := r.adopt(p); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return r, nil
}

// adopt holds the folder to the plan, and reads how far its run is.
func (r *Run) adopt(p Plan) error {
	there, s, _, err := WatchRun(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		return fileio.WriteFile(filepath.Join(r.Dir, planName), append(text, '\n'))
	}
	if err != nil {
		return err
	}
	if why := there.differs(p); why != "" {
		return fmt.Errorf("%s: of another run: %s; give another folder, or remove this one, whole", filepath.Join(r.Dir, planName), why)
	}
	r.Place = s
	return nil
}

// differs says in what the plan is not q, or nothing.
func (p Plan) differs(q Plan) string {
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"version", p.Version, q.Version}, {"environment", p.Environment, q.Environment}, {"number of environments", p.Num, q.Num},
		{"autoreset", p.Autoreset, q.Autoreset}, {"numpy1", p.NumPy1, q.NumPy1}, {"seed", p.Seed, q.Seed},
		{"number of steps", p.Steps, q.Steps}, {"policy", cmp.Or(p.Policy, "random"), cmp.Or(q.Policy, "random")},
	} {
		if f.a != f.b {
			return fmt.Sprintf("its %s is %v, not %v", f.name, f.a, f.b)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Options)) {
		if q.Options[key] != p.Options[key] {
			return fmt.Sprintf("its option %s is %q, not %q", key, p.Options[key], q.Options[key])
		}
	}
	if len(p.Options) != len(q.Options) {
		return fmt.Sprintf("it has %d options, not %d", len(p.Options), len(q.Options))
	}
	return ""
}

// Due reports whether it is time to keep where the run is.
func (r *Run) Due() bool { return fileio.Disk.Now().Sub(r.saved) >= every }

// Keep writes where the run is. It is on the disk when it returns.
func (r *Run) Keep(s *classic.Snapshot) error {
	data, err := Marshal(s)
	if err != nil {
		return err
	}
	r.Place, r.saved = s, fileio.Disk.Now()
	return fileio.WriteFile(filepath.Join(r.Dir, stateName), data)
}

// Close ends the use of the folder.
func (r *Run) Close() error { return r.lock.Close() }

// WatchRun reads the plan of the run in a folder, how far it is, nil at its beginning, and when
// that was written. It takes no lock.
func WatchRun(dir string) (p Plan, s *classic.Snapshot, at time.Time, err error) {
	path := filepath.Join(dir, planName)
	text, err := fileio.ReadFile(path, fileio.Record)
	if err != nil {
		return p, nil, at, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, nil, at, fmt.Errorf("%s: %v: remove the folder, whole", path, err)
	}
	path = filepath.Join(dir, stateName)
	data, err := fileio.ReadFile(path, fileio.Arrays)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil, at, nil
	} else if err != nil {
		return p, nil, at, err
	}
	if s, err = Unmarshal(data); err != nil {
		return p, nil, at, fmt.Errorf("%s: %v: remove it, and the run begins anew", path, err)
	}
	if info, err := os.Stat(path); err == nil {
		at = info.ModTime()
	}
	return p, s, at, nil
}
