package emulated_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// small are kernels that are compiled in a second.
func small(t testing.TB) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{"small.cu": {Data: []byte(`
#include "cpu/cuda.h"
#include "cpu/device.h"
#include <stdlib.h>
struct Argument { int64_t *words; int64_t n; };
extern "C" { int64_t small_table[] = {3, 1, 4}; }
// Each block reverses its part of the words through shared memory.
extern "C" __global__ void small_reverse(const Argument *a) {
  LOCKSTEP_SHARED(memory);
  int64_t *part = reinterpret_cast<int64_t *>(memory);
  int64_t *words = a->words + blockIdx.x * blockDim.x;
  part[threadIdx.x] = words[threadIdx.x];
  __syncthreads();
  words[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x] + 1000 * static_cast<int64_t>(blockIdx.x);
}
// The order in which the threads of one block come along.
extern "C" __global__ void small_order(const Argument *a) {
  LOCKSTEP_SHARED(memory);
  int64_t *next = reinterpret_cast<int64_t *>(memory);
  if (threadIdx.x == 0) *next = 0;
  __syncthreads();
  a->words[blockIdx.x * blockDim.x + (*next)++] = threadIdx.x;
}
// The last thread writes a byte: in the last block's shared memory, or in global memory.
extern "C" __global__ void small_shared_byte(const Argument *a) {
  LOCKSTEP_SHARED(memory);
  if (blockIdx.x == 2 && threadIdx.x == 1) reinterpret_cast<char *>(memory)[a->n] = 1;
}
extern "C" __global__ void small_byte(const Argument *a) {
  if (blockIdx.x == 2 && threadIdx.x == 1) reinterpret_cast<char *>(a->words)[a->n] = 1;
}
// One thread of the second block does not come to the barrier.
extern "C" __global__ void small_apart(const Argument *a) {
  if (blockIdx.x != 1 || threadIdx.x != a->n) __syncthreads();
}
// What a block finds in shared memory, in which it leaves something.
extern "C" __global__ void small_found(const Argument *a) {
  LOCKSTEP_SHARED(memory);
  int64_t *word = reinterpret_cast<int64_t *>(memory);
  a->words[blockIdx.x] = *word;
  *word = 7;
}
struct Long { int64_t *words, tail[1000]; };
extern "C" __global__ void small_long(const Long *a) { *a->words = a->tail[999]; }
extern "C" __global__ void small_hang(const Argument *a) {
  while (*const_cast<volatile int64_t *>(&a->n) == 0) {}
}
// The first thread that ends the launch is the last that runs.
extern "C" __global__ void small_stop(const Argument *) {
  if (threadIdx.x > 2) lockstep::cpu::stop(std::to_string(threadIdx.x) + " stops");
}
extern "C" __global__ void small_abort(const Argument *) { abort(); }
// From the stack's top down, so that the guard is met before what lies behind it.
extern "C" __global__ void small_deep(const Argument *a) {
  volatile char frame[400 << 10];
  for (size_t i = sizeof frame; i > 0; i -= 1024) frame[i - 1] = static_cast<char>(a->n);
}
`)}}
	for _, name := range []string{"cuda.h", "device.h", "device.cpp", "main.cpp"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "kernels", "cpu", name))
		must(t, err)
		files["cpu/"+name] = &fstest.MapFile{Data: data}
	}
	return files
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, options emulated.Options) *emulated.Device {
	t.Helper()
	if options.Sources == nil {
		options.Sources = small(t)
	}
	want.Compiler.Need(t)
	d, err := emulated.Open(options)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func background() context.Context { return context.Background() }

// words is memory of the device that holds 0, 1, 2, ... and an argument for it.
func words(t testing.TB, d driver.Device, n int) (memory driver.Pointer, argument []byte) {
	t.Helper()
	data := make([]byte, 8*n)
	for i := range n {
		data[8*i] = byte(i)
	}
	memory, err := d.Allocate(int64(len(data)))
	must(t, err)
	must(t, d.Upload(memory, data))
	argument = make([]byte, 16)
	for i := range 8 {
		argument[i] = byte(memory >> (8 * i))
	}
	must(t, d.Synchronize(background()))
	return memory, argument
}

func fetch(t testing.TB, d driver.Device, p driver.Pointer, n int) []int {
	t.Helper()
	data := make([]byte, 8*n)
	must(t, d.Download(data, p))
	must(t, d.Synchronize(background()))
	out := make([]int, n)
	for i := range out {
		for j := range 8 {
			out[i] |= int(data[8*i+j]) << (8 * j)
		}
	}
	return out
}

func TestMemory(t *testing.T) {
	d := open(t, emulated.Options{Memory: 1000})
	free := func(want int64) {
		t.Helper()
		if got, err := d.FreeMemory(); err != nil || got != want {
			t.Errorf("%d bytes free, %v; want %d", got, err, want)
		}
	}
	p, err := d.Allocate(600)
	must(t, err)
	free(400)
	if _, err := d.Allocate(401); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("more than there is: %v", err)
	}
	q, err := d.Allocate(400)
	must(t, err)
	free(0)
	new := make([]byte, 8)
	must(t, d.Download(new, q))
	must(t, d.Fill(q, 7, 400))
	must(t, d.Copy(p+100, q+10, 20))
	must(t, d.Upload(p+110, []byte{1, 2, 3}))
	got := make([]byte, 22)
	must(t, d.Download(got, p+99))
	must(t, d.Synchronize(background()))
	if !bytes.Equal(new, bytes.Repeat([]byte{0xad, 0xdb, 0xf4, 0x7f}, 2)) {
		t.Errorf("new memory holds %x, which is no NaN", new)
	}
	if want := append(bytes.Repeat([]byte{7}, 10), 1, 2, 3, 7, 7, 7, 7, 7, 7, 7); !bytes.Equal(
		got[1:21], want,
	) {
		t.Errorf("got %v, want %v", got[1:21], want)
	}
	must(t, d.Release(p))
	free(600)
	must(t, d.Synchronize(background()))

	s, size, err := d.Symbol("small_table")
	must(t, err)
	if size != 24 {
		t.Errorf("small_table has %d bytes", size)
	}
	if got := fetch(t, d, s, 3); got[0] != 3 || got[1] != 1 || got[2] != 4 {
		t.Errorf("small_table is %v", got)
	}
	const much = 5<<30 + 7
	if n, err := open(t, emulated.Options{Memory: much}).FreeMemory(); err != nil || n != much {
		t.Errorf("of %d bytes %d are free, %v", int64(much), n, err)
	}
	if i := d.Info(); i.Name != "emulated" || i.Memory != 1000 || i.SharedPerBlock < 200<<10 {
		t.Errorf("%+v", i)
	}
}

