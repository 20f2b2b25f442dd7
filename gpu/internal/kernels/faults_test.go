package kernels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/translate"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
	"lockstep/reference"
)

// A fault is what is planted in the kernels: a text, which must be there once, is
// replaced by one in which FAULT tells whether the fault is on.
type fault struct {
	name, file, old, new string
	less                 int  // bytes of shared memory
	acts                 bool // planted where a network acts
	sanitize             bool // found by the sanitizers alone
	watched              bool // found by the check of each access alone, in a block of two
	// parts of what must be found, in one order of the threads at least; none: nothing
	want []string
}

var faults = []fault{
	{name: "none"},
	{name: "none, sanitized", sanitize: true},
	{name: "no barrier after queries and keys", file: "gpt.cuh", want: []string{"bits"},
		old: "queries + kMatrix);\n    __syncthreads();\n",
		new: "queries + kMatrix);\n    if (!FAULT) __syncthreads();\n"},
	{name: "no barrier after the projection", file: "gpt.cuh", want: []string{"bits"},
		old: "  });\n  __syncthreads();\n}\n\n// add_mlp_output adds",
		new: "  });\n  if (!FAULT) __syncthreads();\n}\n\n// add_mlp_output adds"},
	{name: "no barrier after the sums of the softmax", file: "numpy.cuh", want: []string{"bits"},
		old: "    sums[item] = s;\n  }\n  __syncthreads();",
		new: "    sums[item] = s;\n  }\n  if (!FAULT) __syncthreads();"},
	{name: "a row that stays as it was", file: "gpt.cuh", want: []string{"bits"},
		old: "  for (int i = 0; i < 5; i++) store4(out +",
		new: "  for (int i = FAULT ? 1 : 0; i < 5; i++) store4(out +"},
	{name: "shared memory that nobody wrote", file: "gpt.cuh", want: []string{"bits"},
		old: "    x[row * B::kStride + j] = v + p;", new: "    if (!FAULT || item != 300) x[row " +
			"* B::kStride + j] = v + p;"},
	{
		name: "too little shared memory",
		less: 64,
		want: []string{"beside its shared memory, 0 bytes after its end"},
	},
	{
		name:     "too little shared memory, sanitized",
		less:     64,
		sanitize: true,
		want:     []string{"heap-buffer-overflow"},
	},
	{
		name: "a row too many in a buffer",
		file: "rollout.cu",
		want: []string{"beside a buffer in its shared memory, 0 bytes after its end"},
		old:  "parallel_for((B::kPadded - B::kRows) * B::kStride,",
		new:  "parallel_for((B::kPadded - B::kRows + (FAULT ? 1 : 0)) * B::kStride,",
	},
	{
		name:     "a read beyond a buffer, sanitized",
		file:     "rollout.cu",
		sanitize: true,
		want:     []string{"use-after-poison"},
		old:      "any_flags |= flag[r];",
		new:      "any_flags |= flag[r + (FAULT ? B::kFlags : 0)];",
	},
	{
		name: "a row too many in device memory",
		file: "rollout.cu",
		want: []string{"beside an allocation of 24 bytes, 0 bytes after its end"},
		old:  "  launch.memory[d.j] = d.memory;",
		new:  "  launch.memory[d.j + (FAULT ? 1 : 0)] = d.memory;",
	},
	{
		name:     "a row too many in device memory, sanitized",
		file:     "rollout.cu",
		sanitize: true,
		want:     []string{"heap-buffer-overflow", "write_status"},
		old:      "launch.status + d.j;",
		new:      "launch.status + d.j + (FAULT ? 1 : 0);",
	},
	{
		name: "a row too few in device memory",
		file: "rollout.cu",
		want: []string{"beside an allocation of ", ", 8 bytes before its start"},
		old:  "  launch.action[d.base + step] = action;",
		new:  "  launch.action[FAULT ? -1 : d.base + step] = action;",
	},
	{
		name:     "a read beyond device memory",
		file:     "rollout.cu",
		sanitize: true,
		want:     []string{"heap-buffer-overflow"},
		old:      "launch.v_ego[now]",
		new:      "launch.v_ego[now + (FAULT ? 90 : 0)]",
	},
	{
		name: "a barrier for some threads",
		file: "gpt.cuh",
		want: []string{"do not meet at one barrier"},
		old:  "      if (panel < kPanels) {\n        const Tile",
		new: "      if (FAULT && panel < 4) __syncthreads();\n      if (panel < kPanels) {\n   " +
			"     const Tile",
	},
	{
		name:     "a float that is no integer's",
		file:     "numbers.cuh",
		sanitize: true,
		want:     []string{"outside the range of representable values"},
		old:      "static_cast<int64_t>(e)",
		new:      "static_cast<int64_t>(FAULT ? e - 1e30f : e)",
	},
	{name: "none, where a network acts", acts: true},
	{name: "none, where a network acts, sanitized", acts: true, sanitize: true},
	{
		name: "no barrier after the observation",
		acts: true,
		file: "act.cuh",
		want: []string{"the device process ended"}, // no network is there yet
		old:  "  });\n  __syncthreads();\n\n  unsigned declared",
		new:  "  });\n  if (!FAULT) __syncthreads();\n\n  unsigned declared",
	},
	{
		name: "a layer that another reads while it is written",
		acts: true,
		file: "act.cuh",
		want: []string{"bits"},
		old:  "out = out == even ? odd : even;",
		new:  "out = out == even && !FAULT ? odd : even;",
	},
	{name: "no barrier before a layer", acts: true, file: "gpt.cuh", want: []string{"bits"},
		old: "if (start >= kFirstHalfAwaitsInput && item < t.count) __syncthreads();",
		new: "if (!FAULT && start >= kFirstHalfAwaitsInput && item < t.count) __syncthreads();"},
	{
		name:     "a read beyond a layer, sanitized",
		acts:     true,
		file:     "act.cuh",
		sanitize: true,
		want:     []string{"heap-buffer-overflow"},
		old:      "static_cast<int>(l->outputs) + i);",
		new:      "static_cast<int>(l->outputs) + i + (FAULT ? 64 : 0));",
	},
	{name: "words of two generators in one place", file: "rollout.cu", watched: true,
		want: []string{"races: writes what another thread has written", "in lockstep::draw_"},
		old:  "twister_words + r * kTwisterWords);",
		new:  "twister_words + (FAULT ? 0 : r) * kTwisterWords);"},
	{name: "a kernel that does not end", file: "rollout.cu", want: []string{"given up"},
		old: "  int64_t step = launch.first;\n",
		new: "  int64_t step = launch.first;\n  for (volatile int64_t wait = 0; FAULT && wait " +
			">= 0;) {}\n"},
}

