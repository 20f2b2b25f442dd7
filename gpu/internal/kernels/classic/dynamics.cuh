// The five environments. Each has its state in registers; step computes one step.
#pragma once

#include "random.cuh"

namespace lockstep::classic {

struct Action {
  int discrete;
  float continuous;
};

struct Outcome {
  double reward;
  bool terminated;
};

// CartPole is CartPoleEnv, and CartPoleVectorEnv's dynamics.
struct CartPole {
  enum { kState = 4, kObservation = 4, kDraws = 4 };
  double s[4];  // x, velocity, angle, angular velocity

  __device__ void reset(Generator &g, const Launch &l, int32_t &flags) {
    for (int k = 0; k < 4; k++) s[k] = g.uniform(l.low[k], l.width[k]);
    flags = 0;
  }

  // over is x / 1.1: the product with the nearest double to 1/1.1, corrected by its
  // rest, is the quotient correctly rounded (Markstein). Where x is infinite there is
  // no rest.
  __device__ static double over(double x) {
    const double y = 1.0 / 1.1, q = x * y, rest = fma(-q, 1.1, x);
    return rest == rest ? fma(rest, y, q) : q;
  }

  __device__ Outcome step(const Launch &l, Action a, int32_t &flags) {
    const double force = a.discrete == 1 ? 10.0 : -10.0;
    const SineCosine both = sine_cosine(l, s[2]);
    const double c = both.cosine, n = both.sine;
    const double pml = 0.1 * 0.5;
    const double temp = over(force + (pml * (s[3] * s[3])) * n);
    const double angular = (9.8 * n - c * temp) / (0.5 * (4.0 / 3.0 - over(0.1 * (c * c))));
    const double linear = temp - over((pml * angular) * c);
    if (l.semi_implicit != 0) {
      s[1] += 0.02 * linear;
      s[0] += 0.02 * s[1];
      s[3] += 0.02 * angular;
      s[2] += 0.02 * s[3];
    } else {
      s[0] += 0.02 * s[1];
      s[1] += 0.02 * linear;
      s[2] += 0.02 * s[3];
      s[3] += 0.02 * angular;
    }
    const double limit = 24 * kPi / 360;
    const bool terminated = s[0] < -2.4 || s[0] > 2.4 || s[2] < -limit || s[2] > limit;
    double reward = 1;
    if (l.sutton_barto != 0) {
      reward = terminated ? -1.0 : l.shared != 0 ? -0.0 : 0.0;
    } else if (terminated && (flags & kFallen) != 0) {
      reward = 0;
    }
    return {reward, terminated};
  }

  __device__ void observe(const Launch &, int32_t, float *o) const {
    for (int k = 0; k < 4; k++) o[k] = static_cast<float>(s[k]);
  }
};

struct MountainCar {
  enum { kState = 2, kObservation = 2, kDraws = 1 };
  double s[2];  // position, velocity

  __device__ void reset(Generator &g, const Launch &l, int32_t &flags) {
    s[0] = g.uniform(l.low[0], l.width[0]);
    s[1] = 0;
    flags = kWide;
  }

  __device__ Outcome step(const Launch &l, Action a, int32_t &) {
    double v = s[1] + ((a.discrete - 1) * 0.001 + cosine(l, 3 * s[0]) * -0.0025);
    v = clip(v, -0.07, 0.07);
    const double p = clip(s[0] + v, -1.2, 0.6);
    if (p == -1.2 && v < 0) v = 0;
    s[0] = p;
    s[1] = v;
    return {-1, p >= 0.5 && v >= l.goal_velocity};
  }

  __device__ void observe(const Launch &, int32_t, float *o) const {
    o[0] = static_cast<float>(s[0]);
    o[1] = static_cast<float>(s[1]);
  }
};

struct MountainCarContinuous : MountainCar {
  __device__ Outcome step(const Launch &l, Action a, int32_t &flags) {
    const bool wide = (flags & kWide) != 0 || l.numpy1 != 0;
    flags &= ~kWide;
    const bool terminated = wide ? step64(l, a.continuous) : step32(l, a.continuous);
    const double x = static_cast<double>(a.continuous);
    return {(terminated ? 100.0 : 0.0) - (x * x) * 0.1, terminated};
  }

  // pull is force·power - 0.0025·cos(angle): a float32 unless the force is clipped.
  __device__ double pull(const Launch &l, float a, double angle) const {
    const double slope = 0.0025 * cosine(l, angle);
    if (a > 1) return 0.0015 - slope;
    if (a < -1) return -0.0015 - slope;
    if (l.numpy1 != 0) return static_cast<double>(a) * 0.0015 - slope;
    return static_cast<double>(__fmul_rn(a, 0.0015f) - static_cast<float>(slope));
  }

  __device__ bool step64(const Launch &l, float a) {
    double v = clip(s[1] + pull(l, a, 3 * s[0]), -0.07, 0.07);
    const double p = clip(s[0] + v, -1.2, 0.6);
    if (p == -1.2 && v < 0) v = 0;
    s[0] = single(p);
    s[1] = single(v);
    return p >= 0.45 && v >= l.goal_velocity;
  }

