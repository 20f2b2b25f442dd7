package translate

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// CountsVariable names the environment variable with the file to which a counted kernel
// writes what it has executed.
const CountsVariable = "LOCKSTEP_COUNTS"

// Counted is machine code that counts, between barriers, what it executes. One block may run
// at a time.
func Counted(m Module) (Module, error) {
	code, ok := m.(*sassModule)
	if !ok {
		return nil, fmt.Errorf("only machine code says how long its instructions take")
	}
	counted := *code
	counted.counted = true
	return &counted, nil
}

// blocks are the instructions at which control may arrive, or go on behind a jump or a
// barrier, in order: what lies between two is executed as often.
func (k *sassKernel) blocks(targets map[int]bool) []int {
	first := map[int]bool{0: true}
	for i := range targets {
		first[i] = true
	}
	for _, i := range k.labels {
		first[i] = true
	}
	for i, c := range k.codes {
		switch unmodified(c.opcode) {
		case "BRA", "EXIT", "RET", "CALL", "BRX", "BAR":
			first[i+1] = true
		}
	}
	var all []int
	for i := range first {
		if i < len(k.codes) {
			all = append(all, i)
		}
	}
	slices.Sort(all)
	return all
}

func unmodified(opcode string) string {
	name, _, _ := strings.Cut(opcode, ".")
	return name
}

// costs are an instruction's, in the order of cpp/count.h. Loads of 128 bits take two passes,
// since lanes share addresses (internal/kernels/gpt.cuh); units for approximations have four lanes
// for each scheduler, those for float64 sixteen.
func (c code) costs() [9]int {
	operation := unmodified(c.opcode)
	if operation == "NOP" {
		return [9]int{}
	}
	words := 1
	if strings.Contains(c.opcode, ".128") {
		words = 4
	} else if strings.Contains(c.opcode, ".64") {
		words = 2
	}
	all := [9]int{1, max(1, c.stall)}
	switch operation {
	case "LDS", "LDG", "LD", "ST", "STG":
		all[2] = min(words, 2)
	case "STS":
		all[2] = words
	case "MUFU", "F2F", "F2I", "I2F", "FCHK":
		all[3] = 8
	case "DADD", "DMUL", "DFMA", "DSETP":
		all[4] = 2
	}
	switch {
	case operation == "FFMA":
		all[5] = 1
	case strings.HasPrefix(operation, "LD"), operation == "ULDC":
		all[6] = 1
	case operation[0] == 'F', operation == "MUFU":
		all[7] = 1
	case slices.Contains(moves, operation), strings.HasPrefix(c.opcode, "IMAD.MOV"):
		all[8] = 1
	}
	return all
}

// moves are instructions that bring a constant or a register to another. That of halves is one,
// too: ptxas makes constants with it.
var moves = []string{"MOV", "UMOV", "CS2R", "R2UR", "HFMA2"}

// counters are what a counted kernel has in C++ before its function.
func (k *sassKernel) counters(blocks []int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "enum { kBlocks = %d };\nstatic const int costs[kBlocks][9] = {", len(blocks))
	for n, from := range blocks {
		to := len(k.codes)
		if n+1 < len(blocks) {
			to = blocks[n+1]
		}
		var sum [9]int
		for _, c := range k.codes[from:to] {
			for i, cost := range c.costs() {
				sum[i] += cost
			}
		}
		numbers := strings.Trim(strings.ReplaceAll(fmt.Sprint(sum), " ", ", "), "[]")
		b.WriteString("{" + numbers + "},")
	}
	header, err := files.ReadFile("cpp/count.h")
	if err != nil {
		panic(err)
	}
	return b.String() + "};\n" + string(header)
}

// An Interval is what was executed up to one barrier, in cycles of a multiprocessor.
type Interval struct {
	Address int // of the barrier
	Times   float64
	Cycles  float64 // the sum of the largest of Issue, Stall, Shared, XU and F64 of each time
	Even    float64 // Issue, if all schedulers had as much
	Issue   float64
	Stall   float64
	Shared  float64
	XU, F64 float64
	// Of Even, those that are FFMA, that load, that compute otherwise in float32, that move.
	FMA, Loads, Float, Moves float64
}

// ReadCounts reads the file that a counted kernel writes.
func ReadCounts(r io.Reader) ([]Interval, error) {
	var all []Interval
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var i Interval
		_, err := fmt.Sscanf(lines.Text(), "%x"+strings.Repeat(" %g", 12), &i.Address, &i.Times,
			&i.Cycles, &i.Even, &i.Issue, &i.Stall, &i.Shared, &i.XU, &i.F64, &i.FMA, &i.Loads,
			&i.Float, &i.Moves)
		if err != nil {
			return nil, fmt.Errorf("counts: %q: %w", lines.Text(), err)
		}
		all = append(all, i)
	}
	return all, lines.Err()
}

// Sum adds intervals up.
func Sum(all []Interval) (sum Interval) {
	for _, i := range all {
		sum.Times += i.Times
		sum.Cycles += i.Cycles
		sum.Even += i.Even
		sum.Issue += i.Issue
		sum.Stall += i.Stall
		sum.Shared += i.Shared
		sum.XU += i.XU
		sum.F64 += i.F64
		sum.FMA += i.FMA
		sum.Loads += i.Loads
		sum.Float += i.Float
		sum.Moves += i.Moves
	}
	return sum
}
