// Package emulated runs the gpu engine's kernels on the CPU: the same sources,
// compiled by g++ with a shim of our own, in a process that stands for the device.
// The bits are those of a GPU. It needs no GPU and no cgo, only a C++ compiler,
// once for each version of the sources.
//
// It is stricter than a GPU. New memory and shared memory hold NaN, the threads of
// a block must all meet at the same barrier, writes beside allocated memory are
// found, and the order in which threads run between two barriers can be chosen:
// kernels whose bits depend on it have a race. Others can be found, too, see Watched.
package emulated

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/kernels"
	"lockstep/internal/kernelhash"
)

// Order is the order in which the threads of a block run between two barriers.
type Order string

const (
	Ascending  Order = "ascending"
	Descending Order = "descending"
	Shuffled   Order = "shuffled" // another one after each barrier
)

// Options say how the kernels run. The zero value is a device like others.
type Options struct {
	Sources    fs.FS  // of the kernels; nil means kernels.Sources
	Sanitize   bool   // compile with AddressSanitizer and UndefinedBehaviorSanitizer
	Watched    bool   // each access to memory is checked for races; Sources are translate.Watched's
	Order      Order  // empty means Ascending
	Seed       uint64 // of Shuffled
	Memory     int64  // bytes of device memory; 0 means 4 GiB
	Processors int    // blocks that run at the same time; 0 means one for each CPU

	// Translated are kernels that Sources do not have: each is compiled when it is first
	// launched.
	Translated *Translated
}

// Translated are kernels in C++ that were made of compiled ones, see package translate.
type Translated struct {
	Name   string                            // of the device
	Of     string                            // the hash of the sources that were compiled
	Kernel func(name string) (string, error) // in C++
}

// sharedPerBlock is what sm_90 has. Kept by cpu/device.h too.
const sharedPerBlock = 232448

// What the device process is asked, as in cpu/main.cpp.
const (
	opAllocate = iota + 1
	opRelease
	opUpload
	opDownload
	opCopy
	opFill
	opSymbol
	opLaunch
	opMark
	opFree
	opLoad
)

// Its results, as in cpu/device.h.
const (
	resultOK = iota
	resultOutOfMemory
	resultInvalid
	resultFailed
)

// Device is the process. It implements driver.Device.
type Device struct {
	options Options
	kernels string // hash of the sources
	loaded  map[string]bool
	process *exec.Cmd
	stdin   io.WriteCloser
	stdout  io.ReadCloser
	stderr  *excerpt

	mu      sync.Mutex
	work    *sync.Cond // commands were added, or the device was closed
	queue   []*command
	pending int        // commands not yet answered
	idle    *sync.Cond // pending became 0
	err     error      // the first; the device answers nothing else
	closed  bool
	marks   []time.Duration
	forget  bool // the marks, at the next one

	served chan struct{} // closed when the process has ended
}

var _ driver.Device = (*Device)(nil)

// command is one request to the process.
type command struct {
	what       string
	op         uint64
	a, b, c, d uint64
	payload    []byte
	into       []byte // where the answer's payload goes, for downloads

	value  uint64
	answer []byte
	mark   int // of opMark
	soft   bool
	err    error
	done   chan struct{} // nil if nobody waits
}

// Open compiles the kernels, if that was not done before, and starts the device.
func Open(options Options) (*Device, error) {
	if options.Sources == nil {
		options.Sources = kernels.Sources
	}
	if options.Order == "" {
		options.Order = Ascending
	}
	switch options.Order {
	case Ascending, Descending, Shuffled:
	default:
		return nil, fmt.Errorf(
			"no order %q of threads: want %s, %s or %s", options.Order, Ascending, Descending,
			Shuffled,
		)
	}
	if options.Memory <= 0 {
		options.Memory = 4 << 30
	}
	if options.Processors <= 0 {
		options.Processors = runtime.NumCPU()
	}
	program, err := build(options.Sources, options.Sanitize, options.Watched)
	if err != nil {
		return nil, err
	}
	hash, err := kernelhash.Sources(options.Sources)
	if err != nil {
		return nil, err
	}
	if options.Translated != nil {
		hash = options.Translated.Of
	}
	d := &Device{
		options: options,
		kernels: hash,
		loaded:  map[string]bool{},
		stderr:  &excerpt{},
		served:  make(chan struct{}),
	}
	d.work, d.idle = sync.NewCond(&d.mu), sync.NewCond(&d.mu)
	d.process = exec.Command(
		program, strconv.FormatInt(options.Memory, 10), strconv.Itoa(options.Processors),
		string(options.Order), strconv.FormatUint(options.Seed, 10),
	)
	d.process.Stderr = d.stderr
	d.process.WaitDelay = time.Second // a child of its own may hold what it wrote to
	if d.stdin, err = d.process.StdinPipe(); err != nil {
		return nil, err
	}
	if d.stdout, err = d.process.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, fmt.Errorf("starting the kernels on the CPU: %w", err)
	}
	go d.serve()
	return d, nil
}

