package translate

import (
	"fmt"
	"math"
	"strings"
)

// helper is a function that specimens call, with a parameter of each type.
const helper = `.func (.param .b64 s_helper_r) s_helper(.param .b32 s_helper_0, .param .b64 ` +
	`s_helper_1, ` +
	`.param .b32 s_helper_2, .param .b64 s_helper_3, .param .b32 s_helper_4)
{
.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<2>; .reg .f64 %fd<2>;
ld.param.u32 %r1, [s_helper_0]; ld.param.u64 %rd1, [s_helper_1];
ld.param.f32 %f1, [s_helper_2]; ld.param.f64 %fd1, [s_helper_3]; ld.param.s8 %r4, [s_helper_4];
ld.param.b32 %r5, [s_helper_0]; and.b32 %r1, %r1, %r5;
mov.b32 %r2, %f1; mov.b64 %rd2, {%r1, %r2}; mov.b64 %rd3, %fd1;
xor.b64 %rd2, %rd2, %rd1; sub.s64 %rd2, %rd2, %rd3;
cvt.s64.s32 %rd4, %r4; add.s64 %rd2, %rd2, %rd4;
st.param.b64 [s_helper_r], %rd2;
ret;
}
`

// hashed is PTX that makes %d of four words, so that it shows which is where; hash is what
// that is.
const hashed = "mad.lo.s32 %d, %y0, 31, %y1; mad.lo.s32 %d, %d, 31, %y2; mad.lo.s32 %d, %d, 31, " +
	"%y3;"

func hash(x ...uint64) (d uint64) {
	for _, word := range x {
		d = (d*31 + word) & math.MaxUint32
	}
	return d
}

// inShared are addresses in shared memory: 16 bytes of the thread, and of its neighbour,
// who is also the neighbour's.
const inShared = ".reg .b32 %w<3>; shl.b32 %w0, %r3, 4; mov.u32 %w1, buffer; add.s32 %w0, %w0, " +
	"%w1; " +
	"xor.b32 %w2, %r3, 1; shl.b32 %w2, %w2, 4; add.s32 %w1, %w1, %w2; "

// inLocal is local memory with two places of 16 bytes, of which bit 0 of %c tells one.
const inLocal = ".local .align 16 .b8 __local_depot0[32]; .reg .b64 %m<3>; .reg .b32 %w; " +
	"mov.u64 %m0, __local_depot0; " +
	"and.b32 %w, %c, 1; mul.wide.u32 %m1, %w, 16; add.s64 %m1, %m0, %m1; "

func itself(x []uint64) uint64 { return x[0] }

// chosen is the operand that bit 0 of the third one tells.
func chosen(x []uint64) uint64 { return x[x[2]&1] }

// behind are numbers that ptxas does not know: %o is 4 or 12, as bit 3 of %b tells, %n is 0 or 8.
const behind = ".reg .b32 %o, %n; and.b32 %n, %b, 8; or.b32 %o, %n, 4; "

// inInput are addresses in a thread's operands, of which bytes 16 to 31 are nobody's: %m0 is 0
// or 8 bytes behind them, and %m1 is 20 more. %m2 and %m3 are the same as generic addresses.
const inInput = behind + `.reg .b64 %m<4>, %k; cvt.u64.u32 %k, %n; add.s64 %m0, %rd1, %k;
or.b64 %k, %k, 20; add.s64 %m1, %rd1, %k; ld.param.u64 %m3, [NAME_param_0]; ` +
	`mul.wide.u32 %m2, %r1, 32;
add.s64 %m2, %m3, %m2; add.s64 %m3, %m2, %k; and.b64 %k, %k, 8; add.s64 %m2, %m2, %k; `

