//go:build unix

package fileio_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/fileio"
	"lockstep/internal/simtest"
)

// failing is the machine's file system, of which one call fails.
type failing struct {
	fileio.FileSystem
	calls []string
	fails int // the number of the call that does
	with  error
	now   time.Time
}

func (d *failing) call(name string) error {
	d.calls = append(d.calls, name)
	if len(d.calls)-1 == d.fails {
		return d.with
	}
	return nil
}

func (d *failing) OpenFile(path string, flag int, mode fs.FileMode) (fileio.File, error) {
	if err := d.call("OpenFile"); err != nil {
		return nil, err
	}
	f, err := d.FileSystem.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return &failingFile{f, d}, nil
}

func (d *failing) Stat(path string) (fs.FileInfo, error) {
	if err := d.call("Stat"); err != nil {
		return nil, err
	}
	return d.FileSystem.Stat(path)
}

func (d *failing) EvalSymlinks(path string) (string, error) {
	if err := d.call("EvalSymlinks"); err != nil {
		return "", err
	}
	return d.FileSystem.EvalSymlinks(path)
}

func (d *failing) Mkdir(path string, mode fs.FileMode) error {
	if err := d.call("Mkdir"); err != nil {
		return err
	}
	return d.FileSystem.Mkdir(path, mode)
}

func (d *failing) Rename(from, to string) error {
	if err := d.call("Rename"); err != nil {
		return err
	}
	return d.FileSystem.Rename(from, to)
}

func (d *failing) Now() time.Time {
	if d.now.IsZero() {
		return d.FileSystem.Now()
	}
	return d.now
}

type failingFile struct {
	fileio.File
	d *failing
}

func (f *failingFile) Write(p []byte) (int, error) {
	if err := f.d.call("Write"); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *failingFile) Chmod(mode fs.FileMode) error {
	if err := f.d.call("Chmod"); err != nil {
		return err
	}
	return f.File.Chmod(mode)
}

func (f *failingFile) Sync() error {
	if err := f.d.call("Sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *failingFile) Close() error {
	return errors.Join(f.d.call("Close"), f.File.Close())
}

// with has f run on a disk whose call number n fails.
func with(n int, err error, f func() error) (*failing, error) {
	was := fileio.Disk
	d := &failing{FileSystem: was, fails: n, with: err}
	fileio.Disk = d
	defer func() { fileio.Disk = was }()
	return d, f()
}

var errBroken = errors.New("the disk is broken")

// TestWriteFails has each call of a disk fail, one at a time: the error is returned, and what is
// there is the old content or the new one, whole, with the old mode, and nothing beside it.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	write := func() error { return fileio.Write(path, text("new")) }
	put := func() {
		t.Helper()
		if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	put()
	whole, err := with(-1, nil, write)
	const calls = "Stat EvalSymlinks OpenFile Write Chmod Sync Close Rename OpenFile Sync Close"
	if got := strings.Join(whole.calls, " "); err != nil || got != calls {
		t.Fatalf("%v; calls %s, want %s", err, got, calls)
	}
	for n, name := range whole.calls {
		put()
		_, err := with(n, errBroken, write)
		heard := n != len(whole.calls)-1 // but for a folder's Close
		if n == 0 {                      // what cannot be looked at is made
			heard = false
		}
		if errors.Is(err, errBroken) != heard || heard != (err != nil) {
			t.Errorf("call %d, %s, fails: %v", n, name, err)
		}
		got, err := os.ReadFile(path)
		want := "old"
		if n == 0 || n > 7 {
			want = "new"
		}
		if err != nil || string(got) != want {
			t.Errorf("call %d, %s, fails: the file holds %q (%v), want %q", n, name, got, err, want)
		}
		info, err := os.Stat(path)
		if err != nil || n > 0 && info.Mode() != 0o640 {
			t.Errorf("call %d, %s, fails: mode %v, %v", n, name, info.Mode(), err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("call %d, %s, fails: %v is left, %v", n, name, entries, err)
		}
		os.Chmod(path, 0o640)
	}
	if _, err := with(-1, nil, func() error {
		return fileio.Write(path, func(io.Writer) error { return errBroken })
	}); err != errBroken {
		t.Errorf("what writes fails: %v", err)
	}
}

// TestSyncDir: of a folder that cannot be put on the disk only those errors are heard that mean it.
func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	for err, heard := range map[error]bool{
		errBroken: true, errors.ErrUnsupported: false, fs.ErrPermission: true,
		syscall.EIO: true, syscall.ENOTSUP: false, syscall.EINVAL: false,
	} {
		for _, err := range []error{err, &fs.PathError{Op: "sync", Path: dir, Err: err}} {
			_, got := with(1, err, func() error { return fileio.SyncDir(dir) })
			if (got != nil) != heard {
				t.Errorf("Sync fails with %v: %v", err, got)
			}
		}
	}
	if _, err := with(0, errBroken, func() error { return fileio.SyncDir(dir) }); err != errBroken {
		t.Errorf("a folder that cannot be opened: %v", err)
	}
}

// isHeard: the error of a call is MkdirAll's, but for that of closing, for a folder above that is
// not ours to read, and for the last folder where it is there already.
func isHeard(call string, err error, last bool) bool {
	switch {
	case call == "Close":
		return false
	case errors.Is(err, fs.ErrPermission):
		return call != "OpenFile" && call != "Sync"
	case errors.Is(err, fs.ErrExist):
		return !last
	}
	return true
}

// TestOpenFails: a file that cannot be looked at is opened all the same, and one that cannot be
// opened is none, be it empty or not.
func TestOpenFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, content := range []string{"", "x"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for n, name := range []string{"Stat", "OpenFile"} {
			d, err := with(n, errBroken, func() error {
				f, err := fileio.Open(path, fileio.Record)
				if (f == nil) != (err != nil) {
					t.Errorf("%s of %q fails: a file %v beside the error %v", name, content, f, err)
				} else if err == nil {
					f.Close()
				}
				return err
			})
			if len(d.calls) <= n || d.calls[n] != name || errors.Is(err, errBroken) != (n == 1) {
				t.Errorf("call %d, %s, of %q fails: %v, calls %q", n, name, content, err, d.calls)
			}
		}
	}
}

