package pycontroller

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"lockstep/internal/fileio"
)

// Code is a controller's file and the Python beside it, as they were when they were read.
// Every process is given these bytes, whenever it starts: what happens to the files later is
// the next run's.
type Code struct {
	path  string // absolute, of the controller
	names []string
	texts map[string][]byte // by names in the controller's folder
}

// ReadSource reads a controller. What beside it cannot be read, it cannot import either.
func ReadSource(file string) (*Code, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	s := &Code{path: path, texts: map[string][]byte{}}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".py" {
			continue
		}
		text, err := fileio.ReadFile(filepath.Join(filepath.Dir(path), e.Name()), fileio.Controller)
		if err == nil {
			s.names, s.texts[e.Name()] = append(s.names, e.Name()), text
		} else if e.Name() == filepath.Base(path) {
			return nil, err
		}
	}
	if s.texts[filepath.Base(path)] == nil { // on a system that does not tell "C.py" from "c.py"
		return nil, fmt.Errorf("%s: its folder has no file of this name", file)
	}
	slices.Sort(s.names)
	return s, nil
}

// SHA256 is the hash of all of it, in hexadecimal.
func (s *Code) SHA256() string {
	h := sha256.New()
	for _, name := range s.names {
		fmt.Fprintf(h, "%x %s\n", sha256.Sum256(s.texts[name]), name)
	}
	fmt.Fprintln(h, filepath.Base(s.path))
	return hex.EncodeToString(h.Sum(nil))
}

// FileSHA256 is the hash of one file of it, if the file at this absolute path is one.
func (s *Code) FileSHA256(path string) (sum string, ok bool) {
	text, ok := s.texts[filepath.Base(path)]
	if !ok || filepath.Dir(path) != filepath.Dir(s.path) {
		return "", false
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), true
}

// message is what a process is given: for each file its name and text, each behind its length.
func (s *Code) message() (m []byte) {
	for _, name := range s.names {
		for _, text := range [][]byte{[]byte(name), s.texts[name]} {
			m = append(binary.LittleEndian.AppendUint32(m, uint32(len(text))), text...)
		}
	}
	return m
}
