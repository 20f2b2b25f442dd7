package batched

import (
	"slices"
	"sync"

	"lockstep"
)

// pool spreads jobs over workers, so that all of them have work until the last
// rollouts. A worker holds its share of what is not finished and no more than fits its
// network. It takes a job whenever it holds less. One that holds more gives some away
// as soon as another holds less and finds nothing, and whoever holds two gives one to
// a worker that has none. This happens between steps, and a rollout that
// changes hands loses nothing.
//
// While a batch controller answers, in a goroutine of its own, its rollouts are with no
// worker; others compute.
type pool struct {
	workers, capacity int
	begin             func(unit) *gang // nil if none of its jobs can begin
	advance           func(worker int, all []*rollout)
	finish            func(*rollout) // reports what has ended or failed

	mutex      sync.Mutex
	changed    sync.Cond
	units      []unit  // that nobody began
	ready      []*gang // that no worker holds
	unfinished int     // jobs without a result
	waiting    int     // workers that hold nothing
	wanting    bool    // a worker holds less than its share

	away sync.WaitGroup // goroutines with batch controllers
}

// unit is the jobs of a gang, by their index.
type unit struct {
	policy *lockstep.Batch
	jobs   []int
}

// newPool makes a pool of jobs. Those with the same batch policy are put together, in
// so many units that while some of their controllers answer there is work with others.
func newPool(jobs []lockstep.Job, workers, capacity int) *pool {
	p := &pool{workers: workers, capacity: capacity, unfinished: len(jobs)}
	p.changed.L = &p.mutex
	count := map[*lockstep.Batch]int{}
	for i := range jobs {
		if b, ok := jobs[i].Policy.(*lockstep.Batch); ok && b != nil {
			count[b]++
		}
	}
	open := map[*lockstep.Batch]int{} // unit that is filled
	for i := range jobs {
		b, _ := jobs[i].Policy.(*lockstep.Batch)
		if b == nil {
			p.units = append(p.units, unit{jobs: []int{i}})
			continue
		}
		k, ok := open[b]
		size := min(capacity, max(1, (count[b]+2*workers-1)/(2*workers)))
		if !ok || len(p.units[k].jobs) == size {
			k = len(p.units)
			open[b] = k
			p.units = append(p.units, unit{policy: b})
		}
		p.units[k].jobs = append(p.units[k].jobs, i)
	}
	return p
}

// run computes all jobs.
func (p *pool) run() {
	var workers sync.WaitGroup
	for i := range min(p.workers, p.unfinished) {
		workers.Go(func() { p.work(i) })
	}
	workers.Wait()
	p.away.Wait()
}

// work is one worker.
func (p *pool) work(worker int) {
	var mine []*gang
	var all []*rollout
	for {
		mine = p.take(mine)
		if len(mine) == 0 {
			return
		}
		all = all[:0]
		for _, g := range mine {
			all = append(all, g.rollouts...)
		}
		all = slices.DeleteFunc(all, func(r *rollout) bool { return !r.running() })
		p.advance(worker, all)
		mine = slices.DeleteFunc(mine, func(g *gang) bool { return !p.keep(g) })
	}
}

// take returns what a worker holds for its next step: nothing if all is done.
func (p *pool) take(mine []*gang) []*gang {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	held := 0
	for _, g := range mine {
		held += len(g.rollouts)
	}
	for {
		share := max(1, min((p.unfinished+p.workers-1)/p.workers, p.capacity))
		for len(mine) > 1 && (p.wanting && held > share || p.waiting > len(p.ready)) {
			g := mine[len(mine)-1]
			mine, held = mine[:len(mine)-1], held-len(g.rollouts)
			p.ready = append(p.ready, g)
			p.changed.Signal()
		}
		// What is ready is for those who wait; who holds something takes what is over.
		for held < share && (held == 0 || len(p.units)+len(p.ready) > p.waiting) {
			g := p.next(p.capacity - held)
			if g == nil {
				break
			}
			mine, held = append(mine, g), held+len(g.rollouts)
		}
		p.wanting = held < share && len(p.ready) == 0
		if held > 0 || p.unfinished == 0 {
			return mine
		}
		p.waiting++
		p.changed.Wait()
		p.waiting--
	}
}

// next is a gang of at most so many rollouts, or nil. The mutex is held, but not while
// the gang begins.
func (p *pool) next(room int) *gang {
	for {
		for i, g := range p.ready {
			if len(g.rollouts) <= room {
				p.ready = slices.Delete(p.ready, i, i+1)
				return g
			}
		}
		if len(p.units) == 0 {
			return nil
		}
		u := p.units[0]
		p.units = p.units[1:]
		p.mutex.Unlock()
		g := p.begin(u)
		p.mutex.Lock()
		switch {
		case g == nil:
		case g.policy != nil:
			p.ask(g)
		default:
			return g
		}
	}
}

// ask sends a gang to its batch controller.
func (p *pool) ask(g *gang) {
	p.away.Go(func() {
		g.ask()
		if p.settle(g) {
			p.mutex.Lock()
			p.ready = append(p.ready, g)
			p.changed.Signal()
			p.mutex.Unlock()
		}
	})
}

// keep reports whether a worker goes on with a gang after a step.
func (p *pool) keep(g *gang) bool {
	if !p.settle(g) {
		return false
	}
	if g.policy != nil {
		p.ask(g)
		return false
	}
	return true
}

// settle reports the rollouts that have ended or failed, and whether others run.
func (p *pool) settle(g *gang) bool {
	runs := false
	for _, r := range g.rollouts {
		switch {
		case r.running():
			runs = true
		case !r.reported:
			r.reported = true
			p.finish(r)
			p.finished()
		}
	}
	if !runs && g.policy != nil {
		p.away.Go(g.close)
	}
	return runs
}

// finished counts a job that has its result.
func (p *pool) finished() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.unfinished--; p.unfinished == 0 {
		p.changed.Broadcast()
	}
}
