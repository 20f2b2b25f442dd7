//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/module"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

var options = Options{PTX: module.PTX, Cubins: map[int]func() (string, error){9: module.Cubin}}

// open opens the GPU, which ends with the test. Where there is none, the test is
// skipped, or fails if it is required.
func open(t *testing.T) driver.Device {
	t.Helper()
	want.Skip(t, want.GPU.Denied(Available()))
	d, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// onStandin skips a test that plants faults where the driver is a real one.
func onStandin(t *testing.T) {
	t.Helper()
	if name := open(t).Info().Name; name != "stand-in" {
		t.Skipf("plants faults in the stand-in driver; this is %s", name)
	}
}

// TestMemory moves bytes up, around and down.
func TestMemory(t *testing.T) {
	d := open(t)
	const n = 1 << 20
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	free, err := d.FreeMemory()
	check(err)
	p, err := d.Allocate(2 * n)
	check(err)
	from, err := d.HostMemory(n)
	check(err)
	to, err := d.HostMemory(2 * n)
	check(err)
	for i := range from {
		from[i] = byte(i * i >> 8)
	}
	check(d.Fill(p, 0xA5, 2*n))
	check(d.Upload(p, from))
	check(d.Copy(p+n, p, n/2))
	begin := time.Now()
	before, err := d.Mark()
	check(err)
	check(d.Download(to, p))
	after, err := d.Mark()
	check(err)
	check(d.Synchronize(context.Background()))
	want := append(append(bytes.Clone(from), from[:n/2]...), bytes.Repeat([]byte{0xA5}, n/2)...)
	if err := simtest.Same("what came down, of what went up,", to, want); err != nil {
		t.Error(err)
	}
	if e, err := d.Elapsed(before, after); err != nil || e < 0 || e > time.Since(begin) {
		t.Errorf("elapsed %v of %v, %v", e, time.Since(begin), err)
	}
	check(d.ReleaseHost(from))
	check(d.ReleaseHost(to))
	check(d.Release(p))
	if _, err := d.Allocate(1 << 50); !errors.Is(err, driver.ErrOutOfMemory) ||
		!strings.Contains(err.Error(), "CUDA_ERROR_OUT_OF_MEMORY") {
		t.Errorf("a PiB: %v", err)
	}
	if again, err := d.FreeMemory(); err != nil || again > free {
		t.Errorf("%d bytes are free, %d before; %v", again, free, err)
	}
	if i := d.Info(); i.Name == "" || i.Major < 8 || i.Multiprocessors < 1 ||
		i.SharedPerBlock < 48<<10 ||
		i.Memory < 1 ||
		!strings.HasPrefix(i.Driver, "CUDA ") {
		t.Errorf("info %+v", i)
	}
}

// TestSharedStream works on a stream of the caller's, in order with the caller's own
// commands and with those of another stream, and leaves stream and context as they are.
func TestSharedStream(t *testing.T) {
	onStandin(t) // the order is made visible by a kernel that hangs
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(explain(err))
		}
	}
	gpu, err := cu.GetDevice(0)
	check(err)
	primary, err := gpu.RetainPrimaryCtx()
	check(err)
	defer gpu.ReleasePrimaryCtx()
	check(cu.SetCurrentContext(primary))
	var memory cu.DevicePtr
	var streams [2]uintptr
	var devices [2]driver.Device
	for i := range streams {
		s, err := cu.MakeStream(cu.NonBlocking)
		check(err)
		streams[i] = *(*uintptr)(unsafe.Pointer(&s)) // see streamOf
		shared := options
		shared.Stream = &streams[i]
		devices[i], err = Open(shared)
		check(err)
		defer devices[i].Close()
		if !devices[i].Info().Shared {
			t.Error("the device does not say that it is shared")
		}
	}
	memory, err = cu.MemAlloc(8)
	check(err)
	first, second := devices[0], devices[1]
	at := driver.Pointer(memory)
	read := func(s uintptr) byte {
		t.Helper()
		var b [8]byte
		check(cu.MemcpyDtoHAsync(unsafe.Pointer(&b[0]), memory, 8, streamOf(s)))
		for {
			if err := explain(streamOf(s).Query()); code(err) != codeNotReady {
				check(err)
				return b[0]
			}
		}
	}
	hang := func(order func() error, waits bool) (before, after byte) {
		t.Helper()
		check(first.Fill(at, 7, 8))
		before = read(streams[0])
		os.Setenv("LOCKSTEP_STANDIN_FAULT", "hang")
		defer os.Unsetenv("LOCKSTEP_STANDIN_FAULT")
		check(first.Launch("lockstep_rollout_r1", 1, 32, 1000, make([]byte, 240)))
		check(first.Fill(at, 1, 8))
		check(order())
		check(second.Fill(at, 2, 8))
		if waits {
			time.Sleep(20 * time.Millisecond) // time enough for what must not happen
		} else {
			check(second.Synchronize(context.Background()))
		}
		os.Unsetenv("LOCKSTEP_STANDIN_FAULT")
		check(first.Synchronize(context.Background()))
		check(second.Synchronize(context.Background()))
		return before, read(streams[1])
	}
	for name, c := range map[string]struct {
		order func() error
		want  byte
	}{
		"no order": {func() error { return nil }, 1},
		"Follow":   {func() error { return second.Follow(streams[0]) }, 2},
		"Precede":  {func() error { return first.Precede(streams[1]) }, 2},
		"itself":   {func() error { return first.Follow(streams[0]) }, 1},
	} {
		if before, after := hang(c.order, c.want == 2); before != 7 || after != c.want {
			t.Errorf("%s: the memory has %d, then %d; want 7, then %d", name, before, after, c.want)
		}
	}
	check(first.Close())
	check(second.Close())
	if got := read(streams[0]); got == 0 {
		t.Error("the caller's memory and stream went with the device")
	}
	again, err := cu.MemAlloc(8)
	check(err)
	check(cu.MemFree(again))
	check(cu.MemFree(memory))
}

