package runs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"lockstep"
)

// commitEvery is how long results may wait for others to be put on the disk with
// them: a synchronisation takes some milliseconds.
const commitEvery = 100 * time.Millisecond

// Stream runs the jobs, which are the plan's rollouts in order, and calls emit with
// every result in that order, as soon as those before it are there; emit returns false
// to end the run. With a journal,
// what it has is not computed again, and a result is on the disk before it is
// emitted. When ctx ends, what had finished is kept, results that others should
// precede are emitted last, and the error is ctx's.
//
// done, if not nil, is called for each result as it is there, in whatever order.
func Stream(ctx context.Context, sim lockstep.Simulator, jobs []lockstep.Job, opts lockstep.Options, journal *Journal,
	done func(), emit func(i int, r lockstep.Result) bool) error {
	if done == nil {
		done = func() {}
	}
	s := &stream{results: make([]*lockstep.Result, len(jobs)), emit: emit}
	var missing []int
	for i := range jobs {
		if journal != nil {
			if r, ok := journal.Result(i); ok {
				result := r.Result()
				s.results[i] = &result
				done()
				continue
			}
		}
		missing = append(missing, i)
	}
	s.advance()
	if len(missing) == 0 {
		return nil
	}

	work := make([]lockstep.Job, len(missing))
	for k, i := range missing {
		work[k] = jobs[i]
	}
	var stop atomic.Bool
	queue := newQueue()
	go func() {
		defer queue.close()
		for k, result := range sim.Simulate(ctx, work, opts) {
			if ctx.Err() != nil && errors.Is(result.Err, ctx.Err()) {
				continue // not a result: it was not computed
			}
			queue.put(finished{missing[k], result})
			done()
			if stop.Load() {
				break
			}
		}
	}()
	for batch := queue.take(); batch != nil; batch = queue.take() {
		if journal != nil {
			records := make([]Result, len(batch))
			for k, f := range batch {
				records[k] = NewResult(f.rollout, f.result)
			}
			if err := journal.Add(records...); err != nil {
				stop.Store(true)
				for queue.take() != nil { // until the engine has ended
				}
				return err
			}
		}
		for _, f := range batch {
			s.results[f.rollout] = &f.result
		}
		if s.advance(); s.stopped {
			stop.Store(true)
		}
		if journal != nil {
			select {
			case <-queue.ended:
			case <-time.After(commitEvery):
			}
		}
	}
	s.rest()
	return ctx.Err()
}

// stream emits results in order.
type stream struct {
	results []*lockstep.Result
	next    int
	emit    func(i int, r lockstep.Result) bool
	stopped bool // by emit
}

// advance emits what follows on what was emitted.
func (s *stream) advance() {
	for ; s.next < len(s.results) && s.results[s.next] != nil && !s.stopped; s.next++ {
		s.stopped = !s.emit(s.next, *s.results[s.next])
	}
}

// rest emits what is there behind a gap.
func (s *stream) rest() {
	for ; s.next < len(s.results) && !s.stopped; s.next++ {
		if r := s.results[s.next]; r != nil {
			s.stopped = !s.emit(s.next, *r)
		}
	}
}

// finished is a rollout's result.
type finished struct {
	rollout int
	result  lockstep.Result
}

// queue hands results over without ever holding the engine up.
type queue struct {
	mu      sync.Mutex
	waiting []finished
	filled  chan struct{} // of capacity 1
	ended   chan struct{} // closed at the end
}

func newQueue() *queue {
	return &queue{filled: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (q *queue) put(f finished) {
	q.mu.Lock()
	q.waiting = append(q.waiting, f)
	q.mu.Unlock()
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

func (q *queue) close() { close(q.ended) }

// take returns all that waits, at least one; nil at the end.
func (q *queue) take() []finished {
	for {
		ended := false
		select {
		case <-q.filled:
		case <-q.ended:
			ended = true
		}
		q.mu.Lock()
		batch := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		if len(batch) > 0 || ended {
			return batch
		}
	}
}
