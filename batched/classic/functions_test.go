package classic

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lockstep/classic"
	"lockstep/internal/libm"
	"lockstep/internal/simtest"
)

// TestLibm holds the Go functions to glibc's as the loaders compute them, in other words: angles of
// all branches and sizes, and squares of all sizes, subnormal ones and those beyond the range.
func TestLibm(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	x := angles(r, 100_000)
	got, want := [2][]float64{}, [2][]float64{}
	for _, v := range x {
		s, c := sincos(v)
		got[0], got[1] = append(got[0], s), append(got[1], c)
		want[0], want[1] = append(want[0], libm.Sin(v)), append(want[1], libm.Cos(v))
	}
	equal(t, "sine", x, got[0], want[0])
	equal(t, "cosine", x, got[1], want[1])
	got, want = [2][]float64{}, [2][]float64{}
	for i := range x {
		x[i] = math.Ldexp(1+r.Float64(), r.IntN(960)-580)
		switch i % 4 {
		case 0:
			x[i] = math.Ldexp(1+r.Float64(), r.IntN(60)-560) // whose squares are subnormal, or 0
		case 1:
			x[i] = 1 + math.Ldexp(r.NormFloat64(), -r.IntN(53))
		case 2:
			x[i] = -x[i]
		}
	}
	copy(x, []float64{
		0, 1, 0x1p-540, 0x1p-541, math.Nextafter(0x1p360, 0), 0x1p360, math.Inf(1), math.NaN(), -1,
	})
	edges := []float32{0, 0x1p-100, 0x1.fffffep-101, -0x1p-75, 0x1.6210f8p-11, -0x1.26fp-44,
		-0x1.2efp-17, -0x1.b6ba02p-05}
	for i := range x {
		got[0], want[0] = append(got[0], power(x[i])), append(want[0], libm.Pow2(x[i]))
		u := float32(math.Ldexp(r.NormFloat64(), r.IntN(150)-90))
		if i < len(edges) {
			u = edges[i]
		}
		if math.Abs(float64(u)) < 0x1p63 {
			got[1] = append(got[1], float64(power32(u)))
			want[1] = append(want[1], float64(libm.Powf2(u)))
		}
	}
	equal(t, "pow", x, got[0], want[0])
	equal(t, "powf", want[1], got[1], want[1])
}

// TestReduce: what is left of an angle less quarters of a turn are two numbers that together are
// right to more bits than one has, near and far, of which the second is what rounding the first has
// left, and so is which quarter it is.
func TestReduce(t *testing.T) {
	const bits = 1400
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(x) }
	perQuarter := number(0) // the table's digits are of 24 bits
	for i, d := range twoOverPi {
		perQuarter.Add(perQuarter, number(0).SetMantExp(number(d), -24*(i+1)))
	}
	quarter := number(0).Quo(number(1), perQuarter)
	r := rand.New(rand.NewPCG(17, 18))
	for i := range 4000 {
		x := math.Ldexp(1+r.Float64(), 1+r.IntN(26))
		var a, da, most float64
		var n uint64
		if i%2 == 0 {
			k := math.RoundToEven(x / (math.Pi / 2))
			if i%4 == 0 {
				x = k * (math.Pi / 2) // nearly a number of quarters
			}
			a, da = reduce(x, k)
			n, most = uint64(int64(k)), max(math.Abs(a)*0x1p-105, k*0x1p-136)
		} else {
			x = math.Ldexp(1+r.Float64(), 27+r.IntN(996))
			a, da, n = reduceFar(x)
			most = 0x1p-91
		}
		turns := number(0).Mul(number(x), perQuarter)
		whole, _ := number(0).Add(turns, number(0.5)).Int(nil)
		rest := number(0).Sub(turns, number(0).SetInt(whole))
		want := number(0).Mul(rest, quarter)
		got := number(0).Add(number(a), number(da))
		miss, _ := number(0).Sub(got, want).Float64()
		if math.Abs(miss) > most || math.Abs(da) > math.Abs(a)*0x1p-51 ||
			new(big.Int).And(whole, big.NewInt(3)).Uint64() != n&3 {
			t.Fatalf("%x is %d quarters and %x + %x, which misses by %x; want %d quarters", x, n, a,
				da, miss, whole)
		}
	}
}