// TestMisuse releases what is not there, launches what is not there, and closes
// twice.
func TestMisuse(t *testing.T) {
	if err := open(t).Release(12345); err == nil {
		t.Error("any address can be released")
	}
	d := open(t)
	if err := d.Launch("no_such_kernel", 1, 32, 0, nil); err == nil {
		if err := d.Synchronize(context.Background()); err == nil {
			t.Error("any kernel can be launched")
		}
	}
	d.Close()
	d.Close()
	if _, err := d.Allocate(1); err == nil {
		t.Error("a closed device allocates")
	}
}

// TestEnvironment plants the faults that Open finds.
func TestEnvironment(t *testing.T) {
	onStandin(t)
	for _, c := range []struct{ variable, value, want string }{
		{"LOCKSTEP_STANDIN_FAULT", "no-device", "no NVIDIA GPU is visible to CUDA"},
		{"LOCKSTEP_STANDIN_FAULT", "old-driver", "the driver is for CUDA 11.8, which is too " +
			"old: want one for CUDA 12.0 or newer"},
		{"LOCKSTEP_STANDIN_FAULT", "capability", "stand-in has compute capability 7.5: want 8.0 " +
			"or newer"},
		{"LOCKSTEP_STANDIN_FAULT", "module", "does not take the kernels' machine code: ptxas " +
			"fatal : planted by the stand-in: CUDA_ERROR_INVALID_IMAGE"},
		{"LOCKSTEP_DEVICE", "1", "LOCKSTEP_DEVICE=1: want the number of a GPU, from 0 to 0"},
		{"LOCKSTEP_DEVICE", "first", "LOCKSTEP_DEVICE=first: want the number"},
	} {
		t.Run(c.value, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			d, err := Open(options)
			if err == nil {
				d.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
		})
	}
	for name, value := range map[string]string{
		"LOCKSTEP_STANDIN_MAJOR": "8",
		"LOCKSTEP_STANDIN_FAULT": "driver-12",
	} {
		t.Run(value, func(t *testing.T) {
			t.Setenv(name, value)
			d, err := Open(options)
			if err != nil {
				t.Fatalf("it does not take the PTX: %v", err)
			}
			d.Close()
		})
	}
}