// TestErrors gives commands that no device takes. Each costs a device.
func TestErrors(t *testing.T) {
	var p driver.Pointer
	pair := make([]byte, 16) // an argument
	for _, c := range []struct {
		name, want string
		command    func(d *emulated.Device) error
	}{
		{
			"upload", "upload of 3 bytes outside the memory",
			func(d *emulated.Device) error { return d.Upload(p+8, make([]byte, 3)) },
		},
		{
			"download", "download of 9 bytes outside",
			func(d *emulated.Device) error { return d.Download(make([]byte, 9), p+2) },
		},
		{
			"copy to", "copy of 11 bytes outside",
			func(d *emulated.Device) error { return d.Copy(p, p, 11) },
		},
		{"copy from", "outside", func(d *emulated.Device) error { return d.Copy(p, p-1, 1) }},
		{"fill", "outside", func(d *emulated.Device) error { return d.Fill(1, 0, 1) }},
		{"release", "not allocated", func(d *emulated.Device) error { return d.Release(p + 1) }},
		{
			"released", "outside",
			func(d *emulated.Device) error { return errors.Join(d.Release(p), d.Fill(p, 0, 1)) },
		},
		{
			"allocate", "cannot allocate",
			func(d *emulated.Device) error { _, err := d.Allocate(0); return err },
		},
		{
			"symbol", "no variable absent",
			func(d *emulated.Device) error {
				p, size, err := d.Symbol("absent")
				if p != 0 || size != 0 {
					t.Errorf("a variable that there is not is %d bytes at %d", size, p)
				}
				return err
			},
		},
		{
			"kernel", "no kernel absent",
			func(d *emulated.Device) error { return d.Launch("absent", 1, 1, 0, pair) },
		},
		{
			"blocks", "cannot be launched",
			func(d *emulated.Device) error { return d.Launch("small_order", 0, 1, 0, pair) },
		},
		{
			"threads", "cannot be launched",
			func(d *emulated.Device) error { return d.Launch("small_order", 1, 1025, 0, pair) },
		},
		{
			"shared", "232448 at most",
			func(d *emulated.Device) error { return d.Launch("small_order", 1, 1, 232449, pair) },
		},
		{
			"abort", "the device process ended: signal: aborted",
			func(d *emulated.Device) error { return d.Launch("small_abort", 1, 1, 0, pair) },
		},
		{
			"stop", "small_stop: 3 stops",
			func(d *emulated.Device) error { return d.Launch("small_stop", 1, 40, 0, pair) },
		},
		{"killed", "the device process ended: signal: killed", func(d *emulated.Device) error {
			device, err := os.FindProcess(d.Pid())
			return errors.Join(err, d.Launch("small_hang", 1, 1, 0, pair), device.Kill())
		}},
		{
			"stack", "the device process ended: signal: segmentation fault",
			func(d *emulated.Device) error { return d.Launch("small_deep", 1, 1, 0, pair) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, emulated.Options{})
			var err error
			p, err = d.Allocate(10)
			must(t, err)
			err = errors.Join(c.command(d), d.Synchronize(background()))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want …%s…", err, c.want)
			}
			// Nothing else is answered, and nothing hangs.
			if _, err := d.Allocate(8); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("afterwards: %v", err)
			}
			if err := d.Launch("small_order", 1, 1, 64, pair); err == nil {
				t.Error("a launch afterwards is taken")
			}
		})
	}
}

