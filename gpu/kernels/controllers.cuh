// Controllers that run on the device.
#pragma once

#include "launch.h"
#include "numbers.cuh"

namespace lockstep {

// command is the controller's answer, before clipping.
__device__ __forceinline__ double command(const Launch &launch, int64_t j, Memory &memory, double target, double lataccel) {
  const Job &job = launch.job[j];
  switch (job.controller) {
    case kPID: {
      const double error = target - lataccel;
      memory.error_integral += error;
      const double difference = error - memory.previous_error;
      memory.previous_error = error;
      return (__dmul_rn(job.p, error) + __dmul_rn(job.i, memory.error_integral)) + __dmul_rn(job.d, difference);
    }
    case kHost:
      return launch.commands[j];
    default:
      return 0.0;
  }
}

}  // namespace lockstep
