package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/kernels"
	"lockstep/internal/model"
)

// Config says what a simulator is made of.
type Config struct {
	ModelPath string // the network's ONNX file

	// Profile is the arithmetic.
	Profile lockstep.Profile

	// Open opens the device, at first and again after a failure; OpenDevice if nil.
	Open func() (driver.Device, error)

	// RoutesPerBlock is the most routes that a block of threads runs, Threads how many
	// threads it has, a multiple of 32. Neither changes a bit. If 0, they are
	// chosen.
	RoutesPerBlock, Threads int

	// MemoryLimit is how many bytes of the device's memory a run may take; all
	// that are free if 0. Jobs that do not fit at once run one part after the
	// other.
	MemoryLimit int64

	// Watchdog is how long a launch may take before the device is given up. If 0,
	// it grows with the work, from two minutes.
	Watchdog time.Duration

	// Timed takes the times of Stats.
	Timed bool
}

const (
	baseWatchdog = 2 * time.Minute
	stepWatchdog = 30 * time.Millisecond // for a step of a job, on one multiprocessor

	defaultThreads = 256

	// traceRoom bounds the memory of the host that one launch's traces take.
	traceRoom = 1 << 30
)

// Simulator is the GPU implementation of lockstep.Simulator. Its methods may be
// called from several goroutines, whose launches take turns. Close ends it.
type Simulator struct {
	config  Config
	model   string // SHA-256 of its file
	name    string
	weights []float32

	turn       chan struct{} // held while the device is in use
	connection *connection   // nil until its first use, and after a failure
	closed     bool

	statsMutex sync.Mutex    // also of connection, for Stats, which does not wait for its turn
	past       driver.Counts // of devices closed since
	wall       time.Duration
	sampled    int64
	serial     int64
}

var _ lockstep.Implementation = (*Simulator)(nil)

// The forms of a profile that the kernels have: see launch.h.
var (
	layerNorms = []lockstep.LayerNorm{
		lockstep.LayerNorm130, lockstep.LayerNorm127, lockstep.LayerNorm123,
	}
	softmaxes    = []lockstep.Softmax{lockstep.SoftmaxAVX512, lockstep.SoftmaxAVX2}
	exponentials = []lockstep.Exp{lockstep.ExpU, lockstep.ExpF}
)

// Lacks is nil if the kernels have a profile's arithmetic, else what they lack.
func Lacks(p lockstep.Profile) error {
	var lacks []string
	words := strings.Split(p.String(), "-")
	for k, has := range []bool{
		slices.Contains(layerNorms, p.LayerNorm), slices.Contains(softmaxes, p.Softmax),
		slices.Contains(exponentials, p.Exp),
	} {
		if !has {
			lacks = append(lacks, words[k])
		}
	}
	if lacks == nil {
		return nil
	}
	return fmt.Errorf(
		"profile %s: the GPU's kernels have no %s: take another engine, or a profile of x86-64", p,
		strings.Join(lacks, ", no "),
	)
}

// New makes a simulator and opens its device.
func New(config Config) (*Simulator, error) {
	if err := Lacks(config.Profile); err != nil {
		return nil, err
	}
	weights, err := model.Load(config.ModelPath)
	if err != nil {
		return nil, err
	}
	if config.Open == nil {
		config.Open = OpenDevice
	}
	if config.Threads < 0 || config.RoutesPerBlock < 0 || config.MemoryLimit < 0 ||
		config.Watchdog < 0 {
		return nil, errors.New(
			"threads, routes per block, memory limit and watchdog cannot be negative",
		)
	}
	if config.Threads == 0 {
		config.Threads = defaultThreads
	}
	s := &Simulator{
		config:  config,
		model:   weights.SHA256,
		name:    "gpu",
		weights: kernels.Pack(weights),
		turn:    make(chan struct{}, 1),
	}
	info, err := s.Info()
	if err != nil {
		return nil, err
	}
	if info.Emulated {
		s.name = info.Name
	}
	return s, nil
}

// Name is "gpu", or that of the device where the kernels run on the CPU.
func (s *Simulator) Name() string { return s.name }

// About says what computes: the hash of the kernels' sources, and the device.
func (s *Simulator) About() lockstep.About {
	about := lockstep.About{Model: s.model}
	if info, err := s.Info(); err != nil {
		about.Inside = err.Error()
	} else {
		about.Inside = fmt.Sprintf("kernels %.12s on %s, driver %s", info.Kernels, info.Name,
			info.Driver)
	}
	return about
}

// Profile is the arithmetic that the simulator was made with.
func (s *Simulator) Profile() lockstep.Profile { return s.config.Profile }

// Info says what the device is. An error is that of opening it again after a
// failure.
func (s *Simulator) Info() (info driver.Info, err error) {
	err = s.use(context.Background(), nil, func(c *connection) error {
		info = c.info
		return nil
	})
	return info, err
}

// Cuts are how many rollouts its work is cut into, for tests of its edges: the routes of its
// largest blocks.
func (s *Simulator) Cuts() (cuts []int) {
	s.use(context.Background(), nil, func(c *connection) error {
		all, err := s.kernels(c)
		if err == nil {
			cuts = []int{all[len(all)-1].routes}
		}
		return err
	})
	return cuts
}

// Close gives the device back.
func (s *Simulator) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.closed = true
	s.disconnect()
	return nil
}

