package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"

	. "github.com/mmcloughlin/avo/reg"
)

// fma emits the CPU's own fused multiply-add of one element.
func fma() {
	TEXT("hardwareFMA", NOSPLIT, "func(x, y, z float32) float32")
	Doc("hardwareFMA returns x*y + z as the CPU's own instruction rounds it.")
	x, y, z := Load(Param("x"), XMM()), Load(Param("y"), XMM()), Load(Param("z"), XMM())
	VFMADD231SS(y, x, z)
	Store(z, ReturnIndex(0))
	RET()
}

// peak emits a loop of nothing but FMA, in enough independent chains to hide its latency:
// x86 starts two in a cycle, arm64 as many as four.
func (l level) peak() {
	name, peakChains := "peak"+l.name, 12
	if l.narrow() {
		peakChains = 24
	}
	TEXT(name, NOSPLIT, "func(rounds int)")
	Doc(
		fmt.Sprintf(
			"%s does %d fused multiply-adds a round, on %d vectors of %d elements,", name,
			peakChains*l.lanes(), peakChains, l.lanes(),
		),
		"as fast as the CPU can.",
	)
	rounds := load("rounds")
	x, chains := l.vector(), make([]Register, peakChains)
	l.zero(x)
	for i := range chains {
		chains[i] = l.vector()
		l.zero(chains[i])
	}
	repeat("round", rounds, func() {
		for _, chain := range chains {
			VFMADD231PS(x, x, chain)
		}
	})
	VZEROUPPER()
	RET()
}
