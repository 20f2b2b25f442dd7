// Package ortlib finds ONNX Runtime's shared library and checks a file before it
// is loaded, since loading a damaged or foreign library may end the process.
package ortlib

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"

	"lockstep/internal/fileio"
)

// The library that this project is held to, as it lies in the PyPI wheels of this
// version, with which the recordings were made.
const (
	Version  = "1.30.0"
	FileName = "libonnxruntime.so." + Version

	// Variable names the environment variable that overrides the cached file.
	Variable = "ONNXRUNTIME_LIB"
)

// A Library is one that is known.
type Library struct {
	Wheel  string // the platform of the wheel, as pip calls it
	SHA256 string
}

var libraries = map[string]Library{
	"linux/amd64": {
		"manylinux_2_28_x86_64",
		"c902c70b3003c0e99fada202f37478c515ae9bba7944c2b2abd0017bae0c82ed",
	},
	"linux/arm64": {
		"manylinux_2_28_aarch64",
		"8a218e1e446880131115c368ec7005969a5022af9a15a26173de648fef0b7789",
	},
}

// Pinned is the library of the platform that this program runs on, if one is known.
func Pinned() (l Library, ok bool) {
	l, ok = libraries[runtime.GOOS+"/"+runtime.GOARCH]
	return l, ok
}

const hint = "set " + Variable + " to a libonnxruntime of version " + Version + ", such as " +
	"onnxruntime/capi/" + FileName + " of `pip install onnxruntime==" + Version + "`, or, where " +
	"Lockstep's source is, run `make onnxruntime`"

// cacheNames are those of the library below the cache folder.
var cacheNames = []string{"onnxruntime", Version, FileName}

// CachePath is where the library is put for one user.
func CachePath() (string, error) { return fileio.CacheDir(cacheNames...) }

// Find returns the path of the library: $ONNXRUNTIME_LIB, which if set is the
// only place, or else the cached file, if it is whole.
func Find() (string, error) {
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	pinned, _ := Pinned()
	for _, path := range fileio.CacheDirs(cacheNames...) {
		if sum, err := SHA256(path); err == nil && sum == pinned.SHA256 {
			return path, nil
		}
	}
	path, err := CachePath()
	if err != nil {
		return "", fmt.Errorf("no ONNX Runtime: %w; %s", err, hint)
	}
	switch sum, err := SHA256(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no ONNX Runtime on this machine: %s", hint)
	case err != nil:
		return "", fmt.Errorf("no ONNX Runtime: %w; %s", err, hint)
	default:
		return "", fmt.Errorf(
			"%s is damaged (SHA-256 %.12s, want %.12s): %s", path, sum, pinned.SHA256, hint,
		)
	}
}

// SHA256 is that of a file, read again only if the file is another than it was, or was written
// since: a library has some 20 MB, and each simulator that is opened asks for it.
func SHA256(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileio.SHA256(path)
	}
	if known, ok := read.Load(path); ok && known.(hashed).is(info) {
		return known.(hashed).sum, nil
	}
	sum, err := fileio.SHA256(path)
	if err == nil {
		read.Store(path, hashed{info, sum})
	}
	return sum, err
}

// A hashed file is as it was found before it was read.
type hashed struct {
	os.FileInfo
	sum string
}

func (h hashed) is(now os.FileInfo) bool {
	return os.SameFile(h.FileInfo, now) && h.Size() == now.Size() &&
		h.ModTime().Equal(now.ModTime())
}

var read sync.Map // of paths, to what is hashed

// Check refuses what is not a whole shared library for this CPU that exports
// ONNX Runtime's entry point. It runs no code of the file. On systems whose
// libraries are not in ELF format it only looks whether the file exists.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		var e *os.PathError
		if errors.As(err, &e) {
			err = e.Err
		}
		return fmt.Errorf("%s: %w: %s", path, err, hint)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a file: %s", path, hint)
	}
	if runtime.GOOS != "linux" {
		return nil
	}
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: not a shared library, or not all of one: %s", path, hint)
	}
	defer f.Close()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want || f.Type != elf.ET_DYN {
		return fmt.Errorf("%s: not a shared library for %s: %s", path, runtime.GOARCH, hint)
	}
	size := uint64(info.Size())
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && (p.Off > size || p.Filesz > size-p.Off) {
			return fmt.Errorf("%s: cut off at %d bytes: %s", path, size, hint)
		}
	}
	symbols, err := f.DynamicSymbols()
	if err != nil || !slices.ContainsFunc(symbols, func(s elf.Symbol) bool {
		return s.Name == "OrtGetApiBase" && s.Section != elf.SHN_UNDEF
	}) {
		return fmt.Errorf("%s: not ONNX Runtime, it has no OrtGetApiBase: %s", path, hint)
	}
	return nil
}
