// Package classic is the reference for Gymnasium's classic control environments:
// one environment after the other, plain Go, to be read beside
// gymnasium/envs/classic_control.
//
// Every operation rounds by itself, in Python's order; the compiler may fuse none,
// so that products that feed a sum are written float64(x*y) + z.
package classic
