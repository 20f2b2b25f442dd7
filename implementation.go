package lockstep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An Implementation is a Simulator that can do all that commands and the Python package
// ask for. Package engines opens those that there are.
type Implementation interface {
	StepSimulator
	Collector
	Describer

	// Close frees what it holds. From then on it computes nothing: jobs, those under way
	// included, fail with ErrClosed.
	Close() error
}

// ErrClosed is the error of what a simulator would have to compute after Close.
var ErrClosed = errors.New("the simulator is closed")

// A Describer says what it is.
type Describer interface{ About() About }

// About is what a simulator says of itself. No bit of a result depends on it.
type About struct {
	Inside  string // what computes: a library's version, the kernels' hash, the device
	Model   string // SHA-256 of the network's file, in hexadecimal
	Kernels string // the set of kernels, where there is one to choose

	// OneCore: a call of Simulate keeps one core busy, and calls from several goroutines
	// as many.
	OneCore bool

	Unproven error    // why no parity is claimed for it on this machine, or nil
	Notices  []string // what a user should be told, one line each

	// NetworkTime is how long its threads have been inside the network so far, all
	// together; nil if nobody takes the time.
	NetworkTime func() time.Duration
}

// computing is who says in a context that they compute.
type computing struct {
	sync.Mutex
	names []string
}

type computingKey struct{}

// WithComputing returns a context in which engines say that they compute, and the function
// that names those who did, in the order in which they began.
func WithComputing(ctx context.Context) (context.Context, func() []string) {
	c := &computing{}
	return context.WithValue(ctx, computingKey{}, c), func() []string {
		c.Lock()
		defer c.Unlock()
		return slices.Clone(c.names)
	}
}

// Identity is an engine's type, and what it says is inside of it.
func Identity(s Simulator) string {
	if d, ok := s.(Describer); ok {
		return fmt.Sprintf("%T: %s", s, d.About().Inside)
	}
	return fmt.Sprintf("%T", s)
}

// Computes says in the context of a run that an engine computes it: its Simulate calls
// this with itself. So what is wrapped around an engine, whatever it is called and whichever
// of its methods are another's, is known by what computes inside of it.
func Computes(ctx context.Context, s Simulator) {
	c, ok := ctx.Value(computingKey{}).(*computing)
	if !ok {
		return
	}
	name := Identity(s)
	c.Lock()
	defer c.Unlock()
	if !slices.Contains(c.names, name) {
		c.names = append(c.names, name)
	}
}
