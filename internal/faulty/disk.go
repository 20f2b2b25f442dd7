//go:build linux

// Package faulty is a file system in memory, with a clock, that fails on purpose. What is written
// and not synchronised may be lost or torn by a power cut, in any order; calls fail, write a
// part, or never return because their process is ended. All of it follows from a seed.
package faulty

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockstep/internal/fileio"
)

// ErrEnded is what calls of a process get that has been ended.
var ErrEnded = errors.New("the process has ended")

// Disk is a fileio.FileSystem. Its fields may be set between calls.
type Disk struct {
	Rate float64       // of calls that fail
	Flip float64       // of reads of files that have a bit changed
	End  int           // the process is ended at this call from now on; 0: at none
	Tick time.Duration // the times of files are multiples of it
	Skip string        // files below this folder are read as they are

	Unsynced bool // a synchronisation has failed, so that what was written may never be on the disk
	Flipped  int  // how many bits were changed in what was read
	Trace    []string

	mu    sync.Mutex
	rng   *rand.Rand
	now   time.Time
	root  *node
	last  uint64 // inode
	ended bool
	life  int // of the process; its files are closed when it has ended
}

// node is a file or folder.
type node struct {
	inode    uint64
	folder   bool
	mode     fs.FileMode
	modified time.Time
	locked   *file // by whom, which may have ended; or nil

	data, kept []byte  // what is read, and what a power cut leaves
	writes     []write // not in kept yet

	entries, keptEntries map[string]*node
	changes              []map[string]*node // of entries, each whole or not at all; nil: removed
}

type write struct {
	at   int
	data []byte
	lost bool // by a failed synchronisation
}

// New is an empty disk.
func New(rng *rand.Rand) *Disk {
	d := &Disk{rng: rng, now: time.Unix(1_700_000_000, 0), Tick: 1, life: 1}
	d.root = d.make(true, 0o777)
	return d
}

func (d *Disk) make(folder bool, mode fs.FileMode) *node {
	d.last++
	n := &node{inode: d.last, folder: folder, mode: mode, modified: d.now.Truncate(d.Tick)}
	if folder {
		n.mode |= fs.ModeDir
		n.entries, n.keptEntries = map[string]*node{}, map[string]*node{}
	}
	return n
}

// Ended reports whether the process was ended.
func (d *Disk) Ended() bool { return d.ended }

// Restart is another process, after the last one has ended; with a power cut, only what was
// synchronised is sure to be there.
func (d *Disk) Restart(power bool) {
	d.ended, d.End, d.life = false, 0, d.life+1
	if power {
		d.note("power cut")
		d.cut(d.root)
	}
}

// cut leaves of a node what was synchronised, and any of the rest.
func (d *Disk) cut(n *node) {
	share := d.rng.Float64() // of what was not
	if n.folder {
		for _, change := range n.changes {
			if d.rng.Float64() < share {
				apply(n.keptEntries, change)
			}
		}
		n.entries, n.changes = maps.Clone(n.keptEntries), nil
		for _, name := range slices.Sorted(maps.Keys(n.entries)) {
			d.cut(n.entries[name])
		}
		return
	}
	for _, w := range n.writes {
		if !w.lost && d.rng.Float64() < share {
			n.kept = put(n.kept, w.at, d.torn(w.data))
		}
	}
	n.data, n.writes = slices.Clone(n.kept), nil
}

// torn is what a power cut leaves of a write: all of it, a part, or zeros.
func (d *Disk) torn(data []byte) []byte {
	switch d.rng.IntN(6) {
	case 0:
		return make([]byte, len(data))
	case 1, 2:
		return data[:d.rng.IntN(len(data)+1)]
	}
	return data
}

func apply(entries, change map[string]*node) {
	for name, n := range change {
		if n == nil {
			delete(entries, name)
		} else {
			entries[name] = n
		}
	}
}

func put(to []byte, at int, data []byte) []byte {
	if need := at + len(data); need > len(to) {
		to = append(to, make([]byte, need-len(to))...)
	}
	copy(to[at:], data)
	return to
}

// change changes entries of a folder.
func (d *Disk) change(folder *node, change map[string]*node) {
	apply(folder.entries, change)
	folder.changes = append(folder.changes, change)
	folder.modified = d.now.Truncate(d.Tick)
}

func (d *Disk) note(format string, args ...any) {
	d.Trace = append(d.Trace, fmt.Sprintf(format, args...))
}

// why are the errors of a call.
var why = map[string][]error{
	"open":  {syscall.EMFILE, syscall.EIO, syscall.ENOSPC},
	"write": {syscall.ENOSPC, syscall.EIO, syscall.EDQUOT},
	"mkdir": {syscall.ENOSPC, syscall.EIO},
}

