package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"lockstep"
	"lockstep/gpu/internal/driver"
)

var _ lockstep.DeviceCollector = (*Simulator)(nil)

// experience is what rollouts left in the device's memory.
type experience struct {
	simulator *Simulator
	on        *connection
	training  *lockstep.Experience // without its arrays

	memory                     driver.Pointer
	raw, softplus, reward, end driver.Pointer
	routes                     observingBlock // where it has the routes, lataccels and actions
	places                     driver.Pointer // room for places that are observed
	most                       int            // how many
}

// CollectOnDevice is Collect, whose arrays stay on the device. Of the host's memory they
// take nothing, and there are as many launches.
func (s *Simulator) CollectOnDevice(
	ctx context.Context, jobs []lockstep.Job,
) (lockstep.DeviceExperience, error) {
	e, err := lockstep.EmptyExperience(jobs)
	if err != nil {
		return nil, err
	}
	x := &experience{simulator: s, training: e}
	if err := s.use(ctx, nil, x.allocate); err != nil {
		return nil, err
	}
	failed := s.collect(ctx, e, x)
	err = x.use(
		func(c *connection) error { return s.synchronize(context.WithoutCancel(ctx), c, 0) },
	)
	if err != nil { // that of the launch by which the device was lost says why
		return nil, errors.Join(cmp.Or(failed, err), x.Close())
	}
	return x, nil
}

// allocate makes room, and puts the routes there.
func (x *experience) allocate(c *connection) (err error) {
	all, n := newExcerpt(x.training, declaredBy(x.training)), len(x.training.Jobs)
	for i := range n {
		route := x.training.Jobs[i].Route
		all.rollouts = append(all.rollouts, i)
		if _, known := all.route[route]; !known && route != nil { // else the job fails
			all.route[route] = len(all.routes)
			all.routes = append(all.routes, route)
			all.rows += route.Len()
		}
	}
	_, total := all.layout(0)
	rest := arrays{end: total}
	const float, steps = 4, lockstep.ExperienceSteps
	raw, softplus, reward := rest.place(n*steps, float), rest.place(2*n*steps, float),
		rest.place(n*steps, float)
	rest.end = max(rest.end, alignment) // of no rollouts, which leave nothing, too
	if x.memory, err = c.Allocate(rest.end); err != nil {
		return fmt.Errorf("%d bytes for what %d rollouts leave: %w", rest.end, n, err)
	}
	x.on = c
	at := func(offset int64) driver.Pointer { return x.memory + driver.Pointer(offset) }
	x.routes, _ = all.layout(x.memory)
	x.raw, x.softplus, x.reward, x.end = at(raw), at(softplus), at(reward), at(rest.end)
	host := make([]byte, x.routes.Lataccel-x.memory)
	all.writeRoutes(host)
	if err := c.Upload(x.memory, host); err != nil {
		return err
	}
	if err := c.Fill(x.routes.Lataccel, 0, int64(x.end-x.routes.Lataccel)); err != nil {
		return err
	}
	return x.simulator.synchronize(context.Background(), c, 0)
}

// record copies what a task has left, of the last launch.
func (x *experience) record(b *batch, j int) error {
	if b.on != x.on {
		return errLost
	}
	const steps, from = lockstep.ExperienceSteps, lockstep.ControlStartIdx
	t, at, s := b.tasks[j], b.at, b.shape
	for _, a := range []struct {
		to, from driver.Pointer
		bytes    int // of a step
		row      int // of the task in the batch
	}{
		{x.raw, b.device(at.variate), 4, j * steps},
		{x.softplus, b.device(at.softplus), 8, j * steps},
		{x.reward, b.device(at.reward), 4, j * steps},
		{x.routes.Lataccel, b.device(at.lataccel), 8, j*s.stride + from},
		{x.routes.Action, b.device(at.action), 8, j*s.stride + from},
	} {
		to, from := a.to+driver.Pointer(t.index*steps*a.bytes), a.from+driver.Pointer(a.row*a.bytes)
		if err := b.on.Copy(to, from, int64((t.end-lockstep.ControlStartIdx)*a.bytes)); err != nil {
			return err
		}
	}
	return nil
}

func (x *experience) use(f func(*connection) error) error {
	return x.simulator.use(context.Background(), x.on, f)
}

// Experience has the jobs and the results.
func (x *experience) Experience() *lockstep.Experience { return x.training }

// Arrays are where the arrays are.
func (x *experience) Arrays() lockstep.DeviceArrays {
	return lockstep.DeviceArrays{
		Raw: uintptr(x.raw), Softplus: uintptr(x.softplus), Reward: uintptr(x.reward),
		Lataccel: uintptr(x.routes.Lataccel), Action: uintptr(x.routes.Action),
	}
}

// Observe computes observations in one launch. The places go up, nothing else moves.
func (x *experience) Observe(places []lockstep.Place, into uintptr) error {
	if err := x.training.Reached(places); err != nil || len(places) == 0 {
		return err
	}
	numbers := make([]placeBlock, len(places))
	for i, p := range places {
		numbers[i] = placeBlock{int64(p.Rollout), int64(p.Step)}
	}
	return x.use(func(c *connection) (err error) {
		if len(places) > x.most {
			if x.most > 0 {
				if err := c.Release(x.places); err != nil {
					return err
				}
			}
			x.most = 0
			if x.places, err = c.Allocate(int64(len(viewBytes(numbers)))); err != nil {
				return err
			}
			x.most = len(places)
		}
		if err := c.Upload(x.places, viewBytes(numbers)); err != nil {
			return err
		}
		k := x.routes
		k.Places, k.Out = x.places, driver.Pointer(into)
		if err := c.Launch("lockstep_observe", len(places), observeThreads, 0,
			viewBytes([]observingBlock{k})); err != nil {
			return err
		}
		return x.simulator.synchronize(context.Background(), c, int64(len(places)))
	})
}

// Follow has the device wait for a stream.
func (x *experience) Follow(stream uintptr) error {
	return x.use(func(c *connection) error { return c.Follow(stream) })
}

// Precede has a stream wait for the device.
func (x *experience) Precede(stream uintptr) error {
	return x.use(func(c *connection) error { return c.Precede(stream) })
}

// Close frees the memory, if the device still has it.
func (x *experience) Close() error {
	x.use(func(c *connection) error {
		err := c.Release(x.memory)
		if x.most > 0 {
			err = errors.Join(err, c.Release(x.places))
		}
		return err
	})
	return nil
}
