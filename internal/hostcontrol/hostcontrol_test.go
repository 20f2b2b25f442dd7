package hostcontrol

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockstep"
)

// route has a target that tells its steps apart.
func route() *lockstep.Route { return routeOf(0) }

// routeOf has numbers that tell its steps, its columns and itself apart.
func routeOf(k int) *lockstep.Route {
	r := &lockstep.Route{}
	for column, of := range r.Columns() {
		for i := range lockstep.MinRows {
			x := float64(i)
			if k > 0 {
				x += float64(1000*column + 10000*k)
			}
			*of = append(*of, x)
		}
	}
	return r
}

// scripted answers 10·target + lataccel, and does to itself what its fields say.
type scripted struct {
	err    error
	ones   map[int]error // of one route
	panics bool
	asked  [][]bool // which routes ran
	steps  []int
	stale  []error // what stood in the place of errors
	closed int
}

func (c *scripted) Update(s *lockstep.BatchStep) error {
	c.asked = append(c.asked, append([]bool(nil), s.Running...))
	c.steps = append(c.steps, s.Step)
	c.stale = append(c.stale, s.Err...)
	if c.panics {
		panic("it panics")
	}
	for k := range s.Steer {
		s.Steer[k], s.Err[k] = 10*s.TargetLataccel[k]+s.CurrentLataccel[k], c.ones[k]
	}
	return c.err
}

func (c *scripted) Close() error { c.closed++; panic("it does not close") }

func batch(c lockstep.BatchController, err error) *lockstep.Batch {
	return &lockstep.Batch{
		New: func([]*lockstep.Route) (lockstep.BatchController, error) { return c, err },
	}
}

// TestAsk: seats that run have the controller's answer or its error, the others keep what
// they have, and without any nobody is asked.
func TestAsk(t *testing.T) {
	whole, one := errors.New("whole"), errors.New("one")
	for name, c := range map[string]struct {
		scripted
		want string
	}{
		"answers":        {want: "25 <nil>, 7 <nil>, 26 <nil>"},
		"fails one":      {scripted{ones: map[int]error{2: one}}, "25 <nil>, 7 <nil>, 26 one"},
		"fails idle one": {scripted{ones: map[int]error{1: one}}, "25 <nil>, 7 <nil>, 26 <nil>"},
		"fails all":      {scripted{err: whole}, "7 whole, 7 <nil>, 7 whole"},
		"panics": {
			scripted{panics: true}, "7 panic: it panics, 7 <nil>, 7 panic: it panics",
		},
	} {
		g, err := New(batch(&c.scripted, nil), route(), route(), route())
		if err != nil {
			t.Fatal(err)
		}
		for k := range g.Seats {
			g.Seats[k] = Seat{Running: k != 1, Lataccel: float64(5 + k/2), Command: 7}
		}
		g.Ask(2)
		var got []string
		for _, s := range g.Seats {
			line, _, _ := strings.Cut(fmt.Sprint(s.Command, " ", s.Err), "\n")
			got = append(got, line)
		}
		if got := strings.Join(got, ", "); got != c.want ||
			fmt.Sprint(c.asked) != "[[true false true]]" {
			t.Errorf("%s: %s, asked %v; want %s", name, got, c.asked, c.want)
		}
		clear(g.Seats)
		if g.Ask(3); len(c.asked) != 1 {
			t.Errorf("%s: it was asked for nobody", name)
		}
		for k := range g.Seats {
			g.Seats[k].Running = true
		}
		g.Ask(4)
		if stale := errors.Join(c.stale...); stale != nil || fmt.Sprint(c.steps) != "[2 4]" {
			t.Errorf("%s: asked of steps %v, with errors of before: %v", name, c.steps, stale)
		}
		for first := range 2 {
			err := g.Close()
			if c.closed != 1 || (first == 0) != (err != nil) ||
				err != nil && !strings.HasPrefix(err.Error(), "panic: it does not close") {
				t.Errorf("%s: closed %d times: %v", name, c.closed, err)
			}
		}
	}
}

// TestPresented: each route of a controller is shown its own row, plan and lataccel, and has its
// own answer; one that does not run, neither, whichever of the three run.
func TestPresented(t *testing.T) {
	const step, all = 7, 3
	var routes []*lockstep.Route
	for k := range all {
		routes = append(routes, routeOf(1+k))
	}
	for mask := 1; mask < 1<<all; mask++ {
		var made []*lockstep.Route
		shown := map[int]string{}
		c := &watching{func(s *lockstep.BatchStep) {
			for k, runs := range s.Running {
				if runs != (mask>>k&1 == 1) {
					t.Errorf("%03b: route %d runs is %v", mask, k, runs)
				}
				if s.Steer[k] = float64(100 + k); runs {
					shown[k] = fmt.Sprint(s.Step, s.TargetLataccel[k], s.CurrentLataccel[k],
						s.State[k], s.Plan[k])
				}
			}
		}}
		g, err := New(&lockstep.Batch{
			New: func(of []*lockstep.Route) (lockstep.BatchController, error) {
				made = of
				return c, nil
			},
		}, routes...)
		if err != nil || !slices.Equal(made, routes) {
			t.Fatalf("a controller of %v, want %v (%v)", made, routes, err)
		}
		for k := range g.Seats {
			g.Seats[k] = Seat{Running: mask>>k&1 == 1, Lataccel: float64(k) / 8, Command: -1}
		}
		g.Ask(step)
		for k, r := range routes {
			want, answer := "", -1.0
			if mask>>k&1 == 1 {
				answer = float64(100 + k)
				want = fmt.Sprint(step, r.TargetLataccel[step], float64(k)/8, r.State(step),
					r.FuturePlan(step))
			}
			if shown[k] != want || g.Seats[k].Command != answer {
				t.Errorf("%03b, route %d: is shown %s and has %v, want %s and %v",
					mask, k, shown[k], g.Seats[k].Command, want, answer)
			}
		}
	}
}

// watching is a controller that is a function.
type watching struct{ update func(*lockstep.BatchStep) }

func (c *watching) Update(s *lockstep.BatchStep) error {
	c.update(s)
	return nil
}

func (*watching) Close() error { return nil }

// TestNew: what makes no controller is an error, and a controller of one route sees it.
func TestNew(t *testing.T) {
	for want, policy := range map[string]lockstep.Policy{
		"made no controller": batch(nil, nil),
		"cannot":             batch(nil, errors.New("cannot")),
		"it panics": lockstep.Custom{
			New: func() lockstep.Controller { panic("it panics") },
		},
		"no controller of type ": lockstep.Zero{},
	} {
		if g, err := New(policy, route()); g != nil || err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", policy, err, want)
		}
	}
	r := route()
	const target, current = 3.1, 5.1 // which no float32 is
	r.TargetLataccel[3] = target
	g, err := New(lockstep.Custom{New: func() lockstep.Controller { return sees{} }}, r)
	if err != nil {
		t.Fatal(err)
	}
	want := sees{}.Update(target, current, r.State(3), r.FuturePlan(3))
	g.Seats[0] = Seat{Running: true, Lataccel: current}
	if g.Ask(3); g.Seats[0].Command != want || g.Seats[0].Err != nil {
		t.Errorf("%+v, want %v", g.Seats[0], want)
	}
	g.Close()
}

// sees answers what it sees.
type sees struct{}

func (sees) Update(target, current float64, s lockstep.State, plan lockstep.FuturePlan) float64 {
	return 1000*target + 100*current + 10*s.VEgo + plan.Lataccel[0]
}