// call is the beginning of each call. If it fails, done says whether it is to be done all the
// same, as far as the caller cannot know.
func (d *Disk) call(op, path string) (done bool, err error) {
	d.now = d.now.Add(time.Duration(d.rng.IntN(5)) * time.Millisecond)
	if d.rng.IntN(200) == 0 {
		d.now = d.now.Add(time.Duration(d.rng.IntN(7200)-3600) * time.Second)
	}
	if d.ended {
		return false, &os.PathError{Op: op, Path: path, Err: ErrEnded}
	}
	if d.End > 0 {
		if d.End--; d.End == 0 {
			d.ended = true
			d.note("ended at %s %s", op, path)
			return d.rng.IntN(2) == 0, &os.PathError{Op: op, Path: path, Err: ErrEnded}
		}
	}
	if d.rng.Float64() < d.Rate {
		errs := why[op]
		if errs == nil {
			errs = []error{syscall.EIO}
		}
		err = &os.PathError{Op: op, Path: path, Err: errs[d.rng.IntN(len(errs))]}
		d.note("%v", err)
		return op == "rename" && d.rng.IntN(4) == 0, err
	}
	return true, nil
}

// find finds a node and its folder.
func (d *Disk) find(path string) (folder, n *node) {
	n = d.root
	for name := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		if n == nil || !n.folder {
			return nil, nil
		}
		if name != "" {
			folder, n = n, n.entries[name]
		}
	}
	return folder, n
}

func fail(op, path string, err error) error { return &os.PathError{Op: op, Path: path, Err: err} }

// OpenFile opens or makes a file.
func (d *Disk) OpenFile(path string, flag int, mode fs.FileMode) (fileio.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	done, failed := d.call("open", path)
	if !done {
		return nil, failed
	}
	folder, n := d.find(path)
	switch {
	case n == nil && folder == nil, n == nil && flag&os.O_CREATE == 0:
		return nil, fail("open", path, syscall.ENOENT)
	case n == nil:
		n = d.make(false, mode&^0o022)
		d.change(folder, map[string]*node{filepath.Base(path): n})
	case flag&os.O_EXCL != 0:
		return nil, fail("open", path, syscall.EEXIST)
	}
	if failed != nil {
		return nil, failed
	}
	return &file{d, path, n, 0, d.life}, nil
}

// Lock opens a file and locks it.
func (d *Disk) Lock(path string) (fileio.File, error) {
	f, err := d.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	locked := f.(*file)
	n := locked.node
	if n.locked != nil && n.locked.life == d.life {
		return nil, fmt.Errorf("%s: another process is at work here", filepath.Dir(path))
	}
	n.locked = locked
	return f, nil
}

// Stat is the state of a file. There are no links.
func (d *Disk) Stat(path string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.call("stat", path); err != nil {
		return nil, err
	}
	_, n := d.find(path)
	if n == nil {
		return nil, fail("stat", path, syscall.ENOENT)
	}
	return n.info(filepath.Base(path)), nil
}

// Lstat is Stat.
func (d *Disk) Lstat(path string) (fs.FileInfo, error) { return d.Stat(path) }

// SameFile compares inodes.
func (d *Disk) SameFile(a, b fs.FileInfo) bool { return a.(*info).inode == b.(*info).inode }

// EvalSymlinks has none to follow.
func (d *Disk) EvalSymlinks(path string) (string, error) { return path, nil }

// Now is the time, which may go back.
func (d *Disk) Now() time.Time { return d.now }

// Mkdir makes a folder.
func (d *Disk) Mkdir(path string, mode fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	done, err := d.call("mkdir", path)
	if !done {
		return err
	}
	folder, n := d.find(path)
	switch {
	case folder == nil:
		return fail("mkdir", path, syscall.ENOENT)
	case n != nil:
		return fail("mkdir", path, syscall.EEXIST)
	}
	d.change(folder, map[string]*node{filepath.Base(path): d.make(true, mode&^0o022)})
	return err
}

// ReadDir lists a folder.
func (d *Disk) ReadDir(path string) (list []fs.DirEntry, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.call("readdir", path); err != nil {
		return nil, err
	}
	_, n := d.find(path)
	if n == nil || !n.folder {
		return nil, fail("readdir", path, syscall.ENOENT)
	}
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		list = append(list, fs.FileInfoToDirEntry(n.entries[name].info(name)))
	}
	return list, nil
}

// Rename renames a file within its folder.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	done, err := d.call("rename", to)
	if !done {
		return err
	}
	folder, n := d.find(from)
	if n == nil {
		return fail("rename", from, syscall.ENOENT)
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		panic("between folders")
	}
	d.change(folder, map[string]*node{filepath.Base(from): nil, filepath.Base(to): n})
	return err
}

// Remove removes a file.
func (d *Disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	done, err := d.call("remove", path)
	if !done {
		return err
	}
	folder, n := d.find(path)
	if n == nil {
		return fail("remove", path, syscall.ENOENT)
	}
	d.change(folder, map[string]*node{filepath.Base(path): nil})
	return err
}

