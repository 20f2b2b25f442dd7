// Whole rollouts in one launch: a block owns R jobs and runs them from their first
// step to the costs. Compiled by nvcc for a GPU and by g++, with the shim in cpu,
// for the CPU; both without contraction (-fmad=false, -ffp-contract=off).
//
// What happens in a step, in order, as rollout calls it at the end of this file:
//
//   act                   networks that steer compute their commands (act.cuh)
//   control_step          asks the job's policy and appends its action to the history
//   gather_network_input  tokens and states of the 20 steps before
//   forward               the simulator's network: logits (gpt.cuh)
//   softmax               probabilities (numpy.cuh)
//   sample_lataccel       chooses a token by the step's random number
//   append_lataccel       appends the step's lataccel to the history
//
// Thread r, for r < R, owns job r of the block and its Drive (drive.cuh): it alone runs
// what takes a Drive. In all else the threads of the block share the work.
#include "launch.h"
#include "variants.h"
#include "weights.h"
#include "layout.cuh"
#include "numbers.cuh"
#include "random.cuh"
#include "tokenizer.cuh"
#include "drive.cuh"
#include "controllers.cuh"
#include "costs.cuh"
#include "numpy.cuh"
#include "gpt.cuh"
#include "act.cuh"

namespace lockstep {

// report_lataccel writes the lataccel that a host controller gets to see of a job: NaN if the
// job has failed.
__device__ __forceinline__ void report_lataccel(const Launch &launch, int64_t j, int64_t code,
                                                double lataccel) {
  if (launch.now != nullptr)
    launch.now[j] = code == kOK ? lataccel : __longlong_as_double(INT64_C(0x7ff8000000000000));
}

// write_status writes at which step a job stands, and with what code and value.
__device__ __forceinline__ void write_status(const Launch &launch, const Drive &d, int64_t code,
                                             int64_t step, double value) {
  Status *s = launch.status + d.j;
  s->code = code;
  s->step = step;
  s->value = value;
  s->sampled = d.sampled;
  s->serial = d.serial;
  report_lataccel(launch, d.j, code, value);
}

// fail_job ends a job for the reason that code says.
__device__ __forceinline__ void fail_job(const Launch &launch, Drive &d, int64_t code, int64_t step,
                                         double value) {
  write_status(launch, d, code, step, value);
  d.running = 0;
}

// draw_uniforms makes a job's random numbers, one for each step. twister_words is room for
// the 624 words of the generator.
__noinline__ __device__ void draw_uniforms(const Launch &launch, const Drive &d,
                                           uint32_t *twister_words) {
  Twister twister;
  twister.words = twister_words;
  twister.seed(static_cast<uint32_t>(launch.job[d.j].noise));
  for (int64_t step = kContext; step < d.end; step++)
    launch.draws[d.base + step] = twister.uniform();
}

// start_or_resume_job makes the Drive of job j. A job that starts with this launch gets the
// route's own first values as its histories, but those of its origin if it is forked, which
// rollout has copied. Any other job goes on with what the launch before kept.
template <bool Policies>
__noinline__ __device__ void start_or_resume_job(const Launch &launch, Drive &d, int64_t j,
                                                 uint32_t *twister_words) {
  d.j = j;
  d.running = 0;
  d.base = d.first_row = d.rows = d.end = 0;
  d.nan = -1;
  d.sampled = d.serial = 0;
  d.memory.error_integral = d.memory.previous_error = d.memory.previous_command = d.lataccel =
      d.computed = 0.0;
  if constexpr (Policies) d.actor = nullptr;
  if (j >= launch.jobs) return;
  if (launch.status[j].code != kOK) {
    report_lataccel(launch, j, launch.status[j].code, 0.0);
    return;
  }
  const int64_t index = launch.job[j].route;
  const Route &route = launch.routes[index];
  d.base = j * launch.stride;
  d.first_row = route.first;
  d.rows = d.end = route.rows;
  if ((launch.shortcuts & kStopAtCostEnd) != 0 && d.end > kCostEnd) d.end = kCostEnd;
  d.running = 1;
  if constexpr (Policies) {
    if (launch.job[j].kind == kNetwork) d.actor = launch.job[j].actor;
  }
  const bool forked = Policies && launch.past_lataccel != nullptr;
  if (launch.first == kContext && !forked) {
    for (int64_t i = 0; i < kContext; i++) {
      launch.lataccel[d.base + i] = launch.target[d.first_row + i];
      launch.action[d.base + i] = launch.steer[index * kControlStart + i];
    }
  } else if (!forked) {
    d.memory = launch.memory[j];
    d.sampled = launch.status[j].sampled;
    d.serial = launch.status[j].serial;
  }
  if ((launch.first == kContext || forked) && launch.job[j].noise >= 0)
    draw_uniforms(launch, d, twister_words);
  const int64_t from = launch.first < d.end ? launch.first : d.end;  // it may have ended before
  for (int64_t i = from - kContext; i < from; i++) {
    d.lataccel = launch.lataccel[d.base + i];
    if (d.lataccel != d.lataccel) d.nan = i;
  }
}

// A job's flags in a step, by which the thread that owns it tells the others of the block
// that it is running, and that the simulator's network has to be run for it.
enum { kRunning = 1, kNeedsNetwork = 2 };

// control_step is the Python program's: it asks the policy and appends the action to the
// history. It returns the job's flags.
template <bool Policies>
__noinline__ __device__ int control_step(const Launch &launch, Drive &d, int64_t step,
                                         const NetworkCommand *network) {
  if (d.running == 0 || step >= d.end) return 0;
  double action;
  if (!command<Policies>(launch, d, step, network, &action)) {
    fail_job(launch, d, kNoController, step, static_cast<double>(launch.job[d.j].kind));
    return 0;
  }
  if constexpr (Policies) {
    if (step >= kControlStart && launch.job[d.j].kind == kNetwork && network->nan >= 0) {
      fail_job(launch, d, kNoObservation, step, static_cast<double>(network->nan));
      return 0;
    }
  }
  if (step < kControlStart) action = launch.steer[launch.job[d.j].route * kControlStart + step];
  action = clip(action, -kSteerMax, kSteerMax);
  TraceStep *trace = traced(launch, d.j, step);
  if (trace != nullptr) trace->action = action;
  if (launch.teacher_action != nullptr) action = launch.teacher_action[d.base + step];
  launch.action[d.base + step] = action;

  if (step < kControlStart && (launch.shortcuts & kSkipWarmup) != 0) return kRunning;
  if (d.nan >= step - kContext) {
    for (int64_t i = step - kContext; i < step; i++) {
      const double x = launch.lataccel[d.base + i];
      if (x != x) {
        fail_job(launch, d, kNoToken, step, x);
        return 0;
      }
    }
  }
  return kRunning | kNeedsNetwork;
}

// gather_network_input writes what the simulator's network sees of the 20 steps before: tokens
// (rows) and states (rows, 4). They are 0 for jobs that do not need it in this step.
template <int R>
__device__ __forceinline__ void gather_network_input(const Launch &launch, int64_t first_job,
                                                     int64_t step, const int *flag, int *tokens,
                                                     float *states) {
  const Thread t = this_thread();
#pragma unroll 1
  for (int row = t.index; row < Block<R>::kRows; row += t.count) {
    const int r = row / kContext, i = row % kContext;
    int token = 0;
    float4 state = zero4();
    if ((flag[r] & kNeedsNetwork) != 0) {
      const int64_t j = first_job + r, at = step - kContext + i;
      const int64_t now = launch.routes[launch.job[j].route].first + at + 1;
      token = encode(launch.lataccel[j * launch.stride + at]);
      state.x = static_cast<float>(launch.action[j * launch.stride + at + 1]);
      state.y = static_cast<float>(launch.roll_lataccel[now]);
      state.z = static_cast<float>(launch.v_ego[now]);
      state.w = static_cast<float>(launch.a_ego[now]);
      TraceStep *trace = traced(launch, j, step);
      if (trace != nullptr) {
        trace->tokens[i] = token;
        trace->states[4 * i] = state.x;
        trace->states[4 * i + 1] = state.y;
        trace->states[4 * i + 2] = state.z;
        trace->states[4 * i + 3] = state.w;
      }
    }
    tokens[row] = token;
    store4(states + 4 * row, state);
  }
}

// expectation is the mean of a prediction's distribution.
__noinline__ __device__ double expectation(const float *probs) {
  double mean = 0.0;
  for (int i = 0; i < kVocabulary; i++) mean += __dmul_rn(static_cast<double>(probs[i]), bin(i));
  return mean;
}

// sample_lataccel chooses the step's token, if the probabilities are a distribution, and
// computes the lataccel. sums are those of the probabilities' chunks, cdf is room
// for the running sum. A job that wants expected values gets the mean in the token's
// place.
template <bool Policies>
__noinline__ __device__ void sample_lataccel(const Launch &launch, Drive &d, int64_t step,
                                             double *cdf, const double *sums, const float *probs) {
  TraceStep *trace = traced(launch, d.j, step);
  const double draw = launch.draws[d.base + step];
  int token = choose_near(sums, probs, draw);
  if (token < 0 || trace != nullptr) {
    const double total = cumulate(cdf, probs);
    if (token < 0) {
      if (!is_distribution(total)) {
        fail_job(launch, d, kNotDistribution, step, total);
        return;
      }
      token = choose(cdf, total, draw);
      d.serial++;
    }
  }
  d.sampled++;
  double prediction = bin(token);
  if constexpr (Policies) {
    if (launch.job[d.j].expected != 0) {
      prediction = expectation(probs);
      token = -1;
    }
  }
  if (step >= kControlStart) {
    d.computed = clip(prediction, d.lataccel - kLataccelStepMax, d.lataccel + kLataccelStepMax);
  }
  if (trace != nullptr) {
    trace->sample = token;
    trace->prediction = prediction;
  }
}

// write_step_outputs writes what the launch wants of each step: the lataccel, the step's part of
// the cost, the reward. before is the lataccel of the step before.
__noinline__ __device__ void write_step_outputs(const Launch &launch, const Drive &d, int64_t step,
                                                double before) {
  if (launch.path != nullptr) launch.path[(step - launch.first) * launch.width + d.j] = d.lataccel;
  if (step < kControlStart || step >= kCostEnd ||
      (launch.partial == nullptr && launch.reward == nullptr))
    return;
  const double cost =
      step_cost(d.rows, step, launch.target[d.first_row + step], d.lataccel, before);
  if (launch.partial != nullptr) launch.partial[d.j] += cost;
  if (launch.reward != nullptr)
    launch.reward[d.j * kTableSteps + step - kControlStart] = static_cast<float>(-cost);
}

// append_lataccel appends the step's lataccel to the history, if the job is running: what
// sample_lataccel computed, but the target before kControlStart and the teacher's where there is
// one. network says whether the network was run.
template <bool Policies>
__noinline__ __device__ void append_lataccel(const Launch &launch, Drive &d, int64_t step,
                                             bool network) {
  if (d.running == 0 || step >= d.end) return;
  if (step < kControlStart) d.computed = launch.target[d.first_row + step];
  TraceStep *trace = traced(launch, d.j, step);
  if (trace != nullptr) {
    trace->lataccel = d.computed;
    trace->draw = launch.draws[d.base + step];
    trace->network = network ? 1 : 0;
    if (!network) {
      trace->sample = -1;
      trace->prediction = 0.0;
    }
  }
  const double before = d.lataccel;
  d.lataccel =
      launch.teacher_lataccel != nullptr ? launch.teacher_lataccel[d.base + step] : d.computed;
  if (d.lataccel != d.lataccel) d.nan = step;
  launch.lataccel[d.base + step] = d.lataccel;
  if constexpr (Policies) write_step_outputs(launch, d, step, before);
}

// finish_or_pause_job ends a job at the end of its route, or where its costs end; otherwise it
// keeps what the next launch goes on from.
__noinline__ __device__ void finish_or_pause_job(const Launch &launch, const Drive &d,
                                                 int64_t step) {
  if (d.running == 0) return;
  if (step >= d.end) {
    const int end = d.end < kCostEnd ? static_cast<int>(d.end) : kCostEnd;
    costs(launch.costs + 3 * d.j, launch.target + d.first_row, launch.lataccel + d.base, end);
    step = d.end;
  }
  launch.memory[d.j] = d.memory;
  write_status(launch, d, kOK, step, d.lataccel);
}

// skip_guard is where the buffer after the one with this end begins. Between them lie floats that
// nobody may touch, if it is the CPU that runs the kernel.
__device__ __forceinline__ float *skip_guard(float *end) {
  LOCKSTEP_GUARD(end, 4 * kGap);
  return end + kGap;
}

// rollout runs the R jobs of a block. Policies says whether it knows the kinds of policies beyond
// zero and pid, and expected values; the kernel without them is shorter.
template <int R, bool Policies>
__device__ __forceinline__ void rollout(const Launch &launch, float *memory) {
  typedef Block<R> B;
  Activations a;
  a.residual = memory;
  a.normed = skip_guard(a.residual + B::kBuffer);
  a.work = skip_guard(a.normed + B::kBuffer);
  a.scores = skip_guard(a.work + B::kBuffer);
  float *flag_words = skip_guard(a.scores + B::kScores);
  int *flags = reinterpret_cast<int *>(flag_words);  // (2, R), of even and of odd steps in turn
  Drive *drives = reinterpret_cast<Drive *>(skip_guard(flag_words + B::kFlags));  // (R)
  // These lie in the same buffers at times when those are free: see the table in layout.cuh.
  uint32_t *twister_words = reinterpret_cast<uint32_t *>(a.residual);  // (R, 624)
  int *tokens = reinterpret_cast<int *>(a.scores);                     // (rows)
  float *states = a.scores + B::kRows;                                 // (rows, 4)
  double *cdf = reinterpret_cast<double *>(a.residual);                // (R, 1024)
  double *sums = reinterpret_cast<double *>(a.scores);                 // (R, chunks)
  ActBuffer<R> &act_buffer = *reinterpret_cast<ActBuffer<R> *>(a.scores);

  parallel_for((B::kPadded - B::kRows) * B::kStride, [&](int i) {
    const int at = B::kRows * B::kStride + i;
    a.residual[at] = a.normed[at] = a.work[at] = 0.0f;
  });
  // Blocks that begin together read the same weights at the same time, step for step, and a
  // phase of few sums for many weights waits for L2. So long rollouts begin up to 63 µs apart.
  if (launch.end - launch.first >= kControlStart) LOCKSTEP_SLEEP(blockIdx.x % 64 * 1000);
  const int64_t first_job = launch.first_job + static_cast<int64_t>(blockIdx.x) * R;
  if constexpr (Policies) {
    if (launch.past_lataccel != nullptr) {
      const int past = static_cast<int>(launch.first);
      parallel_for(R * past, [&](int item) {
        const int64_t j = first_job + item / past, step = item % past;
        if (j >= launch.jobs) return;
        const int64_t from = launch.job[j].origin * past + step;
        launch.lataccel[j * launch.stride + step] = launch.past_lataccel[from];
        launch.action[j * launch.stride + step] = launch.past_action[from];
      });
      __syncthreads();
    }
  }
  if (const int r = thread_index(); r < R)
    start_or_resume_job<Policies>(launch, drives[r], first_job + r,
                                  twister_words + r * kTwisterWords);

  int64_t step = launch.first;
#pragma unroll 1
  for (; step < launch.end; step++) {
    int *flag = flags + (step & 1) * R;
    if constexpr (Policies) {
      if (step >= kControlStart)
        act<R>(launch, drives, step, act_buffer, a.normed, a.work, a.residual);
    }
    if (const int r = thread_index(); r < R)
      flag[r] = control_step<Policies>(launch, drives[r], step, act_buffer.command + r);
    __syncthreads();
    int any_flags = 0;
    for (int r = 0; r < R; r++) any_flags |= flag[r];
    if ((any_flags & kRunning) == 0) break;

    if ((any_flags & kNeedsNetwork) != 0) {
      gather_network_input<R>(launch, first_job, step, flag, tokens, states);
      __syncthreads();
      forward<R>(launch, a, states, tokens);
      const bool recorded =
          launch.trace != nullptr && step >= launch.trace_first && step < launch.trace_end;
      if (recorded) {
        parallel_for(R * kVocabulary, [&](int i) {
          const int r = i / kVocabulary;
          if ((flag[r] & kNeedsNetwork) != 0)
            traced(launch, first_job + r, step)->logits[i % kVocabulary] = a.work[i];
        });
        __syncthreads();
      }
      softmax<R>(a.work, a.scores, launch.exp == kExpF);
      add_chunks<R>(sums, a.work);
      __syncthreads();
      if (const int r = thread_index(); r < R && (flag[r] & kNeedsNetwork) != 0) {
        sample_lataccel<Policies>(launch, drives[r], step, cdf + r * kVocabulary,
                                  sums + r * kChunks, a.work + r * kVocabulary);
      }
      if (recorded) {
        __syncthreads();
        parallel_for(R * kVocabulary, [&](int i) {
          const int r = i / kVocabulary;
          if ((flag[r] & kNeedsNetwork) != 0) {
            TraceStep *trace = traced(launch, first_job + r, step);
            trace->probs[i % kVocabulary] = a.work[i];
            trace->cdf[i % kVocabulary] = cdf[i] / cdf[r * kVocabulary + kVocabulary - 1];
          }
        });
      }
    }
    if (const int r = thread_index(); r < R)
      append_lataccel<Policies>(launch, drives[r], step, (flag[r] & kNeedsNetwork) != 0);
  }
  if (const int r = thread_index(); r < R) finish_or_pause_job(launch, drives[r], step);
}

}  // namespace lockstep

