//go:build !noasm

package classic

// assembly is the one set of arm64: every CPU that Go runs on has NEON.
func assembly() []*kernels {
	return []*kernels{set("neon", 2, functions{
		cartPole: cartPoleNEON, mountainCar: mountainCarNEON, pendulum: pendulumNEON,
		sincos: sincosNEON, square: squareNEON, normal: normalNEON,
	})}
}
