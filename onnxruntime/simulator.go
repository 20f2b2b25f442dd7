package onnxruntime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/model"
	"lockstep/internal/onnx"
	"lockstep/onnxruntime/internal/ortlib"
)

// Config says what a simulator is made of.
type Config struct {
	ModelPath string // the network's ONNX file

	// Library is the path of ONNX Runtime's shared library. If empty, it is
	// FindLibrary's.
	Library string

	// Workers is how many chunks run at once, each on one thread; GOMAXPROCS if 0.
	Workers int

	// Chunk is the most routes that run in step; DefaultChunk if 0.
	Chunk int

	// Profile says which arithmetic NumPy has. The network's, LayerNorm and
	// Softmax, is the library's and not asked for here.
	Profile lockstep.Profile

	// Graph is how the network is put to ONNX Runtime where only the last
	// position is asked for, with lockstep.LastPosition. Without that, and for
	// a network that is not known, it is GraphFull.
	Graph Graph
}

// DefaultChunk is a number of sequences whose activations fit the cache. More of
// them in one call cost more each.
const DefaultChunk = 32

// MaxChunk bounds Config.Chunk.
const MaxChunk = 4096

// errNoCgo is New's answer in a build without cgo.
var errNoCgo = errors.New("this program was built without cgo and so without ONNX Runtime: build it with CGO_ENABLED=1 and a C compiler, or use the reference engine")

// FindLibrary returns the path of ONNX Runtime's shared library: the environment
// variable ONNXRUNTIME_LIB or, if it is not set, the file that
// `make onnxruntime` puts into the user's cache folder. An error says what to do.
func FindLibrary() (string, error) { return ortlib.Find() }

// Available is why there is no ONNX Runtime to be used, or nil. It loads nothing.
func Available() error {
	if !Built {
		return errNoCgo
	}
	_, err := FindLibrary()
	return err
}

// Simulator is the ONNX Runtime implementation of lockstep.Simulator. Its methods may
// be called from several goroutines. Close ends it.
type Simulator struct {
	config   Config
	version  string
	model    string // SHA-256 of the network's file
	profile  lockstep.Profile
	known    bool
	notices  []string
	networks [2]network // by whether only the last position is computed
	sessions *pool

	networkTime atomic.Int64 // ns
}

var _ lockstep.StepSimulator = (*Simulator)(nil)

// New makes a simulator.
func New(config Config) (*Simulator, error) {
	if !Built {
		return nil, errNoCgo
	}
	s := &Simulator{config: config, sessions: &pool{}}
	// A simulator that nobody closed is closed when it is garbage.
	runtime.AddCleanup(s, (*pool).close, s.sessions)
	c := &s.config
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Chunk <= 0 {
		c.Chunk = DefaultChunk
	}
	if c.Chunk > MaxChunk {
		return nil, fmt.Errorf("chunks of %d routes: want %d at most", c.Chunk, MaxChunk)
	}
	if c.Graph < GraphRebuilt || c.Graph > GraphFull {
		return nil, fmt.Errorf("no graph %d", c.Graph)
	}
	var err error
	if c.Library == "" {
		if c.Library, err = FindLibrary(); err != nil {
			return nil, err
		}
	}
	data, err := fileio.ReadFile(c.ModelPath, fileio.Network)
	if err != nil {
		return nil, err
	}
	if err := checkModel(data); err != nil {
		return nil, fmt.Errorf("%s: %w", c.ModelPath, err)
	}
	if s.version, err = loadLibrary(c.Library); err != nil {
		return nil, err
	}
	if s.version != ortlib.Version {
		s.notice("ONNX Runtime %s: the recordings were made with %s", s.version, ortlib.Version)
	}
	network, known, err := probeProfile()
	if err != nil {
		return nil, err
	}
	s.profile, s.known = c.Profile, known
	s.profile.LayerNorm, s.profile.Softmax = network.LayerNorm, network.Softmax
	if !known {
		s.notice("ONNX Runtime %s computes on this CPU in none of the ways that are known: parity is not claimed", s.version)
	}
	sum := sha256.Sum256(data)
	s.model = hex.EncodeToString(sum[:])
	return s, s.load(data)
}

// load prepares the networks and makes a first session, to see that it can be.
func (s *Simulator) load(data []byte) error {
	full, _ := newNetwork(data, GraphFull)
	last, err := newNetwork(data, s.config.Graph)
	if err != nil {
		s.notice("the network is not the known one, so all of it is computed, and parity is not claimed: %v", err)
		s.known = false
		last = full
	}
	s.networks = [2]network{full, last}
	s.sessions.capacity = s.config.Chunk
	session, err := s.sessions.get(last)
	if err != nil {
		return fmt.Errorf("%s: %w", s.config.ModelPath, err)
	}
	s.sessions.put(session)
	return nil
}

func (s *Simulator) notice(format string, args ...any) {
	s.notices = append(s.notices, fmt.Sprintf(format, args...))
}

// checkModel refuses models with other inputs and outputs than the network's.
func checkModel(data []byte) error {
	m, err := onnx.Parse(data)
	if err != nil {
		return err
	}
	for _, v := range []struct {
		kind string
		have []onnx.Value
		want onnx.Value
	}{
		{"input", m.Graph.Inputs, onnx.Value{Name: "states", Type: onnx.Float, Dims: []int64{-1, model.Context, model.StateSize}}},
		{"input", m.Graph.Inputs, onnx.Value{Name: "tokens", Type: onnx.Int64, Dims: []int64{-1, model.Context}}},
		{"output", m.Graph.Outputs, onnx.Value{Name: "output", Type: onnx.Float, Dims: []int64{-1, model.Context, model.Vocabulary}}},
	} {
		i := slices.IndexFunc(v.have, func(have onnx.Value) bool { return have.Name == v.want.Name })
		if i < 0 {
			return fmt.Errorf("no %s named %s: this is not the tinyphysics network", v.kind, v.want.Name)
		}
		if have := v.have[i]; have.Type != v.want.Type || !slices.Equal(have.Dims, v.want.Dims) {
			return fmt.Errorf("%s %s: element type %d and shape %v, want type %d and shape %v", v.kind, have.Name, have.Type, have.Dims, v.want.Type, v.want.Dims)
		}
	}
	return nil
}

