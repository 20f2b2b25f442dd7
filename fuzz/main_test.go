package fuzz

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/arbitrary"
	"lockstep/internal/fuzzing"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/reference"
)

// An implementation is a way in which an engine takes part.
type implementation struct {
	*engines.Engine
	name   string
	config engines.Config

	// again: it differs from the one before in how it makes batches alone.
	again bool
}

// implementations are those that take part, the reference first: every engine, and
// those that have others in step also in chunks of two.
func implementations() (all []implementation) {
	checked := engines.Checked()
	for i := range checked {
		e := &checked[i]
		config := engines.Config{Workers: 2, Shuffled: true}
		if e.Slow {
			config.Chunk = 2
		}
		all = append(all, implementation{Engine: e, name: e.Name, config: config})
		if !e.Slow && i > 0 {
			all = append(
				all,
				implementation{
					e, e.Name + " in chunks of 2", engines.Config{Workers: 1, Chunk: 2}, true,
				},
			)
		}
	}
	return all
}

// open opens it with a network.
func (i *implementation) open(
	model string, profile lockstep.Profile,
) (lockstep.Implementation, error) {
	config := i.config
	config.Model, config.Profile = model, profile
	return i.Open(config)
}

// An engine is an implementation with a network.
type engine struct {
	lockstep.Implementation
	*implementation
}

// bench is the folder of this process, with what is known of the machine.
type bench struct {
	dir     string
	profile lockstep.Profile
	all     []implementation
	absent  map[string]error // implementations that cannot run here, and why

	mutex sync.Mutex
	open  []opened // the last networks used, the latest last
}

type opened struct {
	network arbitrary.Reweighted
	engines []engine
}

var machine bench

