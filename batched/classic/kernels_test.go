package classic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"lockstep/classic"
	golden "lockstep/golden/classic"
	"lockstep/internal/guard"
)

// require fails where this CPU has no assembly to be held to anything.
func require(t *testing.T) []*kernels {
	t.Helper()
	sets := assembly()
	if len(sets) == 0 {
		t.Skip("this CPU, or this build, has no assembly: the Go functions are what runs")
	}
	return sets
}

// TestLayout holds lanes to the fields that the assembly reads.
func TestLayout(t *testing.T) {
	var l lanes
	for i, offset := range []uintptr{
		unsafe.Offsetof(l.n), unsafe.Offsetof(l.state), unsafe.Offsetof(l.observation),
		unsafe.Offsetof(l.action),
		unsafe.Offsetof(l.reward), unsafe.Offsetof(l.total), unsafe.Offsetof(l.terminated),
		unsafe.Offsetof(l.truncated),
		unsafe.Offsetof(l.elapsed), unsafe.Offsetof(l.table), unsafe.Offsetof(l.limit),
		unsafe.Offsetof(l.going),
		unsafe.Offsetof(l.end), unsafe.Offsetof(l.goal), unsafe.Offsetof(l.force),
		unsafe.Offsetof(l.sine),
		unsafe.Offsetof(l.normalSquare), unsafe.Offsetof(l.speedSquare), unsafe.Offsetof(l.pull),
		unsafe.Offsetof(l.logs), unsafe.Offsetof(l.exps),
	} {
		if offset != uintptr(8*i) {
			t.Errorf("field %d is at %d", i, offset)
		}
	}
}

// angles are beside every edge of the branches, and everywhere else.
func angles(r *rand.Rand, n int) []float64 {
	edges := []float64{
		0, 0x1p-27, 0x1p-26, 0.126, edge1, edge2, edge3, math.Pi / 4, math.Pi / 2, math.Pi,
		110.0 / 128,
	}
	x := make([]float64, n)
	for i := range x {
		switch r.IntN(4) {
		case 0:
			x[i] = edges[r.IntN(len(edges))] * (1 + math.Ldexp(r.NormFloat64(), -r.IntN(53)))
		case 1:
			x[i] = math.Ldexp(r.Float64(), r.IntN(90)-60)
		case 2:
			x[i] = math.Ldexp(1+r.Float64(), r.IntN(2046)-1022)
		default:
			x[i] = 4 * r.Float64()
		}
		if r.IntN(2) == 0 {
			x[i] = -x[i]
		}
	}
	exact := []float64{math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1)}
	for _, e := range edges {
		exact = append(exact, e, -e, math.Nextafter(e, 0), -math.Nextafter(e, 0))
	}
	copy(x, exact)
	return x
}

func equal(t *testing.T, what string, x, got, want []float64) {
	t.Helper()
	for i := range x {
		g, w := math.Float64bits(got[i]), math.Float64bits(want[i])
		if g != w && !(got[i] != got[i] && want[i] != want[i]) {
			t.Fatalf("%s of %x is %x, the Go function has %x", what, x[i], got[i], want[i])
		}
	}
}

// TestFunctions holds assembly to the Go functions.
func TestFunctions(t *testing.T) {
	for _, k := range require(t) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 20 {
			x := angles(r, 8*1000)
			var got, want [2][]float64
			for i := range 2 {
				got[i], want[i] = make([]float64, len(x)), make([]float64, len(x))
			}
			k.sincos(x, got[0], got[1])
			plain.sincos(x, want[0], want[1])
			equal(t, k.name+": sine", x, got[0], want[0])
			equal(t, k.name+": cosine", x, got[1], want[1])
			sure := make([]bool, len(x))
			k.square(x, got[0], sure)
			unsure := 0
			for i := range x {
				want[0][i] = power(x[i])
				if _, want := certain(x[i]); sure[i] != want {
					t.Fatalf("%s: %x squared is sure: %v, want %v", k.name, x[i], sure[i], want)
				}
				if !sure[i] {
					unsure++
				}
			}
			equal(t, k.name+": square", x, got[0], want[0])
			turning := make([]float64, len(x))
			for i, v := range x {
				turning[i] = math.Remainder(v, 1e15) // as far as a state may be put
				if i%5 == 0 && v == v {              // whole turns, or beside them
					turning[i] = math.Pi * float64(r.IntN(1<<(1+i%20))-1<<(i%20)) *
						(1 + float64(r.IntN(5)-2)*0x1p-52)
				}
			}
			k.normal(turning, got[0])
			plain.normal(turning, want[0])
			equal(t, k.name+": angle in a turn", turning, got[0], want[0])
			if unsure == 0 || unsure == len(x) {
				t.Errorf("%s: %d of %d squares are unsure", k.name, unsure, len(x))
			}
		}
	}
}

