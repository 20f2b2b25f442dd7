// The phase in which the networks of a block's routes act: observations, layers, Beta
// distributions, commands. Like the simulator's network it computes each sum in one
// chain of one thread, so that no bit depends on who shares the block.
#pragma once

#include "beta.cuh"
#include "drive.cuh"
#include "gpt.cuh"
#include "observation.cuh"

namespace lockstep {

// multiply continues the chains of R rows of in over as many values of k as w has.
template <int R, int N>
__device__ __forceinline__ void multiply(float (&acc)[R], const float *in, const float4 (&w)[N]) {
#pragma unroll
  for (int j = 0; j < N; j++) {
#pragma unroll
    for (int r = 0; r < R; r++) {
      const float4 x = load4(in + r * kObservation + 4 * j);
      acc[r] = fmaf(x.x, w[j].x, acc[r]);
      acc[r] = fmaf(x.y, w[j].y, acc[r]);
      acc[r] = fmaf(x.z, w[j].z, acc[r]);
      acc[r] = fmaf(x.w, w[j].w, acc[r]);
    }
  }
}

// layer computes columns of a layer for those rows of in (R, kObservation) whose bits are
// set. If nan is not null, it receives for each of them whether its input had one: weights
// are finite, so that every sum is then NaN.
template <int R>
__noinline__ __device__ void layer(float *out, int out_stride, const float *in, const Layer &l, int columns, unsigned rows, bool relu,
                                   int *nan) {
  enum { kAhead = kLayerUnit / 8 };  // times four values of k; two such sets of weights are on their way in turn
  const Thread t = this_thread();
  const int inputs = static_cast<int>(l.inputs);
  const auto load = [](float4 (&set)[kAhead], const float *w) {
#pragma unroll
    for (int j = 0; j < kAhead; j++) set[j] = load_weights(w + 4 * j * kLayerPanel);
  };
#pragma unroll 1
  for (int column = t.index; column < columns; column += t.count) {
    const float *w = l.weights + column / kLayerPanel * (inputs * kLayerPanel) + column % kLayerPanel * 4;
    float4 even[kAhead], odd[kAhead];
    float acc[R];
#pragma unroll
    for (int r = 0; r < R; r++) acc[r] = 0.0f;
    load(even, w);
    load(odd, w + kLayerUnit / 2 * kLayerPanel);
#pragma unroll 1
    for (int from = 0; from < inputs; from += kLayerUnit) {
      w += from + kLayerUnit < inputs ? kLayerUnit * kLayerPanel : 0;
      multiply<R>(acc, in + from, even);
      load(even, w);
      multiply<R>(acc, in + from + kLayerUnit / 2, odd);
      load(odd, w + kLayerUnit / 2 * kLayerPanel);
    }
    const float bias = __ldg(l.weights + inputs * static_cast<int>(l.outputs) + column);
#pragma unroll
    for (int r = 0; r < R; r++) {
      if ((rows >> r & 1) == 0) continue;
      const float y = acc[r] + bias;
      out[r * out_stride + column] = !relu || y > 0.0f ? y : 0.0f;
      if (nan != nullptr && column == 0) nan[r] = acc[r] != acc[r] ? 1 : 0;
    }
  }
}

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

// decide turns a network's answer into a command.
__noinline__ __device__ void decide(const Launch &launch, const Drive &d, int64_t step, Acted &acted, const float *observation,
                                    const float *actor, const float *sp, bool nan) {
  acted.nan = -1;
  if (nan) {
    int i = 0;
    while (i < kObservation - 1 && observation[i] == observation[i]) i++;
    acted.nan = i;
    return;
  }
  const Job &job = launch.job[d.j];
  double raw;
  float variate;
  if (job.sampled != 0) {
    variate = beta_variate(sp, job.seed, job.id, step);
    raw = __dmul_rn(2.0, static_cast<double>(variate)) - 1.0;
  } else {
    raw = mean_action(sp);
    variate = static_cast<float>((raw + 1.0) / 2.0);
  }
  const double change = clip(__dmul_rn(raw, acted.actor->scale), -0.5, 0.5);
  const double before = step == kControlStart ? 0.0 : launch.action[d.base + step - 1];
  acted.command = clip(before + change, -kSteerMax, kSteerMax);
  if (launch.variate != nullptr && step < kCostEnd) {
    const int64_t at = d.j * kTableSteps + step - kControlStart;
    launch.variate[at] = variate;
    launch.softplus[2 * at] = sp[0];
    launch.softplus[2 * at + 1] = sp[1];
  }
  if (TraceStep *trace = traced(launch, d.j, step); trace != nullptr) {
    for (int i = 0; i < kObservation; i++) trace->observation[i] = observation[i];
    trace->actor[0] = actor[0];
    trace->actor[1] = actor[1];
    trace->raw = raw;
  }
}

// act computes what the networks of the block's jobs answer at a step from
// kControlStart on. observation, even and odd are (R, kObservation), of buffers that are
// free; those of the first threads may use what they find in acted until they come to a
// barrier. The pointers come one by one, so that the compiler knows where they point.
template <int R>
__noinline__ __device__ void act(const Launch &launch, const Drive *drives, int64_t step, Acted *acted, float *observation, float *even,
                                 float *odd) {
  float *actor = reinterpret_cast<float *>(acted + R);     // (R, kActor)
  float *pairs = actor + R * kActor;                       // (R, kActor), their softplus
  int *nan = reinterpret_cast<int *>(pairs + R * kActor);  // (R)
  __syncthreads();  // everybody is done with the last step
  if (const int r = thread_index(); r < R) {
    const Drive &d = drives[r];
    const bool acts = d.running != 0 && step < d.end && launch.job[d.j].kind == kNetwork;
    acted[r].actor = acts ? launch.job[d.j].actor : nullptr;
  }
  __syncthreads();
  unsigned acting = 0;
  for (int r = 0; r < R; r++) acting |= acted[r].actor != nullptr ? 1u << r : 0u;
  if (acting == 0) return;

  each(R * kScalars, [&](int item) {
    const int r = item / kScalars, i = item % kScalars;
    if ((acting >> r & 1) != 0) observation[r * kObservation + i] = observed_scalar(view_of(launch, drives[r]), step, i);
  });
  each(R * (kObservation - kScalars), [&](int item) {
    const int r = item / (kObservation - kScalars), i = kScalars + item % (kObservation - kScalars);
    if ((acting >> r & 1) != 0) observation[r * kObservation + i] = observed(view_of(launch, drives[r]), step, i);
  });
  __syncthreads();

#pragma unroll 1
  for (unsigned left = acting; left != 0;) {
    // Those of one network together.
    const Actor *network = nullptr;
    unsigned rows = 0;
    for (int r = 0; r < R; r++) {
      if ((left >> r & 1) == 0 || (network != nullptr && acted[r].actor != network)) continue;
      network = acted[r].actor;
      rows |= 1u << r;
    }
    left &= ~rows;
    const int layers = static_cast<int>(network->layers);
#pragma unroll 1
    for (int i = 0; i < layers; i++) {
      const Layer &l = network->layer[i];
      const bool last = i == layers - 1;
      const float *in = i == 0 ? observation : (i & 1) != 0 ? even : odd;
      layer<R>(last ? actor : (i & 1) != 0 ? odd : even, last ? kActor : kObservation, in, l, last ? kActor : static_cast<int>(l.outputs),
               rows, !last, i == 0 ? nan : nullptr);
      __syncthreads();
    }
  }
  each(R * kActor, [&](int item) {
    if ((acting >> item / kActor & 1) != 0) pairs[item] = softplus(actor[item]);
  });
  __syncthreads();
  if (const int r = thread_index(); r < R && (acting >> r & 1) != 0) {
    decide(launch, drives[r], step, acted[r], observation + r * kObservation, actor + r * kActor, pairs + r * kActor, nan[r] != 0);
  }
}

}  // namespace lockstep
