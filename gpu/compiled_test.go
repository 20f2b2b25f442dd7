package gpu

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/module"
	"lockstep/gpu/internal/translate"
	"lockstep/internal/want"
)

// A planted fault changes the first text that matches, in the part of the PTX or of the
// listing that begins with a line, or in the C++ that is made of a kernel.
type plantedFault struct {
	name     string
	from     string // where the part begins
	old, new string // an expression and its replacement
	want     string // of the error; empty where other bits are what shows it
}

// compiledFaults are planted in what is executed, by engine. Each is one that a compiler,
// a linker or a careless edit of the translation could make.
var compiledFaults = map[string][]plantedFault{
	"ptx": {
		{
			"a barrier removed", ".visible .entry lockstep_rollout_r1(", `bar\.sync\s+0;`, ";",
			"races",
		},
		{"a barrier that not all reach", ".visible .entry lockstep_rollout_r1(", `bar\.sync\s+0;`,
			"bar.sync 0;\n{ .reg .pred %q; .reg .b32 %w; mov.u32 %w, %tid.x; setp.lt.u32 %q, " +
				"%w, 5; @%q bar.sync 0; }", "do not meet at one barrier"},
		{
			"a product and a sum instead of a fused one",
			".visible .entry lockstep_rollout_r1(", // not the first: its sum is 0
			`((?:fma\.rn\.f32[^;]*;\s*){2})fma\.rn\.f32\s+(%f\d+), (%f\d+), (%f\d+), (%f\d+);`,
			"${1}mul.rn.f32 $2, $3, $4; add.rn.f32 $2, $2, $5;", "",
		},
		{
			"an address of shared memory off by four", ".visible .entry lockstep_rollout_r1(",
			`(ld\.shared\.v4\.f32\s+\{.*\}, \[%r\d+)\]`, "$1+4]", "not aligned",
		},
		{
			"an address of global memory off by four", ".visible .entry lockstep_rollout_r1(",
			`(ld\.global\.nc\.v4\.f32\s+\{.*\}, \[%rd\d+)\]`, "$1+4]", "not aligned",
		},
		{
			"a weight of the next column", ".visible .entry lockstep_rollout_r1(",
			`(ld\.global\.nc\.f32\s+%f\d+, \[%rd\d+)\]`, "$1+4]", "",
		},
		{
			"a store beyond shared memory", ".visible .entry lockstep_rollout_r1(",
			`(st\.shared\.f32\s+\[%r\d+)\]`, "$1+262144]", "out of bounds",
		},
		{
			"a load beyond global memory", ".visible .entry lockstep_rollout_r1(",
			`(ld\.global\.f64\s+%fd\d+, \[%rd\d+)\]`, "$1+1073741824]", "out of bounds",
		},
		{
			"a store that is left out", ".visible .entry lockstep_rollout_r1(",
			`st\.shared\.v4\.f32\s+\[.*;`, ";", "",
		},
		{"a signed shift", ".func _ZN8lockstep8draw_all", `shr\.u32`, "shr.s32", ""},
		{
			"a loop that ends early", ".func _ZN8lockstep8draw_all",
			`setp\.ne\.s32(\s+%p\d+, %r\d+), 624`, "setp.ne.s32$1, 608", "nobody has written",
		},
		{
			"an approximate quotient", ".visible .entry lockstep_rollout_r1(", `div\.rn\.f32`,
			"div.approx.f32", "opcode div.approx.f32 is not in ptx.txt",
		},
		{
			"a sum that may be contracted", ".visible .entry lockstep_rollout_r1(", `add\.rn\.f32`,
			"add.f32", "opcode add.f32 is not in ptx.txt",
		},
		{
			"a register that does not exist", ".visible .entry lockstep_rollout_r1(",
			`add\.rn\.f32\s+%f\d+`, "add.rn.f32 %f99999", "no register",
		},
	},
	"sass": {
		{
			"a barrier removed", "kernel lockstep_rollout_r1", `BAR\.SYNC\.DEFER_BLOCKING 0x0`,
			"NOP", "races",
		},
		{
			"an FFMA unfused", "translated",
			`((?:float c = f32\(R\d+\)(?s:.*?)){9}float c = f32\(R\d+\); float d; )d = fused\(a, ` +
				`b, c\);`,
			"${1}d = a * b; d = d + c;", "",
		},
		{"an FFMA that rounds to zero", "kernel lockstep_rollout_r1", `FFMA R`, "FFMA.RZ R", ""},
		{
			"an address off by four", "kernel lockstep_rollout_r1", `(LDS\.128 R\d+, \[R\d+)\]`,
			"$1+0x4]", "not aligned",
		},
		{
			"threads of a warp that do not come together again", "kernel lockstep_rollout_r1",
			`BSYNC B0`, "NOP", "a barrier under divergence",
		},
		{
			"a modifier that is not known", "kernel lockstep_rollout_r1", `FADD R`, "FADD.SAT R",
			"the opcode is not in sass.txt",
		},
	},
}