// force is one of all sizes, beyond the limits too.
func force(r *rand.Rand) float32 {
	switch r.IntN(4) {
	case 0:
		return float32(math.Ldexp(r.NormFloat64(), r.IntN(250)-125))
	case 1:
		return []float32{0, float32(math.Copysign(0, -1)), 2, -2, 0x1p-100, -0x1p-99,
			0x1.fffffep-101}[r.IntN(7)]
	}
	return float32(3 * r.NormFloat64())
}

// bounds are what steps compare with.
var bounds = map[string][]float64{
	"CartPole-v1": {0, 2.4, thetaThreshold, edge1}, "MountainCar-v0": {0, 0.5, 0.6, 0.07, 1.2},
	"Pendulum-v1": {0, math.Pi, 8},
}

// state is one of all sizes, often a bound.
func state(r *rand.Rand, of string, scale float64) float64 {
	if r.IntN(3) > 0 {
		return scale * r.NormFloat64()
	}
	return bound(r, of)
}

// bound is one of an environment, or the number beside it.
func bound(r *rand.Rand, of string) float64 {
	x := bounds[of][r.IntN(len(bounds[of]))]
	if beside := r.IntN(3); beside < 2 {
		x = math.Nextafter(x, float64(9*beside))
	}
	return math.Copysign(x, float64(r.IntN(2))-0.5)
}

// TestSteps holds whole steps in assembly to the Go functions, with states of all
// sizes and on bounds, flags and limits.
func TestSteps(t *testing.T) {
	for _, k := range require(t) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, name := range []string{"CartPole-v1", "MountainCar-v0", "Pendulum-v1"} {
			for round := range 400 {
				task, err := classic.Make(name, 1+r.IntN(40), nil)
				if err != nil {
					t.Fatal(err)
				}
				task.MaxSteps, task.SuttonBarto = r.IntN(5), round%2 == 0
				task.GoalVelocity = []float64{0.01, 0, 0.07, -0.07}[r.IntN(4)]
				got, want := newBlock(&task, k, 0, task.Num), newBlock(&task, plain, 0, task.Num)
				scale := []float64{0.1, 0.3, 1, 5}[r.IntN(4)]
				for i := range got.states {
					got.states[i] = state(r, name, scale)
				}
				for i := range got.n { // of some only one number is not 0, which stays: a bound
					if only := r.IntN(len(task.State)); r.IntN(4) == 0 {
						for k := range task.State {
							got.row(k)[i] = 0
						}
						got.row(only)[i] = bound(r, name)
					}
				}
				for i := range got.actions {
					if task.Actions > 0 {
						got.actions[i] = int32(r.IntN(task.Actions))
					}
					got.forces[i] = force(r)
				}
				if name == "MountainCar-v0" { // some come to where the goal begins, or next to it
					for i := range got.n {
						if r.IntN(4) == 0 {
							x, push := 0.5-0.06*r.Float64(), 0.001*float64(got.actions[i]-1)
							got.row(0)[i], got.row(1)[i] = x, 0.5-x-push+0.0025*math.Cos(3*x)
						}
					}
				}
				if name == "Pendulum-v1" && round%10 == 0 {
					got.states[r.IntN(got.n)] *= 1e9 // beyond the kernel's
				}
				copy(want.states, got.states)
				copy(want.forces, got.forces)
				got.resume(got.ended)
				want.resume(want.ended)
				copy(want.actions, got.actions)
				for range 3 {
					got.move()
					want.move()
					sameStep(t, k.name+": "+name, got, want)
				}
			}
		}
	}
}

