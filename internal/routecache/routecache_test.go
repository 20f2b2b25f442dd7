package routecache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/fuzzing"
	"lockstep/parity/schema"
	"lockstep/routefile"
)

func TestMain(m *testing.M) { os.Exit(fuzzing.Main(m)) }

// writeRoute writes a route of n rows whose values depend on k.
func writeRoute(t testing.TB, path string, n, k int) {
	t.Helper()
	var b strings.Builder
	b.WriteString("t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n")
	for i := range n {
		fmt.Fprintf(
			&b, "%g,%g,0.5,%g,%g,%g\n", float64(i)/10, 20+float64(k)/7, float64(i%7)/1000,
			float64(i*k%100)/300, float64(i%9)/30)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

// folder makes a folder of routes and returns it with their paths.
func folder(t testing.TB, n int) []string {
	t.Helper()
	dir := t.TempDir()
	var files []string
	for k := range n {
		file := filepath.Join(dir, fmt.Sprintf("%05d.csv", k))
		writeRoute(t, file, 101+k, k)
		files = append(files, file)
	}
	return files
}

var sameRoutes = cmp.Comparer(schema.Equal[float64])

// check loads files and compares with what the loader parses.
func check(t testing.TB, c Cache, files []string, cached, parsed int) {
	t.Helper()
	routes, errs, stats := c.Load(context.Background(), files)
	for i, file := range files {
		want, err := c.Loader.Load(file)
		if err != nil || errs[i] != nil {
			t.Fatal(err, errs[i])
		}
		if diff := cmp.Diff(want, routes[i], sameRoutes); diff != "" {
			t.Errorf("%s (-parsed +loaded):\n%s", file, diff)
		}
		// Who makes a column longer writes over no other.
		for _, column := range routes[i].Columns() {
			_ = append(*column, 7)
		}
		_ = append(routes[i].Draws, 7)
		if diff := cmp.Diff(want, routes[i], sameRoutes); diff != "" {
			t.Errorf("%s, with longer columns:\n%s", file, diff)
		}
	}
	if want := (Tally{Cached: cached, Parsed: parsed}); stats.Cached != cached ||
		stats.Parsed != parsed || stats.Failed != 0 {
		t.Errorf("stats %+v, want %+v", stats, want)
	}
}

func TestLoad(t *testing.T) {
	files := folder(t, 20)
	c := Cache{Dir: t.TempDir()}
	check(t, c, files[:12], 0, 12)
	check(t, c, files[:12], 12, 0)
	check(t, c, files, 12, 8) // the cache grows
	check(t, c, files[5:15], 10, 0)
	check(t, Cache{Dir: c.Dir, Workers: 1}, files, 20, 0)
	check(t, Cache{}, files, 0, 20)

	two := append(files[:3:3], folder(t, 4)...) // each with its cache
	check(t, c, two, 3, 4)
	check(t, c, two, 7, 0)

	// What else a route depends on has a cache of its own.
	for _, prefix := range []string{"other", "a/data", "b/data", "a/b/data", "./data", "data/a"} {
		check(t, Cache{Dir: c.Dir, Loader: routefile.Loader{SeedPrefix: prefix}}, files, 0, 20)
	}
	check(
		t,
		Cache{
			Dir:    c.Dir,
			Loader: routefile.Loader{Profile: lockstep.Profile{CSV: lockstep.CSVExact}},
		},
		files, 0, 20,
	)
	check(t, c, files, 20, 0)

	t.Chdir(filepath.Dir(files[0])) // a folder is one, from wherever it is named
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	check(t, c, files, 20, 0)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	routes, errs, stats := c.Load(ended, files)
	for i := range files {
		if routes[i] != nil || !errors.Is(errs[i], context.Canceled) {
			t.Errorf("%s, when nobody waits: %v, %v", files[i], routes[i], errs[i])
		}
	}
	if want := (Tally{Failed: len(files)}); stats != want {
		t.Errorf("%+v, want %+v", stats, want)
	}
}

// TestSwept: what a process has left that was killed while it wrote the cache goes with the next
// one that writes it.
func TestSwept(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	left := filepath.Join(c.Dir, ".tmp-0123456789abcdef")
	if err := os.WriteFile(left, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	check(t, c, folder(t, 1), 0, 1)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestAlso: what is kept in a folder that nothing is written to any more is read, in place of what
// is not there, and not of what is damaged.
func TestAlso(t *testing.T) {
	files := folder(t, 8)
	old := Cache{Dir: t.TempDir()}
	check(t, old, files[:5], 0, 5)
	c := Cache{Dir: t.TempDir(), Also: []string{t.TempDir(), old.Dir}}
	check(t, c, files[:5], 5, 0)
	check(t, c, files, 5, 3) // what it writes has both
	check(t, Cache{Dir: c.Dir}, files, 8, 0)
	check(t, old, files[:5], 5, 0)
	damaged := cacheFile(t, c.Dir)
	if err := os.WriteFile(damaged, []byte("no cache"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, _, stats := c.Load(t.Context(), files)
	if stats.Problem == nil || !strings.Contains(stats.Problem.Error(), damaged) {
		t.Errorf("a cache that is damaged: %v, want %s named", stats.Problem, damaged)
	}
}

func TestStale(t *testing.T) {
	files := folder(t, 6)
	c := Cache{Dir: t.TempDir()}
	check(t, c, files, 0, 6)

	writeRoute(t, files[2], 150, 9) // another size
	check(t, c, files, 5, 1)

	info, err := os.Stat(files[3])
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(files[3])
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(",0.5,"), []byte(",0.6,"), 1) // the same size
	if err := os.WriteFile(files[3], data, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(files[3], time.Time{}, info.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	check(t, c, files, 5, 1)
	check(t, c, files, 6, 0)
}

// TestSameLooking changes files so that size and modification time stay.
func TestSameLooking(t *testing.T) {
	files := folder(t, 6)
	c := Cache{Dir: t.TempDir()}
	now := time.Now().Add(-time.Hour)
	rewrite := func(path string, to ...string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(to) == 2 {
			data = bytes.Replace(data, []byte(to[0]), []byte(to[1]), 1)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		rewrite(file)
	}
	check(t, c, files, 0, 6)
	check(t, c, files, 6, 0)

	rewrite(files[1], ",0.5,", ",0.6,") // in place, its time set back
	check(t, c, files, 5, 1)

	other := filepath.Join(t.TempDir(), "other.csv") // another file in its place
	if err := os.Rename(files[2], other); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[2], bytes.Replace(data, []byte(",0.5,"), []byte(",0.7,"), 1),
		0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(files[2], now, now); err != nil {
		t.Fatal(err)
	}
	check(t, c, files, 5, 1)

	// two change places
	for _, step := range [][2]string{{files[3], other}, {files[4], files[3]}, {other, files[4]}} {
		if err := os.Rename(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	check(t, c, files, 4, 2)
	check(t, c, files, 6, 0)
}

// TestCoarse edits a file where time stamps are whole seconds, and loads one whose stamps lie in
// the future.
func TestCoarse(t *testing.T) {
	dir, debug := coarse(t)
	file := filepath.Join(dir, "a.csv")
	c := Cache{Dir: t.TempDir()}
	writeRoute(t, file, 101, 1)
	check(t, c, []string{file}, 0, 1)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for k := range 6 {
		edited := fmt.Appendf(nil, ",0.%d,", (k+6)%10)
		if err := os.WriteFile(file, bytes.Replace(text, []byte(",0.5,"), edited, 1),
			0o666); err != nil {
			t.Fatal(err)
		}
		check(t, c, []string{file}, 0, 1)
	}
	debug("set_inode_field /a.csv ctime 203601010000")
	began := time.Now()
	check(t, Cache{Dir: t.TempDir()}, []string{file}, 0, 1)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func cacheFile(t testing.TB, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v: want one cache file", files, err)
	}
	return files[0]
}

// TestDamaged flips, cuts and replaces bytes of the cache: routes never change,
// and the cache heals.
func TestDamaged(t *testing.T) {
	files := folder(t, 5)
	c := Cache{Dir: t.TempDir()}
	check(t, c, files, 0, 5)
	path := cacheFile(t, c.Dir)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(t testing.TB, data []byte) {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		routes, errs, stats := c.Load(context.Background(), files)
		for i, file := range files {
			want, _ := c.Loader.Load(file)
			if errs[i] != nil || !cmp.Equal(want, routes[i], sameRoutes) {
				t.Fatalf("%s differs with a damaged cache (%v)", file, errs[i])
			}
		}
		if stats.Parsed == 0 && !bytes.Equal(data, good) {
			// The padding is all that may change unnoticed.
			if len(data) != len(good) {
				t.Fatalf(
					"a damaged cache of %d bytes passed for whole, of %d", len(data), len(good),
				)
			}
		}
		check(t, c, files, 5, 0) // healed
	}
	for name, data := range map[string][]byte{
		"empty": {}, "text": []byte("not a cache"), "cut in the header": good[:20], "cut in the " +
			"index": good[:60],
		"cut in the data": good[:len(good)-1], "absurd index length": append(
			append([]byte(magic), bytes.Repeat([]byte{0xff}, 16)...), good[24:]...),
	} {
		t.Run(name, func(t *testing.T) { damage(t, data) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		data := bytes.Clone(good)
		data[rapid.IntRange(0, len(data)-1).Draw(rt, "offset")] ^= 1 << rapid.IntRange(0, 7).Draw(
			rt, "bit",
		)
		damage(t, data)
	})
}

func TestBadRoute(t *testing.T) {
	files := folder(t, 3)
	if err := os.WriteFile(files[1], []byte("t,roll\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(filepath.Dir(files[0]), "none.csv"))
	c := Cache{Dir: t.TempDir()}
	// The others are kept.
	for _, want := range []Tally{{Parsed: 2, Failed: 2}, {Cached: 2, Failed: 2}} {
		routes, errs, stats := c.Load(context.Background(), files)
		for i, bad := range []bool{false, true, false, true} {
			if (errs[i] != nil) != bad || (routes[i] == nil) != bad {
				t.Errorf("%s: %v, %v", files[i], routes[i], errs[i])
			}
			if _, want := c.Loader.Load(files[i]); fmt.Sprint(errs[i]) != fmt.Sprint(want) {
				t.Errorf("%v, want what its loader says: %v", errs[i], want)
			}
		}
		if stats != want {
			t.Errorf("stats %+v, want %+v", stats, want)
		}
	}
}

// TestUnwritable: a cache that cannot be written is reported and costs nothing
// else.
func TestUnwritable(t *testing.T) {
	files := folder(t, 2)
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	routes, errs, stats := Cache{Dir: filepath.Join(blocked, "routes")}.Load(
		context.Background(), files)
	if routes[0] == nil || routes[1] == nil || errs[0] != nil || errs[1] != nil {
		t.Errorf("routes %v, errors %v", routes, errs)
	}
	if stats.Problem == nil || stats.Parsed != 2 {
		t.Errorf("stats %+v, want a problem", stats)
	}
}

// TestUnreadable: what keeps a cache from being read is told, though a new one takes its place.
func TestUnreadable(t *testing.T) {
	files := folder(t, 2)
	c, whole := Cache{Dir: t.TempDir()}, Cache{Dir: t.TempDir()}
	check(t, whole, files, 0, 2)
	for want, size := range map[string]int64{
		"is damaged and will be made again: not a route cache of this version":     1,
		"68719476737 bytes, more than the 68719476736 that a route cache may have": 64<<30 + 1,
	} {
		check(t, c, files, 0, 2)
		path := cacheFile(t, c.Dir)
		if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Skipf("no sparse files of %d bytes here: %v", size, err)
		}
		beside := c
		beside.Also = []string{whole.Dir} // where one is looked for that is not there
		_, _, stats := beside.Load(t.Context(), files)
		if text := fmt.Sprint(stats.Problem); stats.Parsed != 2 ||
			!strings.HasPrefix(text, "route cache: ") || !strings.HasSuffix(text, want) {
			t.Errorf("of %d bytes: %+v, want …%s", size, stats, want)
		}
		check(t, c, files, 2, 0)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUseDefault: the cache is among what is kept for this user.
func TestUseDefault(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	var c Cache
	c.UseDefault()
	want := filepath.Join(cache, "lockstep", "routes")
	if c.Dir != want || !slices.Equal(c.Also, []string{want}) {
		t.Errorf("%+v, want %s", c, want)
	}
}

// TestWorkers: as many work at a time as are asked for, or as there are processors, of which none
// is lost.
func TestWorkers(t *testing.T) {
	const processors, calls = 3, 12
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	for workers, want := range map[int]int64{-1: 3, 0: 3, 1: 1, 2: 2, 5: 5, 99: calls} {
		var running atomic.Int64
		var once sync.Once
		met := make(chan struct{}) // closed when as many run as are to
		Cache{Workers: workers}.parallel(calls, func(int) {
			defer running.Add(-1)
			now := running.Add(1)
			if now > want {
				t.Errorf("%d workers: %d at a time, want %d", workers, now, want)
			}
			if now == want {
				once.Do(func() { close(met) })
			}
			select {
			case <-met:
				time.Sleep(time.Millisecond) // in which one too many comes
			case <-time.After(10 * time.Second):
				t.Errorf("%d workers: %d at a time, want %d", workers, now, want)
			}
		})
	}
	if got := runtime.GOMAXPROCS(0); got != processors {
		t.Errorf("%d processors are left of %d", got, processors)
	}
}

// TestTwoBuilders builds one cache from several goroutines at a time.
func TestTwoBuilders(t *testing.T) {
	files := folder(t, 10)
	c := Cache{Dir: t.TempDir()}
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			routes, errs, stats := c.Load(context.Background(), files)
			for i := range files {
				if errs[i] != nil || routes[i].Len() != 101+i || stats.Problem != nil {
					t.Errorf("%v, %v, %+v", routes[i], errs[i], stats)
				}
			}
		})
	}
	group.Wait()
	check(t, c, files, 10, 0)
	cacheFile(t, c.Dir) // nothing is left beside it
}

// TestFullDisk stops the write at every kind of place.
func TestFullDisk(t *testing.T) {
	limited(t, func(dir string) {
		files := folder(t, 80)
		routes, errs, stats := Cache{Dir: dir}.Load(context.Background(), files)
		for i := range files {
			if errs[i] != nil || routes[i] == nil {
				t.Errorf("%s: %v", files[i], errs[i])
			}
		}
		if stats.Problem == nil {
			t.Error("writing to a full disk succeeded")
		}
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
		if len(left)+len(hidden) > 0 {
			t.Errorf("left behind: %v %v %v", left, hidden, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	dir := f.TempDir()
	file := filepath.Join(dir, "0.csv")
	writeRoute(f, file, 101, 1)
	cacheDir := f.TempDir()
	Cache{Dir: cacheDir}.Load(context.Background(), []string{file})
	good, err := os.ReadFile(cacheFile(f, cacheDir))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, false)
	f.Add(good, true)
	f.Add(good[:100], false)
	far := slices.Clone(good)
	far[headerSize+2+len("0.csv")+sha256.Size+4+4+6]++ // offset of the data, by 2⁴⁸ bytes
	f.Add(far, true)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		defer fuzzing.Ended()
		data = append(make([]byte, 0, len(data)+8), data...) // aligned, as a mapping is
		// so that what is behind the checksum is reached
		if sealed && len(data) >= headerSize {
			if n := binary.LittleEndian.Uint64(data[8:]); n <= uint64(len(data)-headerSize) {
				binary.LittleEndian.PutUint32(
					data[16:], crc32.Checksum(data[headerSize:headerSize+n], castagnoli))
			}
		}
		entries, err := parse(data)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.intact() {
				e.route()
			}
		}
	})
}
