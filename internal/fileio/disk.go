package fileio

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A FileSystem is what runs and caches are kept on, with its clock.
type FileSystem interface {
	OpenFile(path string, flag int, mode fs.FileMode) (File, error)
	// Lock opens a file, which it makes if it is not there, and locks it until it is closed.
	Lock(path string) (File, error)
	Stat(path string) (fs.FileInfo, error)
	Lstat(path string) (fs.FileInfo, error)
	SameFile(a, b fs.FileInfo) bool
	Mkdir(path string, mode fs.FileMode) error
	ReadDir(path string) ([]fs.DirEntry, error)
	Rename(from, to string) error
	Remove(path string) error
	EvalSymlinks(path string) (string, error)
	Now() time.Time
}

// A File is an open file of a FileSystem.
type File interface {
	io.Reader
	io.Writer
	io.ReaderAt
	io.Seeker
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	Chmod(mode fs.FileMode) error
	Sync() error
}

// Disk is the machine's file system. A test may put one in its place that fails on purpose.
var Disk FileSystem = machine{}

type machine struct{}

func (machine) OpenFile(path string, flag int, mode fs.FileMode) (File, error) {
	return opened(os.OpenFile(path, flag, mode))
}
func (machine) Lock(path string) (File, error)             { return opened(lock(path)) }
func (machine) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (machine) Lstat(path string) (fs.FileInfo, error)     { return os.Lstat(path) }
func (machine) SameFile(a, b fs.FileInfo) bool             { return os.SameFile(a, b) }
func (machine) Mkdir(path string, mode fs.FileMode) error  { return os.Mkdir(path, mode) }
func (machine) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (machine) Rename(from, to string) error               { return rename(from, to) }
func (machine) Remove(path string) error                   { return os.Remove(path) }
func (machine) EvalSymlinks(path string) (string, error)   { return filepath.EvalSymlinks(path) }
func (machine) Now() time.Time                             { return time.Now() }

// opened is a file or nil, and not a File that holds nil.
func opened(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}
