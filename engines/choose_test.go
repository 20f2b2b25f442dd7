package engines

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/want"
)

// fake is an engine that computes nothing.
type fake struct {
	lockstep.Implementation
	name    string
	profile lockstep.Profile
	notices []string
	closed  *[]string
}

func (f fake) Name() string              { return f.name }
func (f fake) Profile() lockstep.Profile { return f.profile }
func (f fake) About() lockstep.About     { return lockstep.About{Notices: f.notices} }
func (f fake) Close() error              { *f.closed = append(*f.closed, f.name); return nil }

// fakes puts other engines in the list's place until the end of the test, and returns the names of
// those that are closed.
func fakes(t *testing.T, list ...Engine) *[]string {
	before, closed := known, &[]string{}
	known = list
	t.Cleanup(func() { known = before })
	for i := range known {
		e := &known[i]
		if e.Missing == nil {
			e.Missing = never
		}
		e.New = func(c Config) (lockstep.Implementation, error) {
			if e.ByLibrary {
				c.Profile.CSV = lockstep.CSVExact // a part of it
			}
			var notices []string
			if e.Quiet {
				notices = []string{"it is quiet"}
			}
			return fake{name: e.Name, profile: c.Profile, notices: notices, closed: closed}, nil
		}
	}
	return closed
}

var errWarp = errors.New("no warp")

func missing() error { return errWarp }

func names(list []*Engine) (all []string) {
	for _, e := range list {
		all = append(all, e.Name)
	}
	return all
}

// TestTried: slow engines are not tried, and quiet ones only where they can run.
func TestTried(t *testing.T) {
	fakes(t, Engine{Name: "a"}, Engine{Name: "slow", Slow: true},
		Engine{Name: "quiet", Quiet: true}, Engine{Name: "none", Missing: missing},
		Engine{Name: "quiet none", Quiet: true, Missing: missing})
	if got := names(Tried()); !slices.Equal(got, []string{"a", "quiet", "none"}) {
		t.Errorf("tried are %q", got)
	}
}

// TestChoose: the last engine that can run is taken, and who asked hears why others are not; one
// that has another profile than is needed is closed.
func TestChoose(t *testing.T) {
	closed := fakes(t, Engine{Name: "first", Quiet: true}, Engine{Name: "library", ByLibrary: true},
		Engine{Name: "last", Missing: missing})
	for _, c := range []struct {
		name    string
		profile lockstep.Profile
		exact   bool
		want    string
		notices []string
		fails   string
		closed  string
	}{
		{Auto, lockstep.Profile{}, false, "library",
			[]string{"using the library engine, since the last one cannot run: no warp"}, "", ""},
		{Auto, lockstep.Profile{}, true, "first", []string{"it is quiet", "using the first " +
			"engine, since the last one cannot run: no warp, and the library one cannot run: the " +
			"library engine computes with profile " +
			lockstep.Profile{CSV: lockstep.CSVExact}.String() + " on this machine, not " +
			lockstep.Profile{}.String()}, "", "library"},
		{Auto, lockstep.Profile{CSV: lockstep.CSVExact}, true, "library",
			[]string{"using the library engine, since the last one cannot run: no warp"}, "", ""},
		{"first", lockstep.Profile{}, true, "first", []string{"it is quiet"}, "", ""},
		{"library", lockstep.Profile{}, false, "library", nil, "", ""},
		{"library", lockstep.Profile{}, true, "", nil, "the library engine computes with profile " +
			lockstep.Profile{CSV: lockstep.CSVExact}.String() + " on this machine, not " +
			lockstep.Profile{}.String(), "library"},
		{"last", lockstep.Profile{}, false, "", nil, "no warp", ""},
		{"other", lockstep.Profile{}, false, "", nil,
			`engine "other" is not known, want one of first, library, last`, ""},
	} {
		*closed = nil
		s, notices, err := Choose(c.name, Config{Profile: c.profile}, c.exact)
		got := ""
		if s != nil && err == nil {
			got = s.Name()
		}
		if got != c.want || (err == nil) != (c.fails == "") ||
			err != nil && err.Error() != c.fails ||
			strings.Join(*closed, " ") != c.closed {
			t.Errorf("%s, exact is %v: %q, %v, closed %q; want %q, %s", c.name, c.exact, got, err,
				*closed, c.want, c.fails)
		}
		if !slices.Equal(notices, c.notices) {
			t.Errorf("%s, exact is %v: notices %q, want %q", c.name, c.exact, notices, c.notices)
		}
	}
}

