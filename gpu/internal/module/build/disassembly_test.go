package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDisassemble counts a kernel with a loop in a loop, a branch onwards, and two
// functions, one of which is called in a loop.
func TestDisassemble(t *testing.T) {
	const text = `
	.section	.text.first,"ax",@progbits
.text.first:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDS.128 R4, [R2] ;
        /*0018*/                   CALL.REL.NOINC ` + "`($first$used)" + ` ;
.L_x_2:
        /*0020*/                   FFMA R5, R4, R6, R5 ;
        /*0030*/                   LDG.E.128.CONSTANT R8, desc[UR4][R2.64] ;
        /*0038*/                   MOV R8, R4 ;
        /*0040*/                   FFMA.FTZ R5, R4, R6, R5 ;
        /*0048*/                   STL [R1], R11 ;
        /*0050*/               @P0 BRA ` + "`(.L_x_2)" + ` ;
        /*0060*/              @!P1 BRA ` + "`(.L_x_3)" + ` ;
        /*0070*/                   BRA ` + "`(.L_x_1)" + ` ;
.L_x_3:
        /*0080*/                   EXIT ;
$first$other:
        /*0090*/                   RET R20 ;
$first$used:
        /*00a0*/                   LDL R3, [R1] ;
        /*00b0*/                   RET R20 ;
	.section	.text.second,"ax",@progbits
        /*0000*/                   EXIT ;
`
	want := []code{
		{
			name:  "first",
			all:   counts{total: 15, fma: 2, lds: 1, ldg: 1, local: 2},
			step:  12,
			loops: []loop{{counts{total: 6, fma: 2, ldg: 1, local: 1}, 3}},
		},
		{name: "second", all: counts{total: 1}},
	}
	if d := cmp.Diff(want, disassemble(text),
		cmp.AllowUnexported(code{}, counts{}, loop{})); d != "" {
		t.Error(d)
	}
}

// TestLoops: which loop is a step, and which are told of, how much later their loads are used.
func TestLoops(t *testing.T) {
	const fma, load, other = "FFMA R5, R4, R6, R5", "LDG.E R8, [R2]", "MOV R1, R2"
	loop := func(label string, body ...string) string {
		return label + ":\n" + strings.Join(body, "\n") + "\nBRA `(" + label + ")\n"
	}
	many := strings.Repeat(fma+"\n", 19)
	for _, c := range []struct {
		what, text string
		step       int
		totals     string // of the loops that are told of, with their uses
	}{
		{"the longest is the second, far from the first", other + "\n" + loop(".L_x_1", fma) +
			loop(".L_x_2", fma, other, other), 4, "4/0 2/0"},
		{"the longest is the first", loop(".L_x_1", fma, other, other) + loop(".L_x_2", fma), 4,
			"4/0 2/0"},
		{"of two that are as long the first", loop(".L_x_1", fma, "CALL.REL `($first$f)") +
			loop(".L_x_2", fma, other) + "EXIT\n$first$f:\nRET R20\n", 4, "3/0 3/0"},
		{"as many FFMA in the shorter", loop(".L_x_1", fma) + loop(".L_x_2", fma, other), 3,
			"3/0 2/0"},
		{"more FFMA in the shorter", loop(".L_x_1", fma, fma) + loop(".L_x_2", fma, other, other),
			4, "3/0 4/0"},
		{"a twentieth of all FFMA", many + loop(".L_x_1", fma), 2, "2/0"},
		{"less than a twentieth", many + fma + "\n" + loop(".L_x_1", fma), 2, ""},
		{"none at all", loop(".L_x_1", other), 2, ""},
		{"a branch to itself", "EXIT\n" + loop(".L_x_1"), 1, ""},
		{"a load that itself alone uses", loop(".L_x_1", fma, "LDG.E R2, [R2]"), 3, "3/3"},
		{"the nearer of two uses, in the next turn", loop(".L_x_1", "FADD R9, R8, R8", fma, load),
			4, "4/2"},
		{"the nearest of two loads' uses", loop(".L_x_1", load, fma, fma, "FADD R9, R8, R8",
			"LDG.E R7, [R2]", "FADD R9, R7, R7"), 7, "7/1"},
		{"a load of four registers, of which the last is used", loop(".L_x_1", fma,
			"LDG.E.128 R8, [R2]", "FADD R9, R12, R7", "FADD R9, R11, R1"), 5, "5/2"},
		{"a store reads its first operand", loop(".L_x_1", fma, load, "STS [R8], R1"), 4, "4/1"},
		{"what is written is not used", loop(".L_x_1", fma, load, "MOV R8, R1", "STS [R1], R8"), 5,
			"5/2"},
	} {
		at, text := 0, "\t.section\t.text.first,\"ax\"\n"
		for line := range strings.Lines(c.text) {
			line = strings.TrimSpace(line)
			if !strings.HasSuffix(line, ":") {
				line = fmt.Sprintf("        /*%04x*/ %s ;", at, line)
				at += instructionBytes
			}
			text += line + "\n"
		}
		k := disassemble(text)[0]
		var totals []string
		for _, l := range k.loops {
			totals = append(totals, fmt.Sprintf("%d/%d", l.total, l.use))
		}
		if got := strings.Join(totals, " "); k.step != c.step || got != c.totals {
			t.Errorf("%s: a step of %d, want %d; loops %s, want %s", c.what, k.step, c.step, got,
				c.totals)
		}
	}
}
