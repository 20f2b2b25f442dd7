package installed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/cpu"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
)

// asked is a hash of all questions, and of what each known form answers: see TestAsked. Who reads
// what was kept need not make them.
const asked = "5b78107654d07da7"

// A key is what answers are kept by: the interpreter, the CPU, what in the environment
// chooses packages or instructions, and the questions.
type key struct{ name string }

// environment are the variables that decide on which packages a Python finds, and on which
// instructions they use.
var environment = []string{
	"PYTHONNOUSERSITE", "PYTHONPLATLIBDIR", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES",
	"GLIBC_TUNABLES", "OPENBLAS_CORETYPE", "ORT_DISABLE_AVX512",
}

// folders are those of them that are lists of paths, which mean others in another folder.
var folders = []string{
	"HOME", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "LD_LIBRARY_PATH", "LD_PRELOAD",
}

// profiles is the cache folder's name for answers.
const profiles = "profiles"

// newKey is the key of an interpreter.
func newKey(python string) key { return keyAmong(lockstep.Profiles(), python) }

// keyAmong is newKey of a program that knows these profiles.
func keyAmong(profiles []lockstep.Profile, python string) key {
	h := sha256.New()
	real, _ := filepath.EvalSymlinks(python)
	fmt.Fprintln(
		h,
		stampOf(python),
		stampOf(real),
		stampOf(filepath.Join(filepath.Dir(filepath.Dir(python)), "pyvenv.cfg")),
	)
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH, features(), fmt.Sprintf("%+v", cpu.X86))
	for _, name := range environment {
		fmt.Fprintf(h, "%s=%q\n", name, os.Getenv(name))
	}
	for _, name := range folders {
		fmt.Fprintf(h, "%s=%q\n", name, absolute(os.Getenv(name)))
	}
	fmt.Fprintln(h, defaults.ModelSHA256)
	fmt.Fprintln(h, asked, script, profiles)
	return key{hex.EncodeToString(h.Sum(nil)[:16]) + ".json"}
}

// absolute are the paths of a list as they are found from here. An empty one is here; an
// empty list has none.
func absolute(list string) string {
	parts := filepath.SplitList(list)
	for i, part := range parts {
		if path, err := filepath.Abs(part); err == nil {
			parts[i] = path
		}
	}
	return strings.Join(parts, string(filepath.ListSeparator))
}

// A stamp changes when a file or folder does.
type stamp struct {
	Path string
	Time int64 // of its last change, in ns; -1 if it is not there
	Size int64
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{path, -1, 0}
	}
	return stamp{path, info.ModTime().UnixNano(), info.Size()}
}

// record is what is kept: packages that are installed, removed or changed change one of
// the stamps.
type record struct {
	Watched []stamp
	Found   *Found
}

// read is what was kept, nil if there is nothing that still holds.
func (k key) read() *Found {
	for _, file := range fileio.CacheDirs(profiles, k.name) {
		if f := read(file); f != nil {
			return f
		}
	}
	return nil
}

func read(file string) *Found {
	data, err := fileio.ReadFile(file, fileio.Record)
	var r record
	if err != nil || json.Unmarshal(data, &r) != nil || r.Found == nil || len(r.Watched) == 0 ||
		!r.Found.whole() {
		return nil
	}
	for _, s := range r.Watched {
		if stampOf(s.Path) != s {
			return nil
		}
	}
	return r.Found
}

// write keeps what was found. What cannot be kept is asked again.
func (k key) write(f *Found, r *Replies) {
	file, err := fileio.CacheDir(profiles, k.name)
	if err != nil {
		return
	}
	kept := record{Found: f}
	for _, path := range r.watched {
		kept.Watched = append(kept.Watched, stampOf(path))
	}
	data, err := json.Marshal(kept)
	if err == nil && os.MkdirAll(filepath.Dir(file), 0o755) == nil {
		fileio.Sweep(filepath.Dir(file))
		fileio.WriteFile(file, data)
	}
}
