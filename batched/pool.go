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
// changes hands loses nothing. Until the first result is there, a worker holds a few
// rollouts only, however many it could: whoever reads the results is not kept waiting for all
// that it computes together.
//
// While a batch controller answers, in a goroutine of its own, its rollouts are with no
// worker; others compute. No more than two gangs a worker have one at a time.
type pool struct {
	workers, capacity int
	begin             func(unit) *gang // nil if none of its jobs can begin
	advance           func(worker int, all []*rollout)
	finish            func(*rollout) // reports what has ended or failed

	mutex      sync.Mutex
	changed    sync.Cond
	alone      []unit  // that nobody began, each of a job
	together   []unit  // that nobody began, with batch controllers
	ready      []*gang // that no worker holds
	asking     int     // gangs with batch controllers
	jobs       int
	unfinished int  // jobs without a result
	waiting    int  // workers that hold nothing
	wanting    bool // a worker holds less than its share

	away sync.WaitGroup // goroutines with batch controllers
}

// atFirst is how many rollouts a worker holds until there is a result.
const atFirst = 4

// unit is the jobs of a gang, by their index.
type unit struct {
	policy *lockstep.Batch
	jobs   []int
}

// newPool makes a pool of jobs. Those with the same batch policy are put together, in
// so many units that while some of their controllers answer there is work with others. The
// first ones are small.
func newPool(jobs []lockstep.Job, workers, capacity int) *pool {
	p := &pool{workers: workers, capacity: capacity, jobs: len(jobs), unfinished: len(jobs)}
	p.changed.L = &p.mutex
	count := map[*lockstep.Batch]int{}
	for i := range jobs {
		if b, ok := jobs[i].Policy.(*lockstep.Batch); ok && b != nil {
			count[b]++
		}
	}
	// the unit that is filled; units
	open, begun := map[*lockstep.Batch]int{}, map[*lockstep.Batch]int{}
	for i := range jobs {
		b, _ := jobs[i].Policy.(*lockstep.Batch)
		if b == nil {
			p.alone = append(p.alone, unit{jobs: []int{i}})
			continue
		}
		size := min(capacity, max(1, (count[b]+2*workers-1)/(2*workers)))
		if begun[b] <= workers {
			size = min(size, atFirst)
		}
		k, ok := open[b]
		if !ok || len(p.together[k].jobs) >= size {
			k = len(p.together)
			open[b], begun[b] = k, begun[b]+1
			p.together = append(p.together, unit{policy: b})
		}
		p.together[k].jobs = append(p.together[k].jobs, i)
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
		share := p.share()
		for len(mine) > 1 && (p.wanting && held > share || p.waiting > len(p.ready)) {
			g := mine[len(mine)-1]
			mine, held = mine[:len(mine)-1], held-len(g.rollouts)
			p.ready = append(p.ready, g)
			p.changed.Signal()
		}
		// What is ready is for those who wait; who holds something takes what is over.
		for held < share && (held == 0 || len(p.alone)+len(p.together)+len(p.ready) > p.waiting) {
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

// share is how many rollouts a worker holds. The mutex is held.
func (p *pool) share() int {
	share := min((p.unfinished+p.workers-1)/p.workers, p.capacity)
	if p.unfinished == p.jobs {
		share = min(share, atFirst)
	}
	return max(1, share)
}

// unit takes the first unit that may begin, if there is one. The mutex is held.
func (p *pool) unit() (u unit, ok bool) {
	from, most := &p.alone, 2*p.workers
	if p.unfinished == p.jobs {
		most = p.workers
	}
	if len(p.together) > 0 && p.asking < most &&
		(len(p.alone) == 0 || p.together[0].jobs[0] < p.alone[0].jobs[0]) {
		from = &p.together
		p.asking++
	}
	if len(*from) == 0 {
		return u, false
	}
	u, *from = (*from)[0], (*from)[1:]
	return u, true
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
		u, ok := p.unit()
		if !ok {
			return nil
		}
		p.mutex.Unlock()
		g := p.begin(u)
		p.mutex.Lock()
		switch {
		case g == nil && u.policy != nil:
			p.asking--
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
		p.away.Go(func() { g.close() })
		p.mutex.Lock()
		p.asking--
		p.changed.Signal() // another may begin
		p.mutex.Unlock()
	}
	return runs
}

// finished counts a job that has its result. After the first one more may begin.
func (p *pool) finished() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.unfinished--; p.unfinished == 0 || p.unfinished == p.jobs-1 {
		p.changed.Broadcast()
	}
}
