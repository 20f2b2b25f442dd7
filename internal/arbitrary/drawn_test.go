package arbitrary

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/defaults"
	"lockstep/internal/guard"
	"lockstep/internal/model"
	"lockstep/internal/onnx"
)

// drawn are so many values of a generator, the same ones each time: a test that says what is among
// them does not depend on luck.
func drawn[V any](g *rapid.Generator[V], n int) []V {
	values := make([]V, n)
	for i := range values {
		values[i] = g.Example(i + 1)
	}
	return values
}

// A kind is what stands among values, at least so many times in a thousand.
type kind[V any] struct {
	name  string
	least int
	is    func(V) bool
}

// holdKinds: each value is one that is promised, and each kind is among them.
func holdKinds[V any](t *testing.T, values []V, promised func(V) bool, kinds ...kind[V]) {
	t.Helper()
	for _, v := range values {
		if !promised(v) {
			t.Fatalf("%v is drawn, which nobody is promised", v)
		}
	}
	for _, k := range kinds {
		found := 0
		for _, v := range values {
			if k.is(v) {
				found++
			}
		}
		if 1000*found < k.least*len(values) || found == 0 {
			t.Errorf("%s: %d of %d, want %d ‰ at least", k.name, found, len(values), k.least)
		}
	}
}

// each is a kind for every one of some values, by their bits.
func each(values ...float64) (kinds []kind[float64]) {
	for _, want := range values {
		kinds = append(kinds, kind[float64]{fmt.Sprint(want), 1, func(x float64) bool {
			return math.Float64bits(x) == math.Float64bits(want)
		}})
	}
	return kinds
}

// between is a kind of numbers.
func between(low, high float64, least int) kind[float64] {
	return kind[float64]{fmt.Sprintf("%v < x < %v", low, high), least, func(x float64) bool {
		return low < x && x < high
	}}
}

// TestNumbers: every awkward number is drawn, numbers from all over the range besides, and none
// that is not finite.
func TestNumbers(t *testing.T) {
	t.Parallel()
	negative := math.Copysign(0, -1)
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	often := func(least int, kinds []kind[float64]) []kind[float64] {
		for i := range kinds {
			kinds[i].least = least
		}
		return kinds
	}
	const least, least32 = math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat32
	const most, most32 = math.MaxFloat64, math.MaxFloat32
	for name, c := range map[string]struct {
		of    *rapid.Generator[float64]
		kinds []kind[float64]
	}{
		"Edge": {Edge(), append(
			often(10, each(
				0, negative, 1, -1, most, -most, most32, -most32, least, -least, least32, -least32,
				0x1p-1022, 0x1p-126, // the least normal ones
				0x1p-150, 0x1.000002p-150, // as a float32, 0 and the least
				0x1.ffffffp127, 0x1.fffffefp127, // as a float32, infinite and the largest
				0x1.000001p0, -0x1.000001p0, 0x1.000003p0, // midway between two float32
			)),
			between(least, 0x1p-1022, 10), between(0x1p-149, 0x1p-126, 10), // subnormal
			between(1e9, 1e25, 10), between(-1e25, -1e9, 10), between(-1e35, -1e25, 10),
		)},
		"Gain": {Gain(), append(
			often(15, each(
				least, most, -most, 1e9, -1e9, 5, -5,
				lockstep.DefaultPID().P, lockstep.DefaultPID().I, lockstep.DefaultPID().D,
			)),
			append(
				often(55, each(0, negative)), between(-1, 0, 100), between(0, 1, 100),
			)...,
		)},
		"Lataccel": {Lataccel(), append(
			often(8, each(least, 4.5, -4.5, 5.5, -5.5, 40, -40, 1e300, -1e300)),
			append(append(
				each(
					math.Nextafter(5, 6), math.Nextafter(5, 0), math.Nextafter(-5, -6),
					math.Nextafter(-5, 0),
				),
				often(30, each(0, negative, 5, -5))...),
				between(-5, -1, 50), between(-1, 0, 120), between(0, 1, 120), between(1, 5, 50),
				beside(math.Inf(-1)), beside(math.Inf(1)), beside(math.NaN()))...,
		)},
	} {
		t.Run(name, func(t *testing.T) { holdKinds(t, drawn(c.of, 4000), finite, c.kinds...) })
	}
	vectors.Hold(t, "decode", func(v vectors.Vector) any {
		return []float64{Bin(int(v.Int("token")))}
	})
}

