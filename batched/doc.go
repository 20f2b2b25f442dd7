// Package batched simulates many routes at once on the CPU with a network of its own.
// Its results equal the reference's, bit for bit, in every profile and on every CPU.
//
// A worker holds some rollouts and advances all of them by one step: the controllers
// answer, the network computes one prediction for each in a single pass, tokens are
// drawn. Rollouts are independent of one another, so each is at a step of its own: one
// that ends is replaced by the next job at once, and a worker that has run out of work
// is given some of another's. So all cores are busy until the last few rollouts.
//
// The network runs for N sequences: 20·N rows go
// through each product, and in the last layer and the head, where only the last
// position counts, N rows. The kernels in package internal/f32 are shared with the
// reference; everything else, from tokens to costs, is written here anew.
package batched
