// The state of a block's jobs, in shared memory: registers are dear while the network runs.
#pragma once

#include "launch.h"
#include "layout.cuh"

namespace lockstep {

// A Drive is the state of a job while it is rolled out. One thread of the block owns it, which
// alone writes it.
struct Drive {
  int64_t j;           // index of the job
  int64_t base;        // where its histories begin in Launch.lataccel and such: j·S
  int64_t first_row;   // of its route in the columns
  int64_t rows;        // of its route
  int64_t end;         // one past its last step
  int64_t nan;         // the last step whose lataccel is NaN, or -1
  Memory memory;
  double lataccel;     // after the previous step
  double computed;     // the lataccel that this step computed
  int64_t sampled, serial;  // see Status
  int64_t running;           // 0 where there is no job, or it has failed
  // of a job that a network steers, otherwise null; set by kernels with policies
  const Actor *actor;
};
static_assert(sizeof(Drive) == kDrive, "layout.cuh has the size");

// traced is where a step of a job is recorded, or null.
__device__ __forceinline__ TraceStep *traced(const Launch &launch, int64_t j, int64_t step) {
  if (launch.trace == nullptr || step < launch.trace_first || step >= launch.trace_end)
    return nullptr;
  return launch.trace + j * (launch.trace_end - launch.trace_first) + (step - launch.trace_first);
}

// A NetworkCommand is what a job's network answers in a step, see act.cuh.
struct NetworkCommand {
  double command;
  int64_t nan;  // the first element of the observation that is NaN: then there is none; or -1
};

}  // namespace lockstep
