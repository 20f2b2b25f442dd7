package runs

import (
	"cmp"
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

// Work is some rollouts of a plan, one after the other.
type Work struct {
	Simulator lockstep.Simulator
	Jobs      []lockstep.Job
	First     int // the number of the first job in the plan
	Options   lockstep.Options
	Known     map[int]lockstep.Result // by their numbers in the plan: these are not computed
	Journal   *Journal                // nil keeps nothing
	// called for each result as it is there, in whatever order; or nil
	Done func()
}

// Stream runs the jobs and calls emit with the number in the plan and the result of
// each, in order, as soon as those before it are there. With a journal, what it has is
// not computed again, and a result is on the disk before it is emitted. A passing error is
// emitted and never kept, and so is that of a job of which the engine gives no result. When
// ctx ends, what had finished is kept, results that others should precede are emitted last,
// and the error is ctx's.
func (w *Work) Stream(ctx context.Context, emit func(i int, r lockstep.Result)) error {
	done := w.Done
	if done == nil {
		done = func() {}
	}
	s := &stream{first: w.First, emit: emit}
	var missing []int // of the jobs, without a result
	var err error
	if s.results, missing, err = w.there(done); err != nil {
		return err
	}
	s.advance()
	if len(missing) == 0 {
		return nil
	}
	var jobs []lockstep.Job
	for _, i := range missing {
		jobs = append(jobs, w.Jobs[i])
	}

	var stop atomic.Bool
	queue := newQueue()
	go func() {
		defer queue.close()
		for k, result := range w.Simulator.Simulate(ctx, jobs, w.Options) {
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
		if w.Journal != nil {
			var records []Result
			for _, f := range batch {
				if !lockstep.IsPassing(f.result.Err) {
					records = append(records, NewResult(w.First+f.job, f.result))
				}
			}
			if err := w.Journal.Add(records...); err != nil {
				stop.Store(true)
				for queue.take() != nil { // until the engine has ended
				}
				return err
			}
		}
		for _, f := range batch {
			s.results[f.job] = &f.result
		}
		s.advance()
		if w.Journal != nil {
			select {
			case <-queue.ended:
			case <-time.After(commitEvery):
			}
		}
	}
	err = ctx.Err()
	s.rest(err != nil)
	return cmp.Or(w.Journal.Check(), err)
}

// there are the results that need not be computed, from Known or from the journal, and the jobs
// that have none. What only Known has is written to the journal.
func (w *Work) there(done func()) (results []*lockstep.Result, missing []int, err error) {
	results = make([]*lockstep.Result, len(w.Jobs))
	var fresh []Result
	for i := range w.Jobs {
		result, known := w.Known[w.First+i]
		switch kept, ok := w.Journal.Result(w.First + i); {
		case known && !ok:
			if !lockstep.IsPassing(result.Err) {
				fresh = append(fresh, NewResult(w.First+i, result))
			}
		case ok && !known:
			result = kept.Result()
		case !ok:
			missing = append(missing, i)
			continue
		}
		results[i] = &result
		done()
	}
	return results, missing, w.Journal.Add(fresh...)
}

// errNoResult is in place of what an engine does not give. It is no result to be kept.
var errNoResult = lockstep.Passing(errors.New("the engine gave no result"))

// stream emits results in order, and keeps none that it has emitted.
type stream struct {
	first   int // number of the first job
	results []*lockstep.Result
	next    int
	emit    func(i int, r lockstep.Result)
}

// advance emits what follows on what was emitted.
func (s *stream) advance() {
	for ; s.next < len(s.results) && s.results[s.next] != nil; s.next++ {
		s.emit(s.first+s.next, *s.results[s.next])
		s.results[s.next] = nil
	}
}

// rest is called when the engine has ended: it emits the results that wait for earlier ones. Those
// earlier ones are missing. If that is not because of an interruption, the engine gave no
// result, and an error is emitted in its place.
func (s *stream) rest(interrupted bool) {
	for ; s.next < len(s.results); s.next++ {
		switch r := s.results[s.next]; {
		case r != nil:
			s.emit(s.first+s.next, *r)
		case !interrupted:
			s.emit(s.first+s.next, lockstep.Result{Err: errNoResult})
		}
	}
}

// finished is a job's result.
type finished struct {
	job    int
	result lockstep.Result
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