// planted are the sources with all faults. The variable lockstep_fault says which
// is on.
func planted(t testing.TB) fstest.MapFS {
	t.Helper()
	files := sources(t)
	// The kernels for more than one route to a block take time to compile.
	files["variants.h"].Data = []byte("#define LOCKSTEP_VARIANTS(V) V(1)\n")
	for i, f := range faults {
		if f.old == "" {
			continue
		}
		text := string(files[f.file].Data)
		if n := strings.Count(text, f.old); n != 1 {
			t.Fatalf("%s has the text to be replaced %d times, want once: %s", f.file, n, f.old)
		}
		new := strings.ReplaceAll(f.new, "FAULT", fmt.Sprintf("(lockstep_fault == %d)", i))
		files[f.file].Data = []byte(strings.Replace(text, f.old, new, 1))
	}
	files["cpu/cuda.h"].Data = append(
		files["cpu/cuda.h"].Data,
		"\nextern \"C\" int64_t lockstep_fault;\n"...)
	files["fault.cpp"] = &fstest.MapFile{
		Data: []byte("#include <stdint.h>\nextern \"C\" { int64_t lockstep_fault; }\n"),
	}
	return files
}

// softly turns a test's end into a panic that try catches.
type softly struct{ testing.TB }

func (softly) Helper()           {}
func (softly) Fatal(args ...any) { panic(errors.New(fmt.Sprint(args...))) }

