package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep"
	"lockstep/gpu/internal/driver"
)

// connection is an open device that holds the network's weights.
type connection struct {
	*driver.Ledger
	info    driver.Info
	layout  layout
	weights driver.Pointer
	spare   *buffer // kept for the next run
}

// buffer is device memory of one run and host memory that its data pass through.
type buffer struct {
	device driver.Pointer
	bytes  int64
	host   []byte
}

var errLost = errors.New(
	"the device failed in between, and what it held is lost: reset the rollouts",
)

// connect opens the device and uploads the weights.
func (s *Simulator) connect(ctx context.Context) (*connection, error) {
	device, err := s.config.Open()
	if err != nil {
		return nil, err
	}
	c := &connection{
		Ledger: &driver.Ledger{Device: device, Timed: s.config.Timed},
		info:   device.Info(),
	}
	if err := s.prepare(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (s *Simulator) prepare(ctx context.Context, c *connection) error {
	const name = "lockstep_layout"
	from, bytes, err := c.Symbol(name)
	if err != nil {
		return fmt.Errorf(
			"the module has no %s: build the kernels again with `make kernels`: %w", name, err,
		)
	}
	words := make([]int64, bytes/8)
	if err := c.Download(viewBytes(words), from); err != nil {
		return err
	}
	if err := s.synchronize(ctx, c, 0); err != nil {
		return err
	}
	if c.layout, err = readLayout(words, len(s.weights)); err != nil {
		return err
	}
	if _, err := s.kernels(c); err != nil {
		return err
	}
	if s.config.Threads > c.layout.maxThreads || s.config.Threads%32 != 0 {
		return fmt.Errorf(
			"%d threads per block: want a multiple of 32, %d at most", s.config.Threads,
			c.layout.maxThreads,
		)
	}
	weights := viewBytes(s.weights)
	if c.weights, err = c.Allocate(int64(len(weights))); err != nil {
		return fmt.Errorf(
			"%s: %d bytes for the network's weights: %w", c.info.Name, len(weights), err,
		)
	}
	if err := c.Upload(c.weights, weights); err != nil {
		return err
	}
	return s.synchronize(ctx, c, 0)
}

// A part is jobs that one launch runs.
type part struct {
	kernel variant
	jobs   int
}

// kernels are those that a device can run: all sizes of block, or the one that the
// configuration wants, rounded down to one that there is.
func (s *Simulator) kernels(c *connection) ([]variant, error) {
	var all []variant
	for _, v := range c.layout.variants {
		if v.shared <= c.info.SharedPerBlock {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf(
			"%s gives a block %d bytes of shared memory, which is too little for any kernel",
			c.info.Name, c.info.SharedPerBlock,
		)
	}
	if want := s.config.RoutesPerBlock; want != 0 {
		i := len(all) - 1
		for i > 0 && all[i].routes > want {
			i--
		}
		all = all[i : i+1]
	}
	return all, nil
}

// plan says which kernels run so many jobs: whole rounds, in which every
// multiprocessor has a block, of one kernel, and what is left over of one with
// smaller blocks, if that is faster. A multiprocessor takes its blocks one after
// the other; of a block's time about one route's worth goes into what its routes
// share.
func (s *Simulator) plan(c *connection, jobs int) ([]part, error) {
	kernels, err := s.kernels(c)
	if err != nil {
		return nil, err
	}
	processors := max(c.info.Multiprocessors, 1)
	single := func(jobs int) (best part, least int) {
		for _, v := range kernels {
			round := v.routes * processors
			if time := (jobs + round - 1) / round * (v.routes + 1); best.jobs == 0 || time < least {
				best, least = part{v, jobs}, time
			}
		}
		return best, least
	}
	best, least := single(jobs)
	parts := []part{best}
	for _, v := range kernels {
		whole := jobs / (v.routes * processors)
		rest := jobs - whole*v.routes*processors
		if whole == 0 || rest == 0 {
			continue
		}
		if tail, time := single(rest); whole*(v.routes+1)+time < least {
			least = whole*(v.routes+1) + time
			parts = []part{{v, jobs - rest}, tail}
		}
	}
	return parts, nil
}

// room is how many bytes of device memory a run may take.
func (s *Simulator) room(c *connection) (int64, error) {
	free, err := c.FreeMemory()
	if err != nil {
		return 0, err
	}
	free -= free / 32 // for what a driver needs itself, and for alignment
	if c.spare != nil {
		free += c.spare.bytes
	}
	if limit := s.config.MemoryLimit; limit > 0 {
		free = min(free, limit)
	}
	return free, nil
}

// take gives a run its memory.
func (c *connection) take(device, host int64) (*buffer, error) {
	if b := c.spare; b != nil {
		c.spare = nil
		if b.bytes >= device && int64(len(b.host)) >= host {
			return b, nil
		}
		if err := c.free(b); err != nil {
			return nil, err
		}
	}
	b := &buffer{bytes: device}
	var err error
	if b.device, err = c.Allocate(device); err != nil {
		return nil, err
	}
	if b.host, err = c.HostMemory(host); err != nil {
		return nil, errors.Join(err, c.Release(b.device))
	}
	return b, nil
}

// give takes a run's memory back.
func (c *connection) give(b *buffer) error {
	if c.spare == nil {
		c.spare = b
		return nil
	}
	return c.free(b)
}

func (c *connection) free(b *buffer) error {
	return errors.Join(c.Release(b.device), c.ReleaseHost(b.host))
}

// use calls f with the device, which nobody else uses meanwhile: the one given,
// or if it is nil the one that is open, or a new one. After any error but
// ErrOutOfMemory the device is closed, and the next use opens it anew.
func (s *Simulator) use(ctx context.Context, on *connection, f func(*connection) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.closed {
		return lockstep.ErrClosed
	}
	if on != nil && on != s.connection {
		return errLost
	}
	if s.connection == nil {
		c, err := s.connect(ctx)
		if err != nil {
			return err
		}
		s.statsMutex.Lock()
		s.connection = c
		s.statsMutex.Unlock()
	}
	err := f(s.connection)
	if err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
		s.disconnect()
	}
	return err
}

// disconnect closes the device.
func (s *Simulator) disconnect() {
	c := s.connection
	if c == nil {
		return
	}
	s.statsMutex.Lock()
	s.past, s.connection = s.past.Add(c.Counts()), nil
	s.statsMutex.Unlock()
	c.Close()
}

// A watchdogError says that a device did not answer.
type watchdogError struct{ limit time.Duration }

func (e watchdogError) Error() string {
	return fmt.Sprintf(
		"the device did not finish within %v and was given up; Config.Watchdog sets the limit",
		e.limit.Round(time.Millisecond),
	)
}

// synchronize waits for the device, which has so many steps of jobs to do.
func (s *Simulator) synchronize(ctx context.Context, c *connection, steps int64) error {
	limit := s.config.Watchdog
	if limit == 0 {
		limit = baseWatchdog +
			time.Duration(steps)*stepWatchdog/time.Duration(max(c.info.Multiprocessors, 1))
		if c.info.Emulated {
			limit *= 10
		}
	}
	watchdog := watchdogError{limit}
	inner, cancel := context.WithTimeoutCause(ctx, limit, watchdog)
	defer cancel()
	err := c.Synchronize(inner)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case context.Cause(inner) == error(watchdog):
		return watchdog
	}
	return fmt.Errorf("%s: %w", c.info.Name, err)
}
