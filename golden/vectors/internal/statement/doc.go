// Package statement says once more what every line of ARITHMETIC.md computes,
// written so that it can be computed wrongly, too.
//
// Each operation is a plain function that does all of its arithmetic through an
// Arithmetic. That names every place where somebody may plausibly compute
// otherwise: each constant may be one ulp off, each fused product be rounded and
// each rounded one be fused, each division be a multiplication with the
// reciprocal, each sum be added in another order, each comparison have the other
// side. So the alternatives of an operation need no list; what has another
// structure, other formulas, stands beside the operation as a function.
//
// Nothing here is shared with an implementation.
package statement
