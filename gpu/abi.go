package gpu

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"lockstep"
	"lockstep/gpu/internal/driver"
)

// The structs of kernels/launch.h, whose comments say what the fields are.
type (
	launchBlock struct {
		Jobs, FirstJob, Stride, First, End, Shortcuts int64
		LayerNorm, Softmax, Exp                       int64

		Weights, Routes, Job             driver.Pointer
		RollLataccel, VEgo, AEgo, Target driver.Pointer
		Steer                            driver.Pointer
		Lataccel, Action                 driver.Pointer
		PastLataccel, PastAction         driver.Pointer
		Draws                            driver.Pointer
		Memory, Status                   driver.Pointer
		Commands                         driver.Pointer
		Width                            int64
		Now                              driver.Pointer
		TeacherLataccel, TeacherAction   driver.Pointer
		Costs                            driver.Pointer
		Partial, Path                    driver.Pointer
		Variate, Softplus, Reward        driver.Pointer
		Trace                            driver.Pointer
		TraceFirst, TraceEnd             int64
	}
	routeBlock struct {
		Rows, First int64
	}
	seenBlock struct {
		Of, At, Less, LessAt int64
		Shift, Unit          float64
	}
	layerBlock struct {
		Inputs, Outputs, Tanh int64
		Weights               driver.Pointer
	}
	actorBlock struct {
		Scale              float64
		Declared, Contract int64
		Sees               driver.Pointer
		Layers             int64
		Layer              [lockstep.MaxLayers]layerBlock
	}
	jobBlock struct {
		Route        int64
		Noise        int64
		Origin       int64
		Kind         int64
		Gains        [10]float64
		Table, Actor driver.Pointer
		Sampled      int64
		Seed, ID     uint64
		Expected     int64
	}
	statusBlock struct {
		Code, Step      int64
		Value           float64
		Sampled, Serial int64
	}
	memoryBlock [3]float64
	costsBlock  struct {
		Lataccel, Jerk, Total float64
	}
	placeBlock struct {
		Rollout, Step int64
	}
	observingBlock struct {
		Places, Route                    driver.Pointer
		Step, End                        int64
		Job, Status, Routes              driver.Pointer
		RollLataccel, VEgo, AEgo, Target driver.Pointer
		Lataccel, Action                 driver.Pointer
		Stride                           int64
		Sees                             driver.Pointer
		Inputs                           int64
		Out                              driver.Pointer
	}
	traceBlock struct {
		Action, Draw, Prediction, Lataccel float64
		Sample, Network                    int64
		Tokens                             [lockstep.ContextLength]int64
		States                             [4 * lockstep.ContextLength]float32
		Logits, Probs                      [lockstep.VocabSize]float32
		CDF                                [lockstep.VocabSize]float64
		Observation                        [lockstep.MaxWidth]float32
		Actor                              [lockstep.ActorSize]float32
		Raw                                float64
	}
)

const (
	// hostKind in place of a policy's kind: the host gives the commands.
	hostKind = -1

	statusOK              = 0
	statusNoToken         = 1
	statusNotDistribution = 2
	statusNoController    = 3
	statusNoObservation   = 4

	// givenDraws in place of a seed: the host has written the draws.
	givenDraws = -1
)

// interfaceVersion is kVersion of kernels/layout.cuh, lockstep_layout's first word.
const interfaceVersion = 7

// variant is a kernel for blocks of so many routes.
type variant struct{ routes, shared int }

// name is the kernel's; the one with policies knows kinds beyond zero and pid, and
// expected values.
func (v variant) name(policies bool) string {
	if policies {
		return fmt.Sprintf("lockstep_policy_r%d", v.routes)
	}
	return fmt.Sprintf("lockstep_rollout_r%d", v.routes)
}

// layout is what a module says of itself.
type layout struct {
	maxThreads int
	variants   []variant // in increasing order of routes
}

// readLayout checks that a module's variable lockstep_layout describes what this
// package has been written for.
func readLayout(words []int64, weights int) (layout, error) {
	const fixed = 14
	if len(words) < 1 {
		return layout{}, errors.New(
			"the module's lockstep_layout is empty: build the kernels again with `make kernels`",
		)
	}
	if words[0] != interfaceVersion {
		return layout{}, fmt.Errorf(
			"the module's kernels have interface version %d, this program wants %d: build the "+
				"kernels again with `make kernels`",
			words[0], interfaceVersion,
		)
	}
	if len(words) < fixed || words[fixed-1] < 1 || int64(len(words)) < fixed+2*words[fixed-1] {
		return layout{}, fmt.Errorf(
			"the module's lockstep_layout has %d words, which is too few: build the kernels "+
				"again with `make kernels`",
			len(words),
		)
	}
	for i, c := range []struct {
		name string
		want int
	}{
		{"Route", int(unsafe.Sizeof(routeBlock{}))},
		{"Job", int(unsafe.Sizeof(jobBlock{}))},
		{"Status", int(unsafe.Sizeof(statusBlock{}))},
		{"Memory", int(unsafe.Sizeof(memoryBlock{}))},
		{"TraceStep", int(unsafe.Sizeof(traceBlock{}))},
		{"Launch", int(unsafe.Sizeof(launchBlock{}))},
		{"Actor", int(unsafe.Sizeof(actorBlock{}))},
		{"Observing", int(unsafe.Sizeof(observingBlock{}))},
		{"Seen", int(unsafe.Sizeof(seenBlock{}))},
		{"Place", int(unsafe.Sizeof(placeBlock{}))},
		{"weights", weights},
	} {
		if have := words[1+i]; have != int64(c.want) {
			return layout{}, fmt.Errorf(
				"the size of %s is %d in the module and %d in this program: build the kernels "+
					"again with `make kernels`",
				c.name, have, c.want,
			)
		}
	}
	l := layout{maxThreads: int(words[fixed-2])}
	for i := range int(words[fixed-1]) {
		l.variants = append(l.variants, variant{int(words[fixed+2*i]), int(words[fixed+2*i+1])})
	}
	var kinds []int64
	for _, k := range lockstep.Kinds() {
		kinds = append(kinds, int64(len(k.Gains)), int64(len(k.Memory)))
	}
	if have := words[fixed+2*len(l.variants):]; !slices.Equal(have, kinds) {
		return layout{}, fmt.Errorf(
			"the module's kinds of policies have %d gains and numbers remembered, this "+
				"program's %d: build the kernels again with `make kernels`",
			have, kinds,
		)
	}
	return l, nil
}

// view is memory seen as n elements, which hold no pointers of Go's. Device and
// host have the same byte order: CUDA's hosts all have the device's.
func view[T any](memory []byte, n int) []T {
	var zero T
	if n == 0 {
		return nil
	}
	_ = memory[n*int(unsafe.Sizeof(zero))-1]
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), n)
}

// viewBytes is the bytes of elements.
func viewBytes[T any](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice(
		(*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])),
	)
}