// TestComputes: an engine has the arithmetic of a profile unless it says that it lacks it.
func TestComputes(t *testing.T) {
	lacks := func(p lockstep.Profile) error {
		if p.CSV == lockstep.CSVExact {
			return errWarp
		}
		return nil
	}
	for _, c := range []struct {
		lacks func(lockstep.Profile) error
		csv   lockstep.Profile
		want  bool
	}{
		{nil, lockstep.Profile{}, true}, {lacks, lockstep.Profile{}, true},
		{lacks, lockstep.Profile{CSV: lockstep.CSVExact}, false},
	} {
		if got := (&Engine{Lacks: c.lacks}).Computes(c.csv); got != c.want {
			t.Errorf("%v computes: %v", c.csv, got)
		}
	}
}

// TestCommon: the profile of several engines is that of the one whose library decides, where it
// runs, and else the host's.
func TestCommon(t *testing.T) {
	closed := fakes(t, Engine{Name: "a"}, Engine{Name: "library", ByLibrary: true},
		Engine{Name: "none", ByLibrary: true, Missing: missing})
	open := known[1].New
	known[1].New = func(c Config) (lockstep.Implementation, error) {
		if c.Model != "its network" {
			return nil, errWarp
		}
		return open(c)
	}
	host := lockstep.Profile{Exp: lockstep.ExpF}
	own := lockstep.Profile{Exp: lockstep.ExpF, CSV: lockstep.CSVExact}
	for _, c := range []struct {
		list []string
		want lockstep.Profile
	}{
		{[]string{"a"}, host}, {[]string{"a", "library"}, own},
		{[]string{"none", "library", "a"}, own}, {[]string{"none", "a"}, host},
	} {
		list, err := ByName(c.list...)
		if err != nil {
			t.Fatal(err)
		}
		*closed = nil
		got := Common(list, "its network", host)
		if got != c.want || (len(*closed) == 1) != (c.want == own) {
			t.Errorf("%q: %v, closed %q; want %v", c.list, got, *closed, c.want)
		}
	}
}

// TestOf: a file is of the engines in whose folder it lies, then of those that rest on them.
func TestOf(t *testing.T) {
	fakes(t, Engine{Name: "a", Folder: "a"}, Engine{Name: "b", Folder: "b"},
		Engine{Name: "c", Folder: "c"}, Engine{Name: "inside", Folder: "b/inside", Rests: "b"})
	for file, want := range map[string][]string{
		"a/x.go": {"a"}, "b/x.go": {"b", "inside"}, "b/inside/x.go": {"inside"}, "x.go": nil,
		"ab/x.go": nil, "c/b/x.go": {"c"},
	} {
		if got := Of(file); !slices.Equal(got, want) {
			t.Errorf("%s is of %q, want %q", file, got, want)
		}
	}
}

// member is an engine of another family.
type member struct {
	name    string
	workers int
}

func (m member) Name() string { return m.name }