// earlier is a disk that says of files what was so before, and tells how they are opened.
type earlier struct {
	fileio.FileSystem
	info  fs.FileInfo
	flags int
}

func (d *earlier) Stat(string) (fs.FileInfo, error) { return d.info, nil }

func (d *earlier) OpenFile(path string, flag int, mode fs.FileMode) (fileio.File, error) {
	d.flags = flag
	return d.FileSystem.OpenFile(path, flag, mode)
}

// TestOpened: a file that has grown since it was looked at is no larger than it may be, what is
// locked is made if it is not there, and only named pipes are opened without waiting.
func TestOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f, err := fileio.Disk.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fileio.Disk.Lock(path); err == nil {
		t.Error("a file is locked twice")
	}
	if _, err := f.Write([]byte("abc")); err != nil {
		t.Errorf("what is locked cannot be written to: %v", err)
	}
	info, e := os.Stat(path)
	if err := errors.Join(e, f.Close(), os.WriteFile(path, []byte("abcd"), 0o600)); err != nil {
		t.Fatal(err)
	}
	simtest.Closed(t, path)
	disk := &earlier{FileSystem: fileio.Disk, info: info}
	fileio.Disk = disk
	defer func() { fileio.Disk = disk.FileSystem }()
	_, err = fileio.ReadFile(path, fileio.Kind{Name: "a thing", Limit: 3})
	want := fmt.Sprintf("read %s: more than the 3 bytes that a thing may have", path)
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if disk.info, err = os.Stat(os.DevNull); err != nil {
		t.Fatal(err)
	}
	if err := fileio.Write(os.DevNull, text("x")); err != nil || disk.flags != os.O_WRONLY {
		t.Errorf("a device is opened by %x, %v", disk.flags, err)
	}
}

