// Gymnasium's classic control environments: a thread an environment, its state in
// registers, many steps a launch, with resets inside.
#include "dynamics.cuh"

namespace lockstep::classic {

__device__ __forceinline__ int64_t this_environment() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ Generator load_generator(const Launch &l, int64_t e, int64_t n) {
  return Generator{l.generator[e], l.generator[n + e], l.generator[2 * n + e],
                   l.generator[3 * n + e]};
}

__device__ __forceinline__ void store_generator(const Launch &l, int64_t e, int64_t n,
                                                const Generator &g) {
  l.generator[e] = g.hi;
  l.generator[n + e] = g.lo;
  l.generator[2 * n + e] = g.inc_hi;
  l.generator[3 * n + e] = g.inc_lo;
}

template <class E>
__device__ __forceinline__ void load(const Launch &l, int64_t e, E &env) {
  for (int k = 0; k < E::kState; k++) env.s[k] = l.state[k * l.num + e];
}

template <class E>
__device__ __forceinline__ void store(const Launch &l, int64_t e, const E &env, int32_t flags) {
  for (int k = 0; k < E::kState; k++) l.state[k * l.num + e] = env.s[k];
  l.flags[e] = flags;
}

// largest is the action that a network's outputs stand for.
__device__ __forceinline__ Action largest(const Launch &l, const float *y) {
  int best = 0;
  for (int j = 1; j < l.widths[l.layers]; j++) {
    if (y[j] > y[best]) best = j;
  }
  return Action{best, y[0]};
}

// drawn is largest with noise.
__device__ __noinline__ Action drawn(const Launch &l, int64_t e, uint32_t step, float *y) {
  const Words words = philox(static_cast<uint32_t>(e), step, l.key);
  for (int j = 0; j < l.widths[l.layers]; j++)
    y[j] += l.noise[static_cast<uint64_t>(words.w[j]) >> l.noise_shift];
  return largest(l, y);
}

// network is the policy's outputs for an observation; the last layer's lie in the
// buffer that it returns.
template <class E>
__device__ __noinline__ Action forward(const Launch &l, int64_t e, uint32_t step, const float *o) {
  float buffer[2][kMaxWidth];
  for (int k = 0; k < E::kObservation; k++) buffer[0][k] = o[k];
  const float *w = l.network;
  int from = 0;
  for (int layer = 0; layer < l.layers; layer++, from ^= 1) {
    const int inputs = static_cast<int>(l.widths[layer]),
              outputs = static_cast<int>(l.widths[layer + 1]);
    const float *bias = w + inputs * outputs;
    for (int j = 0; j < outputs; j++) {
      float y = bias[j];
      for (int k = 0; k < inputs; k++) y += __fmul_rn(w[j * inputs + k], buffer[from][k]);
      if (layer + 1 < l.layers && !(y > 0)) y = 0;
      buffer[from ^ 1][j] = y;
    }
    w = bias + outputs;
  }
  return l.noise == nullptr ? largest(l, buffer[from]) : drawn(l, e, step, buffer[from]);
}

// Chooser chooses the actions of one environment.
template <class E>
struct Chooser {
  Words words;
  int64_t block = -1;

  __device__ __forceinline__ Action operator()(const Launch &l, int64_t e, int64_t step,
                                               const float *o) {
    if (l.policy == kRecorded) {
      const int64_t at = step * l.num + e;
      return l.actions > 0 ? Action{l.discrete[at], 0} : Action{0, l.continuous[at]};
    }
    const uint32_t t = static_cast<uint32_t>(l.first + step);
    if (l.policy == kNetwork) return forward<E>(l, e, t, o);
    const uint32_t per = l.actions == 2 ? 128 : 4;
    if (block != t / per) {
      block = t / per;
      words = philox(static_cast<uint32_t>(e), t / per, l.key);
    }
    if (l.actions == 2) return Action{static_cast<int>(word(t % 128 / 32) >> (t % 32) & 1), 0};
    const uint32_t w = word(t % 4);
    if (l.actions > 0)
      return Action{static_cast<int>(__umulhi(w, static_cast<uint32_t>(l.actions))), 0};
    const float limit = static_cast<float>(l.action_limit);
    return Action{0, __fmul_rn(static_cast<float>(w >> 8) * 0x1p-24f, 2 * limit) - limit};
  }

