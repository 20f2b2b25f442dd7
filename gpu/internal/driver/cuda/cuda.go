//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"lockstep/gpu/internal/driver"
)

// Built tells whether this program has the GPU in it.
const Built = true

// What is needed at least.
const (
	leastDriver     = 12000 // takes PTX of version 8.0
	kernelsDriver   = 13000 // takes what nvcc 13.0 makes: PTX of version 9.0, and its machine code
	leastCapability = 8
)

// Available is why there is no GPU to be used, or nil. It opens nothing.
func Available() error {
	_, err := find()
	return err
}

// find is the GPU that the environment names, if it can be used.
func find() (cu.Device, error) {
	switch err := initialise(); code(err) {
	case 0:
		if err != nil {
			return 0, err
		}
	case codeNoLibrary:
		return 0, errors.New(
			"no CUDA driver on this machine: libcuda.so.1 is not found; install NVIDIA's " +
				"driver, or use another engine",
		)
	case codeNoSymbol:
		return 0, errors.New(
			"the CUDA driver's library lacks cuInit: install NVIDIA's driver anew, or use " +
				"another engine",
		)
	case codeNoDevice:
		return 0, errors.New(
			"no NVIDIA GPU is visible to CUDA: check nvidia-smi and CUDA_VISIBLE_DEVICES, or " +
				"use another engine",
		)
	default:
		return 0, fmt.Errorf("the CUDA driver does not start: %w", err)
	}
	if v := cu.Version(); v < leastDriver {
		return 0, fmt.Errorf(
			"the driver is for CUDA %s, which is too old: want one for CUDA %s or newer",
			version(v), version(leastDriver),
		)
	}
	n, err := cu.NumDevices()
	if err != nil {
		return 0, explain(err)
	}
	if n == 0 {
		return 0, errors.New(
			"no NVIDIA GPU is visible to CUDA: check nvidia-smi and CUDA_VISIBLE_DEVICES, or " +
				"use another engine",
		)
	}
	number := 0
	if text := os.Getenv(DeviceVariable); text != "" {
		if number, err = strconv.Atoi(text); err != nil || number < 0 || number >= n {
			return 0, fmt.Errorf(
				"%s=%s: want the number of a GPU, from 0 to %d", DeviceVariable, text, n-1,
			)
		}
	}
	d, err := cu.GetDevice(number)
	if err != nil {
		return 0, explain(err)
	}
	major, err := d.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		return 0, explain(err)
	}
	if major < leastCapability {
		name, _ := d.Name()
		minor, _ := d.Attribute(cu.ComputeCapabilityMinor)
		return 0, fmt.Errorf(
			"%s has compute capability %d.%d: want %d.0 or newer", name, major, minor,
			leastCapability,
		)
	}
	return d, nil
}

