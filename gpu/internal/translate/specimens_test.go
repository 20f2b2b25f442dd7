package translate

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// A specimen is a kernel of one PTX instruction, or of the few of which ptxas makes one of
// machine code. Each thread reads operands a b c e, and writes d.
type specimen struct {
	name string
	from []string // types of the operands
	to   string   // the type of d
	body string   // PTX, which reads %a, %b, %c, %e and writes %d
	// is what PTX says that d is, in arithmetic that the tables do not use.
	is func(x []uint64) uint64
	// only machine code is executed: ptx.txt does not know an instruction of the body.
	only bool
}

// A meaning is what an instruction computes of bits, with the types that stand behind it.
type meaning func(t, v string, x []uint64) uint64

// specimens are one for each row and type of ptx.txt that computes, and others.
func specimens() (all []specimen) {
	for _, r := range readTable("ptx.txt", true) {
		meaning := meanings[r.opcode]
		for types := range strings.FieldsSeq(r.types) {
			opcode := r.opcode + "." + types
			o := operations[opcode]
			to, from, _ := strings.Cut(r.operands, "=")
			if meaning == nil || o.operands == "halves" {
				continue
			}
			s := specimen{name: named(opcode), to: o.kind(rune(to[0]))}
			s.is = func(x []uint64) uint64 { return meaning(o.t, o.v, x) }
			operands := "%d"
			for i, kind := range from {
				s.from = append(s.from, o.kind(kind))
				operands += ", %" + "abce"[i:i+1]
			}
			s.body = opcode + " " + operands + ";"
			all = append(all, s)
			if strings.HasPrefix(opcode, "setp.") {
				all = append(all, combined(s, o)...)
			}
		}
	}
	return append(append(all, others()...), memorySpecimens()...)
}

func named(opcode string) string { return "s_" + strings.ReplaceAll(opcode, ".", "_") }

// combined are a comparison with a predicate that ptxas makes part of it, where a kernel
// that is shipped has that.
func combined(s specimen, o operation) (all []specimen) {
	kind, unsigned, wide := "ISETP.", "", ""
	switch {
	case o.t[0] == 'f':
		kind = map[string]string{"f32": "FSETP.", "f64": "DSETP."}[o.t]
	case o.t[0] != 's':
		unsigned = "U32."
	}
	if kind == "ISETP." && size(o.t) == 8 {
		wide = ".EX"
	}
	_, comparison, _ := strings.Cut(o.opcode, ".")
	for _, how := range []string{"and", "or", "xor"} {
		if codes[kind+strings.ToUpper(comparison+"."+unsigned+how+wide)] == nil {
			continue
		}
		c, join := s, meanings[how]
		c.name += "_" + how
		c.from = append(slices.Clone(s.from), "pred")
		c.body = ".reg .pred %q; " + strings.Replace(
			s.body, "%d", "%q", 1,
		) + " " + how + ".pred %d, %q, %c;"
		c.is = func(x []uint64) uint64 { return join("pred", "", []uint64{s.is(x), x[2]}) }
		all = append(all, c)
	}
	return all
}

