package archive

import (
	"cmp"
	"crypto/sha256"
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
	"lockstep/internal/npz"
)

// Names in the folder of a run.
const (
	planName  = "environments.json"
	stateName = "environments.npz"
	lockName  = "lock"
)

// planVersion is of plans; it changes with what one means.
const planVersion = 2

// A Plan is what a run computes. No engine is in it, since all give the same bits; but the program
// is, since another may hold other engines.
type Plan struct {
	Version     int               `json:"version"`
	Environment string            `json:"environment"`
	Options     map[string]string `json:"options,omitempty"`
	Num         int               `json:"num"`
	Autoreset   string            `json:"autoreset"`
	NumPy1      bool              `json:"numpy1,omitempty"`
	Seed        int64             `json:"seed"`
	Steps       int               `json:"steps"` // of each environment
	// the SHA-256 of its file; none are uniform actions
	Policy  string `json:"policy,omitempty"`
	Program string `json:"program"` // the SHA-256 of its file
}

// A Folder is the folder of a run, which one process at a time writes to.
type Folder struct {
	Dir   string
	Place *classic.Snapshot // where the run is; nil: at its beginning
	key   string            // the plan's
	lock  fileio.File
	saved time.Time
}

// every is how often a run is kept.
const every = 2 * time.Second

// OpenRun opens the folder of a run, which it makes if there is none. That of another plan is
// refused.
func OpenRun(dir string, p Plan) (*Folder, error) {
	p.Version = planVersion
	if err := fileio.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	lock, err := fileio.Disk.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	r := &Folder{Dir: dir, key: p.key(), lock: lock, saved: fileio.Disk.Now()}
	if err := r.adopt(p); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return r, nil
}

// adopt holds the folder to the plan, and reads how far its run is.
func (r *Folder) adopt(p Plan) error {
	there, s, _, err := WatchRun(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fileio.WriteFile(filepath.Join(r.Dir, planName), p.text())
	}
	if err != nil {
		return err
	}
	if why := there.differs(p); why != "" {
		return fmt.Errorf(
			"%s: of another run: %s; give another folder, or remove this one, whole",
			filepath.Join(r.Dir, planName), why,
		)
	}
	r.Place = s
	return nil
}

// text is the plan as it is written.
func (p Plan) text() []byte {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		panic(err) // words and numbers
	}
	return append(text, '\n')
}

// key identifies the plan: where a run is says of which it is.
func (p Plan) key() string { return fmt.Sprintf("%x", sha256.Sum256(p.text())) }

// differs says in what the plan is not q, or nothing.
func (p Plan) differs(q Plan) string {
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"version", p.Version, q.Version}, {"environment", p.Environment, q.Environment},
		{"number of environments", p.Num, q.Num},
		{"autoreset", p.Autoreset, q.Autoreset}, {"numpy1", p.NumPy1, q.NumPy1},
		{"seed", p.Seed, q.Seed},
		{"number of steps", p.Steps, q.Steps},
		{"policy", cmp.Or(p.Policy, "random"), cmp.Or(q.Policy, "random")},
		{"program", p.Program, q.Program},
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
func (r *Folder) Due() bool { return fileio.Disk.Now().Sub(r.saved) >= every }

// Keep writes where the run is. It is on the disk when it returns.
func (r *Folder) Keep(s *classic.Snapshot) error {
	data, err := marshal(s, npz.Text("run", r.key))
	if err != nil {
		return err
	}
	r.Place, r.saved = s, fileio.Disk.Now()
	return fileio.WriteFile(filepath.Join(r.Dir, stateName), data)
}

// Close ends the use of the folder.
func (r *Folder) Close() error { return r.lock.Close() }

// of is an error unless an archive says that it is where the run of a plan is.
func of(data []byte, key string) error {
	all, err := npz.Read(data)
	if err != nil {
		return err
	}
	if text, err := npz.Strings(all["run"]); err != nil || len(text) != 1 || text[0] != key {
		return fmt.Errorf("of another run than %.12s", key)
	}
	return nil
}

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
	if p.Version != planVersion {
		return p, nil, at, fmt.Errorf(
			"%s: a plan of version %d, want %d: remove the folder, whole", path, p.Version,
			planVersion,
		)
	}
	path = filepath.Join(dir, stateName)
	data, err := fileio.ReadFile(path, fileio.Arrays)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil, at, nil
	} else if err != nil {
		return p, nil, at, err
	}
	if s, err = Unmarshal(data); err == nil {
		err = of(data, p.key())
	}
	if err != nil {
		return p, nil, at, fmt.Errorf("%s: %v: remove it, and the run begins anew", path, err)
	}
	if info, err := os.Stat(path); err == nil {
		at = info.ModTime()
	}
	return p, s, at, nil
}
