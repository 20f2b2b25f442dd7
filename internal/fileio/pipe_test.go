//go:build unix

package fileio

import (
	"io"
	"os"
	"path/filepath"
	"strings"
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
	if err := Write(path, write); err == nil || !strings.Contains(err.Error(), path+": nobody reads from this named pipe") {
		t.Errorf("without a reader: %v", err)
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
