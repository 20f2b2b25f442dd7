// From logits to a sampled token, as NumPy does it.
#pragma once

#include "launch.h"
#include "numbers.cuh"

namespace lockstep {

// softmax turns R rows of 1024 logits into probabilities in place, at
// temperature 0.8. scratch holds 344·R floats. The block's threads come here
// together, after a barrier, and leave after one.
template <int R>
__device__ __forceinline__ void softmax(float *rows, float *scratch, bool fused) {
  const Thread t = this_thread();
  float *partial = scratch;                 // (R, threads) maxima
  float *maxima = partial + R * 256;        // (R, 16)
  float *sums = maxima + R * 16;            // (R, 8 blocks, 8 running sums)
  float *totals = sums + R * 64;            // (R)

#pragma unroll 1
  for (int r = 0; r < R; r++) {
    float m = -__int_as_float(0x7f800000);
    for (int i = t.index; i < kVocabulary; i += t.count) {
      const float v = __fdiv_rn(rows[r * kVocabulary + i], kTemperature);
      rows[r * kVocabulary + i] = v;
      m = highest(m, v);
    }
    partial[r * t.count + t.index] = m;
  }
  __syncthreads();
#pragma unroll 1
  for (int item = t.index; item < R * 16; item += t.count) {
    const float *p = partial + item * (t.count / 16);
    float m = p[0];
    for (int i = 1; i < t.count / 16; i++) m = highest(m, p[i]);
    maxima[item] = m;
  }
  __syncthreads();
#pragma unroll 1
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
#pragma unroll 1
  for (int item = t.index; item < R * 64; item += t.count) {
    const float *e = rows + (item >> 3) * 128 + (item & 7);
    float s = e[0];
#pragma unroll
    for (int i = 8; i < 128; i += 8) s += e[i];
    sums[item] = s;
  }
  __syncthreads();
#pragma unroll 1
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
#pragma unroll 2
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

// kTolerance is np.random.choice's: how far the sum of probabilities may be from 1.
constexpr double kTolerance = 0.0003452669770922512;

// is_distribution is np.random.choice's condition on the sum of probabilities.
// choice adds them compensated; the running sum serves, since softmax gives sums
// within 1e-5 of 1 or NaN.
__device__ __forceinline__ bool is_distribution(double total) {
  const double distance = total - 1.0;
  return distance <= kTolerance && distance >= -kTolerance;
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

// Chunks in which a row of probabilities is added up.
enum { kChunk = 32, kChunks = kVocabulary / kChunk };

// add_chunks writes the float64 sums of the chunks of R rows of probabilities, in
// no particular order of summation: lanes begin at different banks.
template <int R>
__device__ __forceinline__ void add_chunks(double *sums, const float *probs) {
  const Thread t = this_thread();
#pragma unroll 1
  for (int item = t.index; item < R * kChunks; item += t.count) {
    double sum = 0.0;
#pragma unroll 16
    for (int i = 0; i < kChunk; i++)
      sum += static_cast<double>(probs[item * kChunk + ((i + item) & (kChunk - 1))]);
    sums[item] = sum;
  }
}

// kMargin is how near to an edge a draw may be for choose_near to leave it alone.
//
// Let S be the running sums of cumulate, T the last of them, and A those of
// choose_near with B the last, both of the same numbers, none of which is negative.
// u = 2^-53. A term of S goes through at most 1023 additions, a term of A through
// at most 31 in its chunk, 32 of chunks and 32 of single numbers, so that with
// sums below 1.0004
//
//   |S - A| <= (1023 + 95)·u·1.001 < 1.25e-13 = e, and |T - B| <= e.
//
// NumPy goes past token i if draw >= fl(S_i / T). With 0.9996 <= B, S_i <= T and
// draw < 1 the quotient differs from A_i / B by at most 2e/B·1.001 + u < 2.6e-13,
// and draw·B, rounded, from the product by u. So if draw·B is more than 1e-12 from
// A_i, both say the same of token i. That is asked of the edge below the token and
// of that above it: since S does not decrease, NumPy goes past all others below
// and past none above.
constexpr double kMargin = 1e-12;

// choose_near is choose, or -1 where a sum that is added up in another order does
// not tell: where the draw is within kMargin of an edge, and where the sum is not
// well within is_distribution's tolerance. sums are those of the row's chunks.
__device__ __forceinline__ int choose_near(const double *sums, const float *probs, double draw) {
  double ends[kChunks];  // of the chunks; they do not decrease
  ends[0] = sums[0];
#pragma unroll
  for (int i = 1; i < kChunks; i++) ends[i] = ends[i - 1] + sums[i];
  const double total = ends[kChunks - 1];
  if (!(total >= 0.9997 && total <= 1.0003)) return -1;
  const double target = __dmul_rn(draw, total);
  double below = 0.0;
  int token = 0;
#pragma unroll
  for (int i = 0; i < kChunks - 1; i++) {
    below = ends[i] <= target ? ends[i] : below;
    token = ends[i] <= target ? (i + 1) * kChunk : token;
  }
  probs += token;
  double end = below;
  int past = 0;
#pragma unroll 8
  for (int i = 0; i < kChunk - 1; i++) {
    end += static_cast<double>(probs[i]);
    below = end <= target ? end : below;
    past = end <= target ? i + 1 : past;
  }
  token += past;
  const double above = below + static_cast<double>(probs[past]);
  if (above - target > kMargin && (token == 0 || target - below > kMargin)) return token;
  return -1;
}

}  // namespace lockstep