// TestCertainRange: beyond what the filter is proven for, it is not sure.
func TestCertainRange(t *testing.T) {
	for x, want := range map[float64]bool{
		1: true, 0x1p-99: true, 0x1p99: true, 0x1p-100: false, 0x1p100: false, 0: false,
		0x1p-300: false, 0x1p300: false,
	} {
		if y, sure := certain(x); sure != want || y != x*x {
			t.Errorf("%x: %x, sure is %v, want %v", x, y, sure, want)
		}
	}
}

// TestRemainder holds Python's remainder to C's, which is exact.
func TestRemainder(t *testing.T) {
	if exact := new(big.Rat).Mul(
		new(big.Rat).SetFloat64(wholeTurn), new(big.Rat).SetFloat64(perRadian),
	); exact.Cmp(big.NewRat(1, 1)) < 0 {
		t.Fatal("1/2π is rounded down: a quotient may be one too near to 0")
	}
	r := rand.New(rand.NewPCG(13, 14))
	for i := range 200_000 {
		x := math.Ldexp(r.NormFloat64(), r.IntN(50)-10)
		if i%3 == 0 { // beside whole turns
			x = wholeTurn * float64(r.IntN(4001)-2000) * (1 + float64(r.IntN(5)-2)*0x1p-52)
		}
		want := math.Mod(x, wholeTurn)
		switch {
		case want == 0:
			want = 0
		case want < 0:
			want += wholeTurn
		}
		if got := remainder(x); math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%x: %x, want %x", x, got, want)
		}
	}
}

// TestUnsure: a square that is within a 64th of its last bit of a midpoint is not sure, above the
// midpoint and below it.
func TestUnsure(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	sides := [2]int{}
	for range 200_000 {
		x := 1 + r.Float64()
		h := x * x
		last := math.Nextafter(h, 4) - h
		rest := math.FMA(x, x, -h) / last // between -1/2 and 1/2
		if math.Abs(rest) < 0.5-1.0/64 {
			continue
		}
		if _, sure := certain(x); sure {
			t.Fatalf("%x·%x is sure, %v from what it is rounded to", x, x, rest)
		}
		sides[bit(rest > 0)]++
	}
	if sides[0] < 1000 || sides[1] < 1000 {
		t.Errorf("%d squares are below a midpoint, %d above", sides[1], sides[0])
	}
}

// TestLongRun: a run is what two are that follow on one another, wherever the first ends, beyond
// what a block does alone, too.
func TestLongRun(t *testing.T) {
	uniform := uint64(9)
	policy := classic.Policy{Uniform: &uniform}
	task, err := classic.Make("Acrobot-v1", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	const steps = 2*stretch + 3
	var want string
	for _, first := range []int{0, 1, 1000, stretch, stretch + 1, 2 * stretch} {
		v, err := Batched{}.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{first, steps - first} {
			if n == 0 {
				continue
			}
			if err := v.Run(t.Context(), policy, n, nil); err != nil {
				t.Fatal(err)
			}
		}
		shot, err := v.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(shot, v.Totals())
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%d steps and then %d: %s, want %s", first, steps-first, got, want)
		}
	}
}