  // A limit that replaces the velocity meets the goal as a float64.
  __device__ bool step32(const Launch &l, float a) {
    const float p0 = static_cast<float>(s[0]);
    float v =
        static_cast<float>(s[1]) + static_cast<float>(pull(l, a, static_cast<double>(3 * p0)));
    bool fast = v >= static_cast<float>(l.goal_velocity);
    if (v > 0.07f) {
      v = 0.07f;
      fast = 0.07 >= l.goal_velocity;
    } else if (v < -0.07f) {
      v = -0.07f;
      fast = -0.07 >= l.goal_velocity;
    }
    const float p = clip(p0 + v, -1.2f, 0.6f);
    if (p == -1.2f && v < 0) v = 0;
    s[0] = static_cast<double>(p);
    s[1] = static_cast<double>(v);
    return p >= 0.45f && fast;
  }
};

struct Pendulum {
  enum { kState = 2, kObservation = 3, kDraws = 2 };
  double s[2];  // angle, angular velocity

  __device__ void reset(Generator &g, const Launch &l, int32_t &flags) {
    for (int k = 0; k < 2; k++) s[k] = g.uniform(l.low[k], l.width[k]);
    flags = 0;
  }

  __device__ Outcome step(const Launch &l, Action a, int32_t &) {
    const float u = clip(a.continuous, -2.0f, 2.0f);
    double effort, torque;
    if (l.numpy1 != 0) {
      const double wide = static_cast<double>(u);
      effort = 0.001 * (wide * wide);
      torque = 3 * wide;
    } else {
      effort = static_cast<double>(__fmul_rn(0.001f, square32(l, u)));
      torque = static_cast<double>(__fmul_rn(3.0f, u));
    }
    const double n = remainder_of(s[0] + kPi, 2 * kPi, 1 / (2 * kPi)) - kPi;
    const double cost = (square(l, n) + 0.1 * square(l, s[1])) + effort;
    const double v = s[1] + ((3 * l.gravity / 2) * sine(l, s[0]) + torque) * 0.05;
    s[1] = clip(v, -8.0, 8.0);
    s[0] += s[1] * 0.05;
    return {-cost, false};
  }

  __device__ void observe(const Launch &l, int32_t, float *o) const {
    o[0] = static_cast<float>(cosine(l, s[0]));
    o[1] = static_cast<float>(sine(l, s[0]));
    o[2] = static_cast<float>(s[1]);
  }
};

struct Acrobot {
  enum { kState = 4, kObservation = 6, kDraws = 4 };
  double s[4];  // angles of both joints, their velocities

  __device__ void reset(Generator &g, const Launch &l, int32_t &flags) {
    for (int k = 0; k < 4; k++) s[k] = single(g.uniform(l.low[k], l.width[k]));
    flags = kWide;
  }

  __device__ __noinline__ static void derivative(const Launch &l, double torque, const double *y,
                                                 double *d) {
    const double c2 = cosine(l, y[1]), s2 = sine(l, y[1]);
    const double d1 = ((0.25 + (1.25 + c2)) + 1) + 1, d2 = (0.25 + 0.5 * c2) + 1;
    const double phi2 = (0.5 * 9.8) * cosine(l, (y[0] + y[1]) - kPi / 2);
    const double phi1 = ((((-0.5 * square(l, y[3])) * s2) - (y[3] * y[2]) * s2) +
                         (1.5 * 9.8) * cosine(l, y[0] - kPi / 2)) + phi2;
    double sum = torque + (d2 / d1) * phi1;
    if (l.nips == 0) sum = sum - (0.5 * square(l, y[2])) * s2;
    const double second = (sum - phi2) / (1.25 - square(l, d2) / d1);
    d[0] = y[2];
    d[1] = y[3];
    d[2] = -(d2 * second + phi1) / d1;
    d[3] = second;
  }

  __device__ static double wrap(double x) {
    while (x > kPi) x -= 2 * kPi;
    while (x < -kPi) x += 2 * kPi;
    return x;
  }

  __device__ Outcome step(const Launch &l, Action a, int32_t &flags) {
    const double torque = a.discrete - 1;
    const double dt = 0.2;
    double y[4], d[4], sum[4];
    for (int k = 0; k < 4; k++) y[k] = s[k];
    for (int stage = 0; stage < 4; stage++) {
      derivative(l, torque, y, d);
      const double reach = stage == 2 ? dt : dt / 2, weight = stage == 0 || stage == 3 ? 1.0 : 2.0;
      for (int k = 0; k < 4; k++) {
        sum[k] = stage == 0 ? d[k] : sum[k] + weight * d[k];
        y[k] = s[k] + reach * d[k];
      }
    }
    for (int k = 0; k < 4; k++) s[k] += dt / 6 * sum[k];
    s[0] = wrap(s[0]);
    s[1] = wrap(s[1]);
    s[2] = clip(s[2], -(4 * kPi), 4 * kPi);
    s[3] = clip(s[3], -(9 * kPi), 9 * kPi);
    flags &= ~kWide;
    const bool terminated = -cosine(l, s[0]) - cosine(l, s[1] + s[0]) > 1;
    return {terminated ? 0.0 : -1.0, terminated};
  }

  __device__ void observe(const Launch &l, int32_t flags, float *o) const {
    for (int k = 0; k < 2; k++) {
      if ((flags & kWide) != 0) {
        o[2 * k] = quarter32(static_cast<float>(s[k]), 1);
        o[2 * k + 1] = quarter32(static_cast<float>(s[k]), 0);
      } else {
        o[2 * k] = static_cast<float>(cosine(l, s[k]));
        o[2 * k + 1] = static_cast<float>(sine(l, s[k]));
      }
      o[4 + k] = static_cast<float>(s[2 + k]);
    }
  }
};

}  // namespace lockstep::classic
