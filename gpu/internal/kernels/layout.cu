// What the module says of itself.
#include "launch.h"
#include "layout.cuh"
#include "variants.h"
#include "weights.h"
#ifndef __CUDACC__
#include "cpu/cuda.h"
#endif

#define LOCKSTEP_COUNT(R) +1
#define LOCKSTEP_DESCRIBE(R) R, lockstep::Block<R>::kShared,
#define LOCKSTEP_KIND(name, gains, memory) gains, memory,

// lockstep_layout is what the host checks and chooses by: the version, the sizes
// of Route, Job, Status, Memory, TraceStep, Launch, Actor, Observing, Seen and Place, the number
// of weights, the most threads of a block, the number of kernels, and for each the jobs and
// the bytes of shared memory of a block; then the kinds of policies, for each the number of
// its gains and of what it remembers.
extern "C" {
__device__ int64_t lockstep_layout[] = {
    lockstep::kVersion,
    sizeof(lockstep::Route), sizeof(lockstep::Job), sizeof(lockstep::Status),
    sizeof(lockstep::Memory), sizeof(lockstep::TraceStep), sizeof(lockstep::Launch),
    sizeof(lockstep::Actor), sizeof(lockstep::Observing), sizeof(lockstep::Seen),
    sizeof(lockstep::Place),
    lockstep::kWeights, lockstep::kMaxThreads,
    LOCKSTEP_VARIANTS(LOCKSTEP_COUNT),
    LOCKSTEP_VARIANTS(LOCKSTEP_DESCRIBE)
    LOCKSTEP_KINDS(LOCKSTEP_KIND)
};
}
