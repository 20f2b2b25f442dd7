//go:build unix

package fileio

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestWritePipe: a named pipe is written to as soon as somebody reads it, and not waited
// for without end.
func TestWritePipe(t *testing.T) {
	defer func(before time.Duration) { patience = before }(patience)
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "text")
		return err
	}
	patience = 100 * time.Millisecond
	counted := &tries{FileSystem: Disk}
	Disk = counted
	defer func() { Disk = counted.FileSystem }()
	want := "write " + path + ": nobody reads from this named pipe, which was waited for 100ms"
	if err := Write(path, write); err == nil || err.Error() != want {
		t.Errorf("without a reader: %v, want %s", err, want)
	}
	if counted.n > 102 { // at both ends, and between them
		t.Errorf("it was tried %d times, want 100", counted.n)
	}

	patience = time.Minute
	read := make(chan string)
	go func() {
		time.Sleep(50 * time.Millisecond)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		read <- string(data)
	}()
	if err := Write(path, write); err != nil {
		t.Error(err)
	}
	if got := <-read; got != "text" {
		t.Errorf("%q was read", got)
	}
}

// tries is a disk that counts how often something is opened.
type tries struct {
	FileSystem
	n int
}

func (d *tries) OpenFile(path string, flag int, mode fs.FileMode) (File, error) {
	d.n++
	return d.FileSystem.OpenFile(path, flag, mode)
}

// kernels is a disk with a file of the kernel's: regular, empty by what is said of it, and
// without an end.
type kernels struct {
	machine
	file *os.File
}

func (k kernels) OpenFile(string, int, fs.FileMode) (File, error) { return k.file, nil }

// TestOpenEndless: a file that neither gives anything nor ends, as /proc/kmsg, is refused after
// a while; an empty one is read at once.
func TestOpenEndless(t *testing.T) {
	defer func(disk FileSystem, wait time.Duration) { Disk, patience = disk, wait }(Disk, patience)
	path := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	kind := Kind{"a test", 5}
	if data, err := ReadFile(path, kind); err != nil || len(data) > 0 {
		t.Errorf("an empty one: %q, %v", data, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	Disk, patience = kernels{file: r}, 50*time.Millisecond
	ended := time.AfterFunc(10*time.Second, func() { w.Close() }) // as nobody ends the kernel's
	defer ended.Stop()
	want := "read " + r.Name() +
		": gave nothing more and did not end for 50ms, so that it is not a test"
	if _, err := ReadFile(path, kind); err == nil || err.Error() != want {
		t.Errorf("one without an end: %v, want %s", err, want)
	}
	r, w, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteString("123456"); err != nil {
		t.Fatal(err)
	}
	Disk = kernels{file: r}
	want = "read " + path + ": more than the 5 bytes that a test may have"
	if _, err := ReadFile(path, kind); err == nil || err.Error() != want {
		t.Errorf("one without an end, of a byte too many: %v, want %s", err, want)
	}
	if err := os.WriteFile(path, []byte{0}, 0o666); err != nil {
		t.Fatal(err)
	}
	again, v, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	defer v.Close()
	Disk = kernels{file: again}
	if f, err := Open(path, kind); err != nil || f != File(again) {
		t.Errorf("of a file of one byte an end is waited for: %v, %v", f, err)
	}
}

// TestSweep: what killed writers have left is removed from a cache, and nothing else is.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for name, at := range map[string]time.Time{
		beside + "left": old, beside + "written-now": time.Now(), "old": old,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(dir)
	Sweep(filepath.Join(dir, "none"))
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != beside+"written-now" ||
		left[1].Name() != "old" {
		t.Errorf("%v, %v", left, err)
	}
}
