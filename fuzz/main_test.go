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
	"lockstep/gpu"
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/emulated"
	"lockstep/internal/arbitrary"
	"lockstep/onnxruntime"
	"lockstep/reference"
)

// implementation is an engine that takes part, opened with any network.
type implementation struct {
	name string

	// again: it differs from the one before in how it makes batches alone.
	again bool

	// slow: a step takes it milliseconds.
	slow bool

	// required is the variable that, set to 1, makes its absence a failure, and
	// without how an absence is told.
	required, without string

	open func(model string, profile lockstep.Profile) (lockstep.Simulator, error)
}

// engines are the implementations that take part, the reference first. A line
// adds one.
var engines = []implementation{
	{name: "reference", required: "LOCKSTEP_REQUIRE_ASSETS", without: "assets", open: func(model string, profile lockstep.Profile) (lockstep.Simulator, error) {
		return reference.New(model, profile)
	}},
	{name: "onnxruntime", required: "LOCKSTEP_REQUIRE_ASSETS", without: "assets", open: func(model string, profile lockstep.Profile) (lockstep.Simulator, error) {
		return onnxruntime.New(onnxruntime.Config{ModelPath: model, Profile: profile, Workers: 2})
	}},
	{name: "onnxruntime in chunks of 2", again: true, required: "LOCKSTEP_REQUIRE_ASSETS", without: "assets", open: func(model string, profile lockstep.Profile) (lockstep.Simulator, error) {
		return onnxruntime.New(onnxruntime.Config{ModelPath: model, Profile: profile, Workers: 1, Chunk: 2})
	}},
	{name: "emulated", slow: true, required: "LOCKSTEP_REQUIRE_COMPILER", without: "a compiler", open: func(model string, profile lockstep.Profile) (lockstep.Simulator, error) {
		device := func() (driver.Device, error) { return emulated.Open(emulated.Options{Order: emulated.Shuffled}) }
		return gpu.New(gpu.Config{ModelPath: model, Profile: profile, RoutesPerBlock: 2, Open: device})
	}},
	{name: "gpu", required: "LOCKSTEP_REQUIRE_GPU", without: "a GPU", open: func(model string, profile lockstep.Profile) (lockstep.Simulator, error) {
		return gpu.New(gpu.Config{ModelPath: model, Profile: profile})
	}},
}

// An engine is one of them with a network.
type engine struct {
	lockstep.Simulator
	*implementation
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
	for i := range engines {
		e := &engines[i]
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
func fast(n arbitrary.Network) []engine {
	return slices.DeleteFunc(slices.Clone(load(n)), func(e engine) bool { return e.slow })
}

// distinct is one fast engine of each implementation, for properties to which
// batches mean nothing.
func distinct(n arbitrary.Network) []engine {
	return slices.DeleteFunc(fast(n), func(e engine) bool { return e.again })
}

// TestEngines says which engines take part. One that cannot run here is left out,
// unless the environment requires it.
func TestEngines(t *testing.T) {
	probe()
	t.Logf("profile %v", machine.profile)
	for _, e := range engines {
		t.Run(strings.ReplaceAll(e.name, " ", "-"), func(t *testing.T) {
			switch err := machine.absent[e.name]; {
			case err == nil:
			case os.Getenv(e.required) == "1" && (onnxruntime.Built || !strings.HasPrefix(e.name, "onnxruntime")):
				t.Errorf("%s=1, but %s cannot run: %v", e.required, e.name, err)
			default:
				t.Skipf("not run for want of %s: %v", e.without, err)
			}
		})
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
