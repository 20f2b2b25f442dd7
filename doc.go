// Package lockstep is the vocabulary of a simulator that is the same in Go, on
// many cores and on a GPU as it is in Python, bit for bit.
//
// The simulator is tinyphysics, of comma.ai's controls challenge: a small GPT
// predicts a car's lateral acceleration at 10 Hz, each sample feeding the next
// predictions, while a controller steers the car after a target. This package
// says what a route, a controller, a rollout and its costs are. It computes
// nothing of the simulation itself, so that implementations share their inputs
// and never their arithmetic:
//
//   - package reference is the specification, one route at a time in plain Go;
//   - package parity holds every implementation to it, and it to recordings
//     of the Python program, with == on bit patterns;
//   - package golden holds those recordings.
//
// Every name that the Python program has is kept here in Go's spelling.
package lockstep