// TestRecorded: of arguments that were recorded from Python, some since one term alone decides the
// last bit, assembly makes what the Go functions make, whichever lane they are in.
func TestRecorded(t *testing.T) {
	recorded := func(name string) []float64 {
		x, _, err := golden.Function(name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	// Whose squares are within or beyond what a filter is sure of, and smaller than any but few.
	squares := append(recorded("pow"), 0x1.0000004p-100, 0x1.0000004p100)
	forces := append(recorded("powf"), 0x1p-69, -0x1.8p-70)
	// Searched for, as those in golden/classic/record.py, for one term each.
	forces = append(forces, 0x1.95f78ap+0, 0x1.3fc208p+0)
	angles := append(recorded("sin"), 0x1.96e36c8b21473p+2, 0x1.8ab3500aa661cp+2,
		0x1.29504e85f533ap+2, 0x1.356d7865d2ed1p+2)
	// Beside each place where branches meet, the other one has another last bit there.
	angles = append(angles, 0x1.020c48d18e96dp-3, 0x1.b60000ee057bcp-1, 0x1.368fd0485a066p+1,
		0x1.368fd08717773p+1, 0x1.921fb0f6c65acp+26)
	for _, k := range require(t) {
		for lane := range 8 {
			where := fmt.Sprintf("%s, from lane %d: ", k.name, lane)
			recordedFunctions(t, where, k, fromLane(lane, angles), fromLane(lane, squares))
			recordedSteps(t, where, k, lane, angles, forces)
		}
	}
}

// fromLane is x behind so many zeros, with as many behind it as make whole vectors.
func fromLane(lane int, x []float64) []float64 {
	x = append(make([]float64, lane), x...)
	return append(x, make([]float64, -len(x)&7)...)
}

func recordedFunctions(t *testing.T, where string, k *kernels, angles, squares []float64) {
	t.Helper()
	var got, want [2][]float64
	for i := range 2 {
		got[i], want[i] = make([]float64, len(angles)), make([]float64, len(angles))
	}
	k.sincos(angles, got[0], got[1])
	plain.sincos(angles, want[0], want[1])
	equal(t, where+"sine", angles, got[0], want[0])
	equal(t, where+"cosine", angles, got[1], want[1])
	y, sure := make([]float64, len(squares)), make([]bool, len(squares))
	k.square(squares, y, sure)
	for i, x := range squares {
		want, certainly := certain(x)
		if sure[i] != certainly {
			t.Fatalf("%s%x squared is sure: %v, want %v", where, x, sure[i], certainly)
		}
		if !certainly {
			want = power(x)
		}
		equal(t, where+"square", squares[i:i+1], y[i:i+1], []float64{want})
	}
}

// recordedSteps: pendulums that are pushed by such numbers, and all that stand still at the angles,
// whose sine a pendulum's next step shows.
func recordedSteps(
	t *testing.T, where string, k *kernels, lane int, angles, forces []float64,
) {
	t.Helper()
	for _, c := range []struct {
		name      string
		row       int     // of the angle
		most      float64 // which a kernel does not leave to the Go functions
		per       float64
		of, force []float64
	}{
		{"CartPole-v1", 2, edge1, 1, angles, nil}, {"MountainCar-v0", 0, edge3, 3, angles, nil},
		{"Pendulum-v1", 0, edge3, 1, angles, nil}, {"Pendulum-v1", 0, edge3, 1, forces, forces},
	} {
		task, err := classic.Make(c.name, lane+len(c.of), nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := newBlock(&task, k, 0, task.Num), newBlock(&task, plain, 0, task.Num)
		for _, b := range []*block{a, b} {
			clear(b.states)
			for i, x := range c.of {
				if c.force != nil {
					b.forces[lane+i] = float32(x)
				} else if math.Abs(x) < c.most {
					b.row(c.row)[lane+i] = x / c.per
				}
			}
			b.resume(b.ended)
			if c.name == "Pendulum-v1" {
				clear(b.scratch[sine]) // which would pull
			}
		}
		for range 2 {
			a.move()
			b.move()
			sameStep(t, where+c.name, a, b)
		}
	}
}

// sameStep holds all that a step leaves in a block to what the Go functions leave.
func sameStep(t *testing.T, what string, got, want *block) {
	t.Helper()
	equal(t, what+": state", want.states, got.states, want.states)
	equal(t, what+": reward", want.rewards, got.rewards, want.rewards)
	equal(t, what+": total", want.totals, got.totals, want.totals)
	for i := range got.observations {
		if got.observations[i] != want.observations[i] {
			t.Fatalf("%s: observation %d is %x, the Go function has %x", what, i,
				got.observations[i], want.observations[i])
		}
	}
	for i := range got.steps {
		if got.terminations[i] != want.terminations[i] ||
			got.truncations[i] != want.truncations[i] || got.steps[i] != want.steps[i] {
			t.Fatalf(
				"%s: goal %g: lane %d, now at %g: terminated %v, truncated %v after %d steps; the "+
					"Go function has %v, %v, %d", what, got.task.GoalVelocity, i, want.row(0)[i],
				got.terminations[i], got.truncations[i], got.steps[i], want.terminations[i],
				want.truncations[i], want.steps[i],
			)
		}
	}
}

// TestFunctionsPython compares the Go functions with Python's.
func TestFunctionsPython(t *testing.T) {
	for name, f := range map[string]func(float64) float64{
		"sin":   func(x float64) float64 { s, _ := sincos(x); return s },
		"cos":   func(x float64) float64 { _, c := sincos(x); return c },
		"pow":   power,
		"powf":  func(x float64) float64 { return float64(power32(float32(x))) },
		"sin32": func(x float64) float64 { s, _ := sincos32(float32(x)); return float64(s) },
		"cos32": func(x float64) float64 { _, c := sincos32(float32(x)); return float64(c) },
	} {
		x, want, err := golden.Function(name)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float64, len(x))
		for i := range x {
			got[i] = f(x[i])
		}
		equal(t, name, x, got, want)
	}
}

// TestCertain holds the filter to the whole function where it is closest to fail.
func TestCertain(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 300000 {
		x := math.Ldexp(1+r.Float64(), r.IntN(200)-100)
		switch i {
		case 0:
			x = 0x1.7eadcffffffffp0
		case 1:
			x = 0x1.7eaea9fffffffp0
		default:
			if i%4 == 0 { // the number beside one of 24 bits
				x = math.Nextafter(float64(float32(x)), 0)
			}
		}
		if y, sure := certain(x); sure && y != power(x) {
			t.Fatalf("%x·%x is said to be its power, which is %x", x, x, power(x))
		}
	}
}

// TestStepRows holds rows to columns, in blocks and beside them.
func TestStepRows(t *testing.T) {
	for _, e := range classic.Environments() {
		task, err := classic.Make(e.Name, 300, nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Batched{}.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
			t.Fatal(err)
		}
		d, answer := len(task.Observation), classic.NewTransition(task)
		rows, actions := make([]float32, 300*d), classic.NewTransition(task).Actions
		for range 3 {
			if err := v.(classic.RowStepper).StepRows(actions, &answer, rows); err != nil {
				t.Fatal(err)
			}
			for k, x := range answer.Observations {
				if rows[k%300*d+k/300] != x {
					t.Fatalf(
						"%s: value %d of environment %d is %g, the column has %g", e.Name, k/300,
						k%300, rows[k%300*d+k/300], x,
					)
				}
			}
		}
		if v.(classic.RowStepper).StepRows(actions, &answer, rows[1:]) == nil {
			t.Error("rows that are too short are taken")
		}
	}
}

// TestGuards: the assembly writes what the Go functions write and no byte beside it, and
// what it reads beside its columns, NaN, comes into no result.
func TestGuards(t *testing.T) {
	for _, k := range require(t) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, environment := range []struct {
			name string
			run  func(*kernels, *lanes) int
		}{
			{"CartPole-v1", func(k *kernels, l *lanes) int { return k.cartPole(l, 0) }},
			{"MountainCar-v0", func(k *kernels, l *lanes) int { return k.mountainCar(l, 0) }},
			{"Pendulum-v1", func(k *kernels, l *lanes) int { return k.pendulum(l, 0) }},
		} {
			name, run := environment.name, environment.run
			for range 50 {
				task, err := classic.Make(name, 1+r.IntN(40), nil)
				if err != nil {
					t.Fatal(err)
				}
				b := newBlock(&task, k, 0, task.Num)
				for i := range b.states {
					b.states[i] = 0.1 * r.NormFloat64()
				}
				for i := range b.actions {
					b.actions[i], b.forces[i] = int32(r.IntN(2)), force(r)
				}
				got, gotMemory := fenced(b)
				want, wantMemory := fenced(b)
				if to := run(k, got); to < b.n {
					t.Fatalf("%s: %s stops at %d of %d", k.name, name, to, b.n)
				}
				run(plain, want)
				for column, bytes := range wantMemory {
					if !slices.Equal(gotMemory[column], bytes) {
						t.Fatalf(
							"%s: %s: column %d and what is beside it differ", k.name, name, column,
						)
					}
				}
			}
			x, y := make([]float64, 8+40), make([]float64, 8+40)
			for i := range x {
				x[i], y[i] = r.NormFloat64(), math.NaN()
			}
			sure := make([]bool, len(x))
			k.sincos(x[:40], y[:40], make([]float64, 40))
			k.normal(x[:40], y[:40])
			k.square(x[:40], y[:40], sure[:40])
			for i := 40; i < len(y); i++ {
				if y[i] == y[i] || sure[i] {
					t.Fatalf("%s: element %d of 40 is written", k.name, i)
				}
			}
		}
	}
}

// TestLengths: columns that are too short for the assembly, or no whole vectors, are refused before
// a byte is written.
func TestLengths(t *testing.T) {
	for _, k := range require(t) {
		calls := map[string]func(n, a, b int){
			"sincos": func(n, a, b int) {
				k.sincos(make([]float64, n), make([]float64, a), make([]float64, b))
			},
			"square": func(n, a, b int) {
				k.square(make([]float64, n), make([]float64, a), make([]bool, b))
			},
		}
		if k.name == "avx512" {
			calls["normal"] = func(n, a, b int) {
				k.normal(make([]float64, n), make([]float64, min(a, b)))
			}
		}
		for name, call := range calls {
			for lengths, refused := range map[[3]int]bool{
				{16, 16, 16}: false, {8, 16, 24}: false, {0, 0, 0}: false,
				{12, 16, 16}: true, {16, 8, 16}: true, {16, 16, 8}: true, {16, 15, 16}: true,
			} {
				err := guard.Do(func() { call(lengths[0], lengths[1], lengths[2]) })
				if (err != nil) != refused {
					t.Errorf("%s: %s of %d: %v, refused should be %v", k.name, name, lengths, err,
						refused)
				}
			}
		}
	}
}

// TestNaN: of a state or a force that is NaN assembly makes what the Go functions make, in the
// lanes beside it, too: NaN is neither below a bound nor above it. But for CartPole no task comes
// to one.
func TestNaN(t *testing.T) {
	for _, k := range require(t) {
		r := rand.New(rand.NewPCG(9, 10))
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
		for _, name := range []string{"CartPole-v1", "MountainCar-v0", "Pendulum-v1"} {
			for range 200 {
				task, err := classic.Make(name, 3*k.width, nil)
				if err != nil {
					t.Fatal(err)
				}
				var blocks [2]*block
				for i, k := range []*kernels{k, plain} {
					blocks[i] = newBlock(&task, k, 0, task.Num)
				}
				a, b := blocks[0], blocks[1]
				for i := range a.states {
					a.states[i] = 0.1 * r.NormFloat64()
				}
				// an infinite pull times a sine of 0, or a network's answer
				if name == "Pendulum-v1" {
					for i := range a.forces {
						a.forces[i], a.scratch[sine][i] = force(r), r.NormFloat64()
					}
					if i := r.IntN(task.Num); r.IntN(2) == 0 {
						a.scratch[sine][i] = odd[r.IntN(3)]
					} else {
						a.forces[i] = float32(odd[r.IntN(3)])
					}
					copy(b.forces, a.forces)
					copy(b.scratch[sine], a.scratch[sine])
				} else {
					a.states[r.IntN(len(a.states))] = math.NaN()
				}
				copy(b.states, a.states)
				a.move()
				b.move()
				equal(t, k.name+": "+name+": state", a.states, a.states, b.states)
				equal(t, k.name+": "+name+": reward", a.rewards, a.rewards, b.rewards)
			}
		}
	}
}

// fenced is a copy of a block's lanes with eight words of ones, NaN, around each column, and
// the bytes of all.
func fenced(b *block) (*lanes, [][]byte) {
	l, all := b.lanes, [][]byte{}
	fence(&all, &l.state, len(b.states))
	fence(&all, &l.observation, len(b.observations))
	fence(&all, &l.action, b.n)
	fence(&all, &l.reward, b.n)
	fence(&all, &l.total, b.n)
	fence(&all, &l.terminated, b.n)
	fence(&all, &l.truncated, b.n)
	fence(&all, &l.elapsed, b.n)
	if l.force != nil {
		fence(&all, &l.force, b.n)
		fence(&all, &l.sine, b.n)
		fence(&all, &l.normalSquare, b.n)
		fence(&all, &l.speedSquare, b.n)
	}
	return &l, all
}

func fence[T any](all *[][]byte, column **T, n int) {
	const margin = 64
	size := n * int(unsafe.Sizeof(**column))
	words := make([]uint64, (size+2*margin+7)/8)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	for i := range memory {
		memory[i] = 0xff
	}
	copy(memory[margin:], unsafe.Slice((*byte)(unsafe.Pointer(*column)), size))
	*column = (*T)(unsafe.Pointer(&memory[margin]))
	*all = append(*all, memory)
}