var meanings = map[string]meaning{
	"add":    integers(func(x []*big.Int) *big.Int { return x[0].Add(x[0], x[1]) }),
	"sub":    integers(func(x []*big.Int) *big.Int { return x[0].Sub(x[0], x[1]) }),
	"mul.lo": integers(func(x []*big.Int) *big.Int { return x[0].Mul(x[0], x[1]) }),
	"mad.lo": integers(func(x []*big.Int) *big.Int {
		return x[0].Add(x[0].Mul(x[0], x[1]), x[2])
	}),
	"div": integers(func(x []*big.Int) *big.Int { return x[0].Quo(x[0], x[1]) }),
	"rem": integers(func(x []*big.Int) *big.Int { return x[0].Rem(x[0], x[1]) }),
	"mul.hi": func(t, _ string, x []uint64) uint64 {
		return wrapped(t, shifted(product(t, x), -8*size(t)))
	},
	"mul.wide": func(t, _ string, x []uint64) uint64 { return wrapped("u64", product(t, x)) },
	"neg": func(t, _ string, x []uint64) uint64 {
		if t[0] == 'f' {
			return x[0] ^ signBit(t)
		}
		return wrapped(t, new(big.Int).Neg(integer(t, x[0])))
	},
	"abs":      func(t, _ string, x []uint64) uint64 { return x[0] &^ signBit(t) },
	"copysign": func(t, _ string, x []uint64) uint64 { return x[1]&^signBit(t) | x[0]&signBit(t) },
	"min":      func(t, _ string, x []uint64) uint64 { return extremeOf(t, x, -1) },
	"max":      func(t, _ string, x []uint64) uint64 { return extremeOf(t, x, 1) },
	"bfi":      inserted,

	"add.rn": reals(func(x []float64) float64 { return x[0] + x[1] },
		func(x []*big.Float) *big.Float { return x[0].Add(x[0], x[1]) }),
	"sub.rn": reals(func(x []float64) float64 { return x[0] - x[1] },
		func(x []*big.Float) *big.Float { return x[0].Sub(x[0], x[1]) }),
	"mul.rn": reals(func(x []float64) float64 { return x[0] * x[1] },
		func(x []*big.Float) *big.Float { return x[0].Mul(x[0], x[1]) }),
	"fma.rn": reals(func(x []float64) float64 { return math.FMA(x[0], x[1], x[2]) },
		func(x []*big.Float) *big.Float { return x[0].Add(x[0].Mul(x[0], x[1]), x[2]) }),
	"div.rn": func(t, _ string, x []uint64) uint64 {
		return quotient(t, number(t, x[0]), number(t, x[1]))
	},
	"rcp.rn": func(t, _ string, x []uint64) uint64 { return quotient(t, 1, number(t, x[0])) },
	// A float64 has more than twice the digits of a float32, so that rounding twice is once.
	"sqrt.rn": func(t, _ string, x []uint64) uint64 {
		return encoded(t, math.Sqrt(number(t, x[0])))
	},

	"setp.eq":  compares(func(order int, nan bool) bool { return !nan && order == 0 }),
	"setp.ne":  compares(func(order int, nan bool) bool { return !nan && order != 0 }),
	"setp.lt":  compares(func(order int, nan bool) bool { return !nan && order < 0 }),
	"setp.le":  compares(func(order int, nan bool) bool { return !nan && order <= 0 }),
	"setp.gt":  compares(func(order int, nan bool) bool { return !nan && order > 0 }),
	"setp.ge":  compares(func(order int, nan bool) bool { return !nan && order >= 0 }),
	"setp.equ": compares(func(order int, nan bool) bool { return nan || order == 0 }),
	"setp.neu": compares(func(order int, nan bool) bool { return nan || order != 0 }),
	"setp.ltu": compares(func(order int, nan bool) bool { return nan || order < 0 }),
	"setp.leu": compares(func(order int, nan bool) bool { return nan || order <= 0 }),
	"setp.gtu": compares(func(order int, nan bool) bool { return nan || order > 0 }),
	"setp.geu": compares(func(order int, nan bool) bool { return nan || order >= 0 }),
	"setp.num": compares(func(_ int, nan bool) bool { return !nan }),
	"setp.nan": compares(func(_ int, nan bool) bool { return nan }),
	"selp": func(_, _ string, x []uint64) uint64 {
		if x[2] == 1 {
			return x[0]
		}
		return x[1]
	},

	"and": bitwise(func(a, b uint) uint { return a * b }),
	"or":  bitwise(func(a, b uint) uint { return min(1, a+b) }),
	"xor": bitwise(func(a, b uint) uint { return (a + b) % 2 }),
	"not": bitwise(func(a, _ uint) uint { return 1 - a }),
	"shl": func(t, _ string, x []uint64) uint64 {
		return wrapped(t, shifted(integer(t, x[0]), int(min(x[1], 100))))
	},
	"shr": func(t, _ string, x []uint64) uint64 {
		return wrapped(t, shifted(integer(t, x[0]), -int(min(x[1], 100))))
	},
	"mov": func(_, _ string, x []uint64) uint64 { return x[0] },

	"cvt": func(t, v string, x []uint64) uint64 {
		if t[0] == 'f' {
			return encoded(t, number(v, x[0]))
		}
		return wrapped(t, integer(v, x[0]))
	},
	"cvt.rn": func(t, v string, x []uint64) uint64 {
		if v[0] == 'f' {
			return encoded(t, number(v, x[0]))
		}
		return rounded(t, new(big.Float).SetInt(integer(v, x[0])))
	},
	"cvt.rzi": func(t, v string, x []uint64) uint64 { return towardsZero(t, number(v, x[0])) },
}

