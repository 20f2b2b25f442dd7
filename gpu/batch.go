package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/kernels"
)

// kind is what jobs need of a launch. Those of one launch are of one kind.
type kind struct {
	commands   bool // from the host
	teacher    bool
	draws      bool // are given
	traced     bool
	trajectory bool
	policies   bool // kernels that know every kind of policy, and expected values
	training   bool // what a trainer wants is left
	kept       bool // and stays on the device

	past *lockstep.Snapshot // that the jobs go on from, or nil
}

// shape is all that the size of a launch's memory depends on.
type shape struct {
	kind
	jobs, routes, rows int // rows of the columns of all routes
	tables             int // jobs that have one
	networks, weights  int // that steer, and the numbers of all
	sees               int // that the networks declare
	stride             int // steps of the histories
	steps              int // that one launch runs at most
}

// places are the offsets of a launch's arrays in the device's memory. What goes
// up stands together, and so does what comes down, and what a snapshot holds.
type places struct {
	commands                           int64 // all that goes up for a step
	routes, job, steer, columns        int64
	tables, actors, weights, sees      int64
	past                               int64
	teacher                            int64
	upEnd                              int64
	trace                              int64 // what comes down begins here
	variate, softplus, reward          int64
	status, costs                      int64 // the state begins with the status
	lataccel, action, memory, stateEnd int64
	draws                              int64 // before upEnd if they are given
	now                                int64 // lataccels of StepOnDevice
	total                              int64
}

// alignment of the arrays: no two share a line of a cache.
const alignment = 256

// arrays are what stands in a device's memory one after the other.
type arrays struct{ end int64 }

// place is the offset of another array.
func (a *arrays) place(count int, size uintptr) int64 {
	from := a.end
	a.end += (int64(count)*int64(size) + alignment - 1) / alignment * alignment
	return from
}

func (s shape) places() places {
	var p places
	var all arrays
	place := all.place
	const float = unsafe.Sizeof(float64(0))
	if s.commands {
		p.commands = place(s.jobs, float)
	}
	p.routes = place(s.routes, unsafe.Sizeof(routeBlock{}))
	p.job = place(s.jobs, unsafe.Sizeof(jobBlock{}))
	p.steer = place(s.routes*lockstep.ControlStartIdx, float)
	p.columns = place(4*s.rows, float)
	p.tables = place(s.tables*lockstep.TableSteps, float)
	p.actors = place(s.networks, unsafe.Sizeof(actorBlock{}))
	p.weights = place(s.weights, unsafe.Sizeof(float32(0)))
	p.sees = place(s.sees, unsafe.Sizeof(seenBlock{}))
	if s.past != nil {
		p.past = place(2*len(s.past.Rollouts)*s.past.Step, float)
	}
	if s.teacher {
		p.teacher = place(2*s.jobs*s.stride, float)
	}
	if s.draws {
		p.draws = place(s.jobs*s.stride, float)
	}
	p.upEnd = all.end
	p.trace = all.end
	if s.traced {
		place(s.jobs*s.steps, unsafe.Sizeof(traceBlock{}))
	}
	if s.training {
		const float = unsafe.Sizeof(float32(0))
		p.variate = place(s.jobs*lockstep.ExperienceSteps, float)
		p.softplus = place(2*s.jobs*lockstep.ExperienceSteps, float)
		p.reward = place(s.jobs*lockstep.ExperienceSteps, float)
	}
	p.status = place(s.jobs, unsafe.Sizeof(statusBlock{}))
	p.costs = place(s.jobs, unsafe.Sizeof(costsBlock{}))
	p.lataccel = place(s.jobs*s.stride, float)
	p.action = place(s.jobs*s.stride, float)
	p.memory = place(s.jobs, unsafe.Sizeof(memoryBlock{}))
	p.stateEnd = all.end
	if !s.draws {
		p.draws = place(s.jobs*s.stride, float)
	}
	if s.commands {
		p.now = place(s.jobs, float)
	}
	p.total = all.end
	return p
}