func TestLaunch(t *testing.T) {
	for _, processors := range []int{1, 3} {
		for _, order := range []emulated.Order{
			emulated.Ascending, emulated.Descending, emulated.Shuffled,
		} {
			d := open(t, emulated.Options{Processors: processors, Order: order, Seed: 1})
			const n, threads = 140, 20
			memory, argument := words(t, d, n)
			begin := time.Now()
			before, err := d.Mark()
			must(t, err)
			whole := append(argument, make([]byte, 64)...) // what lies behind it is the caller's
			argument = whole[:len(argument)]
			must(t, d.Launch("small_reverse", n/threads, threads, 8*threads, argument))
			if behind := whole[len(argument):]; !bytes.Equal(behind, make([]byte, 64)) {
				t.Errorf("behind the argument the launch has written %q", behind)
			}
			after, err := d.Mark()
			must(t, err)
			for i, got := range fetch(t, d, memory, n) {
				block := i / threads
				if want := block*threads + threads - 1 - i%threads + 1000*block; got != want {
					t.Errorf(
						"%d processors, %s: word %d is %d, want %d", processors, order, i, got,
						want,
					)
				}
			}
			if e, err := d.Elapsed(before, after); err != nil || e <= 0 || e > time.Since(begin) {
				t.Errorf("the launch took %v of %v, %v", e, time.Since(begin), err)
			}
			if _, err := d.Elapsed(before, after+1); err == nil {
				t.Error("a mark that there is not has a time")
			}
			if m, err := d.Mark(); err != nil || m != 0 {
				t.Errorf("after Synchronize the first mark is %d, %v", m, err)
			}
		}
	}
}

// TestSystemSwitch runs the threads of a block as on other CPUs than x86-64.
func TestSystemSwitch(t *testing.T) {
	files := small(t)
	files["cpu/device.cpp"].Data = append(
		[]byte("#define LOCKSTEP_UCONTEXT 1\n"),
		files["cpu/device.cpp"].Data...)
	d := open(t, emulated.Options{Sources: files, Order: emulated.Shuffled, Seed: 1, Processors: 2})
	const n = 100
	memory, argument := words(t, d, n)
	must(t, d.Launch("small_reverse", 2, n/2, 8*n/2, argument))
	must(t, d.Launch("small_reverse", 2, n/2, 8*n/2, argument))
	for i, got := range fetch(t, d, memory, n) {
		if want := i + i/(n/2)*2000; got != want {
			t.Errorf("word %d is %d, want %d", i, got, want)
		}
	}
}

// TestOrder: a shuffled order is of the seed and the block, whichever processor runs the block.
func TestOrder(t *testing.T) {
	const blocks, n = 100, 50
	seen := map[string]int{}
	for _, o := range []emulated.Options{
		{}, {Order: emulated.Descending}, {Order: emulated.Shuffled, Seed: 1, Processors: 1},
		{Order: emulated.Shuffled, Seed: 2}, {Order: emulated.Shuffled, Seed: 1, Processors: 4},
		{Order: emulated.Shuffled, Seed: 1 + 1<<40},
	} {
		d := open(t, o)
		memory, argument := words(t, d, blocks*n)
		must(t, d.Launch("small_order", blocks, n, 16, argument))
		var text []byte
		for i, thread := range fetch(t, d, memory, blocks*n) {
			i %= n
			if o.Order == "" && thread != i || o.Order == emulated.Descending && thread != n-1-i {
				t.Errorf("%s: thread %d comes at place %d", o.Order, thread, i)
			}
			text = append(text, byte(thread))
		}
		seen[string(text)]++
	}
	if len(seen) != 5 {
		t.Errorf("%d orders, want 5: three seeds shuffle differently, one alike", len(seen))
	}
	if _, err := emulated.Open(emulated.Options{Order: "sideways"}); err == nil ||
		!strings.Contains(err.Error(), "sideways") {
		t.Errorf("an order that there is not: %v", err)
	}
}

