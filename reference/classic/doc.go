// Package classic is the reference for Gymnasium's classic control environments:
// one environment after the other, plain Go, to be read beside
// gymnasium/envs/classic_control.
//
// Every operation rounds by itself, in Python's order. Go may compute x*y + z with a single
// rounding on some CPUs; the conversion in float64(x*y) + z forbids that, so every product
// that is added to something has one.
package classic
