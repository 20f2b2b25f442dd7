// Whole rollouts in one launch: a block owns R jobs and runs them from their first
// step to the costs. Compiled by nvcc for a GPU and by g++, with the shim in cpu,
// for the CPU; both without contraction (-fmad=false, -ffp-contract=off).
#include "launch.h"
#include "weights.h"
#include "layout.cuh"
#include "numbers.cuh"
#include "random.cuh"
#include "tokenizer.cuh"
#include "controllers.cuh"
#include "costs.cuh"
#include "numpy.cuh"
#include "gpt.cuh"

namespace lockstep {

// A Drive is the job of one of the block's first threads, which alone reads and
// writes it. It lies in shared memory, for registers are dear while the network
// runs.
struct Drive {
  int64_t j;           // job
  int64_t base;        // of its histories: j·S
  int64_t first_row;   // of its route in the columns
  int64_t end;         // one past its last step
  int64_t nan;         // the last step whose lataccel is NaN, or -1
  Memory memory;
  double lataccel;     // after the previous step
  double computed;     // the lataccel that this step computed
  int64_t running;
};
static_assert(sizeof(Drive) == kDrive, "layout.cuh has the size");

// fail ends a job.
__device__ __forceinline__ void fail(const Launch &launch, Drive &d, int64_t code, int64_t step, double value) {
  Status *s = launch.status + d.j;
  s->code = code;
  s->step = step;
  s->value = value;
  d.running = 0;
}

// draw_all writes a job's uniforms, made with 624 words of memory.
__noinline__ __device__ void draw_all(const Launch &launch, const Drive &d, uint32_t *words) {
  Twister twister;
  twister.words = words;
  twister.seed(static_cast<uint32_t>(launch.routes[launch.job[d.j].route].seed));
  for (int64_t step = kContext; step < d.end; step++) launch.draws[d.base + step] = twister.uniform();
}

// begin enters the route's own values into the histories, if the rollout begins
// with this launch, and otherwise takes up where it stopped.
__noinline__ __device__ void begin(const Launch &launch, Drive &d, int64_t j, uint32_t *words) {
  d.j = j;
  d.running = 0;
  d.base = d.first_row = d.end = 0;
  d.nan = -1;
  d.memory.error_integral = d.memory.previous_error = d.lataccel = d.computed = 0.0;
  if (j >= launch.jobs || launch.status[j].code != kOK) return;
  const int64_t index = launch.job[j].route;
  const Route &route = launch.routes[index];
  d.base = j * launch.stride;
  d.first_row = route.first;
  d.end = route.rows;
  if ((launch.shortcuts & kStopAtCostEnd) != 0 && d.end > kCostEnd) d.end = kCostEnd;
  d.running = launch.first < d.end ? 1 : 0;
  if (launch.first == kContext) {
    for (int64_t i = 0; i < kContext; i++) {
      launch.lataccel[d.base + i] = launch.target[d.first_row + i];
      launch.action[d.base + i] = launch.steer[index * kControlStart + i];
    }
    if (route.seed >= 0) draw_all(launch, d, words);
  } else if (d.running) {
    d.memory = launch.memory[j];
  }
  if (d.running) {
    for (int64_t i = launch.first - kContext; i < launch.first; i++) {
      d.lataccel = launch.lataccel[d.base + i];
      if (d.lataccel != d.lataccel) d.nan = i;
    }
  }
}

// traced is where a step of a job is recorded, or null.
__device__ __forceinline__ TraceStep *traced(const Launch &launch, int64_t j, int64_t step) {
  if (launch.trace == nullptr || step < launch.trace_first || step >= launch.trace_end) return nullptr;
  return launch.trace + j * (launch.trace_end - launch.trace_first) + (step - launch.trace_first);
}

// control runs the controller and enters its action. It tells whether the network
// is to be run.
__device__ __forceinline__ bool control(const Launch &launch, Drive &d, int64_t step) {
  double action = command(launch, d.j, d.memory, launch.target[d.first_row + step], d.lataccel);
  if (step < kControlStart) action = launch.steer[launch.job[d.j].route * kControlStart + step];
  action = clip(action, -2.0, 2.0);
  TraceStep *trace = traced(launch, d.j, step);
  if (trace != nullptr) trace->action = action;
  if (launch.teacher_action != nullptr) action = launch.teacher_action[d.base + step];
  launch.action[d.base + step] = action;

  if (step < kControlStart && (launch.shortcuts & kSkipWarmup) != 0) return false;
  if (d.nan >= step - kContext) {
    for (int64_t i = step - kContext; i < step; i++) {
      const double x = launch.lataccel[d.base + i];
      if (x != x) {
        fail(launch, d, kNoToken, step, x);
        return false;
      }
    }
  }
  return true;
}

// sample chooses the step's token, if the probabilities are a distribution, and
// computes the lataccel.
__device__ __forceinline__ void sample(const Launch &launch, Drive &d, int64_t step, double *cdf, const float *probs) {
  const double total = cumulate(cdf, probs);
  if (!is_distribution(total)) {
    fail(launch, d, kNotDistribution, step, total);
    return;
  }
  const int token = choose(cdf, total, launch.draws[d.base + step]);
  const double prediction = bin(token);
  if (step >= kControlStart) {
    d.computed = clip(prediction, d.lataccel - 0.5, d.lataccel + 0.5);
  }
  TraceStep *trace = traced(launch, d.j, step);
  if (trace != nullptr) {
    trace->sample = token;
    trace->prediction = prediction;
  }
}

// enter enters the step's lataccel.
__device__ __forceinline__ void enter(const Launch &launch, Drive &d, int64_t step, bool network) {
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
  d.lataccel = launch.teacher_lataccel != nullptr ? launch.teacher_lataccel[d.base + step] : d.computed;
  if (d.lataccel != d.lataccel) d.nan = step;
  launch.lataccel[d.base + step] = d.lataccel;
}

// suspend keeps what the next launch goes on from.
__device__ __forceinline__ void suspend(const Launch &launch, const Drive &d, int64_t step) {
  launch.memory[d.j] = d.memory;
  launch.status[d.j].step = step;
  launch.status[d.j].value = d.lataccel;
}

// finish ends a job at the end of its route, or where its costs end.
__noinline__ __device__ void finish(const Launch &launch, Drive &d) {
  const int end = d.end < kCostEnd ? static_cast<int>(d.end) : kCostEnd;
  costs(launch.costs + 3 * d.j, launch.target + d.first_row, launch.lataccel + d.base, end);
  suspend(launch, d, d.end);
  d.running = 0;
}

// What the block's first threads tell the others about their jobs, in bits.
enum { kRunning = 1, kNetwork = 2 };

// gap is where the next buffer begins.
__device__ __forceinline__ float *gap(float *end) {
  LOCKSTEP_GUARD(end, 4 * kGap);
  return end + kGap;
}

template <int R>
__device__ __forceinline__ void rollout(const Launch &launch, float *memory) {
  typedef Block<R> B;
  const Thread t = this_thread();
  Activations a;
  a.x = memory;
  a.n = gap(a.x + B::kBuffer);
  a.b = gap(a.n + B::kBuffer);
  a.scores = gap(a.b + B::kBuffer);
  float *told = gap(a.scores + B::kScores);
  int *flags = reinterpret_cast<int *>(told);                   // (2, R), of even and of odd steps
  Drive &d = reinterpret_cast<Drive *>(gap(told + B::kFlags))[t.index < R ? t.index : 0];
  int *tokens = reinterpret_cast<int *>(a.scores);              // (rows), until the network runs
  float *states = a.scores + B::kRows;                          // (rows, 4)
  double *cdf = reinterpret_cast<double *>(a.x);                // (R, 1024), after the network ran

  for (int i = t.index; i < (B::kPadded - B::kRows) * B::kStride; i += t.count) {
    a.x[B::kRows * B::kStride + i] = a.n[B::kRows * B::kStride + i] = a.b[B::kRows * B::kStride + i] = 0.0f;
  }
  const int64_t first_job = static_cast<int64_t>(blockIdx.x) * R;
  if (t.index < R) {
    begin(launch, d, first_job + t.index, reinterpret_cast<uint32_t *>(a.x) + t.index * kTwisterWords);
  }

  int64_t step = launch.first;
  for (; step < launch.end; step++) {
    int *flag = flags + (step & 1) * R;
    if (t.index < R) {
      const bool network = d.running != 0 && control(launch, d, step);
      flag[t.index] = (d.running != 0 ? kRunning : 0) | (network ? kNetwork : 0);
    }
    __syncthreads();
    int any = 0;
    for (int r = 0; r < R; r++) any |= flag[r];
    if ((any & kRunning) == 0) break;

    if ((any & kNetwork) != 0) {
      for (int row = t.index; row < B::kRows; row += t.count) {
        const int r = row / kContext, i = row % kContext;
        int token = 0;
        float4 state = zero4();
        if ((flag[r] & kNetwork) != 0) {
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
      __syncthreads();
      forward<R>(t, launch, a, states, tokens);
      const bool recorded = launch.trace != nullptr && step >= launch.trace_first && step < launch.trace_end;
      if (recorded) {
        for (int i = t.index; i < R * kVocabulary; i += t.count) {
          const int r = i / kVocabulary;
          if ((flag[r] & kNetwork) != 0) traced(launch, first_job + r, step)->logits[i % kVocabulary] = a.b[i];
        }
        __syncthreads();
      }
      softmax<R>(t, a.b, a.scores, launch.exp == kExpF);
      if (t.index < R && (flag[t.index] & kNetwork) != 0) {
        sample(launch, d, step, cdf + t.index * kVocabulary, a.b + t.index * kVocabulary);
      }
      if (recorded) {
        __syncthreads();
        for (int i = t.index; i < R * kVocabulary; i += t.count) {
          const int r = i / kVocabulary;
          if ((flag[r] & kNetwork) != 0) {
            TraceStep *trace = traced(launch, first_job + r, step);
            trace->probs[i % kVocabulary] = a.b[i];
            trace->cdf[i % kVocabulary] = cdf[i] / cdf[r * kVocabulary + kVocabulary - 1];
          }
        }
      }
    }
    if (t.index < R && d.running != 0) {
      enter(launch, d, step, (flag[t.index] & kNetwork) != 0);
      if (step + 1 == d.end) finish(launch, d);
    }
  }
  if (t.index < R && d.running != 0) suspend(launch, d, step);
}

}  // namespace lockstep

// lockstep_rollout_r<R> runs blocks of R jobs, by any number of threads that is a
// multiple of 32 up to 256.
#define LOCKSTEP_ROLLOUT(R)                                                          \
  extern "C" __global__ void __launch_bounds__(lockstep::kMaxThreads)                \
      lockstep_rollout_r##R(const lockstep::Launch *launch) {                        \
    LOCKSTEP_SHARED(memory);                                                         \
    lockstep::rollout<R>(*launch, reinterpret_cast<float *>(memory));                \
  }

// The CPU's compiler takes each in a file of its own, several at once.
#if !defined(LOCKSTEP_ONLY) || LOCKSTEP_ONLY == 1
LOCKSTEP_ROLLOUT(1)
#endif
#if !defined(LOCKSTEP_ONLY) || LOCKSTEP_ONLY == 2
LOCKSTEP_ROLLOUT(2)
#endif
#if !defined(LOCKSTEP_ONLY) || LOCKSTEP_ONLY == 4
LOCKSTEP_ROLLOUT(4)
#endif
#if !defined(LOCKSTEP_ONLY) || LOCKSTEP_ONLY == 5
LOCKSTEP_ROLLOUT(5)
#endif
#if !defined(LOCKSTEP_ONLY) || LOCKSTEP_ONLY == 6
LOCKSTEP_ROLLOUT(6)
#endif

#if !defined(LOCKSTEP_ONLY) || LOCKSTEP_ONLY == 0
#define LOCKSTEP_VARIANT(R) R, lockstep::Block<R>::kShared

// lockstep_layout is what the host checks and chooses by: the version, the sizes
// of Route, Job, Status, Memory, TraceStep and Launch, the number of weights, the
// most threads of a block, the number of kernels, and for each the jobs and the
// bytes of shared memory of a block.
extern "C" {
__device__ int64_t lockstep_layout[] = {
    lockstep::kVersion,
    sizeof(lockstep::Route), sizeof(lockstep::Job), sizeof(lockstep::Status),
    sizeof(lockstep::Memory), sizeof(lockstep::TraceStep), sizeof(lockstep::Launch),
    lockstep::kWeights, lockstep::kMaxThreads,
    5,
    LOCKSTEP_VARIANT(1), LOCKSTEP_VARIANT(2), LOCKSTEP_VARIANT(4), LOCKSTEP_VARIANT(5), LOCKSTEP_VARIANT(6),
};
}
#endif