// edited is a module in which the C++ of kernels is changed.
type edited struct {
	translate.Module
	fault plantedFault
}

func (e edited) Kernel(name string) (string, error) {
	text, err := e.Module.Kernel(name)
	if err != nil {
		return "", err
	}
	return e.fault.plant(text, "")
}

// plant changes a text behind from.
func (f plantedFault) plant(text, from string) (string, error) {
	at := strings.LastIndex(text, from)
	if from == "" {
		at = 0
	}
	if at < 0 {
		return "", fmt.Errorf("no %q", from)
	}
	old := regexp.MustCompile(f.old)
	m := old.FindStringSubmatchIndex(text[at:])
	if m == nil {
		return "", fmt.Errorf("no %s behind %q", f.old, from)
	}
	replacement := old.ExpandString(nil, f.new, text[at:], m)
	return text[:at+m[0]] + string(replacement) + text[at+m[1]:], nil
}

// module reads the engine's kernels with the fault in them.
func (f plantedFault) module(engine string) (translate.Module, error) {
	cubin, err := module.Cubin()
	if err != nil {
		return nil, err
	}
	read := map[string]func() (string, error){"ptx": module.PTX, "sass": module.Listing}[engine]
	text, err := read()
	if err != nil {
		return nil, err
	}
	if f.from != "translated" {
		if text, err = f.plant(text, f.from); err != nil {
			return nil, err
		}
	}
	var m translate.Module
	if engine == "ptx" {
		m, err = translate.PTX(text)
	} else {
		m, err = translate.MachineCode([]byte(cubin), text)
	}
	if err == nil && f.from == "translated" {
		m = edited{m, f}
	}
	return m, err
}

// TestCompiledFaults plants faults in the instructions that are executed, those of the
// engine of LOCKSTEP_ENGINE: every one must be noticed, by the check that is for it or by
// other bits.
func TestCompiledFaults(t *testing.T) {
	engine := os.Getenv("LOCKSTEP_ENGINE")
	faults := compiledFaults[engine]
	if faults == nil {
		t.Skip("about the engines ptx and sass: `make test-compiled`")
	}
	want.Compiler.Need(t)
	jobs := []lockstep.Job{{Route: shorten(routes()[0], 102), Policy: lockstep.DefaultPID()}}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	profile := lockstep.Profile{
		LayerNorm: lockstep.LayerNorm130,
		Softmax:   lockstep.SoftmaxAVX512,
		Exp:       lockstep.ExpU,
	}
	right := traces(t, newReference(t, profile), jobs, opts)[0]
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			m, err := f.module(engine)
			if err != nil {
				t.Fatal(err)
			}
			s := newSimulator(
				t,
				Config{Profile: profile, RoutesPerBlock: 1, Open: func() (driver.Device, error) {
					return translate.Kernels{
						Sources: f.name,
						Read:    func() (translate.Module, error) { return m, nil },
					}.Open(engine, emulated.Options{})
				}},
			)
			got := traces(t, s, jobs, opts)[0]
			switch difference := got.difference(right); {
			case difference == "":
				t.Error("nobody noticed")
			case f.want != "" && !contains(got.result.Err, f.want):
				t.Errorf("%s, want an error with %q", difference, f.want)
			default:
				t.Log(difference)
			}
		})
	}
}

// TestCompiledOrders: the threads of a block may run in any order between two barriers, and
// the instructions of the engine of LOCKSTEP_ENGINE give the same bits.
func TestCompiledOrders(t *testing.T) {
	engine := os.Getenv("LOCKSTEP_ENGINE")
	if compiledFaults[engine] == nil {
		t.Skip("about the engines ptx and sass: `make test-compiled`")
	}
	jobs := []lockstep.Job{{Route: shorten(routes()[0], 102), Policy: lockstep.DefaultPID()}}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	config := Config{RoutesPerBlock: 1}
	var want *trace
	for _, order := range []emulated.Order{emulated.Descending, emulated.Shuffled} {
		s := newSimulatorOn(t, config, emulated.Options{Order: order, Seed: 1})
		if want == nil {
			want = traces(t, newReference(t, s.Profile()), jobs, opts)[0]
		}
		if d := traces(t, s, jobs, opts)[0].difference(want); d != "" {
			t.Errorf("threads in %s order: %s", order, d)
		}
	}
}
