package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/pycontroller"
	"lockstep/internal/simtest"
)

// wholePlan is a plan in which each field has a value: of a search, of actions, in shards. No
// command makes all of it, and its folder holds it to each of them.
func wholePlan() *Plan {
	return &Plan{
		Version: Version, Model: "model", Engine: "batched", Build: "build", Shards: 2,
		Controllers: []PlannedController{
			{Name: "pid", SHA256: "12", Made: "x"}, {Name: "zero", SHA256: "78", Made: "y"},
		},
		Routes: []PlannedRoute{
			{Name: "r0", Seed: 1, SHA256: "34"}, {Name: "r1", Seed: 5, SHA256: "56"},
		},
		Search: &Search{Kind: "pid", Seed: 1, Population: 8, Generations: 2},
		Planning: &Planning{Noise: []string{"route"}, Rounds: 1, Window: 2, Horizon: 4, Seeds: 3,
			Seed: 1, Steps: 5},
	}
}

// leaves calls f with each value that is no struct in a value, and with its name.
func leaves(name string, v reflect.Value, f func(name string, v reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[lockstep.Profile]():
		f(name, v)
	case v.Kind() == reflect.Pointer:
		leaves(name, v.Elem(), f)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			leaves(fmt.Sprintf("%s[%d]", name, i), v.Index(i), f)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			leaves(name+"."+v.Type().Field(i).Name, v.Field(i), f)
		}
	default:
		f(name, v)
	}
}

// change gives a value another one.
func change(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[lockstep.Profile]():
		v.Set(reflect.ValueOf(lockstep.Profiles()[1]))
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "2")
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		t.Fatalf("%s: this test has no other value of a %v", name, v.Type())
	}
}