// Damage changes a bit of a file for good, as an old disk does.
func (d *Disk) Damage(path string) {
	if _, n := d.find(path); n != nil && len(n.data) > 0 {
		at := d.rng.IntN(len(n.data))
		bit := byte(1) << d.rng.IntN(8)
		n.data[at] ^= bit
		if at < len(n.kept) {
			n.kept[at] ^= bit
		}
		d.note("bit flipped in byte %d of %s", at, path)
	}
}

// Put writes a file as another program does, in its place and at once on the disk.
func (d *Disk) Put(path string, data []byte) {
	folder, n := d.find(path)
	if n == nil {
		n = d.make(false, 0o644)
		folder.entries[filepath.Base(path)], folder.keptEntries[filepath.Base(path)] = n, n
	}
	n.data, n.kept, n.writes = slices.Clone(data), slices.Clone(data), nil
	n.modified = d.now.Truncate(d.Tick)
}

// info is the state of a node.
type info struct {
	name     string
	size     int
	inode    uint64
	mode     fs.FileMode
	modified time.Time
}

func (n *node) info(name string) *info {
	return &info{name, len(n.data), n.inode, n.mode, n.modified}
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return int64(i.size) }
func (i *info) Mode() fs.FileMode  { return i.mode }
func (i *info) ModTime() time.Time { return i.modified }
func (i *info) IsDir() bool        { return i.mode.IsDir() }
func (i *info) Sys() any {
	at := syscall.NsecToTimespec(i.modified.UnixNano())
	return &syscall.Stat_t{
		Ino: i.inode, Size: int64(i.size), Uid: uint32(os.Getuid()), Mtim: at, Ctim: at,
	}
}

// file is an open file.
type file struct {
	disk *Disk
	path string
	node *node
	at   int
	life int
}

func (f *file) call(op string) (done bool, err error) {
	if f.life != f.disk.life {
		return false, fail(op, f.path, ErrEnded)
	}
	return f.disk.call(op, f.path)
}

func (f *file) Name() string { return f.path }

func (f *file) Stat() (fs.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.call("stat"); err != nil {
		return nil, err
	}
	return f.node.info(filepath.Base(f.path)), nil
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, int64(f.at))
	f.at += n
	return n, err
}

// ReadAt may give less than is asked for.
func (f *file) ReadAt(p []byte, at int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := f.call("read"); err != nil {
		return 0, err
	}
	if int(at) >= len(f.node.data) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[at:])
	if n > 1 && d.rng.IntN(8) == 0 {
		n = 1 + d.rng.IntN(n)
	}
	if d.Flip > 0 && n > 0 && d.rng.Float64() < d.Flip &&
		(d.Skip == "" || !strings.HasPrefix(f.path, d.Skip)) {
		p[d.rng.IntN(n)] ^= 1 << d.rng.IntN(8)
		d.Flipped++
		d.note("bit flipped in what is read of %s", f.path)
	}
	return n, nil
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		f.at = int(offset)
	case io.SeekCurrent:
		f.at += int(offset)
	case io.SeekEnd:
		f.at = len(f.node.data) + int(offset)
	}
	return int64(f.at), nil
}

// Write writes all, or a part and an error.
func (f *file) Write(p []byte) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := f.call("write")
	n := len(p)
	if errors.Is(err, ErrEnded) && f.life != d.life {
		return 0, err
	}
	if err != nil {
		n = d.rng.IntN(n + 1)
	}
	if n > 0 {
		f.node.data = put(f.node.data, f.at, p[:n])
		f.node.writes = append(f.node.writes, write{at: f.at, data: slices.Clone(p[:n])})
		f.node.modified = d.now.Truncate(d.Tick)
		f.at += n
	}
	return n, err
}

// Sync puts what was written on the disk. What it fails to put there never will be.
func (f *file) Sync() error {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := f.call("sync")
	n := f.node
	switch {
	case errors.Is(err, ErrEnded):
	case err != nil:
		d.Unsynced = true
		for i := range n.writes {
			n.writes[i].lost = n.writes[i].lost || d.rng.IntN(2) == 0
		}
	case n.folder:
		n.keptEntries, n.changes = maps.Clone(n.entries), nil
	default:
		var lost []write
		for _, w := range n.writes {
			if w.lost {
				lost = append(lost, w)
			} else {
				n.kept = put(n.kept, w.at, w.data)
			}
		}
		n.writes = lost
	}
	return err
}

func (f *file) Chmod(mode fs.FileMode) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.call("chmod"); err != nil {
		return err
	}
	f.node.mode = mode
	return nil
}

// Close unlocks the file, whether or not it fails.
func (f *file) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.node.locked == f {
		f.node.locked = nil
	}
	_, err := f.call("close")
	return err
}
