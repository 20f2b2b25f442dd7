// Package gpu is the CUDA-resident implementation of lockstep.Simulator: rollouts
// run from their first step to their costs inside one kernel launch, with the
// reference's bits.
//
// Jobs with native policies cost one upload, one launch and one download, however
// many there are, unless they do not fit the device's memory at once; nothing
// passes between host and device meanwhile, also where training data is collected.
// Jobs with controllers of the caller's own run in step mode (see Stepper): all
// state stays on the device, commands go in and lataccels come out. Candidates of a
// planner begin and roll on in one launch, too.
//
// The device is a GPU behind CUDA's driver, in programs built with the tag cuda,
// or anything else that is a driver.Device: package emulated runs the same
// kernels on the CPU.
package gpu
