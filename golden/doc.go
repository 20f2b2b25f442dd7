// Package golden holds recordings of the unmodified Python program, and reads
// and writes their format, which is also that of a trace.
//
// A recording is an .npz archive with the stages of every step of one rollout,
// as arrays named <route>/<stage>; README.md in this folder lists them. A set is
// a folder of recordings made by one Python installation, with a
// provenance.json that says which one, and so has one arithmetic profile.
package golden
