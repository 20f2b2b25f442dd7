// Package classic is the vocabulary of Gymnasium's classic control environments:
// what they are called, what can be asked of them, what they are told and what
// they answer. It holds inputs and no arithmetic of a simulation: generators,
// resets and dynamics are written separately in each implementation.
//
// For the same Task, seeds and actions all implementations give the bits that
// Gymnasium 1.4.0 gives on Linux x86-64 with FMA.
package classic
