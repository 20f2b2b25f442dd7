package driver_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"lockstep/gpu/internal/driver"
)

var errDevice = errors.New("the device is lost")

// device is one of the test's, whose n-th call fails. Time passes from mark to mark.
type device struct {
	driver.Device
	calls []string
	fails int
	marks int
}

func (d *device) call(format string, args ...any) error {
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
	if len(d.calls)-1 == d.fails {
		return errDevice
	}
	return nil
}

func (d *device) Upload(to driver.Pointer, from []byte) error {
	return d.call("upload %d to %d", len(from), to)
}

func (d *device) Download(to []byte, from driver.Pointer) error {
	return d.call("download %d from %d", len(to), from)
}

func (d *device) Copy(to, from driver.Pointer, bytes int64) error {
	return d.call("copy %d from %d to %d", bytes, from, to)
}

func (d *device) Fill(to driver.Pointer, value byte, bytes int64) error {
	return d.call("fill %d at %d with %d", bytes, to, value)
}

func (d *device) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	return d.call("launch %s %d %d %d %d", kernel, blocks, threads, shared, len(argument))
}

func (d *device) Synchronize(context.Context) error { return d.call("synchronize") }

func (d *device) Mark() (driver.Mark, error) {
	d.marks++
	return driver.Mark(d.marks), d.call("mark")
}

// Elapsed is a second for the first two marks, ten for the next two, and so on.
func (d *device) Elapsed(from, to driver.Mark) (time.Duration, error) {
	err := d.call("elapsed")
	if to != from+1 || from%2 != 1 {
		err = fmt.Errorf("marks %d and %d", from, to)
	}
	took := time.Second
	for range from / 2 {
		took *= 10
	}
	return took, err
}

// commands are one of each, and a synchronisation.
func commands(l *driver.Ledger) []func() error {
	return []func() error{
		func() error { return l.Upload(1, make([]byte, 7)) },
		func() error { return l.Launch("k", 2, 3, 4, make([]byte, 5)) },
		func() error { return l.Copy(2, 3, 11<<32) },
		func() error { return l.Fill(4, 9, 13<<32) },
		func() error { return l.Download(make([]byte, 17), 5) },
		func() error { return l.Synchronize(context.Background()) },
	}
}

// TestLedger: each command passes as it is and is counted, with its time if that is asked for.
func TestLedger(t *testing.T) {
	for _, timed := range []bool{false, true} {
		d := &device{fails: -1}
		l := &driver.Ledger{Device: d, Timed: timed}
		var others sync.WaitGroup // who read the counts, for the race detector
		defer others.Wait()
		others.Go(func() {
			for range 100 {
				l.Counts()
			}
		})
		for round := range int64(3) {
			for _, command := range commands(l) {
				if err := command(); err != nil {
					t.Fatal(err)
				}
			}
			n := round + 1
			want := driver.Counts{
				Launches: n, Synchronisations: n, Uploads: n, Downloads: n, Copies: 2 * n,
				UploadBytes: 7 * n, DownloadBytes: 17 * n, CopyBytes: 24 << 32 * n,
			}
			if timed {
				for k := range round + 1 {
					first := time.Second
					for range 3 * k {
						first *= 10
					}
					want.Upload += first
					want.Kernel += 10 * first
					want.Download += 100 * first
				}
			}
			if got := l.Counts(); got != want {
				t.Errorf("round %d, timed is %v: %+v, want %+v", round, timed, got, want)
			}
		}
		passed := slices.DeleteFunc(slices.Clone(d.calls), func(call string) bool {
			return call == "mark" || call == "elapsed"
		})
		want := slices.Repeat([]string{
			"upload 7 to 1", "launch k 2 3 4 5", fmt.Sprint("copy ", 11<<32, " from 3 to 2"),
			fmt.Sprint("fill ", 13<<32, " at 4 with 9"),
			"download 17 from 5", "synchronize",
		}, 3)
		if !slices.Equal(passed, want) {
			t.Errorf("what passes is %q, want %q", passed, want)
		}
		if marks := len(d.calls) - len(passed); marks != map[bool]int{true: 3 * (6 + 3)}[timed] {
			t.Errorf("timed is %v, and there are %d marks and times", timed, marks)
		}
	}
}

// TestLedgerFails: an error of any call of the device is the ledger's.
func TestLedgerFails(t *testing.T) {
	for _, timed := range []bool{false, true} {
		for n := 0; ; n++ {
			d := &device{fails: n}
			l := &driver.Ledger{Device: d, Timed: timed}
			var err error
			for _, command := range commands(l) {
				if err = command(); err != nil {
					break
				}
			}
			if len(d.calls) <= n {
				break
			}
			if err != errDevice || len(d.calls) != n+1 {
				t.Errorf("timed is %v: call %d, %s, fails: %v, and %q follow", timed, n, d.calls[n],
					err, d.calls[n+1:])
			}
		}
	}
}

// TestCounts: what is added and taken away again is nothing, in each number.
func TestCounts(t *testing.T) {
	var a, b, sum driver.Counts
	for i := range reflect.TypeOf(a).NumField() {
		reflect.ValueOf(&a).Elem().Field(i).SetInt(int64(1000 + i))
		reflect.ValueOf(&b).Elem().Field(i).SetInt(int64(10 * i))
		reflect.ValueOf(&sum).Elem().Field(i).SetInt(int64(1000 + 11*i))
	}
	if got := a.Add(b); got != sum {
		t.Errorf("%+v, want %+v", got, sum)
	}
	if got := sum.Sub(b); got != a {
		t.Errorf("%+v, want %+v", got, a)
	}
}