// TestFamily: an engine of a family is found by its name, or it is the last that is here and not
// slow; what is wrong with one that is here is told, and hides none before it.
func TestFamily(t *testing.T) {
	lack := &want.Error{Want: want.Compiler, Reason: errWarp}
	make := func(name string, slow bool, err error) Member[member] {
		return Member[member]{Name: name, Slow: slow, New: func(workers int) (member, error) {
			return member{name, workers}, err
		}}
	}
	f := &Family[member]{simulates: "toys", known: []Member[member]{
		make("first", false, nil), make("second", false, nil), make("absent", false, lack),
		make("slow", true, nil), make("compiled", true, errWarp),
	}}
	f.known[4].Compiled = true
	for name, want := range map[string]string{
		"": "second", Auto: "second", "first": "first", "slow": "slow",
		"absent": lack.Error(), "compiled": "no warp",
		"other": `no engine "other" computes toys: there are first, second, absent, slow, compiled`,
	} {
		e, err := f.Open(name, 3)
		got := e.name
		if err != nil {
			got = err.Error()
		}
		if got != want || err == nil && e.workers != 3 {
			t.Errorf("%q: %s with %d workers, want %s", name, got, e.workers, want)
		}
	}
	if got := f.Tried(); !slices.Equal(got, []string{"first", "second", "absent"}) {
		t.Errorf("tried are %q", got)
	}
	if got := f.Checked(); len(got) != 4 || got[3].Name != "slow" || len(f.All()) != 5 {
		t.Errorf("checked are %d engines of %d", len(got), len(f.All()))
	}
	restore := f.Replace([]Member[member]{make("broken", false, errWarp)})
	if _, err := f.Open("", 1); err != errWarp || f.Simulates() != "toys" {
		t.Errorf("an engine that is here and breaks: %v", err)
	}
	if restore(); len(f.All()) != 5 {
		t.Errorf("%d engines are put back", len(f.All()))
	}
	if got := f.Identity(member{"x", 1}); got != "lockstep/engines on x" {
		t.Errorf("it is %q", got)
	}
}

// TestFamilySlow: whichever of three engines are slow, those are tried that are not, and the last
// of them is opened.
func TestFamilySlow(t *testing.T) {
	for mask := range 1 << 3 {
		var three []Member[member]
		var want []string
		for k, name := range []string{"a", "b", "c"} {
			three = append(three, Member[member]{
				Name: name, Slow: mask>>k&1 == 1,
				New: func(workers int) (member, error) { return member{name, workers}, nil },
			})
			if mask>>k&1 == 0 {
				want = append(want, name)
			}
		}
		some := &Family[member]{known: three}
		if got := some.Tried(); !slices.Equal(got, want) {
			t.Errorf("slow ones %03b: tried are %q, want %q", mask, got, want)
		}
		if want == nil {
			continue // one of a family is fast
		}
		if e, err := some.Open("", 1); err != nil || e.name != want[len(want)-1] {
			t.Errorf("slow ones %03b: %v is opened (%v)", mask, e, err)
		}
	}
}