func signBit(t string) uint64 { return 1 << (8*size(t) - 1) }

// integer is the number that bits of a type stand for.
func integer(t string, x uint64) *big.Int {
	n := new(big.Int).SetUint64(x)
	if t[0] == 's' && x&signBit(t) != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size(t))))
	}
	return n
}

// wrapped are the bits that a type keeps of a number.
func wrapped(t string, n *big.Int) uint64 {
	end := new(big.Int).Lsh(big.NewInt(1), uint(8*size(t)))
	return new(big.Int).Mod(n, end).Uint64()
}

// shifted is a number times a power of two, rounded down.
func shifted(n *big.Int, places int) *big.Int {
	if places < 0 {
		return new(big.Int).Rsh(n, uint(-places))
	}
	return new(big.Int).Lsh(n, uint(places))
}

func product(t string, x []uint64) *big.Int {
	return new(big.Int).Mul(integer(t, x[0]), integer(t, x[1]))
}

func integers(f func(x []*big.Int) *big.Int) meaning {
	return func(t, _ string, bits []uint64) uint64 {
		var x []*big.Int
		for _, b := range bits {
			x = append(x, integer(t, b))
		}
		return wrapped(t, f(x))
	}
}

// number is what bits of a type stand for; every float32 is a float64.
func number(t string, x uint64) float64 {
	if t == "f32" {
		return float64(math.Float32frombits(uint32(x)))
	}
	return math.Float64frombits(x)
}

// encoded rounds to a type.
func encoded(t string, x float64) uint64 {
	if t == "f32" {
		return uint64(math.Float32bits(float32(x)))
	}
	return math.Float64bits(x)
}

// rounded rounds once, to the nearest number of a type.
func rounded(t string, x *big.Float) uint64 {
	if t == "f32" {
		f, _ := x.Float32()
		return uint64(math.Float32bits(f))
	}
	f, _ := x.Float64()
	return math.Float64bits(f)
}

// exactly is precision enough for every sum and product of float64.
const exactly = 4400

// reals computes without error and rounds once; where an operand is infinite or no number,
// by Go's operators.
func reals(special func(x []float64) float64, exact func(x []*big.Float) *big.Float) meaning {
	return func(t, _ string, bits []uint64) uint64 {
		var plain []float64
		var x []*big.Float
		finite := true
		for _, b := range bits {
			f := number(t, b)
			plain = append(plain, f)
			if finite = finite && f-f == 0; finite {
				x = append(x, new(big.Float).SetPrec(exactly).SetFloat64(f))
			}
		}
		if !finite {
			return encoded(t, special(plain))
		}
		return rounded(t, exact(x))
	}
}

func quotient(t string, a, b float64) uint64 {
	if t == "f32" { // a float64 has more than twice the digits
		return encoded(t, a/b)
	}
	return math.Float64bits(a / b)
}

func compares(f func(order int, nan bool) bool) meaning {
	return func(t, _ string, x []uint64) uint64 {
		var order int
		var nan bool
		if t[0] == 'f' {
			a, b := number(t, x[0]), number(t, x[1])
			nan = math.IsNaN(a) || math.IsNaN(b)
			if !nan {
				order = big.NewFloat(a).Cmp(big.NewFloat(b))
			}
		} else {
			order = integer(t, x[0]).Cmp(integer(t, x[1]))
		}
		return truth(f(order, nan))
	}
}

