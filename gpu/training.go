package gpu

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"lockstep"
	"lockstep/gpu/internal/driver"
)

// Collect rolls jobs out that networks drive. The device writes what training needs; it
// comes down with the results.
func (s *Simulator) Collect(
	ctx context.Context, jobs []lockstep.Job,
) (*lockstep.Experience, error) {
	e, err := lockstep.NewExperience(jobs)
	if err != nil {
		return nil, err
	}
	s.collect(ctx, e, nil)
	return e, nil
}

// collect fills an experience, on the device if it is to be kept there. An error is a launch's,
// which its jobs have, too.
func (s *Simulator) collect(
	ctx context.Context, e *lockstep.Experience, kept *experience,
) error {
	r := &run{
		Simulator: s,
		ctx:       ctx,
		opts:      lockstep.Options{Shortcuts: lockstep.CostOnly},
		training:  e,
		kept:      kept,
	}
	r.yield = func(i int, result lockstep.Result) bool {
		e.Results[i] = result // of one that failed the arrays are as they were made
		return true
	}
	r.all(e.Jobs)
	return r.failed
}

// record copies what a task has left, of the last fetch.
func (b *batch) record(e *lockstep.Experience, j int) {
	const steps, from = lockstep.ExperienceSteps, lockstep.ControlStartIdx
	t, at, s := b.tasks[j], b.at, b.shape
	n := t.end - from
	floats := func(offset, next int64, width int) []float32 {
		return view[float32](b.down(offset, next), s.jobs*steps*width)[j*steps*width:][:n*width]
	}
	copy(e.Raw[t.index*steps:], floats(at.variate, at.softplus, 1))
	copy(e.Softplus[2*t.index*steps:], floats(at.softplus, at.reward, 2))
	copy(e.Reward[t.index*steps:], floats(at.reward, at.status, 1))
	history := func(offset, next int64) []float64 {
		return view[float64](b.down(offset, next), s.jobs*s.stride)[j*s.stride:][from:t.end]
	}
	copy(e.Lataccel[t.index*steps:], history(at.lataccel, at.action))
	copy(e.Action[t.index*steps:], history(at.action, at.memory))
}

// observeThreads are those of a block that computes an observation.
const observeThreads = 128

// wholeAtOnce is how many places' undeclared observations are looked at together: 4 MiB.
const wholeAtOnce = 4096

// Observe computes observations of collected rollouts, in one launch or as many as the
// memory wants. Where the observation that is not declared is looked at, it may not be NaN
// anywhere: of the NaN of a place that is named first, and an earlier place before a later one.
func (s *Simulator) Observe(e *lockstep.Experience, places []lockstep.Place, into []float32) error {
	places, err := e.Places(places, into)
	if err != nil {
		return err
	}
	sees := declaredBy(e)
	if !lockstep.LooksAtObservation(sees) {
		_, err := s.observeAll(e, sees, places, into)
		return err
	}
	whole := make([]float32, min(wholeAtOnce, len(places))*lockstep.ObservationSize)
	for part := range slices.Chunk(places, wholeAtOnce) {
		seen, err := s.observeAll(e, nil, part, whole)
		declared, other := s.observeAll(e, sees, part, into)
		if other != nil && (err == nil || declared < seen) {
			err = other
		}
		if err != nil {
			return err
		}
		into = into[len(part)*e.Inputs():]
	}
	return nil
}

// declaredBy is what the networks of rollouts declare that they observe: all the same.
func declaredBy(e *lockstep.Experience) []lockstep.Seen {
	if len(e.Jobs) == 0 {
		return nil
	}
	if n, ok := e.Jobs[0].Policy.(*lockstep.Network); ok && n != nil {
		return n.Sees
	}
	return nil
}

// observeAll computes observations of what is declared, or of the one that is not, and says of
// how many places until there is an error.
func (s *Simulator) observeAll(
	e *lockstep.Experience, sees []lockstep.Seen, places []lockstep.Place, into []float32,
) (done int, err error) {
	for done < len(places) {
		n, size, err := s.observe(e, sees, places[done:], into)
		if err != nil {
			return done, err
		}
		for i, p := range places[done:][:n] {
			for k, x := range into[i*size:][:size] {
				if x != x {
					var policy lockstep.Policy
					if sees != nil {
						policy = e.Jobs[p.Rollout].Policy
					}
					return done + i, e.Jobs[p.Rollout].Failed(
						lockstep.ControlStartIdx+p.Step, notObserved(policy, k),
					)
				}
			}
		}
		done, into = done+n, into[n*size:]
	}
	return done, nil
}

// notObserved is why there is no observation: of what a policy declares, or from MaxWidth on and
// without a policy of the observation that is not declared.
func notObserved(policy lockstep.Policy, element int) error {
	name := lockstep.ObservationElement
	if n, ok := policy.(*lockstep.Network); ok && element < lockstep.MaxWidth {
		name = n.Element
	}
	return fmt.Errorf("%s is NaN", name(element%lockstep.MaxWidth))
}

// excerpt is what some places of an experience are observed from.
type excerpt struct {
	*lockstep.Experience
	sees     []lockstep.Seen // nil is the observation that is not declared
	places   []lockstep.Place
	rollouts []int // that the places are of, in the order in which they go up
	routes   []*lockstep.Route
	rows     int // of the columns of all routes

	rollout map[int]int // places in rollouts and routes
	route   map[*lockstep.Route]int
}

