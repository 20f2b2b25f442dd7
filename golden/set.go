package golden

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"lockstep"
	"lockstep/internal/fileio"
)

// Set is a folder of recordings made by one Python installation.
type Set struct {
	Dir         string           `json:"-"`
	Profile     lockstep.Profile `json:"profile"`
	ModelSHA256 string           `json:"model_sha256"`
	Recordings  []Entry          `json:"recordings"`
}

// Entry says what one file of a set recorded.
type Entry struct {
	File       string `json:"file"`
	SHA256     string `json:"npz_sha256"`
	Route      string `json:"route"`
	RouteCSV   string `json:"route_sha256"`
	Name       string `json:"recording"` // of the controller with its gains
	Controller string `json:"controller"`
	Gains      *struct {
		P float64 `json:"p"`
		I float64 `json:"i"`
		D float64 `json:"d"`
	} `json:"gains"`
	SeedPath string `json:"seed_string"`
	Seed     uint32 `json:"seed"`
	Rows     int    `json:"rows"`
}

// Policy is the controller that was recorded.
func (e Entry) Policy() (lockstep.Policy, error) {
	switch {
	case e.Controller == "zero":
		return lockstep.Zero{}, nil
	case e.Controller == "pid" && e.Gains != nil:
		return lockstep.PID{P: e.Gains.P, I: e.Gains.I, D: e.Gains.D}, nil
	}
	return nil, fmt.Errorf("%s: controller %q is not known, or has no gains", e.File, e.Controller)
}

// OpenSet reads what a folder's provenance.json says.
func OpenSet(dir string) (*Set, error) {
	path := filepath.Join(dir, "provenance.json")
	data, err := fileio.ReadFile(path, fileio.Record)
	if err != nil {
		return nil, err
	}
	s := &Set{Dir: dir}
	var has struct {
		Profile *lockstep.Profile `json:"profile"`
	}
	err = json.Unmarshal(data, s)
	if err == nil {
		err = json.Unmarshal(data, &has)
	}
	if err == nil && has.Profile == nil {
		err = errors.New("no profile")
	}
	if err == nil {
		err = s.complete()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Routes is the folder named routes beside the set's own: the routes that it was recorded on. It is
// empty if there is none, as where they are the challenge's or those of package defaults.
func (s *Set) Routes() string {
	dir := filepath.Join(filepath.Dir(s.Dir), "routes")
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// complete is an error if a recording in the folder is not listed: it would be compared
// with nothing.
func (s *Set) complete() error {
	files, err := fileio.Glob(s.Dir, "*.npz")
	for _, file := range files {
		listed := func(e Entry) bool { return e.File == filepath.Base(file) }
		if !slices.ContainsFunc(s.Recordings, listed) {
			return fmt.Errorf(
				"%s is there and is not listed: restore its entry, or remove the file",
				filepath.Base(file),
			)
		}
	}
	if len(s.Recordings) == 0 {
		return errors.New("no recordings")
	}
	return err
}

// Sets opens every set in a folder of sets, in the order of their names. A folder
// that holds recordings and does not say of what is an error: they would be compared
// with nothing.
func Sets(root string) ([]*Set, error) {
	dirs, err := folders(root)
	if err != nil {
		return nil, err
	}
	var sets []*Set
	for _, dir := range dirs {
		s, err := OpenSet(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if recordings, _ := fileio.Glob(dir, "*.npz"); len(recordings) > 0 {
				return nil, fmt.Errorf(
					"%s: %d recordings without provenance.json: restore it, or remove the folder",
					dir, len(recordings),
				)
			}
			continue
		} else if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// folders are those in a folder, and those that links in it lead to, in the order of their names.
func folders(root string) (all []string, err error) {
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			all = append(all, path)
		}
	}
	return all, err
}

// All opens the set in a folder, or all sets in it and in its folders; none is an error.
func All(root string) ([]*Set, error) {
	if set, err := OpenSet(root); err == nil {
		return []*Set{set}, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	sets, err := Sets(root)
	if err != nil {
		return nil, err
	}
	dirs, err := folders(root)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		more, err := Sets(dir)
		if err != nil {
			return nil, err
		}
		sets = append(sets, more...)
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s: no recordings: no folder in it has a provenance.json", root)
	}
	return sets, nil
}

// Read reads the recording of an entry.
func (s *Set) Read(e Entry) (*Recording, error) {
	path := filepath.Join(s.Dir, e.File)
	recordings, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(recordings) != 1 {
		return nil, fmt.Errorf("%s: %d routes, want 1", path, len(recordings))
	}
	return recordings[0], nil
}
