package driver

import (
	"context"
	"sync"
	"time"
)

// Counts are what a Ledger has seen. Times are zero unless it was asked for them.
type Counts struct {
	Launches         int64 `json:"launches"`
	Synchronisations int64 `json:"synchronisations"`
	Uploads          int64 `json:"uploads"`
	Downloads        int64 `json:"downloads"`
	Copies           int64 `json:"copies"` // within the device, fills too
	UploadBytes      int64 `json:"upload_bytes"`
	DownloadBytes    int64 `json:"download_bytes"`
	CopyBytes        int64 `json:"copy_bytes"`

	Upload   time.Duration `json:"upload_ns"`
	Kernel   time.Duration `json:"kernel_ns"`
	Download time.Duration `json:"download_ns"`
}

// Add is both counts together.
func (c Counts) Add(d Counts) Counts { return c.combine(d, 1) }

// Sub is what was counted since d.
func (c Counts) Sub(d Counts) Counts { return c.combine(d, -1) }

func (c Counts) combine(d Counts, sign int64) Counts {
	c.Launches += sign * d.Launches
	c.Synchronisations += sign * d.Synchronisations
	c.Uploads += sign * d.Uploads
	c.Downloads += sign * d.Downloads
	c.Copies += sign * d.Copies
	c.UploadBytes += sign * d.UploadBytes
	c.DownloadBytes += sign * d.DownloadBytes
	c.CopyBytes += sign * d.CopyBytes
	c.Upload += time.Duration(sign) * d.Upload
	c.Kernel += time.Duration(sign) * d.Kernel
	c.Download += time.Duration(sign) * d.Download
	return c
}

// A Ledger is a Device that counts what passes through it and, if Timed, takes
// the times by the device's own marks. Counts may be called from any goroutine.
type Ledger struct {
	Device
	Timed bool

	mutex  sync.Mutex
	counts Counts
	spans  []span // since the last Synchronize
}

// span is a command between two marks.
type span struct {
	from, to Mark
	time     func(*Counts) *time.Duration
}

// Counts is what has passed so far.
func (l *Ledger) Counts() Counts {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.counts
}

func (l *Ledger) count(f func(*Counts)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	f(&l.counts)
}

// timed gives a command between two marks, if times are wanted.
func (l *Ledger) timed(time func(*Counts) *time.Duration, command func() error) error {
	if !l.Timed {
		return command()
	}
	from, err := l.Device.Mark()
	if err != nil {
		return err
	}
	if err := command(); err != nil {
		return err
	}
	to, err := l.Device.Mark()
	if err != nil {
		return err
	}
	l.spans = append(l.spans, span{from, to, time})
	return nil
}

func (l *Ledger) Upload(to Pointer, from []byte) error {
	l.count(func(c *Counts) { c.Uploads++; c.UploadBytes += int64(len(from)) })
	return l.timed(
		func(c *Counts) *time.Duration { return &c.Upload },
		func() error { return l.Device.Upload(to, from) },
	)
}

func (l *Ledger) Download(to []byte, from Pointer) error {
	l.count(func(c *Counts) { c.Downloads++; c.DownloadBytes += int64(len(to)) })
	return l.timed(
		func(c *Counts) *time.Duration { return &c.Download },
		func() error { return l.Device.Download(to, from) },
	)
}

func (l *Ledger) Copy(to, from Pointer, bytes int64) error {
	l.count(func(c *Counts) { c.Copies++; c.CopyBytes += bytes })
	return l.Device.Copy(to, from, bytes)
}

func (l *Ledger) Fill(to Pointer, value byte, bytes int64) error {
	l.count(func(c *Counts) { c.Copies++; c.CopyBytes += bytes })
	return l.Device.Fill(to, value, bytes)
}

func (l *Ledger) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	l.count(func(c *Counts) { c.Launches++ })
	return l.timed(func(c *Counts) *time.Duration { return &c.Kernel }, func() error {
		return l.Device.Launch(kernel, blocks, threads, shared, argument)
	})
}

func (l *Ledger) Synchronize(ctx context.Context) error {
	l.count(func(c *Counts) { c.Synchronisations++ })
	spans := l.spans
	l.spans = l.spans[:0]
	if err := l.Device.Synchronize(ctx); err != nil {
		return err
	}
	for _, s := range spans {
		d, err := l.Device.Elapsed(s.from, s.to)
		if err != nil {
			return err
		}
		l.count(func(c *Counts) { *s.time(c) += d })
	}
	return nil
}
