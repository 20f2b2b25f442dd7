package main

import (
	"regexp"
	"slices"
	"strings"
)

// counts are instructions of a piece of machine code.
type counts struct{ total, fma, lds, ldg int }

// code is what a kernel is made of.
type code struct {
	name  string
	all   counts
	loops []counts // innermost, those with a twentieth of all FFMA or more, most first
}

var (
	sectionLine = regexp.MustCompile(`^\s*\.section\s+\.text\.(\w+)`)
	labelLine   = regexp.MustCompile(`^(\.L_x_\d+):`)
	codeLine    = regexp.MustCompile(`^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9.]*)(.*)`)
	targetLabel = regexp.MustCompile("`\\((\\.L_x_\\d+)\\)")
)

// disassemble reads what nvdisasm writes. A loop is what lies between a label and
// the last branch back to it; an innermost one holds no other.
func disassemble(text string) []code {
	var kernels []code
	var operations []string
	labels := map[string]int{}
	type span struct{ from, to int }
	backward := map[int]int{} // by first instruction, the last

	finish := func() {
		if len(kernels) == 0 {
			return
		}
		k := &kernels[len(kernels)-1]
		count := func(from, to int) counts {
			var c counts
			for _, o := range operations[from:to] {
				c.total++
				switch {
				case o == "FFMA" || strings.HasPrefix(o, "FFMA."):
					c.fma++
				case o == "LDS" || strings.HasPrefix(o, "LDS."):
					c.lds++
				case o == "LDG" || strings.HasPrefix(o, "LDG."):
					c.ldg++
				}
			}
			return c
		}
		k.all = count(0, len(operations))
		var spans []span
		for from, to := range backward {
			spans = append(spans, span{from, to})
		}
		for _, s := range spans {
			inner := !slices.ContainsFunc(spans, func(o span) bool { return o != s && o.from >= s.from && o.to <= s.to })
			if c := count(s.from, s.to); inner && 20*c.fma >= k.all.fma && c.fma > 0 {
				k.loops = append(k.loops, c)
			}
		}
		slices.SortFunc(k.loops, func(a, b counts) int {
			if a.fma != b.fma {
				return b.fma - a.fma
			}
			return b.total - a.total
		})
	}
	for _, line := range strings.Split(text, "\n") {
		if m := sectionLine.FindStringSubmatch(line); m != nil {
			finish()
			kernels = append(kernels, code{name: m[1]})
			operations = nil
			clear(labels)
			clear(backward)
		} else if m := labelLine.FindStringSubmatch(line); m != nil {
			labels[m[1]] = len(operations)
		} else if m := codeLine.FindStringSubmatch(line); m != nil && len(kernels) > 0 {
			operations = append(operations, m[1])
			if t := targetLabel.FindStringSubmatch(m[2]); t != nil && strings.HasPrefix(m[1], "BRA") {
				if from, ok := labels[t[1]]; ok {
					backward[from] = len(operations)
				}
			}
		}
	}
	finish()
	return kernels
}