// addressSpecimens are of the forms of addresses, and of zeros that are stored. What one form
// of address writes another one reads.
func addressSpecimens() []specimen {
	const i, l, f, d = "u32", "u64", "f32", "f64"
	input := func(name, body string) string {
		return strings.ReplaceAll(inInput, "NAME", name) + body
	}
	return []specimen{
		{
			"s_generic_write",
			[]string{f, i},
			f,
			input("s_generic_write", `.reg .f32 %x; neg.f32 %x, %a;
st.f32 [%m3+-4], %a; st.f32 [%m3], %x; ld.global.f32 %d, [%m0+16]; ld.global.f32 %x, [%m0+20];
sub.rn.f32 %d, %d, %x;`),
			func(x []uint64) uint64 {
				return meanings["add.rn"](f, "", []uint64{x[0], x[0]})
			},
			false,
		},
		{"s_generic_write_behind", []string{f, i}, f, input("s_generic_write_behind",
			`st.f32 [%m2+16], %a; ld.global.f32 %d, [%m1+-4];`), itself, false},
		{"s_generic_read", []string{f, i}, f, input("s_generic_read",
			`st.global.f32 [%m0+16], %a; ld.f32 %d, [%m3+-4];`), itself, false},
		{"s_generic_zero", []string{f, i}, f, input("s_generic_zero",
			`st.global.f32 [%m0+16], %a; st.f32 [%m3+-4], 0f00000000; ld.global.f32 %d, [%m0+16];`),
			func([]uint64) uint64 { return 0 }, false},
		{"s_global_zero", []string{f, i}, f, input("s_global_zero",
			`st.f32 [%m2+16], %a; st.global.f32 [%m1+-4], 0f00000000; ld.f32 %d, [%m2+16];`),
			func([]uint64) uint64 { return 0 }, false},
		{
			"s_local_loop",
			[]string{i, i},
			i,
			`.local .align 16 .b8 __local_depot0[256]; .reg .b64 %m<3>;
.reg .b32 %y<4>, %k, %end; .reg .pred %q; mov.u64 %m0, __local_depot0; mov.u64 %m1, %m0;
ld.param.u32 %end, [s_local_loop_param_0+20]; add.s32 %end, %end, 16; mov.u32 %k, 0;
$again: add.s32 %y0, %a, %k; st.local.u64 [%m1], 0; st.local.u32 [%m1+8], %y0;
add.s64 %m1, %m1, 16; add.s32 %k, %k, 1; setp.ne.s32 %q, %k, %end; @%q bra $again;
and.b32 %k, %b, 15; mul.wide.u32 %m1, %k, 16; add.s64 %m1, %m0, %m1; ld.local.u32 %y0, [%m1];
ld.local.u32 %y1, [%m1+4]; st.local.u32 [%m1], %a; ld.local.u32 %y2, [%m1+8]; mov.u32 %y3, 0; ` +
				hashed,
			func(x []uint64) uint64 { return hash(0, 0, sum32(x[0], x[1]&15), 0) },
			false,
		},
		{
			"s_minus_absolute",
			[]string{d, d},
			d,
			"abs.f64 %d, %a; neg.f64 %d, %d; add.rn.f64 %d, %d, %b;",
			func(x []uint64) uint64 {
				return meanings["add.rn"](d, "",
					[]uint64{x[0] | 1<<63, x[1]})
			},
			false,
		},
		{"s_quotient_by_constant", []string{d}, d, "div.rn.f64 %d, %a, 0d3FB999999999999A;",
			func(x []uint64) uint64 { return quotient(d, number(d, x[0]), 0.1) }, false},
		{"s_zero_pair", []string{d, i}, d, `.reg .b32 %w; .reg .pred %q; and.b32 %w, %b, 3;
mov.f64 %d, 0d0000000000000000; setp.eq.s32 %q, %w, 0; @%q bra $after;
$again: add.rn.f64 %d, %d, %a; add.s32 %w, %w, -1; setp.gt.s32 %q, %w, 0; @%q bra $again;
$after:`, func(x []uint64) uint64 {
			sum := uint64(0)
			for range x[1] & 3 {
				sum = meanings["add.rn"](d, "", []uint64{sum, x[0]})
			}
			return sum
		}, false},
		{
			"s_shared_minus",
			[]string{i, i},
			i,
			inShared + behind + `.reg .b32 %p; add.s32 %p, %w0, %o;
st.shared.u32 [%w0], %b; st.shared.u32 [%w0+8], %b; st.shared.u32 [%p+-4], %a; bar.sync 0;
add.s32 %p, %w0, %n; ld.shared.u32 %d, [%p];`,
			itself,
			false,
		},
		{"s_shared_behind", []string{i, i}, i, inShared + behind + `.reg .b32 %p;
not.b32 %p, %a; st.shared.u32 [%w0], %p; st.shared.u32 [%w0+8], %p;
add.s32 %p, %w0, %n; st.shared.u32 [%p], %a; bar.sync 0;
add.s32 %p, %w0, %o; ld.shared.u32 %d, [%p+-4];`, itself, false},
		{"s_shared_zero", []string{i}, i, inShared + `.reg .b32 %n; st.shared.u32 [%w0], %a;
st.shared.u32 [%w0+4], %a; bar.sync 0; st.shared.u32 [%w1+4], 0; bar.sync 0;
ld.shared.u32 %d, [%w0]; ld.shared.u32 %n, [%w0+4]; add.s32 %d, %d, %n;`, itself, false},
		{
			"s_shared_read_loop",
			[]string{i, i},
			i,
			inShared + `.reg .b32 %y<4>, %o, %end; .reg .pred %q;
ld.param.u32 %end, [s_shared_read_loop_param_0+20]; add.s32 %end, %end, 12;
add.s32 %y0, %a, %b; xor.b32 %y1, %a, %b; st.shared.u32 [%w0], %a; st.shared.u32 [%w0+4], %b;
st.shared.u32 [%w0+8], %y0; st.shared.u32 [%w0+12], %y1; bar.sync 0; mov.u32 %d, 0; mov.u32 %o, 4;
$again: add.s32 %w2, %w0, %o; ld.shared.u32 %y0, [%w2+-4]; ld.shared.u32 %y1, [%w2];
ld.shared.u32 %y2, [%w2+4];
mad.lo.s32 %d, %d, 31, %y0; mad.lo.s32 %d, %d, 31, %y1; mad.lo.s32 %d, %d, 31, %y2;
add.s32 %o, %o, 4; setp.ne.s32 %q, %o, %end; @%q bra $again;`,
			func(x []uint64) uint64 {
				sum, odd := sum32(x[0], x[1]), x[0]^x[1]
				return hash(x[0], x[1], sum, x[1], sum, odd)
			},
			false,
		},
		{
			"s_shared_write_loop",
			[]string{i, i},
			i,
			inShared + `.reg .b32 %y<4>, %o, %end; .reg .pred %q;
ld.param.u32 %end, [s_shared_write_loop_param_0+20]; add.s32 %end, %end, 16;
st.shared.u32 [%w0], %a; mov.u32 %o, 4;
$again: add.s32 %w2, %w0, %o; ld.shared.u32 %y0, [%w2+-4]; add.s32 %y0, %y0, %b;
st.shared.u32 [%w2], %y0; add.s32 %o, %o, 4; setp.ne.s32 %q, %o, %end; @%q bra $again;
bar.sync 0; ld.shared.u32 %y0, [%w0]; ld.shared.u32 %y1, [%w0+4]; ld.shared.u32 %y2, [%w0+8];
ld.shared.u32 %y3, [%w0+12]; ` + hashed,
			func(x []uint64) uint64 {
				return hash(x[0], sum32(x[0], x[1]), sum32(x[0], 2*x[1]), sum32(x[0], 3*x[1]))
			},
			false,
		},
	}
}

