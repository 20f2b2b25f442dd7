package kernels_test

import (
	"fmt"
	"testing"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/kernels"
	"lockstep/internal/policytest"
)

// units gives the kernels of testdata/units.cu room that stays, for many calls.
type units struct {
	testing.TB
	driver.Device
	x, y, c, i driver.Pointer
	routes     map[*lockstep.Route]driver.Pointer
}

func (u *units) put(to driver.Pointer, data []byte) driver.Pointer {
	must(u, u.Upload(to, data))
	return to
}

func (u *units) launch(kernel string, args abiUnits) {
	must(u, u.Launch(kernel, 1, 64, 16<<10, raw([]abiUnits{args})))
}

// take is what a launch wrote.
func take[T any](u *units, from driver.Pointer, n int) []T {
	out := download[T](u, u.Device, from, n)
	synchronize(u, u.Device)
	return out
}

func (u *units) softplus(z []float32) []float32 {
	u.launch("unit_float", abiUnits{n: int64(len(z)), kind: 6, x: u.put(u.x, raw(z)), y: u.y})
	return take[float32](u, u.y, len(z))
}

func (u *units) beta(draws []policytest.Draw) []float32 {
	var sp [][2]float32
	var of [][3]uint64
	for _, d := range draws {
		sp, of = append(sp, d.Softplus), append(of, [3]uint64{d.Seed, d.ID, uint64(d.Step)})
	}
	u.launch(
		"unit_beta",
		abiUnits{n: int64(len(draws)), x: u.put(u.x, raw(sp)), i: u.put(u.i, raw(of)), y: u.y},
	)
	return take[float32](u, u.y, len(draws))
}

func (u *units) mean(sp [2]float32) float64 {
	u.launch("unit_beta", abiUnits{n: 1, kind: 1, x: u.put(u.x, raw(sp[:])), c: u.c})
	return take[float64](u, u.c, 1)[0]
}

func (u *units) observe(
	o []float32, r *lockstep.Route, step int, lataccel, action []float64,
) error {
	if u.routes[r] == 0 {
		var columns []float64
		for _, column := range [][]float64{r.TargetLataccel, r.RollLataccel, r.VEgo, r.AEgo} {
			columns = append(columns, column...)
		}
		u.routes[r] = upload(u, u.Device, columns)
	}
	histories := make([]float64, 2*r.Len())
	copy(histories, lataccel)
	copy(histories[r.Len():], action)
	u.launch(
		"unit_observe",
		abiUnits{
			n:    int64(r.Len()),
			kind: int64(step),
			a:    u.routes[r],
			b:    u.put(u.c, raw(histories)),
			y:    u.y,
		},
	)
	copy(o, take[float32](u, u.y, len(o)))
	return nil
}

func (u *units) forward(n *lockstep.Network, x []float32) []float32 {
	for i := range n.Layers {
		inputs, outputs, numbers := kernels.PackLayer(&n.Layers[i])
		args := abiUnits{
			x: u.put(u.x, raw(x)),
			w: upload(u, u.Device, numbers),
			i: u.put(u.i, raw([]int64{int64(inputs), int64(outputs)})),
			y: u.y,
		}
		if i < len(n.Layers)-1 {
			args.kind = 1
		}
		u.launch("unit_layer", args)
		x = take[float32](u, u.y, lockstep.ObservationSize)
		must(u, u.Release(args.w))
	}
	return x[:lockstep.ActorSize]
}

// TestPythonPolicy holds the parts of a network's policy to vectors of others.
func TestPythonPolicy(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t), Order: emulated.Shuffled})
	u := &units{
		t, d, room[float32](t, d, 1<<14), room[float32](t, d, 1<<14), room[float64](t, d, 1<<13),
		room[int64](t, d, 1<<14), map[*lockstep.Route]driver.Pointer{},
	}
	policytest.Hold(
		t,
		policytest.Functions{
			Softplus: u.softplus,
			Beta:     u.beta,
			Mean:     u.mean,
			Forward:  u.forward,
			Observe:  u.observe,
		},
	)
}

// TestUnknownKind: a kind that a kernel has not ends its own job, and is named.
func TestUnknownKind(t *testing.T) {
	d := open(t, emulated.Options{})
	route := cut(routes(t)[0], lockstep.MinRows)
	for _, c := range []struct {
		policies bool
		kind     int64
	}{{false, int64(lockstep.KindPIDFF)}, {false, 5}, {true, 5}, {true, -2}} {
		t.Run(fmt.Sprintf("policies %v, kind %d", c.policies, c.kind), func(t *testing.T) {
			r := rollouts{
				shortcuts: lockstep.CostOnly,
				block:     2,
				all:       c.policies,
				kinds:     map[int]int64{1: c.kind},
				routes:    []*lockstep.Route{route, route},
				policies:  []lockstep.Policy{lockstep.DefaultPID(), lockstep.DefaultPID()},
			}
			out := run(t, d, r)
			want := abiStatus{
				code:  statusNoController,
				step:  lockstep.ContextLength,
				value: float64(c.kind),
			}
			if out[1].status != want {
				t.Errorf("status %+v, want %+v", out[1].status, want)
			}
			compareResult(
				t, "the neighbour", out[0],
				simulate(t, lockstep.Job{Route: route, Policy: lockstep.DefaultPID()}, r.shortcuts),
			)
		})
	}
}
