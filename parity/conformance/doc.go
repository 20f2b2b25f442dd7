// Package conformance holds any lockstep.Simulator to the interface's contract.
//
// It is for whoever writes an engine, see the example. The network and the routes are those of
// package defaults, so that nothing else is needed. README.md in this folder lists the checks.
//
// Values are compared as bit patterns with those that the reference computes in the
// simulator's own profile and, where the profile is theirs, with recordings of the
// Python program. All NaN count as one.
package conformance