func version(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Device is a GPU. All of its calls are made by one thread, which has its context.
type Device struct {
	info driver.Info
	work chan func()

	closing         sync.Once
	closed, stopped chan struct{}
	lost            atomic.Bool // given up while the GPU was at work

	// What follows is the thread's own.
	device    cu.Device
	stream    cu.Stream
	module    cu.Module
	functions map[string]cu.Function
	memory    map[driver.Pointer]bool
	host      map[*byte][]byte
	events    []cu.Event
	marks     int // events in use
	forget    bool
	err       error // after which nothing works; it answers everything from then on
	context   cu.CUContext
	made      bool // the context
	shared    bool // context and stream are the caller's
	loaded    bool // the module
}

var _ driver.Device = (*Device)(nil)

// Open opens the GPU whose number is in LOCKSTEP_DEVICE, or the first.
func Open(options Options) (driver.Device, error) {
	device, err := find()
	if err != nil {
		return nil, err
	}
	d := &Device{
		device: device, work: make(chan func()), closed: make(chan struct{}),
		stopped:   make(chan struct{}),
		functions: map[string]cu.Function{}, memory: map[driver.Pointer]bool{},
		host: map[*byte][]byte{},
	}
	ready := make(chan error)
	go func() {
		// The thread ends with the goroutine, which stays locked to it.
		runtime.LockOSThread()
		defer d.stop()
		ready <- d.start(options)
		for {
			select {
			case f := <-d.work:
				f()
			case <-d.closed:
				return
			}
		}
	}()
	if err := <-ready; err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// start makes the context and loads the kernels.
func (d *Device) start(options Options) error {
	var err error
	if d.shared = options.Stream != nil; d.shared {
		d.context, err = d.device.RetainPrimaryCtx()
	} else {
		d.context, err = d.device.MakeContext(cu.SchedAuto)
	}
	if err != nil {
		return fmt.Errorf("making a context on the GPU: %w", explain(err))
	}
	d.made = true
	if err := cu.SetCurrentContext(d.context); err != nil {
		return explain(err)
	}
	if err := d.describe(); err != nil {
		return fmt.Errorf("asking the GPU what it is: %w", err)
	}
	d.info.Kernels, d.info.Shared, d.info.Number = options.Kernels, d.shared, int(d.device)
	if d.shared {
		d.stream = streamOf(*options.Stream)
	} else if d.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return explain(err)
	}
	return d.load(options)
}

func (d *Device) describe() error {
	i := &d.info
	var err error
	if i.Name, err = d.device.Name(); err != nil {
		return explain(err)
	}
	for attribute, to := range map[cu.DeviceAttribute]*int{
		cu.ComputeCapabilityMajor: &i.Major,
		cu.ComputeCapabilityMinor: &i.Minor,
		cu.MultiprocessorCount:    &i.Multiprocessors,
	} {
		if *to, err = d.device.Attribute(attribute); err != nil {
			return explain(err)
		}
	}
	if i.SharedPerBlock, err = sharedPerBlock(d.device); err != nil {
		return err
	}
	if i.Memory, err = d.device.TotalMem(); err != nil {
		return explain(err)
	}
	i.Driver = "CUDA " + version(cu.Version())
	if text, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		if m := regexp.MustCompile(`\b\d+\.\d+(\.\d+)?\b`).Find(text); m != nil {
			i.Driver += ", " + string(m)
		}
	}
	return nil
}

// forDriver is PTX as a driver for CUDA v takes it. One for CUDA 12 takes version 8.0, and
// the kernels have nothing newer in them than that: ptxas makes the same code of both.
func forDriver(text string, v int) string {
	if v >= kernelsDriver {
		return text
	}
	return strings.Replace(text, "\n.version 9.0\n", "\n.version 8.0\n", 1)
}

// image is what the module is loaded from, and what to call it.
func (d *Device) image(options Options) (text, kind string, err error) {
	cubin, driver := options.Cubins[d.info.Major], cu.Version()
	switch chosen := os.Getenv(KernelsVariable); {
	case chosen == "ptx", chosen == "" && (cubin == nil || driver < kernelsDriver):
		text, err = options.PTX()
		return forDriver(text, driver), "PTX", err
	case chosen == "", chosen == "cubin" && cubin != nil:
		text, err = cubin()
		return text, "machine code", err
	case chosen == "cubin":
		return "", "", fmt.Errorf(
			"%s=cubin: there is no machine code for compute capability %d.%d", KernelsVariable,
			d.info.Major, d.info.Minor,
		)
	default:
		data, err := os.ReadFile(chosen)
		if err != nil {
			return "", "", fmt.Errorf(
				"%s: want ptx, cubin or a file of either: %w", KernelsVariable, err,
			)
		}
		d.info.Kernels = fmt.Sprintf("%x", sha256.Sum256(data)) // nobody knows their sources
		return string(data), chosen, nil
	}
}

// load gives the GPU its machine code or, if there is none for it, PTX.
func (d *Device) load(options Options) error {
	text, kind, err := d.image(options)
	if err != nil {
		return err
	}
	log := &cu.JITErrorLogBuffer{Buffer: make([]byte, 8<<10)}
	if d.module, err = cu.LoadDataEx(text, log); err != nil {
		text := fmt.Sprintf(
			"%s (%s) does not take the kernels' %s", d.info.Name, d.info.Driver, kind,
		)
		if cu.Version() < kernelsDriver {
			text += fmt.Sprintf(": want a driver for CUDA %s or newer", version(kernelsDriver))
		}
		if i := bytes.IndexByte(log.Buffer, 0); i > 0 {
			text += ": " + strings.Join(strings.Fields(string(log.Buffer[:i])), " ")
		}
		return fmt.Errorf("%s: %w", text, explain(err))
	}
	d.loaded = true
	return nil
}

