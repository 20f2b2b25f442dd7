package pycontroller

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"lockstep"
)

// chunk steers routes, in one process or a few.
type chunk struct {
	parts  []*part
	closed bool
}

// part is those of a chunk's routes that one process steers.
type part struct {
	controllers *Controllers
	from, to    int // the routes

	worker *worker
	routes []*lockstep.Route
	shown  []int // the row of each route up to which the process has seen it
	failed error // of the process
	// routes whose controller could not be made, counted from the part's first
	unmade  map[int]error
	message []byte
}

// each calls f for all parts at once.
func (c *chunk) each(f func(i int, p *part)) {
	if len(c.parts) == 1 {
		f(0, c.parts[0])
		return
	}
	var group sync.WaitGroup
	for i, p := range c.parts {
		group.Go(func() { f(i, p) })
	}
	group.Wait()
}

// Update asks the processes for one step. A process that hangs or ends fails its
// routes, an exception the route that it is raised for.
func (c *chunk) Update(s *lockstep.BatchStep) error {
	c.each(func(_ int, p *part) { p.update(s) })
	return nil
}

// Close gives the processes back.
func (c *chunk) Close() error {
	var failed error
	for _, p := range c.parts {
		if p.worker != nil {
			p.controllers.give(p.worker)
			p.worker = nil
		}
		failed = errors.Join(failed, p.failed)
	}
	if !c.closed {
		c.closed = true
		c.parts[0].controllers.ended(failed)
	}
	return nil
}

// start takes a worker and gives it the routes. A worker that was idle may have
// ended meanwhile; then another is tried.
func (p *part) start(routes []*lockstep.Route) error {
	for {
		w, reused, err := p.controllers.take(true)
		if err != nil {
			return err
		}
		if err = p.load(w, routes); err == nil {
			p.worker = w
			return nil
		}
		p.controllers.drop(w)
		if !reused || errors.Is(err, errTimeout) {
			return cmp.Or(p.controllers.whyClosed(), err)
		}
	}
}

// load makes a worker's controllers, each with a message of its own, since that may
// take long.
func (p *part) load(w *worker, routes []*lockstep.Route) error {
	p.unmade, p.routes, p.shown = map[int]error{}, routes, make([]int, len(routes))
	for i := range routes {
		p.message = binary.LittleEndian.AppendUint32(append(p.message[:0], 'S'), uint32(i))
		answer, err := w.ask(p.message)
		if err == nil {
			err = w.eachError(answer, len(routes), func(i int, err error) { p.unmade[i] = err })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// update fills in the part's elements of a step.
func (p *part) update(s *lockstep.BatchStep) {
	fail := func(err error) {
		for i := p.from; i < p.to; i++ {
			if s.Running[i] {
				s.Err[i] = err
			}
		}
	}
	if p.failed != nil {
		fail(p.failed)
		return
	}
	message := append(p.message[:0], 'U')
	message = binary.LittleEndian.AppendUint32(message, uint32(s.Step))
	any := false
	for i := p.from; i < p.to; i++ {
		running := byte(0)
		switch {
		case !s.Running[i]:
		case p.unmade[i-p.from] != nil:
			s.Err[i] = p.unmade[i-p.from]
		default:
			running, any = 1, true
		}
		message = append(message, running)
	}
	message = appendFloats(message, s.CurrentLataccel[p.from:p.to])
	p.message = p.appendRows(message, s)
	if !any {
		return
	}
	n := p.to - p.from
	answer, err := p.worker.ask(p.message)
	if err == nil && len(answer) < 8*n {
		err = p.worker.lost(errGarbled)
	}
	if err == nil {
		for i := range n {
			s.Steer[p.from+i] = math.Float64frombits(binary.LittleEndian.Uint64(answer[8*i:]))
		}
		err = p.worker.eachError(answer[8*n:], n, func(i int, err error) { s.Err[p.from+i] = err })
	}
	if err != nil {
		if why := p.controllers.whyClosed(); why != nil {
			err = why
		}
		p.failed = err
		p.controllers.drop(p.worker)
		p.worker = nil
		fail(err)
	}
}

// appendRows adds what the plans of this step show and the process has not seen. Nothing
// else of a route is ever in it, so that no controller finds the rest there.
func (p *part) appendRows(message []byte, s *lockstep.BatchStep) []byte {
	n := p.to - p.from
	counts := len(message)
	message = append(message, make([]byte, 4*n)...)
	running := message[counts-9*n : counts-8*n]
	for i, r := range p.routes {
		if running[i] == 0 {
			continue
		}
		from, to := max(p.shown[i], s.Step), min(s.Step+lockstep.FuturePlanSteps, r.Len())
		for k := from; k < to; k++ {
			message = appendFloats(
				message, []float64{r.TargetLataccel[k], r.RollLataccel[k], r.VEgo[k], r.AEgo[k]},
			)
		}
		if to > from {
			binary.LittleEndian.PutUint32(message[counts+4*i:], uint32(to-from))
		}
		p.shown[i] = max(p.shown[i], to)
	}
	return message
}

func appendFloats(b []byte, values []float64) []byte {
	for _, x := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}