// beside is a kind of numbers that are the neighbour of a bin on one side, or a bin for NaN.
func beside(side float64) kind[float64] {
	of := map[uint64]bool{}
	for token := range lockstep.VocabSize {
		x := Bin(token)
		if !math.IsNaN(side) {
			x = math.Nextafter(x, side)
		}
		of[math.Float64bits(x)] = true
	}
	return kind[float64]{fmt.Sprintf("a bin, towards %v", side), 50, func(x float64) bool {
		return math.Abs(x) < 4.99 && of[math.Float64bits(x)]
	}}
}

// TestWholeNumbers: all whole numbers lie within their ranges, and those are drawn at which
// something begins or ends.
func TestWholeNumbers(t *testing.T) {
	t.Parallel()
	whole := func(g *rapid.Generator[int]) *rapid.Generator[float64] {
		return rapid.Map(g, func(i int) float64 { return float64(i) })
	}
	seeds := rapid.Map(Seed(), func(s uint32) float64 { return float64(s) })
	for name, c := range map[string]struct {
		of        *rapid.Generator[float64]
		low, high float64
		often     []float64
	}{
		"ShortRows": {whole(ShortRows()), lockstep.MinRows, 130, []float64{lockstep.MinRows, 130}},
		"LongRows": {
			whole(LongRows()), 101, 650,
			[]float64{101, 102, 499, 500, 501, 502, 599, 600, 601, 650},
		},
		"row of 101": {whole(row(101)), 0, 100, []float64{0, 19, 20, 80, 99, 100}},
		"row of 650": {
			whole(row(650)), 0, 649,
			[]float64{0, 19, 20, 80, 99, 100, 101, 119, 120, 121, 499, 500, 649},
		},
		"Seed": {
			seeds, 0, math.MaxUint32, []float64{0, 1, 3285, 9739, 9999, 1 << 31, math.MaxUint32},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := each(c.often...)
			for i := range kinds {
				kinds[i].least = 17
			}
			kinds = append(kinds, kind[float64]{"another", 200, func(x float64) bool {
				return !slices.Contains(c.often, x)
			}})
			holdKinds(t, drawn(c.of, 2000), func(x float64) bool {
				return c.low <= x && x <= c.high
			}, kinds...)
		})
	}
}

// A made column, and the values that it was made of.
type made struct{ x, of []float64 }

const low, high = 10, 30 // of which columns are made

// even says whether three numbers go evenly from one of these towards the other: by products that
// round, of what is drawn, and of no simulator.
func even(x []float64) bool {
	d := x[1] - x[0]
	return d != 0 && math.Abs(d) < 15 && math.Abs(x[2]-x[1]-d) < 1e-9
}

// ends is where the last piece leads to, if it goes there evenly.
func (m made) ends() (float64, bool) {
	n := len(m.x)
	return 2*m.x[n-1] - m.x[n-2], even(m.x[n-3:])
}

// promised: few values, none beyond them, and an even piece ends at one, as far as products that
// round do; but its last row may be a piece of its own.
func (m made) promised() bool {
	end, evenly := m.ends()
	if last := m.x[len(m.x)-1]; evenly && last != low && last != high &&
		math.Abs(end-low) > 1e-9 && math.Abs(end-high) > 1e-9 {
		return false
	}
	return len(m.of) <= 3*2+3 && slices.Min(m.x) >= low-1e-9 && slices.Max(m.x) <= high+1e-9
}

// rows are n of a column for which something is so.
func rows(n int, is func(x []float64) bool) func(made) bool {
	return func(m made) bool {
		for i := range len(m.x) - n {
			if is(m.x[i : i+n]) {
				return true
			}
		}
		return false
	}
}

