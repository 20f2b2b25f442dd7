package emulated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/cpu"

	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/kernels"
	"lockstep/internal/fileio"
	"lockstep/internal/kernelhash"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// TestFlags: what decides over bits is asked of the compiler for every program, and one with
// sanitizers stops at what they find. Of a CPU no more is asked than it has.
func TestFlags(t *testing.T) {
	for _, sanitize := range []bool{false, true} {
		got := flags(sanitize)
		for flag, want := range map[string]bool{
			"-ffp-contract=off":         true,
			"-march=x86-64-v3":          runtime.GOARCH == "amd64" && !cpu.X86.HasAVX512VL,
			"-march=x86-64-v4":          runtime.GOARCH == "amd64" && cpu.X86.HasAVX512VL,
			"-O3":                       !sanitize,
			"-O1":                       sanitize,
			"-fno-sanitize-recover=all": sanitize,
		} {
			if has := slices.Contains(got, flag); has != want {
				t.Errorf("sanitizers %v: %s is asked for: %v, want %v", sanitize, flag, has, want)
			}
		}
	}
	if got := level(true, true, false, true); got != "x86-64-v3" {
		t.Errorf("a CPU without all that v4 asks for is taken for %s", got)
	}
}

// TestUnits: a file is compiled once, or, if it knows LOCKSTEP_ONLY, once for each kernel that
// variants.h lists; what cannot be read is an error.
func TestUnits(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const list = "// 9\n#define LOCKSTEP_VARIANTS(V) V(1) V(4) V(6)\n#define OTHER 7\n"
	for _, c := range []struct {
		name    string
		sources fs.FS
		units   []unit
		refused string
	}{
		{"plain", fstest.MapFS{
			"a.cu": file("x"), "b/c.cpp": file("LOCKSTEP_ONLY"), "d.h": file(""),
		}, []unit{{"a.cu", ""}, {"b/c.cpp", ""}}, ""},
		{"parts", fstest.MapFS{"a.cu": file("#if LOCKSTEP_ONLY"), "variants.h": file(list)},
			[]unit{{"a.cu", "1"}, {"a.cu", "4"}, {"a.cu", "6"}}, ""},
		{"no list", fstest.MapFS{"a.cu": file("LOCKSTEP_ONLY")}, nil, "variants.h"},
		{"empty list", fstest.MapFS{
			"a.cu": file("LOCKSTEP_ONLY"), "variants.h": file("#define LOCKSTEP_VARIANTS(V)\n8"),
		}, nil, "variants.h lists no kernel"},
		{"unreadable folder", unreadable{fstest.MapFS{"a/b.cu": file("x")}}, nil, "cannot be read"},
		{"unreadable file", unreadable{fstest.MapFS{"b.cu": file("x")}}, nil, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := unitsOf(c.sources, io.Discard)
			if c.refused != "" {
				simtest.Refused(t, c.name, err, c.refused)
				return
			}
			if err != nil || !slices.Equal(got, c.units) {
				t.Errorf("units %q, %v; want %q", got, err, c.units)
			}
		})
	}
}

// unreadable is a file system in which what has a b in its name, or lies in a folder a, is not
// read.
type unreadable struct{ fstest.MapFS }

var errUnreadable = errors.New("cannot be read")

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "a" {
		return nil, errUnreadable
	}
	return u.MapFS.ReadDir(name)
}

func (u unreadable) ReadFile(name string) ([]byte, error) {
	if strings.Contains(name, "b") {
		return nil, errUnreadable
	}
	return u.MapFS.ReadFile(name)
}

// TestUnitsHashed: a name that changes, a length or a text makes another program.
func TestUnitsHashed(t *testing.T) {
	seen := map[string]string{}
	for _, sources := range []fstest.MapFS{
		{"a.h": {Data: []byte("x")}, "b.h": {Data: []byte("y")}},
		{"a.h": {Data: []byte("xy")}, "b.h": {}},
		{"a.h": {Data: []byte("x")}, "c.h": {Data: []byte("y")}},
		{"a.h": {Data: []byte("x")}, "b.h": {Data: []byte("z")}},
	} {
		var key strings.Builder
		if _, err := unitsOf(sources, &key); err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key.String()]; ok {
			t.Errorf("%v has what is hashed of %s", sources, other)
		}
		seen[key.String()] = fmt.Sprint(sources)
	}
}

