package fuzz

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/batched"
	"lockstep/internal/arbitrary"
	"lockstep/reference"
)

// engines are the implementations that take part, the reference first. A line
// adds one.
var engines = []struct {
	name string
	open func(model string, profile lockstep.Profile) (lockstep.Simulator, error)
}{
	{"reference", func(model string, profile lockstep.Profile) (lockstep.Simulator, error) {
		return reference.New(model, profile)
	}},
	{"batched", func(model string, profile lockstep.Profile) (lockstep.Simulator, error) {
		return batched.New(batched.Config{ModelPath: model, Profile: profile, Workers: 2})
	}},
	{"batched in chunks of 2", func(model string, profile lockstep.Profile) (lockstep.Simulator, error) {
		return batched.New(batched.Config{ModelPath: model, Profile: profile, Workers: 1, Chunk: 2})
	}},
}

// An engine is one of them with a network.
type engine struct {
	lockstep.Simulator
	name string
}

// bench is the folder of this process, with what is known of the machine.
type bench struct {
	dir     string
	profile lockstep.Profile
	absent  map[string]error // engines that cannot run here, and why

	mutex sync.Mutex
	open  []opened // the last networks used, the latest last
}

type opened struct {
	network arbitrary.Network
	engines []engine
}

var machine bench

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lockstep-fuzz-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	machine = bench{dir: dir, absent: map[string]error{}, profile: reference.HostProfile()}
	status := m.Run()
	for _, o := range machine.open {
		o.close()
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

// probe finds out which engines run here, and the profile of those that have
// their machine's.
var probe = sync.OnceFunc(func() {
	path := machine.write(arbitrary.Network{})
	for _, e := range engines {
		s, err := e.open(path, machine.profile)
		if known, ok := s.(interface{ ProfileKnown() bool }); err == nil && ok && !known.ProfileKnown() {
			err = fmt.Errorf("its arithmetic here is not known: parity is not claimed")
		}
		if err != nil {
			machine.absent[e.name] = err
			continue
		}
		machine.profile = s.Profile()
		closeEngine(s)
	}
})

func closeEngine(s lockstep.Simulator) {
	if c, ok := s.(interface{ Close() error }); ok {
		c.Close()
	}
}

func (o opened) close() {
	for _, e := range o.engines {
		closeEngine(e.Simulator)
	}
}

// write writes a network's file and returns its path.
func (b *bench) write(n arbitrary.Network) string {
	path := filepath.Join(b.dir, n.String()+".onnx")
	if err := os.WriteFile(path, n.Model(), 0o600); err != nil {
		panic(err)
	}
	return path
}

// load opens all engines with a network, or gives those opened before.
func load(n arbitrary.Network) []engine {
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
	for _, e := range engines {
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
		o.engines = append(o.engines, engine{s, e.name})
	}
	b.open = append(b.open, o)
	return o.engines
}

// distinct is one engine of each implementation, for properties to which batches
// mean nothing.
func distinct(n arbitrary.Network) []engine {
	var some []engine
	for _, e := range load(n) {
		if !slices.ContainsFunc(some, func(have engine) bool { return have.Name() == e.Name() }) {
			some = append(some, e)
		}
	}
	return some
}

// TestEngines says which engines take part. One that cannot run here is left out,
// unless the environment variable LOCKSTEP_REQUIRE_ASSETS is 1.
func TestEngines(t *testing.T) {
	probe()
	t.Logf("profile %v", machine.profile)
	for _, e := range engines {
		err := machine.absent[e.name]
		switch {
		case err == nil:
			t.Logf("%s takes part", e.name)
		case os.Getenv("LOCKSTEP_REQUIRE_ASSETS") == "1" && batched.Built:
			t.Errorf("LOCKSTEP_REQUIRE_ASSETS=1, but %s cannot run: %v", e.name, err)
		default:
			t.Logf("not run for want of assets: %s: %v", e.name, err)
		}
	}
	if machine.absent["reference"] != nil {
		t.Error("no reference, nothing is held to anything")
	}
}

// A property is a function that fails for what it finds wrong. It calls cover
// with the name of each edge that a case reaches.
type property func(t *rapid.T, cover func(edge string))

// check runs a property on cases that rapid makes up: 100, or as many as
// -rapid.checks says, times part. It logs how many of them reached each edge.
func check(t *testing.T, part float64, p property) {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	all := checks.String()
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

// fuzz makes a property a native fuzz target. In `go test`, which runs the
// committed inputs, it also holds them to what corpora says of them.
func fuzz(f *testing.F, p property) {
	finished, reached := 0, map[string]bool{}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		p(t, func(edge string) { reached[edge] = true })
		finished++
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
		f.Errorf("%d of %d inputs are too short for what the property draws now: %s", len(files)-finished, len(files), how)
	}
	for _, edge := range corpora[f.Name()].edges {
		if !reached[edge] {
			f.Errorf("no input reaches %q: %s", edge, how)
		}
	}
}

func isSet(name string) bool { return flag.Lookup(name).Value.String() != "" }
