// Controllers that run on the device.
#pragma once

#include "launch.h"
#include "numbers.cuh"

namespace lockstep {

// command gives the controller's answer, before clipping, and tells whether there
// is such a controller.
__device__ __forceinline__ bool command(const Launch &launch, int64_t j, Memory &memory, double target, double lataccel, double *answer) {
  const Job &job = launch.job[j];
  switch (job.controller) {
    case kZero:
      *answer = 0.0;
      return true;
    case kPID: {
      const double error = target - lataccel;
      memory.error_integral += error;
      const double difference = error - memory.previous_error;
      memory.previous_error = error;
      *answer = (__dmul_rn(job.p, error) + __dmul_rn(job.i, memory.error_integral)) + __dmul_rn(job.d, difference);
      return true;
    }
    case kHost:
      *answer = launch.commands[j];
      return true;
  }
  return false;
}

}  // namespace lockstep
