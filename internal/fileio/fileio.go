// Package fileio reads files that end, writes files that are whole or not there,
// and tells whether two are the same.
package fileio

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Write writes a file that appears whole or not at all, under its name or any
// other: into a file beside it, which then takes its place and, before Write
// returns, is on the disk. What is there already keeps its mode, a symbolic link
// leads to what is replaced, and a device or named pipe is written to as it is.
func Write(path string, write func(w io.Writer) error) (err error) {
	var replaced fs.FileInfo // nil for none
	switch info, err := Disk.Stat(path); {
	case err == nil && info.IsDir():
		return &os.PathError{Op: "write", Path: path, Err: errors.New("is a folder")}
	case err == nil && !info.Mode().IsRegular():
		return through(path, info.Mode(), write)
	case err == nil:
		replaced = info
		if path, err = Disk.EvalSymlinks(path); err != nil {
			return err
		}
	}
	defer func() { // the name beside it means nothing to anybody
		var at *os.PathError
		if errors.As(err, &at) && strings.HasPrefix(filepath.Base(at.Path), beside) {
			at.Path = path
		}
	}()
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			Disk.Remove(f.Name())
		}
	}()
	if err := buffered(f, write); err != nil {
		return err
	}
	if replaced != nil {
		if err := f.Chmod(replaced.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := Disk.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// WriteFile writes bytes to a file as Write does.
func WriteFile(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// beside begins the names of files that are being written.
const beside = ".tmp-"

// Writable is nil if Write could write a file under this name, as far as is known before,
// or says why not, without the name.
func Writable(path string) (err error) {
	defer func() {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
	}()
	switch info, err := Disk.Stat(path); {
	case err == nil && info.IsDir():
		return errors.New("is a folder")
	case err == nil && !info.Mode().IsRegular(): // a device or a pipe
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), Disk.Remove(f.Name()))
}

// Sweep removes from a cache's folder what writers have left that were killed: files that have
// the names of those that are being written, and that nobody has written to for an hour.
func Sweep(dir string) {
	entries, err := Disk.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && strings.HasPrefix(e.Name(), beside) &&
			Disk.Now().Sub(info.ModTime()) > time.Hour {
			Disk.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// createBeside makes a new file in the folder of a path. os.CreateTemp would make
// it with a mode that knows nothing of the umask.
func createBeside(path string) (File, error) {
	for try := 0; ; try++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf("%s%016x", beside, rand.Uint64()))
		f, err := Disk.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil || !errors.Is(err, fs.ErrExist) || try == 100 {
			return f, err
		}
	}
}

// patience is how long a named pipe is waited for to have a reader, and a file that does not end
// for its bytes.
var patience = 10 * time.Second

// through writes to what has no bytes to be replaced.
func through(path string, mode fs.FileMode, write func(w io.Writer) error) error {
	flags := os.O_WRONLY
	if mode&fs.ModeNamedPipe != 0 {
		flags |= syscall.O_NONBLOCK // opening one that nobody reads would wait for ever
	}
	f, err := Disk.OpenFile(path, flags, 0)
	for end := time.Now().Add(patience); errors.Is(err, syscall.ENXIO) &&
		time.Now().Before(end); f, err = Disk.OpenFile(path, flags, 0) {
		time.Sleep(patience / 100)
	}
	if errors.Is(err, syscall.ENXIO) {
		return &os.PathError{
			Op: "write", Path: path,
			Err: fmt.Errorf("nobody reads from this named pipe, which was waited for %v", patience),
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(buffered(f, write), f.Close())
}

func buffered(f File, write func(w io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// MkdirAll makes a folder, and those above it, if they are not there. When it returns, the
// folder above knows of it on the disk, too, whoever has made it.
func MkdirAll(path string, mode fs.FileMode) error {
	above := filepath.Dir(path)
	switch info, err := Disk.Stat(path); {
	case err == nil && !info.IsDir():
		return &os.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case errors.Is(err, fs.ErrNotExist) && above != path:
		if err := MkdirAll(above, mode); err != nil {
			return err
		}
		if err := Disk.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	}
	if err := SyncDir(above); !errors.Is(err, fs.ErrPermission) { // it may not be ours to read
		return err
	}
	return nil
}

// SyncDir puts a folder's entries on the disk: a file is there after a power cut
// only if its folder knows of it. Windows has no such call, and keeps a journal of all folders.
func SyncDir(dir string) error {
	d, err := Disk.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	if runtime.GOOS == "windows" {
		return nil
	}
	// Some file systems cannot do so, and need not.
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) &&
		!errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// A Kind is a sort of file that is read, and how large one may be: far more than
// any has, and less than what the memory holds.
type Kind struct {
	Name  string // with its article
	Limit int64  // bytes
}

// The kinds there are.
var (
	Route      = Kind{"a route", 64 << 20}
	Network    = Kind{"a network", 1 << 30}
	Controller = Kind{"a controller", 16 << 20}
	List       = Kind{"a list of gains", 16 << 20}
	Policy     = Kind{"a policy", 256 << 20}
	Record     = Kind{"a record", 256 << 20} // of this project's own: cases, manifests, plans
	Shard      = Kind{"a shard of results", 16 << 30}
	Journal    = Kind{"a journal of results", 1 << 40}
	Arrays     = Kind{"an archive of arrays", 16 << 30}
	Trace      = Kind{"a trace", 1 << 40}
)

// Open opens a file of a kind for reading. It must be a regular file: a named pipe
// would wait for a writer for ever, and a device has no end.
func Open(path string, kind Kind) (File, error) {
	// A named pipe must not be opened to be looked at.
	info, err := Disk.Stat(path)
	if err == nil {
		if err := kind.check(path, info); err != nil {
			return nil, err
		}
	}
	f, openErr := Disk.OpenFile(path, os.O_RDONLY, 0)
	if openErr != nil || err != nil || info.Size() > 0 {
		return f, openErr
	}
	// The kernel's own, such as /proc/kmsg, are regular and empty by name, and may wait for ever.
	if d, ok := f.(deadline); ok && d.SetReadDeadline(time.Now().Add(patience)) == nil {
		return endless{f, kind}, nil
	}
	return f, nil
}

// A deadline is a file of which reads can be ended. Those of files on disks cannot, and end.
type deadline interface{ SetReadDeadline(t time.Time) error }

// endless is a file that may have no end. Who reads it hears so.
type endless struct {
	File
	kind Kind
}

func (f endless) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &os.PathError{
			Op:   "read",
			Path: f.Name(),
			Err: fmt.Errorf("gave nothing more and did not end "+
				"for %v, so that it is not %s", patience, f.kind.Name),
		}
	}
	return n, err
}

func (k Kind) check(path string, info fs.FileInfo) error {
	fail := func(format string, args ...any) error {
		return &os.PathError{Op: "read", Path: path, Err: fmt.Errorf(format, args...)}
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return fail("a folder, not %s", k.Name)
	case !mode.IsRegular():
		return fail("not a regular file (%v), as %s has to be", mode.Type(), k.Name)
	case info.Size() > k.Limit:
		return fail("%d bytes, more than the %d that %s may have", info.Size(), k.Limit, k.Name)
	}
	return nil
}

// ReadFile reads a file of a kind.
func ReadFile(path string, kind Kind) ([]byte, error) {
	f, err := Open(path, kind)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data bytes.Buffer
	if info, err := f.Stat(); err == nil {
		data.Grow(int(info.Size()) + bytes.MinRead)
	}
	_, err = data.ReadFrom(io.LimitReader(f, kind.Limit+1))
	if err == nil && int64(data.Len()) > kind.Limit { // it has grown
		err = &os.PathError{
			Op: "read", Path: path,
			Err: fmt.Errorf("more than the %d bytes that %s may have", kind.Limit, kind.Name),
		}
	}
	return data.Bytes(), err
}

// Glob are the files below a folder, by a pattern of fs.Glob, in the order of their names. Of the
// folder's own name each character stands for itself, as it does not in filepath.Glob.
func Glob(folder, pattern string) ([]string, error) {
	files, err := fs.Glob(os.DirFS(folder), pattern)
	for i, file := range files {
		files[i] = filepath.Join(folder, filepath.FromSlash(file))
	}
	return files, err
}

// SHA256 is the hash of a regular file's bytes, in hexadecimal.
func SHA256(path string) (string, error) {
	f, err := Open(path, Kind{"a file", 1 << 50})
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
