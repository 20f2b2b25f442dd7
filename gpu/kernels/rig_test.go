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
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/emulated"
	"lockstep/gpu/kernels"
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
		inputs, outputs int64
		weights         driver.Pointer
	}
	abiActor struct {
		scale  float64
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
		_                                  [lockstep.ObservationSize + lockstep.ActorSize]float32
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
	for i := 12; i+1 < len(l); i += 2 {
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
		a.layer[i] = abiLayer{int64(inputs), int64(outputs), weights[i]}
	}
	return upload(t, d, []abiActor{a}), weights
}

// run runs rollouts on a device.
func run(t testing.TB, d driver.Device, r rollouts) []outcome {
	t.Helper()
	jobs, stride := len(r.routes), 0
	var routes []abiRoute
	var work []abiJob
	var actors []driver.Pointer // with their weights
	var roll, vEgo, aEgo, target, steer []float64
	for i, route := range r.routes {
		routes = append(routes, abiRoute{int64(route.Len()), int64(len(target))})
		j := abiJob{route: int64(i), noise: int64(route.Seed)}
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
			var weights []driver.Pointer
			j.actor, weights = uploadActor(t, d, p)
			actors = append(append(actors, weights...), j.actor)
		default:
			j.kind = kindHost
		}
		if kind, ok := r.kinds[i]; ok {
			j.kind = kind
		}
		work = append(work, j)
		stride = max(stride, route.Len())
		roll = append(roll, route.RollLataccel...)
		vEgo = append(vEgo, route.VEgo...)
		aEgo = append(aEgo, route.AEgo...)
		target = append(target, route.TargetLataccel...)
		steer = append(steer, route.SteerCommand[:lockstep.ControlStartIdx]...)
	}
	traced := r.traced[1] - r.traced[0]
	l := abiLaunch{
		jobs:         int64(jobs),
		stride:       int64(stride),
		width:        int64(jobs),
		shortcuts:    int64(r.shortcuts & (lockstep.SkipWarmup | lockstep.StopAtCostEnd)),
		layerNorm:    int64(r.profile.LayerNorm),
		softmax:      int64(r.profile.Softmax),
		exp:          int64(r.profile.Exp),
		weights:      upload(t, d, weights(t)),
		routes:       upload(t, d, routes),
		job:          upload(t, d, work),
		rollLataccel: upload(t, d, roll),
		vEgo:         upload(t, d, vEgo),
		aEgo:         upload(t, d, aEgo),
		target:       upload(t, d, target),
		steer:        upload(t, d, steer),
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
		lataccel, action := make([]float64, jobs*stride), make([]float64, jobs*stride)
		for i, teacher := range r.teachers {
			copy(lataccel[i*stride:], teacher.Lataccel)
			copy(action[i*stride:], teacher.Action)
		}
		l.teacherLataccel, l.teacherAction = upload(t, d, lataccel), upload(t, d, action)
	}
	if r.draws != nil {
		draws := make([]float64, jobs*stride)
		for i, of := range r.draws {
			copy(draws[i*stride+lockstep.ContextLength:], of)
		}
		must(t, d.Upload(l.draws, raw(draws)))
	}
	if r.commands != nil {
		l.commands = room[float64](t, d, jobs)
	}
	if r.block == 0 {
		r.block = 1
	}
	if r.threads == 0 {
		r.threads = 256
	}
	if r.steps == nil {
		r.steps = []int{stride}
	}
	bytes := shared(t, d, r.block)
	name := fmt.Sprintf("lockstep_rollout_r%d", r.block)
	if r.all {
		name = fmt.Sprintf("lockstep_policy_r%d", r.block)
	}
	first := lockstep.ContextLength
	for _, end := range r.steps {
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
			d.Launch(name, (jobs+r.block-1)/r.block, r.threads, bytes-r.less, raw([]abiLaunch{l})),
		)
		first = end
	}
	status := download[abiStatus](t, d, l.status, jobs)
	costs := download[float64](t, d, l.costs, 3*jobs)
	lataccel, action := download[float64](t, d, l.lataccel, jobs*stride),
		download[float64](t, d, l.action, jobs*stride)
	var trace []abiTraceStep
	if traced > 0 {
		trace = download[abiTraceStep](t, d, l.trace, jobs*traced)
	}
	synchronize(t, d)
	for _, p := range append(actors, l.weights, l.routes, l.job, l.rollLataccel, l.vEgo, l.aEgo, l.target, l.steer, l.lataccel, l.action,
		l.draws, l.memory, l.status, l.costs, l.trace, l.teacherLataccel, l.teacherAction, l.commands) {
		if p != 0 {
			must(t, d.Release(p))
		}
	}
	var out []outcome
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
