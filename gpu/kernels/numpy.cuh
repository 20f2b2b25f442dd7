// From logits to a sampled token, as NumPy does it.
#pragma once

#include "launch.h"
#include "numbers.cuh"

namespace lockstep {

// softmax turns R rows of 1024 logits into probabilities in place, at
// temperature 0.8. scratch holds 344·R floats. The block's threads come here
// together, after a barrier, and leave after one.
template <int R>
__device__ __forceinline__ void softmax(const Thread &t, float *rows, float *scratch, bool fused) {
  float *partial = scratch;                 // (R, threads) maxima
  float *maxima = partial + R * 256;        // (R, 16)
  float *sums = maxima + R * 16;            // (R, 8 blocks, 8 running sums)
  float *totals = sums + R * 64;            // (R)

  for (int r = 0; r < R; r++) {
    float m = -__int_as_float(0x7f800000);
    for (int i = t.index; i < kVocabulary; i += t.count) {
      const float v = __fdiv_rn(rows[r * kVocabulary + i], 0x1.99999ap-1f);
      rows[r * kVocabulary + i] = v;
      m = highest(m, v);
    }
    partial[r * t.count + t.index] = m;
  }
  __syncthreads();
  for (int item = t.index; item < R * 16; item += t.count) {
    const float *p = partial + item * (t.count / 16);
    float m = p[0];
    for (int i = 1; i < t.count / 16; i++) m = highest(m, p[i]);
    maxima[item] = m;
  }
  __syncthreads();
  for (int r = 0; r < R; r++) {
    float m = maxima[r * 16];
#pragma unroll
    for (int i = 1; i < 16; i++) m = highest(m, maxima[r * 16 + i]);
    for (int i = t.index; i < kVocabulary; i += t.count) {
      rows[r * kVocabulary + i] = exp_numpy(rows[r * kVocabulary + i] - m, fused);
    }
  }
  __syncthreads();
  // np.sum: 1024 is eight blocks of 128, each of eight running sums.
  for (int item = t.index; item < R * 64; item += t.count) {
    const float *e = rows + (item >> 3) * 128 + (item & 7);
    float s = e[0];
#pragma unroll
    for (int i = 8; i < 128; i += 8) s += e[i];
    sums[item] = s;
  }
  __syncthreads();
  for (int r = t.index; r < R; r += t.count) {
    float b[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const float *s = sums + r * 64 + i * 8;
      b[i] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    }
    totals[r] = 0.0f + (((b[0] + b[1]) + (b[2] + b[3])) + ((b[4] + b[5]) + (b[6] + b[7])));
  }
  __syncthreads();
  for (int i = t.index; i < R * kVocabulary; i += t.count) {
    rows[i] = __fdiv_rn(rows[i], totals[i / kVocabulary]);
  }
  __syncthreads();
}

// cumulate writes the running float64 sum of one row of probabilities, not yet
// divided by the last, which it returns.
__device__ __forceinline__ double cumulate(double *cdf, const float *probs) {
  double total = 0.0;
#pragma unroll 4
  for (int i = 0; i < kVocabulary; i += 4) {
    const float4 p = load4(probs + i);
    total += static_cast<double>(p.x);
    cdf[i] = total;
    total += static_cast<double>(p.y);
    cdf[i + 1] = total;
    total += static_cast<double>(p.z);
    cdf[i + 2] = total;
    total += static_cast<double>(p.w);
    cdf[i + 3] = total;
  }
  return total;
}

// is_distribution is np.random.choice's condition on the sum of probabilities.
// choice adds them compensated; the running sum serves, since softmax gives sums
// within 1e-5 of 1 or NaN.
__device__ __forceinline__ bool is_distribution(double total) {
  const double distance = total - 1.0;
  return distance <= 0.0003452669770922512 && distance >= -0.0003452669770922512;
}

// choose is the first token with draw < cdf/total. The quotients do not
// decrease, so that a binary search finds it.
__device__ __forceinline__ int choose(const double *cdf, double total, double draw) {
  int low = 0, high = kVocabulary;
  while (low < high) {
    const int middle = (low + high) >> 1;
    if (draw < cdf[middle] / total) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace lockstep
