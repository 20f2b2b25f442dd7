// The network, in the order in which ONNX Runtime's CPU provider computes it, for
// the R routes of a block. Each element of a matrix product is one chain of fmaf
// over increasing k, of one thread, so that no bit depends on how many threads
// there are or which routes share the block.
//
// From top to bottom: how a block's threads share work, the two matmuls (of all positions, and
// of a few rows), embedding, layer norm, attention, MLP, the last layer, and the forward pass.
// In the last layer only the last position is needed, as only its logits are used.
//
// A product is a·W, of shapes (rows, K) and (K, columns). W is packed in panels of 16 columns
// (weights.h). Between two barriers no thread reads what another writes.
#pragma once

#include "layout.cuh"
#include "numbers.cuh"

namespace lockstep {

// Activations are the block's buffers in shared memory; layout.cuh says who has
// which when. The first three are (padded rows, 132) of which 128 are used; row
// 20·r + i is position i of route r, and the padding is zero.
struct Activations {
  float *residual;  // the residual stream
  float *normed;    // what a matmul reads: the output of a layer norm, or of attention
  float *work;      // what a matmul writes
  float *scores;    // (rows, 4, 20)
};

// parallel_for_after shares the items 0 to items-1 among the block's threads and calls f with each:
// among those behind the first `busy` threads, which have something else to do, or among all if
// there are no others.
template <class F>
__device__ __forceinline__ void parallel_for_after(int busy, int items, F f) {
  const Thread t = this_thread();
  if (busy >= t.count) busy = 0;
  if (t.index < busy) return;
#pragma unroll 1
  for (int item = t.index - busy; item < items; item += t.count - busy) f(item);
}

// parallel_for shares the items among all threads.
template <class F>
__device__ __forceinline__ void parallel_for(int items, F f) {
  parallel_for_after(0, items, f);
}

// parallel_for_rows shares the elements of a matrix (R, columns): f gets row and column.
template <int R, class F>
__device__ __forceinline__ void parallel_for_rows(int columns, F f) {
  parallel_for(R * columns, [&](int item) { f(item / columns, item % columns); });
}

// matmul_tile continues the chains of a lane's tile: rows 8 apart from a on, and the
// four columns of a panel from w on, over K values of k. Weights come from the L2
// cache, four rows of them ahead. At the end of each turn of the loop ptxas moves
// registers, so one has as many Rounds of four values of k as a step's code has room
// for in 128 KB.
template <int Tile, int Stride, int K, int Rounds>
__device__ __forceinline__ void matmul_tile(float4 (&acc)[Tile], const float *a, const float *w) {
  float4 w0 = load_weights(w), w1 = load_weights(w + kPanel);
  float4 w2 = load_weights(w + 2 * kPanel), w3 = load_weights(w + 3 * kPanel);
#pragma unroll Rounds
  for (int k = 0; k < K; k += 4) {
    w += k + 4 < K ? 4 * kPanel : 0;
    const float4 n0 = load_weights(w), n1 = load_weights(w + kPanel);
    const float4 n2 = load_weights(w + 2 * kPanel), n3 = load_weights(w + 3 * kPanel);
#pragma unroll
    for (int i = 0; i < Tile; i++) {
      const float4 v = load4(a + i * 8 * Stride + k);
      fma4(acc[i], v.x, w0);
      fma4(acc[i], v.y, w1);
      fma4(acc[i], v.z, w2);
      fma4(acc[i], v.w, w3);
    }
    w0 = n0;
    w1 = n1;
    w2 = n2;
    w3 = n3;
  }
}

// A Tile is a lane's part of what a warp computes: row and every eighth from
// there, and four of the panel's columns from column on.
//
// A load of 128 bits by a warp takes four passes of the shared memory, but two if
// all lanes n and n^1, or all n and n^2, have one address. Here n^1 has the same
// row, n^2 the same column, half a warp all rows, and a quarter rows and columns
// in different banks.
struct Tile {
  int row, column;
  __device__ __forceinline__ explicit Tile(const Thread &t)
      : row((t.lane & 6) | (t.lane >> 3 & 1)), column((t.lane & 1) << 2 | t.lane >> 4 << 3) {}
};

// matmul computes 128 columns of a·W for all rows, K being 128. The four panels of the left
// 64 columns stand one after the other in w_left, those of the right 64 in w_right: in attention
// these are queries and keys. It is a function of its own because its code is long and eight places
// want it, and so that the chains of its callers do not keep ptxas from loading weights early.
template <int R>
__noinline__ __device__ void matmul(float *out, const float *a, const float *w_left,
                                    const float *w_right) {
  typedef Block<R> B;
  const Thread t = this_thread();
  const Tile tile(t);
  for (int p = t.warp; p < kWidth / kPanel; p += t.warps) {
    const float *panel = p < kWidth / kPanel / 2
                             ? w_left + p * (kWidth * kPanel)
                             : w_right + (p - kWidth / kPanel / 2) * (kWidth * kPanel);
    float4 acc[B::kTile];
#pragma unroll
    for (int i = 0; i < B::kTile; i++) acc[i] = zero4();
    matmul_tile<B::kTile, B::kStride, kWidth, B::kRounds>(acc, a + tile.row * B::kStride,
                                                          panel + tile.column);
#pragma unroll
    for (int i = 0; i < B::kTile; i++) {
      const int row = tile.row + 8 * i;
      if (row < B::kRows) store4(out + row * B::kStride + p * kPanel + tile.column, acc[i]);
    }
  }
}

// matmul by weights whose eight panels stand one after the other.
template <int R>
__device__ __forceinline__ void matmul(float *out, const float *a, const float *weights) {
  matmul<R>(out, a, weights, weights + kWidth / kPanel / 2 * (kWidth * kPanel));
}

// for_own_outputs calls f with the offsets, in the output of matmul, of each four columns that this
// thread has written itself: to read those it needs no barrier.
template <int R, class F>
__device__ __forceinline__ void for_own_outputs(F f) {
  const Thread t = this_thread();
  const Tile tile(t);
  for (int p = t.warp; p < kWidth / kPanel; p += t.warps) {
#pragma unroll 1
    for (int row = tile.row; row < Block<R>::kRows; row += 8)
      f(row * Block<R>::kStride + p * kPanel + tile.column);
  }
}

// load_columns reads one weight or four.
__device__ __forceinline__ void load_columns(float (&v)[1], const float *w) { v[0] = __ldg(w); }
__device__ __forceinline__ void load_columns(float (&v)[4], const float *w) {
  const float4 u = load_weights(w);
  v[0] = u.x;
  v[1] = u.y;
  v[2] = u.z;
  v[3] = u.w;
}

// prefetch_weights starts to load the weights of the next Ahead values of k into registers.
template <int Ahead, int Columns>
__device__ __forceinline__ void prefetch_weights(float (&w)[Ahead][Columns], const float *from) {
#pragma unroll
  for (int j = 0; j < Ahead; j++) load_columns(w[j], from + j * kPanel);
}

// matmul_prefetched continues the chains of Rows rows over the values of k, from k on, whose
// weights have been prefetched.
template <int Rows, int Ahead, int Columns>
__device__ __forceinline__ void matmul_prefetched(float (&acc)[Rows][Columns],
                                                  const float *const (&rows)[Rows], int k,
                                                  const float (&w)[Ahead][Columns]) {
#pragma unroll
  for (int j = 0; j < Ahead; j += 4) {
#pragma unroll
    for (int i = 0; i < Rows; i++) {
      const float4 v = load4(rows[i] + k + j);
#pragma unroll
      for (int c = 0; c < Columns; c++) {
        acc[i][c] = fmaf(v.x, w[j][c], acc[i][c]);
        acc[i][c] = fmaf(v.y, w[j + 1][c], acc[i][c]);
        acc[i][c] = fmaf(v.z, w[j + 2][c], acc[i][c]);
        acc[i][c] = fmaf(v.w, w[j + 3][c], acc[i][c]);
      }
    }
  }
}

// The operands of matmul_few_rows. Rows begin stride floats apart.
struct OutRows {
  float *data;
  int stride;
};
struct InRows {
  const float *data;
  int stride;
};

// PackedWeights are W, (k, columns), in panels of 16 columns. A product of a part of K alone has
// fewer values of k than the panels, which have panel_k.
struct PackedWeights {
  const float *data;
  int k, columns;
  int panel_k = k;
};

// A Start says which half of the block's threads takes the first columns, and whether the input
// is there. If the other half still writes it, this half loads its first weights meanwhile, and
// then all threads meet at a barrier before they read the input. So the weights of a layer are on
// their way while the layer before is computed.
enum Start {
  kFirstHalf = 0,
  kSecondHalf = 1,
  kFirstHalfAwaitsInput = 2,
  kSecondHalfAwaitsInput = 3,
};

// compute_few_rows computes out = in·W for R rows. A thread has Columns columns of half of the
// rows, which are few. Lanes n and n^1 have the same columns, lanes n and n^2 the same rows, and
// all rows of a column are in one warp, so that a block reads a weight once. k is a multiple of 64.
//
// Callers use matmul_few_rows, below. This takes the fields of its operands one by one: if they
// came as structs, ptxas would not see that `in` lies in shared memory, and would load it by
// generic loads.
template <int R, int Columns>
__noinline__ __device__ void compute_few_rows(float *out, int out_stride, const float *in,
                                              int in_stride, const float *weights, int panel_k,
                                              int k, int columns, const float *bias, Start start) {
  enum {
    kRows = (R + 1) / 2,  // of a thread
    kGroups = (R + kRows - 1) / kRows,
    kAhead = Columns == 1 ? 64 : 16,  // values of k
    kSetsInTurn = R <= 2 ? 2 : 1      // of prefetched weights in a turn of the loop
  };
  const Thread t = this_thread();
  const int items = columns / Columns * kGroups;
  int item = t.index - ((start & kSecondHalf) != 0 ? t.count / 2 : 0);
  if (item < 0) item += t.count;
#pragma unroll 1
  for (; item < items || item < t.count; item += t.count) {
    // A thread without an item loads what the first has, and comes to the barrier.
    const int column = item < items ? item / kGroups * Columns : 0, first = item % kGroups * kRows;
    const float *w = weights + (column / kPanel) * (panel_k * kPanel) + column % kPanel;
    float acc[kRows][Columns], now[kAhead][Columns], next[kAhead][Columns];
    prefetch_weights(now, w);
    if (start >= kFirstHalfAwaitsInput && item < t.count) __syncthreads();
    if (item >= items) break;
    const float *rows[kRows];
#pragma unroll
    for (int i = 0; i < kRows; i++) {
      rows[i] = in + (first + i < R ? first + i : R - 1) * in_stride;
#pragma unroll
      for (int c = 0; c < Columns; c++) acc[i][c] = 0.0f;
    }
#pragma unroll 1
    for (int from = 0; from < k; from += kSetsInTurn * kAhead) {
      w += from + kAhead < k ? kAhead * kPanel : 0;
      prefetch_weights(next, w);
      matmul_prefetched(acc, rows, from, now);
      if (kSetsInTurn == 2) {
        if (from + kAhead >= k) break;
        w += from + 2 * kAhead < k ? kAhead * kPanel : 0;
        prefetch_weights(now, w);
        matmul_prefetched(acc, rows, from + kAhead, next);
        continue;
      }
#pragma unroll
      for (int j = 0; j < kAhead; j++) {
#pragma unroll
        for (int c = 0; c < Columns; c++) now[j][c] = next[j][c];
      }
    }
    if (Columns > 1 && bias != nullptr) {
      float b[Columns];
      load_columns(b, bias + column);
#pragma unroll
      for (int i = 0; i < kRows; i++) {
#pragma unroll
        for (int c = 0; c < Columns; c++) {
          const float y = acc[i][c] + b[c];
          acc[i][c] = y > 0.0f ? y : 0.0f;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; i++) {
      if (first + i >= R) continue;
#pragma unroll
      for (int c = 0; c < Columns; c++) out[(first + i) * out_stride + column + c] = acc[i][c];
    }
  }
}

// matmul_few_rows computes out = in·W where there is one row of each route: at the last position,
// and in the networks that steer. Where there is a bias, it is added and ReLU follows; that wants
// four Columns.
template <int R, int Columns>
__device__ __forceinline__ void matmul_few_rows(const OutRows &out, const InRows &in,
                                                const PackedWeights &w,
                                                const float *bias = nullptr,
                                                Start start = kFirstHalf) {
  compute_few_rows<R, Columns>(out.data, out.stride, in.data, in.stride, w.data, w.panel_k, w.k,
                               w.columns, bias, start);
}

// embed computes x = concat(bias + states·Wt, E[tokens]) + P. states is (rows, 4).
template <int R>
__device__ __forceinline__ void embed(const float *weights, float *x, const float *states,
                                      const int *tokens) {
  typedef Block<R> B;
  const Thread t = this_thread();
  for (int item = t.index; item < B::kRows * kWidth; item += t.count) {
    const int row = item / kWidth, j = item % kWidth;
    const float p = __ldg(weights + kPositionEmbedding + row % kContext * kWidth + j);
    float v;
    if (j < kHalf) {
      const float *w = weights + kStateEmbedding + j, *s = states + row * kStates;
      float acc = 0.0f;
#pragma unroll
      for (int k = 0; k < kStates; k++) acc = fmaf(s[k], __ldg(w + k * kHalf), acc);
      v = __ldg(weights + kStateBias + j) + acc;
    } else {
      v = __ldg(weights + kTokenEmbedding + tokens[row] * kHalf + (j - kHalf));
    }
    x[row * B::kStride + j] = v + p;
  }
}

// layer_norm normalises rows of x, x_stride apart, into rows of out, Stride apart. weights are
// those of the norm, scratch holds 18 floats for each row, aligned as double. formula is
// Launch.layer_norm: ONNX Runtime's versions compute it in three ways. It ends with a barrier.
template <int Stride>
__noinline__ __device__ void layer_norm(int64_t formula, int rows, float *out, const float *x,
                                        int x_stride, const float *weights, float *scratch) {
  const Thread t = this_thread();
  const float epsilon = 0x1.4f8b58p-17f;
  double *sums = reinterpret_cast<double *>(scratch);  // (rows, 4)
  float *squares = scratch + rows * 8;                 // (rows, 8)
  // (rows, 2) mean, and what x - mean is multiplied with or divided by
  float *mean_scale = scratch + rows * 16;
  if (formula == kLayerNorm130) {
    // The mean from four float64 sums, the variance from eight float32 chains.
#pragma unroll 1
    for (int item = t.index; item < rows * 4; item += t.count) {
      const float *row = x + (item >> 2) * x_stride + (item & 3);
      double d = 0.0;
#pragma unroll 32
      for (int i = 0; i < kWidth; i += 4) d += static_cast<double>(row[i]);
      sums[item] = d;
    }
    __syncthreads();
#pragma unroll 1
    for (int item = t.index; item < rows * 8; item += t.count) {
      const double *d = sums + (item >> 3) * 4;
      const float mean = static_cast<float>(((d[0] + d[2]) + (d[1] + d[3])) / 128.0);
      const float *row = x + (item >> 3) * x_stride + (item & 7);
      float a = 0.0f;
#pragma unroll
      for (int i = 0; i < kWidth; i += 8) {
        const float v = row[i] - mean;
        a = fmaf(v, v, a);
      }
      squares[item] = a;
      if ((item & 7) == 0) mean_scale[(item >> 3) * 2] = mean;
    }
    __syncthreads();
#pragma unroll 1
    for (int row = t.index; row < rows; row += t.count) {
      const float *a = squares + row * 8;
      const float r0 = a[0] + a[4], r1 = a[1] + a[5], r2 = a[2] + a[6], r3 = a[3] + a[7];
      const float variance = ((r0 + r2) + (r1 + r3)) / 128.0f;
      mean_scale[row * 2 + 1] = __fdiv_rn(1.0f, __fsqrt_rn(variance + epsilon));
    }
  } else {
#pragma unroll 1
    for (int row = t.index; row < rows; row += t.count) {
      const float *v = x + row * x_stride;
      float mean = 0.0f, variance;
      if (formula == kLayerNorm127) {
        // Welford's recurrence.
        float m2 = 0.0f;
#pragma unroll 1
        for (int i = 0; i < kWidth; i++) {
          const float d = v[i] - mean;
          mean += __fdiv_rn(d, static_cast<float>(i + 1));
          m2 += __fmul_rn(d, v[i] - mean);
        }
        variance = m2 / 128.0f;
      } else {
        // Mean and mean square from one chain each.
        float sum = 0.0f, square = 0.0f;
#pragma unroll 1
        for (int i = 0; i < kWidth; i++) {
          sum += v[i];
          square += __fmul_rn(v[i], v[i]);
        }
        mean = sum / 128.0f;
        variance = square / 128.0f - __fmul_rn(mean, mean);
      }
      mean_scale[row * 2] = mean;
      mean_scale[row * 2 + 1] = __fsqrt_rn(variance + epsilon);
    }
  }
  __syncthreads();
  const auto write_columns = [&](int item, auto normalized) {  // four of a row
    const int row = item / (kWidth / 4), j = item % (kWidth / 4) * 4;
    const float mean = mean_scale[row * 2], s = mean_scale[row * 2 + 1];
    const float4 w = load_weights(weights + j), b = load_weights(weights + kWidth + j),
                 v = load4(x + row * x_stride + j);
    store4(out + row * Stride + j,
           make_float4(
               normalized(v.x - mean, s, w.x, b.x), normalized(v.y - mean, s, w.y, b.y),
               normalized(v.z - mean, s, w.z, b.z), normalized(v.w - mean, s, w.w, b.w)));
  };
  if (formula == kLayerNorm130) {
#pragma unroll 1
    for (int item = t.index; item < rows * (kWidth / 4); item += t.count) {
      write_columns(item, [](float d, float s, float w, float b) { return fmaf(d * s, w, b); });
    }
  } else {
#pragma unroll 1
    for (int item = t.index; item < rows * (kWidth / 4); item += t.count) {
      write_columns(item, [](float d, float s, float w, float b) {
        return __fmul_rn(__fdiv_rn(d, s), w) + b;
      });
    }
  }
  __syncthreads();
}

// exponentials replaces the first n of 20 scores by e^(s-m) as in ONNX Runtime's softmax and
// the others by +0. All are computed, side by side. None of the first n is above m; what stands
// in place of the others may be anything.
template <class F>
__device__ __forceinline__ void exponentials(float *row, int n, float m, F exponential) {
  const auto of = [&](float s) { return exponential(s - m > 0.0f ? 0.0f : s - m); };
#pragma unroll 1
  for (int j = 0; j < kContext; j += 4) {
    const float4 v = load4(row + j);
    const float x = of(v.x), y = of(v.y), z = of(v.z), w = of(v.w);
    store4(row + j, make_float4(j < n ? x : 0.0f, j + 1 < n ? y : 0.0f, j + 2 < n ? z : 0.0f,
                                j + 3 < n ? w : 0.0f));
  }
}

// attention_softmax replaces the first n of 20 scores by their softmax and the
// others, which are masked, by +0. lanes is Launch.softmax.
__noinline__ __device__ void attention_softmax(float *row, int n, int64_t lanes) {
  float m = row[0];
#pragma unroll 4
  for (int j = 1; j < kContext; j++) {
    if (j < n) m = highest(m, row[j]);
  }
  if (lanes == kSoftmaxAVX512) {
    exponentials(row, n, m, [](float x) { return exp512(x); });
  } else {
    exponentials(row, n, m, [](float x) { return exp256(x); });
  }
  float c[8];
#pragma unroll
  for (int j = 0; j < 8; j++) {
    if (lanes == kSoftmaxAVX512) {
      // Lane j of 16, to which element 16 + j was added, and lane j + 8.
      c[j] = (j < 4 ? row[j] + row[16 + j] : row[j]) + row[8 + j];
    } else {
      c[j] = row[j] + row[8 + j];
      if (j < 4) c[j] += row[16 + j];
    }
  }
  const float total = ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
  const float q = __fdiv_rn(1.0f, total);
#pragma unroll 1
  for (int j = 0; j < kContext; j += 4) {
    float4 v = load4(row + j);
    v.x = j < n ? v.x * q : 0.0f;
    v.y = j + 1 < n ? v.y * q : 0.0f;
    v.z = j + 2 < n ? v.z * q : 0.0f;
    v.w = j + 3 < n ? v.w * q : 0.0f;
    store4(row + j, v);
  }
}

// float32(1/√32), the alpha of the scores' product.
#define LOCKSTEP_SCORE_SCALE 0x1.6a09e6p-3f

// score is that of a query and a key of a head: their dot product by alpha.
__device__ __forceinline__ float score(const float *q, const float *k) {
  float acc = 0.0f;
#pragma unroll
  for (int p = 0; p < kHeadSize; p += 4) {
    const float4 u = load4(q + p), v = load4(k + p);
    acc = fmaf(u.x, v.x, acc);
    acc = fmaf(u.y, v.y, acc);
    acc = fmaf(u.z, v.z, acc);
    acc = fmaf(u.w, v.w, acc);
  }
  return acc * LOCKSTEP_SCORE_SCALE;
}

// score_tile writes the scores of some queries and 5 keys, Stride apart as all rows, to
// rows of s.
template <int Stride, int Queries>
__device__ __forceinline__ void score_tile(float *s, int s_stride, const float *q, const float *k) {
  float acc[Queries][5];
#pragma unroll
  for (int i = 0; i < Queries; i++) {
#pragma unroll
    for (int j = 0; j < 5; j++) acc[i][j] = 0.0f;
  }
#pragma unroll 2
  for (int p = 0; p < kHeadSize; p += 4) {
    float4 u[Queries];
#pragma unroll
    for (int i = 0; i < Queries; i++) u[i] = load4(q + i * Stride + p);
#pragma unroll
    for (int j = 0; j < 5; j++) {
      const float4 v = load4(k + j * Stride + p);
#pragma unroll
      for (int i = 0; i < Queries; i++) {
        acc[i][j] = fmaf(u[i].x, v.x, acc[i][j]);
        acc[i][j] = fmaf(u[i].y, v.y, acc[i][j]);
        acc[i][j] = fmaf(u[i].z, v.z, acc[i][j]);
        acc[i][j] = fmaf(u[i].w, v.w, acc[i][j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < Queries; i++) {
#pragma unroll
    for (int j = 0; j < 5; j++) s[i * s_stride + j] = acc[i][j] * LOCKSTEP_SCORE_SCALE;
  }
}

// weighted_sum is a column of P·V for a row p of P, the softmax of the scores, over all 20 keys.
template <int Stride>
__device__ __forceinline__ float weighted_sum(const float *p, const float *v) {
  float acc = 0.0f;
  // Loads of four by name: nvcc joins single ones in another way in each run, and
  // `make kernels-check` would not find the same code again.
#pragma unroll
  for (int k = 0; k < kContext; k += 4) {
    const float4 w = load4(p + k);
    acc = fmaf(w.x, v[k * Stride], acc);
    acc = fmaf(w.y, v[(k + 1) * Stride], acc);
    acc = fmaf(w.z, v[(k + 2) * Stride], acc);
    acc = fmaf(w.w, v[(k + 3) * Stride], acc);
  }
  return acc;
}

// weighted_sum_tile writes 5 rows and 4 columns of P·V. P's rows are those of a head.
template <int Stride>
__device__ __forceinline__ void weighted_sum_tile(float *out, const float *p, const float *v) {
  float4 acc[5];
#pragma unroll
  for (int i = 0; i < 5; i++) acc[i] = zero4();
#pragma unroll 1
  for (int k = 0; k < kContext; k += 4) {
    const float4 v0 = load4(v + k * Stride), v1 = load4(v + (k + 1) * Stride);
    const float4 v2 = load4(v + (k + 2) * Stride), v3 = load4(v + (k + 3) * Stride);
#pragma unroll
    for (int i = 0; i < 5; i++) {
      const float4 w = load4(p + i * kHeads * kContext + k);
      fma4(acc[i], w.x, v0);
      fma4(acc[i], w.y, v1);
      fma4(acc[i], w.z, v2);
      fma4(acc[i], w.w, v3);
    }
  }
#pragma unroll
  for (int i = 0; i < 5; i++) store4(out + i * Stride, acc[i]);
}

// attention adds a layer's self-attention to the residual stream.
template <int R>
__device__ __forceinline__ void attention(const Launch &launch, const Activations &a,
                                          const float *layer) {
  typedef Block<R> B;
  enum { kMatrix = kWidth * kWidth };  // of queries, keys or values
  enum { kQueries = R == 1 ? 1 : R == 2 ? 2 : 4, kTiles = kContext / kQueries };  // of scores
  const float *qkv = layer + kQKV;

  layer_norm<B::kStride>(launch.layer_norm, B::kRows, a.normed, a.residual, B::kStride,
                         layer + kAttentionNorm, a.work);
#pragma unroll 1
  for (int pair = 0; pair < kHeads / 2; pair++) {
    // Queries and keys of two heads, 64 columns each.
    const float *queries = qkv + pair * (kMatrix / 2);
    matmul<R>(a.work, a.normed, queries, queries + kMatrix);
    __syncthreads();
    // Scores in tiles of 5 keys; those above the diagonal are not used.
    parallel_for(R * 2 * 4 * kTiles, [&](int item) {
      const int key = (item & 3) * 5, row = (item >> 2) % kTiles * kQueries,
                head = item / (4 * kTiles) & 1, route = item / (8 * kTiles);
      if (key > row + kQueries - 1) return;
      const float *q = a.work + (route * kContext + row) * B::kStride + head * kHeadSize;
      const float *k = a.work + (route * kContext + key) * B::kStride + kHalf + head * kHeadSize;
      score_tile<B::kStride, kQueries>(
          a.scores + ((route * kContext + row) * kHeads + 2 * pair + head) * kContext + key,
          kHeads * kContext, q, k);
    });
    __syncthreads();
  }
  // Values of all heads, and meanwhile the softmax.
  matmul<R>(a.work, a.normed, qkv + 2 * kMatrix);
  parallel_for(B::kRows * kHeads, [&](int item) {
    attention_softmax(a.scores + item * kContext, item / kHeads % kContext + 1, launch.softmax);
  });
  __syncthreads();
  // normed = P·V in tiles of 5 rows and 4 columns, over all 20 keys.
  parallel_for(R * 4 * 32, [&](int item) {
    const int column = (item & 31) * 4, row = (item >> 5 & 3) * 5, route = item >> 7;
    const int head = column / kHeadSize;
    const float *s = a.scores + ((route * kContext + row) * kHeads + head) * kContext;
    const float *v = a.work + route * kContext * B::kStride + column;
    weighted_sum_tile<B::kStride>(a.normed + (route * kContext + row) * B::kStride + column, s, v);
  });
  __syncthreads();
  matmul<R>(a.work, a.normed, layer + kProjection);
  for_own_outputs<R>([&](int at) {
    const float4 x = load4(a.residual + at), v = load4(a.work + at);
    store4(a.residual + at, make_float4(x.x + v.x, x.y + v.y, x.z + v.z, x.w + v.w));
  });
  __syncthreads();
}

// add_mlp_output adds ½·h·W to the residual stream, h being the hidden activations, 512 columns.
// ONNX Runtime sums the two halves of K by themselves, and then adds them. h comes in chunks of 128
// columns, each of which write_chunk writes to work. The chains stay in registers, but for a part
// of the first half's sums, which waits in the scores' buffer. It ends with a barrier.
template <int R, class WriteChunk>
__device__ __forceinline__ void add_mlp_output(const Activations &a, const float *weights,
                                               WriteChunk write_chunk) {
  typedef Block<R> B;
  // With all the room taken, ptxas loads weights late for R = 5.
  enum {
    kPanels = kWidth / kPanel,
    kRoom = B::kScores / (4 * kMaxThreads) - (R == 5 ? 1 : 0),
    kInScores = B::kTile < kRoom ? B::kTile : kRoom  // rows of a lane whose sums wait there
  };
  const auto in_scores = [&](int i) { return a.scores + 4 * (kMaxThreads * i + thread_index()); };
  // Eight warps compute all columns of the output at once, fewer take turns and
  // have the chunks written anew in each.
#pragma unroll 1
  for (int turn = 0; turn < kPanels; turn += this_thread().warps) {
    float4 acc[B::kTile], first_half[B::kTile - kInScores + 1];
#pragma unroll
    for (int i = 0; i < B::kTile; i++) acc[i] = zero4();
#pragma unroll
    for (int i = kInScores; i < B::kTile; i++) first_half[i - kInScores] = zero4();
#pragma unroll 1
    for (int c = 0; c < kHidden / kWidth; c++) {
      write_chunk(c);
      __syncthreads();
      const Thread t = this_thread();
      const int panel = turn + t.warp;
      if (panel < kPanels) {
        const Tile tile(t);
        matmul_tile<B::kTile, B::kStride, kWidth, B::kOutRounds>(
            acc, a.work + tile.row * B::kStride,
            weights + panel * (kHidden * kPanel) + c * (kWidth * kPanel) + tile.column);
        if (c == 1) {  // the first half of K ends
#pragma unroll
          for (int i = 0; i < B::kTile; i++) {
            const float4 h =
                make_float4(acc[i].x * 0.5f, acc[i].y * 0.5f, acc[i].z * 0.5f, acc[i].w * 0.5f);
            if (i < kInScores) {
              store4(in_scores(i), h);
            } else {
              first_half[i - kInScores] = h;
            }
            acc[i] = zero4();
          }
        }
      }
      __syncthreads();
    }
    const Thread t = this_thread();
    const int panel = turn + t.warp;
    if (panel < kPanels) {
      const Tile tile(t);
#pragma unroll
      for (int i = 0; i < B::kTile; i++) {
        const int row = tile.row + 8 * i;
        const float4 h =
            i < kInScores ? load4(in_scores(i)) : first_half[i < kInScores ? 0 : i - kInScores];
        if (row < B::kRows) {
          float *x = a.residual + row * B::kStride + panel * kPanel + tile.column;
          float4 v = load4(x);
          v.x = v.x + fmaf(acc[i].x, 0.5f, h.x);
          v.y = v.y + fmaf(acc[i].y, 0.5f, h.y);
          v.z = v.z + fmaf(acc[i].z, 0.5f, h.z);
          v.w = v.w + fmaf(acc[i].w, 0.5f, h.w);
          store4(x, v);
        }
      }
    }
  }
  __syncthreads();
}

// mlp adds a layer's perceptron to the residual stream.
template <int R>
__device__ __forceinline__ void mlp(const Launch &launch, const Activations &a,
                                    const float *layer) {
  typedef Block<R> B;
  layer_norm<B::kStride>(launch.layer_norm, B::kRows, a.normed, a.residual, B::kStride,
                         layer + kMLPNorm, a.work);
  add_mlp_output<R>(a, layer + kOut, [&](int chunk) {
    matmul<R>(a.work, a.normed, layer + kFC + chunk * (kWidth * kWidth));
    for_own_outputs<R>([&](int at) {
      const float4 f = load4(a.work + at);
      store4(a.work + at, make_float4(gelu(f.x), gelu(f.y), gelu(f.z), gelu(f.w)));
    });
  });
}

// add_last_mlp_output is add_mlp_output for the last position alone. x are the rows of the residual
// stream. first and second are room for the sums of the two halves of K, their rows as far apart as
// those of x.
template <int R>
__device__ __forceinline__ void add_last_mlp_output(const OutRows &x, const InRows &hidden,
                                                    const float *weights, float *first,
                                                    float *second) {
  if (R == 1 && this_thread().count == kMaxThreads) {
    // A column for each thread: half of the block sums the first half of K, half of it the second.
    const bool is_second = thread_index() >= kMaxThreads / 2;
    matmul_few_rows<R, 1>(
        OutRows{is_second ? second : first, x.stride},
        InRows{hidden.data + (is_second ? kHidden / 2 : 0), hidden.stride},
        PackedWeights{weights + (is_second ? kHidden / 2 * kPanel : 0), kHidden / 2, kWidth,
                      kHidden},
        nullptr, is_second ? kSecondHalf : kFirstHalf);
  } else {
    matmul_few_rows<R, 1>(OutRows{first, x.stride}, hidden,
                          PackedWeights{weights, kHidden / 2, kWidth, kHidden});
    matmul_few_rows<R, 1>(
        OutRows{second, x.stride}, InRows{hidden.data + kHidden / 2, hidden.stride},
        PackedWeights{weights + kHidden / 2 * kPanel, kHidden / 2, kWidth, kHidden});
  }
  __syncthreads();
  parallel_for_rows<R>(kWidth, [&](int r, int column) {
    const int at = r * x.stride + column;
    x.data[at] += fmaf(second[at], 0.5f, first[at] * 0.5f);
  });
  __syncthreads();
}

// last_layer is the last layer, the final norm and the head for the last position alone, one row of
// each route: of the other positions only keys and values are needed. It writes the logits,
// (R, 1024), to work.
template <int R>
__device__ __forceinline__ void last_layer(const Launch &launch, const Activations &a,
                                           const float *layer) {
  typedef Block<R> B;
  enum { kHiddenStride = kHidden + 4, kMatrix = kWidth * kWidth };
  const float *qkv = layer + kQKV;
  const int64_t norm = launch.layer_norm;
  enum { kLastRow = (kContext - 1) * B::kStride, kRouteStride = kContext * B::kStride };
  const float *last_rows = a.residual + kLastRow;  // kRouteStride apart

  layer_norm<B::kStride>(norm, B::kRows, a.normed, a.residual, B::kStride, layer + kAttentionNorm,
                         a.work);
  float *scores = a.scores;                         // (R, 4, 20)
  float *queries = scores + R * kHeads * kContext;  // (R, 128)
  matmul<R>(a.work, a.normed, qkv + kMatrix);
  matmul_few_rows<R, 1>(OutRows{queries, kWidth}, InRows{a.normed + kLastRow, kRouteStride},
                        PackedWeights{qkv, kWidth, kWidth});
  __syncthreads();
  parallel_for(R * kHeads * kContext, [&](int item) {
    const int key = item % kContext, head = item / kContext % kHeads,
              route = item / (kContext * kHeads);
    const float *q = queries + route * kWidth + head * kHeadSize;
    const float *k = a.work + (route * kContext + key) * B::kStride + head * kHeadSize;
    scores[item] = score(q, k);
  });
  __syncthreads();
  matmul<R>(a.work, a.normed, qkv + 2 * kMatrix);
  parallel_for(R * kHeads, [&](int item) {
    attention_softmax(scores + item * kContext, kContext, launch.softmax);
  });
  __syncthreads();

  // normed is free from here on, and work after the attention. In normed lie now, one row of each
  // route in each:
  float *x = a.normed;                    // the residual stream
  float *n = x + R * B::kStride;          // its layer norm
  float *values = n + R * B::kStride;     // P·V, later sums of the second half of K
  float *sums = values + R * B::kStride;  // of the first half of K
  float *hidden = sums + R * B::kStride;  // the MLP's hidden activations
  parallel_for_rows<R>(kWidth, [&](int route, int column) {
    const float *s = scores + (route * kHeads + column / kHeadSize) * kContext;
    const float *v = a.work + route * kContext * B::kStride + column;
    values[route * B::kStride + column] = weighted_sum<B::kStride>(s, v);
  });
  __syncthreads();
  matmul_few_rows<R, 1>(OutRows{x, B::kStride}, InRows{values, B::kStride},
                        PackedWeights{layer + kProjection, kWidth, kWidth});
  __syncthreads();
  parallel_for_rows<R>(kWidth, [&](int r, int column) {
    x[r * B::kStride + column] =
        last_rows[r * kRouteStride + column] + x[r * B::kStride + column];
  });
  __syncthreads();
  layer_norm<B::kStride>(norm, R, n, x, B::kStride, layer + kMLPNorm, a.work);
  matmul_few_rows<R, 4>(OutRows{hidden, kHiddenStride}, InRows{n, B::kStride},
                        PackedWeights{layer + kFC, kWidth, kHidden});
  __syncthreads();
  parallel_for_rows<R>(kHidden, [&](int r, int column) {
    hidden[r * kHiddenStride + column] = gelu(hidden[r * kHiddenStride + column]);
  });
  __syncthreads();
  add_last_mlp_output<R>(OutRows{x, B::kStride}, InRows{hidden, kHiddenStride}, layer + kOut, sums,
                         values);
  layer_norm<B::kStride>(norm, R, n, x, B::kStride, launch.weights + kFinalNorm, a.work);
  matmul_few_rows<R, 4>(OutRows{a.work, kVocabulary}, InRows{n, B::kStride},
                        PackedWeights{launch.weights + kHead, kWidth, kVocabulary});
  __syncthreads();
}

// forward computes the logits of the last position, (R, 1024) in work, from tokens and
// states, which lie in scores until embed has read them. It begins after a barrier and ends with
// one.
template <int R>
__device__ __forceinline__ void forward(const Launch &launch, const Activations &a,
                                        const float *states, const int *tokens) {
  embed<R>(launch.weights, a.residual, states, tokens);
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < kLayers - 1; i++) {
    const float *layer = launch.weights + kLayer0 + i * kLayerSize;
    attention<R>(launch, a, layer);
    mlp<R>(launch, a, layer);
  }
  last_layer<R>(launch, a, launch.weights + kLayer0 + (kLayers - 1) * kLayerSize);
}

}  // namespace lockstep
