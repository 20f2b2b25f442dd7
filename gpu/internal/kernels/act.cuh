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
// A buffer has two rows for each route.
enum { kActStride = kMaxWidth + 4 };
static_assert(2 * kActStride <= Block<1>::kRows * Block<1>::kStride, "it has");

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

// An ActBuffer is what act keeps of a block's routes in the buffer of the scores.
template <int R>
struct ActBuffer {
  NetworkCommand command[R];
  Actor network[R];  // copied, so that no layer waits for where it is
  float answer[R][kActor], softplus[R][kActor];  // of the network
};
static_assert(sizeof(ActBuffer<1>) <= 4 * Block<1>::kScores &&
                  sizeof(ActBuffer<6>) <= 4 * Block<6>::kScores,
              "it fits there");

// decide turns a network's answer into a command. before is the command of the step before.
__noinline__ __device__ void decide(const Launch &launch, const Drive &d, int64_t step,
                                    double scale, double before, int64_t sampled,
                                    const float *observation, int seen, const float *actor,
                                    const float *sp, NetworkCommand &answer) {
  answer.command = 0.0;  // control_step reads it before it asks for nan
  if (answer.nan >= 0) return;
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
  answer.command = clip(before + change, -kSteerMax, kSteerMax);
  if (launch.variate != nullptr && step < kCostEnd) {
    const int64_t at = d.j * kTableSteps + step - kControlStart;
    launch.variate[at] = variate;
    launch.softplus[2 * at] = sp[0];
    launch.softplus[2 * at + 1] = sp[1];
  }
  if (TraceStep *trace = traced(launch, d.j, step); trace != nullptr) {
#pragma unroll 1
    for (int i = 0; i < seen; i++) trace->observation[i] = observation[i];
    trace->actor[0] = actor[0];
    trace->actor[1] = actor[1];
    trace->raw = raw;
  }
}

// first_nan is the first of some elements of an observation, a multiple of 4, that is NaN,
// or -1.
__device__ __forceinline__ int first_nan(const float *observation, int elements) {
  int first = -1;
#pragma unroll 4
  for (int i = elements - 4; i >= 0; i -= 4) {
    const float4 x = load4(observation + i);
    if (x.w != x.w) first = i + 3;
    if (x.z != x.z) first = i + 2;
    if (x.y != x.y) first = i + 1;
    if (x.x != x.x) first = i;
  }
  return first;
}

// observe_declared computes what networks declare to see, for the routes whose bits are set: to row
// R + r, from the other observation in row r. It ends with a barrier.
template <int R>
__noinline__ __device__ void observe_declared(const Launch &launch, const Drive *drives,
                                              int64_t step, const Actor *network,
                                              unsigned declared, float *observation) {
  parallel_for(R * kMaxWidth, [&](int item) {
    const int r = item / kMaxWidth, i = item % kMaxWidth;
    if ((declared >> r & 1) == 0 || i >= network[r].layer[0].inputs) return;
    const float *other = observation + r * kActStride;
    observation[(R + r) * kActStride + i] =
        i < network[r].declared ? seen(view_of(launch, drives[r]), step, network[r].sees[i],
                                       [&](int element) { return other[element]; })
                                : 0.0f;
  });
  __syncthreads();
}

// finish_layer makes a layer of its first kSumPanel products, in out: it adds the bias, then the
// products of each further panel, and computes what stands behind. It begins and ends with a
// barrier.
template <int R>
__noinline__ __device__ void finish_layer(float *out, const float *in, const Layer &l) {
  const int inputs = static_cast<int>(l.inputs), outputs = static_cast<int>(l.outputs);
  const float *bias = l.weights + inputs * outputs;
  float *panel = out + R * kActStride;
  __syncthreads();
  parallel_for_rows<R>(outputs, [&](int r, int column) {
    out[r * kActStride + column] += __ldg(bias + column);
  });
#pragma unroll 1
  for (int from = kSumPanel; from < inputs; from += kSumPanel) {
    const int k = inputs - from < kSumPanel ? inputs - from : kSumPanel;
    matmul_few_rows<R, 4>(OutRows{panel, kActStride}, InRows{in + from, kActStride},
                          PackedWeights{l.weights + from * kPanel, k, outputs, inputs});
    __syncthreads();
    parallel_for_rows<R>(outputs, [&](int r, int column) {
      out[r * kActStride + column] += panel[r * kActStride + column];
    });
    __syncthreads();
  }
  const bool tanh = l.tanh != 0;
  parallel_for_rows<R>(outputs, [&](int r, int column) {
    float *y = out + r * kActStride + column;
    *y = tanh ? hyperbolic_tangent(*y) : *y > 0.0f ? *y : 0.0f;
  });
  __syncthreads();
}