// TestBeside: a byte that a kernel writes beside its memory is seen, whatever its size, in the last
// block, too; the last and the first byte that it has are its own.
func TestBeside(t *testing.T) {
	launch := func(d *emulated.Device, kernel string, size, at int) error {
		memory, err := d.Allocate(int64(size))
		must(t, err)
		argument := binary.LittleEndian.AppendUint64(nil, uint64(memory))
		argument = binary.LittleEndian.AppendUint64(argument, uint64(at))
		must(t, d.Launch(kernel, 3, 2, size, argument))
		return d.Synchronize(background())
	}
	whole := open(t, emulated.Options{Processors: 1})
	for _, size := range []int{1, 3, 8, 257} {
		for kernel, says := range map[string]string{
			"small_shared_byte": "small_shared_byte: block 2 wrote beside its shared memory, ",
			"small_byte": fmt.Sprintf(
				"the kernel wrote beside an allocation of %d bytes, ", size),
		} {
			for at, want := range map[int]string{
				0: "", size - 1: "", -1: "1 bytes before its start",
				size: "0 bytes after its end",
			} {
				what := fmt.Sprintf("%s, %d bytes, at %d", kernel, size, at)
				if want != "" {
					d := open(t, emulated.Options{Processors: 1})
					simtest.Refused(t, what, launch(d, kernel, size, at), says+want)
					must(t, d.Close())
				} else if err := launch(whole, kernel, size, at); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}
}

// TestOneBarrier: whichever thread does not come to a barrier is named, with its block; a block
// finds nothing of what another has left; and an argument is as long as it is.
func TestOneBarrier(t *testing.T) {
	const threads = 5
	for thread := 1; thread < threads; thread++ {
		d := open(t, emulated.Options{})
		_, argument := words(t, d, 1)
		argument[8] = byte(thread)
		must(t, d.Launch("small_apart", 3, threads, 0, argument))
		simtest.Refused(t, fmt.Sprint("thread ", thread), d.Synchronize(background()), fmt.Sprintf(
			", thread %d has ended", thread))
		_, err := d.Allocate(8)
		simtest.Refused(t, "afterwards", err, "small_apart: block 1: the threads do not meet")
	}
	d := open(t, emulated.Options{Processors: 1})
	memory, argument := words(t, d, 3)
	must(t, d.Launch("small_found", 3, 1, 8, argument))
	for i, got := range fetch(t, d, memory, 3) {
		if got != 0x7ff4dbad7ff4dbad {
			t.Errorf("block %d finds %x in its shared memory, want NaN", i, got)
		}
	}
	long := append(argument[:8], make([]byte, 8000)...)
	long[8000] = 42
	must(t, d.Launch("small_long", 1, 1, 0, long))
	if got := fetch(t, d, memory, 1); got[0] != 42 {
		t.Errorf("the end of a long argument is %d, want 42", got[0])
	}
}

// TestGivenUp waits no longer than its context for a kernel, which then ends.
func TestGivenUp(t *testing.T) {
	d := open(t, emulated.Options{})
	memory, argument := words(t, d, 1)
	must(t, d.Launch("small_hang", 1, 1, 0, argument))
	ctx, cancel := context.WithTimeout(background(), 100*time.Millisecond)
	defer cancel()
	err := d.Synchronize(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "given up") {
		t.Errorf("got %v", err)
	}
	if err := d.Upload(memory, []byte{1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("afterwards: %v", err)
	}

	// Why it was given up is told.
	d = open(t, emulated.Options{})
	_, argument = words(t, d, 1)
	must(t, d.Launch("small_hang", 1, 1, 0, argument))
	enough := errors.New("enough")
	stopped, stop := context.WithCancelCause(background())
	stop(enough)
	if err := d.Synchronize(stopped); !errors.Is(err, enough) {
		t.Errorf("given up for a cause: %v", err)
	}

	// Closing does not wait either, and wakes those who do.
	d = open(t, emulated.Options{})
	_, argument = words(t, d, 1)
	must(t, d.Launch("small_hang", 1, 1, 0, argument))
	waited := make(chan error)
	go func() { waited <- d.Synchronize(background()) }()
	time.Sleep(50 * time.Millisecond)
	must(t, d.Close())
	if err := <-waited; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
	must(t, d.Close())
}

// TestGivenUpLate: a context that ends when nothing is left to wait for gives nothing up, neither
// at once nor later, when others have the device.
func TestGivenUpLate(t *testing.T) {
	d := open(t, emulated.Options{})
	memory, _ := words(t, d, 1)
	ctx, cancel := context.WithCancel(background())
	cancel()
	done := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { // without others who ask, the context would always be too late
		for {
			select {
			case <-done:
				return
			default:
				d.Elapsed(0, 0)
			}
		}
	})
	defer others.Wait()
	defer close(done)
	for range 2000 {
		must(t, d.Synchronize(ctx))
		must(t, d.Upload(memory, make([]byte, 8)))
		must(t, d.Synchronize(background()))
	}
	unended := simtest.NewUnended()
	must(t, d.Synchronize(unended))
	if n := unended.Waiting.Load(); n != 0 {
		t.Errorf("%d wait for a context's end after Synchronize", n)
	}
}

// TestBuild compiles into an empty cache, from several sides at once.
func TestBuild(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			c := exec.Command(os.Args[0], "-test.run=^TestBuildChild$")
			c.Env = append(os.Environ(), "EMULATED_TEST_CACHE="+cache)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	names, objects := cached(t, cache)
	if len(names) != 1 || len(objects) != 3 {
		t.Fatalf("the cache holds %q and %q, want one program of three units", names, objects)
	}
	old := []string{
		filepath.Join(filepath.Dir(names[0]), "old"),
		filepath.Join(filepath.Dir(objects[0]), "old"),
	}
	for _, path := range old {
		must(t, os.WriteFile(path, nil, 0o644))
		must(t, os.Chtimes(path, time.Time{}, time.Now().AddDate(0, -2, 0)))
	}
	takenFromCache(t, names[0])

	files := small(t)
	files["small.cu"].Data = append(files["small.cu"].Data, "\n// another version\n"...)
	if again := replaced(t, objects, func() {
		open(t, emulated.Options{Sources: files})
	}); again > 1 {
		t.Errorf("another version of one file, and %d of three are compiled again", again)
	}
	for _, path := range old {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("what has not been used for two months is kept: %s", path)
		}
	}
	if _, err := os.Stat(names[0]); err != nil {
		t.Errorf("what is in use: %v", err)
	}
	files["small.cu"].Data = append(files["small.cu"].Data, "\nnonsense\n"...)
	_, err := emulated.Open(emulated.Options{Sources: files})
	simtest.Refused(t, "sources that do not compile", err, "nonsense")
	t.Setenv("CXX", "no-such-compiler")
	_, err = emulated.Open(emulated.Options{Sources: small(t)})
	simtest.Refused(t, "without a compiler", err, "install g++")
}

// cached are the programs in the cache, and what their units compile to.
func cached(t *testing.T, cache string) (names, objects []string) {
	t.Helper()
	must(t, filepath.WalkDir(cache, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil || e.IsDir():
		case filepath.Base(filepath.Dir(path)) == "objects":
			objects = append(objects, path)
		default:
			names = append(names, path)
		}
		return err
	}))
	return names, objects
}

