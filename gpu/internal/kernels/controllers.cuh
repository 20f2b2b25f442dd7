// What answers a step: policies that are numbers, of which one thread computes the
// command of one rollout; a network's answer, which the block has computed (act.cuh);
// the host's.
#pragma once

#include "drive.cuh"
#include "launch.h"
#include "numbers.cuh"

namespace lockstep {

// pid is the challenge's PID controller.
__device__ __forceinline__ double pid(const double *gains, Memory &memory, double target,
                                      double lataccel) {
  const double error = target - lataccel;
  memory.error_integral += error;
  const double difference = error - memory.previous_error;
  memory.previous_error = error;
  return (__dmul_rn(gains[0], error) + __dmul_rn(gains[1], memory.error_integral)) +
         __dmul_rn(gains[2], difference);
}

// plan_mean is the mean of a plan's rows from first to before end.
__device__ __forceinline__ double plan_mean(const double *plan, int first, int end) {
  double sum = 0.0;
#pragma unroll 1
  for (int i = first; i < end; i++) sum += plan[i];
  return sum / static_cast<double>(end - first);
}

// pidff is lockstep.PIDFF: PID with feed-forward from the plan, whose row 0 is that of
// the next step.
__noinline__ __device__ double pidff(const Launch &launch, Drive &d, int64_t step) {
  enum { kP, kI, kD, kFF, kFFV = kFF + 4, kSmooth, kLeak, kPlan = 50 };
  const double *gains = launch.job[d.j].gains;
  Memory &memory = d.memory;
  const double *now = launch.target + d.first_row + step;
  const double error = *now - d.lataccel;
  memory.error_integral = __dmul_rn(memory.error_integral, 1.0 - gains[kLeak]) + error;
  const double difference = error - memory.previous_error;
  memory.previous_error = error;

  double ff = __dmul_rn(gains[kFF], *now - launch.roll_lataccel[d.first_row + step]);
  const int64_t behind = d.rows - (step + 1);
  const int left = behind < kPlan ? static_cast<int>(behind) : kPlan;
#pragma unroll 1
  for (int band = 0; band < 3; band++) {
    const int first = band == 0 ? 0 : band == 1 ? 3 : 8, next = band == 0 ? 3 : band == 1 ? 8 : 16;
    if (first >= left) break;
    ff += __dmul_rn(gains[kFF + 1 + band],
                    plan_mean(now + 1, first, next < left ? next : left) - *now);
  }
  const double v = launch.v_ego[d.first_row + step];
  ff = __dmul_rn(ff, 1.0 + __dmul_rn(gains[kFFV], 20.0 / (v < 5.0 ? 5.0 : v) - 1.0));

  double u = ((__dmul_rn(gains[kP], error) + __dmul_rn(gains[kI], memory.error_integral)) +
              __dmul_rn(gains[kD], difference)) +
             ff;
  u = memory.previous_command + __dmul_rn(1.0 - gains[kSmooth], u - memory.previous_command);
  memory.previous_command = clip(u, -kSteerMax, kSteerMax);
  return memory.previous_command;
}

// table_action is what a table of actions answers at a step.
__device__ __forceinline__ double table_action(const double *actions, int64_t step) {
  if (step < kControlStart) return 0.0;
  return actions[step < kCostEnd ? step - kControlStart : kTableSteps - 1];
}

// command gives the policy's answer, before clipping, and tells whether the kernel has
// such a policy. network has a network's answer.
template <bool Policies>
__device__ __forceinline__ bool command(const Launch &launch, Drive &d, int64_t step,
                                        const NetworkCommand *network, double *answer) {
  const Job &job = launch.job[d.j];
  switch (job.kind) {
    case kZero:
      *answer = 0.0;
      return true;
    case kPID:
      *answer = pid(job.gains, d.memory, launch.target[d.first_row + step], d.lataccel);
      return true;
    case kHost:
      *answer = launch.commands[Policies ? (step - launch.first) * launch.width + d.j : d.j];
      return true;
  }
  if constexpr (Policies) {
    switch (job.kind) {
      case kPIDFF:
        *answer = pidff(launch, d, step);
        return true;
      case kNetwork:
        *answer = step < kControlStart ? 0.0 : network->command;
        return true;
      case kTable:
        *answer = table_action(job.table, step);
        return true;
    }
  }
  return false;
}

}  // namespace lockstep