// TestColumn: a column has one piece to three, each of which holds a value, goes evenly from one
// to another, takes them in turn, or lies anywhere between them, and then up to three changes.
func TestColumn(t *testing.T) {
	t.Parallel()
	columns := drawn(rapid.Custom(func(t *rapid.T) (m made) {
		value := rapid.Custom(func(t *rapid.T) float64 {
			m.of = append(m.of, rapid.SampledFrom([]float64{low, high}).Draw(t, "value"))
			return m.of[len(m.of)-1]
		})
		m.x = column(t, "column", rapid.IntRange(101, 400).Draw(t, "rows"), value)
		return m
	}), 2000)
	one := func(m made) bool { return len(m.of) <= 2 } // piece, and no change
	holdKinds(t, columns, made.promised,
		kind[made]{"three pieces, three changes", 1, func(m made) bool { return len(m.of) == 9 }},
		kind[made]{"one value", 10, func(m made) bool {
			return one(m) && slices.Min(m.x) == m.of[0] && slices.Max(m.x) == m.of[0]
		}},
		kind[made]{"evenly to the end", 10, func(m made) bool {
			_, evenly := m.ends()
			return one(m) && evenly && m.x[0] == m.of[0]
		}},
		kind[made]{"evenly in a later piece", 10, func(m made) bool {
			_, evenly := m.ends()
			return evenly && !even(m.x)
		}},
		kind[made]{"in turn, from the first on", 10, func(m made) bool {
			return one(m) && len(m.of) == 2 && m.x[0] == m.of[0] && m.x[1] == m.of[1] &&
				m.of[0] != m.of[1] && m.x[2] == m.of[0] && m.x[3] == m.of[1]
		}},
		kind[made]{"anywhere between", 50, rows(4, func(x []float64) bool {
			return !even(x) && !even(x[1:]) && low < slices.Min(x) && slices.Max(x) < high
		})},
		kind[made]{"a change", 50, rows(5, func(x []float64) bool {
			return x[0] == x[1] && x[1] == x[3] && x[3] == x[4] && x[2] != x[1]
		})},
	)
}

// TestPolicies: all kinds of policies are drawn, and controllers of all sizes.
func TestPolicies(t *testing.T) {
	t.Parallel()
	custom := func(p lockstep.Policy) bool { _, ok := p.(lockstep.Custom); return ok }
	batch := func(p lockstep.Policy) bool { _, ok := p.(*lockstep.Batch); return ok }
	pid := func(p lockstep.Policy) bool { _, ok := p.(lockstep.PID); return ok }
	is := func(want lockstep.Policy) func(lockstep.Policy) bool {
		return func(p lockstep.Policy) bool {
			return fmt.Sprintf("%T %v", p, p) == fmt.Sprintf("%T %v", want, want)
		}
	}
	sized := func(size string) kind[lockstep.Policy] {
		return kind[lockstep.Policy]{"answers of size " + size, 5, func(p lockstep.Policy) bool {
			return strings.Contains(p.String(), "script") &&
				strings.HasSuffix(p.String(), " "+size+" -1 false")
		}}
	}
	fine := func(name string, of func(p lockstep.PID) float64) kind[lockstep.Policy] {
		return kind[lockstep.Policy]{name + " that no float32 holds", 50,
			func(p lockstep.Policy) bool {
				pid, ok := p.(lockstep.PID)
				return ok && pid != lockstep.DefaultPID() &&
					float64(float32(of(pid))) != of(pid)
			}}
	}
	policies := drawn(Policy(), 2000)
	holdKinds(t, policies, func(lockstep.Policy) bool { return true },
		kind[lockstep.Policy]{"zero", 50, is(lockstep.Zero{})},
		kind[lockstep.Policy]{"the default PID", 50, is(lockstep.DefaultPID())},
		kind[lockstep.Policy]{"another PID", 50, func(p lockstep.Policy) bool {
			return pid(p) && !is(lockstep.DefaultPID())(p)
		}},
		fine("P", func(p lockstep.PID) float64 { return p.P }),
		fine("I", func(p lockstep.PID) float64 { return p.I }),
		fine("D", func(p lockstep.PID) float64 { return p.D }),
		kind[lockstep.Policy]{"custom", 50, custom}, kind[lockstep.Policy]{"batch", 50, batch},
		sized("0"), sized("1e-09"), sized("0.3"), sized("1"), sized("3"), sized("1e+300"),
		sized("+Inf"),
	)
	different := func(name string, policies []lockstep.Policy) {
		names := map[string]bool{}
		for _, p := range policies {
			names[p.String()] = true
		}
		if len(names) < len(policies)/2 {
			t.Errorf("%s: %d of %d differ", name, len(names), len(policies))
		}
	}
	different("Policy", slices.DeleteFunc(policies, func(p lockstep.Policy) bool {
		return !custom(p) && !batch(p)
	}))
	batches := drawn(BatchPolicy(), 300)
	holdKinds(t, batches, func(p lockstep.Policy) bool {
		return batch(p) && strings.HasPrefix(p.String(), "batch script ") &&
			strings.HasSuffix(p.String(), " 1 -1 false")
	})
	different("BatchPolicy", batches)

	some := drawn(Shortcuts(), 400)
	var kinds []kind[lockstep.Shortcuts]
	for s := range lockstep.CostOnly + 1 {
		kinds = append(kinds, kind[lockstep.Shortcuts]{
			fmt.Sprintf("shortcuts %03b", s), 10,
			func(got lockstep.Shortcuts) bool { return got == s },
		})
	}
	holdKinds(t, some, func(s lockstep.Shortcuts) bool { return s <= lockstep.CostOnly }, kinds...)
}

