package batched

import (
	"time"

	"lockstep"
	"lockstep/internal/guard"
)

// worker advances rollouts by a step, for one goroutine at a time.
type worker struct {
	*Simulator
	network   Inference
	exp       func(y, x []float32, shift float32) // NumPy's
	shortcuts lockstep.Shortcuts
	training  *lockstep.Experience // to be filled, or nil

	predicted []*rollout // those that the network runs for
	acting    []*rollout // those whose policy is a network that has yet to act
	ready     []*rollout // those of them that one and the same network steers
	packed    map[*lockstep.Network]*actorNetwork
	probs     []float32        // (chunk, 1024)
	sums      []float64        // (chunk, 1024), running sums of probs
	cdf       []float64        // (1024), for observers
	tokens    [positions]int64 // for observers
	states    []float32        // for observers, who may write there
	shown     lockstep.Step
}

func (s *Simulator) newWorker(
	shape shape, shortcuts lockstep.Shortcuts, training *lockstep.Experience,
) (*worker, error) {
	open := s.config.Open
	if open == nil {
		open = func(capacity int, _ bool) (Inference, error) {
			n := newNetwork(s.weights, s.kernels, s.profile, capacity, shape.group)
			n.alone = s.alone
			return n, nil
		}
	}
	n, err := open(shape.chunk, shortcuts&lockstep.LastPosition != 0)
	if err != nil {
		return nil, err
	}
	return &worker{
		Simulator: s,
		network:   n,
		exp:       s.kernels.For(s.profile).Exp,
		shortcuts: shortcuts,
		training:  training,
		probs:     make([]float32, shape.chunk*vocabulary),
		sums:      make([]float64, shape.chunk*vocabulary),
		cdf:       make([]float64, vocabulary),
	}, nil
}

// close gives the network back.
func (w *worker) close() error {
	if w == nil {
		return nil
	}
	return w.network.Close()
}

// advance computes the next step of each of some rollouts, a chunk at most. A rollout that has
// no controller of its own has been given its command. What fails is noted in the rollout.
func (w *worker) advance(rollouts []*rollout) {
	w.control(rollouts)
	w.predicted = w.predicted[:0]
	tokens, states := w.network.Tokens(), w.network.States()
	for _, r := range rollouts {
		if r.err != nil {
			continue
		}
		r.steer()
		r.row = -1
		if r.step < lockstep.ControlStartIdx && w.shortcuts&lockstep.SkipWarmup != 0 {
			r.arrive(r.target[r.step])
			continue
		}
		k := len(w.predicted)
		if r.err = r.window(tokens[k*positions:], states[k*positions*4:]); r.err == nil {
			r.row, w.predicted = k, append(w.predicted, r)
		}
	}
	w.predict()
	for _, r := range rollouts {
		if r.err == nil && r.job.Observe != nil {
			w.observe(r)
		}
		if r.err != nil {
			continue
		}
		if w.training != nil && r.step >= lockstep.ControlStartIdx {
			r.controller.(actor).Record(w.training, r.index, r.step, r.lataccel, r.action)
		}
		r.step++
	}
}

// control asks the rollouts' own controllers.
func (w *worker) control(rollouts []*rollout) {
	w.acting = w.acting[:0]
	for _, r := range rollouts {
		if r.controller == nil {
			continue
		}
		r.command = r.controller.update(r)
		if _, ok := r.controller.(actor); ok && r.step >= lockstep.ControlStartIdx {
			w.acting = append(w.acting, r)
		}
	}
	w.actTogether()
}

// predict runs the network and moves the rollouts by what it says.
func (w *worker) predict() {
	n := len(w.predicted)
	if n == 0 {
		return
	}
	start := time.Now()
	err := w.network.Run(n)
	w.networkTime.Add(int64(time.Since(start)))
	if err != nil {
		for _, r := range w.predicted {
			r.err = err
		}
		return
	}
	logits := w.network.Logits()
	for i := range n {
		w.probabilities(row(w.probs, i), row(logits, i))
	}
	runningSums(w.sums[:n*vocabulary], w.probs[:n*vocabulary])
	for i, r := range w.predicted {
		sums := row(w.sums, i)
		if r.err = checkSum(sums[vocabulary-1]); r.err != nil {
			continue
		}
		r.token = choose(sums, r.draw())
		r.prediction = bins[r.token]
		if r.job.Expected {
			r.token, r.prediction = -1, expectation(row(w.probs, i))
		}
		r.drive(r.prediction)
	}
}

// row is that of a rollout in an array of a number for each token.
func row[T float32 | float64](all []T, i int) []T { return all[i*vocabulary:][:vocabulary] }

// observe shows a rollout's step to the job's observer.
func (w *worker) observe(r *rollout) {
	w.shown = lockstep.Step{
		Index: r.step, Action: r.computed.action, Draw: r.draw(), Sample: -1,
		Lataccel: r.computed.lataccel,
	}
	if s := &w.shown; r.row >= 0 {
		sums := row(w.sums, r.row)
		for i, x := range sums {
			w.cdf[i] = x / sums[vocabulary-1]
		}
		s.Tokens = w.tokens[:]
		for i, t := range r.tokens[r.step-positions : r.step] {
			s.Tokens[i] = int64(t)
		}
		w.states = append(w.states[:0], r.states[(r.step+1-positions)*4:(r.step+1)*4]...)
		s.States = w.states
		s.Logits, s.Probs, s.CDF = row(w.network.Logits(), r.row), row(w.probs, r.row), w.cdf
		s.Sample, s.Prediction = r.token, r.prediction
	}
	if a, ok := r.controller.(actor); ok && r.step >= lockstep.ControlStartIdx {
		a.Show(&w.shown)
	}
	r.err = guard.Do(func() { r.job.Observe(&w.shown) })
}
