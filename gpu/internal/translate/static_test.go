package translate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/gpu/internal/module"
	"lockstep/gpu/internal/module/classic"
)

// A balance is what machine code has of an operation, and of which PTX instructions: each
// quotient and each root is so many, where ptxas writes the sequence for them.
type balance struct {
	opcode string // with its modifiers
	of     map[string]int
}

var balances = []balance{
	{"FADD", map[string]int{"add.rn.f32": 1, "sub.rn.f32": 1}},
	{"FMUL", map[string]int{"mul.rn.f32": 1}},
	{"FMUL.FTZ", map[string]int{"sqrt.rn.f32": 2}},
	{"FFMA", map[string]int{"fma.rn.f32": 1, "div.rn.f32": 5, "sqrt.rn.f32": 2, "div.rn.f64": 1}},
	{"DADD", map[string]int{"add.rn.f64": 1, "sub.rn.f64": 1}},
	{"DMUL", map[string]int{"mul.rn.f64": 1, "div.rn.f64": 1, "sqrt.rn.f64": 3}},
	{
		"MUFU.RCP",
		map[string]int{"div.rn.f32": 1, "div.s32": 1, "div.u32": 1, "rem.s32": 1, "rem.u32": 1},
	},
	{"MUFU.RSQ", map[string]int{"sqrt.rn.f32": 1}},
	{"MUFU.RCP64H", map[string]int{"div.rn.f64": 1, "rcp.rn.f64": 1}},
	{"MUFU.RSQ64H", map[string]int{"sqrt.rn.f64": 1}},
	{
		"F2I.FTZ.U32.TRUNC.NTZ",
		map[string]int{"div.s32": 1, "div.u32": 1, "rem.s32": 1, "rem.u32": 1},
	},
}

// unequal are functions, by a part of their names, whose machine code has other counts, and
// why.
var unequal = map[string]struct {
	more map[string]int
	why  string
}{
	"8lockstep15sample_lataccelI": {map[string]int{"DADD": 7}, "a loop that adds is unrolled"},
	"7classic7forwardI": {
		map[string]int{"FADD": 24, "FMUL": 24}, "a loop of products and sums is unrolled",
	},
	"lockstep_rollout_r": {
		map[string]int{"MUFU.RCP": -1}, "one divisor is a constant, and so is its reciprocal",
	},
	"lockstep_policy_r": {
		map[string]int{"MUFU.RCP": -1}, "one divisor is a constant, and so is its reciprocal",
	},
	"steps_pendulum": {
		map[string]int{"DADD": -2},
		"θ + π stands in three branches of the PTX, and once in machine code",
	},
}

// moves tells whether an addition adds -0, which changes no number: ptxas negates so.
func (c code) moves() bool {
	return strings.HasSuffix(unmodified(c.opcode), "ADD") && slices.Contains(c.operands, "-RZ")
}

// TestBalance: machine code has the roundings of the PTX, function by function. A product
// fused into a sum would be an FFMA more, and an FMUL and an FADD less.
func TestBalance(t *testing.T) {
	for name, shipped := range map[string]map[string]Kernels{
		"rollout": Shipped("", module.PTX, module.Cubin, module.Listing),
		"classic": Shipped("", classic.PTX, classic.Cubin, classic.Listing),
	} {
		ptx, err := shipped["ptx"].Read()
		if err != nil {
			t.Fatal(err)
		}
		sass, err := shipped["sass"].Read()
		if err != nil {
			t.Fatal(err)
		}
		equal, all, problems := weigh(ptx.(*ptxModule), sass.(*sassModule))
		for _, p := range problems {
			t.Errorf("%s: %s", name, p)
		}
		t.Logf("%s: %d of %d functions have the operations of their PTX exactly", name, equal, all)
	}
}