func truth(p bool) uint64 {
	if p {
		return 1
	}
	return 0
}

// extremeOf is the lesser (sign -1) or the greater (1) of two. Of two zeros -0 is the
// lesser; beside a NaN it is the number.
func extremeOf(t string, x []uint64, sign int) uint64 {
	if t[0] != 'f' {
		if integer(t, x[0]).Cmp(integer(t, x[1])) == sign {
			return x[0]
		}
		return x[1]
	}
	a, b := number(t, x[0]), number(t, x[1])
	switch {
	case math.IsNaN(a):
		return x[1]
	case math.IsNaN(b):
		return x[0]
	case sign < 0:
		return encoded(t, math.Min(a, b))
	}
	return encoded(t, math.Max(a, b))
}

func bitwise(f func(a, b uint) uint) meaning {
	return func(t, _ string, x []uint64) (d uint64) {
		n := 8 * size(t)
		if t == "pred" {
			n = 1
		}
		b := uint64(0)
		if len(x) > 1 {
			b = x[1]
		}
		for i := range n {
			d |= uint64(f(uint(x[0]>>i&1), uint(b>>i&1))) << i
		}
		return d
	}
}

// inserted is bfi as the PTX ISA writes it: bit by bit.
func inserted(t, _ string, x []uint64) uint64 {
	d, position, n := x[1], x[2]&255, x[3]&255
	for i := uint64(0); i < n && position+i < uint64(8*size(t)); i++ {
		d = d&^(1<<(position+i)) | x[0]>>i&1<<(position+i)
	}
	return d
}

// towardsZero is cvt.rzi: the last integer where a number is beyond it; of NaN 0 in 32 bits
// and the highest bit alone in 64.
func towardsZero(t string, x float64) uint64 {
	if t[0] == 'f' {
		return encoded(t, math.Trunc(x))
	}
	if math.IsNaN(x) {
		return map[string]uint64{"s32": 0, "s64": 1 << 63}[t]
	}
	bits := 8*size(t) - 1
	least := new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), uint(bits)))
	most := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(bits)), big.NewInt(1))
	n := most
	if math.IsInf(x, -1) {
		n = least
	} else if !math.IsInf(x, 1) {
		n, _ = big.NewFloat(x).Int(nil)
	}
	if n.Cmp(least) < 0 {
		n = least
	} else if n.Cmp(most) > 0 {
		n = most
	}
	return wrapped(t, n)
}

// of gives a meaning of operands of one type.
func of(t, opcode string, more ...uint64) func(x []uint64) uint64 {
	return func(x []uint64) uint64 {
		return meanings[opcode](t, t, append(append([]uint64{}, x...), more...))
	}
}

// hi is the upper half of a product.
func hi(a uint64, b int64) int64 { return int64(int32(a)) * b >> 32 }

// sum32 wraps around.
func sum32(x ...uint64) (s uint64) {
	for _, a := range x {
		s += a
	}
	return s & math.MaxUint32
}