// What a controller is told in tests.
type told struct {
	target, current float64
	state           lockstep.State
	plan            lockstep.FuturePlan
}

func tell() *told {
	return &told{plan: lockstep.FuturePlan{
		Lataccel: make([]float64, 3), RollLataccel: make([]float64, 3), VEgo: make([]float64, 3),
		AEgo: make([]float64, 3),
	}}
}

func (x *told) to(c lockstep.Controller) float64 {
	return c.Update(x.target, x.current, x.state, x.plan)
}

// TestScript: a script's answers grow with all that it is told but with what is already there, and
// with the step, until it is a multiple of 16, and are as large as the script says.
func TestScript(t *testing.T) {
	t.Parallel()
	first := func(s script, x *told) float64 {
		return x.to(s.policy(false).(lockstep.Custom).New())
	}
	one := script{seed: 3, size: 1, at: -1}
	calm := first(one, tell())
	if twice := first(script{seed: 3, size: 2, at: -1}, tell()); twice != 2*calm {
		t.Errorf("twice the size answers %v, want twice %v", twice, calm)
	}
	if zero := first(script{seed: 3, at: -1}, tell()); zero != 0 {
		t.Errorf("size 0 answers %v", zero)
	}
	x := tell()
	for name, of := range map[string]*float64{
		"target": &x.target, "roll": &x.state.RollLataccel, "speed": &x.state.VEgo,
		"acceleration": &x.state.AEgo, "a planned target": &x.plan.Lataccel[2],
		"a planned roll": &x.plan.RollLataccel[2], "a planned speed": &x.plan.VEgo[2],
		"a planned acceleration": &x.plan.AEgo[2],
	} {
		before := calm
		for *of = 1; *of < 4; *of++ {
			now := first(one, x)
			if !(now > before) {
				t.Errorf("%s of %v: %v, want more than %v", name, *of, now, before)
			}
			before = now
		}
		*of = 1
		whole := first(one, x)
		if *of += 1e-10; !(first(one, x) > whole) {
			t.Errorf("%s: what no float32 tells from 1 does not count", name)
		}
		*of = 0
	}
	if x.current = 1; !(first(one, x) < calm) {
		t.Errorf("what is there does not count: %v, want less than %v", first(one, x), calm)
	}
	early := *one.policy(false).(lockstep.Custom).New().(*script)
	early.step = 15
	if a := tell().to(&early); math.Abs(a-calm+0.04) > 1e-12 { // a difference of two that round
		t.Errorf("at step 16 %v, at step 20 %v, want 0.04 more", a, calm)
	}
}