func newExcerpt(e *lockstep.Experience, sees []lockstep.Seen) *excerpt {
	return &excerpt{
		Experience: e, sees: sees, rollout: map[int]int{}, route: map[*lockstep.Route]int{},
	}
}

// take takes places, from the first on, while they fit a room.
func (x *excerpt) take(places []lockstep.Place, room int64) {
	for i, p := range places {
		next := *x
		next.places = places[:i+1]
		route := x.Jobs[p.Rollout].Route
		_, rollout := x.rollout[p.Rollout]
		if !rollout {
			next.rollouts = append(next.rollouts, p.Rollout)
		}
		_, known := x.route[route]
		if !known {
			next.routes = append(next.routes, route)
			next.rows += route.Len()
		}
		if _, total := next.layout(0); total > min(room, traceRoom) {
			return
		}
		if !rollout {
			x.rollout[p.Rollout] = len(x.rollout)
		}
		if !known {
			x.route[route] = len(x.route)
		}
		*x = next
	}
}

// layout is where everything lies from an address on, and how many bytes that takes.
// Observations, which come down, are at the end.
func (x *excerpt) layout(from driver.Pointer) (k observingBlock, total int64) {
	var all arrays
	const float, word = unsafe.Sizeof(float64(0)), unsafe.Sizeof(int64(0))
	place := func(count int, size uintptr) driver.Pointer {
		return from + driver.Pointer(all.place(count, size))
	}
	k.Places = place(len(x.places), unsafe.Sizeof(placeBlock{}))
	k.Route = place(len(x.rollouts), word)
	k.Routes = place(len(x.routes), unsafe.Sizeof(routeBlock{}))
	k.Inputs = lockstep.ObservationSize
	if x.sees != nil {
		k.Sees, k.Inputs = place(len(x.sees), uintptr(seenBytes)), int64(len(x.sees))
	}
	for _, column := range []*driver.Pointer{&k.RollLataccel, &k.VEgo, &k.AEgo, &k.Target} {
		*column = place(x.rows, float)
	}
	k.Lataccel = place(len(x.rollouts)*lockstep.ExperienceSteps, float)
	k.Action = place(len(x.rollouts)*lockstep.ExperienceSteps, float)
	k.Stride = lockstep.ExperienceSteps
	k.Out = place(len(x.places)*int(k.Inputs), unsafe.Sizeof(float32(0)))
	return k, all.end
}

// write writes what goes up.
func (x *excerpt) write(host []byte) {
	k, _ := x.layout(0)
	for i, p := range x.places {
		view[placeBlock](host[k.Places:], len(x.places))[i] = placeBlock{
			int64(x.rollout[p.Rollout]), int64(p.Step),
		}
	}
	const steps = lockstep.ExperienceSteps
	n := len(x.rollouts)
	for i, rollout := range x.rollouts {
		copy(
			view[float64](host[k.Lataccel:], n*steps)[i*steps:], x.Lataccel[rollout*steps:][:steps],
		)
		copy(view[float64](host[k.Action:], n*steps)[i*steps:], x.Action[rollout*steps:][:steps])
	}
	x.writeRoutes(host)
}

// writeRoutes writes the routes, which each rollout has, and what is declared.
func (x *excerpt) writeRoutes(host []byte) {
	k, _ := x.layout(0)
	for i, rollout := range x.rollouts {
		view[int64](host[k.Route:], len(x.rollouts))[i] = int64(x.route[x.Jobs[rollout].Route])
	}
	writeSees(view[seenBlock](host[k.Sees:], len(x.sees)), x.sees)
	first := 0
	for i, r := range x.routes {
		view[routeBlock](host[k.Routes:], len(x.routes))[i] = routeBlock{
			Rows:  int64(r.Len()),
			First: int64(first),
		}
		copy(view[float64](host[k.RollLataccel:], x.rows)[first:], r.RollLataccel)
		copy(view[float64](host[k.VEgo:], x.rows)[first:], r.VEgo)
		copy(view[float64](host[k.AEgo:], x.rows)[first:], r.AEgo)
		copy(view[float64](host[k.Target:], x.rows)[first:], r.TargetLataccel)
		first += r.Len()
	}
}

// observe computes the observations, of some size, of as many places as fit the device's memory.
func (s *Simulator) observe(
	e *lockstep.Experience, sees []lockstep.Seen, places []lockstep.Place, into []float32,
) (n, size int, err error) {
	ctx := context.Background()
	err = s.use(ctx, nil, func(c *connection) error {
		room, err := s.room(c)
		if err != nil {
			return err
		}
		x := newExcerpt(e, sees)
		x.take(places, room)
		if n = len(x.places); n == 0 {
			return fmt.Errorf(
				"an observation does not fit %d bytes: %w", room, driver.ErrOutOfMemory,
			)
		}
		_, total := x.layout(0)
		b, err := c.take(total, total)
		if err != nil {
			return err
		}
		k, _ := x.layout(b.device)
		size = int(k.Inputs)
		out := int64(k.Out - b.device)
		x.write(b.host)
		if err := c.Upload(b.device, b.host[:out]); err != nil {
			return err
		}
		if err := c.Launch("lockstep_observe", n, observeThreads, 0,
			viewBytes([]observingBlock{k})); err != nil {
			return err
		}
		down := b.host[out:][:4*n*size]
		if err := c.Download(down, k.Out); err != nil {
			return err
		}
		if err := s.synchronize(ctx, c, int64(n)); err != nil {
			return err
		}
		copy(into, view[float32](down, n*size))
		return c.give(b)
	})
	return n, size, err
}