func TestMain(m *testing.M) {
	const name = "lockstep-fuzz-"
	dir, err := os.MkdirTemp(
		"/dev/shm", name,
	) // in memory, where Linux has that: the route cache syncs what it writes
	if err != nil {
		dir, err = os.MkdirTemp("", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	machine = bench{
		dir:     dir,
		all:     implementations(),
		absent:  map[string]error{},
		profile: reference.HostProfile(),
	}
	status := fuzzing.Main(m)
	for _, o := range machine.open {
		o.close()
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

// probe finds out which engines run here, and the profile of those that have
// their machine's.
var probe = sync.OnceFunc(func() {
	path := machine.write(arbitrary.Reweighted{})
	for _, e := range machine.all {
		if err := e.Absent(); err != nil {
			machine.absent[e.name] = err
			continue
		}
		s, err := e.open(path, machine.profile)
		if err != nil {
			machine.absent[e.name] = err
			continue
		}
		if err := s.About().Unproven; err != nil {
			machine.absent[e.name] = e.Want.Lacks(err)
		} else {
			machine.profile = s.Profile()
		}
		s.Close()
	}
})

func (o opened) close() {
	for _, e := range o.engines {
		e.Implementation.Close()
	}
}

// write writes a network's file and returns its path.
func (b *bench) write(n arbitrary.Reweighted) string {
	path := filepath.Join(b.dir, n.String()+".onnx")
	if err := os.WriteFile(path, n.Model(), 0o600); err != nil {
		panic(err)
	}
	return path
}

// load opens all engines with a network, or gives those opened before.
func load(n arbitrary.Reweighted) []engine {
	const most = 12 // networks that stay open
	probe()
	machine.mutex.Lock()
	defer machine.mutex.Unlock()
	b := &machine
	if i := slices.IndexFunc(b.open, func(o opened) bool { return o.network == n }); i >= 0 {
		o := b.open[i]
		b.open = append(slices.Delete(b.open, i, i+1), o)
		return o.engines
	}
	if len(b.open) == most {
		b.open[0].close()
		b.open = slices.Delete(b.open, 0, 1)
	}
	o := opened{network: n}
	path := b.write(n)
	defer os.Remove(path)
	for i := range b.all {
		e := &b.all[i]
		if b.absent[e.name] != nil {
			continue
		}
		s, err := e.open(path, b.profile)
		if err != nil {
			panic(fmt.Sprintf("%s: %v: %v", e.name, n, err))
		}
		if s.Profile() != b.profile {
			panic(fmt.Sprintf("%s has profile %v, want %v", e.name, s.Profile(), b.profile))
		}
		o.engines = append(o.engines, engine{s, e})
	}
	b.open = append(b.open, o)
	return o.engines
}

// fast are those of them that can take many steps. What they are held to alone, the
// others are held to by agreement.
func fast(n arbitrary.Reweighted) []engine {
	return slices.DeleteFunc(slices.Clone(load(n)), func(e engine) bool { return e.Slow })
}

// distinct is one fast engine of each implementation, for properties to which
// batches mean nothing.
func distinct(n arbitrary.Reweighted) []engine {
	return slices.DeleteFunc(fast(n), func(e engine) bool { return e.again })
}

// TestEngines says which engines take part. One that cannot run here is left out,
// unless the environment requires it.
func TestEngines(t *testing.T) {
	probe()
	t.Logf("profile %v", machine.profile)
	for _, e := range machine.all {
		t.Run(
			strings.ReplaceAll(e.name, " ", "-"),
			func(t *testing.T) { want.Skip(t, machine.absent[e.name]) },
		)
	}
}

// A property is a function that fails for what it finds wrong. It calls cover
// with the name of each edge that a case reaches.
type property func(t *rapid.T, cover func(edge string))

// check runs a property on cases that rapid makes up: 50, 100 of the whole, or as many as
// -rapid.checks says, times part. It logs how many of them reached each edge.
func check(t *testing.T, part float64, p property) {
	t.Helper()
	asked := flag.Lookup("rapid.checks")
	checks := asked.Value
	all := checks.String()
	if all == asked.DefValue && !simtest.Whole(t) {
		part /= 2
	}
	n, err := strconv.Atoi(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := checks.Set(strconv.Itoa(max(1, int(part*float64(n))))); err != nil {
		t.Fatal(err)
	}
	defer checks.Set(all)
	reached := map[string]int{}
	defer func() {
		for _, edge := range slices.Sorted(maps.Keys(reached)) {
			t.Logf("%5d cases: %s", reached[edge], edge)
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		edges := map[string]bool{}
		p(t, func(edge string) { edges[edge] = true })
		for edge := range edges {
			reached[edge]++
		}
	})
}

// fuzzEngines is fuzz for a property of engines. They are opened before, since a compiler
// may have to run for that, and Go ends an execution after ten seconds.
func fuzzEngines(f *testing.F, p property) {
	probe()
	fuzz(f, p)
}

// fuzz makes a property a native fuzz target. In `go test`, which runs the
// committed inputs, it also holds them to what corpora says of them.
func fuzz(f *testing.F, p property) {
	finished, reached := 0, map[string]bool{}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		p(t, func(edge string) { reached[edge] = true })
		finished++
		fuzzing.Ended()
	}))
	files, err := os.ReadDir(filepath.Join("testdata", "fuzz", f.Name()))
	if err != nil {
		f.Error(err)
	}
	if isSet("test.fuzz") || isSet("test.run") && finished < len(files) || f.Failed() {
		return // not the committed inputs, not all of them, or one fails
	}
	const how = "go test ./fuzz -run Corpora -update"
	if finished < len(files) {
		f.Errorf(
			"%d of %d inputs are too short for what the property draws now: %s",
			len(files)-finished, len(files), how,
		)
	}
	for _, edge := range corpora[f.Name()].edges {
		if !reached[edge] {
			f.Errorf("no input reaches %q: %s", edge, how)
		}
	}
}

func isSet(name string) bool { return flag.Lookup(name).Value.String() != "" }
