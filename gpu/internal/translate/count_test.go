package translate

import (
	"slices"
	"strings"
	"testing"
)

// TestCosts: what an instruction costs, by its name and the stall count in its encoding.
func TestCosts(t *testing.T) {
	for opcode, want := range map[string][9]int{
		"FFMA":           {1, 4, 0, 0, 0, 1, 0, 0, 0},
		"LDS.128":        {1, 4, 2, 0, 0, 0, 1, 0, 0},
		"LDS":            {1, 4, 1, 0, 0, 0, 1, 0, 0},
		"STS.128":        {1, 4, 4, 0, 0, 0, 0, 0, 0},
		"LDG.E.64":       {1, 4, 2, 0, 0, 0, 1, 0, 0},
		"MUFU.RCP":       {1, 4, 0, 8, 0, 0, 0, 1, 0},
		"I2F.F64":        {1, 4, 0, 8, 0, 0, 0, 0, 0},
		"I2FP.F32.S32":   {1, 4, 0, 0, 0, 0, 0, 0, 0},
		"DSETP.GEU.AND":  {1, 4, 0, 0, 2, 0, 0, 0, 0},
		"NOP":            {},
		"FSETP.NEU.AND":  {1, 4, 0, 0, 0, 0, 0, 1, 0},
		"IMAD.MOV.U32":   {1, 4, 0, 0, 0, 0, 0, 0, 1},
		"IMAD.WIDE":      {1, 4, 0, 0, 0, 0, 0, 0, 0},
		"HFMA2.MMA":      {1, 4, 0, 0, 0, 0, 0, 0, 1},
		"CS2R":           {1, 4, 0, 0, 0, 0, 0, 0, 1},
		"F2F.F64.F32":    {1, 4, 0, 8, 0, 0, 0, 1, 0},
		"BAR.SYNC.DEFER": {1, 4, 0, 0, 0, 0, 0, 0, 0},
	} {
		if got := (code{opcode: opcode, stall: 4}).costs(); got != want {
			t.Errorf("%s costs %v, want %v", opcode, got, want)
		}
	}
	if got := (code{opcode: "IADD3"}).costs(); got[1] != 1 {
		t.Errorf("without a stall count the next instruction comes after %d cycles, want 1", got[1])
	}
}

// TestBlocks: a block of instructions begins where control may arrive, and behind what may
// lead it elsewhere.
func TestBlocks(t *testing.T) {
	k := &sassKernel{labels: map[string]int{".L_1": 2, "$f": 6}}
	const opcodes = "MOV IADD3 FADD BRA BAR.SYNC.DEFER_BLOCKING CALL FMUL RET EXIT"
	for opcode := range strings.FieldsSeq(opcodes) {
		k.codes = append(k.codes, code{opcode: opcode})
	}
	want := []int{0, 1, 2, 4, 5, 6, 8}
	if got := k.blocks(map[int]bool{1: true}); !slices.Equal(got, want) {
		t.Errorf("blocks begin at %v, want %v", got, want)
	}
}

// TestReadCounts adds up what a kernel has written, and refuses what is no count.
func TestReadCounts(t *testing.T) {
	all, err := ReadCounts(
		strings.NewReader("5f0 2 30 20 21 22 23 24 25 26 27 28 29\n1a0 1 1 1 1 1 1 1 1 1 1 1 1\n"),
	)
	if err != nil || len(all) != 2 || all[0].Address != 0x5f0 {
		t.Fatalf("%+v, %v", all, err)
	}
	want := Interval{0, 3, 31, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30}
	if got := Sum(all); got != want {
		t.Errorf("sum %+v, want %+v", got, want)
	}
	_, err = ReadCounts(strings.NewReader("5f0 2 30\n"))
	if err == nil || !strings.Contains(err.Error(), "5f0 2 30") {
		t.Errorf("error %v", err)
	}
}

// TestCounted: PTX says nothing of the time that instructions take.
func TestCounted(t *testing.T) {
	if _, err := Counted(nil); err == nil {
		t.Error("anything can be counted")
	}
}
