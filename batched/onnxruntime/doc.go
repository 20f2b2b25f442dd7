// Package onnxruntime is package batched with its network run by ONNX Runtime, the library that
// Python uses. Its results equal the reference's, bit for bit.
//
// A worker of batched has a session of its own with one thread, so that workers share nothing that
// a result could depend on. A session runs the sequences of all rollouts that the worker holds;
// ONNX Runtime gives each sequence the same bits in batches of any size. It computes only what the
// last of the network's 20 positions depends on, see lastPosition.
//
// Which arithmetic the library has, it is asked when a simulator is made, see Simulator.Profile.
// A build without cgo has no ONNX Runtime, and New returns an error that says so.
package onnxruntime
