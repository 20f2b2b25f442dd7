package lockstep_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// TestKinds: the table of kinds and the types of policies say the same.
func TestKinds(t *testing.T) {
	for i, info := range lockstep.Kinds() {
		kind := lockstep.Kind(i)
		if got, ok := lockstep.KindOf(info.Name); !ok || got != kind || kind.String() != info.Name {
			t.Errorf("kind %d is named %s, which is kind %d", i, info.Name, got)
		}
		if !reflect.DeepEqual(kind.Info().GainNames(), info.GainNames()) ||
			kind.Info().Name != info.Name {
			t.Errorf("kind %d is %+v, and by itself %+v", i, info, kind.Info())
		}
		gains := make([]float64, len(info.Gains))
		for k := range gains {
			gains[k] = float64(k) + 0.1 // which is no float32
		}
		p, err := kind.New(gains)
		if info.File != "" {
			if err == nil {
				t.Errorf("%s: gains make a policy that comes from a file", kind)
			}
			continue
		}
		if err != nil || p.Kind() != kind || !slices.Equal(p.Gains(), gains) {
			t.Errorf("%s of %v: %v of kind %v, %v", kind, gains, p.Gains(), p.Kind(), err)
		}
		if read, err := lockstep.ParsePolicy(p.String()); err != nil || read != p {
			t.Errorf("%v reads back as %v, %v", p, read, err)
		}
	}
	if p, err := lockstep.ParsePolicy("pid"); err != nil || p != lockstep.DefaultPID() {
		t.Errorf("pid is %v, %v", p, err)
	}
	before := fmt.Sprintf("%+v", lockstep.Kinds())
	blanked := simtest.Blank(lockstep.Kinds()) + simtest.Blank(lockstep.KindPIDFF.Info())
	if after := fmt.Sprintf("%+v", lockstep.Kinds()); blanked < 80 || after != before {
		t.Errorf("who writes to the kinds that were handed out (%d) has %s, and had %s", blanked,
			after, before)
	}
}

func TestPolicyErrors(t *testing.T) {
	for name, want := range map[string]string{
		"":        `policy "" is not known, want one of zero, pid, pidff`,
		"mpc":     `policy "mpc" is not known`,
		"mpc_1_2": `policy "mpc_1_2" is not known`,
		"network": `policy "network" is not known`,
		"pidff": `policy "pidff": want the 10 gains of pidff: ` +
			`P,I,D,ff0,ff1,ff2,ff3,ffv,smooth,leak`,
		"pid_1_2":       `want the 3 gains of pid: P,I,D`,
		"pid_1_two_3":   `gain I is "two", want a finite number`,
		"pid_1_2_NaN":   `gain D is "NaN", want a finite number`,
		"pid_1_-Inf_3":  `gain I is "-Inf", want a finite number`,
		"pid_1e999_2_3": `gain P is "1e999", want a finite number`,
		"zero_1":        `want the 0 gains of zero`,
	} {
		if _, err := lockstep.ParsePolicy(name); err == nil ||
			!strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("ParsePolicy(%q): %v, want …%s…", name, err, want)
		}
	}
	if _, err := lockstep.KindPID.New([]float64{1, 2}); err == nil ||
		err.Error() != "pid: 2 gains, want 3 (P,I,D)" {
		t.Error(err)
	}
	if _, err := lockstep.KindZero.New([]float64{1}); err == nil ||
		err.Error() != "zero: 1 gains, want 0" {
		t.Error(err)
	}
	if _, err := lockstep.Kind(77).New(nil); err == nil || err.Error() != "no kind of policy 77" {
		t.Error(err)
	}
	actions := make([]float64, lockstep.TableSteps)
	if _, err := lockstep.NewTable(map[string][]float64{"a": actions,
		"b": actions[1:]}); err == nil ||
		err.Error() != `route "b": 399 actions, want 400` {
		t.Error(err)
	}
	for at, x := range map[int]float64{0: math.NaN(), 7: math.Inf(1), 399: math.Inf(-1)} {
		actions = make([]float64, lockstep.TableSteps)
		actions[at] = x
		want := fmt.Sprintf(
			`route "a": the action at step %d is %v, want a finite number`, 100+at, x)
		if _, err := lockstep.NewTable(map[string][]float64{"a": actions}); err == nil ||
			err.Error() != want {
			t.Error(err)
		}
	}
}

