// From a network's answer to an action: softplus, the mean of a Beta distribution, and
// variates of it by Cheng's algorithm BB. Series of float64, one rounding an operation;
// a division is a division.
#pragma once

#include "numbers.cuh"

namespace lockstep {

constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;

template <int N>
struct Factorial {
  static constexpr double value = N * Factorial<N - 1>::value;
};
template <>
struct Factorial<0> {
  static constexpr double value = 1.0;
};

// exp_series continues a Horner scheme with 1/N!, … 1/1!, 1/0!.
template <int N>
__device__ __forceinline__ double exp_series(double p, double r) {
  if constexpr (N < 0) {
    return p;
  } else {
    return exp_series<N - 1>(__dmul_rn(p, r) + 1.0 / Factorial<N>::value, r);
  }
}

// exponential is e^x, for x from -700 to 700.
__device__ __forceinline__ double exponential(double x) {
  const double shifter = 6755399441055744.0;
  const double k = (__dmul_rn(x, 1.4426950408889634) + shifter) - shifter;
  const double r = (x - __dmul_rn(k, kLn2High)) - __dmul_rn(k, kLn2Low);
  const double p = exp_series<12>(1.0 / Factorial<13>::value, r);
  return __dmul_rn(p, __longlong_as_double((k != k ? 0 : static_cast<int64_t>(k) + 1023) << 52));
}

// log_series continues one with 2/N, 2/(N-2), … 2/1.
template <int N>
__device__ __forceinline__ double log_series(double p, double q) {
  if constexpr (N < 1) {
    return p;
  } else {
    return log_series<N - 2>(__dmul_rn(p, q) + 2.0 / N, q);
  }
}

// log_quotient is log((1+s)/(1-s)).
__device__ __forceinline__ double log_quotient(double s) {
  return __dmul_rn(s, log_series<33>(2.0 / 35, __dmul_rn(s, s)));
}

// logarithm is that of a normal x > 0.
__noinline__ __device__ double logarithm(double x) {
  const int64_t bits = __double_as_longlong(x);
  int64_t k = (bits >> 52) - 1023;
  double m = __longlong_as_double((bits & ((INT64_C(1) << 52) - 1)) | (INT64_C(1023) << 52));
  if (m >= 1.4142135623730951) {
    m = __dmul_rn(m, 0.5);
    k++;
  }
  const double f = m - 1.0, e = static_cast<double>(k);
  return __dmul_rn(e, kLn2High) + (__dmul_rn(e, kLn2Low) + log_quotient(f / (2.0 + f)));
}

// softplus is log(1 + e^x).
__noinline__ __device__ float softplus(float x) {
  const double z = static_cast<double>(x), n = z < 0.0 ? -z : z;
  const double t = exponential(-(n > 700.0 ? 700.0 : n));
  const double l = log_quotient(t / (2.0 + t));
  return static_cast<float>(z > 0.0 ? z + l : l);
}

// mean_action is the mean of Beta(1+sp0, 1+sp1), between -1 and 1.
__device__ __forceinline__ double mean_action(const float *sp) {
  const double a = 1.0 + static_cast<double>(sp[0]), b = 1.0 + static_cast<double>(sp[1]);
  return __dmul_rn(2.0, a) / (a + b) - 1.0;
}

// philox is Philox4x32-10: four random words of a counter, in place, and a key.
__device__ __forceinline__ void philox(uint32_t (&c)[4], uint64_t key) {
  uint32_t low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
#pragma unroll 1
  for (int round = 0; round < 10; round++) {
    const uint64_t a = static_cast<uint64_t>(c[0]) * 0xd2511f53u,
                   b = static_cast<uint64_t>(c[2]) * 0xcd9e8d57u;
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c1 ^ low;
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c3 ^ high;
    c[3] = static_cast<uint32_t>(a);
    low += 0x9e3779b9u;
    high += 0xbb67ae85u;
  }
}

// open_uniform is inside (0, 1), and exact, as is 1 less it.
__device__ __forceinline__ double open_uniform(uint32_t high, uint32_t low) {
  const uint64_t n = static_cast<uint64_t>(high) << 20 | low >> 12;
  return __dmul_rn(static_cast<double>(n) + 0.5, 0x1p-52);
}

// beta_variate is a variate of Beta(1+sp0, 1+sp1), a function of what is given alone.
__noinline__ __device__ float beta_variate(const float *sp, uint64_t seed, uint64_t id,
                                           int64_t step) {
  const bool swapped = sp[0] > sp[1];
  const double s = static_cast<double>(swapped ? sp[1] : sp[0]),
               t = static_cast<double>(swapped ? sp[0] : sp[1]);
  const double a = 1.0 + s, b = 1.0 + t, al = a + b, q = s + t;
  const double lam = q > 0.0 ? __dsqrt_rn(q / (q + __dmul_rn(2.0, __dmul_rn(s, t)))) : 1.0;
  const double ga = a + 1.0 / lam;
  double x = a / al;  // should no attempt be accepted
#pragma unroll 1
  for (uint32_t attempt = 0; attempt < 32; attempt++) {
    uint32_t words[4] = {attempt, static_cast<uint32_t>(step), static_cast<uint32_t>(id),
                         static_cast<uint32_t>(id >> 32)};
    philox(words, seed);
    const double u1 = open_uniform(words[0], words[1]), u2 = open_uniform(words[2], words[3]);
    double v = __dmul_rn(lam, logarithm(u1 / (1.0 - u1)));
    if (v > 600.0) v = 600.0;
    const double w = __dmul_rn(a, exponential(v));
    const double least = logarithm(__dmul_rn(__dmul_rn(u1, u1), u2));
    const double r = __dmul_rn(ga, v) - 1.3862943611198906;
    if ((a + r) - w >= least || r + __dmul_rn(al, logarithm(al / (b + w))) >= least) {
      x = w / (b + w);
      break;
    }
  }
  if (swapped) x = 1.0 - x;
  const float y = static_cast<float>(x);
  return y < 1e-6f ? 1e-6f : y > 0.999999f ? 0.999999f : y;
}

}  // namespace lockstep