// act computes what the networks of the block's jobs answer at a step from kControlStart
// on. observation, even and odd are (2, R, kActStride), of buffers that are free; those of
// the first threads may use what they find in buffer.command until they come to a barrier.
// The pointers come one by one, so that the compiler knows where they point.
template <int R>
__noinline__ __device__ void act(const Launch &launch, const Drive *drives, int64_t step,
                                 ActBuffer<R> &buffer, float *observation, float *even,
                                 float *odd) {
  __syncthreads();  // everybody is done with the last step
  unsigned act = 0;
  for (int r = 0; r < R; r++)
    act |=
        drives[r].running != 0 && step < drives[r].end && drives[r].actor != nullptr ? 1u << r : 0u;
  if (act == 0) {
    __syncthreads();  // who goes on writes what others still ask, running
    return;
  }
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
  parallel_for(R * kScalars, [&](int item) {
    const int r = item / kScalars, i = item % kScalars;
    if ((act >> r & 1) != 0)
      observation[r * kActStride + i] = observed_scalar(view_of(launch, drives[r]), step, i);
  });
  parallel_for_after(R * kScalars, kObservation - kScalars, [&](int item) {
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
  parallel_for_after(R * kScalars, R * kWords, [&](int item) {
    const int r = item / kWords, i = item % kWords;
    if ((act >> r & 1) != 0)
      reinterpret_cast<int64_t *>(buffer.network + r)[i] =
          reinterpret_cast<const int64_t *>(drives[r].actor)[i];
  });
  __syncthreads();

  unsigned declared = 0;
  for (int r = 0; r < R; r++)
    declared |= (act >> r & 1) != 0 && buffer.network[r].declared != 0 ? 1u << r : 0u;
  if (declared != 0)
    observe_declared<R>(launch, drives, step, buffer.network, declared, observation);
  const auto seen_by = [&](int r) {
    return observation + ((declared >> r & 1) != 0 ? R + r : r) * kActStride;
  };

  // The last threads have no columns in a layer of 256.
  if (const int r = t.count - 1 - t.index; r < R && (act >> r & 1) != 0) {
    const Actor &network = buffer.network[r];
    int nan = -1;
    if (network.declared == 0 || network.contract != 0)
      nan = first_nan(observation + r * kActStride, kObservation);
    if (network.declared != 0) {
      nan = nan >= 0 ? kMaxWidth + nan
                     : first_nan(seen_by(r), static_cast<int>(network.layer[0].inputs));
    }
    buffer.command[r].nan = nan;
  }
#pragma unroll 1
  for (unsigned left = act; left != 0;) {
    // Those of one network together. What the layers of the others come to is not used.
    const Actor *network = nullptr, *from = nullptr;
    unsigned rows = 0;
    for (int r = 0; r < R; r++) {
      if ((left >> r & 1) == 0 || (from != nullptr && drives[r].actor != from)) continue;
      if (from == nullptr) network = buffer.network + r;
      from = drives[r].actor;
      rows |= 1u << r;
    }
    left &= ~rows;
    const float *in = observation + (network->declared != 0 ? R * kActStride : 0);
    float *out = even;
    Start start = kFirstHalf;
    const Layer *l = network->layer, *last = l + network->layers - 1;
#pragma unroll 1
    for (; l != last; l++) {
      const int inputs = static_cast<int>(l->inputs), outputs = static_cast<int>(l->outputs);
      const bool whole = inputs <= kSumPanel && l->tanh == 0;
      matmul_few_rows<R, 4>(
          OutRows{out, kActStride}, InRows{in, kActStride},
          PackedWeights{l->weights, inputs < kSumPanel ? inputs : kSumPanel, outputs, inputs},
          whole ? l->weights + inputs * outputs : nullptr, start);
      if (!whole) finish_layer<R>(out, in, *l);
      in = out;
      out = out == even ? odd : even;
      // finish_layer ended with a barrier. Of another layer half of the threads still writes.
      start = !whole                            ? kFirstHalf
              : start == kSecondHalfAwaitsInput ? kFirstHalfAwaitsInput
                                                : kSecondHalfAwaitsInput;
    }
    const int inputs = static_cast<int>(l->inputs);
#pragma unroll 1
    for (int from = 0; from < inputs; from += kSumPanel) {
      const int k = inputs - from < kSumPanel ? inputs - from : kSumPanel;
      matmul_few_rows<R, 1>(OutRows{out, kActStride}, InRows{in + from, kActStride},
                            PackedWeights{l->weights + from * kPanel, k, kActor, inputs}, nullptr,
                            start);
      __syncthreads();
      parallel_for(R * kActor, [&](int item) {
        const int r = item / kActor, i = item % kActor;
        if ((rows >> r & 1) == 0) return;
        const float before = from > 0 ? buffer.answer[r][i]
                                      : __ldg(l->weights +
                                              inputs * static_cast<int>(l->outputs) + i);
        buffer.answer[r][i] = out[r * kActStride + i] + before;
      });
      start = kFirstHalf;
      if (from + k < inputs) __syncthreads();
    }
    if (left != 0) __syncthreads();
  }
  parallel_for(R * kActor, [&](int item) {
    const int r = item / kActor, i = item % kActor;
    if ((act >> r & 1) != 0) buffer.softplus[r][i] = softplus(buffer.answer[r][i]);
  });
  __syncthreads();
  if (decides) {
    const int r = t.index;
    const int seen =
        (declared >> r & 1) != 0 ? static_cast<int>(buffer.network[r].declared) : kObservation;
    decide(launch, drives[r], step, buffer.network[r].scale, before, sampled,
           seen_by(r), seen, buffer.answer[r], buffer.softplus[r], buffer.command[r]);
  }
}

}  // namespace lockstep