// TestTableNames: tables that differ in anything have different names, since plans and folders
// tell them apart by these; the same table has the same name again.
func TestTableNames(t *testing.T) {
	zero, one := make([]float64, lockstep.TableSteps), make([]float64, lockstep.TableSteps)
	one[399] = math.Copysign(0, -1) // a bit of the last action
	of := map[string]string{}       // what it is, by name
	for is, actions := range map[string]map[string][]float64{
		"route a":                {"a": zero},
		"route b, same actions":  {"b": zero},
		"a bit of an action":     {"a": one},
		"routes a and b":         {"a": zero, "b": one},
		"their actions swapped":  {"a": one, "b": zero},
		"other routes, the same": {"a": zero, "c": one},
		"equal actions":          {"a": zero, "b": zero},
	} {
		table, err := lockstep.NewTable(actions)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := of[table.Name]; taken {
			t.Errorf("%s and %s have one name, %s", is, other, table.Name)
		}
		of[table.Name] = is
		if again, err := lockstep.NewTable(maps.Clone(actions)); err != nil ||
			again.Name != table.Name {
			t.Errorf("%s: %s, and again %v, %v", is, table.Name, again, err)
		}
	}
}

// TestCheckPolicy: what a job cannot do is refused before it runs.
func TestCheckPolicy(t *testing.T) {
	column := make([]float64, 101)
	route := &lockstep.Route{
		Name:           "a",
		RollLataccel:   column,
		VEgo:           column,
		AEgo:           column,
		TargetLataccel: column,
		SteerCommand:   column,
	}
	table, err := lockstep.NewTable(map[string][]float64{"b": make([]float64, lockstep.TableSteps)})
	if err != nil {
		t.Fatal(err)
	}
	for want, job := range map[string]lockstep.Job{
		`the table ` + table.Name + ` has no actions for route "a"`: {Policy: table},
		"a network that NewNetwork did not make": {
			Policy: (*lockstep.Network)(nil),
		},
		"policy pid has no distribution to sample from: sampling goes with a network": {
			Policy:   lockstep.DefaultPID(),
			Sampling: &lockstep.Sampling{},
		},
		"no controller of type lockstep_test.stranger": {Policy: stranger{}},
	} {
		job.Route = route
		if err := job.Check(0); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, p := range []lockstep.Policy{
		nil, lockstep.Zero{}, lockstep.DefaultPID(), lockstep.PIDFF{}, lockstep.Custom{},
		&lockstep.Batch{},
	} {
		if err := (&lockstep.Job{Route: route, Policy: p}).Check(0); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// TestBatchStep: a step of so many routes has so many elements of each kind.
func TestBatchStep(t *testing.T) {
	s := reflect.ValueOf(lockstep.NewBatchStep(3)).Elem()
	for i := range s.NumField() {
		if f := s.Field(i); f.Kind() == reflect.Slice && f.Len() != 3 {
			t.Errorf("3 routes have %d of %s", f.Len(), s.Type().Field(i).Name)
		}
	}
}

type stranger struct{ lockstep.Policy }

func TestObservationName(t *testing.T) {
	for i, want := range map[int]string{
		0: "target", 2: "error", 9: "last action", 13: "action change", 15: "grip left",
		16: "action history 0", 35: "action history 19",
		36: "lataccel history 0", 56: "target plan 0", 105: "target plan 49", 106: "roll plan 0",
		156: "v ego plan 0", 206: "a ego plan 0", 255: "a ego plan 49",
	} {
		if lockstep.ObservationName(i) != want {
			t.Errorf("element %d is %s, want %s", i, lockstep.ObservationName(i), want)
		}
	}
	if got := lockstep.ObservationElement(13); got != "observation[13] (action change)" {
		t.Error(got)
	}
}

// layers are those of a network of widths, all weights w.
func layers(w float32, widths ...int) (all []lockstep.Layer) {
	for i := range len(widths) - 1 {
		l := lockstep.Layer{
			Inputs:  widths[i],
			Outputs: widths[i+1],
			Bias:    make([]float32, widths[i+1]),
		}
		l.Weights = slices.Repeat([]float32{w}, widths[i]*widths[i+1])
		all = append(all, l)
	}
	return all
}

func TestNetworkErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	edit := func(f func(l []lockstep.Layer)) []lockstep.Layer {
		l := layers(0.1, 256, 7, 2)
		f(l)
		return l
	}
	for want, l := range map[string][]lockstep.Layer{
		"0 layers, want 1 to 16":                                       nil,
		"layer 0: 255 inputs and 2 outputs, want 256 and 1 to 1024":    layers(1, 255, 2),
		"layer 0: 3 outputs, want 2":                                   layers(1, 256, 3),
		"layer 0: 256 inputs and 1025 outputs, want 256 and 1 to 1024": layers(1, 256, 1025, 2),
		"layer 1: tanh, want nothing behind the last layer": edit(
			func(l []lockstep.Layer) { l[1].Tanh = true },
		),
		"layer 1: weight [1][3] is NaN": edit(func(l []lockstep.Layer) { l[1].Weights[10] = nan }),
		"layer 0: bias [6] is +Inf":     edit(func(l []lockstep.Layer) { l[0].Bias[6] = inf }),
		"layer 1: bias [0] is -Inf":     edit(func(l []lockstep.Layer) { l[1].Bias[0] = -inf }),
		"layer 0: weight [0][9] is -Inf": edit(
			func(l []lockstep.Layer) { l[0].Weights[9] = -inf },
		),
		"layer 1: 13 weights and 2 biases, want 14 and 2": edit(
			func(l []lockstep.Layer) { l[1].Weights = l[1].Weights[1:] },
		),
		"layer 2: the weights are so large that a sum may overflow": layers(1e12, 256, 9, 9, 2),
	} {
		if _, err := lockstep.NewNetwork(l, 0.25); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if l != nil {
			refusedWrittenDown(t, &lockstep.Network{Name: "own", Layers: l, Scale: 0.25}, want)
		}
	}
	good := layers(0.1, 256, 7, 2)
	refusedWrittenDown(t, &lockstep.Network{Layers: good, Scale: 0.25}, "")
	refusedWrittenDown(t, &lockstep.Network{Layers: good}, "scale 0, want a positive number")
	refusedWrittenDown(
		t, &lockstep.Network{Layers: good, Scale: 0.25, Sees: []lockstep.Seen{}},
		"0 numbers to observe, want 1 to 1024",
	)
	made, err := lockstep.NewNetwork(good, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	other := *made
	refusedWrittenDown(t, &other, "")
	other.Scale = -0.1
	refusedWrittenDown(t, &other, "scale -0.1, want a positive number")
	other.Scale = math.Inf(1)
	refusedWrittenDown(t, &other, "scale +Inf, want a positive number")
	if _, err := lockstep.NewNetwork(layers(1, 256, 2), math.NaN()); err == nil {
		t.Error("a scale that is NaN")
	}
	a, err := lockstep.NewNetwork(layers(0.5, 256, 7, 2), 0.25)
	if err != nil {
		t.Fatal(err)
	}
	b, err := lockstep.NewNetwork(layers(0.5, 256, 7, 2), 0.5)
	if err != nil || a.Name == b.Name {
		t.Errorf("networks of two scales are named %s and %s, %v", a, b, err)
	}
}

// refusedWrittenDown: a network that NewNetwork did not make, or that is a copy, steers a job only
// if NewNetwork takes it.
func refusedWrittenDown(t *testing.T, n *lockstep.Network, want string) {
	t.Helper()
	if want != "" {
		want = "a network that NewNetwork would refuse: " + want
	}
	got := ""
	if err := (&lockstep.Job{Route: rows(120), Policy: n}).Check(0); err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("a network that was written down: %q, want %q", got, want)
	}
}

// TestNetworkNames: networks that differ in one thing have names of their own: in any one number,
// in their layers' sizes or in what stands between these, in the scale, and in any part of what
// they see; the same has the same name again.
func TestNetworkNames(t *testing.T) {
	const plain = "roll[0]-v[1]-0.5/2"
	of := map[string]string{}
	named := func(what, sees string, l []lockstep.Layer, scale float64) {
		t.Helper()
		var seen []lockstep.Seen
		if sees != "" {
			var err error
			if seen, err = lockstep.ParseSees(strings.Fields(sees)); err != nil {
				t.Fatal(err)
			}
		}
		n, err := lockstep.NewSeeing(seen, l, scale)
		if err != nil {
			t.Fatal(what, err)
		}
		if other, taken := of[n.Name]; taken {
			t.Errorf("%s and %s are both named %s", what, other, n.Name)
		}
		of[n.Name] = what
		sized(t, what, n)
		if again, err := lockstep.NewSeeing(seen, l, scale); err != nil || again.Name != n.Name {
			t.Errorf("%s: %s, and again %v, %v", what, n.Name, again, err)
		}
	}
	some := func() []lockstep.Layer { return layers(0.5, 1, 3, 3, 2) }
	named("the first", plain, some(), lockstep.DefaultScale)
	for i, l := range some() {
		for k := range l.Weights {
			other := some()
			other[i].Weights[k] = 0.25
			named(fmt.Sprintf("weight %d of layer %d", k, i), plain, other, lockstep.DefaultScale)
		}
		for k := range l.Bias {
			other := some()
			other[i].Bias[k] = 0.25
			named(fmt.Sprintf("bias %d of layer %d", k, i), plain, other, lockstep.DefaultScale)
		}
		if i < 2 {
			other := some()
			other[i].Tanh = true
			named(fmt.Sprint("tanh behind layer ", i), plain, other, lockstep.DefaultScale)
		}
	}
	// 26 numbers each, all of them equal
	named("one layer of 6", plain, layers(0, 1, 6, 2), lockstep.DefaultScale)
	named("layers of 2 and 4", plain, layers(0, 1, 2, 4, 2), lockstep.DefaultScale)
	named("another scale", plain, some(), 0.5)
	for _, sees := range []string{
		"v[0]-v[1]-0.5/2", "roll[1]-v[1]-0.5/2", "roll[0]-a[1]-0.5/2", "roll[0]-v[2]-0.5/2",
		"roll[0]-v[1]-0.25/2", "roll[0]-v[1]-0.5/4", "roll[0]-0.5/2", "roll[0]-v[1]/2",
		"roll[0]-v[1]-0.5",
	} {
		named("what sees "+sees, sees, some(), lockstep.DefaultScale)
	}
	named("one layer", plain, layers(0.5, 1, 2), lockstep.DefaultScale)
	two := layers(0.5, 2, 2)
	named("two that it sees", "roll[0] v[1]", two, lockstep.DefaultScale)
	named("the same in another order", "v[1] roll[0]", two, lockstep.DefaultScale)
	named("one of a step before", "v[1] roll[0]-observation[3]", two, lockstep.DefaultScale)
	all := make([]string, lockstep.ObservationSize)
	for i := range all {
		all[i] = fmt.Sprintf("observation[%d]", i)
	}
	wide := layers(0.5, lockstep.ObservationSize, 2)
	named("the whole observation", "", wide, lockstep.DefaultScale)
	named("each of its numbers", strings.Join(all, " "), wide, lockstep.DefaultScale)
}

// sized: a network is as wide as its widest layer, names each element that it sees, and knows
// whether some of these need what is not declared.
func sized(t *testing.T, what string, n *lockstep.Network) {
	t.Helper()
	width := 0
	for _, l := range n.Layers {
		width = max(width, l.Inputs, l.Outputs)
	}
	if n.Width() != width || n.Inputs() != n.Layers[0].Inputs {
		t.Errorf("%s: %d wide, and sees %d", what, n.Width(), n.Inputs())
	}
	looks := false
	for i := range n.Inputs() {
		name := lockstep.ObservationName(i)
		if n.Sees != nil {
			name = n.Sees[i].String()
			looks = looks || strings.Contains(name, "observation")
		}
		if want := fmt.Sprintf("observation[%d] (%s)", i, name); n.Element(i) != want {
			t.Errorf("%s: element %d is %s, want %s", what, i, n.Element(i), want)
		}
	}
	if lockstep.LooksAtObservation(n.Sees) != looks {
		t.Errorf("%s: that it looks at the observation is %v", what, !looks)
	}
}

// TestNamesStay: plans and folders that were written before find their policies by name.
func TestNamesStay(t *testing.T) {
	hold := func(name, want string) {
		t.Helper()
		if name != want {
			t.Errorf("it is named %s; plans and folders of before say %s", name, want)
		}
	}
	one, err := lockstep.ParseSees([]string{"roll[0]"})
	if err != nil {
		t.Fatal(err)
	}
	first := layers(0, 1, 3, 3, 2)
	first[0].Tanh = true
	n, err := lockstep.NewSeeing(one, first, lockstep.DefaultScale)
	if err != nil {
		t.Fatal(err)
	}
	hold(n.Name, "network_9174135d")
	if n.Scale != lockstep.DefaultScale || len(n.Layers) != 3 || n.Width() != 3 || n.Inputs() != 1 {
		t.Errorf("%+v is %d wide and sees %d", n, n.Width(), n.Inputs())
	}
	l := layers(0.5, 256, 7, 2)
	l[0].Bias[6], l[1].Weights[13] = 1, 2
	if n, err = lockstep.NewNetwork(l, 0.25); err != nil {
		t.Fatal(err)
	}
	hold(n.Name, "network_aa9d27dd")
	if x := n.Numbers(); n.Width() != 256 || len(x) != 256*7+7+7*2+2 || x[256*7+6] != 1 ||
		x[256*7+7+13] != 2 {
		t.Errorf("it is %d wide, and has %d numbers", n.Width(), len(x))
	}
	table, err := lockstep.NewTable(map[string][]float64{
		"a": make([]float64, lockstep.TableSteps),
	})
	if err != nil {
		t.Fatal(err)
	}
	hold(table.Name, "table_b908a229")
}