// TestKernelsVariable chooses the kernels by the environment: those built in, a file, and
// what is neither.
func TestKernelsVariable(t *testing.T) {
	onStandin(t)
	dir := t.TempDir()
	ptx, err := module.PTX()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mine.ptx")
	damaged := filepath.Join(dir, "damaged")
	if err := errors.Join(os.WriteFile(file, []byte(ptx), 0o600),
		os.WriteFile(damaged, []byte("nonsense"), 0o600)); err != nil {
		t.Fatal(err)
	}
	chosen := options
	chosen.Kernels = "built in"
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(ptx)))
	const old = "want a driver for CUDA 13.0 or newer"
	for _, c := range []struct{ value, major, kernels, want string }{
		{"", "9", "built in", ""},
		{"cubin", "9", "built in", ""},
		{"ptx", "9", "built in", ""},
		{file, "9", hash, ""},
		{file, "8", hash, ""},
		{"cubin", "8", "", "LOCKSTEP_KERNELS=cubin: there is no machine code for compute " +
			"capability 8.0"},
		{damaged, "9", "", "does not take the kernels' " + damaged},
		{"ptx", "driver-12", "built in", ""},
		{"cubin", "driver-12", "", old},
		{file, "driver-12", "", old + ": ptxas application ptx input, line 9; fatal : " +
			"Unsupported .version 9.0"},
		{filepath.Join(dir, "absent"), "9", "", "LOCKSTEP_KERNELS: want ptx, cubin or a file of " +
			"either"},
	} {
		t.Run(filepath.Base(c.value)+" on "+c.major, func(t *testing.T) {
			t.Setenv(KernelsVariable, c.value)
			if c.major == "driver-12" {
				t.Setenv("LOCKSTEP_STANDIN_FAULT", c.major)
			} else {
				t.Setenv("LOCKSTEP_STANDIN_MAJOR", c.major)
			}
			d, err := Open(chosen)
			if err == nil {
				defer d.Close()
			}
			switch {
			case c.want != "":
				if err == nil || !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want one line with %q", err, c.want)
				}
			case err != nil || d.Info().Kernels != c.kernels:
				t.Errorf("error %v, want the kernels %q", err, c.kernels)
			}
		})
	}
}

// TestWithoutDriver runs this program where no driver is found: it starts, and says
// what is missing.
func TestWithoutDriver(t *testing.T) {
	if os.Getenv("LOCKSTEP_TEST_WITHOUT_DRIVER") == "1" {
		fmt.Println("said:", Available())
		return
	}
	onStandin(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-test.run=^TestWithoutDriver$")
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH=", "LOCKSTEP_TEST_WITHOUT_DRIVER=1")
	out, err := c.CombinedOutput()
	if err != nil ||
		!strings.Contains(
			string(out), "said: no CUDA driver on this machine: libcuda.so.1 is not found",
		) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLaunchFaults aborts a kernel, and lets one hang: the error is CUDA's or the
// context's, the device answers nothing else, and another can be opened.
func TestLaunchFaults(t *testing.T) {
	onStandin(t)
	for _, c := range []struct{ fault, want string }{
		{"launch", "CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure"},
		{"hang", context.DeadlineExceeded.Error()},
	} {
		t.Run(c.fault, func(t *testing.T) {
			d := open(t)
			t.Setenv("LOCKSTEP_STANDIN_FAULT", c.fault)
			if err := d.Launch("lockstep_rollout_r1", 1, 32, 1000, make([]byte, 240)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if c.fault == "hang" {
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			if err := d.Synchronize(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if _, err := d.Allocate(1); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("afterwards: error %v, want the same", err)
			}
			d.Close()
			t.Setenv("LOCKSTEP_STANDIN_FAULT", "")
			d = open(t)
			if _, err := d.Allocate(1 << 20); err != nil {
				t.Errorf("another device: %v", err)
			}
		})
	}
}

// TestLedger holds the ledger to what the stand-in driver counted.
func TestLedger(t *testing.T) {
	onStandin(t)
	d := open(t)
	l := &driver.Ledger{Device: d}
	counted, bytes, err := d.Symbol("lockstep_standin_counts")
	if err != nil {
		t.Fatal(err)
	}
	read := func() []byte {
		to := make([]byte, bytes)
		if err := d.Download(to, counted); err != nil { // which it does not count
			t.Fatal(err)
		}
		if err := d.Synchronize(context.Background()); err != nil {
			t.Fatal(err)
		}
		return to
	}
	before := read()
	p, err := l.Allocate(1 << 12)
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, 1<<12)
	for _, n := range []int{100, 4096, 1} {
		l.Upload(p, memory[:n])
	}
	l.Download(memory[:300], p)
	l.Download(memory[:4], p)
	if err := l.Synchronize(context.Background()); err != nil {
		t.Fatal(err)
	}
	after := read()
	want := driver.Counts{
		Uploads:          3,
		Downloads:        2,
		UploadBytes:      4197,
		DownloadBytes:    304,
		Synchronisations: 1,
	}
	if got := l.Counts(); got != want {
		t.Errorf("ledger %+v, want %+v", got, want)
	}
	for i, want := range []int{0, 3, 2, 4197, 304} { // launches, uploads, downloads, bytes of each
		count := func(of []byte) int { return int(of[8*i]) + int(of[8*i+1])<<8 }
		if got := count(after) - count(before); got != want {
			t.Errorf("count %d of the driver: %d, want %d", i, got, want)
		}
	}
}