// TestIdentity: whatever of a plan is another, its key is another, what differs is said with both
// values, and the folder of a run and one of shards are refused. The fields are those that there
// are: one that is new, and is not compared, fails here.
func TestIdentity(t *testing.T) {
	planned, sharded := t.TempDir(), t.TempDir()
	j, err := OpenJournal(planned, wholePlan())
	if err == nil {
		err = j.Close()
	}
	if err == nil {
		err = writePlan(sharded, wholePlan(), Inputs{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	leaves("Plan", reflect.ValueOf(wholePlan()), func(name string, v reflect.Value) {
		if v.IsZero() && name != "Plan.Profile" {
			t.Errorf("%s: the plan of this test has no value of it", name)
		}
		if name != "Plan.Version" { // that of all that are made: TestResume has an older one
			names = append(names, name)
		}
	})
	for _, name := range names {
		p, was, is := wholePlan(), "", ""
		leaves("Plan", reflect.ValueOf(p), func(n string, v reflect.Value) {
			if n == name {
				was = fmt.Sprint(v)
				change(t, name, v)
				is = fmt.Sprint(v)
			}
		})
		said := wholePlan().Difference(p)
		if p.Key() == wholePlan().Key() {
			t.Errorf("%s is %s, was %s: the key is the same", name, is, was)
		}
		if !strings.Contains(said, was) || !strings.Contains(said, is) {
			t.Errorf("%s is %s, was %s: it is said to differ in %q", name, is, was, said)
		}
		const refused = "plan.json is of another run: "
		if j, err := OpenJournal(planned, p); err == nil ||
			!strings.Contains(err.Error(), refused+said) || said == "" {
			t.Errorf("%s: a run goes on in another's folder: %v, %v", name, j, err)
		}
		if err := writePlan(sharded, p, Inputs{}); err == nil ||
			!strings.Contains(err.Error(), refused+said) {
			t.Errorf("%s: shards go to another plan's folder: %v", name, err)
		}
	}
	if j, err = OpenJournal(planned, wholePlan()); err != nil {
		t.Fatal(err)
	}
	j.Close()
}

// TestStable: a plan's key and the text of inputs are what they were, so that runs that other
// builds of this version have begun go on; the version is this one's.
func TestStable(t *testing.T) {
	p := wholePlan()
	const key = "ca7fa540823fdbd96381eb263dc7cdd4e6b9ecb0f51dd1509cd7336215e6c70e"
	for _, p.Version = range []int{Version, 0} {
		if got := p.Key(); got != key {
			t.Errorf("the key is %s, was %s; if it must be another, so must Version", got, key)
		}
	}
	dir := t.TempDir()
	if err := (Inputs{Model: "m", Data: []string{"d"}}).write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, inputsName))
	const begins = "{\n \"model\": \"m\",\n \"data\": [\n  \"d\"\n ],\n \"limit\": 0,\n"
	if err != nil || !strings.HasPrefix(string(text), begins) {
		t.Errorf("inputs are %s, %v; want %s", text, err, begins)
	}
}

// TestInputs: each field of inputs changes the plan that is made of them or is refused, or a
// controller in Python is run with it, whose tests show that each option is heeded. A field that is
// new has no line here, and fails.
func TestInputs(t *testing.T) {
	in, folder := shortInputs(t, 2, "zero")
	here := t.TempDir()
	program, model := filepath.Join(here, "program"), filepath.Join(here, "model.onnx")
	text, err := os.ReadFile(in.Model)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{
		program: []byte("another"), model: text,
	} {
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	plan := func(in Inputs) (*Plan, error) {
		o, err := in.Open(t.Context(), 1)
		if err != nil {
			return nil, err
		}
		defer o.Close()
		return o.Plan, nil
	}
	want, err := plan(in)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]struct {
		set func(in *Inputs)
		// how the difference begins, or how it is refused
		differs, fails string
	}{
		"Model": {func(in *Inputs) { in.Model = program }, "", program},
		"Data":  {func(in *Inputs) { in.Data = append(in.Data, folder) }, "4 routes", ""},
		"Limit": {func(in *Inputs) { // of each folder
			in.Limit, in.Data = 1, slices.Repeat(in.Data, 3)
		}, "3 routes", ""},
		"SeedPrefix":  {func(in *Inputs) { in.SeedPrefix = "b" }, `route 0 is "r0" (seed `, ""},
		"Engine":      {func(in *Inputs) { in.Engine = "reference" }, "the engine is ref", ""},
		"Profile":     {func(in *Inputs) { in.Profile = "none" }, "", `"none"`},
		"Controllers": {func(in *Inputs) { in.Controllers[0] = "pid" }, "controller 0 is", ""},
		"Program":     {func(in *Inputs) { in.Program = program }, "the engine's build is", ""},
	}
	for i := range reflect.TypeFor[Inputs]().NumField() {
		name := reflect.TypeFor[Inputs]().Field(i).Name
		if field, ok := reflect.TypeFor[pycontroller.Options]().FieldByName(name); ok {
			all := Inputs{
				Python: "python", Timeout: 72 * time.Hour, Memory: 1<<40 + 1, Sandbox: true,
			}
			of := reflect.ValueOf(all).FieldByName(name)
			if got := reflect.ValueOf(all.python("c.py")).FieldByIndex(field.Index); of.IsZero() ||
				!got.Equal(of) {
				t.Errorf("%s is %v, and controllers are run with %v", name, of, got)
			}
			continue
		}
		line, ok := lines[name]
		if !ok {
			t.Errorf("%s: this test has no other value of it", name)
			continue
		}
		other := in
		other.Data, other.Controllers = []string{folder}, []string{"zero"}
		line.set(&other)
		got, err := plan(other)
		if (err == nil) != (line.fails == "") ||
			err != nil && !strings.Contains(err.Error(), line.fails) {
			t.Errorf("%s: %v, want %q", name, err, line.fails)
		}
		if err != nil {
			continue
		}
		if said := want.Difference(got); !strings.HasPrefix(said, line.differs) {
			t.Errorf("%s: its plan differs in %q, want %q", name, said, line.differs)
		}
	}
	in.Model = model // the same network at another place
	if got, err := plan(in); err != nil || want.Difference(got) != "" {
		t.Errorf("the network at another place: %v, %v", got, err)
	}
}

// TestHere: what this machine has elsewhere is what a shard is computed with, or is refused as
// another than planned; and all that the plan's folder says of the inputs is read there again.
func TestHere(t *testing.T) {
	in, folder := shortInputs(t, 2, "zero")
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other+".py", []byte("class Controller: pass\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	o, err := in.Open(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	o.inputs.Python, o.inputs.Engine = "this machine's", "auto"
	dir := planAgain(t, o)
	written, err := readRecord[Inputs](filepath.Join(dir, inputsName), "inputs")
	if err != nil {
		t.Fatal(err)
	}
	want := o.inputs // but for what another machine has elsewhere, or would choose otherwise
	want.Python, want.Engine = "", "batched"
	if !reflect.DeepEqual(*written, want) {
		t.Errorf("%+v is written, want %+v", *written, want)
	}
	o.inputs.Python = ""
	scripted := o.inputs
	scripted.Controllers = []string{other + ".py"}
	type elsewhere struct {
		here  Here
		words string // with which it is refused
	}
	one := []string{filepath.Join(folder, "r0.csv")}
	simtest.Fields(t, map[string]elsewhere{
		"Here.Model":   {Here{Model: other}, other},
		"Here.Data":    {Here{Data: one}, "1 routes, there 2"},
		"Here.Python":  {Here{Python: "no-python"}, "no-python"},
		"Here.Program": {Here{Program: other + ".py"}, "the engine's build is"},
	}, func(name string, line elsewhere) {
		dir := dir
		if name == "Here.Python" {
			dir = planAgain(t, o)
			if err := scripted.write(dir); err != nil {
				t.Fatal(err)
			}
		}
		file, err := RunShard(t.Context(), dir, 0, line.here, 1, nil)
		if err == nil || !strings.Contains(err.Error(), line.words) {
			t.Errorf("%s: %s, %v, want %q", name, file, err, line.words)
		}
	}, reflect.TypeFor[Here]())

	whole := Inputs{Model: "m", Data: []string{"d"}, Limit: 1, SeedPrefix: "s", Engine: "e",
		Profile: "p", Controllers: []string{"c"}, Python: "y", Timeout: 1, Memory: 2, Sandbox: true}
	if err := whole.write(dir); err != nil {
		t.Fatal(err)
	}
	read, err := readRecord[Inputs](filepath.Join(dir, inputsName), "inputs")
	if err != nil || !reflect.DeepEqual(*read, whole) {
		t.Errorf("%+v is read, %v, want %+v", read, err, whole)
	}
	for i := range reflect.TypeFor[Inputs]().NumField() {
		name := reflect.TypeFor[Inputs]().Field(i).Name
		if reflect.ValueOf(whole).Field(i).IsZero() && name != "Program" { // that is this machine's
			t.Errorf("Inputs.%s: this test has no value of it", name)
		}
	}
}