  // word does not index, which would put the words into memory.
  __device__ __forceinline__ uint32_t word(uint32_t i) const {
    return i == 0 ? words.w[0] : i == 1 ? words.w[1] : i == 2 ? words.w[2] : words.w[3];
  }
};

// answer writes what a step has computed; row is the place of the step's first number.
template <class E>
__device__ __forceinline__ void answer(const Launch &l, int64_t e, int64_t row, const E &env,
                                       const float *o, Action a, double reward, bool terminated,
                                       bool truncated) {
  const int64_t n = l.num, at = row + e;
  if (l.policy != kRecorded && l.discrete != nullptr) l.discrete[at] = a.discrete;
  if (l.policy != kRecorded && l.continuous != nullptr) l.continuous[at] = a.continuous;
  if (l.states != nullptr) {
    for (int k = 0; k < E::kState; k++) l.states[row * E::kState + k * n + e] = env.s[k];
  }
  if (l.observations != nullptr) {
    for (int k = 0; k < E::kObservation; k++)
      l.observations[row * E::kObservation + k * n + e] = o[k];
  }
  if (l.rewards != nullptr) l.rewards[at] = reward;
  if (l.terminated != nullptr) l.terminated[at] = terminated ? 1 : 0;
  if (l.truncated != nullptr) l.truncated[at] = truncated ? 1 : 0;
}

// steps runs one environment.
template <class E>
__device__ __forceinline__ void steps(const Launch &l) {
  const int64_t e = this_environment(), n = l.num;
  if (e >= n) return;
  E env;
  load(l, e, env);
  Generator g{};
  if (l.shared == 0) g = load_generator(l, e, n);
  int32_t flags = l.flags[e], elapsed = l.elapsed[e];
  double total = l.total[e];
  int64_t episodes = l.episodes[e];
  float o[E::kObservation];
  for (int k = 0; k < E::kObservation; k++) o[k] = l.observation[k * n + e];
  Chooser<E> choose;
  for (int64_t step = 0, row = 0; step < l.steps; step++, row += n) {
    const Action a = choose(l, e, step, o);
    double reward = 0;
    bool terminated = false, truncated = false;
    if ((flags & kEnded) != 0 && l.autoreset == kNextStep && l.shared == 0) {
      env.reset(g, l, flags);
      elapsed = 0;
      env.observe(l, flags, o);
    } else {
      const Outcome out = env.step(l, a, flags);
      elapsed++;
      if ((flags & kEnded) == 0 || l.shared == 0) {
        reward = out.reward;
        terminated = out.terminated;
        truncated = elapsed >= l.limit;
      } else {
        flags |= kWide;  // to be reset from the shared generator
      }
      env.observe(l, flags, o);
      flags &= ~kEnded;
      if (terminated && l.autoreset == kOff) flags |= kFallen;
      if (terminated || truncated) {
        episodes++;
        flags |= kEnded;
        if (l.autoreset == kSameStep) {
          if (l.final_observations != nullptr) {
            for (int k = 0; k < E::kObservation; k++)
              l.final_observations[(step * E::kObservation + k) * n + e] = o[k];
          }
          env.reset(g, l, flags);
          elapsed = 0;
          env.observe(l, flags, o);
        }
      }
    }
    total += reward;
    answer(l, e, row, env, o, a, reward, terminated, truncated);
  }
  store(l, e, env, flags);
  if (l.shared == 0) store_generator(l, e, n, g);
  l.elapsed[e] = elapsed;
  l.total[e] = total;
  l.episodes[e] = episodes;
  for (int k = 0; k < E::kObservation; k++) l.observation[k * n + e] = o[k];
}

// resets starts episodes of one environment.
template <class E>
__device__ __forceinline__ void resets(const Launch &l) {
  const int64_t e = this_environment(), n = l.num;
  if (e >= n || (l.mask != nullptr && l.mask[e] == 0)) return;
  Generator g =
      l.seeds[e] >= 0 ? seeded(static_cast<uint64_t>(l.seeds[e])) : load_generator(l, e, n);
  E env;
  int32_t flags = 0;
  env.reset(g, l, flags);
  float o[E::kObservation];
  env.observe(l, flags, o);
  for (int k = 0; k < E::kObservation; k++) l.observation[k * n + e] = o[k];
  l.elapsed[e] = 0;
  store(l, e, env, flags);
  store_generator(l, e, n, g);
}

}  // namespace lockstep::classic

#define LOCKSTEP_CLASSIC(name, Env)                                                             \
  extern "C" __global__ void __launch_bounds__(128)                                             \
      lockstep_steps_##name(LOCKSTEP_ARGUMENT(lockstep::classic::Launch) l) {                   \
    lockstep::classic::steps<lockstep::classic::Env>(l);                                        \
  }                                                                                             \
  extern "C" __global__ void                                                                    \
      lockstep_reset_##name(LOCKSTEP_ARGUMENT(lockstep::classic::Launch) l) {                   \
    lockstep::classic::resets<lockstep::classic::Env>(l);                                       \
  }

LOCKSTEP_CLASSIC(cart_pole, CartPole)
LOCKSTEP_CLASSIC(mountain_car, MountainCar)
LOCKSTEP_CLASSIC(mountain_car_continuous, MountainCarContinuous)
LOCKSTEP_CLASSIC(pendulum, Pendulum)
LOCKSTEP_CLASSIC(acrobot, Acrobot)

// lockstep_reset_shared draws, with the generator that all environments share, the
// states of those that are marked, value by value; with a seed, those of all. One
// thread does it, since every draw follows the one before.
extern "C" __global__ void lockstep_reset_shared(LOCKSTEP_ARGUMENT(lockstep::classic::Launch) l) {
  using namespace lockstep::classic;
  const bool all = l.seeds != nullptr;
  Generator g =
      all && l.seeds[0] >= 0 ? seeded(static_cast<uint64_t>(l.seeds[0])) : load_generator(l, 0, 1);
  for (int k = 0; k < 4; k++) {
    for (int64_t e = 0; e < l.num; e++) {
      if (!all && (l.flags[e] & kWide) == 0) continue;
      const double x = g.uniform(l.low[k], l.width[k]);
      l.state[k * l.num + e] = x;
      l.observation[k * l.num + e] = static_cast<float>(x);
      if (!all && l.states != nullptr) l.states[k * l.num + e] = x;
      if (!all && l.observations != nullptr) l.observations[k * l.num + e] = static_cast<float>(x);
      if (k < 3) continue;
      l.elapsed[e] = 0;
      l.flags[e] = 0;
    }
  }
  store_generator(l, 0, 1, g);
}

extern "C" {
// The size of what the host passes, which it checks.
__device__ int64_t lockstep_classic_layout[] = {sizeof(lockstep::classic::Launch)};
}
