// Package onnxruntime simulates many routes in step on the CPU, with the network run
// by ONNX Runtime. Its results equal the reference's, bit for bit.
//
// Jobs are cut into chunks of some 32 routes, whose activations fit the cache.
// A worker takes one chunk after another and has a session of its own with one
// thread, so that workers share nothing that a result could depend on. Inside a
// chunk all routes are at the same step: controllers, tokens, windows, the
// network, softmax, draw and clipping go over the chunk's routes one stage after
// the other. A route that ends or fails leaves the chunk, and the others are
// computed in a smaller batch; ONNX Runtime gives each sequence the same bits in
// batches of any size.
//
// Everything around the network is this package's own. The row of 1024 logits
// that each prediction ends in takes most of the time outside the network; a
// small C function computes it in vector instructions where the CPU has AVX2,
// and Go elsewhere.
//
// The network is put to ONNX Runtime so that it computes only what the last of
// its 20 positions depends on, see Graph. Which arithmetic the library has, it is
// asked when a simulator is made, see Simulator.Profile.
//
// A build without cgo has no ONNX Runtime, and New returns an error that says so.
package onnxruntime
