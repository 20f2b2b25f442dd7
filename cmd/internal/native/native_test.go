//go:build cgo

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/parity/verdict"
	"lockstep/routefile"
)

// broken are rollouts whose every step panics.
type broken struct{ lockstep.Stepper }

func (broken) Index() int                                       { return lockstep.ControlStartIdx }
func (broken) Done() bool                                       { return false }
func (broken) Running(int) bool                                 { return true }
func (broken) Step(context.Context, []float64, []float64) error { panic("in Step") }

func TestPanicInATask(t *testing.T) {
	task := begin("panic", 0, "", nil)
	task.start()
	<-task.ended
	if !strings.Contains(task.text, `"panic: as was asked for"`) {
		t.Errorf("the answer is %s, want the panic", task.text)
	}
}

func TestPanicInAStep(t *testing.T) {
	r := &roll{turn: newTurn(), n: 1, stepper: broken{}}
	if err := r.step(make([]float64, 1), make([]float64, 1)); err == nil ||
		!strings.Contains(err.Error(), "in Step") {
		t.Errorf("the error is %v, want the panic's", err)
	}
}

// TestDescribe: each kind of error is an exception of its own, whatever it is wrapped in, and
// one line.
func TestDescribe(t *testing.T) {
	route := &routefile.Error{File: "a.csv", Line: 3, Column: 7, Err: errors.New("not a number")}
	where := failure{Type: "RouteError", File: "a.csv", Line: 3, Column: 7}
	for _, test := range []struct {
		err  error
		want failure
	}{
		{errors.New("it failed"), failure{Type: "SimulationError"}},
		{fs.ErrNotExist, failure{Type: "FileNotFoundError"}},
		{fs.ErrPermission, failure{Type: "PermissionError"}},
		{usagef("want %d", 3), failure{Type: "ValueError"}},
		{errClosed, failure{Type: "ClosedError"}},
		{errSimulatorClosed, failure{Type: "ClosedError"}},
		{route, where},
		{usage(route), where},
		{usage(fs.ErrNotExist), failure{Type: "FileNotFoundError"}},
		{usage(fs.ErrPermission), failure{Type: "PermissionError"}},
		{&routefile.Error{File: "a.csv", Err: fs.ErrNotExist}, failure{Type: "FileNotFoundError"}},
	} {
		two := fmt.Errorf("of two lines, %w\nthe second", test.err)
		for _, err := range []error{test.err, two} {
			want := test.want
			want.Message, _, _ = strings.Cut(err.Error(), "\n")
			if got := describe(err); *got != want {
				t.Errorf("%q: %+v, want %+v", err, *got, want)
			}
		}
	}
}

// TestTurn: a call that waits when the object is closed is told so, and so is every later one.
func TestTurn(t *testing.T) {
	turn := newTurn()
	if err := turn.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	if err := turn.last(func() error { close(ended); return nil }); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	for range 3 {
		go func() {
			err := turn.acquire(context.Background())
			if err == nil {
				turn.release()
			}
			waiting <- err
		}()
	}
	turn.release()
	for range 3 {
		if err := <-waiting; err != nil && err != errClosed {
			t.Error(err)
		}
	}
	<-ended
	if err := turn.acquire(context.Background()); err != errClosed {
		t.Errorf("after the last: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newTurn().acquire(gone); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if err := (&roll{turn: turn}).step(nil, nil); err != errClosed {
		t.Errorf("a step of what is closed: %v", err)
	}
}

// observed are rollouts whose observations are on a device.
type observed struct{ lockstep.DeviceStepper }

func (observed) ObserveOnDevice(into uintptr) (uintptr, error) { return into + 256, nil }

func TestDeviceFeatures(t *testing.T) {
	answer, err := deviceFeatures(nil, &roll{stepper: observed{}}, intoRequest{1024}, nil)
	if err != nil || answer != (addressAnswer{1280}) {
		t.Errorf("%v, %v; want where they are", answer, err)
	}
}

// TestOpenHeeds: each field of the request that opens a simulator is heeded, or refused by its
// value. A field that is new has no line, and fails; so is what a request has no field for.
func TestOpenHeeds(t *testing.T) {
	first := openRequest{
		Engine: "batched", Model: "own", Profile: lockstep.Profile{}.String(), Workers: 1,
	}
	opened := func(q openRequest) string {
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := open(begin("open", 0, "", nil), 0, text, nil)
		if err != nil {
			return err.Error()
		}
		a := answer.(openAnswer)
		s, err := get[*simulator](a.Handle)
		if err != nil {
			t.Fatal(err)
		}
		defer drop(a.Handle)
		return fmt.Sprint(a.Engine, a.Profile, a.Model, simtest.Inside(s, "Workers"))
	}
	simtest.Fields(t, map[string]func(q *openRequest){
		"openRequest.Engine":  func(q *openRequest) { q.Engine = "reference" },
		"openRequest.Model":   func(q *openRequest) { q.Model = "none.onnx" },
		"openRequest.Profile": func(q *openRequest) { q.Profile = lockstep.Profiles()[1].String() },
		"openRequest.Workers": func(q *openRequest) { q.Workers = 3 },
		"openRequest.Python":  nil, // asked for "host" alone: package installed
		"openRequest.Stream":  nil, // a GPU's
	}, func(name string, set func(q *openRequest)) {
		if set == nil {
			return
		}
		q := first
		if set(&q); opened(q) == opened(first) {
			t.Errorf("%s: with another one it is %s", name, opened(q))
		}
	}, reflect.TypeFor[openRequest]())
	const unknown = `json: unknown field "worker"`
	if err := parse([]byte(`{"worker": 3}`), &first); err == nil ||
		!strings.Contains(err.Error(), unknown) {
		t.Errorf("%v, want %s", err, unknown)
	}
}

// TestPage: a page names the call that makes it again, as Python has it.
func TestPage(t *testing.T) {
	for kind, want := range map[string]string{
		"diff":   `<dd>lockstep.compare(got)</dd>`,
		"traces": `<dd>lockstep.compare_traces(&#34;want&#34;, &#34;got&#34;)</dd>`,
	} {
		file := filepath.Join(t.TempDir(), "page.html")
		c := &verdict.Comparison{Kind: kind, Want: "want", Got: "got", Error: "it failed"}
		if _, err := page(nil, c, struct{ File string }{file}, nil); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: the page has no %s", kind, want)
		}
	}
}