// try runs rollouts and returns the error that they end with.
func try(t testing.TB, d driver.Device, r rollouts) (out []outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(error)
			if !ok {
				panic(p)
			}
			err = e
		}
	}()
	return run(softly{t}, d, r), nil
}

// impatient is a device that waits for a moment, for a kernel that computes all the while.
type impatient struct{ *emulated.Device }

func (d impatient) Synchronize(context.Context) error {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	return d.Device.Synchronize(ctx)
}

// TestPlanted plants faults in the kernels, and asks whether what guards against
// them goes off: the bits in some order of the threads, the guards around memory,
// the check of barriers, the sanitizers. Without a fault nothing may go off.
func TestPlanted(t *testing.T) {
	const end = lockstep.ContextLength + 2
	one := cut(routes(t)[0], lockstep.MinRows)
	sim, err := reference.New(modelPath(t), lockstep.Profile{})
	must(t, err)
	plain := rollouts{
		routes:   []*lockstep.Route{one},
		policies: []lockstep.Policy{lockstep.DefaultPID()},
		traced:   [2]int{lockstep.ContextLength, end},
		steps:    []int{end},
	}
	acting := rollouts{
		routes:    []*lockstep.Route{one},
		policies:  []lockstep.Policy{policytest.Network(t)},
		all:       true,
		shortcuts: lockstep.CostOnly,
		traced:    [2]int{lockstep.ControlStartIdx, lockstep.MinRows},
	}
	of := func(r rollouts) []*lockstep.Step {
		steps, err := referenceSteps(
			t, sim, lockstep.Job{Route: one, Policy: r.policies[0]}, r.shortcuts, r.traced[1],
		)
		must(t, err)
		return steps[r.traced[0]-lockstep.ContextLength:]
	}
	wantPlain, wantActing := of(plain), of(acting)
	files := planted(t)
	watched, err := translate.Watched(files)
	must(t, err)
	watched["variants.h"] = &fstest.MapFile{Data: []byte("#define LOCKSTEP_VARIANTS(V) V(2)\n")}

	whole := simtest.Whole(t)
	for i, f := range faults {
		if f.sanitize && !whole {
			continue // the compiler alone takes half a minute
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			var found []string
			run, want := plain, wantPlain
			if f.acts {
				run, want = acting, wantActing
			}
			run.less = f.less
			files := files
			if f.watched {
				files, run.block = watched, 2
				run.routes = append(run.routes, run.routes...)
				run.policies = append(run.policies, run.policies...)
			}
			orders := []emulated.Order{emulated.Ascending, emulated.Descending, emulated.Shuffled}
			if f.watched {
				orders = orders[:1] // races are found in any
			}
			for _, order := range orders {
				e := open(
					t,
					emulated.Options{
						Sources: files, Sanitize: f.sanitize, Watched: f.watched, Seed: 1,
						Order: order,
					},
				)
				d := driver.Device(e)
				if strings.Contains(strings.Join(f.want, ""), "given up") {
					d = impatient{e}
				}
				p, _, err := d.Symbol("lockstep_fault")
				must(t, err)
				must(t, d.Upload(p, raw([]int64{int64(i)})))
				out, err := try(t, d, run)
				if err != nil {
					found = append(found, err.Error())
					continue
				}
				for i, w := range want {
					if d := difference(out[0].steps[i].step(w.Index), w); d != "" {
						found = append(found, "other bits: "+d)
						break
					}
				}
			}
			if f.want == nil && found != nil {
				t.Errorf("the kernels as they are: %q", found)
			}
			if f.want != nil {
				for _, text := range found {
					all := true
					for _, part := range f.want {
						all = all && strings.Contains(text, part)
					}
					if all {
						return
					}
				}
				t.Errorf("found %q, want %q", found, f.want)
			}
		})
	}
}