// Name is "onnxruntime".
func (s *Simulator) Name() string { return "onnxruntime" }

// Profile is the arithmetic that the simulator computes with; see ProfileKnown.
func (s *Simulator) Profile() lockstep.Profile { return s.profile }

// Model is the SHA-256 of the network's file.
func (s *Simulator) Model() string { return s.model }

// ProfileKnown is false if the library or the network is one whose arithmetic
// nobody has established, so that no parity can be claimed.
func (s *Simulator) ProfileKnown() bool { return s.known }

// Notices are what a user should be told, one line each; usually there is none.
func (s *Simulator) Notices() []string { return s.notices }

// Version is ONNX Runtime's.
func (s *Simulator) Version() string { return s.version }

// Inside says what computes: the library's version and hash.
func (s *Simulator) Inside() string {
	sum, err := fileio.SHA256(s.config.Library)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("ONNX Runtime %s, SHA-256 %.12s", s.version, sum)
}

// Library is the path of ONNX Runtime's shared library.
func (s *Simulator) Library() string { return s.config.Library }

// NetworkTime is how long the simulator's workers have been inside the network,
// all together.
func (s *Simulator) NetworkTime() time.Duration { return time.Duration(s.networkTime.Load()) }

// Close frees the sessions, those in use when they are no longer. The library
// stays loaded.
func (s *Simulator) Close() error {
	s.sessions.close()
	return nil
}

// Simulate runs the jobs in chunks, in which all routes are at the same step.
//
// Jobs may share routes: a sweep of K policies over N routes is K·N jobs. What a
// job adds to its route is some 30 KB while it runs.
func (s *Simulator) Simulate(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options) iter.Seq2[int, lockstep.Result] {
	return s.simulate(ctx, jobs, opts, nil)
}

// simulate is Simulate, which also keeps what training needs, unless training is nil.
func (s *Simulator) simulate(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options, training *lockstep.Experience) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		size := chunkSize(len(jobs), s.config.Workers, s.config.Chunk)
		type outcome struct {
			index  int
			result lockstep.Result
		}
		outcomes := make(chan outcome, s.config.Chunk)
		abandoned := make(chan struct{})
		var next atomic.Int64
		var workers sync.WaitGroup
		for range min(s.config.Workers, (len(jobs)+size-1)/size) {
			workers.Go(func() {
				w := s.newWorker(opts, training)
				w.stopped = func() error {
					select {
					case <-abandoned:
						return context.Canceled
					default:
						return ctx.Err()
					}
				}
				w.report = func(index int, r lockstep.Result) {
					select {
					case outcomes <- outcome{index, r}:
					case <-abandoned:
					}
				}
				w.failed = func(index, step int, err error) {
					w.report(index, lockstep.Result{Err: jobs[index].Failed(step, err)})
				}
				defer w.close()
				for {
					to := int(next.Add(int64(size)))
					from := to - size
					if from >= len(jobs) {
						return
					}
					w.run(jobs, from, min(to, len(jobs)))
				}
			})
		}
		go func() {
			workers.Wait()
			close(outcomes)
		}()
		defer workers.Wait()
		defer close(abandoned)
		for o := range outcomes {
			if !yield(o.index, o.result) {
				return
			}
		}
	}
}

// newWorker makes a worker that reports to nobody yet.
func (s *Simulator) newWorker(opts lockstep.Options, training *lockstep.Experience) *worker {
	last := 0
	if opts.Shortcuts&lockstep.LastPosition != 0 {
		last = 1
	}
	return &worker{simulator: s, network: s.networks[last], opts: opts, fused: s.profile.Exp == lockstep.ExpF, training: training}
}

// chunkSize cuts n jobs into chunks of equal size, so many that the workers get
// equally many.
func chunkSize(n, workers, largest int) int {
	rounds := (n + workers*largest - 1) / (workers * largest)
	chunks := max(rounds*workers, 1)
	return max((n+chunks-1)/chunks, 1)
}

// pool keeps sessions for their next use.
type pool struct {
	mutex    sync.Mutex
	capacity int // sequences
	free     []*session
	open     int // sessions in existence, free or not
	closed   bool
}

// get returns a session of a network.
func (p *pool) get(n network) (*session, error) {
	p.mutex.Lock()
	if p.closed {
		p.mutex.Unlock()
		return nil, errors.New("the simulator is closed")
	}
	for i, s := range p.free {
		if s.positions == n.positions {
			p.free = slices.Delete(p.free, i, i+1)
			p.mutex.Unlock()
			return s, nil
		}
	}
	p.open++
	p.mutex.Unlock()
	s, err := openSession(n, p.capacity)
	if err != nil {
		p.mutex.Lock()
		p.open--
		p.mutex.Unlock()
	}
	return s, err
}

func (p *pool) put(s *session) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.free = append(p.free, s)
	if p.closed {
		p.drain()
	}
}

func (p *pool) close() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	p.drain()
}

// drain closes the free sessions.
func (p *pool) drain() {
	for _, s := range p.free {
		s.close()
		p.open--
	}
	p.free = nil
}
