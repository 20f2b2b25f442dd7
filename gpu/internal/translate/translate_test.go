package translate_test

import (
	"strings"
	"testing"

	"lockstep/gpu/internal/module"
	"lockstep/gpu/internal/module/classic"
	"lockstep/gpu/internal/translate"
)

type text = func() (string, error)

func read(t *testing.T, f text) string {
	t.Helper()
	s, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestShipped translates every kernel that is shipped: each opcode of theirs is in a table,
// and PTX and machine code have the same kernels and variables.
func TestShipped(t *testing.T) {
	for _, shipped := range []map[string]translate.Kernels{
		translate.Shipped("", module.PTX, module.Cubin, module.Listing),
		translate.Shipped("", classic.PTX, classic.Cubin, classic.Listing),
	} {
		names, variables := map[string]int{}, map[string]int{}
		for engine, kernels := range shipped {
			m, err := kernels.Read()
			if err != nil {
				t.Fatalf("%s: %v", engine, err)
			}
			variables[m.Variables()]++
			for _, name := range m.Kernels() {
				names[name]++
				if _, err := m.Kernel(name); err != nil {
					t.Errorf("%s: %v", engine, err)
				}
			}
			if _, err := m.Kernel("no_kernel"); err == nil ||
				!strings.Contains(err.Error(), "no kernel no_kernel") {
				t.Errorf("%s: a kernel that there is not: %v", engine, err)
			}
		}
		if len(names) == 0 || len(variables) != 1 {
			t.Errorf("kernels %v, %d sets of variables", names, len(variables))
		}
		for name, n := range names {
			if n != 2 {
				t.Errorf("%s is not in both, PTX and machine code", name)
			}
		}
	}
}

// TestRefused: what is not in a table has no translation, and the error names it.
func TestRefused(t *testing.T) {
	ptx, cubin, listing := read(t, classic.PTX), read(t, classic.Cubin), read(t, classic.Listing)
	for old, c := range map[string]struct{ text, want string }{
		"add.rn.f64 ":  {"add.f64 ", "opcode add.f64 is not in ptx.txt"},
		"mul.rn.f32 ":  {"mul.rn.ftz.f32 ", "opcode mul.rn.ftz.f32 is not in ptx.txt"},
		"div.rn.f64 ":  {"div.approx.f64 ", "opcode div.approx.f64 is not in ptx.txt"},
		"ld.global.u8": {"ld.volatile.global.u8", "opcode ld.volatile.global.u8 is not in ptx.txt"},
	} {
		m, err := translate.PTX(strings.ReplaceAll(ptx, old, c.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := first(m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
	for old, c := range map[string]struct{ text, want string }{
		"\nDADD R":     {"\nDADD.RZ R", "DADD.RZ R"},
		"\nLDG.E.64 ":  {"\nLDG.E.64.STRONG.GPU ", "the opcode is not in sass.txt"},
		", PT, RZ":     {", P6, RZ", "P6 is written, which sass.txt does not know"},
		"SR_CTAID.X":   {"SR_LANEID", "special register SR_LANEID is not known"},
		"c[0x0][0x28]": {"c[0x3][0x28]", "no operand: c[0x3][0x28]"},
		"\nISETP.GE.AND P0, PT, R": {"\nISETP.GE.AND P0, PT, -R", "is negated, which sass.txt " +
			"does not know there"},
		"\nBSYNC B0": {"\nBAR.ARV 0x0", "the opcode is not in sass.txt"},
		"`(.L_x_1)":  {"`(.L_nowhere)", "no label `(.L_nowhere)"},
	} {
		if !strings.Contains(listing, old) {
			t.Errorf("the listing has no %q", old)
		}
		m, err := translate.MachineCode([]byte(cubin), strings.ReplaceAll(listing, old, c.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := first(m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
	if _, err := translate.MachineCode([]byte(cubin+"x"), listing); err == nil ||
		!strings.Contains(err.Error(), "make kernels") {
		t.Errorf("a listing of another cubin: %v", err)
	}
	if _, err := translate.PTX(".visible .surface x;"); err == nil ||
		!strings.Contains(err.Error(), "not known") {
		t.Errorf("a declaration that is not known: %v", err)
	}
}

// first is the first error of a module's kernels.
func first(m translate.Module) error {
	for _, name := range m.Kernels() {
		if _, err := m.Kernel(name); err != nil {
			return err
		}
	}
	return nil
}

// TestNoModule: what is no module is refused, and what is cut off.
func TestNoModule(t *testing.T) {
	ptx, cubin, listing := read(t, classic.PTX), read(t, classic.Cubin), read(t, classic.Listing)
	for _, c := range []struct{ text, want string }{
		{"", "no kernel"},
		{"an essay", "line 1 of the PTX: not known: an essay"},
		{".version 9.0\n\nan essay: it ends", "not known"},
		{ptx[:strings.LastIndex(ptx, "ret;")], "ends within"},
		{ptx + "an essay", "not known: an essay"},
	} {
		if _, err := translate.PTX(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("PTX of %d bytes: %v, want %q", len(c.text), err, c.want)
		}
	}
	for _, c := range []struct{ cubin, listing, want string }{
		{"", "", "of another cubin"}, {"an essay", listing, "of another cubin"},
		{cubin, "an essay", "of another cubin"},
		{cubin, listing[:strings.LastIndex(listing, "EXIT")], "instructions of"},
		{cubin, listing + "an essay", "no instruction: an essay"},
		{cubin, listing + "NOP\n", "no instruction: NOP"},
		{cubin, strings.Replace(listing, "\nEXIT", "\nan essay", 1), "no instruction: an essay"},
	} {
		_, err := translate.MachineCode([]byte(c.cubin), c.listing)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a listing of %d bytes: %v, want %q", len(c.listing), err, c.want)
		}
	}
}
