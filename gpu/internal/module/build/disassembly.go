package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// counts are instructions of a piece of machine code.
type counts struct {
	total, fma, lds, ldg int
	local                int // loads and stores of local memory, where spilled registers lie
}

// loop is one without another in it.
type loop struct {
	counts
	// use is how many instructions lie between a load of global memory and the first
	// that wants it, in turns of the loop: the least of all its loads, 0 without any.
	use int
}

// code is what a kernel is made of.
type code struct {
	name  string
	all   counts
	step  int    // instructions of its longest loop, with the functions that are called there
	loops []loop // innermost, those with a twentieth of all FFMA or more, most first
}

// instructionBytes is the size of each.
const instructionBytes = 16

var (
	sectionLine = regexp.MustCompile(`^\s*\.section\s+\.text\.(\w+)`)
	labelLine   = regexp.MustCompile(`^([.$][^\s:]+):`)
	codeLine    = regexp.MustCompile(`^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9.]*)(.*)`)
	targetLabel = regexp.MustCompile("`\\(([.$][^\\s)]+)\\)")
	register    = regexp.MustCompile(`\bR(\d+)\b`)
)

// instruction is an operation with its operands as text.
type instruction struct{ operation, operands string }

func (i instruction) is(name string) bool {
	return i.operation == name || strings.HasPrefix(i.operation, name+".")
}

// target is the label that a branch or a call goes to.
func (i instruction) target() string {
	if m := targetLabel.FindStringSubmatch(i.operands); m != nil {
		return m[1]
	}
	return ""
}

// writes are the first register that a load of global memory writes, and how many.
func (i instruction) writes() (first, n int) {
	m := register.FindStringSubmatch(i.operands)
	if m == nil {
		return 0, 0
	}
	first, _ = strconv.Atoi(m[1])
	switch {
	case strings.Contains(i.operation, ".128"):
		return first, 4
	case strings.Contains(i.operation, ".64"):
		return first, 2
	}
	return first, 1
}

// reads tells whether an instruction reads one of n registers. The first operand is
// what is written, but for stores.
func (i instruction) reads(first, n int) bool {
	all := register.FindAllStringSubmatch(i.operands, -1)
	if len(all) > 0 && !strings.HasPrefix(i.operation, "ST") {
		all = all[1:]
	}
	return slices.ContainsFunc(all, func(m []string) bool {
		r, _ := strconv.Atoi(m[1])
		return r >= first && r < first+n
	})
}

// count sorts instructions.
func count(all []instruction) counts {
	var c counts
	for _, i := range all {
		c.total++
		switch {
		case i.is("FFMA"):
			c.fma++
		case i.is("LDS"):
			c.lds++
		case i.is("LDG"):
			c.ldg++
		case i.is("LDL"), i.is("STL"):
			c.local++
		}
	}
	return c
}

// use is a loop's.
func use(body []instruction) int {
	least := 0
	for at, i := range body {
		if !i.is("LDG") {
			continue
		}
		first, n := i.writes()
		for distance := 1; distance <= len(body); distance++ {
			if body[(at+distance)%len(body)].reads(first, n) {
				if least == 0 || distance < least {
					least = distance
				}
				break
			}
		}
	}
	return least
}

// section is a kernel's instructions, the functions that it calls among them.
type section struct {
	name   string
	all    []instruction
	labels map[string]int // by name, the instruction
}

// span is a piece of a section.
type span struct{ from, to int }

// disassemble reads what nvdisasm writes.
func disassemble(text string) []code {
	var sections []*section
	for _, line := range strings.Split(text, "\n") {
		if m := sectionLine.FindStringSubmatch(line); m != nil {
			sections = append(sections, &section{name: m[1], labels: map[string]int{}})
			continue
		}
		if len(sections) == 0 {
			continue
		}
		s := sections[len(sections)-1]
		if m := labelLine.FindStringSubmatch(line); m != nil {
			s.labels[m[1]] = len(s.all)
		} else if m := codeLine.FindStringSubmatch(line); m != nil {
			s.all = append(s.all, instruction{m[1], m[2]})
		}
	}
	var kernels []code
	for _, s := range sections {
		kernels = append(kernels, s.describe())
	}
	return kernels
}

func (s *section) describe() code {
	k := code{name: s.name, all: count(s.all)}
	loops := s.loops()
	var longest span
	for _, l := range loops {
		if l.to-l.from > longest.to-longest.from {
			longest = l
		}
		inner := !slices.ContainsFunc(
			loops, func(o span) bool { return o != l && o.from >= l.from && o.to <= l.to },
		)
		body := s.all[l.from:l.to]
		if c := count(body); inner && 20*c.fma >= k.all.fma && c.fma > 0 {
			k.loops = append(k.loops, loop{c, use(body)})
		}
	}
	slices.SortStableFunc(k.loops, func(a, b loop) int {
		if a.fma != b.fma {
			return b.fma - a.fma
		}
		return b.total - a.total
	})
	k.step = longest.to - longest.from
	for _, f := range s.called(longest) {
		k.step += f.to - f.from
	}
	return k
}

// loops are what lies between a label and the last branch back to it, in order.
func (s *section) loops() []span {
	backward := map[int]int{} // by first instruction, the end
	for at, i := range s.all {
		if from, ok := s.labels[i.target()]; ok && i.is("BRA") && from <= at {
			backward[from] = at + 1
		}
	}
	var loops []span
	for from, to := range backward {
		loops = append(loops, span{from, to})
	}
	slices.SortFunc(loops, func(a, b span) int { return a.from - b.from })
	return loops
}

// called are the functions that are called from a piece of code, and from them.
func (s *section) called(from span) []span {
	starts := []int{len(s.all)} // of functions; the end for the last
	for name, at := range s.labels {
		if strings.HasPrefix(name, "$") {
			starts = append(starts, at)
		}
	}
	slices.Sort(starts)
	var found []span
	for next := []span{from}; len(next) > 0; next = next[1:] {
		for _, i := range s.all[next[0].from:next[0].to] {
			at, ok := s.labels[i.target()]
			if !ok || !i.is("CALL") ||
				slices.ContainsFunc(found, func(f span) bool { return f.from == at }) {
				continue
			}
			n, _ := slices.BinarySearch(starts, at)
			f := span{at, starts[n+1]}
			found, next = append(found, f), append(next, f)
		}
	}
	return found
}