var errClosed = errors.New("the device is closed")

// sticky tells whether an error is one after which nothing works in a context: what
// a kernel did, or what the caller gave up. Others are of one call.
func (d *Device) sticky(err error) bool {
	const first, last = 700, 799 // CUDA_ERROR_ILLEGAL_ADDRESS and what follows
	return d.lost.Load() || code(err) >= first && code(err) <= last
}

// do has the thread call f. After an error that is sticky the device does nothing
// else.
func (d *Device) do(what string, f func() error) error {
	done := make(chan error, 1)
	command := func() {
		if d.err != nil {
			done <- d.err
			return
		}
		err := explain(f())
		if code(err) == codeOutOfMemory {
			err = fmt.Errorf("%s: %w: %w", what, driver.ErrOutOfMemory, err)
		} else if err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
			sticky := d.sticky(err)
			err = fmt.Errorf("%s: %w", what, err)
			if sticky {
				d.err = err
			}
		}
		done <- err
	}
	select {
	case d.work <- command:
		return <-done
	case <-d.closed:
		return errClosed
	}
}

func (d *Device) Info() driver.Info { return d.info }

func (d *Device) FreeMemory() (free int64, err error) {
	err = d.do("asking for the free memory", func() (err error) {
		free, _, err = cu.MemInfo()
		return err
	})
	return free, err
}

func (d *Device) Allocate(bytes int64) (p driver.Pointer, err error) {
	err = d.do(fmt.Sprintf("%d bytes of device memory", bytes), func() error {
		q, err := cu.MemAlloc(max(bytes, 1))
		if err == nil {
			p = driver.Pointer(q)
			d.memory[p] = true
		}
		return err
	})
	return p, err
}

func (d *Device) Release(p driver.Pointer) error {
	return d.do("freeing device memory", func() error {
		if !d.memory[p] {
			return fmt.Errorf("address %#x was not allocated", uint64(p))
		}
		delete(d.memory, p)
		return cu.MemFree(cu.DevicePtr(p))
	})
}

func (d *Device) HostMemory(bytes int64) (memory []byte, err error) {
	err = d.do(fmt.Sprintf("%d bytes of pinned memory", bytes), func() (err error) {
		if memory, err = pinned(max(bytes, 1)); err == nil {
			d.host[&memory[0]] = memory
		}
		return err
	})
	return memory[:min(bytes, int64(len(memory)))], err
}

func (d *Device) ReleaseHost(memory []byte) error {
	return d.do("freeing pinned memory", func() error {
		first := unsafe.SliceData(memory)
		whole, ok := d.host[first]
		if !ok {
			return errors.New("it was not allocated")
		}
		delete(d.host, first)
		return unpin(whole)
	})
}

func (d *Device) Upload(to driver.Pointer, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	return d.do("upload", func() error {
		return cu.MemcpyHtoDAsync(
			cu.DevicePtr(to), unsafe.Pointer(&from[0]), int64(len(from)), d.stream,
		)
	})
}

func (d *Device) Download(to []byte, from driver.Pointer) error {
	if len(to) == 0 {
		return nil
	}
	return d.do("download", func() error {
		return cu.MemcpyDtoHAsync(
			unsafe.Pointer(&to[0]), cu.DevicePtr(from), int64(len(to)), d.stream,
		)
	})
}

func (d *Device) Copy(to, from driver.Pointer, bytes int64) error {
	return d.do("copy", func() error {
		return cu.MemcpyDtoDAsync(cu.DevicePtr(to), cu.DevicePtr(from), bytes, d.stream)
	})
}

func (d *Device) Fill(to driver.Pointer, value byte, bytes int64) error {
	return d.do(
		"fill", func() error { return cu.MemsetD8Async(cu.DevicePtr(to), value, bytes, d.stream) },
	)
}