// TestRemoveOld: a program is kept for thirty days after its last use, what a compilation has
// left for an hour, which is longer than any compilation may take.
func TestRemoveOld(t *testing.T) {
	folder := t.TempDir()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		unused time.Duration
		stays  bool
	}{
		"new": {0, true}, "used": {29 * day, true}, "old": {31 * day, false},
		".tmp-new": {59 * time.Minute, true}, ".tmp-old": {61 * time.Minute, false},
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.Mkdir(path, 0o755),
			os.WriteFile(filepath.Join(path, "x"), nil, 0o600),
			os.Chtimes(path, time.Time{}, time.Now().Add(-c.unused))); err != nil {
			t.Fatal(err)
		}
		removeOld(folder)
		if _, err := os.Stat(path); (err == nil) != c.stays {
			t.Errorf("%s, unused for %v: %v; is to stay: %v", name, c.unused, err, c.stays)
		}
	}
	removeOld(filepath.Join(folder, "none"))
}

// compilers writes a compiler that says its version and executes a line of sh, and chooses it.
func compilers(t *testing.T, line string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a compiler that is written in sh")
	}
	path := filepath.Join(t.TempDir(), "c++")
	text := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo one; exit; fi\n" + line + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CXX", path)
}

// TestCompilerFails: whichever call of the compiler fails, building says which and what the
// compiler said, and keeps no program.
func TestCompilerFails(t *testing.T) {
	for step, flag := range map[string]string{"preprocess": "-E", "compile": "-c", "link": "-ldl"} {
		t.Run(step, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", cache)
			t.Setenv("HOME", cache)
			compilers(t, fmt.Sprintf(`for a; do
  case "$last" in -o) echo made > "$a"; makes=$a;; esac
  last=$a
  if [ "$a" = %s ]; then this=this; fi
done
case "$this $makes" in
"this 0."*|"this device") echo "this %s cannot be" >&2; exit 3;;
this*) sleep 0.05;; # of the other unit, which is good, and ends later
esac`, flag, step))
			_, err := build(fstest.MapFS{
				"a.cpp": {Data: []byte("int x;")}, "b.cpp": {Data: []byte("int y;")},
			}, false, false)
			simtest.Refused(t, step, err, "this "+step+" cannot be")
			simtest.Refused(t, step, err, "exit status 3")
			simtest.Refused(t, step, err, flag)
			err = filepath.WalkDir(cache, func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() && filepath.Base(filepath.Dir(path)) != "objects" {
					err = fmt.Errorf("%s is kept", path)
				}
				return err
			})
			if err != nil {
				t.Errorf("after a %s that failed: %v", step, err)
			}
		})
	}
}

// TestApart: what was compiled otherwise is kept apart: by another version of the compiler, with
// other flags, of a file of another name; and so is what its units compile to, wherever it is kept.
func TestApart(t *testing.T) {
	t.Run("in the cache folder", func(t *testing.T) { apart(t, 0o755) })
	t.Run("others can write to that", func(t *testing.T) { apart(t, 0o777) })
}