// TestMemory: what a script was told counts less and less, and to both sides it answers alike.
func TestMemory(t *testing.T) {
	t.Parallel()
	answers := func(told float64, steps int) (all []float64) {
		c := script{seed: 3, size: 1, at: -1}.policy(false).(lockstep.Custom).New()
		x := tell()
		x.target = told
		for range steps {
			all, x.target = append(all, x.to(c)), 0
		}
		return all
	}
	quiet, once := answers(0, 400), answers(1, 400)
	for i := 1; i < 9; i++ {
		if now, before := once[i]-quiet[i], once[i-1]-quiet[i-1]; now <= 0 || now >= before {
			t.Errorf("step %d: what step 20 was told counts %v, and %v before", 20+i, now, before)
		}
	}
	if low, high := slices.Min(quiet), slices.Max(quiet); low < -0.5 || high > 0.65 ||
		low > -0.4 || high < 0.55 {
		t.Errorf("who is told nothing answers from %v to %v", low, high)
	}
}

// TestAnswers: whatever a script is told, it answers a number, and the same as another of its name.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, p := range drawn(Policy(), 300) {
		c, ok := p.(lockstep.Custom)
		if !ok {
			continue
		}
		a, b := c.New(), c.New()
		for i := range 40 {
			x := tell()
			edge := Edge().Example(i + 1)
			x.target, x.current, x.plan.VEgo[1], x.state.AEgo = edge, -edge, edge, -edge
			got, again := x.to(a), x.to(b)
			if math.IsNaN(got) || got != again {
				t.Fatalf("%v answers %v, and %v, to %v", c, got, again, edge)
			}
		}
	}
}

// TestFaultyPolicy: a faulty policy's controller panics or answers NaN at the step that it names,
// and at none before it.
func TestFaultyPolicy(t *testing.T) {
	t.Parallel()
	type fault struct {
		at     int
		panics bool
	}
	var faults []fault
	for _, p := range drawn(FaultyPolicy(), 500) {
		c, f := p.(lockstep.Custom).New(), fault{}
		for step := lockstep.ContextLength; f.at == 0 && step < 140; step++ {
			var x float64
			err := guard.Do(func() { x = tell().to(c) })
			if f.panics = err != nil; f.panics || math.IsNaN(x) {
				f.at = step
			}
		}
		if !strings.HasSuffix(p.String(), fmt.Sprintf(" 1 %d %v", f.at, f.panics)) {
			t.Fatalf("%v: %+v", p, f)
		}
		faults = append(faults, f)
	}
	at := func(step int) kind[fault] {
		return kind[fault]{fmt.Sprint(step), 20, func(f fault) bool { return f.at == step }}
	}
	holdKinds(t, faults, func(f fault) bool { return f.at >= 20 && f.at <= 130 },
		at(20), at(99), at(100), at(101),
		kind[fault]{"at another step", 100, func(f fault) bool { return f.at > 21 && f.at < 99 }},
		kind[fault]{"panics", 200, func(f fault) bool { return f.panics }},
		kind[fault]{"answers NaN", 200, func(f fault) bool { return !f.panics }},
	)
}

// TestScripts: scripts of a batch answer what each answers alone at that step, where their routes
// run; and a batch controller does not close where its seed is odd.
func TestScripts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		s := script{seed: seed, size: 1, at: -1}
		alone := [3]lockstep.Controller{}
		for i := range alone {
			alone[i] = s.policy(false).(lockstep.Custom).New()
		}
		c, err := s.policy(true).(*lockstep.Batch).New(make([]*lockstep.Route, 3))
		if err != nil {
			t.Fatal(err)
		}
		for step := lockstep.ContextLength; step < 60; step++ {
			b, each := lockstep.NewBatchStep(3), [3]*told{tell(), tell(), tell()}
			b.Step, b.Running = step, []bool{true, false, true}
			for i, x := range each { // to each something else, that no float32 holds
				x.target, x.current = float64(step)+1e-10*float64(i), 1+1e-9*float64(i)
				x.state.VEgo, x.plan.Lataccel[1] = 30+float64(i), float64(step*i)
				b.TargetLataccel[i], b.CurrentLataccel[i] = x.target, x.current
				b.State[i], b.Plan[i], b.Steer[i] = x.state, x.plan, 77
			}
			if err := c.Update(b); err != nil {
				t.Fatal(err)
			}
			want := []float64{each[0].to(alone[0]), 77, each[2].to(alone[2])}
			if !slices.Equal(b.Steer, want) {
				t.Fatalf("seed %d, step %d: %v, want %v", seed, step, b.Steer, want)
			}
		}
		if err := c.Close(); (err != nil) != (seed%2 == 1) {
			t.Errorf("seed %d: Close says %v", seed, err)
		}
	}
}

