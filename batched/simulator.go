package batched

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/model"
)

// Config says what a simulator is made of.
type Config struct {
	ModelPath string           // the network's ONNX file
	Profile   lockstep.Profile // any
	Workers   int              // threads; GOMAXPROCS if 0
	Chunk     int              // the most rollouts that a worker holds; what is fastest here if 0
	// "avx512", "avx2", "neon" or "go"; the best that the CPU runs if empty
	Kernels string

	// Open, if not nil, makes the networks of workers in place of our own: of so many
	// sequences, and whether only the last position is asked for. Model is then the SHA-256 of
	// their file, as it was read.
	Model string
	Open  func(capacity int, last bool) (Inference, error)
	// Inside says what computes in these networks.
	Inside func() string
}

// An Inference computes the logits of sequences, for one goroutine at a time. Its arrays
// have room for its capacity.
type Inference interface {
	Tokens() []int32   // (capacity, 20), the input
	States() []float32 // (capacity, 20, 4), the input
	Logits() []float32 // (capacity, 1024) of the last position
	Run(count int) error
	Close() error
}

// MaxChunk bounds Config.Chunk.
const MaxChunk = 4096

// Simulator is the batched implementation of lockstep.Simulator. Its methods may be
// called from several goroutines.
type Simulator struct {
	config  Config
	weights *weights
	model   string // SHA-256 of its file
	profile lockstep.Profile
	kernels *f32.Kernels

	measuring sync.Mutex
	times     map[shape]time.Duration // that were measured

	alone bool // networks compute each sequence by itself: what they share is measured so

	closed      atomic.Bool
	networkTime atomic.Int64 // ns
}

var _ lockstep.Implementation = (*Simulator)(nil)

// New makes a simulator.
func New(config Config) (*Simulator, error) {
	if config.Workers <= 0 {
		config.Workers = runtime.GOMAXPROCS(0)
	}
	if config.Chunk > MaxChunk {
		return nil, fmt.Errorf("chunks of %d routes: want %d at most", config.Chunk, MaxChunk)
	}
	kernels, err := f32.Named(config.Kernels)
	if err != nil {
		return nil, err
	}
	s := &Simulator{
		config:  config,
		profile: config.Profile,
		kernels: kernels,
		times:   map[shape]time.Duration{},
	}
	if config.Open != nil {
		s.model = config.Model
		return s, nil
	}
	w, err := model.Load(config.ModelPath)
	if err != nil {
		return nil, err
	}
	s.weights, s.model = packWeights(w), w.SHA256
	return s, nil
}

// Name is "batched".
func (s *Simulator) Name() string { return "batched" }

// Profile is the arithmetic that the simulator was made with.
func (s *Simulator) Profile() lockstep.Profile { return s.profile }

// Cuts are how many rollouts its work is cut into, for tests of its edges.
func (s *Simulator) Cuts() []int {
	of := s.fastest(0)
	return []int{groups[len(groups)-1], of.chunk}
}

// About says what computes.
func (s *Simulator) About() lockstep.About {
	about := lockstep.About{
		Model:       s.model,
		NetworkTime: func() time.Duration { return time.Duration(s.networkTime.Load()) },
	}
	if s.config.Open != nil {
		about.Inside = s.config.Inside()
	} else {
		about.Inside, about.Kernels = "a network of its own, kernels "+s.kernels.Name,
			s.kernels.Name
	}
	return about
}

// Close ends its use. Workers give their networks back when their work is done.
func (s *Simulator) Close() error {
	s.closed.Store(true)
	return nil
}

// Simulate runs the jobs on all workers. What a job adds to its route is some 30 KB
// while it runs.
func (s *Simulator) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return s.simulate(ctx, jobs, opts, nil)
}

// ended is why nothing more is computed, or nil.
func (s *Simulator) ended(ctx context.Context) error {
	if s.closed.Load() {
		return lockstep.ErrClosed
	}
	return ctx.Err() // whatever its cause: what every engine answers
}

// simulate is Simulate, which also keeps what training needs, unless training is nil.
func (s *Simulator) simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options, training *lockstep.Experience,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		lockstep.Computes(ctx, s)
		type outcome struct {
			index  int
			result lockstep.Result
		}
		shape := s.fastest((len(jobs) + s.config.Workers - 1) / s.config.Workers)
		outcomes := make(chan outcome, shape.chunk)
		ctx, abandon := context.WithCancelCause(ctx)
		report := func(index int, r lockstep.Result) { outcomes <- outcome{index, r} }
		p := newPool(jobs, s.config.Workers, shape.chunk)
		p.begin = func(u unit) *gang {
			g, ended := &gang{policy: u.policy}, s.ended(ctx)
			for _, i := range u.jobs {
				if ended != nil { // which many jobs may share: nothing is made of it
					report(i, lockstep.Result{Err: ended})
					p.finished()
					continue
				}
				r, err := begin(&jobs[i], i, opts.Shortcuts)
				if err != nil {
					report(i, lockstep.Result{Err: jobs[i].Failed(0, err)})
					p.finished()
					continue
				}
				g.rollouts = append(g.rollouts, r)
			}
			if len(g.rollouts) == 0 {
				return nil
			}
			return g
		}
		workers := make([]*worker, s.config.Workers)
		p.advance = func(k int, all []*rollout) {
			if err := s.ended(ctx); err != nil {
				for _, r := range all {
					r.err = err
				}
				return
			}
			if workers[k] == nil {
				w, err := s.newWorker(shape, opts.Shortcuts, training)
				if err != nil {
					for _, r := range all {
						r.err = err
					}
					return
				}
				workers[k] = w
			}
			workers[k].advance(all)
		}
		p.finish = func(r *rollout) {
			if r.err != nil {
				report(r.index, lockstep.Result{Err: r.job.Failed(r.step, r.err)})
			} else {
				report(r.index, r.result(opts.Trajectory))
			}
		}
		go func() {
			p.run()
			for _, w := range workers {
				w.close()
			}
			close(outcomes)
		}()
		defer func() {
			abandon(context.Canceled)
			for range outcomes { // of what nobody asks for any more
			}
		}()
		for o := range outcomes {
			if !yield(o.index, o.result) {
				return
			}
		}
	}
}