// TestMkdirAll makes folders, and has each call fail: a folder that somebody else makes meanwhile
// is as good, and one above that is not ours to read is no error; all else is.
func TestMkdirAll(t *testing.T) {
	top := t.TempDir()
	path := filepath.Join(top, "a", "b", "c")
	make3 := func() error { return fileio.MkdirAll(path, 0o750) }
	whole, err := with(-1, nil, make3)
	if info, e := os.Stat(path); err != nil || e != nil || !info.IsDir() {
		t.Fatalf("%v, %v", err, e)
	}
	const above = "Stat OpenFile Sync Close"
	const calls = "Stat Stat Stat " + above + " Mkdir OpenFile Sync Close Mkdir OpenFile Sync " +
		"Close Mkdir OpenFile Sync Close"
	if got := strings.Join(whole.calls, " "); got != calls {
		t.Errorf("calls %s, want %s", got, calls)
	}
	if again, err := with(-1, nil, make3); err != nil || strings.Join(again.calls, " ") != above {
		t.Errorf("again: %v, calls %q, want %s", err, again.calls, above)
	}
	for n, name := range whole.calls {
		for _, with1 := range []error{
			errBroken, fs.ErrExist, fs.ErrPermission,
			&fs.PathError{Op: "sync", Path: top, Err: fs.ErrPermission},
		} {
			if err := os.RemoveAll(filepath.Join(top, "a")); err != nil {
				t.Fatal(err)
			}
			_, err := with(n, with1, make3)
			last := n == len(whole.calls)-4 // as if somebody else had made it
			if heard := isHeard(name, with1, last); (err != nil) != heard {
				t.Errorf("call %d, %s, fails with %v: %v", n, name, with1, err)
			}
		}
	}
	// Somebody else makes it between the look and the making.
	raced := &racing{FileSystem: fileio.Disk}
	fileio.Disk = raced
	err = fileio.MkdirAll(filepath.Join(top, "x"), 0o750)
	fileio.Disk = raced.FileSystem
	if err != nil || raced.made != 1 {
		t.Errorf("a folder that somebody else makes: %v", err)
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("mkdir %s: not a directory", file)
	if err := fileio.MkdirAll(file, 0o750); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// racing makes each folder before it is asked to.
type racing struct {
	fileio.FileSystem
	made int
}

func (d *racing) Mkdir(path string, mode fs.FileMode) error {
	if err := d.FileSystem.Mkdir(path, mode); err != nil {
		return err
	}
	d.made++
	return d.FileSystem.Mkdir(path, mode)
}

// TestWritable says of what cannot be written why, and makes nothing.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file: "<nil>", filepath.Join(dir, "new"): "<nil>", dir: "is a folder", os.DevNull: "<nil>",
		filepath.Join(dir, "none", "new"): "no such file or directory",
		filepath.Join(file, "below"):      "not a directory",
	} {
		if got := fmt.Sprint(fileio.Writable(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for n, name := range []string{"Stat", "OpenFile", "Close"} {
		d, err := with(n, errBroken, func() error { return fileio.Writable(file) })
		if len(d.calls) <= n || d.calls[n] != name || !errors.Is(err, errBroken) {
			t.Errorf("call %d, %s, fails: %v, calls %q", n, name, err, d.calls)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v is left, %v", entries, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "old" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

// TestNames: a name that is taken is followed by another, a hundred times.
func TestNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for taken, good := range map[int]bool{0: true, 1: true, 99: true, 100: true, 101: false} {
		d := &crowded{FileSystem: fileio.Disk, taken: taken}
		fileio.Disk = d
		err := fileio.Write(path, text("x"))
		fileio.Disk = d.FileSystem
		if (err == nil) != good || !good && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%d names are taken: %v", taken, err)
		}
	}
}

// crowded is a disk on which the first names that are made are taken.
type crowded struct {
	fileio.FileSystem
	taken int
}

func (d *crowded) OpenFile(path string, flag int, mode fs.FileMode) (fileio.File, error) {
	if flag&os.O_EXCL != 0 && d.taken > 0 {
		d.taken--
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrExist}
	}
	return d.FileSystem.OpenFile(path, flag, mode)
}

// TestSweep: of a cache's folder only those files go that writers have left more than an hour ago.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	for name, age := range map[string]time.Duration{
		".tmp-old": time.Hour + time.Second, ".tmp-hour": time.Hour, ".tmp-new": 0,
		"old": 9 * time.Hour, "x.tmp-old": 9 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(dir, ".tmp-folder")
	if err := errors.Join(os.Mkdir(folder, 0o700),
		os.Chtimes(folder, now.Add(-9*time.Hour), now.Add(-9*time.Hour))); err != nil {
		t.Fatal(err)
	}
	was := fileio.Disk
	fileio.Disk = &failing{FileSystem: was, fails: -1, now: now}
	fileio.Sweep(dir)
	fileio.Sweep(filepath.Join(dir, "none"))
	fileio.Disk = was
	entries, err := os.ReadDir(dir)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); err != nil ||
		got != ".tmp-folder .tmp-hour .tmp-new old x.tmp-old" {
		t.Errorf("%s is left, %v", got, err)
	}
}

// TestLimits: a file of a kind may be as large as documented, and no larger.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	for kind, limit := range map[fileio.Kind]int64{
		fileio.Route: 67108864, fileio.Network: 1073741824, fileio.Controller: 16777216,
		fileio.List: 16777216, fileio.Policy: 268435456, fileio.Record: 268435456,
		fileio.Shard: 17179869184, fileio.Journal: 1099511627776, fileio.Arrays: 17179869184,
		fileio.Trace: 1099511627776,
	} {
		path := filepath.Join(dir, "sparse")
		for _, size := range []int64{limit, limit + 1} {
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
				t.Skipf("no sparse files of %d bytes here: %v", size, err)
			}
			file, err := fileio.Open(path, kind)
			want := fmt.Sprintf("read %s: %d bytes, more than the %d that %s may have", path, size,
				limit, kind.Name)
			if (err == nil) != (size == limit) || err != nil && err.Error() != want {
				t.Errorf("%s of %d bytes: %v", kind.Name, size, err)
			}
			if err == nil {
				file.Close()
			}
		}
	}
	path, small := filepath.Join(dir, "small"), fileio.Kind{Name: "a thing", Limit: 3}
	for _, content := range []string{"", "ab", "abc", "abcd"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := fileio.ReadFile(path, small)
		if (err == nil) != (len(content) <= 3) || err == nil && string(got) != content {
			t.Errorf("%q: %q, %v", content, got, err)
		}
		vast := fileio.Kind{Name: "a thing", Limit: 1 << 33} // more than 32 bits count
		if got, err := fileio.ReadFile(path, vast); err != nil || string(got) != content {
			t.Errorf("%q, where 8 GiB may be: %q, %v", content, got, err)
		}
	}
}
