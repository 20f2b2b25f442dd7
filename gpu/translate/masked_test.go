package translate

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"lockstep/gpu/driver/emulated"
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
		{"lockstep_policy_a", "last_product_a", shared, ""},
		{"lockstep_policy_b", "last_product_b", global, "global memory"},
		{"lockstep_rollout_a", "last_product_c", shared, "shared memory"},
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
	kernels := Kernels{
		Sources: "masked",
		Read:    func() (Module, error) { return together{m, names}, nil },
	}
	for _, c := range cases {
		device, err := kernels.Open("ptx", emulated.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := device.Allocate(64)
		if err != nil {
			t.Fatal(err)
		}
		err = device.Launch(c.kernel, 1, 32, 64, binary.LittleEndian.AppendUint64(nil, uint64(p)))
		if err == nil {
			err = device.Synchronize(context.Background())
		}
		device.Close()
		switch {
		case c.want == "" && err == nil:
		case c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "nobody has written"):
			t.Errorf("%s of %s: %v, want %q", c.function, c.kernel, err, c.want)
		}
	}
}