// opened is a simulator of the reference with the project's own network, for a test's time.
func opened(t *testing.T) *simulator {
	answer, err := open(begin("open", 0, "", nil), 0,
		[]byte(`{"Engine": "reference", "Model": "own", "Profile": "pins", "Workers": 1}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	handle := answer.(openAnswer).Handle
	t.Cleanup(func() { drop(handle) })
	s, err := get[*simulator](handle)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCompareOfAnotherSimulator: its trace is refused in words, whatever its keys are.
func TestCompareOfAnotherSimulator(t *testing.T) {
	s, all := opened(t), put(routes{})
	defer drop(all)
	other := *tinyphysics.Schema(lockstep.AllSteps)
	other.Name, other.Key = "fall", other.Key[:1]
	file := filepath.Join(t.TempDir(), "mine.trace")
	if err := trace.WriteFile(
		file, trace.Header{Schema: other}, 0, func(w *trace.Writer) error {
			w.Begin(trace.Rollout{Key: []string{"00000"}}).End(nil, errors.New("it fell"))
			return nil
		},
	); err != nil {
		t.Fatal(err)
	}
	const want = "mine.trace: fall and tinyphysics are other simulators: compare_traces holds it"
	q := compareRequest{Trace: file, Mine: "mine", Routes: all}
	_, err := compare(begin("compare", 0, "", nil), s, q, nil)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// backwards answers its jobs from the last to the first; the cost says which job and route it is.
type backwards struct{ lockstep.Implementation }

func (backwards) Simulate(
	_ context.Context, jobs []lockstep.Job, _ lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for i := len(jobs) - 1; i >= 0; i-- {
			total := float64(100*i + jobs[i].Route.Len())
			if !yield(i, lockstep.Result{Costs: lockstep.Costs{Total: total}}) {
				return
			}
		}
	}
}

// TestSweep: results of a search are those of their policies and routes, in whatever order the
// rollouts end.
func TestSweep(t *testing.T) {
	of := routes{{TargetLataccel: make([]float64, 3)}, {TargetLataccel: make([]float64, 7)}}
	got, err := newSimulator(backwards{}).sweep(begin("tune", 0, "", nil), of,
		[]lockstep.Policy{lockstep.Zero{}, lockstep.DefaultPID()})
	if err != nil {
		t.Fatal(err)
	}
	var totals []float64
	for _, r := range got {
		totals = append(totals, r.Costs.Total)
	}
	if want := []float64{3, 107, 203, 307}; !slices.Equal(totals, want) {
		t.Errorf("costs %v, want %v", totals, want)
	}
}

// collected keeps the jobs that it is asked for.
type collected struct {
	lockstep.Implementation
	jobs []lockstep.Job
}

func (c *collected) Collect(
	_ context.Context, jobs []lockstep.Job,
) (*lockstep.Experience, error) {
	c.jobs = jobs
	return &lockstep.Experience{Jobs: jobs, Results: make([]lockstep.Result, len(jobs))}, nil
}

// TestCollect: samples are rollouts of every route in turn, each of which draws by its own number.
func TestCollect(t *testing.T) {
	var of routes
	for _, rows := range []int{300, 500} {
		of = append(of, &lockstep.Route{TargetLataccel: make([]float64, rows)})
	}
	handle, policy := put(of), put(&lockstep.Network{})
	for samples, want := range []string{
		"300 500", "300/9.0 500/9.1", "300/9.0 500/9.1 300/9.2 500/9.3",
	} {
		c := &collected{}
		answer, err := collect(begin("collect", 0, "", nil), newSimulator(c), collectRequest{
			Routes: handle, Positions: []int{0, 1}, Samples: samples, Seed: 9,
			Policy: controllerSpec{Kind: "object", Handle: policy},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, job := range c.jobs {
			is := fmt.Sprint(job.Route.Len())
			if s := job.Sampling; s != nil {
				is += fmt.Sprintf("/%d.%d", s.Seed, s.ID)
			}
			got = append(got, is)
			if steps := answer.(collectAnswer).Steps[i]; steps != job.Route.Len()-100 {
				t.Errorf("rollout %d has %d steps, of %s", i, steps, is)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d samples: %v, want %s", samples, got, want)
		}
	}
}
