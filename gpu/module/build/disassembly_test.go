package main

import (
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