// downEnd is where that ends which comes down after the last launch.
func (s shape) downEnd(p places) int64 {
	if s.commands {
		return p.stateEnd
	}
	if s.trajectory || s.training && !s.kept {
		return p.memory
	}
	return p.lataccel
}

// host is how many bytes of the host's memory the data pass through.
func (s shape) host(p places) int64 { return p.upEnd + s.downEnd(p) - p.trace }

// rows is how many of its route's rows a launch wants: plans look beyond the end, and so
// do observations of rollouts in step.
func (t *task) rows(k kind) int {
	if k.policies || k.commands {
		return min(t.job.Route.Len(), t.end-1+lockstep.FuturePlanSteps)
	}
	return t.end
}

// fit is the shape of as many of the tasks, from the first on, as take no more
// than so many bytes of device memory; it has no jobs if not even one fits. If
// one with all its traces does not, a launch runs fewer of its steps.
func fit(tasks []*task, k kind, room int64) shape {
	fits := func(s shape) bool {
		p := s.places()
		return p.total <= room && (!s.traced || s.host(p) <= traceRoom)
	}
	routes, networks := map[*lockstep.Route]bool{}, map[*lockstep.Network]bool{}
	best := shape{kind: k}
	if k.past != nil {
		best.stride = k.past.Step // each takes up all of it, also one that ended before
	}
	next := best
	for _, t := range tasks {
		next.jobs++
		if !routes[t.job.Route] {
			routes[t.job.Route] = true
			next.routes++
			next.rows += t.rows(k)
		}
		switch p := t.job.Policy.(type) {
		case *lockstep.Table:
			next.tables++
		case *lockstep.Network:
			if !networks[p] {
				networks[p] = true
				next.networks++
				next.weights += kernels.ActorSize(p)
				next.sees += len(p.Sees)
			}
		}
		next.stride = max(next.stride, t.end)
		next.steps = next.stride - lockstep.ContextLength
		if next.commands {
			next.steps = 1
		}
		whole := true
		for next.jobs == 1 && next.traced && next.steps > 1 && !fits(next) {
			next.steps = (next.steps + 1) / 2
			whole = false
		}
		if !fits(next) {
			return best
		}
		best = next
		if !whole {
			return best
		}
	}
	return best
}

// batch is tasks whose rollouts are in a device's memory.
type batch struct {
	simulator *Simulator
	on        *connection
	tasks     []*task
	shape     shape
	at        places
	buffer    *buffer
	parts     []part
	block     launchBlock

	last     []statusBlock // of a Stepper's last launch
	finished []costsBlock  // and of its last Fetch
}

// load puts as many of the tasks as fit the device's memory there.
func (s *Simulator) load(
	c *connection, tasks []*task, k kind, shortcuts lockstep.Shortcuts,
) (*batch, error) {
	room, err := s.room(c)
	if err != nil {
		return nil, err
	}
	for {
		b := &batch{simulator: s, on: c, shape: fit(tasks, k, room)}
		if b.shape.jobs == 0 {
			least := fit(tasks[:1], k, math.MaxInt64)
			if least.traced {
				least.steps = 1
			}
			return nil, fmt.Errorf(
				"one rollout takes %d KiB of device memory, and %s has %d KiB left: %w",
				(least.places().total+1023)>>10, c.info.Name, max(room, 0)>>10,
				driver.ErrOutOfMemory,
			)
		}
		b.tasks, b.at = tasks[:b.shape.jobs], b.shape.places()
		if b.parts, err = s.plan(c, b.shape.jobs); err != nil {
			return nil, err
		}
		b.buffer, err = c.take(b.at.total, b.shape.host(b.at))
		if errors.Is(err, driver.ErrOutOfMemory) {
			room = min(room, b.at.total) * 3 / 4 // it is in pieces, or taken by now
			continue
		} else if err != nil {
			return nil, err
		}
		b.fill(shortcuts)
		if err := c.Upload(b.buffer.device, b.buffer.host[:b.at.upEnd]); err != nil {
			return nil, err
		}
		// What the kernel does not write is NaN, and the same every time.
		if err := c.Fill(b.device(b.at.upEnd), 0xff, b.at.total-b.at.upEnd); err != nil {
			return nil, err
		}
		return b, c.Fill(b.device(b.at.status), 0, b.at.costs-b.at.status)
	}
}