// TestJobs: jobs are as many as may be asked for, of two routes and three policies at most; some
// share a route, and some are the same job twice.
func TestJobs(t *testing.T) {
	t.Parallel()
	const most = 6
	all := drawn(Jobs(most, rapid.Just(101), rapid.Map(PID(), func(p lockstep.PID) lockstep.Policy {
		return p
	})), 300)
	count := func(jobs []lockstep.Job) (routes, policies, different int) {
		var rs, ps, js = map[any]bool{}, map[string]bool{}, map[string]bool{}
		for _, j := range jobs {
			rs[j.Route], ps[j.Policy.String()] = true, true
			js[fmt.Sprintf("%p %v", j.Route, j.Policy)] = true
		}
		return len(rs), len(ps), len(js)
	}
	of := func(routes, policies int, different func(int, int) bool) func([]lockstep.Job) bool {
		return func(jobs []lockstep.Job) bool {
			r, p, d := count(jobs)
			return r == routes && p == policies && different(d, len(jobs))
		}
	}
	any := func(int, int) bool { return true }
	long := func(n int) kind[[]lockstep.Job] {
		return kind[[]lockstep.Job]{fmt.Sprint(n, " jobs"), 20, func(jobs []lockstep.Job) bool {
			return len(jobs) == n
		}}
	}
	holdKinds(t, all, func(jobs []lockstep.Job) bool {
		r, p, _ := count(jobs)
		return len(jobs) >= 1 && len(jobs) <= most && r <= 2 && p <= 3
	},
		long(1), long(most),
		kind[[]lockstep.Job]{"two routes, three policies", 5, of(2, 3, any)},
		kind[[]lockstep.Job]{"one route, two policies", 5, of(1, 2, any)},
		kind[[]lockstep.Job]{"the same twice", 20, of(2, 2, func(d, n int) bool { return d < n })},
	)
}

// TestSizes: work is as many jobs as the size says; twins are pairs of one job; a sweep is of one
// route, with gains that differ in their last bits; and beside others' jobs are some with draws,
// with a teacher of their own, and with expected values.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, s := range Sizes {
		jobs := s.Work(1)
		routes, policies := map[*lockstep.Route]bool{}, map[lockstep.Policy]bool{}
		beside := map[string]int{}
		for i, j := range jobs {
			routes[j.Route], policies[j.Policy] = true, true
			beside[s.holdJob(t, i, j)]++
		}
		want, twins := min(3, len(jobs)), 1
		if s.Twins {
			twins = 2
			s.holdTwins(t, jobs)
		}
		if s.Sweep {
			want = 1
		}
		if len(jobs) != s.Jobs || len(routes) != want || len(policies)*twins != len(jobs) {
			t.Errorf("%v: %d jobs of %d routes and %d policies, want %d routes", s, len(jobs),
				len(routes), len(policies), want)
		}
		if kinds := len(beside); s.Sweep && kinds > 1 || !s.Sweep && len(jobs) >= 8 && kinds < 3 ||
			beside[""] == 0 {
			t.Errorf("%v: jobs have beside a route and a policy: %v", s, beside)
		}
	}
}

// holdTwins: neighbours are one job.
func (s Size) holdTwins(t *testing.T, jobs []lockstep.Job) {
	t.Helper()
	for i := 0; i < len(jobs); i += 2 {
		if jobs[i].Route != jobs[i+1].Route || jobs[i].Policy != jobs[i+1].Policy {
			t.Errorf("%v: jobs %d and %d are no twins", s, i, i+1)
		}
	}
}

