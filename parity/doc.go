// Package parity compares simulators with each other and with recordings, bit by
// bit, and says where they part: route, step, stage, index, both bit patterns.
//
// Compare holds one Source to another: a live engine, a trace, the goldens. It names
// the stage at fault, which is one whose inputs are equal and whose output differs,
// and goes on after a difference by forcing one side onto the other's trajectory, so
// that all steps of all routes are compared and every independent fault is counted.
//
// An exact comparison has no tolerance anywhere: a value either is the same or it is
// not. Where exactness is not claimed, CompareOptions.Inexact lets the network's
// output differ, and every token that comes out differently must be explained by it.
//
// A Case is a comparison as a file, to be shrunk, kept and replayed.
package parity
