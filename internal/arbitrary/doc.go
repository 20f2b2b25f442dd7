// Package arbitrary generates routes, controllers, batches and networks for
// property tests. What it generates likes edges: bins and their neighbours,
// standstill, steps, numbers that overflow float32 or lie below its normal range,
// route lengths around the steps at which something begins or ends.
//
// A route has a few hundred numbers, and is made of few draws: some pieces for
// each column and some single rows. So failing cases shrink well, and as a fuzz
// target a property needs only a few KB of input.
package arbitrary