// release gives the memory back, if the device still has it.
func (b *batch) release() {
	b.simulator.use(
		context.Background(), b.on, func(c *connection) error { return c.give(b.buffer) },
	)
}

// device is an offset's address.
func (b *batch) device(offset int64) driver.Pointer {
	return b.buffer.device + driver.Pointer(offset)
}

// up is n elements of what goes up, in the host's memory.
func up[T any](b *batch, offset int64, n int) []T { return view[T](b.buffer.host[offset:], n) }

// down is the bytes of what came down, in the host's memory.
func (b *batch) down(from, to int64) []byte {
	return b.buffer.host[b.at.upEnd:][from-b.at.trace : to-b.at.trace]
}

// fill writes what goes up.
func (b *batch) fill(shortcuts lockstep.Shortcuts) {
	s, at := b.shape, b.at
	clear(b.buffer.host[:at.upEnd])
	routes, jobs := up[routeBlock](b, at.routes, s.routes), up[jobBlock](b, at.job, s.jobs)
	steer, columns := up[float64](b, at.steer, s.routes*lockstep.ControlStartIdx),
		up[float64](b, at.columns, 4*s.rows)
	index, rows := map[*lockstep.Route]int{}, 0
	policies := parameters{batch: b, actors: map[*lockstep.Network]driver.Pointer{}}
	for j, t := range b.tasks {
		route := t.job.Route
		i, ok := index[route]
		if !ok {
			i = len(index)
			index[route] = i
			n := t.rows(s.kind)
			for k, column := range [][]float64{
				route.RollLataccel, route.VEgo, route.AEgo, route.TargetLataccel,
			} {
				copy(columns[k*s.rows+rows:], column[:n])
			}
			routes[i] = routeBlock{Rows: int64(n), First: int64(rows)}
			copy(steer[i*lockstep.ControlStartIdx:], route.SteerCommand[:lockstep.ControlStartIdx])
			rows += n
		}
		jobs[j] = policies.job(t.job)
		jobs[j].Route, jobs[j].Noise, jobs[j].Origin = int64(i), t.noise(), int64(t.origin)
		if s.teacher {
			history := up[float64](b, at.teacher, 2*s.jobs*s.stride)[j*s.stride:]
			copy(history, t.job.Teacher.Lataccel[:t.end])
			copy(history[s.jobs*s.stride:], t.job.Teacher.Action[:t.end])
		}
		if s.draws && t.job.Draws != nil {
			copy(
				up[float64](b, at.draws, s.jobs*s.stride)[j*s.stride+lockstep.ContextLength:],
				t.job.Draws[:t.end-lockstep.ContextLength],
			)
		}
	}

	if s.past != nil {
		n := len(s.past.Rollouts) * s.past.Step
		past := up[float64](b, at.past, 2*n)
		for i, r := range s.past.Rollouts {
			copy(past[i*s.past.Step:], r.Lataccel)
			copy(past[n+i*s.past.Step:], r.Action)
		}
	}

	column := func(k int) driver.Pointer { return b.device(at.columns + int64(8*k*s.rows)) }
	profile := b.simulator.config.Profile
	b.block = launchBlock{
		Jobs:         int64(s.jobs),
		Stride:       int64(s.stride),
		Shortcuts:    int64(shortcuts),
		LayerNorm:    int64(profile.LayerNorm),
		Softmax:      int64(profile.Softmax),
		Exp:          int64(profile.Exp),
		Weights:      b.on.weights,
		Routes:       b.device(at.routes),
		Job:          b.device(at.job),
		RollLataccel: column(0),
		VEgo:         column(1),
		AEgo:         column(2),
		Target:       column(3),
		Steer:        b.device(at.steer),
		Lataccel:     b.device(at.lataccel),
		Action:       b.device(at.action),
		Draws:        b.device(at.draws),
		Memory:       b.device(at.memory),
		Status:       b.device(at.status),
		Costs:        b.device(at.costs),
	}
	if s.commands {
		b.block.Commands = b.device(at.commands)
	}
	if s.teacher {
		b.block.TeacherLataccel = b.device(at.teacher)
		b.block.TeacherAction = b.device(at.teacher + int64(8*s.jobs*s.stride))
	}
	if s.traced {
		b.block.Trace = b.device(at.trace)
	}
	if s.training {
		b.block.Variate, b.block.Softplus, b.block.Reward = b.device(at.variate),
			b.device(at.softplus), b.device(at.reward)
	}
	b.block.Width = int64(s.jobs)
	if s.past != nil {
		b.block.PastLataccel = b.device(at.past)
		b.block.PastAction = b.device(at.past + int64(8*len(s.past.Rollouts)*s.past.Step))
	}
}

