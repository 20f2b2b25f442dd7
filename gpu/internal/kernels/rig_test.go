package kernels_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
	"unsafe"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/kernels"
	"lockstep/internal/defaults"
	"lockstep/internal/model"
	"lockstep/internal/want"
)

// The structs of launch.h.
type (
	abiRoute struct{ rows, first int64 }
	abiJob   struct {
		route, noise int64
		_            int64 // origin
		kind         int64
		gains        [10]float64
		_            driver.Pointer // table
		actor        driver.Pointer
		_            int64     // sampled
		_            [2]uint64 // seed, id
		_            int64     // expected
	}
	abiLayer struct {
		inputs, outputs, tanh int64
		weights               driver.Pointer
	}
	abiActor struct {
		scale  float64
		_, _   int64          // declared, contract
		_      driver.Pointer // sees
		layers int64
		layer  [lockstep.MaxLayers]abiLayer
	}
	abiStatus struct {
		code, step int64
		value      float64
		_, _       int64 // sampled, serial
	}
	abiMemory    [3]float64
	abiTraceStep struct {
		action, draw, prediction, lataccel float64
		sample, network                    int64
		tokens                             [lockstep.ContextLength]int64
		states                             [4 * lockstep.ContextLength]float32
		logits, probs                      [lockstep.VocabSize]float32
		cdf                                [lockstep.VocabSize]float64
		_                                  [lockstep.MaxWidth + lockstep.ActorSize]float32
		_                                  float64 // raw
	}
	abiLaunch struct {
		jobs, _ /* first */, stride, first, end int64
		shortcuts                               int64
		layerNorm, softmax, exp                 int64
		weights, routes, job                    driver.Pointer
		rollLataccel, vEgo, aEgo, target, steer driver.Pointer
		lataccel, action                        driver.Pointer
		_, _                                    driver.Pointer // past
		draws, memory, status                   driver.Pointer
		commands                                driver.Pointer
		width                                   int64
		_                                       driver.Pointer // now
		teacherLataccel, teacherAction          driver.Pointer
		costs                                   driver.Pointer
		// partial, path, variate, softplus, reward
		_, _, _, _, _        driver.Pointer
		trace                driver.Pointer
		traceFirst, traceEnd int64
	}
)

const (
	statusOK = iota
	statusNoToken
	statusNotDistribution
	statusNoController
)

const kindHost = -1

