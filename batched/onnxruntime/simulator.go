package onnxruntime

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"lockstep"
	"lockstep/batched"
	"lockstep/batched/onnxruntime/internal/ortlib"
	"lockstep/internal/fileio"
	"lockstep/internal/model"
	"lockstep/internal/onnx"
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
}

// DefaultChunk is a number of sequences whose activations fit the cache. More of
// them in one call cost more each.
const DefaultChunk = 32

// MaxChunk bounds Config.Chunk.
const MaxChunk = 4096

// errNoCgo is New's answer in a build without cgo.
var errNoCgo = errors.New(
	"this program was built without cgo and so without ONNX Runtime: build it with " +
		"CGO_ENABLED=1 and a C compiler, or use the reference engine",
)

var errUnproven = errors.New(
	"onnxruntime computes on this CPU in a way that no profile has, so parity is not claimed: " +
		"take engine batched, compare inexactly, or describe it with " +
		"`lockstep doctor --fingerprint FILE`",
)

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

// Simulator is package batched with its network run by ONNX Runtime. Its methods may be called
// from several goroutines. Close ends it.
type Simulator struct {
	*batched.Simulator
	config   Config
	version  string
	profile  lockstep.Profile
	known    bool
	notices  []string
	networks [2]network // by whether only the last position is computed
	sessions *pool
}

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
	unknown, err := s.probe(c.Profile)
	if err != nil {
		return nil, err
	}
	s.known = len(unknown) == 0
	for _, a := range unknown {
		s.notice(
			"ONNX Runtime %s computes on this CPU in a way that no profile has (probe %s: %s): "+
				"parity is not claimed",
			s.version,
			a.Probe,
			a.Describe(),
		)
	}
	if err := s.load(data); err != nil {
		return nil, err
	}
	// Not s itself, which is garbage when nobody else has it.
	sessions, networks, version, library := s.sessions, s.networks, s.version, c.Library
	s.Simulator, err = batched.New(batched.Config{
		Model: fmt.Sprintf(
			"%x", sha256.Sum256(data),
		), Profile: s.profile, Workers: c.Workers, Chunk: c.Chunk,
		Open: func(_ int, last bool) (batched.Inference, error) {
			if last {
				return open(sessions, networks[1])
			}
			return open(sessions, networks[0])
		},
		Inside: sync.OnceValue(func() string { return inside(version, library) }),
	})
	return s, err
}

// load prepares the networks and makes a first session, to see that it can be.
func (s *Simulator) load(data []byte) error {
	full := network{data: data, positions: model.Context}
	last, err := lastPosition(data)
	if err != nil {
		s.notice(
			"the network is not the known one, so all of it is computed, and parity is not "+
				"claimed: %v",
			err,
		)
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
		{"input", m.Graph.Inputs, onnx.Value{Name: "states", Type: onnx.Float,
			Dims: []int64{-1, model.Context, model.StateSize}}},
		{"input", m.Graph.Inputs, onnx.Value{Name: "tokens", Type: onnx.Int64,
			Dims: []int64{-1, model.Context}}},
		{"output", m.Graph.Outputs,
			onnx.Value{Name: "output", Type: onnx.Float,
				Dims: []int64{-1, model.Context, model.Vocabulary}}},
	} {
		i := slices.IndexFunc(
			v.have, func(have onnx.Value) bool { return have.Name == v.want.Name },
		)
		if i < 0 {
			return fmt.Errorf(
				"no %s named %s: this is not the tinyphysics network", v.kind, v.want.Name,
			)
		}
		if have := v.have[i]; have.Type != v.want.Type || !slices.Equal(have.Dims, v.want.Dims) {
			return fmt.Errorf(
				"%s %s: element type %d and shape %v, want type %d and shape %v", v.kind, have.Name,
				have.Type, have.Dims, v.want.Type, v.want.Dims,
			)
		}
	}
	return nil
}

// Name is "onnxruntime".
func (s *Simulator) Name() string { return "onnxruntime" }

// About says what computes. It is unproven if the library or the network is one whose
// arithmetic nobody has established.
func (s *Simulator) About() lockstep.About {
	about := s.Simulator.About()
	about.Notices = s.notices
	if !s.known {
		about.Unproven = errUnproven
	}
	return about
}

// Version is ONNX Runtime's.
func (s *Simulator) Version() string { return s.version }

// inside says what computes: the library's version and hash.
func inside(version, library string) string {
	sum, err := ortlib.SHA256(library)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("ONNX Runtime %s, SHA-256 %.12s", version, sum)
}

// Library is the path of ONNX Runtime's shared library.
func (s *Simulator) Library() string { return s.config.Library }

// Close frees the sessions, those in use when they are no longer. The library
// stays loaded.
func (s *Simulator) Close() error {
	s.sessions.close()
	return s.Simulator.Close()
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
		return nil, lockstep.ErrClosed
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
