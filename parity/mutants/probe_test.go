package mutants

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/engines"
	"lockstep/golden"
	"lockstep/golden/policies"
	"lockstep/internal/arbitrary"
	"lockstep/internal/assets"
	"lockstep/internal/defaults"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/reference"
	"lockstep/routefile"
)

// What Plant has TestProbe hold, with a fault in it.
var (
	probedEngine = flag.String(
		"engine", "", "engine to hold to all that the harness has; default: every one, briefly",
	)
	probedKernels = flag.String("kernels", "", "set of the reference's kernels; default: the best")
)

// TestProbe holds an engine to all that the harness has, and prints the verdict: Plant
// runs it with a fault in the code. By itself it holds every engine that is here and is
// not slow to what takes no time, and finds nothing.
func TestProbe(t *testing.T) {
	if *probedEngine == "" {
		for _, e := range engines.Tried() {
			t.Run(e.Name, func(t *testing.T) {
				want.Skip(t, e.Absent())
				p := newProber(t, e)
				err := errors.Join(p.policies(t.Context()), p.drawsOnEdges(t.Context()))
				if err != nil || p.verdict.Steps == 0 {
					t.Errorf("%+v: %v", p.verdict, err)
				}
			})
		}
		return
	}
	list, err := engines.ByName(*probedEngine)
	if err != nil {
		t.Fatal(err)
	}
	p := newProber(t, list[0])
	if p.engine.Slow {
		t.Setenv("XDG_CACHE_HOME", p.dir) // where kernels are kept that were compiled
	}
	if err := p.probe(t.Context()); err != nil && !errors.Is(err, errCaught) {
		t.Fatal(err)
	}
	if err := p.verdict.Print(); err != nil || p.verdict.Caught {
		t.Fatal(err)
	}
}

// prober goes from check to check until one finds something.
type prober struct {
	engine                        *engines.Engine
	kernels                       string
	root, model                   string // of the module, the project's own network
	officialModel, officialRoutes string // empty if they are not here

	dir     string // for files that engines read
	verdict Sighting
}

// errCaught ends the probe: the verdict says the rest.
var errCaught = errors.New("caught")

