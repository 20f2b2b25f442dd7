package translate

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"lockstep/gpu/internal/driver/emulated"
	"lockstep/internal/want"
)

// maskedText is a kernel, and a function that reads a word in shared or in global memory.
const maskedText = `.func FUNCTION(.param .b64 p) {
.reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .f32 %f<2>;
ld.param.u64 %rd1, [p]; mov.u32 %r1, buffer; READ; ret; }
.visible .entry KERNEL(.param .u64 KERNEL_param_0) {
.reg .b64 %rd<2>; ld.param.u64 %rd1, [KERNEL_param_0];
.param .b64 a; st.param.b64 [a+0], %rd1; call.uni FUNCTION, (a); ret; }
`

// TestMasked: what nobody has written those functions alone may read that do not use it, and of
// shared memory alone.
func TestMasked(t *testing.T) {
	want.Compiler.Need(t)
	const shared, global = "ld.shared.f32 %f1, [%r1]", "ld.global.f32 %f1, [%rd1]"
	cases := []struct{ kernel, function, read, want string }{
		{"lockstep_policy_a", "compute_few_rows_a", shared, ""},
		{"lockstep_policy_b", "compute_few_rows_b", global, "global memory"},
		{"lockstep_rollout_a", "compute_few_rows_c", shared, "shared memory"},
		{"lockstep_rollout_b", "attention_softmax", shared, ""},
		{"lockstep_policy_c", "layer_norm", shared, "shared memory"},
		{"lockstep_policy_d", "z7control_d", shared, "shared memory"},
	}
	text := ".extern .shared .align 16 .b8 buffer[];\n"
	var names []string
	for _, c := range cases {
		text += strings.NewReplacer(
			"KERNEL", c.kernel, "FUNCTION", c.function, "READ", c.read,
		).Replace(maskedText)
		names = append(names, c.kernel)
	}
	m, err := PTX(text)
	if err != nil {
		t.Fatal(err)
	}
	errs := launched(t, m, names)
	for _, c := range cases {
		err := errs[c.kernel]
		switch {
		case c.want == "" && err == nil:
		case c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "nobody has written"):
			t.Errorf("%s of %s: %v, want %q", c.function, c.kernel, err, c.want)
		}
	}
}

// launched launches each of a module's kernels on a device of its own, with 1 KiB that nobody
// has written of either memory, and returns what is wrong with it.
func launched(t *testing.T, m Module, names []string) map[string]error {
	t.Helper()
	once := newTogether(m, names)
	kernels := Kernels{Sources: "launched", Read: func() (Module, error) { return once, nil }}
	errs := map[string]error{}
	for _, name := range names {
		device, err := kernels.Open("ptx", emulated.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := device.Allocate(1024)
		if err != nil {
			t.Fatal(err)
		}
		err = device.Launch(name, 1, 32, 1024, binary.LittleEndian.AppendUint64(nil, uint64(p)))
		if err == nil {
			err = device.Synchronize(context.Background())
		}
		device.Close()
		errs[name] = err
	}
	return errs
}

// fourText is a kernel in which r1 and rd1 are a thread's own 16 bytes of shared and of global
// memory, r2 and rd2 those of its neighbour. p1 are the later of two neighbours: threads come
// to a barrier one after the other.
const fourText = `.visible .entry KERNEL(.param .u64 KERNEL_param_0) {
.reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<6>; .reg .pred %p<2>;
ld.param.u64 %rd3, [KERNEL_param_0]; mov.u32 %r3, %tid.x; xor.b32 %r4, %r3, 1;
and.b32 %r5, %r3, 1; setp.ne.s32 %p1, %r5, 0;
mul.wide.u32 %rd1, %r3, 16; add.s64 %rd1, %rd1, %rd3;
mul.wide.u32 %rd2, %r4, 16; add.s64 %rd2, %rd2, %rd3;
shl.b32 %r3, %r3, 4; shl.b32 %r4, %r4, 4; mov.u32 %r5, buffer;
add.s32 %r1, %r5, %r3; add.s32 %r2, %r5, %r4; mov.f32 %f1, 0f3F800000;
BODY ret; }
`

// TestFour: accesses of four words, of which most are judged as one, are held to what is known
// of each word.
func TestFour(t *testing.T) {
	want.Compiler.Need(t)
	const (
		own   = "st.shared.v4.f32 [%r1], {%f1, %f1, %f1, %f1}; "
		third = "st.shared.f32 [%r1+8], %f1; "
		all   = "st.global.f32 [%rd1], %f1; st.global.f32 [%rd1+4], %f1; " +
			"st.global.f32 [%rd1+8], %f1; st.global.f32 [%rd1+12], %f1; "
		load    = "ld.shared.v4.f32 {%f2, %f3, %f4, %f5}, "
		get     = "ld.global.nc.v4.f32 {%f2, %f3, %f4, %f5}, "
		barrier = "bar.sync 0; "

		unwritten = "nobody has written"
		read      = "races: reads what another thread has written"
		written   = "races: writes what another thread has written"
		after     = "races: writes what another thread has read"
	)
	cases := []struct{ name, body, want string }{
		{"own", own + load + "[%r1]; ", ""},
		{"barrier", own + barrier + load + "[%r2]; ", ""},
		{"unwritten", load + "[%r1]; ", unwritten},
		{"one_written", third + load + "[%r1]; ", unwritten},
		{"read", own + "@%p1 " + load + "[%r2]; ", read},
		{"read_of_one", own + barrier + third + "@%p1 " + load + "[%r2]; ", read},
		{"one_read", own + "@%p1 ld.shared.f32 %f2, [%r2+12]; ", read},
		{"written", own + "st.shared.v4.f32 [%r5], {%f1, %f1, %f1, %f1}; ", written},
		{"one_written_again", own + "@%p1 st.shared.f32 [%r2+12], %f1; ", written},
		{"after", own + barrier + load + "[%r2]; @%p1 " + own, after},
		{"one_after", own + barrier + load + "[%r2]; @%p1 " + third, after},
		{"after_one", own + barrier + "ld.shared.f32 %f2, [%r2+8]; @%p1 " + own, after},
		{"global", all + barrier + get + "[%rd2]; ", ""},
		{"global_unwritten", get + "[%rd1]; ", unwritten},
		{"global_read", all + "@%p1 " + get + "[%rd2]; ", read},
		{
			"global_after",
			all + barrier + get + "[%rd2]; @%p1 st.global.f32 [%rd1+8], %f1; ", after,
		},
	}
	text := ".extern .shared .align 16 .b8 buffer[];\n"
	var names []string
	for _, c := range cases {
		text += strings.NewReplacer("KERNEL", "four_"+c.name, "BODY", c.body).Replace(fourText)
		names = append(names, "four_"+c.name)
	}
	m, err := PTX(text)
	if err != nil {
		t.Fatal(err)
	}
	errs := launched(t, m, names)
	for _, c := range cases {
		if err := errs["four_"+c.name]; (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