// memorySpecimens are of what moves data and control.
func memorySpecimens() (all []specimen) {
	const i, l, f, d = "u32", "u64", "f32", "f64"
	for _, t := range []string{i, l, f, d} {
		all = append(
			all,
			specimen{"s_shared_" + t, []string{t}, t, strings.ReplaceAll(inShared+`.reg .T %x;
st.shared.T [%w0], %a; bar.sync 0; ld.shared.T %x, [%w1]; nanosleep.u32 20; bar.sync 0;
st.shared.T [%w0+8], %x; bar.sync 0; ld.shared.T %d, [%w1+8];`, "T", t), itself, false},
		)
		place := specimen{"s_generic_" + t, []string{t, "pred"}, t, "", itself, false}
		// Which memory it is only the thread knows.
		place.body = strings.ReplaceAll(
			fmt.Sprintf(
				`.reg .b64 %%g<4>; .reg .b32 %%w; mul.wide.u32 %%g0, %%r3, 16; `+
					`mov.u32 %%w, buffer; cvt.u64.u32 %%g1, %%w;
cvta.shared.u64 %%g1, %%g1; add.s64 %%g0, %%g0, %%g1; ld.param.u64 %%g2, [%s_param_0+8]; `+
					`mul.wide.u32 %%g3, %%r1, 8;
add.s64 %%g2, %%g2, %%g3; selp.b64 %%g0, %%g0, %%g2, %%b; st.T [%%g0], %%a; bar.sync 0; `+
					`ld.T %%d, [%%g0];`,
				place.name,
			),
			"T",
			t,
		)
		if t == i { // no kernel stores one of those
			place.body = strings.ReplaceAll(
				place.body, "st.u32 [%g0], %a;", ".reg .f32 %x; mov.b32 %x, %a; st.f32 [%g0], %x;",
			)
		}
		all = append(all, place)
		if t == i {
			place.name, place.is = "s_generic_u8", func(x []uint64) uint64 { return x[0] & 255 }
			place.body = strings.NewReplacer(
				"s_generic_u32", place.name, "ld.u32", "ld.u8",
			).Replace(place.body)
			all = append(all, place)
		}
		local := strings.ReplaceAll(
			inLocal+"st.local.T [%m0], %a; st.local.T [%m0+16], %b; ld.local.T %d, [%m1];", "T", t,
		)
		if t == l { // no kernel loads one of those
			local = strings.ReplaceAll(
				local, "ld.local.u64 %d, [%m1];",
				".reg .f64 %x; ld.local.f64 %x, [%m1]; mov.b64 %d, %x;",
			)
		}
		all = append(all, specimen{"s_local_" + t, []string{t, t, i}, t, local, chosen, false})
	}
	all = append(all, addressSpecimens()...)
	return append(
		all,
		specimen{
			"s_shared_byte", []string{i}, i,
			inShared + "st.shared.u32 [%w0], %a; bar.sync 0; ld.shared.u8 %d, [%w0+1];",
			func(x []uint64) uint64 { return x[0] >> 8 & 255 }, false,
		},
		specimen{
			"s_shared_vector",
			[]string{f, f, f, f},
			i,
			inShared + `.reg .f32 %x<4>; .reg .b32 %y<4>;
st.shared.v4.f32 [%w0], {%a, %b, %c, %e}; bar.sync 0; ` +
				`ld.shared.v4.f32 {%x0, %x1, %x2, %x3}, [%w1]; bar.sync 0;
st.shared.v4.f32 [%w0], {%x3, %x2, %x1, %x0}; bar.sync 0; ` +
				`ld.shared.v4.u32 {%y0, %y1, %y2, %y3}, [%w1]; ` + hashed,
			func(x []uint64) uint64 { return hash(x[3], x[2], x[1], x[0]) },
			false,
		},
		specimen{
			"s_shared_pair",
			[]string{l},
			i,
			inShared + `.reg .b32 %y<4>; st.shared.u64 [%w0], %a; bar.sync 0;
ld.shared.v2.u32 {%y0, %y1}, [%w0]; mov.u32 %y2, %y1; mov.u32 %y3, %y0; ` + hashed,
			func(x []uint64) uint64 {
				return hash(x[0]&math.MaxUint32, x[0]>>32, x[0]>>32, x[0]&math.MaxUint32)
			},
			false,
		},
		specimen{
			"s_shared_window",
			[]string{i},
			i,
			inShared + `.reg .b64 %g; cvt.u64.u32 %g, %w0; cvta.shared.u64 %g, %g;
cvta.to.shared.u64 %g, %g; cvt.u32.u64 %w2, %g; st.shared.u32 [%w0], %a; bar.sync 0; ` +
				`ld.shared.u32 %d, [%w2];`,
			itself,
			false,
		},
		specimen{
			"s_global_constant",
			[]string{f, f},
			i,
			`.reg .f32 %x<4>; .reg .b32 %y<4>; ld.global.nc.v4.f32 {%x0, %x1, %x2, %x3}, [%rd1];
mov.b32 %y0, %x0; mov.b32 %y1, %x1; mov.b32 %y2, %x2; mov.b32 %y3, %x3; ` + hashed,
			func(x []uint64) uint64 { return hash(x[0], 0, x[1], 0) },
			false,
		},
		specimen{"s_global_constant_f32", []string{f, f}, f, "ld.global.nc.f32 %d, [%rd1+8];",
			func(x []uint64) uint64 { return x[1] }, false},
		specimen{"s_global_constant_f64", []string{d, d}, d, "ld.global.nc.f64 %d, [%rd1+8];",
			func(x []uint64) uint64 { return x[1] }, false},
		specimen{
			"s_global_byte", []string{i, i}, i,
			"ld.global.u8 %d, [%rd1+2]; st.global.u8 [%rd2+5], %b;",
			func(x []uint64) uint64 { return x[0]>>16&255 | x[1]&255<<40 }, false,
		},
		specimen{"s_local_v4", []string{f, f, i}, i, inLocal + `.reg .f32 %x<4>; .reg .b32 %y<4>;
st.local.v4.f32 [%m0], {%a, %b, %b, %a}; st.local.v4.f32 [%m0+16], {%b, %a, %a, %a}; ` +
			`ld.local.v4.f32 {%x0, %x1, %x2, %x3}, [%m1];
mov.b32 %y0, %x0; mov.b32 %y1, %x1; mov.b32 %y2, %x2; mov.b32 %y3, %x3; ` +
			hashed, func(x []uint64) uint64 {
			if x[2]&1 == 0 {
				return hash(x[0], x[1], x[1], x[0])
			}
			return hash(x[1], x[0], x[0], x[0])
		}, false},
		specimen{"s_local_v2", []string{d, d, i}, l, inLocal + `.reg .f64 %x<2>; .reg .b64 %y<2>;
st.local.v2.f64 [%m0], {%a, %b}; st.local.v2.f64 [%m0+16], {%b, %a}; ` +
			`ld.local.v2.f64 {%x0, %x1}, [%m1];
mov.b64 %y0, %x0; mov.b64 %y1, %x1; shl.b64 %y1, %y1, 1; sub.s64 %d, %y0, %y1;`,
			func(x []uint64) uint64 { return x[x[2]&1] - x[1-x[2]&1]<<1 }, false},
		specimen{
			"s_local_pair",
			[]string{f, f, i},
			f,
			inLocal + `st.local.v2.f32 [%m0], {%a, %b}; st.local.v2.f32 [%m0+16], {%b, %a};
.reg .b64 %g; cvta.local.u64 %g, %m1; cvta.to.local.u64 %g, %g; ld.local.f32 %d, [%g];`,
			chosen,
			false,
		},
		specimen{
			"s_local_generic",
			[]string{f, f, i},
			f,
			inLocal + `st.local.f32 [%m0], %a; st.local.f32 [%m0+16], %b;
.reg .b64 %g; cvta.local.u64 %g, %m1; ld.f32 %d, [%g];`,
			chosen,
			false,
		},
		specimen{
			"s_parameter_generic",
			[]string{l},
			l,
			`.reg .b64 %g<4>; .reg .pred %q; mov.b64 %g0, s_parameter_generic_param_0; ` +
				`cvta.param.u64 %g1, %g0;
ld.u64 %g2, [%g1+8]; ld.param.u64 %g3, [s_parameter_generic_param_0+8]; ` +
				`setp.eq.s64 %q, %g2, %g3; selp.b64 %d, %a, 0, %q;`,
			itself,
			false,
		},
		specimen{
			"s_call",
			[]string{i, l, f, d},
			l,
			`.param .b32 p0; st.param.b32 [p0+0], %a; .param .b64 p1; st.param.b64 [p1+0], %b;
.param .b32 p2; st.param.f32 [p2+0], %c; .param .b64 p3; st.param.f64 [p3+0], %e; ` +
				`.param .b32 p4; st.param.b32 [p4+0], %a;
.param .b64 p5; call.uni (p5), s_helper, (p0, p1, p2, p3, p4); ld.param.b64 %d, [p5+0]; ` +
				`bra.uni $after;
$after:`,
			func(x []uint64) uint64 {
				return (x[2]<<32 | x[0]) ^ x[1] - x[3] + uint64(int64(int8(x[0])))
			},
			false,
		},
	)
}