// Stats is what has passed between host and device. The times, with
// Config.Timed, are the device's own.
type Stats struct {
	driver.Counts

	// Sampled is the number of steps whose token was drawn, of jobs that ended well,
	// and Serial that of those in which the draw was so near an edge of the
	// distribution that the running sum was made one number after the other.
	Sampled int64 `json:"sampled"`
	Serial  int64 `json:"serial"`

	// Wall is how long runs of whole rollouts took, without observers.
	Wall time.Duration `json:"wall_ns"`
}

// Host is the part of Wall in which the device was idle.
func (s Stats) Host() time.Duration { return s.Wall - s.Upload - s.Kernel - s.Download }

// Sub is what was counted since t.
func (s Stats) Sub(t Stats) Stats {
	return Stats{
		s.Counts.Sub(t.Counts), s.Sampled - t.Sampled, s.Serial - t.Serial, s.Wall - t.Wall,
	}
}

// WriteText prints what passed for people.
func (s Stats) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\n\ttimes\tbytes\tms\t")
	for _, row := range []struct {
		name         string
		times, bytes int64
		took         time.Duration
	}{
		{"upload", s.Uploads, s.UploadBytes, s.Upload},
		{"kernel", s.Launches, 0, s.Kernel},
		{"download", s.Downloads, s.DownloadBytes, s.Download},
	} {
		fmt.Fprintf(
			t, "%s\t%d\t%d\t%.3f\t\n", row.name, row.times, row.bytes, 1e3*row.took.Seconds(),
		)
	}
	fmt.Fprintf(t, "host\t\t\t%.3f\t\n", 1e3*s.Host().Seconds())
	t.Flush()
	_, err := fmt.Fprintf(w, "%d synchronisations\n", s.Synchronisations)
	return err
}

// Stats counts from the simulator's beginning: its opening, too, which uploads
// the weights.
func (s *Simulator) Stats() Stats {
	s.statsMutex.Lock()
	defer s.statsMutex.Unlock()
	counts := s.past
	if c := s.connection; c != nil {
		counts = counts.Add(c.Counts())
	}
	return Stats{counts, s.sampled, s.serial, s.wall}
}

// tally counts how the tokens of a job that has ended were found.
func (s *Simulator) tally(status statusBlock) {
	s.statsMutex.Lock()
	defer s.statsMutex.Unlock()
	s.sampled += status.Sampled
	s.serial += status.Serial
}

// Simulate runs the jobs: first, in as few launches as memory allows, those whose
// controllers are on the device; then the others, step by step. When ctx ends in
// a launch, the device is given up, since a kernel cannot be called back, and
// opened again for the next run; a Stepper on it is lost.
//
// Jobs may share routes: a sweep of K policies over N routes is K·N jobs, and
// uploads each route once.
func (s *Simulator) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		lockstep.Computes(ctx, s)
		(&run{Simulator: s, ctx: ctx, opts: opts, yield: yield}).all(jobs)
	}
}

// all runs all jobs.
func (r *run) all(jobs []lockstep.Job) {
	for _, group := range r.group(jobs) {
		if group.kind.commands {
			r.steps(group)
		} else {
			r.launches(group)
		}
		if r.stopped {
			return
		}
	}
}

// run is one call of Simulate.
type run struct {
	*Simulator
	ctx     context.Context
	opts    lockstep.Options
	yield   func(int, lockstep.Result) bool
	stopped bool  // the caller has broken out of the loop
	failed  error // of the last launch that failed

	training *lockstep.Experience // to be filled, or nil
	kept     *experience          // what fills it on the device, or nil
}

// task is a job of a run.
type task struct {
	job   *lockstep.Job
	index int // the job's, of a run
	end   int // one past the last step
	done  bool

	origin int     // of its kind's past
	seed   *uint32 // of its draws, in place of the route's
}

// noise is the seed of its draws, or givenDraws.
func (t *task) noise() int64 {
	switch {
	case t.seed != nil:
		return int64(*t.seed)
	case t.job.Draws != nil:
		return givenDraws
	}
	return int64(t.job.Route.Seed)
}

// group is tasks that can share a launch.
type group struct {
	kind  kind
	tasks []*task
}

// group sorts out jobs that cannot run and puts the others into groups.
func (r *run) group(jobs []lockstep.Job) []*group {
	var groups []*group
	for i := range jobs {
		t := &task{job: &jobs[i], index: i}
		err := t.job.Check(r.opts.Shortcuts)
		if err == nil && t.job.Policy == nil {
			err = errors.New("no controller of type <nil>")
		}
		if err != nil {
			r.fail(t, 0, err)
			continue
		}
		t.end = t.job.End(r.opts.Shortcuts)
		needs := r.kind(t.job)
		at := slices.IndexFunc(groups, func(g *group) bool { return g.kind == needs })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{kind: needs})
		}
		groups[at].tasks = append(groups[at].tasks, t)
	}
	networks := map[*lockstep.Network]int{}
	network := func(t *task) int {
		n, _ := t.job.Policy.(*lockstep.Network)
		if _, ok := networks[n]; !ok {
			networks[n] = len(networks)
		}
		return networks[n]
	}
	for _, g := range groups {
		// A block ends with the longest of its routes, and reads each network that it has
		// once, so equal ones go together.
		slices.SortStableFunc(
			g.tasks, func(a, b *task) int { return cmp.Or(b.end-a.end, network(a)-network(b)) },
		)
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		return btoi(a.kind.commands) - btoi(b.kind.commands)
	})
	return groups
}