// takenFromCache: a program that is there is not compiled again, and what is not what was compiled
// is neither executed nor kept.
func takenFromCache(t *testing.T, name string) {
	t.Helper()
	before, err := os.Stat(name)
	must(t, err)
	open(t, emulated.Options{})
	if after, err := os.Stat(name); err != nil || !os.SameFile(before, after) {
		t.Error("compiled again")
	}
	foreign := []byte("#!/bin/sh\necho executed >&2; exit 7\n")
	must(t, os.Remove(name)) // it is being executed
	must(t, os.WriteFile(name, foreign, 0o755))
	open(t, emulated.Options{}) // which does not execute that
	if now, err := os.ReadFile(name); err != nil || bytes.Equal(now, foreign) {
		t.Errorf("what is not what was compiled stays in the cache, %v", err)
	}
}

// replaced counts the files that are others afterwards.
func replaced(t *testing.T, files []string, do func()) (n int) {
	t.Helper()
	var before []os.FileInfo
	for _, name := range files {
		info, err := os.Stat(name)
		must(t, err)
		before = append(before, info)
	}
	do()
	for i, name := range files {
		if info, err := os.Stat(name); err != nil || !os.SameFile(info, before[i]) {
			n++
		}
	}
	return n
}

// TestBuildChild is run by TestBuild.
func TestBuildChild(t *testing.T) {
	if cache := os.Getenv("EMULATED_TEST_CACHE"); cache != "" {
		t.Setenv("XDG_CACHE_HOME", cache)
		d := open(t, emulated.Options{})
		_, err := d.Allocate(8)
		must(t, err)
	}
}