// serve sends the commands one after the other, until the device is closed or
// the process ends.
func (d *Device) serve() {
	defer close(d.served)
	for {
		d.mu.Lock()
		for len(d.queue) == 0 && !d.closed {
			d.work.Wait()
		}
		if len(d.queue) == 0 {
			d.mu.Unlock()
			d.stdin.Close()
			d.process.Wait()
			return
		}
		c := d.queue[0]
		d.queue = d.queue[1:]
		err := d.err
		d.mu.Unlock()

		if err == nil {
			err = d.exchange(c)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", c.what, err)
		}
		d.finish(c, err)
	}
}

// finish notes a command's end.
func (d *Device) finish(c *command, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && d.err == nil && !c.soft {
		d.err = err
	}
	if c.op == opMark && err == nil {
		d.marks[c.mark] = time.Duration(c.value)
	}
	c.err = err
	if !c.soft && d.err != nil {
		c.err = d.err
	}
	if c.done != nil {
		close(c.done)
	}
	d.pending--
	if d.pending == 0 {
		d.idle.Broadcast()
	}
}

// exchange sends a command and reads its answer.
func (d *Device) exchange(c *command) error {
	var head []byte
	for _, v := range []uint64{c.op, c.a, c.b, c.c, c.d, uint64(len(c.payload))} {
		head = binary.NativeEndian.AppendUint64(head, v)
	}
	var answer [24]byte
	_, err := d.stdin.Write(head)
	if err == nil {
		_, err = d.stdin.Write(c.payload)
	}
	if err == nil {
		_, err = io.ReadFull(d.stdout, answer[:])
	}
	result := binary.NativeEndian.Uint64(answer[:])
	c.value = binary.NativeEndian.Uint64(answer[8:])
	length := binary.NativeEndian.Uint64(answer[16:])
	if err == nil && result == resultOK && c.into != nil && length == uint64(len(c.into)) {
		if _, err = io.ReadFull(d.stdout, c.into); err == nil {
			return nil
		}
	}
	if err == nil {
		c.answer = make([]byte, length)
		_, err = io.ReadFull(d.stdout, c.answer)
	}
	switch {
	case err != nil:
		return d.died(err)
	case result == resultOK:
		return nil
	case result == resultOutOfMemory:
		c.soft = true
		return fmt.Errorf("%w: %s", driver.ErrOutOfMemory, c.answer)
	case result == resultInvalid, result == resultFailed:
		return errors.New(string(c.answer))
	}
	return fmt.Errorf("the device answers %d, which is no result", result)
}

// died says how the process ended.
func (d *Device) died(err error) error {
	d.process.Process.Kill() // it answers no more, whether or not it still runs
	if wait := d.process.Wait(); wait != nil {
		err = wait
	}
	if text := strings.TrimSpace(d.stderr.String()); text != "" {
		return fmt.Errorf("the device process ended: %w\n%s", err, text)
	}
	return fmt.Errorf("the device process ended: %w", err)
}

// enqueue adds a command, unless the device has failed or was closed.
func (d *Device) enqueue(c *command) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	if d.closed {
		return errors.New("the device is closed")
	}
	if c.op == opMark {
		if d.forget {
			d.marks, d.forget = nil, false
		}
		c.mark = len(d.marks)
		d.marks = append(d.marks, 0)
	}
	d.queue = append(d.queue, c)
	d.pending++
	d.work.Signal()
	return nil
}

// call adds a command and waits for its answer.
func (d *Device) call(c *command) error {
	c.done = make(chan struct{})
	if err := d.enqueue(c); err != nil {
		return err
	}
	<-c.done
	return c.err
}

// Info describes the emulated device.
func (d *Device) Info() driver.Info {
	name := "emulated"
	if d.options.Translated != nil {
		name = d.options.Translated.Name
	}
	return driver.Info{
		Name:            name,
		Driver:          "CPU",
		Kernels:         d.kernels,
		Emulated:        true,
		Major:           9,
		Multiprocessors: d.options.Processors,
		SharedPerBlock:  sharedPerBlock,
		Memory:          d.options.Memory,
	}
}

// FreeMemory is the memory limit less what is allocated.
func (d *Device) FreeMemory() (int64, error) {
	c := &command{what: "free memory", op: opFree}
	err := d.call(c)
	return int64(c.value), err
}

// Allocate reserves memory that holds NaN.
func (d *Device) Allocate(size int64) (driver.Pointer, error) {
	c := &command{what: fmt.Sprintf("allocating %d bytes", size), op: opAllocate, a: uint64(size)}
	err := d.call(c)
	return driver.Pointer(c.value), err
}