// others are specimens of what ptxas makes of more than one instruction, or of a constant.
func others() []specimen {
	const i, l, f, d, p = "u32", "u64", "f32", "f64", "pred"
	all := []specimen{
		{
			"s_halves", []string{l}, l,
			".reg .b32 %lo, %hi; mov.b64 {%lo, %hi}, %a; mov.b64 %d, {%hi, %lo};",
			func(x []uint64) uint64 { return x[0]<<32 | x[0]>>32 }, false,
		},
		{
			"s_halves32", []string{i}, i,
			".reg .b16 %lo, %hi; mov.b32 {%lo, %hi}, %a; mov.b32 %d, {%hi, %lo};",
			func(x []uint64) uint64 { return (x[0]<<16 | x[0]>>16) & math.MaxUint32 }, false,
		},
		{"s_lea", []string{i, i}, i, "shl.b32 %d, %a, 3; add.s32 %d, %d, %b;",
			func(x []uint64) uint64 { return sum32(x[0]<<3, x[1]) }, false},
		{"s_lea_wide", []string{l, l}, l, "shl.b64 %d, %a, 3; add.s64 %d, %d, %b;",
			func(x []uint64) uint64 { return x[0]<<3 + x[1] }, false},
		{
			"s_lea_signed", []string{"s32", l}, l,
			"cvt.s64.s32 %d, %a; shl.b64 %d, %d, 5; add.s64 %d, %d, %b;",
			func(x []uint64) uint64 { return uint64(int64(int32(x[0]))<<5) + x[1] }, false,
		},
		{"s_mad_wide", []string{"s32", "s32", l}, l, "mul.wide.s32 %d, %a, %b; add.s64 %d, %d, %c;",
			func(x []uint64) uint64 {
				return uint64(int64(int32(x[0]))*int64(int32(x[1]))) + x[2]
			}, false},
		{"s_sum3", []string{i, i, i}, i, "add.s32 %d, %a, %b; add.s32 %d, %d, %c;",
			func(x []uint64) uint64 { return sum32(x...) }, false},
		{"s_sum3_minus", []string{i, i, i}, i, "sub.s32 %d, %a, %b; sub.s32 %d, %d, %c;",
			func(x []uint64) uint64 { return sum32(x[0], -x[1], -x[2]) }, false},
		{"s_sum3_wide", []string{l, l, l}, l, "add.s64 %d, %a, %b; add.s64 %d, %d, %c;",
			func(x []uint64) uint64 { return x[0] + x[1] + x[2] }, false},
		{"s_add_constant", []string{i}, i, "add.s32 %d, %a, -5;",
			func(x []uint64) uint64 { return sum32(x[0], math.MaxUint32-4) }, false},
		{"s_add_constant64", []string{l}, l, "add.s64 %d, %a, -5;",
			func(x []uint64) uint64 { return x[0] - 5 }, false},
		{"s_logic3", []string{i, i, i}, i, "and.b32 %d, %a, %b; xor.b32 %d, %d, %c;",
			func(x []uint64) uint64 { return x[0]&x[1] ^ x[2] }, false},
		{
			"s_logic_test", []string{i, i, p}, p,
			".reg .b32 %w; .reg .pred %q; and.b32 %w, %a, %b; setp.ne.s32 %q, %w, 0; or.pred " +
				"%d, %q, %c;",
			func(x []uint64) uint64 { return truth(x[0]&x[1] != 0 || x[2] == 1) }, false,
		},
		{"s_predicates3", []string{p, p, p}, p, "and.pred %d, %a, %b; xor.pred %d, %d, %c;",
			func(x []uint64) uint64 { return x[0]&x[1] ^ x[2] }, false},
		{"s_select_negated", []string{i, i, p}, i,
			".reg .pred %q; not.pred %q, %c; selp.b32 %d, %a, %b, %q;",
			func(x []uint64) uint64 { return x[x[2]] }, false},
		{"s_absolute", []string{"s32"}, i, "abs.s32 %d, %a;",
			func(x []uint64) uint64 { return wrapped(i, new(big.Int).Abs(integer("s32", x[0]))) },
			true},
		{"s_least_unsigned", []string{i, i}, i, "min.u32 %d, %a, %b;", of(i, "min"), true},
		{"s_greatest_unsigned", []string{i, i}, i, "max.u32 %d, %a, %b;", of(i, "max"), true},
		{"s_add_least", []string{"s32", "s32", "s32"}, i, "add.s32 %d, %a, %b; min.s32 %d, %d, %c;",
			func(x []uint64) uint64 {
				return extremeOf("s32", []uint64{sum32(x[0], x[1]), x[2]}, -1)
			}, false},
		{
			"s_add_greatest", []string{"s32", "s32", "s32"}, i,
			"add.s32 %d, %a, %b; max.s32 %d, %d, %c;",
			func(x []uint64) uint64 {
				return extremeOf("s32", []uint64{sum32(x[0], x[1]), x[2]}, 1)
			},
			false,
		},
		{"s_add_least_unsigned", []string{i, i, i}, i, "add.s32 %d, %a, %b; min.u32 %d, %d, %c;",
			func(x []uint64) uint64 {
				return extremeOf(i, []uint64{sum32(x[0], x[1]), x[2]}, -1)
			}, true},
		{"s_greatest_nan", []string{f, f}, f, "max.NaN.f32 %d, %a, %b;", nanOr(1), true},
		{"s_least_nan", []string{f, f}, f, "min.NaN.f32 %d, %a, %b;", nanOr(-1), true},
		{"s_least_f32", []string{f, f}, f, "min.f32 %d, %a, %b;", of(f, "min"), true},
		{"s_field", []string{"s32"}, i, "bfe.s32 %d, %a, 0, 11;",
			func(x []uint64) uint64 { return sum32(uint64(int64(x[0]<<53) >> 53)) }, true},
		{
			"s_shift_masked", []string{i, i}, i,
			".reg .b32 %w; and.b32 %w, %b, 31; shr.u32 %d, %a, %w;",
			func(x []uint64) uint64 { return x[0] >> (x[1] % 32) }, false,
		},
		{"s_bytes", []string{i, i, i}, i, "prmt.b32 %d, %a, %b, %c;", bytesOf, true},
		{"s_bytes_constant", []string{i, i}, i, "prmt.b32 %d, %a, %b, 0x7a93;",
			func(x []uint64) uint64 { return bytesOf([]uint64{x[0], x[1], 0x7a93}) }, true},
		{
			"s_lea_high", []string{i}, i,
			".reg .b32 %w; shr.s32 %w, %a, 31; shr.u32 %w, %w, 25; add.s32 %w, %w, %a; and.b32 " +
				"%d, %w, -128;",
			func(x []uint64) uint64 { return uint64(uint32(int32(x[0]) / 128 * 128)) }, false,
		},
		{
			"s_lea_high_sum", []string{"s32"}, i,
			".reg .b32 %w<2>; mul.hi.s32 %w0, %a, 1717986919; shr.u32 %w1, %w0, 31; shr.u32 " +
				"%w0, %w0, 3; add.s32 %d, %w0, %w1;",
			func(x []uint64) uint64 {
				high := hi(x[0], 1717986919)
				return sum32(uint64(uint32(high))>>3, uint64(uint32(high))>>31)
			},
			false,
		},
		{
			"s_lea_high_signed", []string{"s32"}, i,
			".reg .b32 %w<2>; mul.hi.s32 %w0, %a, 1717986919; shr.u32 %w1, %w0, 31; shr.s32 " +
				"%w0, %w0, 3; add.s32 %d, %w0, %w1;",
			func(x []uint64) uint64 {
				high := hi(x[0], 1717986919)
				return sum32(uint64(high>>3), uint64(uint32(high))>>31)
			},
			false,
		},
		{"s_lea_sum_signed", []string{"s32", l}, l, "cvt.s64.s32 %d, %a; add.s64 %d, %d, %b;",
			func(x []uint64) uint64 { return uint64(int64(int32(x[0]))) + x[1] }, false},
		{
			"s_lea_exponent", []string{l}, l,
			"shl.b64 %d, %a, 52; add.s64 %d, %d, 4607182418800017408;",
			func(x []uint64) uint64 { return x[0]<<52 + 1023<<52 }, false,
		},
		{"s_lea_exponent_sum", []string{l, l}, l, "shl.b64 %d, %a, 45; add.s64 %d, %d, %b;",
			func(x []uint64) uint64 { return x[0]<<45 + x[1] }, false},
		{"s_shift_wide", []string{l}, l, "shl.b64 %d, %a, 3;",
			func(x []uint64) uint64 { return x[0] << 3 }, false},
		{"s_zero", []string{l}, l,
			".reg .pred %q; setp.lt.s64 %q, %a, 0; mov.u64 %d, 0; selp.b64 %d, %d, %a, %q;",
			func(x []uint64) uint64 {
				if int64(x[0]) < 0 {
					return 0
				}
				return x[0]
			}, false},
		{"s_constant", []string{i, p}, i, "mov.u32 %d, 0x3f9d70a4; selp.b32 %d, %d, %a, %b;",
			func(x []uint64) uint64 {
				if x[1] == 1 {
					return 0x3f9d70a4
				}
				return x[0]
			}, false},
		{"s_fused_constant", []string{f, f}, f, "fma.rn.f32 %d, %a, %b, 0fBF9D70A5;",
			of(f, "fma.rn", 0xbf9d70a5), false},
		{"s_sum_constant", []string{f}, f, "add.rn.f32 %d, %a, 0f3DCCCCCD;",
			of(f, "add.rn", 0x3dcccccd), false},
		{"s_product_constant", []string{d}, d, "mul.rn.f64 %d, %a, 0d3FB999999999999A;",
			of(d, "mul.rn", 0x3fb999999999999a), false},
		{"s_product_upper", []string{d}, d, "mul.rn.f64 %d, %a, 0d4059A00000000000;",
			of(d, "mul.rn", 0x4059a00000000000), false},
		{
			"s_difference_negated", []string{d, d}, d,
			".reg .f64 %w; neg.f64 %w, %a; add.rn.f64 %d, %w, %b;",
			func(x []uint64) uint64 {
				return meanings["add.rn"](d, "", []uint64{x[0] ^ 1<<63, x[1]})
			},
			false,
		},
		{
			"s_sum_absolute", []string{d, d}, d,
			".reg .f64 %w; abs.f64 %w, %a; add.rn.f64 %d, %w, %b;",
			func(x []uint64) uint64 {
				return meanings["add.rn"](d, "", []uint64{x[0] &^ (1 << 63), x[1]})
			},
			false,
		},
		{
			"s_loop",
			[]string{i, i},
			i,
			`.reg .b32 %w; .reg .pred %q; and.b32 %w, %b, 15; mov.u32 %d, %a;
$again: mul.lo.s32 %d, %d, 5; add.s32 %w, %w, -1; setp.gt.s32 %q, %w, 0; @%q bra $again;`,
			func(x []uint64) uint64 {
				v := x[0]
				for range max(1, x[1]&15) {
					v = v * 5 & math.MaxUint32
				}
				return v
			},
			false,
		},
	}
	for _, by := range []int64{3, 7, 10, 11, 16, 20, 49, 624, -5} {
		n := uint64(uint32(by))
		name := strings.ReplaceAll(fmt.Sprint(by), "-", "minus")
		all = append(
			all,
			specimen{
				"s_div_by_" + name, []string{"s32"}, i, fmt.Sprintf("div.s32 %%d, %%a, %d;", by),
				of("s32", "div", n), false,
			},
			specimen{
				"s_rem_by_" + name, []string{"s32"}, i, fmt.Sprintf("rem.s32 %%d, %%a, %d;", by),
				of("s32", "rem", n), false,
			},
		)
		if by > 0 {
			all = append(
				all,
				specimen{
					"s_udiv_by_" + name, []string{i}, i, fmt.Sprintf("div.u32 %%d, %%a, %d;", by),
					of(i, "div", n), false,
				},
			)
		}
	}
	return all
}

func nanOr(sign int) func(x []uint64) uint64 {
	return func(x []uint64) uint64 {
		if math.IsNaN(number("f32", x[0])) || math.IsNaN(number("f32", x[1])) {
			return 0x7fffffff
		}
		return extremeOf("f32", x, sign)
	}
}

// bytesOf is prmt: four bytes chosen from eight, or their signs.
func bytesOf(x []uint64) (d uint64) {
	var bytes []uint64
	for _, word := range x[:2] {
		for i := range 4 {
			bytes = append(bytes, word>>(8*i)&255)
		}
	}
	for i := range 4 {
		choice := x[2] >> (4 * i) & 15
		b := bytes[choice%8]
		if choice >= 8 {
			b = b / 128 * 255
		}
		d |= b << (8 * i)
	}
	return d
}