// TestFused: a sum with a product is rounded once, also where float64 would round to the midpoint
// between two float32.
func TestFused(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	number := func() float32 {
		x := math.Float32frombits(r.Uint32())
		for !(math.Abs(float64(x)) < 1e15 && math.Abs(float64(x)) > 1e-15) {
			x = math.Float32frombits(r.Uint32())
		}
		if r.IntN(2) == 0 {
			x = float32(math.Ldexp(float64(1+r.IntN(1<<12)), r.IntN(30)-15)) // of few bits
		}
		return x
	}
	ties := 0
	for range 100_000 {
		x, y, z := number(), number(), number()
		p := x * y
		if r.IntN(2) == 0 { // so that the product is half of the sum's last bit, or nearly
			z = float32(math.Ldexp(float64(p), 24-r.IntN(3)))
		}
		if r.IntN(2) == 0 { // half of the sum's last bit, but for a few that a float64 has
			a := math.Ldexp(float64(2*r.IntN(2100)), -24)
			x = float32(1 - a + math.Ldexp(float64(r.IntN(2)), -24))
			y = float32(math.Ldexp(1+a, -24))
			z = 1 + float32(math.Ldexp(float64(r.IntN(1<<23)), -23))
			scale := float32(math.Ldexp(1, r.IntN(9)-4))
			if r.IntN(2) == 0 {
				scale = -scale
			}
			x, z = scale*x, scale*z
		}
		exact := new(big.Float).SetPrec(400).SetFloat64(float64(x))
		exact.Mul(exact, new(big.Float).SetFloat64(float64(y)))
		exact.Add(exact, new(big.Float).SetFloat64(float64(z)))
		want, _ := exact.Float32()
		if got := fused(x, y, z); got != want {
			t.Fatalf("%x·%x + %x is %x, want %x", x, y, z, got, want)
		}
		if want != float32(float64(x)*float64(y)+float64(z)) {
			ties++
		}
	}
	if ties == 0 {
		t.Error("no sum is rounded otherwise by float64")
	}
}

// TestSincos32: near the library's sine and cosine, and with both signs in each quarter.
func TestSincos32(t *testing.T) {
	for i := -40_000; i < 40_000; i++ {
		x := float32(i) * 0.01
		sin, cos := sincos32(x)
		s, c := math.Sincos(float64(x))
		if d := max(math.Abs(float64(sin)-s), math.Abs(float64(cos)-c)); !(d < 0x1p-23) {
			t.Fatalf("%x: %x and %x, want %x and %x", x, sin, cos, s, c)
		}
	}
}