func (d *Device) Symbol(name string) (p driver.Pointer, bytes int64, err error) {
	err = d.do("variable "+name, func() error {
		q, n, err := d.module.Global(name)
		p, bytes = driver.Pointer(q), n
		return err
	})
	return p, bytes, err
}

func (d *Device) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	return d.do("launching "+kernel, func() error {
		f, ok := d.functions[kernel]
		if !ok {
			var err error
			if f, err = d.module.Function(kernel); err != nil {
				return err
			}
			d.functions[kernel] = f
		}
		if err := allowShared(f, shared); err != nil {
			return err
		}
		return launch(f, blocks, threads, shared, d.stream, argument)
	})
}

func (d *Device) Follow(stream uintptr) error {
	return d.do("waiting for a stream", func() error { return order(streamOf(stream), d.stream) })
}

func (d *Device) Precede(stream uintptr) error {
	return d.do("having a stream wait", func() error { return order(d.stream, streamOf(stream)) })
}

// order has one stream wait for what another has been given.
func order(first, second cu.Stream) error {
	if first == second {
		return nil
	}
	e, err := cu.MakeEvent(cu.DisableTiming)
	if err != nil {
		return err
	}
	if err = e.Record(first); err == nil {
		err = second.Wait(e, 0)
	}
	// An event that is destroyed ends when it has happened.
	if failed := cu.DestroyEvent(&e); err == nil {
		err = failed
	}
	return err
}

// How Synchronize asks whether the GPU has done its work: at once again, then in
// growing intervals.
const (
	spin         = 100 * time.Microsecond
	longestSleep = time.Millisecond
)

func (d *Device) Synchronize(ctx context.Context) error {
	return d.do("waiting for the GPU", func() error {
		d.forget = true
		begin, sleep := time.Now(), 10*time.Microsecond
		for {
			err := explain(d.stream.Query())
			if code(err) != codeNotReady {
				return err
			}
			if ctx.Err() != nil {
				d.lost.Store(true)
				return context.Cause(ctx)
			}
			if time.Since(begin) < spin {
				continue
			}
			time.Sleep(sleep)
			sleep = min(2*sleep, longestSleep)
		}
	})
}

func (d *Device) Mark() (mark driver.Mark, err error) {
	err = d.do("mark", func() error {
		if d.forget {
			d.forget, d.marks = false, 0
		}
		if d.marks == len(d.events) {
			e, err := cu.MakeEvent(cu.DefaultEvent)
			if err != nil {
				return err
			}
			d.events = append(d.events, e)
		}
		mark = driver.Mark(d.marks)
		d.marks++
		return d.events[mark].Record(d.stream)
	})
	return mark, err
}

func (d *Device) Elapsed(from, to driver.Mark) (elapsed time.Duration, err error) {
	err = d.do("time between marks", func() error {
		if n := driver.Mark(len(d.events)); from < 0 || to < 0 || from >= n || to >= n {
			return fmt.Errorf("no marks %d and %d", from, to)
		}
		milliseconds, err := d.events[from].Elapsed(d.events[to])
		elapsed = time.Duration(milliseconds * float64(time.Millisecond))
		return err
	})
	return elapsed, err
}

// Close gives the GPU back. If it is still at work, which cannot be stopped, that
// happens behind the caller's back when it has ended.
func (d *Device) Close() error {
	d.closing.Do(func() { close(d.closed) })
	if !d.lost.Load() {
		<-d.stopped
	}
	return nil
}

// stop frees what the device has. In a context in which nothing works any more the
// calls fail, and its own goes with all that is in it; the caller's stays as it is.
func (d *Device) stop() {
	defer close(d.stopped)
	if !d.made {
		return
	}
	for d.lost.Load() && code(explain(d.stream.Query())) == codeNotReady {
		time.Sleep(10 * time.Millisecond)
	}
	for _, e := range d.events {
		cu.DestroyEvent(&e)
	}
	for p := range d.memory {
		cu.MemFree(cu.DevicePtr(p))
	}
	for _, memory := range d.host {
		unpin(memory)
	}
	if d.loaded {
		d.module.Unload()
	}
	if d.shared {
		d.device.ReleasePrimaryCtx()
		return
	}
	d.stream.Destroy()
	destroy(d.context)
}
