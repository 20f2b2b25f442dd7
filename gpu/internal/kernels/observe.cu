// Observations of rollouts that have been collected, for who trains on them.
#include "launch.h"
#include "numbers.cuh"
#include "observation.cuh"

namespace lockstep {

// observe computes an observation in each block.
__device__ __forceinline__ void observe(const Observing &o) {
  const bool placed = o.places != nullptr;
  const int64_t rollout = placed ? o.places[blockIdx.x].rollout : blockIdx.x;
  const int64_t step = placed ? kControlStart + o.places[blockIdx.x].step : o.step;
  const Route &route = o.routes[placed ? o.route[rollout] : o.job[rollout].route];
  float *out = o.out + static_cast<int64_t>(blockIdx.x) * o.inputs;
  const Thread t = this_thread();
  if (!placed && (o.status[rollout].code != kOK || step >= route.rows || step >= o.end)) {
    for (int i = t.index; i < o.inputs; i += t.count) out[i] = 0.0f;
    return;
  }
  View view;
  view.roll = o.roll_lataccel + route.first;
  view.v = o.v_ego + route.first;
  view.a = o.a_ego + route.first;
  view.target = o.target + route.first;
  view.rows = route.rows;
  view.late = o.lataccel + rollout * o.stride;
  // Of rollouts in step all histories are there, which a teacher may have written; of those that
  // were collected, which had none, the steps from kControlStart on.
  view.early = placed ? view.target : view.late - kControlStart;
  view.actions = o.action + rollout * o.stride;
  if (o.sees != nullptr) {
    const auto element = [&](int i) {
      return i < kScalars ? observed_scalar(view, step, i) : observed(view, step, i);
    };
#pragma unroll 1
    for (int i = t.index; i < o.inputs; i += t.count)
      out[i] = seen(view, step, o.sees[i], element);
    return;
  }
  for (int i = t.index; i < kScalars; i += t.count) out[i] = observed_scalar(view, step, i);
  for (int i = kScalars + t.index; i < kObservation; i += t.count) out[i] = observed(view, step, i);
}

}  // namespace lockstep

extern "C" __global__ void lockstep_observe(LOCKSTEP_ARGUMENT(lockstep::Observing) observing) {
  lockstep::observe(observing);
}