// holdJob: a job has gains and a route of the size, and one thing more at most, which is returned.
func (s Size) holdJob(t *testing.T, i int, j lockstep.Job) (beside string) {
	t.Helper()
	if pid := j.Policy.(lockstep.PID); pid.P < 0.1 || pid.P > 0.2501 || pid.I != 0.05 ||
		pid.D < -0.05 || pid.D-1e-12 > -0.05 ||
		pid.P != 0.25 && float64(float32(pid.P)) == pid.P {
		t.Errorf("%v: job %d has %v", s, i, pid)
	}
	if n := j.Route.Len(); n != s.Rows && n != s.Rows+1 {
		t.Errorf("%v: the route of job %d has %d rows", s, i, n)
	}
	if j.Draws != nil {
		beside += "draws"
	}
	if j.Expected {
		beside += "expected"
	}
	if j.Teacher != nil {
		beside += "teacher"
		s.holdTeacher(t, i, j)
	}
	return beside
}

// holdTeacher: a teacher has the route's rows, drives somewhat beside its targets, and steers to
// the right at first, always otherwise.
func (s Size) holdTeacher(t *testing.T, i int, j lockstep.Job) {
	t.Helper()
	n := j.Route.Len()
	if len(j.Teacher.Lataccel) != n || len(j.Teacher.Action) != n {
		t.Fatalf("%v: job %d has a teacher of %d rows, want %d", s, i, len(j.Teacher.Lataccel), n)
	}
	for k, target := range j.Route.TargetLataccel {
		beside := j.Teacher.Lataccel[k] - target
		if math.Abs(target) < 1e3 && !(beside > 0 && beside < 5) {
			t.Errorf("%v: job %d: in row %d the teacher is %v beside the target", s, i, k, beside)
		}
	}
	low, high := slices.Min(j.Teacher.Action), slices.Max(j.Teacher.Action)
	if !(low < 0 && low > -5 && high > low && high < 6) {
		t.Errorf("%v: job %d: the teacher steers from %v to %v", s, i, low, high)
	}
}

// begins is how many bytes of a file one begins with.
func begins(a, file []byte) int {
	n := 0
	for n < min(len(a), len(file)) && a[n] == file[n] {
		n++
	}
	return n
}

// alone is where the one byte stands that is another than the file's, or -1.
func alone(a, file []byte) int {
	at := begins(a, file)
	if len(a) == len(file) && at < len(file) && bytes.Equal(a[at+1:], file[at+1:]) {
		return at
	}
	return -1
}

// TestDamage: of what is damaged each kind of damage is there, to every bit, and none makes a
// program panic; what is empty stays so.
func TestDamage(t *testing.T) {
	t.Parallel()
	file := []byte("A file of some length, of which a part is missing, or a number stands there.")
	same := func(a []byte) int { return begins(a, file) }
	damaged := drawn(rapid.Custom(func(rt *rapid.T) []byte {
		defer func() { // since who draws an example passes over a panic, and tries again
			is := recover()
			if err, ok := is.(runtime.Error); ok {
				t.Errorf("Damage panics: %v", err)
			}
			if is != nil {
				panic(is)
			}
		}()
		return Damage(rt, bytes.Clone(file))
	}), 6000)
	flipped := func(d []byte) (now, was byte) { // the byte of which one bit is another
		if at := alone(d, file); at >= 0 && bits.OnesCount8(d[at]^file[at]) == 1 {
			return d[at], file[at]
		}
		return 0, 0
	}
	kinds := []kind[[]byte]{
		{"a bit set", 5, func(d []byte) bool { now, was := flipped(d); return now > was }},
		{"a bit cleared", 5, func(d []byte) bool { now, was := flipped(d); return now < was }},
		{"a bit in the second half", 8, func(d []byte) bool {
			now, was := flipped(d)
			return now != was && same(d) > len(file)/2
		}},
		{"a byte in the second half", 8, func(d []byte) bool {
			at := alone(d, file)
			return at > len(file)/2 && d[at] > 1 && d[at] != 0x7f && d[at] != 0xff &&
				bits.OnesCount8(d[at]^file[at]) > 1
		}},
		{"another than bit 0", 10, func(d []byte) bool {
			now, was := flipped(d)
			return now^was > 1
		}},
	}
	for bit := range 8 {
		kinds = append(kinds, kind[[]byte]{fmt.Sprint("bit ", bit), 0, func(d []byte) bool {
			now, was := flipped(d)
			return now^was == 1<<bit
		}})
	}
	kinds = append(kinds,
		kind[[]byte]{"whole", 20, func(d []byte) bool { return bytes.Equal(d, file) }},
		kind[[]byte]{"cut off", 20, func(d []byte) bool {
			return len(d) < len(file) && same(d) == len(d)
		}},
		kind[[]byte]{"a part missing", 10, func(d []byte) bool {
			at := same(d)
			return len(d) < len(file) && at < len(d) && bytes.HasSuffix(file, d[at:])
		}},
		kind[[]byte]{"a part twice", 5, func(d []byte) bool {
			at, more := same(d), len(d)-len(file)
			return more > 3 && bytes.HasSuffix(d, file[at:]) && bytes.Contains(file, d[at:at+more])
		}},
		kind[[]byte]{"others between", 5, func(d []byte) bool {
			at, more := same(d), len(d)-len(file)
			return more > 0 && bytes.HasSuffix(d, file[at:]) && !bytes.Contains(file, d[at:at+more])
		}},
	)
	for _, number := range []string{
		"\x00\x00\x00\x00", "\x01\x00\x00\x00", "\x7f\x00\x00\x00", "\xff\x00\x00\x00",
		"\xff\xff\x00\x00", "\xff\xff\xff\x7f", "\xff\xff\xff\xff",
		"\x00\x00\x00\x00\x01\x00\x00\x00", "\xff\xff\xff\xff\x00\x00\x00\x00",
		"\xff\xff\xff\xff\xff\xff\xff\x7f", "\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		kinds = append(kinds, kind[[]byte]{
			fmt.Sprintf("% x", number), 1,
			func(d []byte) bool { return bytes.Contains(d, []byte(number)) },
		})
	}
	holdKinds(t, damaged, func(d []byte) bool { return len(d) <= len(file)+4*64 }, kinds...)
	empty := rapid.Custom(func(t *rapid.T) []byte { return Damage(t, nil) })
	holdKinds(t, drawn(empty, 50), func(d []byte) bool { return len(d) == 0 })
}

