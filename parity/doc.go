// Package parity compares step simulators with each other and with recordings, bit by
// bit, and says where they part: rollout, step, stage, index, both bit patterns, and
// what that did to the rollouts.
//
// It knows of a simulator what a Schema says (package schema): the stages of a step and
// what each is computed from. Compare holds one Source to another: a live engine, a
// trace, recordings of another program. It names the stage at fault, which is one whose
// inputs are equal and whose output differs, and goes on after a difference by forcing
// one side onto the other's trajectory, so that all steps of all rollouts are compared
// and every independent fault is found.
//
// An exact comparison has no tolerance anywhere: a value either is the same or it is
// not. Where exactness is not claimed, CompareOptions.Inexact lets soft stages differ,
// and every choice that comes out differently must be explained by them.
//
// # Your own simulator
//
// Write down its steps as a schema.View, in the order of computation, and an Adapter that
// runs tasks; package tinyphysics is one, and walk_test.go beside this file is a whole
// one in sixty lines, compared, judged, traced, shrunk and replayed.
//
// A vector of environments is as many tasks: those that end early have fewer steps, and
// those that reset themselves go on, with the flag that says so as one of the stages. A
// Teacher's stages are those from which the next step goes on; see Taught. Everything
// else follows: Compare and Record here, Shrink and Case to keep what differed, and
// conformance.Engine for the promises that an Adapter makes.
package parity