// lockstep_rollout_r<R> runs blocks of R jobs, by any number of threads that is a
// multiple of 32 up to 256; lockstep_policy_r<R> those with policies of any kind.
#define LOCKSTEP_KERNEL(name, R, policies)                                         \
  extern "C" __global__ void __launch_bounds__(lockstep::kMaxThreads)              \
      name##R(LOCKSTEP_ARGUMENT(lockstep::Launch) launch) {                        \
    LOCKSTEP_SHARED(memory);                                                       \
    lockstep::rollout<R, policies>(launch, reinterpret_cast<float *>(memory));     \
  }
#define LOCKSTEP_ROLLOUT(R) \
  LOCKSTEP_KERNEL(lockstep_rollout_r, R, false) LOCKSTEP_KERNEL(lockstep_policy_r, R, true)

// LOCKSTEP_ONLY=<R> compiles those kernels alone, for builds that make several at
// once; observe.cu and layout.cu are then other parts.
#define LOCKSTEP_ROLLOUT_OF(R) LOCKSTEP_ROLLOUT(R)
#ifdef LOCKSTEP_ONLY
LOCKSTEP_ROLLOUT_OF(LOCKSTEP_ONLY)
#else
LOCKSTEP_VARIANTS(LOCKSTEP_ROLLOUT)
#include "observe.cu"
#include "layout.cu"
#endif
