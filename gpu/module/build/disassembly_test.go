package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDisassemble counts a kernel with a loop in a loop, and a branch onwards.
func TestDisassemble(t *testing.T) {
	const text = `
	.section	.text.first,"ax",@progbits
.text.first:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDS.128 R4, [R2] ;
.L_x_2:
        /*0020*/                   FFMA R5, R4, R6, R5 ;
        /*0030*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0040*/                   FFMA.FTZ R5, R4, R6, R5 ;
        /*0050*/               @P0 BRA ` + "`(.L_x_2)" + ` ;
        /*0060*/              @!P1 BRA ` + "`(.L_x_3)" + ` ;
        /*0070*/                   BRA ` + "`(.L_x_1)" + ` ;
.L_x_3:
        /*0080*/                   EXIT ;
	.section	.text.second,"ax",@progbits
        /*0000*/                   EXIT ;
`
	want := []code{
		{name: "first", all: counts{total: 9, fma: 2, lds: 1, ldg: 1}, loops: []counts{{total: 4, fma: 2, ldg: 1}}},
		{name: "second", all: counts{total: 1}},
	}
	if d := cmp.Diff(want, disassemble(text), cmp.AllowUnexported(code{}, counts{})); d != "" {
		t.Error(d)
	}
}
