// The phase in which the networks of a block's routes act: observations, layers, Beta
// distributions, commands. Like the simulator's network it computes each sum in one
// chain of one thread, so that no bit depends on who shares the block.
#pragma once

#include "beta.cuh"
#include "drive.cuh"
#include "gpt.cuh"
#include "observation.cuh"

namespace lockstep {

// kActStride is that of a route's row: the rows that lanes n and n^1 read are in other banks.
enum { kActStride = kObservation + 4 };

// view_of is what a job's observation is made of.
__device__ __forceinline__ View view_of(const Launch &launch, const Drive &d) {
  View view;
  view.roll = launch.roll_lataccel + d.first_row;
  view.v = launch.v_ego + d.first_row;
  view.a = launch.a_ego + d.first_row;
  view.target = launch.target + d.first_row;
  view.rows = d.rows;
  view.early = launch.lataccel + d.base;
  view.late = view.early + kControlStart;
  view.actions = launch.action + d.base + kControlStart;
  return view;
}

// column is one of all jobs or of all routes.
__device__ __forceinline__ const double *column(const Launch &launch, int of) {
  switch (of) {
    case kActions: return launch.action;
    case kLataccels: return launch.lataccel;
    case kTargets: return launch.target;
    case kRolls: return launch.roll_lataccel;
    case kSpeeds: return launch.v_ego;
    default: return launch.a_ego;
  }
}

// What act keeps in the buffer of the scores.
template <int R>
struct Acting {
  Acted acted[R];
  Actor network[R];  // copied, so that no layer waits for where it is
  float actor[R][kActor], softplus[R][kActor];
};
static_assert(sizeof(Acting<1>) <= 4 * Block<1>::kScores &&
                  sizeof(Acting<6>) <= 4 * Block<6>::kScores,
              "it fits there");

// decide turns a network's answer into a command. before is the command of the step before.
__noinline__ __device__ void decide(const Launch &launch, const Drive &d, int64_t step,
                                    double scale, double before, int64_t sampled,
                                    const float *observation, const float *actor, const float *sp,
                                    Acted &acted) {
  acted.command = 0.0;  // control reads it before it asks for nan
  if (acted.nan >= 0) return;
  double raw;
  float variate;
  if (sampled != 0) {
    const Job &job = launch.job[d.j];
    variate = beta_variate(sp, job.seed, job.id, step);
    raw = __dmul_rn(2.0, static_cast<double>(variate)) - 1.0;
  } else {
    raw = mean_action(sp);
    variate = static_cast<float>((raw + 1.0) / 2.0);
  }
  const double change = clip(__dmul_rn(raw, scale), -0.5, 0.5);
  acted.command = clip(before + change, -kSteerMax, kSteerMax);
  if (launch.variate != nullptr && step < kCostEnd) {
    const int64_t at = d.j * kTableSteps + step - kControlStart;
    launch.variate[at] = variate;
    launch.softplus[2 * at] = sp[0];
    launch.softplus[2 * at + 1] = sp[1];
  }
  if (TraceStep *trace = traced(launch, d.j, step); trace != nullptr) {
#pragma unroll 1
    for (int i = 0; i < kObservation; i++) trace->observation[i] = observation[i];
    trace->actor[0] = actor[0];
    trace->actor[1] = actor[1];
    trace->raw = raw;
  }
}

// first_nan is the first element of an observation that is NaN, or -1.
__device__ __forceinline__ int first_nan(const float *observation) {
  int first = -1;
#pragma unroll 4
  for (int i = kObservation - 4; i >= 0; i -= 4) {
    const float4 x = load4(observation + i);
    if (x.w != x.w) first = i + 3;
    if (x.z != x.z) first = i + 2;
    if (x.y != x.y) first = i + 1;
    if (x.x != x.x) first = i;
  }
  return first;
}

// act computes what the networks of the block's jobs answer at a step from kControlStart
// on. observation, even and odd are (R, kActStride), of buffers that are free; those of
// the first threads may use what they find in acting.acted until they come to a barrier.
// The pointers come one by one, so that the compiler knows where they point.
template <int R>
__noinline__ __device__ void act(const Launch &launch, const Drive *drives, int64_t step,
                                 Acting<R> &acting, float *observation, float *even, float *odd) {
  __syncthreads();  // everybody is done with the last step
  unsigned act = 0;
  for (int r = 0; r < R; r++)
    act |=
        drives[r].running != 0 && step < drives[r].end && drives[r].actor != nullptr ? 1u << r : 0u;
  if (act == 0) return;
  const Thread t = this_thread();

  // What the first threads decide with is on its way while the network is computed.
  const bool decides = t.index < R && (act >> t.index & 1) != 0;
  double before = 0.0;
  int64_t sampled = 0;
  if (decides) {
    const Drive &d = drives[t.index];
    if (step > kControlStart) before = launch.action[d.base + step - 1];
    sampled = launch.job[d.j].sampled;
  }
  // The scalars take long; the threads that have none do the rest.
  each(R * kScalars, [&](int item) {
    const int r = item / kScalars, i = item % kScalars;
    if ((act >> r & 1) != 0)
      observation[r * kActStride + i] = observed_scalar(view_of(launch, drives[r]), step, i);
  });
  each_behind(R * kScalars, kObservation - kScalars, [&](int item) {
    const Element e = element(step, kScalars + item);
    const double *of = column(launch, e.column);
    double x[R];  // all of them are on their way at once
#pragma unroll
    for (int r = 0; r < R; r++) {
      const Drive &d = drives[r];
      const int64_t row = e.row < d.rows ? e.row : d.rows - 1;
      x[r] = (act >> r & 1) != 0 && (e.column != kActions || row >= kControlStart)
                 ? of[(e.column < kTargets ? d.base : d.first_row) + row]
                 : 0.0;
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
      if ((act >> r & 1) != 0)
        observation[r * kActStride + kScalars + item] = in_units(x[r], e.unit);
    }
  });
  enum { kWords = sizeof(Actor) / sizeof(int64_t) };
  each_behind(R * kScalars, R * kWords, [&](int item) {
    const int r = item / kWords, i = item % kWords;
    if ((act >> r & 1) != 0)
      reinterpret_cast<int64_t *>(acting.network + r)[i] =
          reinterpret_cast<const int64_t *>(drives[r].actor)[i];
  });
  __syncthreads();

  // The last threads have no columns in a layer of 256.
  if (const int r = t.count - 1 - t.index; r < R && (act >> r & 1) != 0)
    acting.acted[r].nan = first_nan(observation + r * kActStride);
#pragma unroll 1
  for (unsigned left = act; left != 0;) {
    // Those of one network together. What the layers of the others come to is not used.
    const Actor *network = nullptr, *from = nullptr;
    unsigned rows = 0;
    for (int r = 0; r < R; r++) {
      if ((left >> r & 1) == 0 || (from != nullptr && drives[r].actor != from)) continue;
      if (from == nullptr) network = acting.network + r;
      from = drives[r].actor;
      rows |= 1u << r;
    }
    left &= ~rows;
    const float *in = observation;
    float *out = even;
    Begin begin = kReady;
    const Layer *l = network->layer, *last = l + network->layers - 1;
#pragma unroll 1
    for (; l != last; l++) {
      const int inputs = static_cast<int>(l->inputs), outputs = static_cast<int>(l->outputs);
      last_product<R, 4>(out, kActStride, in, kActStride, l->weights, inputs, inputs, outputs,
                         l->weights + inputs * outputs, begin);
      in = out;
      out = out == even ? odd : even;
      begin = begin == kSecondHalf ? kFirstHalf : kSecondHalf;
    }
    const int inputs = static_cast<int>(l->inputs);
    last_product<R, 1>(out, kActStride, in, kActStride, l->weights, inputs, inputs, kActor, nullptr,
                       begin);
    __syncthreads();
    each(R * kActor, [&](int item) {
      const int r = item / kActor, i = item % kActor;
      if ((rows >> r & 1) != 0)
        acting.actor[r][i] =
            out[r * kActStride + i] + __ldg(l->weights + inputs * static_cast<int>(l->outputs) + i);
    });
    if (left != 0) __syncthreads();
  }
  each(R * kActor, [&](int item) {
    const int r = item / kActor, i = item % kActor;
    if ((act >> r & 1) != 0) acting.softplus[r][i] = softplus(acting.actor[r][i]);
  });
  __syncthreads();
  if (decides) {
    const int r = t.index;
    decide(launch, drives[r], step, acting.network[r].scale, before, sampled,
           observation + r * kActStride, acting.actor[r], acting.softplus[r], acting.acted[r]);
  }
}

}  // namespace lockstep