// apart is TestApart with a cache folder of a mode.
func apart(t *testing.T, mode fs.FileMode) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("TMPDIR", cache)
	shared, err := fileio.CacheDir("emulated")
	if err := errors.Join(err, os.MkdirAll(shared, 0o755), os.Chmod(shared, mode)); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(cache, "log")
	compilers(t, `for a; do
  case "$last" in -o) echo made > "$a";; esac
  case "$a" in -c) echo compiled >> `+log+`;; esac
  last=$a
done`)
	text, err := os.ReadFile(os.Getenv("CXX"))
	if err != nil {
		t.Fatal(err)
	}
	source := &fstest.MapFile{Data: []byte("int x;")}
	objects := func() (n int) {
		err := fs.WalkDir(os.DirFS(cache), ".", func(name string, e fs.DirEntry, err error) error {
			if path.Base(path.Dir(name)) == "objects" {
				n++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	seen := map[string]string{}
	for _, c := range []struct {
		name, version, file string
		sanitize            bool
		objects             int // that there are then
	}{
		{"the first", "one", "a.cpp", false, 1}, {"sanitized", "one", "a.cpp", true, 2},
		{"another name", "one", "b.cpp", false, 2}, {"another compiler", "two", "a.cpp", false, 3},
	} {
		other := bytes.Replace(text, []byte("echo one"), []byte("echo "+c.version), 1)
		if err := os.WriteFile(os.Getenv("CXX"), other, 0o755); err != nil {
			t.Fatal(err)
		}
		program, err := build(fstest.MapFS{c.file: source}, c.sanitize, false)
		if err != nil {
			t.Fatal(err)
		}
		if was := seen[program]; was != "" {
			t.Errorf("%s is the program of %s", c.name, was)
		}
		if seen[program] = c.name; objects() != c.objects {
			t.Errorf("%s: %d objects are kept, want %d", c.name, objects(), c.objects)
		}
		if made, err := os.ReadFile(log); err != nil ||
			strings.Count(string(made), "compiled") != c.objects {
			t.Errorf("%s: %q, %v, want %d: what is kept is not compiled again", c.name, made, err,
				c.objects)
		}
	}
}

// TestParts: a part is compiled with its number, and what has none without; of a program whose
// accesses are watched the kernels alone are compiled so.
func TestParts(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	log := filepath.Join(cache, "log")
	compilers(t, `for a; do
  case "$last" in -o) echo "$@" > "$a";; esac
  case "$a" in
  -D*|`+watch[1]+`) so="$so $a";;
  *.cpp|*.cu|-rdynamic) echo "$a$so" >> `+log+`;;
  esac
  last=$a
done`)
	if _, err := build(fstest.MapFS{
		"a.cpp":      {Data: []byte("int x;")},
		"b.cu":       {Data: []byte("#if LOCKSTEP_ONLY == 4")},
		"variants.h": {Data: []byte("#define LOCKSTEP_VARIANTS(V) V(1) V(4)\n")},
	}, false, true); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	slices.Sort(got)
	want := []string{
		"-rdynamic", "a.cpp", "b.cu " + watch[1] + " -DLOCKSTEP_ONLY=1",
		"b.cu " + watch[1] + " -DLOCKSTEP_ONLY=4",
	}
	if !slices.Equal(got, want) {
		t.Errorf("compiled are %q, want %q", got, want)
	}
}

// TestFlagsAreShared: units are compiled at once, with the same flags, so that none writes behind
// them what the compiler is given for another.
func TestFlagsAreShared(t *testing.T) {
	compilers(t, `for a; do
  case "$last" in -o) echo made > "$a";; esac
  last=$a
done`)
	flags := make([]string, 1, 32)
	c := compilation{os.Getenv("CXX"), "one", flags, watch, t.TempDir(), t.TempDir(), nil}
	if err := os.Mkdir(c.objects(c.folder), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := c.object(t.Context(), unit{"a.cu", "4"}, "0"); err != nil {
		t.Fatal(err)
	}
	if all := flags[:cap(flags)]; !slices.Equal(all, make([]string, cap(flags))) {
		t.Errorf("behind the flags of all units are now %q", all)
	}
}

// TestGivenUpCompiler: a compilation that is given up says so, not how its process ended.
func TestGivenUpCompiler(t *testing.T) {
	compilers(t, "exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	path, _, err := findCompiler()
	if err != nil {
		t.Fatal(err)
	}
	if err := run(ctx, t.TempDir(), path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a compilation that was given up: %v, want %v", err, context.DeadlineExceeded)
	}
}

// TestFindCompiler: the compiler is that of CXX, else g++; one that does not say its version is
// none.
func TestFindCompiler(t *testing.T) {
	compilers(t, "exit 1")
	path, version, err := findCompiler()
	if err != nil || path != os.Getenv("CXX") || version != "one\n" {
		t.Errorf("%s, version %q, %v; want %s, version %q", path, version, err, os.Getenv("CXX"),
			"one\n")
	}
	if err := Available(); err != nil {
		t.Errorf("with a compiler: %v", err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 4\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	simtest.Refused(t, "a compiler that fails", Available(), "--version: exit status 4")
	t.Setenv("CXX", "")
	t.Setenv("PATH", filepath.Dir(path))
	simtest.Refused(t, "no g++", Available(), "install g++")
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), "g++")); err != nil {
		t.Fatal(err)
	}
	simtest.Refused(t, "a g++ that fails", Available(), "g++ --version: exit status 4")
}

// TestKernelSources: a translated kernel is compiled with the header of the sources, and without
// one is refused.
func TestKernelSources(t *testing.T) {
	_, err := buildKernel(fstest.MapFS{}, "int x;")
	simtest.Refused(t, "sources without a header", err, KernelHeader)
	want.Compiler.Need(t)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	sources := fstest.MapFS{KernelHeader: {Data: []byte("#define TEXT 1\n")}}
	library, err := buildKernel(sources, "#include \"machine.h\"\nint x[TEXT];\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(library); err != nil {
		t.Errorf("the library: %v", err)
	}
}

// TestDefaults: options that are not given, and what a device says of itself.
func TestDefaults(t *testing.T) {
	want.Compiler.Need(t)
	for _, c := range []struct{ given, want Options }{
		{Options{}, Options{Memory: 4294967296, Processors: runtime.NumCPU(), Order: Ascending}},
		{Options{Memory: -1, Processors: -1},
			Options{Memory: 4294967296, Processors: runtime.NumCPU(), Order: Ascending}},
		{Options{Memory: 1, Processors: 1, Order: Shuffled},
			Options{Memory: 1, Processors: 1, Order: Shuffled}},
	} {
		d, err := Open(c.given)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if d.options.Order != c.want.Order {
			t.Errorf("with %+v: order %s, want %s", c.given, d.options.Order, c.want.Order)
		}
		hash, err := kernelhash.Sources(kernels.Sources)
		if err != nil {
			t.Fatal(err)
		}
		is := driver.Info{
			Name: "emulated", Driver: "CPU", Kernels: hash, Emulated: true, Major: 9,
			Multiprocessors: c.want.Processors, SharedPerBlock: 232448, Memory: c.want.Memory,
		}
		if info := d.Info(); info != is {
			t.Errorf("with %+v: the device is %+v, want %+v", c.given, info, is)
		}
		free, err := d.FreeMemory()
		if err != nil || free != c.want.Memory {
			t.Errorf("with %+v: %d bytes free, %v; want %d", c.given, free, err, c.want.Memory)
		}
	}
}

// takes is how the process takes a command.
const takes = `#!/bin/sh\nhead -c 48 >/dev/null\n`

// answering is a device whose process takes a command, and then is this line of sh.
func answering(t *testing.T, line string) *Device {
	t.Helper()
	return made(t, line, Options{})
}

// made is answering with options. Closed it leaves no process that has ended.
func made(t *testing.T, line string, options Options) *Device {
	t.Helper()
	compilers(t, `for a; do
  case "$last" in -o) printf '`+takes+line+`\n' > "$a"; chmod +x "$a";; esac
  last=$a
done`)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	x := &fstest.MapFile{Data: []byte("int x;")}
	options.Sources = fstest.MapFS{"a.cpp": x, KernelHeader: x}
	d, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.Close(); d.process.ProcessState == nil {
			t.Error("nobody has waited for the process of a device that is closed")
		}
	})
	return d
}

// TestCloseWithAChild: a device whose process left a child that holds its standard error is closed
// all the same, in the midst of a command.
func TestCloseWithAChild(t *testing.T) {
	d := made(t, `sleep 20 >/dev/null & echo >"$0".ready; cat >/dev/null`, Options{})
	if err := d.Fill(1, 0, 1); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, err := os.Stat(d.process.Path + ".ready"); err != nil; {
		if time.Since(begin) > 10*time.Second {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		_, err = os.Stat(d.process.Path + ".ready")
	}
	begin = time.Now()
	if d.Close(); time.Since(begin) > 10*time.Second {
		t.Errorf("it took %v", time.Since(begin))
	}
}

// TestOptions: the process is the program that the options ask for, and is told them; of translated
// kernels the device has the name and the hash, and launches them.
func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{}, {Sanitize: true}, {Watched: true}, {Sanitize: true, Watched: true},
		{Memory: 1 << 40, Processors: 3, Order: Shuffled, Seed: 1<<63 + 10,
			Translated: &Translated{
				Name: "sm_90", Of: "these",
				Kernel: func(string) (string, error) { return "int y;", nil },
			}},
	} {
		d := made(t, "cat >/dev/null", o)
		program, err := build(d.options.Sources, o.Sanitize, o.Watched)
		if err != nil {
			t.Fatal(err)
		}
		info := d.Info()
		want := []string{program, "4294967296", fmt.Sprint(runtime.NumCPU()), "ascending", "0"}
		if o.Seed > 0 {
			want = []string{program, "1099511627776", "3", "shuffled", "9223372036854775818"}
			if info.Name != "sm_90" || info.Kernels != "these" {
				t.Errorf("with translated kernels the device is %+v", info)
			}
			if err := d.Launch("k", 1, 1, 0, nil); err != nil {
				t.Errorf("launching a translated kernel: %v", err)
			}
		}
		if !slices.Equal(d.process.Args, want) {
			t.Errorf("with %+v the process is %q, want %q", o, d.process.Args, want)
		}
	}
}

// TestCommandsNamed: an error says by which command it came; a translated kernel is loaded once.
func TestCommandsNamed(t *testing.T) {
	for what, command := range map[string]func(d *Device) error{
		"free memory":        func(d *Device) error { _, err := d.FreeMemory(); return err },
		"allocating 8 bytes": func(d *Device) error { _, err := d.Allocate(8); return err },
		"symbol table":       func(d *Device) error { _, _, err := d.Symbol("table"); return err },
	} {
		what += ": the device process ended: exit status 5"
		simtest.Refused(t, what, command(answering(t, "exit 5")), what)
	}
	d := &Device{loaded: map[string]bool{}, options: Options{
		Sources: fstest.MapFS{KernelHeader: {Data: []byte("int x;")}},
		Translated: &Translated{Kernel: func(name string) (string, error) {
			return "// " + name, nil
		}},
	}}
	d.work = sync.NewCond(&d.mu)
	_, err := d.Mark()
	if err := errors.Join(err, d.Release(1), d.Upload(1, nil), d.Download(nil, 1), d.Copy(1, 2, 3),
		d.Fill(1, 2, 3), d.Launch("k", 1, 1, 0, nil), d.Launch("k", 1, 1, 0, nil)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range d.queue {
		if got = append(got, c.what); c.op == opLoad {
			if _, err := os.Stat(string(c.payload)); err != nil {
				t.Errorf("the library of a kernel: %v", err)
			}
		}
	}
	if want := []string{"mark", "releasing memory", "upload", "download", "copy", "fill",
		"loading k", "launch", "launch"}; !slices.Equal(got, want) || d.queue[6].op != opLoad {
		t.Errorf("the commands are %q, want %q", got, want)
	}
}

// word8 is a number of 64 bits as printf of sh writes it, on machines that begin with its end.
func word8(n int) string { return fmt.Sprintf(`\\%03o`, n) + strings.Repeat(`\\000`, 7) }

// TestForeignProcess: what a process answers that is no answer is an error that says so, and so is
// its end, with what it said last.
func TestForeignProcess(t *testing.T) {
	answer := func(result, value, length int) string {
		return "printf " + `"` + word8(result) + word8(value) + word8(length)
	}
	for _, c := range []struct{ name, line, want string }{
		{"no result", answer(9, 0, 0) + `"; cat >/dev/null`, "the device answers 9, which is no"},
		{"half an answer", `printf "ab"`, "the device process ended: unexpected EOF"},
		{"no text", answer(2, 0, 5) + `ab"`, "the device process ended: unexpected EOF"},
		{"failed", answer(3, 0, 5) + `wrong"; cat >/dev/null`, "allocating 8 bytes: wrong"},
		{"invalid", answer(2, 0, 5) + `wrong"; cat >/dev/null`, "allocating 8 bytes: wrong"},
		{"last words", `echo so it ends >&2; exit 5`, "exit status 5\nso it ends"},
		{"output closed", `exec sleep 60 >&-`, "the device process ended: signal: killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := answering(t, c.line)
			_, err := d.Allocate(8)
			simtest.Refused(t, c.name, err, c.want)
			simtest.Refused(t, "afterwards", d.Synchronize(t.Context()), c.want)
		})
	}
	down := func(line string, bytes int) error {
		d := answering(t, line)
		return errors.Join(d.Download(make([]byte, bytes), 1), d.Synchronize(t.Context()))
	}
	simtest.Refused(t, "what went wrong is as long as what was asked for",
		down(answer(3, 0, 5)+`wrong"; cat >/dev/null`, 5), "download: wrong")
	simtest.Refused(t, "nothing is asked for, and nothing answers", down("exit 5", 0),
		"download: the device process ended: exit status 5")
	d := answering(t, answer(1, 0, 4)+`full`+word8(0)+word8(7)+word8(0)+`"; cat >/dev/null`)
	if _, err := d.Allocate(8); !errors.Is(err, driver.ErrOutOfMemory) ||
		!strings.HasSuffix(fmt.Sprint(err), "full") {
		t.Errorf("memory is out: %v, want %v: full", err, driver.ErrOutOfMemory)
	}
	if p, err := d.Allocate(8); err != nil || p != 7 {
		t.Errorf("after memory was out: %d, %v; want 7", p, err)
	}
}

// TestFirstError: what goes wrong first is what every later command says.
func TestFirstError(t *testing.T) {
	first, later := errors.New("first"), errors.New("later")
	d := &Device{pending: 4}
	d.idle = sync.NewCond(&d.mu)
	for _, c := range []struct {
		err, want error
		soft      bool
	}{{first, first, false}, {later, first, false}, {nil, first, false}, {later, later, true}} {
		command := &command{soft: c.soft}
		if d.finish(command, c.err); command.err != c.want || d.err != first {
			t.Errorf("a command with %v, memory out: %v: says %v, the device %v; want %v and %v",
				c.err, c.soft, command.err, d.err, c.want, first)
		}
	}
}

// TestUntranslated: a kernel that has no translation, or none that compiles, is not launched.
func TestUntranslated(t *testing.T) {
	d := &Device{loaded: map[string]bool{}, options: Options{
		Sources: fstest.MapFS{},
		Translated: &Translated{Kernel: func(name string) (string, error) {
			if name == "none" {
				return "", errors.New("has no kernel none")
			}
			return "int x;", nil
		}},
	}}
	simtest.Refused(t, "no kernel", d.Launch("none", 1, 1, 0, nil), "has no kernel none")
	for range 2 { // the second time, too
		simtest.Refused(t, "no header", d.Launch("k", 1, 1, 0, nil), "compiling kernel k: open "+
			KernelHeader)
	}
	if len(d.queue) > 0 {
		t.Errorf("%d commands are sent for kernels that there are not", len(d.queue))
	}
}

// TestExcerpt: of what a process says the first 16 KiB are kept, and all is taken from it.
func TestExcerpt(t *testing.T) {
	var e excerpt
	for _, n := range []int{1, 16383, 1, 20000} {
		if got, err := e.Write([]byte(strings.Repeat("x", n))); got != n || err != nil {
			t.Errorf("%d bytes: %d are taken, %v", n, got, err)
		}
	}
	for range 2 {
		if got := len(e.String()); got != 16384 {
			t.Errorf("%d bytes are kept, want 16384", got)
		}
	}
	e = excerpt{}
	e.Write([]byte(strings.Repeat("x", 20000)))
	if got := len(e.String()); got != 16384 {
		t.Errorf("%d bytes of one text are kept, want 16384", got)
	}
}

// TestMarks: times lie between marks that there are, in either order, and to one itself nothing.
func TestMarks(t *testing.T) {
	d := &Device{marks: []time.Duration{3, 10}}
	for _, c := range []struct {
		from, to driver.Mark
		want     time.Duration
		known    bool
	}{
		{0, 1, 7, true}, {1, 0, -7, true}, {1, 1, 0, true}, {-1, 1, 0, false},
		{2, 1, 0, false}, {0, -1, 0, false}, {0, 2, 0, false},
	} {
		got, err := d.Elapsed(c.from, c.to)
		if got != c.want || (err == nil) != c.known {
			t.Errorf("from %d to %d: %v, %v; want %v, known: %v", c.from, c.to, got, err, c.want,
				c.known)
		}
	}
	d.err = errors.New("lost")
	if _, err := d.Elapsed(0, 1); err != d.err {
		t.Errorf("of a device that is lost: %v", err)
	}
}