// raw is a slice's memory.
func raw[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// open opens a device that is closed with the test.
func open(t testing.TB, options emulated.Options) *emulated.Device {
	t.Helper()
	want.Compiler.Need(t)
	d, err := emulated.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func upload[T any](t testing.TB, d driver.Device, s []T) driver.Pointer {
	t.Helper()
	p, err := d.Allocate(int64(max(1, len(raw(s)))))
	must(t, err)
	if len(s) > 0 {
		must(t, d.Upload(p, raw(s)))
	}
	return p
}

// room reserves memory for n values and leaves in it what the device does.
func room[T any](t testing.TB, d driver.Device, n int) driver.Pointer {
	t.Helper()
	var v T
	p, err := d.Allocate(int64(max(1, n*int(unsafe.Sizeof(v)))))
	must(t, err)
	return p
}

func download[T any](t testing.TB, d driver.Device, p driver.Pointer, n int) []T {
	t.Helper()
	s := make([]T, n)
	if n > 0 {
		must(t, d.Download(raw(s), p))
	}
	return s
}

func synchronize(t testing.TB, d driver.Device) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	must(t, d.Synchronize(ctx))
}

// layout reads lockstep_layout.
func layout(t testing.TB, d driver.Device) []int64 {
	t.Helper()
	p, size, err := d.Symbol("lockstep_layout")
	must(t, err)
	data := make([]byte, size)
	must(t, d.Download(data, p))
	synchronize(t, d)
	words := make([]int64, size/8)
	for i := range words {
		words[i] = int64(binary.NativeEndian.Uint64(data[8*i:]))
	}
	return words
}

// shared is the shared memory of a block of r routes.
func shared(t testing.TB, d driver.Device, r int) int {
	t.Helper()
	l := layout(t, d)
	for i := 14; i+1 < len(l); i += 2 {
		if l[i] == int64(r) {
			return int(l[i+1])
		}
	}
	t.Fatalf("no kernel for %d routes in %v", r, l)
	return 0
}

// rollouts say what is run.
type rollouts struct {
	routes    []*lockstep.Route
	policies  []lockstep.Policy // of the routes
	profile   lockstep.Profile
	shortcuts lockstep.Shortcuts
	teachers  []*lockstep.Trajectory
	draws     [][]float64 // in place of the seeds'
	less      int         // bytes of shared memory fewer than the kernel wants
	block     int         // routes of a block
	threads   int
	steps     []int                       // where launches end, the last at the end
	commands  func(job, step int) float64 // of kHost
	traced    [2]int                      // steps
	all       bool                        // kernels that know every kind of policy
	kinds     map[int]int64               // in place of a policy's, by job
}

// outcome is what came of one route.
type outcome struct {
	status           abiStatus
	costs            lockstep.Costs
	lataccel, action []float64
	steps            []abiTraceStep
}

var defaultWeights = sync.OnceValues(func() ([]float32, error) {
	w, err := model.Parse(defaults.Model())
	if err != nil {
		return nil, err
	}
	return kernels.Pack(w), nil
})

func weights(t testing.TB) []float32 {
	t.Helper()
	w, err := defaultWeights()
	must(t, err)
	return w
}

// uploadActor puts a network that steers on a device.
func uploadActor(
	t testing.TB, d driver.Device, n *lockstep.Network,
) (actor driver.Pointer, weights []driver.Pointer) {
	t.Helper()
	a := abiActor{scale: n.Scale, layers: int64(len(n.Layers))}
	for i := range n.Layers {
		inputs, outputs, numbers := kernels.PackLayer(&n.Layers[i])
		weights = append(weights, upload(t, d, numbers))
		a.layer[i] = abiLayer{int64(inputs), int64(outputs), 0, weights[i]}
	}
	return upload(t, d, []abiActor{a}), weights
}

// columns are what the device sees of routes: their rows, one behind the other.
type columns struct {
	routes                          []abiRoute
	roll, vEgo, aEgo, target, steer []float64
	stride                          int // the longest route's rows
}

func columnsOf(routes []*lockstep.Route) (c columns) {
	for _, route := range routes {
		c.routes = append(c.routes, abiRoute{int64(route.Len()), int64(len(c.target))})
		c.stride = max(c.stride, route.Len())
		c.roll = append(c.roll, route.RollLataccel...)
		c.vEgo = append(c.vEgo, route.VEgo...)
		c.aEgo = append(c.aEgo, route.AEgo...)
		c.target = append(c.target, route.TargetLataccel...)
		c.steer = append(c.steer, route.SteerCommand[:lockstep.ControlStartIdx]...)
	}
	return c
}

// job is what the device is told of a rollout, with the memory that its network takes.
func (r *rollouts) job(t testing.TB, d driver.Device, i int) (j abiJob, actor []driver.Pointer) {
	t.Helper()
	j = abiJob{route: int64(i), noise: int64(r.routes[i].Seed)}
	if r.draws != nil && r.draws[i] != nil {
		j.noise = -1
	}
	switch p := r.policies[i].(type) {
	case lockstep.Zero:
	case lockstep.PID:
		j.kind = int64(p.Kind())
		copy(j.gains[:], p.Gains())
	case *lockstep.Network:
		j.kind = int64(p.Kind())
		j.actor, actor = uploadActor(t, d, p)
		actor = append(actor, j.actor)
	default:
		j.kind = kindHost
	}
	if kind, ok := r.kinds[i]; ok {
		j.kind = kind
	}
	return j, actor
}

// taught are teachers' columns, for rollouts of so many rows.
func (r *rollouts) taught(stride int) (lataccel, action []float64) {
	lataccel = make([]float64, len(r.teachers)*stride)
	action = make([]float64, len(r.teachers)*stride)
	for i, teacher := range r.teachers {
		copy(lataccel[i*stride:], teacher.Lataccel)
		copy(action[i*stride:], teacher.Action)
	}
	return lataccel, action
}

// drawn are the draws in place of the seeds', for rollouts of so many rows.
func (r *rollouts) drawn(stride int) []float64 {
	draws := make([]float64, len(r.draws)*stride)
	for i, of := range r.draws {
		copy(draws[i*stride+lockstep.ContextLength:], of)
	}
	return draws
}

// run runs rollouts on a device.
func run(t testing.TB, d driver.Device, r rollouts) []outcome {
	t.Helper()
	jobs := len(r.routes)
	c := columnsOf(r.routes)
	var work []abiJob
	var actors []driver.Pointer // with their weights
	for i := range r.routes {
		j, actor := r.job(t, d, i)
		work, actors = append(work, j), append(actors, actor...)
	}
	stride, traced := c.stride, r.traced[1]-r.traced[0]
	l := abiLaunch{
		jobs:         int64(jobs),
		stride:       int64(stride),
		width:        int64(jobs),
		shortcuts:    int64(r.shortcuts & (lockstep.SkipWarmup | lockstep.StopAtCostEnd)),
		layerNorm:    int64(r.profile.LayerNorm),
		softmax:      int64(r.profile.Softmax),
		exp:          int64(r.profile.Exp),
		weights:      upload(t, d, weights(t)),
		routes:       upload(t, d, c.routes),
		job:          upload(t, d, work),
		rollLataccel: upload(t, d, c.roll),
		vEgo:         upload(t, d, c.vEgo),
		aEgo:         upload(t, d, c.aEgo),
		target:       upload(t, d, c.target),
		steer:        upload(t, d, c.steer),
		lataccel:     room[float64](t, d, jobs*stride),
		action:       room[float64](t, d, jobs*stride),
		draws:        room[float64](t, d, jobs*stride),
		memory:       room[abiMemory](t, d, jobs),
		status:       upload(t, d, make([]abiStatus, jobs)),
		costs:        room[float64](t, d, 3*jobs),
	}
	if traced > 0 {
		l.trace = room[abiTraceStep](t, d, jobs*traced)
		l.traceFirst, l.traceEnd = int64(r.traced[0]), int64(r.traced[1])
	}
	if r.teachers != nil {
		lataccel, action := r.taught(stride)
		l.teacherLataccel, l.teacherAction = upload(t, d, lataccel), upload(t, d, action)
	}
	if r.draws != nil {
		must(t, d.Upload(l.draws, raw(r.drawn(stride))))
	}
	if r.commands != nil {
		l.commands = room[float64](t, d, jobs)
	}
	r.launch(t, d, &l)
	return r.collect(t, d, &l, actors)
}

// launch launches the kernel for each part of the steps, with the commands of its first.
func (r *rollouts) launch(t testing.TB, d driver.Device, l *abiLaunch) {
	t.Helper()
	block, threads, steps, jobs := max(r.block, 1), r.threads, r.steps, len(r.routes)
	if threads == 0 {
		threads = 256
	}
	if steps == nil {
		steps = []int{int(l.stride)}
	}
	bytes := shared(t, d, block)
	name := fmt.Sprintf("lockstep_rollout_r%d", block)
	if r.all {
		name = fmt.Sprintf("lockstep_policy_r%d", block)
	}
	first := lockstep.ContextLength
	for _, end := range steps {
		if r.commands != nil {
			commands := make([]float64, jobs)
			for j := range commands {
				commands[j] = r.commands(j, first)
			}
			must(t, d.Upload(l.commands, raw(commands)))
		}
		l.first, l.end = int64(first), int64(end)
		must(
			t,
			d.Launch(name, (jobs+block-1)/block, threads, bytes-r.less, raw([]abiLaunch{*l})),
		)
		first = end
	}
}

// collect downloads what came of the rollouts, and releases all memory.
func (r *rollouts) collect(
	t testing.TB, d driver.Device, l *abiLaunch, actors []driver.Pointer,
) (out []outcome) {
	t.Helper()
	jobs, stride, traced := len(r.routes), int(l.stride), r.traced[1]-r.traced[0]
	status := download[abiStatus](t, d, l.status, jobs)
	costs := download[float64](t, d, l.costs, 3*jobs)
	lataccel := download[float64](t, d, l.lataccel, jobs*stride)
	action := download[float64](t, d, l.action, jobs*stride)
	var trace []abiTraceStep
	if traced > 0 {
		trace = download[abiTraceStep](t, d, l.trace, jobs*traced)
	}
	synchronize(t, d)
	for _, p := range append(
		actors, l.weights, l.routes, l.job, l.rollLataccel, l.vEgo, l.aEgo, l.target, l.steer,
		l.lataccel, l.action, l.draws, l.memory, l.status, l.costs, l.trace, l.teacherLataccel,
		l.teacherAction, l.commands,
	) {
		if p != 0 {
			must(t, d.Release(p))
		}
	}
	for i := range jobs {
		o := outcome{
			status:   status[i],
			costs:    lockstep.Costs{Lataccel: costs[3*i], Jerk: costs[3*i+1], Total: costs[3*i+2]},
			lataccel: lataccel[i*stride:][:r.routes[i].Len()],
			action:   action[i*stride:][:r.routes[i].Len()],
		}
		if traced > 0 {
			o.steps = trace[i*traced:][:traced]
		}
		out = append(out, o)
	}
	return out
}

// modelPath is the embedded network as a file.
func modelPath(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.onnx")
	must(t, os.WriteFile(path, defaults.Model(), 0o644))
	return path
}
