// Observations of rollouts that have been collected, for who trains on them.
#include "launch.h"
#include "numbers.cuh"
#include "observation.cuh"

namespace lockstep {

// observe computes an observation in each block.
__device__ __forceinline__ void observe(const Observing &o) {
  const Place &place = o.places[blockIdx.x];
  const Route &route = o.routes[o.route[place.rollout]];
  View view;
  view.roll = o.roll_lataccel + route.first;
  view.v = o.v_ego + route.first;
  view.a = o.a_ego + route.first;
  view.target = o.target + route.first;
  view.rows = route.rows;
  view.early = view.target;
  view.late = o.lataccel + place.rollout * kTableSteps;
  view.actions = o.action + place.rollout * kTableSteps;
  const int64_t step = kControlStart + place.step;
  float *out = o.out + static_cast<int64_t>(blockIdx.x) * kObservation;
  const Thread t = this_thread();
  for (int i = t.index; i < kScalars; i += t.count) out[i] = observed_scalar(view, step, i);
  for (int i = kScalars + t.index; i < kObservation; i += t.count) out[i] = observed(view, step, i);
}

}  // namespace lockstep

extern "C" __global__ void lockstep_observe(LOCKSTEP_ARGUMENT(lockstep::Observing) observing) { lockstep::observe(observing); }
