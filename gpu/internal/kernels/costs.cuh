// The costs of a rollout, in np.sum's pairwise order.
#pragma once

#include "launch.h"
#include "numbers.cuh"

namespace lockstep {

// Squares are (a - b) / unit, squared: of what is summed, element i.
struct Squares {
  const double *a, *b;
  double unit;
  __device__ __forceinline__ double operator()(int i) const {
    const double d = (a[i] - b[i]) / unit;
    return __dmul_rn(d, d);
  }
};

// pairwise_block adds n <= 128 elements from first on: eight running sums, or
// one from -0 if they are fewer than eight.
template <class Elements>
__noinline__ __device__ double pairwise_block(const Elements &a, int first, int n) {
  if (n < 8) {
    double s = -0.0;
    for (int i = 0; i < n; i++) s += a(first + i);
    return s;
  }
  // One sum after the other, and pairs of them as they come: a block ends once, and this
  // takes a fifth of the code of eight sums side by side.
  double one = 0.0, two = 0.0, s = 0.0;
  const int eights = n / 8 * 8;
#pragma unroll 1
  for (int j = 0; j < 8; j++) {
    double r = a(first + j);
#pragma unroll 1
    for (int i = j + 8; i < eights; i += 8) r += a(first + i);
    if ((j & 1) == 0) {
      one = r;
    } else if ((j & 2) == 0) {
      two = one + r;
    } else {
      r = two + (one + r);
      s = j == 3 ? r : s + r;
    }
  }
#pragma unroll 1
  for (int i = eights; i < n; i++) s += a(first + i);
  return s;
}

// pairwise halves what is above 128 elements, up to Depth times.
template <int Depth, class Elements>
__device__ double pairwise(const Elements &a, int first, int n) {
  if constexpr (Depth > 0) {
    if (n > 128) {
      int half = n / 2;
      half -= half % 8;
      return pairwise<Depth - 1>(a, first, half) + pairwise<Depth - 1>(a, first + half, n - half);
    }
  }
  return pairwise_block(a, first, n);
}

// mean is np.mean of n <= 400 elements; NaN of none.
template <class Elements>
__device__ double mean(const Elements &a, int n) {
  return (0.0 + pairwise<2>(a, 0, n)) / static_cast<double>(n);
}

// costs writes the costs of steps kControlStart to end-1 of a route.
inline __device__ void costs(double *out, const double *target, const double *lataccel, int end) {
  const int n = end - kControlStart;
  target += kControlStart;
  lataccel += kControlStart;
  // A division by 1 changes no bit, and one kind of sum is half the code of two.
  const double lat = mean(Squares{target, lataccel, 1.0}, n) * kCostScale;
  const double jerk = mean(Squares{lataccel + 1, lataccel, kTimeStep}, n - 1) * kCostScale;
  out[0] = lat;
  out[1] = jerk;
  out[2] = __dmul_rn(lat, kLataccelWeight) + jerk;
}

// step_cost is the part of the total cost that a step from kControlStart on has, of a
// route of so many rows, with the lataccels after it and before it.
inline __device__ double step_cost(int64_t rows, int64_t step, double target, double lataccel,
                                   double before) {
  const double n = static_cast<double>((rows < kCostEnd ? rows : kCostEnd) - kControlStart);
  const double e = target - lataccel;
  double cost = __dmul_rn(kLataccelWeight * kCostScale / n, __dmul_rn(e, e));
  if (step > kControlStart) {
    const double jerk = (lataccel - before) / kTimeStep;
    cost += __dmul_rn(kCostScale / (n - 1.0), __dmul_rn(jerk, jerk));
  }
  return cost;
}

}  // namespace lockstep