// TestNetworks: each scale is drawn, of the embedded network's one seed, of the others all that
// are asked for.
func TestNetworks(t *testing.T) {
	t.Parallel()
	var kinds []kind[Reweighted]
	for _, scale := range Scales {
		for seed := range uint64(4) {
			if (scale == 0) != (seed == 0) {
				continue
			}
			kinds = append(kinds, kind[Reweighted]{
				Reweighted{seed, scale}.String(), 10,
				func(n Reweighted) bool { return n == Reweighted{seed, scale} },
			})
		}
	}
	holdKinds(t, drawn(Networks(3), 1000), func(n Reweighted) bool {
		return (n.Scale == 0) == (n.Seed == 0) && n.Seed <= 3
	}, kinds...)
}

// TestFixed: a fixed network ends in a layer normalisation that always answers (1, 0, …), and the
// head answers the logits to that; all else is the embedded one's.
func TestFixed(t *testing.T) {
	t.Parallel()
	logits := make([]float32, lockstep.VocabSize)
	for i := range logits {
		logits[i] = float32(i)/7 - 3
	}
	w, err := model.Parse(Fixed(logits))
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := onnx.Parse(defaults.Model())
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := onnx.Parse(Fixed(logits))
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for i := range fixed.Graph.Initializers {
		a, b := &embedded.Graph.Initializers[i], &fixed.Graph.Initializers[i]
		if !bytes.Equal(a.Raw, b.Raw) {
			changed = append(changed, a.Name)
		}
	}
	if len(changed) != 3 {
		t.Errorf("changed: %v, want three", changed)
	}
	norm := w.FinalNorm
	if slices.ContainsFunc(norm.Weight, func(x float32) bool { return x != 0 }) ||
		norm.Bias[0] != 1 ||
		slices.ContainsFunc(norm.Bias[1:], func(x float32) bool { return x != 0 }) {
		t.Errorf("the last layer normalisation: weight %v, bias %v", norm.Weight, norm.Bias)
	}
	for i, x := range logits {
		if w.Head[i] != x {
			t.Fatalf("the head's number %d is %v, want %v", i, w.Head[i], x)
		}
	}
	if slices.ContainsFunc(w.Head[len(logits):], func(x float32) bool { return x != 0 }) {
		t.Error("the head has more than one row")
	}
}