// aim sets the step at which the next launch begins.
func (b *batch) aim(step int) {
	k := &b.block
	k.First, k.End = int64(step), int64(min(step+b.shape.steps, b.shape.stride))
	if b.shape.traced {
		k.TraceFirst, k.TraceEnd = k.First, k.First+int64(b.shape.steps)
	}
}

// launch starts the kernels of all parts, those with policies if they are asked for. A
// past is of the first launch alone.
func (b *batch) launch(policies bool) error {
	first := 0
	for _, p := range b.parts {
		k := b.block
		k.FirstJob, k.Jobs = int64(first), int64(first+p.jobs)
		blocks := (p.jobs + p.kernel.routes - 1) / p.kernel.routes
		if err := b.on.Launch(p.kernel.name(policies), blocks, b.simulator.config.Threads,
			p.kernel.shared, viewBytes([]launchBlock{k})); err != nil {
			return err
		}
		first += p.jobs
	}
	b.block.PastLataccel, b.block.PastAction = 0, 0
	return nil
}

// fetch downloads a range and waits until the device has done everything.
func (b *batch) fetch(ctx context.Context, from, to int64) error {
	if err := b.on.Download(b.down(from, to), b.device(from)); err != nil {
		return err
	}
	return b.simulator.synchronize(ctx, b.on, int64(b.shape.jobs)*(b.block.End-b.block.First))
}

// statuses, of the last fetch.
func (b *batch) statuses() []statusBlock {
	return view[statusBlock](b.down(b.at.status, b.at.costs), b.shape.jobs)
}

// result is a task's that ended well, of the last fetch.
func (b *batch) result(j int) lockstep.Result {
	c := view[costsBlock](b.down(b.at.costs, b.at.lataccel), b.shape.jobs)[j]
	result := lockstep.Result{
		Costs: lockstep.Costs{Lataccel: c.Lataccel, Jerk: c.Jerk, Total: c.Total},
	}
	if b.shape.trajectory {
		t := b.tasks[j]
		history := func(from, to int64) []float64 {
			return slices.Clone(
				view[float64](b.down(from, to),
					b.shape.jobs*b.shape.stride)[j*b.shape.stride:][:t.end],
			)
		}
		result.Trajectory = &lockstep.Trajectory{
			Target:   slices.Clone(t.job.Route.TargetLataccel[:t.end]),
			Lataccel: history(b.at.lataccel, b.at.action),
			Action:   history(b.at.action, b.at.memory),
		}
	}
	return result
}

// err is why a job with such a policy ended early, or nil.
func (s statusBlock) err(policy lockstep.Policy) error {
	switch s.Code {
	case statusOK:
		return nil
	case statusNoToken:
		return fmt.Errorf("lataccel %v has no token", s.Value)
	case statusNotDistribution:
		if math.IsNaN(s.Value) {
			return errors.New("probabilities contain NaN")
		}
		return errors.New("probabilities do not sum to 1")
	case statusNoController:
		return fmt.Errorf("the kernel has no policy of kind %v", s.Value)
	case statusNoObservation:
		return notObserved(policy, int(s.Value))
	}
	return fmt.Errorf("the kernel ended with code %d, which this program does not know", s.Code)
}
