// Package routecache loads folders of route files, in parallel, and keeps what
// it parsed in one file per folder, which later runs read instead.
//
// An entry is of a file's content, which is read each time: parsing is what takes long, and
// no time stamp tells whether a file has changed, since clocks stand still and go back. The
// cache only ever saves time: whatever is wrong with it, routes are parsed from their files,
// and a new cache replaces the old one as a whole.
package routecache

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/routefile"
)

// Cache loads routes.
type Cache struct {
	// Dir holds the cache files; if empty, nothing is cached.
	Dir string
	// Also are folders in which a cache file is looked for that is not in Dir.
	Also []string
	// Loader parses what is not in the cache.
	Loader routefile.Loader
	// Workers is how many files are parsed at a time; GOMAXPROCS if 0.
	Workers int
}

// Tally says where the routes of one Load came from.
type Tally struct {
	Cached, Parsed, Failed int

	// Problem is what kept the cache from being read or written; the routes are
	// not affected.
	Problem error
}

// UseDefault has the cache in the user's cache folder, or none without a place for one.
func (c *Cache) UseDefault() {
	c.Dir, _ = fileio.CacheDir("routes")
	c.Also = fileio.CacheDirs("routes")
}

// Load returns the routes of the files, in their order. A file that is no route
// gives nil and its error at the same index, and leaves the others alone; so do those
// that were not loaded when ctx ended.
func (c Cache) Load(ctx context.Context, files []string) ([]*lockstep.Route, []error, Tally) {
	routes, errs := make([]*lockstep.Route, len(files)), make([]error, len(files))
	var stats Tally

	byFolder := map[string][]int{}
	for i, file := range files {
		dir := filepath.Dir(file)
		byFolder[dir] = append(byFolder[dir], i)
	}
	for dir, indices := range byFolder {
		c.loadFolder(ctx, dir, files, indices, routes, errs, &stats)
	}
	return routes, errs, stats
}

// loadFolder loads the files at the given indices, all of one folder.
func (c Cache) loadFolder(ctx context.Context, dir string, files []string, indices []int,
	routes []*lockstep.Route, errs []error, stats *Tally) {
	var path string
	var old []entry
	if c.Dir != "" {
		var err error
		if path, err = c.path(dir); err == nil {
			old, err = read(path)
		}
		for _, also := range c.Also {
			if os.IsNotExist(err) {
				old, err = read(filepath.Join(also, filepath.Base(path)))
			}
		}
		if err != nil && !os.IsNotExist(err) {
			stats.Problem = fmt.Errorf("route cache: %w", err)
		}
	}
	known := make(map[string]*entry, len(old))
	for i := range old {
		known[old[i].name] = &old[i]
	}

	var cached, parsed atomic.Int64
	fresh := make([]*entry, len(files)) // entries for routes parsed now
	c.parallel(len(indices), func(k int) {
		i := indices[k]
		select {
		case <-ctx.Done():
			errs[i] = ctx.Err()
			return
		default:
		}
		name := filepath.Base(files[i])
		text, err := fileio.ReadFile(files[i], fileio.Route)
		if err != nil {
			errs[i] = &routefile.Error{File: files[i], Err: err}
			return
		}
		file := sha256.Sum256(text)
		if e := known[name]; e != nil && e.file == file && e.intact() {
			routes[i] = e.route()
			cached.Add(1)
			return
		}
		if routes[i], errs[i] = c.Loader.Read(bytes.NewReader(text), files[i]); errs[i] != nil {
			return
		}
		parsed.Add(1)
		fresh[i] = newEntry(name, file, routes[i])
		routes[i] = fresh[i].route() // so that it is not in memory twice
	})
	stats.Cached += int(cached.Load())
	stats.Parsed += int(parsed.Load())
	for _, i := range indices {
		if errs[i] != nil {
			stats.Failed++
		}
	}
	if path == "" || parsed.Load() == 0 {
		return
	}
	if err := write(path, merged(old, fresh)); err != nil {
		stats.Problem = fmt.Errorf("route cache: %w", err)
	}
}

// merged are the entries of the new file, by name: what was parsed, which may be nil, and,
// of the old file, what was not found to be out of date.
func merged(old []entry, fresh []*entry) []*entry {
	var entries []*entry
	replaced := map[string]bool{}
	for _, e := range fresh {
		if e != nil {
			entries = append(entries, e)
			replaced[e.name] = true
		}
	}
	for i := range old {
		if !replaced[old[i].name] && old[i].intact() {
			entries = append(entries, &old[i])
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	return entries
}

// path is the cache file of a folder: it depends on all that the content of a
// route does, other than its file.
func (c Cache) path(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(
		nil, "%d\x00%s\x00%s\x00%s", formatVersion, dir, c.Loader.Profile, c.Loader.SeedPrefix,
	))
	return filepath.Join(c.Dir, hex.EncodeToString(sum[:16])+".routes"), nil
}

// parallel calls work(0) … work(n-1) on the cache's workers.
func (c Cache) parallel(n int, work func(int)) {
	workers := c.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(workers, n) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				work(i)
			}
		})
	}
	group.Wait()
}