// TestSlopesRefuse: slopes of what has no next step, is not as many, or is nudged by nothing are
// refused before anything is computed, also where it is not the first rollout's fault.
func TestSlopesRefuse(t *testing.T) {
	job := func(name string, rows int) lockstep.Job {
		r := &lockstep.Route{Name: name}
		for _, column := range r.Columns() {
			*column = make([]float64, rows)
		}
		return lockstep.Job{Route: r}
	}
	by := Nudges{Action: 0.25, Roll: 0.5, Speed: 3, Acceleration: 0.4, Lataccel: 0.15}
	// Nothing is wrong with the first rollout but what is wrong with the snapshot.
	shotOf := func(step, have int, failed string) *lockstep.Snapshot {
		first, all := make([]float64, step), make([]float64, have)
		return &lockstep.Snapshot{Step: step, Rollouts: []lockstep.RolloutState{
			{Route: "first", Lataccel: first, Action: first},
			{Route: "r", Lataccel: all, Action: all, Err: failed},
		}}
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		rows   int
		shot   *lockstep.Snapshot
		action []float64
		by     func(*Nudges)
		want   string
	}{
		{110, shotOf(99, 99, ""), []float64{0, 0}, nil,
			"the snapshot is of step 99, before which recorded commands steer: want 100 at least"},
		{110, shotOf(105, 105, ""), nil, nil,
			"2 jobs, a snapshot of 2 rollouts and 0 commands, want as many"},
		{110, &lockstep.Snapshot{Step: 105}, []float64{0, 0}, nil,
			"2 jobs, a snapshot of 0 rollouts and 2 commands, want as many"},
		{110, shotOf(110, 110, ""), []float64{0, 0}, nil, `rollout 1 of route "r" has no step 110`},
		{110, shotOf(105, 104, ""), []float64{0, 0}, nil, `rollout 1 of route "r" has no step 105`},
		{110, shotOf(105, 105, "no"), []float64{0, 0}, nil,
			`rollout 1 of route "r" has no step 105`},
		{110, shotOf(105, 105, ""), []float64{1, 2.5}, nil, "command 1 is 2.5, want one within ±2"},
		{110, shotOf(105, 105, ""), []float64{1, -2.5}, nil,
			"command 1 is -2.5, want one within ±2"},
		{110, shotOf(105, 105, ""), []float64{1, math.Nextafter(2, 3)}, nil,
			"command 1 is 2.0000000000000004, want one within ±2"},
		{110, shotOf(105, 105, ""), []float64{nan, 0}, nil, "command 0 is NaN, want one within ±2"},
		{110, shotOf(105, 105, ""), []float64{0, 0}, func(n *Nudges) { n.Action = 0 },
			"a nudge of 0, want a number above 0"},
		{110, shotOf(105, 105, ""), []float64{0, 0}, func(n *Nudges) { n.Roll = -1 },
			"a nudge of -1, want a number above 0"},
		{110, shotOf(105, 105, ""), []float64{0, 0}, func(n *Nudges) { n.Speed = nan },
			"a nudge of NaN, want a number above 0"},
		{110, shotOf(105, 105, ""), []float64{0, 0}, func(n *Nudges) { n.Acceleration = inf },
			"a nudge of +Inf, want a number above 0"},
		{110, shotOf(105, 105, ""), []float64{0, 0}, func(n *Nudges) { n.Lataccel = 0 },
			"a nudge of 0, want a number above 0"},
		// What is asked is asked of the simulator, which here is none.
		{110, shotOf(100, 100, ""), []float64{-2, 2}, nil, errWarp.Error()},
		{110, shotOf(109, 109, ""), []float64{2, -2}, nil, errWarp.Error()},
	} {
		by := by
		if c.by != nil {
			c.by(&by)
		}
		jobs := []lockstep.Job{job("first", 200), job("r", c.rows)}
		_, err := NextSlopes(t.Context(), unmade{}, jobs, c.shot, c.action, by)
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// unmade is a simulator that makes no stepper.
type unmade struct{ lockstep.StepSimulator }

func (unmade) Reset(
	context.Context, []lockstep.Job, lockstep.Options,
) (lockstep.Stepper, error) {
	return nil, errWarp
}

// linear is a simulator whose next lataccel is a sum of all that it may depend on, each times a
// number of its own, and a number of the route.
type linear struct {
	lockstep.StepSimulator
	most *int  // rollouts at once
	open *int  // steppers
	ends error // the last of them, or nil
}

type linearStepper struct {
	lockstep.Stepper
	jobs []lockstep.Job
	shot *lockstep.Snapshot
	open *int
	ends error
}

func weight(v int) float64 { return float64(v%13) - 6.5 }

func (l linear) Reset(
	_ context.Context, jobs []lockstep.Job, opts lockstep.Options,
) (lockstep.Stepper, error) {
	if len(jobs) == 0 {
		return nil, errors.New("a stepper of nothing")
	}
	if opts.Shortcuts != lockstep.FullTrajectory || !jobs[len(jobs)-1].Expected {
		return nil, errors.New("more is computed than expected values")
	}
	*l.most = max(*l.most, len(jobs))
	*l.open++
	return &linearStepper{jobs: jobs, open: l.open, ends: l.ends}, nil
}

func (s *linearStepper) Restore(_ context.Context, shot *lockstep.Snapshot) error {
	s.shot = shot
	return nil
}

func (s *linearStepper) Step(_ context.Context, commands, lataccels []float64) error {
	t := s.shot.Step
	for i := range lataccels {
		r, state := s.jobs[i].Route, &s.shot.Rollouts[i]
		all := []float64{commands[i], r.RollLataccel[t], r.VEgo[t], r.AEgo[t]}
		all = append(all, state.Lataccel[t-lockstep.ContextLength:t]...)
		all = append(all, state.Action[t-lockstep.ContextLength+1:t]...)
		for _, u := range append([]float64{commands[i]}, state.Action...) {
			if math.Abs(u) > lockstep.SteerMax {
				return fmt.Errorf("a command of %v", u)
			}
		}
		x := float64(r.Seed)
		for v, value := range all {
			x += weight(v) * value
		}
		lataccels[i] = x
	}
	return nil
}

func (s *linearStepper) Err(i int) error {
	if i == len(s.jobs)-1 {
		return s.ends
	}
	return nil
}

func (s *linearStepper) Close() error {
	*s.open--
	return nil
}

// TestSlopesLinear: the slopes of what is linear are its factors, for each of no rollouts and of
// more than are computed together, at the limits of commands, too.
func TestSlopesLinear(t *testing.T) {
	const together = atOnce / (1 + 2*Variables)
	for _, n := range []int{0, 3 * together, 3*together + 1} {
		slopesLinear(t, n)
	}
}

// slopesRefused: what a stepper says is told, and a nudge that changes nothing is refused.
func slopesRefused(
	t *testing.T, of linear, jobs []lockstep.Job, shot *lockstep.Snapshot, actions []float64,
) {
	t.Helper()
	lost := DefaultNudges()
	if lost != (Nudges{0.1, 0.1, 0.5, 0.1, 0.1}) {
		t.Errorf("small nudges are %+v", lost)
	}
	lost.Speed = 1e-30
	at := jobs[0].Route.VEgo[shot.Step]
	for want, c := range map[string]struct {
		ends error
		by   Nudges
	}{
		errWarp.Error(): {errWarp, DefaultNudges()},
		fmt.Sprintf("rollout 0: variable 2 is %v, which a nudge of 1e-30 does not change: "+
			"want a larger one", at): {nil, lost},
	} {
		of.ends = c.ends
		if _, err := NextSlopes(t.Context(), of, jobs, shot, actions, c.by); err == nil ||
			err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func slopesLinear(t *testing.T, n int) {
	const step = 120
	shot := &lockstep.Snapshot{Step: step}
	var jobs []lockstep.Job
	var actions []float64
	for i := range n {
		r := &lockstep.Route{Name: "r", Seed: uint32(i)}
		for k, column := range r.Columns() {
			for row := range 140 {
				*column = append(*column, math.Sin(float64(i+7*k+row)))
			}
		}
		state := lockstep.RolloutState{Route: "r"}
		for row := range step {
			state.Lataccel = append(state.Lataccel, math.Cos(float64(i+row)))
			state.Action = append(state.Action, []float64{-2, 0.5, 2}[(i+row)%3])
		}
		jobs = append(jobs, lockstep.Job{Route: r})
		shot.Rollouts = append(shot.Rollouts, state)
		actions = append(actions, []float64{2, -2, 0.3}[i%3])
	}
	most, open := 0, 0
	of := linear{most: &most, open: &open}
	got, err := NextSlopes(t.Context(), of, jobs, shot, actions, DefaultNudges())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Lataccel) != n || len(got.By) != n*Variables {
		t.Errorf("%d rollouts have %d lataccels and %d slopes", n, len(got.Lataccel), len(got.By))
	}
	if n > 0 {
		slopesRefused(t, of, jobs, shot, actions)
	}
	if open != 0 {
		t.Errorf("%d steppers are left open", open)
	}
	if most > atOnce || n > 0 && most < atOnce/2 {
		t.Errorf("%d candidates are computed at once, of %d rollouts", most, n)
	}
	now := make([]float64, n)
	plain := &linearStepper{jobs: jobs, shot: shot}
	if err := plain.Step(t.Context(), actions, now); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got.Lataccel[i] != now[i] {
			t.Errorf("rollout %d: %v, want %v", i, got.Lataccel[i], now[i])
		}
		for v := range Variables { // differences round
			if d := got.By[i*Variables+v] - weight(v); !(math.Abs(d) < 1e-9) {
				t.Errorf("rollout %d, variable %d: %v, want %v", i, v, got.By[i*Variables+v],
					weight(v))
			}
		}
	}
}
