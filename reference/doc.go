// Package reference is the specification: the tinyphysics simulator, one route
// at a time, in plain Go.
//
// It is written to be read beside the Python program, in its order and with its
// names; ARITHMETIC.md says where each rule comes from and which test holds it.
// Every floating-point operation is explicit. Go may fuse x*y + z on some CPUs,
// so each product that feeds a sum is wrapped in a conversion, which forbids it.
package reference
