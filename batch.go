package lockstep

// A BatchController steers several routes at once, for controllers that are
// cheaper that way: a network, or a program in another process.
//
// Which routes share a controller depends on the engine. So that a route's
// result does not, the answer for a route may depend on that route alone.
type BatchController interface {
	// Update computes the steer commands of one step. It is called for every
	// step from ContextLength on, in order, until the last of the routes has
	// ended. An error fails all of them.
	Update(s *BatchStep) error

	// Close ends the controller's work for these routes.
	Close() error
}

// BatchStep is one step of several routes: one element for each. Its slices are
// valid until Update returns.
type BatchStep struct {
	Step    int
	Running []bool // false for a route that has ended or failed; the other elements mean nothing then

	TargetLataccel  []float64 // m/s²
	CurrentLataccel []float64 // m/s², after the previous step
	State           []State
	Plan            []FuturePlan

	Steer []float64 // to be set: the steer command, before clipping
	Err   []error   // may be set: fails this route alone
}

// NewBatchStep makes a step for n routes.
func NewBatchStep(n int) *BatchStep {
	return &BatchStep{
		Running:         make([]bool, n),
		TargetLataccel:  make([]float64, n),
		CurrentLataccel: make([]float64, n),
		State:           make([]State, n),
		Plan:            make([]FuturePlan, n),
		Steer:           make([]float64, n),
		Err:             make([]error, n),
	}
}

// Batch is a policy of batch controllers. Jobs with the same *Batch may share
// one.
type Batch struct {
	Name string
	File string // of its source, if it comes from a file

	// SHA256 is of the source that New's controllers run, in hexadecimal; empty where
	// that is not known.
	SHA256 string

	// Made is what else these controllers are made of, as far as it is known: each line begins
	// with a name, and ends with a version or the hash of a content.
	Made []string

	// New makes the controller of some routes. It may be called from several
	// goroutines at once.
	New func(routes []*Route) (BatchController, error)
}

func (*Batch) policy() {}

func (b *Batch) String() string { return b.Name }