// TestWrap turns angles into a turn, its ends among them, which stay.
func TestWrap(t *testing.T) {
	for x, want := range map[float64]float64{
		0: 0, pi: pi, -pi: -pi, 4: 4 - wholeTurn, -4: -4 + wholeTurn, 3 * pi: 3*pi - wholeTurn,
		10: 10 - wholeTurn - wholeTurn,
	} {
		if got := wrap(x); got != want {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
}

// TestPhilox: Random123's known answer, and words of another key.
func TestPhilox(t *testing.T) {
	a, b, c, d := philox(0, 0, 0)
	if got := [4]uint32{a, b, c, d}; got != [4]uint32{
		0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8,
	} {
		t.Errorf("%x", got)
	}
}

// TestWorkers: who asks for one worker has one, however many cores there are; 0 is one for each.
func TestWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	task, err := classic.Make("CartPole-v1", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[int]int{0: 3, 1: 1, 2: 2, 7: 7} {
		v, err := Batched{Workers: asked}.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.(*vector).workers; got != want {
			t.Errorf("of %d workers asked for there are %d, want %d", asked, got, want)
		}
	}
	if n := runtime.GOMAXPROCS(0); n != 3 {
		t.Errorf("of 3 threads that Go had it has %d", n)
	}
}

// counted: every environment has counted so many steps, and none is cut off.
func counted(t *testing.T, v *vector, step int, want int32, truncated []bool) {
	t.Helper()
	for k, b := range v.blocks {
		for i := range b.count {
			if b.steps[i] != want {
				t.Fatalf("step %d: block %d has counted %d steps of environment %d, want %d",
					step, k, b.steps[i], i, want)
			}
		}
	}
	if slices.Contains(truncated, true) {
		t.Fatalf("step %d cuts off what has no limit", step)
	}
}

// TestCounted: where there is no limit, what is counted of an episode is taken back before 32 bits
// end, in every block, and the episode goes on; after a restore, too.
func TestCounted(t *testing.T) {
	const num = blockSize + 3
	task, err := classic.Make("Pendulum-v1", num, nil)
	if err != nil {
		t.Fatal(err)
	}
	task.Autoreset, task.MaxSteps = classic.Off, 0
	made, err := Batched{}.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Reset(classic.Reset{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	v := made.(*vector)
	room := func(largest int32) {
		t.Helper()
		if got := v.uncounted + int(largest); got != math.MaxInt32-1 {
			t.Errorf("a count of %d may come to %d, want %d", largest, got, math.MaxInt32-1)
		}
	}
	room(0)
	s, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	s.Elapsed[1] = classic.MostSteps
	if err := v.Restore(s); err != nil {
		t.Fatal(err)
	}
	room(classic.MostSteps)
	late := func() {
		for _, b := range v.blocks {
			for i := range b.steps {
				b.steps[i] = math.MaxInt32 - 2 // the limit is the largest
			}
		}
		v.uncounted = 1 // as it is then
	}
	late()
	answers := []classic.Transition{classic.NewTransition(task), classic.NewTransition(task)}
	for step := range 3 {
		err := v.Step(classic.Actions{Continuous: make([]float32, num)}, &answers[0])
		if err != nil {
			t.Fatal(err)
		}
		want := int32(math.MaxInt32 - 1)
		if step > 0 {
			want = classic.MostSteps + int32(step)
		}
		counted(t, v, step, want, answers[0].Truncated)
	}
	if s, err = v.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if least, most := slices.Min(s.Elapsed), slices.Max(s.Elapsed); least != classic.MostSteps ||
		most != classic.MostSteps {
		t.Errorf("a snapshot then has %d to %d steps, want %d", least, most, classic.MostSteps)
	}
	late()
	if err := v.Run(t.Context(), classic.Policy{Uniform: new(uint64)}, 2, answers); err != nil {
		t.Fatal(err)
	}
	for step := range answers {
		counted(t, v, step, classic.MostSteps+2, answers[step].Truncated)
	}
}

// TestEnded: where nothing resets an environment that has ended, any step of all is refused, given
// or chosen, and names it, until it is reset; where the next step does, its action is not looked
// at.
func TestEnded(t *testing.T) {
	task, v := threePoles(t, classic.Disabled)
	i := fall(t, task, v)
	want := fmt.Sprintf("CartPole-v1: environment %d has ended: reset it before the next step", i)
	for name, err := range stepped(t, v) {
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	mask := make([]bool, 3)
	mask[i] = true
	if err := v.Reset(classic.Reset{Mask: mask, Continue: true}); err != nil {
		t.Fatal(err)
	}
	if err := v.Step(right(), nil); err != nil {
		t.Errorf("after its reset: %v", err)
	}
	if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	for name, err := range stepped(t, v) {
		if err != nil {
			t.Errorf("%s after a reset of all: %v", name, err)
		}
	}
	if got := v.Totals().Steps; got != 4*3 {
		t.Errorf("%d steps of 3 environments, want 12", got)
	}
	runOverAnEnd(t, task, v)
	truncatedAlone(t)

	task, v = threePoles(t, classic.NextStep)
	i = fall(t, task, v)
	goes := (i + 1) % 3
	odd := right()
	odd.Discrete[goes] = 7
	simtest.Refused(t, "an action of one that goes on", v.Step(odd, nil),
		fmt.Sprintf("environment %d: action 7", goes))
	odd.Discrete[goes], odd.Discrete[i] = 1, 7
	if err := v.Step(odd, nil); err != nil {
		t.Errorf("the action of one that is reset by the step: %v", err)
	}
}

// threePoles are environments that begin with seed 1.
func threePoles(t *testing.T, mode classic.Autoreset) (classic.Task, classic.Vector) {
	t.Helper()
	task, err := classic.Make("CartPole-v1", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	task.Autoreset = mode
	v, err := Batched{}.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	return task, v
}

// right are actions that push all to the right.
func right() classic.Actions { return classic.Actions{Discrete: []int32{1, 1, 1}} }

// fall steps until a pole falls, and says which.
func fall(t *testing.T, task classic.Task, v classic.Vector) (ended int) {
	t.Helper()
	answer := classic.NewTransition(task)
	for range 100 {
		if err := v.Step(right(), &answer); err != nil {
			t.Fatal(err)
		}
		if i := slices.Index(answer.Terminated, true); i >= 0 {
			return i
		}
	}
	t.Fatal("nothing falls")
	return 0
}

// stepped is what a step comes to, in each way in which there is one.
func stepped(t *testing.T, v classic.Vector) map[string]error {
	t.Helper()
	uniform := uint64(1)
	given := classic.Policy{Recorded: []classic.Actions{right()}}
	return map[string]error{
		"Step":     v.Step(right(), nil),
		"StepRows": v.(classic.RowStepper).StepRows(right(), nil, make([]float32, 12)),
		"chosen":   v.Run(t.Context(), classic.Policy{Uniform: &uniform}, 1, nil),
		"given":    v.Run(t.Context(), given, 1, nil),
	}
}

// truncatedAlone: an environment that began later is not cut off with the others, which are named.
func truncatedAlone(t *testing.T) {
	t.Helper()
	task, err := classic.Make("Pendulum-v1", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	for later := range 3 {
		task.Autoreset, task.MaxSteps = classic.Disabled, 4
		v, err := Batched{}.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
			t.Fatal(err)
		}
		still := classic.Actions{Continuous: make([]float32, 3)}
		for s := range 4 {
			if s == 2 {
				mask := make([]bool, 3)
				mask[later] = true
				if err := v.Reset(classic.Reset{Mask: mask, Continue: true}); err != nil {
					t.Fatal(err)
				}
			}
			if err := v.Step(still, nil); err != nil {
				t.Fatal(err)
			}
		}
		shot, err := v.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for i, ended := range shot.Ended {
			if ended == (i == later) {
				t.Errorf("environment %d, where %d began later: it has ended: %v", i, later, ended)
			}
		}
	}
}

// runOverAnEnd: a run in which an environment ends is refused at the step after, which it names.
func runOverAnEnd(t *testing.T, task classic.Task, v classic.Vector) {
	t.Helper()
	if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	record := make([]classic.Transition, 60)
	for s := range record {
		record[s] = classic.NewTransition(task)
	}
	uniform := uint64(1)
	err := v.Run(t.Context(), classic.Policy{Uniform: &uniform}, 60, record)
	over := 0
	for over < 60 && !slices.Contains(record[over].Terminated, true) {
		over++
	}
	if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("step %d: CartPole-v1", over+1)) {
		t.Errorf("a run in which one ends at step %d: %v", over, err)
	}
}

// TestRestoredActions: actions that are drawn go on from any step, in environments that are made
// anew and have a snapshot, as in those that never stopped, and so do episodes that begin then; of
// steps there may be more than 32 bits count.
func TestRestoredActions(t *testing.T) {
	uniform := uint64(0) // which is what a block knows before it has drawn
	policy := classic.Policy{Uniform: &uniform}
	for _, e := range classic.Environments() {
		task, err := classic.Make(e.Name, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		task.MaxSteps = 29
		made := func(seed int64) classic.Vector {
			v, err := Batched{}.Make(task)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Reset(classic.Reset{Seed: seed}); err != nil {
				t.Fatal(err)
			}
			return v
		}
		for _, steps := range []int{1, 3, 4, 5, 7, 8, 31, 32, 127, 128, 129, 255, 256} {
			whole := made(1)
			if err := whole.Run(t.Context(), policy, steps, nil); err != nil {
				t.Fatal(err)
			}
			shot, err := whole.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			shot.Steps += 1 << 33
			other := made(2)
			if err := other.Restore(shot); err != nil {
				t.Fatal(err)
			}
			var answers [2]string
			for k, v := range []classic.Vector{whole, other} {
				record := make([]classic.Transition, 31)
				for s := range record {
					record[s] = classic.NewTransition(task)
				}
				if err := v.Run(t.Context(), policy, len(record), record); err != nil {
					t.Fatal(err)
				}
				totals := v.Totals()
				totals.Steps -= int64(k) * 3 << 33
				answers[k] = fmt.Sprint(totals, record)
			}
			if answers[1] != answers[0] {
				t.Errorf("%s, from step %d: %s, want %s", e.Name, steps, answers[1], answers[0])
			}
		}
	}
}

// recorded is a run.
func recorded(
	t *testing.T, task classic.Task, v classic.Vector, p classic.Policy, steps int,
) []classic.Transition {
	t.Helper()
	record := make([]classic.Transition, steps)
	for s := range record {
		record[s] = classic.NewTransition(task)
	}
	if err := v.Run(t.Context(), p, len(record), record); err != nil {
		t.Fatal(err)
	}
	return record
}

// hidden is a network with a hidden layer of which some numbers are below 0, and noise that has a
// key of more than 32 bits.
func hidden(task classic.Task) *classic.Perceptron {
	r := rand.New(rand.NewPCG(5, 6))
	layer := func(inputs, outputs int) classic.Layer {
		var l classic.Layer
		for range outputs {
			l.Bias = append(l.Bias, float32(r.NormFloat64()))
			for range inputs {
				l.Weights = append(l.Weights, float32(r.NormFloat64()))
			}
		}
		return l
	}
	outputs := max(task.Actions, 1)
	return &classic.Perceptron{
		Layers: []classic.Layer{layer(len(task.Observation), 3), layer(3, outputs)},
		Noise:  []float32{-9, -4, 5, 9}, Seed: 1<<41 + 3,
	}
}

// TestKeys: seeds and keys that differ beyond 32 bits alone make other states and actions, of one
// environment and of all.
func TestKeys(t *testing.T) {
	for _, e := range classic.Environments() {
		task, err := classic.Make(e.Name, 20, nil)
		if err != nil {
			t.Fatal(err)
		}
		run := func(seed, key uint64, network bool) string {
			v, err := Batched{}.Make(task)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Reset(classic.Reset{Seed: int64(seed)}); err != nil {
				t.Fatal(err)
			}
			policy := classic.Policy{Uniform: &key}
			if network {
				policy = classic.Policy{Network: hidden(task)}
				policy.Network.Seed = key
			}
			return fmt.Sprint(recorded(t, task, v, policy, 3))
		}
		for _, network := range []bool{false, true} {
			const seed, key = 7, 9
			plain := run(seed, key, network)
			if plain == run(seed+1<<32, key, network) {
				t.Errorf("%s: seeds %d and %d are one", e.Name, seed, uint64(seed+1<<32))
			}
			if plain == run(seed, key+1<<32, network) {
				t.Errorf("%s, network %v: keys %d and %d are one", e.Name, network, key,
					uint64(key+1<<32))
			}
		}
	}
}

// TestNumber: what an environment does follows from its own seed and actions, however many others
// there are: in a block that is full, in one that has room, and in one of several.
func TestNumber(t *testing.T) {
	key := uint64(1<<40 + 5) // beyond 32 bits
	for _, kernels := range []*kernels{plain, best} {
		for _, e := range classic.Environments() {
			if e.Shared { // its environments share a generator
				continue
			}
			run := func(num int) []classic.Transition {
				task, err := classic.Make(e.Name, num, nil)
				if err != nil {
					t.Fatal(err)
				}
				task.MaxSteps = 3
				v, err := Batched{Workers: 1, kernels: kernels}.Make(task)
				if err != nil {
					t.Fatal(err)
				}
				if err := v.Reset(classic.Reset{Seed: 1 << 35}); err != nil {
					t.Fatal(err)
				}
				if e.Dynamics == classic.Acrobot { // beyond a turn, and faster than there is
					shot, err := v.Snapshot()
					if err != nil {
						t.Fatal(err)
					}
					for i := range shot.States {
						shot.States[i] *= 200
					}
					if err := v.Restore(shot); err != nil {
						t.Fatal(err)
					}
				}
				return append(
					recorded(t, task, v, classic.Policy{Uniform: &key}, 5),
					recorded(t, task, v, classic.Policy{Network: hidden(task)}, 5)...,
				)
			}
			const most = blockSize + padded + 1
			want := run(most)
			for _, num := range []int{1, padded - 1, padded, 2 * padded, blockSize} {
				for s, got := range run(num) {
					const what = "%s, %s, step %d of %d environments: "
					for k := range e.State {
						equal(t, fmt.Sprintf(what+"state %d", e.Name, kernels.name, s, num, k),
							want[s].States[k*most:][:num], got.States[k*num:][:num],
							want[s].States[k*most:][:num])
					}
					if err := simtest.SameBits(
						fmt.Sprintf(what+"rewards", e.Name, kernels.name, s, num), got.Rewards,
						want[s].Rewards[:num],
					); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}