func newProber(t *testing.T, e *engines.Engine) *prober {
	p := &prober{engine: e, kernels: *probedKernels, dir: t.TempDir()}
	var err error
	if p.root, err = FindRoot("."); err == nil {
		p.model, _, err = defaults.Write(p.dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if model, err := assets.Find(assets.Model); err == nil {
		if routes, err := assets.Find(assets.Routes); err == nil {
			p.officialModel, p.officialRoutes = model, routes
		}
	}
	return p
}

func (p *prober) probe(ctx context.Context) error {
	if p.kernels != "go" { // the plain loops take half a minute a route
		if err := p.recordings(ctx, "golden/testdata/default", p.model, loadOwn); err != nil {
			return err
		}
		if p.officialModel != "" && !p.engine.Slow {
			load := func(profile lockstep.Profile, name string) (*lockstep.Route, error) {
				return routefile.Loader{
					Profile: profile,
				}.Load(filepath.Join(p.officialRoutes, name+".csv"))
			}
			if err := p.recordings(ctx, "golden/testdata", p.officialModel, load); err != nil {
				return err
			}
		}
	}
	for _, check := range []func(context.Context) error{p.policies, p.edges, p.drawsOnEdges} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// loadOwn loads one of the project's own routes.
func loadOwn(profile lockstep.Profile, name string) (*lockstep.Route, error) {
	text, err := fs.ReadFile(defaults.Routes(), name+".csv")
	if err != nil {
		return nil, err
	}
	return routefile.Loader{
		Profile: profile,
	}.Read(bytes.NewReader(text), path.Join("data", name+".csv"))
}

// slowRecordings is how many recordings a slow engine is held to.
const slowRecordings = 3

// recordings holds the engine to the recordings of the Python program under a
// folder, with and without shortcuts.
func (p *prober) recordings(
	ctx context.Context, root, model string,
	load func(lockstep.Profile, string) (*lockstep.Route, error),
) error {
	sets, err := golden.Sets(filepath.Join(p.root, root))
	if err == nil && len(sets) == 0 {
		err = fmt.Errorf("%s: no recordings", root)
	}
	if err != nil {
		return err
	}
	for _, set := range sets {
		if !p.engine.Computes(set.Profile) {
			continue
		}
		engine, err := p.open(model, set.Profile)
		if err != nil {
			return err
		}
		if engine.Profile() == set.Profile {
			want, err := tinyphysics.Golden(set)
			if err != nil {
				return err
			}
			jobs, err := tinyphysics.GoldenJobs(
				set, func(name string) (*lockstep.Route, error) { return load(set.Profile, name) },
			)
			if err != nil {
				return err
			}
			if p.slow() {
				jobs = jobs[:min(len(jobs), slowRecordings)]
			}
			for _, shortcuts := range []lockstep.Shortcuts{lockstep.AllSteps, lockstep.CostOnly} {
				if err := p.compare(ctx, "recordings in "+root, want, tinyphysics.Live(engine),
					jobs, shortcuts); err != nil {
					return err
				}
			}
		}
		if err := engine.Close(); err != nil {
			return err
		}
	}
	return nil
}

// policies holds the engine to its peer on the kinds of policies that no recording here
// has, and on two samples of a network's actions.
func (p *prober) policies(ctx context.Context) error {
	routes, rows := 3, lockstep.MinRows+60
	if p.slow() {
		routes, rows = 1, lockstep.MinRows+3
	}
	random := rand.New(rand.NewPCG(2026, 11))
	var layers []lockstep.Layer
	// the first as wide as can be
	for _, outputs := range []int{lockstep.ObservationSize, lockstep.ActorSize} {
		l := lockstep.Layer{Inputs: lockstep.ObservationSize, Outputs: outputs}
		for range outputs {
			l.Bias = append(l.Bias, random.Float32()/5-0.1)
			for range l.Inputs {
				l.Weights = append(l.Weights, random.Float32()/5-0.1)
			}
		}
		layers = append(layers, l)
	}
	network, err := lockstep.NewNetwork(layers, lockstep.DefaultScale)
	if err != nil {
		return err
	}
	return p.peers(p.model, func(want, got lockstep.Implementation) error {
		var jobs []lockstep.Job
		for i := range routes {
			route, err := loadOwn(want.Profile(), fmt.Sprintf("g%05d", i))
			if err != nil {
				return err
			}
			route = route.First(rows + i)
			table, err := lockstep.NewTable(
				map[string][]float64{route.Name: lockstep.Draws(7, lockstep.TableSteps)},
			)
			if err != nil {
				return err
			}
			for _, policy := range []lockstep.Policy{policies.PIDFF(), table, network} {
				jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
			}
			for id := range uint64(2) {
				jobs = append(
					jobs,
					lockstep.Job{
						Route:    route,
						Policy:   network,
						Sampling: &lockstep.Sampling{Seed: 1, ID: id},
					},
				)
			}
		}
		return p.compare(
			ctx, "policies", tinyphysics.Live(want), tinyphysics.Live(got), jobs, lockstep.CostOnly,
		)
	})
}

// Budget of the routes that like edges.
const (
	edgeNetworks = 6
	edgeBatches  = 6  // for each network; 1 for slow engines
	edgeJobs     = 12 // at most, for each batch
)

// edges holds the engine to its peer on arbitrary routes, controllers and
// networks.
func (p *prober) edges(ctx context.Context) error {
	batches := edgeBatches
	if p.slow() {
		batches = 1
	}
	for n := range edgeNetworks {
		network := arbitrary.Reweighted{Scale: arbitrary.Scales[n%len(arbitrary.Scales)], Seed: 1}
		model := filepath.Join(p.dir, fmt.Sprintf("network%d.onnx", n))
		if err := os.WriteFile(model, network.Model(), 0o666); err != nil {
			return err
		}
		err := p.peers(model, func(want, got lockstep.Implementation) error {
			for b := range batches {
				draw := arbitrary.Jobs(edgeJobs, arbitrary.ShortRows(), arbitrary.Policy())
				if (n+b)%2 == 1 {
					draw = rapid.SliceOfN(rapid.Custom(loner), edgeJobs, edgeJobs)
				}
				jobs := draw.Example(n*edgeBatches + b)
				shortcuts := []lockstep.Shortcuts{lockstep.CostOnly, lockstep.AllSteps}[b%2]
				if p.slow() {
					shortcuts = lockstep.CostOnly
				}
				if err := p.compare(ctx, "arbitrary routes, "+network.String(),
					tinyphysics.Live(want), tinyphysics.Live(got), jobs, shortcuts); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// loner is a job with a route and a policy of its own, which may end or fail before
// its neighbours.
func loner(t *rapid.T) lockstep.Job {
	policy := rapid.OneOf(arbitrary.Policy(), arbitrary.FaultyPolicy()).Draw(t, "policy")
	return lockstep.Job{
		Route:  arbitrary.Route(arbitrary.ShortRows()).Draw(t, "route"),
		Policy: policy,
	}
}

// slow tells whether the engine takes long for a step.
func (p *prober) slow() bool { return p.kernels == "go" || p.engine.Slow }

// drawsOnEdges puts the last draw of short routes on an edge of the distribution
// or right below it, where no draw of a generator ever comes.
func (p *prober) drawsOnEdges(ctx context.Context) error {
	return p.peers(p.model, func(want, got lockstep.Implementation) error {
		var jobs []lockstep.Job
		for i := range 8 {
			route, err := loadOwn(want.Profile(), fmt.Sprintf("g%05d", i))
			if err != nil {
				return err
			}
			jobs = append(
				jobs,
				lockstep.Job{Route: route.First(lockstep.MinRows), Policy: lockstep.DefaultPID()},
			)
		}
		const last = lockstep.MinRows - lockstep.ContextLength - 1
		for i := range jobs {
			jobs[i].Draws = lockstep.Draws(jobs[i].Route.Seed, last+1)
			jobs[i].Observe = func(s *lockstep.Step) {
				if s.Logits != nil {
					jobs[i].Draws[last] = s.CDF[s.Sample]
					if i%2 == 1 {
						jobs[i].Draws[last] = math.Nextafter(s.CDF[s.Sample], 0)
					}
				}
			}
		}
		for _, result := range want.Simulate(
			ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
		) {
			if result.Err != nil {
				return result.Err
			}
		}
		return p.compare(
			ctx, "draws on edges", tinyphysics.Live(want), tinyphysics.Live(got), jobs,
			lockstep.CostOnly,
		)
	})
}

// compare adds a comparison to the verdict, and returns errCaught if it found
// something.
func (p *prober) compare(
	ctx context.Context, check string, want, got parity.Side, jobs []lockstep.Job,
	shortcuts lockstep.Shortcuts,
) error {
	report, err := tinyphysics.Compare(ctx, want, got, jobs, shortcuts, parity.CompareOptions{})
	if err != nil {
		return err
	}
	p.verdict.Rollouts += len(report.Rollouts)
	p.verdict.Steps += report.Steps
	if report.OK() {
		return nil
	}
	p.verdict.Caught, p.verdict.Check, p.verdict.Detail = true, check, report.Err().Error()
	switch {
	case report.First != nil:
		p.verdict.Stage = report.First.Stage
	case len(report.Findings) > 0:
		p.verdict.Stage = report.Findings[0].Stage
	default:
		return report.Err()
	}
	return errCaught
}

// open makes the engine that is probed.
func (p *prober) open(model string, profile lockstep.Profile) (lockstep.Implementation, error) {
	config := engines.Config{Model: model, Profile: profile, Kernels: p.kernels}
	if p.engine.Slow {
		config.Chunk = 2
	}
	return p.engine.Open(config)
}

// peers calls f with the engine and the one that it is held to: the reference, and
// the reference to the first engine that can run and is not slow.
func (p *prober) peers(model string, f func(want, got lockstep.Implementation) error) (err error) {
	peer := engines.Reference()
	if p.engine.Name == peer.Name {
		others := slices.DeleteFunc(
			engines.Tried(),
			func(e *engines.Engine) bool { return e.Name == peer.Name || e.Absent() != nil },
		)
		if len(others) == 0 {
			return errors.New("no engine is here that the reference could be held to")
		}
		peer = others[0]
	}
	got, err := p.open(model, reference.HostProfile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, got.Close()) }()
	want, err := peer.Open(engines.Config{Model: model, Profile: got.Profile()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, want.Close()) }()
	if want.Profile() != got.Profile() { // the peer's is its machine's
		if err := got.Close(); err != nil {
			return err
		}
		if got, err = p.open(model, want.Profile()); err != nil {
			return err
		}
	}
	return f(want, got)
}