// Release gives memory back when the commands before have been done.
func (d *Device) Release(p driver.Pointer) error {
	return d.enqueue(&command{what: "releasing memory", op: opRelease, a: uint64(p)})
}

// HostMemory is plain memory.
func (d *Device) HostMemory(size int64) ([]byte, error) { return make([]byte, size), nil }

// ReleaseHost does nothing; the garbage collector does.
func (d *Device) ReleaseHost([]byte) error { return nil }

// Upload copies into device memory.
func (d *Device) Upload(to driver.Pointer, from []byte) error {
	return d.enqueue(&command{what: "upload", op: opUpload, a: uint64(to), payload: from})
}

// Download copies out of device memory.
func (d *Device) Download(to []byte, from driver.Pointer) error {
	return d.enqueue(
		&command{what: "download", op: opDownload, a: uint64(from), b: uint64(len(to)), into: to},
	)
}

// Copy copies inside device memory.
func (d *Device) Copy(to, from driver.Pointer, size int64) error {
	return d.enqueue(
		&command{what: "copy", op: opCopy, a: uint64(to), b: uint64(from), c: uint64(size)},
	)
}

// Fill sets every byte.
func (d *Device) Fill(to driver.Pointer, value byte, size int64) error {
	return d.enqueue(
		&command{what: "fill", op: opFill, a: uint64(to), b: uint64(value), c: uint64(size)},
	)
}

// Symbol is the address and the size of a variable of the kernels.
func (d *Device) Symbol(name string) (driver.Pointer, int64, error) {
	c := &command{what: "symbol " + name, op: opSymbol, payload: []byte(name)}
	if err := d.call(c); err != nil {
		return 0, 0, err
	}
	return driver.Pointer(c.value), int64(binary.NativeEndian.Uint64(c.answer)), nil
}

// Launch starts a kernel.
func (d *Device) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	if d.options.Translated != nil && !d.loaded[kernel] {
		if err := d.load(kernel); err != nil {
			return err
		}
	}
	return d.enqueue(&command{
		what:    "launch",
		op:      opLaunch,
		a:       uint64(blocks),
		b:       uint64(threads),
		c:       uint64(shared),
		d:       uint64(len(argument)),
		payload: append(bytes.Clone(argument), kernel...),
	})
}

// load compiles a kernel, if that was not done before, and adds it to the process.
func (d *Device) load(kernel string) error {
	text, err := d.options.Translated.Kernel(kernel)
	if err != nil {
		return err
	}
	library, err := buildKernel(d.options.Sources, text)
	if err != nil {
		return fmt.Errorf("compiling kernel %s: %w", kernel, err)
	}
	d.loaded[kernel] = true
	return d.enqueue(&command{what: "loading " + kernel, op: opLoad, payload: []byte(library)})
}

var errNoStreams = errors.New(
	"the kernels on the CPU are a process of their own: there are no streams of the caller's",
)

// Follow is an error.
func (d *Device) Follow(uintptr) error { return errNoStreams }

// Precede is an error.
func (d *Device) Precede(uintptr) error { return errNoStreams }

// Synchronize waits until all commands have been done. When ctx ends first, the
// process is killed.
func (d *Device) Synchronize(ctx context.Context) error {
	over := false // what is pending then is others'
	stop := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		if !over && d.pending > 0 && d.err == nil {
			d.err = fmt.Errorf("the device was given up: %w", context.Cause(ctx))
			d.process.Process.Kill()
		}
		d.mu.Unlock()
	})
	defer stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.pending > 0 {
		d.idle.Wait()
	}
	over, d.forget = true, true
	return d.err
}

// Mark notes the time at which the process gets here.
func (d *Device) Mark() (driver.Mark, error) {
	c := &command{what: "mark", op: opMark}
	err := d.enqueue(c)
	return driver.Mark(c.mark), err
}

// Elapsed is the time between two marks.
func (d *Device) Elapsed(from, to driver.Mark) (time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := driver.Mark(len(d.marks)); from < 0 || from >= n || to < 0 || to >= n {
		return 0, fmt.Errorf("no marks %d and %d, there are %d", from, to, n)
	}
	return d.marks[to] - d.marks[from], d.err
}

// Close ends the process.
func (d *Device) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		d.process.Process.Kill()
		if d.err == nil {
			d.err = errors.New("the device is closed")
		}
	}
	d.work.Signal()
	d.mu.Unlock()
	<-d.served
	return nil
}

// excerpt keeps the beginning of what the process says on its standard error.
type excerpt struct {
	mu   sync.Mutex
	text bytes.Buffer
}

const excerptSize = 16 << 10

func (t *excerpt) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p[:min(len(p), excerptSize-t.text.Len())])
	return len(p), nil
}

func (t *excerpt) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
