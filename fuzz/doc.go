// Package fuzz holds the properties that every engine has for all routes,
// controllers and networks, and that every reader has for all bytes. It has tests
// only.
//
// Each property runs in three ways: as a test, TestX, on cases that rapid makes
// up; on the committed inputs of testdata/fuzz/FuzzX, which `go test` runs as
// well; and as a native fuzz target,
//
//	go test ./fuzz -fuzz '^FuzzX$'
//
// That runs no tests before it and shortens no input for long, unless -run and
// -fuzzminimizetime say otherwise: see internal/fuzzing.
//
// `make fuzz` runs them all, `make fuzz-ci` for a fixed number of executions.
//
// What values are compared with is computed here once more, from the definition
// and with large integers and rationals, and shares no code with the engines.
package fuzz