// TestImbalance: what a compiler could do to the bits is noticed in the machine code.
func TestImbalance(t *testing.T) {
	shipped := Shipped("", classic.PTX, classic.Cubin, classic.Listing)
	ptx, err := shipped["ptx"].Read()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ opcode, instead, want string }{
		"a product fused into a sum": {"\nDMUL ", "\nDFMA ", "DMUL:-1"},
		"a sum fused into a product": {"\nFADD ", "\nFFMA ", "FADD:-1 FFMA:1"},
		"subnormal numbers flushed":  {"\nFMUL ", "\nFMUL.FTZ ", "FMUL:-1 FMUL.FTZ:1"},
		"a sum rounded to zero":      {"\nDADD ", "\nDADD.RZ ", "has DADD.RZ"},
		"an approximation":           {"\nFADD ", "\nMUFU.EX2 ", "has MUFU.EX2"},
		"a reciprocal of one's own":  {"\nDADD ", "\nMUFU.RCP64H ", "MUFU.RCP64H:1"},
		"a function that nobody wrote": {"\n$__internal_", "\n$__external_", "is no function of " +
			"the PTX"},
	} {
		changed, err := planted(c.opcode, c.instead)
		if err != nil {
			t.Fatal(err)
		}
		_, _, problems := weigh(ptx.(*ptxModule), changed)
		if !slices.ContainsFunc(
			problems, func(p string) bool { return strings.Contains(p, c.want) },
		) {
			t.Errorf("%s: %q, want %s", what, problems, c.want)
		}
	}
}

// planted reads the listing of classic control with the first of what is asked for changed.
func planted(opcode, instead string) (*sassModule, error) {
	cubin, err := classic.Cubin()
	if err != nil {
		return nil, err
	}
	listing, err := classic.Listing()
	if err != nil {
		return nil, err
	}
	m, err := MachineCode([]byte(cubin), strings.Replace(listing, opcode, instead, 1))
	if err != nil {
		return nil, err
	}
	return m.(*sassModule), nil
}

// weigh compares all functions, and tells how many of them are equal.
func weigh(ptx *ptxModule, sass *sassModule) (equal, all int, problems []string) {
	for kernel, k := range sass.kernels {
		have := map[string]map[string]int{}
		for _, c := range k.codes {
			if have[c.function] == nil {
				have[c.function] = map[string]int{}
			}
			if !c.moves() {
				have[c.function][c.opcode]++
			}
		}
		for function, h := range have {
			f := ptx.functions[strings.TrimPrefix(function, "$"+kernel+"$")]
			if f == nil {
				if !quotientOrRoot.MatchString(function) {
					problems = append(
						problems, function+" is no function of the PTX, no quotient and no root",
					)
				}
				continue
			}
			all++
			same, found := f.weigh(h)
			if same {
				equal++
			}
			problems = append(problems, found...)
		}
	}
	return equal, all, problems
}

// weigh holds a function's machine code, whose opcodes are counted, to its PTX.
func (f *ptxFunction) weigh(have map[string]int) (equal bool, problems []string) {
	written := map[string]int{}
	for _, s := range f.body {
		if i := ptxInstruction.FindStringSubmatch(s.text); i != nil {
			written[i[3]]++
		}
	}
	known, more := map[string]bool{}, map[string]int{}
	for _, b := range balances {
		known[b.opcode] = true
		n := have[b.opcode]
		for opcode, each := range b.of {
			n -= each * written[opcode]
		}
		if n != 0 {
			more[b.opcode] = n
		}
	}
	for opcode := range have {
		if !known[opcode] && rounds.MatchString(opcode) {
			problems = append(problems, f.name+" has "+opcode)
		}
	}
	explained := map[string]int{}
	for part, u := range unequal {
		if strings.Contains(f.name, part) {
			explained = u.more
		}
	}
	if !maps.Equal(more, explained) {
		problems = append(
			problems,
			fmt.Sprintf("%s: more than its PTX says: %v, want %v", f.name, more, explained),
		)
	}
	return len(more) == 0, problems
}

// rounds are opcodes that round otherwise than to the nearest, flush subnormal numbers, or
// approximate.
var rounds = regexp.MustCompile(`FTZ|^[FD](ADD|MUL|FMA)\.|^MUFU|^F?HFMA2$|^HFMA2\.MMA\.`)

var quotientOrRoot = regexp.MustCompile(
	`\$__internal_\d+_\$__cuda_sm\w+?_(div|dblrcp|sqrt|dsqrt)_rn_`,
)
