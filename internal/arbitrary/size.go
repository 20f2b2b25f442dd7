package arbitrary

import (
	"fmt"

	"pgregory.net/rapid"

	"lockstep"
)

// A Size is a shape of work, where code that counts in blocks, chunks and workers
// may be one off.
type Size struct {
	Name    string
	Jobs    int
	Rows    int  // of the routes; every other one is a row longer
	Workers int  // of the engine; 0 is its choice
	Chunk   int  // the most routes in step; 0 is the engine's choice
	Sweep   bool // one route, gains that differ in the last bits
	Twins   bool // every job twice, in neighbouring columns of a chunk
	Python  bool // steered from Python; batched makes two gangs of them
	Slow    bool // takes too long for an engine of milliseconds a step
}

// Sizes are those that every engine is run through.
var Sizes = []Size{
	{Name: "one job", Jobs: 1, Rows: lockstep.MinRows},
	{Name: "a full chunk", Jobs: 4, Rows: 102, Workers: 1, Chunk: 4},
	{Name: "just over a full chunk", Jobs: 5, Rows: 102, Workers: 1, Chunk: 4},
	{Name: "one short of three chunks", Jobs: 8, Rows: 101, Workers: 1, Chunk: 3},
	{Name: "five to a block", Jobs: 5, Rows: 102, Chunk: 5},
	{Name: "five to a block, and one", Jobs: 6, Rows: 102, Chunk: 5},
	{Name: "six to a block, twice and one", Jobs: 13, Rows: 101, Chunk: 6},
	{Name: "three workers", Jobs: 7, Rows: 102, Workers: 3, Chunk: 2},
	{Name: "five workers, fewer chunks", Jobs: 8, Rows: 102, Workers: 5, Chunk: 2},
	{Name: "more workers than jobs", Jobs: 2, Rows: 102, Workers: 7},
	{Name: "a sweep of a hundred", Jobs: 101, Rows: 101, Sweep: true},
	{
		Name:    "a sweep of hundreds",
		Jobs:    257,
		Rows:    101,
		Workers: 3,
		Chunk:   128,
		Sweep:   true,
		Slow:    true,
	},
	{Name: "twins", Jobs: 10, Rows: 102, Workers: 1, Chunk: 4, Twins: true},
	{
		Name:    "two processes of Python",
		Jobs:    130,
		Rows:    101,
		Workers: 1,
		Chunk:   65,
		Python:  true,
		Slow:    true,
	},
	{Name: "beyond 650 rows", Jobs: 2, Rows: 700, Slow: true},
	{Name: "far beyond", Jobs: 1, Rows: 1300, Slow: true},
}

// Work are jobs of the size: routes of several lengths, one name for all of them, as
// they have when they come from different folders.
func (s Size) Work(seed int) (jobs []lockstep.Job) {
	routes := rapid.SliceOfN(Route(rapid.IntRange(s.Rows, s.Rows+1)), 3, 3).Example(seed)
	for i := range s.Jobs {
		if s.Twins {
			i /= 2
		}
		r := routes[i%len(routes)]
		if s.Sweep {
			r = routes[0]
		}
		pid := lockstep.PID{P: 0.1 + 0.01*float64(i%16), I: 0.05, D: -0.05 + 1e-15*float64(i)}
		job := lockstep.Job{Route: r, Policy: pid}
		if !s.Sweep {
			s.beside(&job, i)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// beside gives some jobs what their neighbours have otherwise, or not: draws, a teacher, expected
// values.
func (s Size) beside(job *lockstep.Job, i int) {
	switch i % 8 {
	case 2, 3:
		job.Draws = lockstep.Draws(uint32(i), job.Route.Len())
	case 4, 5:
		teacher := &lockstep.Trajectory{
			Lataccel: make([]float64, job.Route.Len()), Action: make([]float64, job.Route.Len()),
		}
		for k := range teacher.Action {
			teacher.Lataccel[k] = job.Route.TargetLataccel[k] + float64(i)/64
			teacher.Action[k] = float64(k-i) / 256
		}
		job.Teacher = teacher
	case 6:
		job.Expected = true
	}
}

func (s Size) String() string {
	return fmt.Sprintf(
		"%s: %d jobs of %d rows, %d workers, chunks of %d", s.Name, s.Jobs, s.Rows, s.Workers,
		s.Chunk,
	)
}
