// Kernels that run single device functions, for units_test.go.
#include "launch.h"
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

struct Units {
  int64_t n, kind;
  const float *x, *w;
  float *y;
  const double *a, *b;
  double *c;
  int64_t *i;
};

extern "C" __global__ void unit_float(const Units *u) {
  for (int64_t i = threadIdx.x; i < u->n; i += blockDim.x) {
    const float x = u->x[i];
    float y = 0.0f;
    switch (u->kind) {
      case 0: y = lockstep::exp512(x); break;
      case 1: y = lockstep::exp256(x); break;
      case 2: y = lockstep::exp_numpy(x, false); break;
      case 3: y = lockstep::exp_numpy(x, true); break;
      case 4: y = lockstep::hyperbolic_tangent(x); break;
      case 5: y = lockstep::gelu(x); break;
      case 6: y = lockstep::softplus(x); break;
    }
    u->y[i] = y;
  }
}

// unit_layer_norm: x (n, 128), w (2, 128), kind the formula.
extern "C" __global__ void unit_layer_norm(const Units *u) {
  LOCKSTEP_SHARED(memory);
  const lockstep::Thread t = lockstep::this_thread();
  float *out = reinterpret_cast<float *>(memory), *scratch = out + u->n * lockstep::kWidth;
  lockstep::layer_norm<lockstep::kWidth>(u->kind, static_cast<int>(u->n), out, u->x,
                                         lockstep::kWidth, u->w, scratch);
  for (int64_t i = t.index; i < u->n * lockstep::kWidth; i += t.count) u->y[i] = out[i];
}

// unit_attention_softmax: x, y (n, 20); i how many of each row count.
extern "C" __global__ void unit_attention_softmax(const Units *u) {
  LOCKSTEP_SHARED(memory);
  float *row = reinterpret_cast<float *>(memory) + threadIdx.x * lockstep::kContext;
  for (int64_t r = threadIdx.x; r < u->n; r += blockDim.x) {
    for (int j = 0; j < lockstep::kContext; j++) row[j] = u->x[r * lockstep::kContext + j];
    lockstep::attention_softmax(row, static_cast<int>(u->i[r]), u->kind);
    for (int j = 0; j < lockstep::kContext; j++) u->y[r * lockstep::kContext + j] = row[j];
  }
}

// unit_softmax: x, y (n, 1024), two rows at a time; n is even.
extern "C" __global__ void unit_softmax(const Units *u) {
  LOCKSTEP_SHARED(memory);
  const lockstep::Thread t = lockstep::this_thread();
  float *rows = reinterpret_cast<float *>(memory), *scratch = rows + 2 * lockstep::kVocabulary;
  for (int64_t r = 0; r < u->n; r += 2) {
    const int64_t first = r * lockstep::kVocabulary;
    for (int i = t.index; i < 2 * lockstep::kVocabulary; i += t.count) rows[i] = u->x[first + i];
    __syncthreads();
    lockstep::softmax<2>(rows, scratch, u->kind != 0);
    for (int i = t.index; i < 2 * lockstep::kVocabulary; i += t.count) u->y[first + i] = rows[i];
    __syncthreads();
  }
}

// unit_choose: x (n, 1024) probabilities, a (n, kind) draws, c (1024) room for the
// running sum, i (n, kind) tokens, or -1 where the row is no distribution.
extern "C" __global__ void unit_choose(const Units *u) {
  if (threadIdx.x != 0) return;
  for (int64_t r = 0; r < u->n; r++) {
    const double total = lockstep::cumulate(u->c, u->x + r * lockstep::kVocabulary);
    for (int64_t k = 0; k < u->kind; k++) {
      const int64_t at = r * u->kind + k;
      u->i[at] = lockstep::is_distribution(total) ? lockstep::choose(u->c, total, u->a[at]) : -1;
    }
  }
}

// unit_choose_near: the same by choose_near; -1 leaves it to the running sum.
extern "C" __global__ void unit_choose_near(const Units *u) {
  LOCKSTEP_SHARED(memory);
  double *sums = reinterpret_cast<double *>(memory);
  for (int64_t r = 0; r < u->n; r++) {
    const float *probs = u->x + r * lockstep::kVocabulary;
    lockstep::add_chunks<1>(sums, probs);
    __syncthreads();
    for (int64_t k = threadIdx.x; k < u->kind; k += blockDim.x) {
      u->i[r * u->kind + k] = lockstep::choose_near(sums, probs, u->a[r * u->kind + k]);
    }
    __syncthreads();
  }
}

extern "C" __global__ void unit_encode(const Units *u) {
  for (int64_t i = threadIdx.x; i < u->n; i += blockDim.x) u->i[i] = lockstep::encode(u->a[i]);
}

extern "C" __global__ void unit_bin(const Units *u) {
  for (int64_t i = threadIdx.x; i < u->n; i += blockDim.x)
    u->c[i] = lockstep::bin(static_cast<int>(i));
}

// unit_clip: a (n, 3) value, low, high.
extern "C" __global__ void unit_clip(const Units *u) {
  for (int64_t i = threadIdx.x; i < u->n; i += blockDim.x) {
    u->c[i] = lockstep::clip(u->a[3 * i], u->a[3 * i + 1], u->a[3 * i + 2]);
  }
}

// unit_draws: n uniforms of seed kind.
extern "C" __global__ void unit_draws(const Units *u) {
  LOCKSTEP_SHARED(memory);
  if (threadIdx.x != 0) return;
  lockstep::Twister twister;
  twister.words = reinterpret_cast<uint32_t *>(memory);
  twister.seed(static_cast<uint32_t>(u->kind));
  for (int64_t i = 0; i < u->n; i++) u->c[i] = twister.uniform();
}

// unit_tile: i (n, 2) row and column of each lane's tile; then the stride of a row.
extern "C" __global__ void unit_tile(const Units *u) {
  const lockstep::Thread t = lockstep::this_thread();
  if (t.index >= u->n) return;
  const lockstep::Tile tile(t);
  u->i[2 * t.index] = tile.row;
  u->i[2 * t.index + 1] = tile.column;
  u->i[2 * u->n] = lockstep::Block<1>::kStride;
}

struct Values {
  const double *a;
  __device__ __forceinline__ double operator()(int i) const { return a[i]; }
};

// unit_mean: c is the mean of the first n of a.
extern "C" __global__ void unit_mean(const Units *u) {
  if (threadIdx.x == 0) *u->c = lockstep::mean(Values{u->a}, static_cast<int>(u->n));
}

// unit_sum: c is the sum of the first n of a, 400 at most.
extern "C" __global__ void unit_sum(const Units *u) {
  if (threadIdx.x == 0)
    *u->c = 0.0 + lockstep::pairwise<2>(Values{u->a}, 0, static_cast<int>(u->n));
}

// unit_costs: a target, b lataccel, n one past the last step.
extern "C" __global__ void unit_costs(const Units *u) {
  if (threadIdx.x == 0) lockstep::costs(u->c, u->a, u->b, static_cast<int>(u->n));
}

// unit_pid: a (n, 2) target and lataccel, b (3) gains.
extern "C" __global__ void unit_pid(const Units *u) {
  if (threadIdx.x != 0) return;
  lockstep::Memory memory = {};
  for (int64_t i = 0; i < u->n; i++)
    u->c[i] = lockstep::pid(u->b, memory, u->a[2 * i], u->a[2 * i + 1]);
}

// unit_pidff: a (3, n) target, roll and speed of a route, b (10) gains and the lataccel
// before each of its first kind steps: c (kind).
extern "C" __global__ void unit_pidff(const Units *u) {
  if (threadIdx.x != 0) return;
  lockstep::Job job = {};
  for (int i = 0; i < 10; i++) job.gains[i] = u->b[i];
  lockstep::Launch launch = {};
  launch.job = &job;
  launch.target = u->a;
  launch.roll_lataccel = u->a + u->n;
  launch.v_ego = u->a + 2 * u->n;
  lockstep::Drive d = {};
  d.rows = u->n;
  for (int64_t k = 0; k < u->kind; k++) {
    d.lataccel = u->b[10 + k];
    u->c[k] = lockstep::pidff(launch, d, k);
  }
}

// unit_product: of each row of x (n, 128) with the columns of a panel of w
// (n, 128, 16): y (n, 16). kind 0 is that of all positions, 1 and 2 that of the
// last one, in so many columns for a thread.
extern "C" __global__ void unit_product(const Units *u) {
  LOCKSTEP_SHARED(memory);
  typedef lockstep::Block<1> B;
  const lockstep::Thread t = lockstep::this_thread();
  float *rows = reinterpret_cast<float *>(memory);
  for (int64_t r = 0; r < u->n; r++) {
    const float *panel = u->w + r * lockstep::kWidth * lockstep::kPanel;
    float *y = u->y + r * lockstep::kPanel;
    for (int i = t.index; i < B::kPadded * B::kStride; i += t.count) {
      const int k = i % B::kStride;
      rows[i] = k < lockstep::kWidth ? u->x[r * lockstep::kWidth + k] : 0.0f;
    }
    __syncthreads();
    switch (u->kind) {
      case 0:
        if (t.warp == 0) {
          const lockstep::Tile tile(t);
          float4 acc[B::kTile];
          for (int i = 0; i < B::kTile; i++) acc[i] = lockstep::zero4();
          lockstep::matmul_tile<B::kTile, B::kStride, lockstep::kWidth, B::kRounds>(
              acc, rows + tile.row * B::kStride, panel + tile.column);
          if (tile.row == 0) lockstep::store4(y + tile.column, acc[0]);
        }
        break;
      case 1:
        lockstep::matmul_few_rows<1, 1>(
            lockstep::OutRows{y, lockstep::kPanel}, lockstep::InRows{rows, B::kStride},
            lockstep::PackedWeights{panel, lockstep::kWidth, lockstep::kPanel});
        break;
      case 2:
        lockstep::matmul_few_rows<1, 4>(
            lockstep::OutRows{y, lockstep::kPanel}, lockstep::InRows{rows, B::kStride},
            lockstep::PackedWeights{panel, lockstep::kWidth, lockstep::kPanel});
        break;
    }
    __syncthreads();
  }
}

// few_rows is matmul_few_rows of Rows rows of x with the first i[0] of 256 values of k of w
// (64 columns), started as i[1] says: y (Rows, 64).
template <int Rows, int Columns>
__device__ __forceinline__ void few_rows(const Units *u, const float *rows) {
  lockstep::matmul_few_rows<Rows, Columns>(
      lockstep::OutRows{u->y, 64}, lockstep::InRows{rows, 256},
      lockstep::PackedWeights{u->w, static_cast<int>(u->i[0]), 64, 256}, nullptr,
      static_cast<lockstep::Start>(u->i[1]));
}

// unit_few_rows: few_rows by kind, ten times the rows and the columns of a thread.
extern "C" __global__ void unit_few_rows(const Units *u) {
  LOCKSTEP_SHARED(memory);
  float *rows = reinterpret_cast<float *>(memory);
  lockstep::parallel_for(static_cast<int>(u->n) * 256, [&](int i) { rows[i] = u->x[i]; });
  __syncthreads();
  switch (u->kind) {
    case 11: few_rows<1, 1>(u, rows); break;
    case 14: few_rows<1, 4>(u, rows); break;
    case 21: few_rows<2, 1>(u, rows); break;
    case 24: few_rows<2, 4>(u, rows); break;
    case 31: few_rows<3, 1>(u, rows); break;
    case 34: few_rows<3, 4>(u, rows); break;
  }
}

// unit_score: of queries x (4, 32) and keys w (5, 32), y (4, 5). kind 0 is that of the
// last position, 1, 2 and 4 those of all positions, in tiles of so many queries.
extern "C" __global__ void unit_score(const Units *u) {
  LOCKSTEP_SHARED(memory);
  enum { kSize = lockstep::kHeadSize, kStride = kSize + 4, kScores = 20 };
  float *q = reinterpret_cast<float *>(memory), *k = q + 4 * kStride, *s = k + 5 * kStride;
  lockstep::parallel_for(4 * kSize, [&](int i) { q[i / kSize * kStride + i % kSize] = u->x[i]; });
  lockstep::parallel_for(5 * kSize, [&](int i) { k[i / kSize * kStride + i % kSize] = u->w[i]; });
  __syncthreads();
  const int row = lockstep::thread_index();
  float *scores = s + row * 5;
  const float *queries = q + row * kStride;
  switch (u->kind) {
    case 0:
      lockstep::parallel_for(kScores, [&](int i) {
        s[i] = lockstep::score(q + i / 5 * kStride, k + i % 5 * kStride);
      });
      break;
    case 1:
      if (row < 4) lockstep::score_tile<kStride, 1>(scores, 5, queries, k);
      break;
    case 2:
      if (row < 4 && row % 2 == 0) lockstep::score_tile<kStride, 2>(scores, 5, queries, k);
      break;
    case 4:
      if (row == 0) lockstep::score_tile<kStride, 4>(scores, 5, queries, k);
      break;
  }
  __syncthreads();
  lockstep::parallel_for(kScores, [&](int i) { u->y[i] = s[i]; });
}

// unit_mixed: of a row x (20) of P and a column w (20) of V, y (20). kind 0 is that of all
// positions, a tile of equal ones, 1 that of the last one.
extern "C" __global__ void unit_mixed(const Units *u) {
  LOCKSTEP_SHARED(memory);
  enum { kStride = 4, kRow = lockstep::kHeads * lockstep::kContext, kSums = 5 * kStride };
  float *p = reinterpret_cast<float *>(memory), *v = p + 5 * kRow,
        *out = v + lockstep::kContext * kStride;
  lockstep::parallel_for(5 * lockstep::kContext, [&](int i) {
    p[i / lockstep::kContext * kRow + i % lockstep::kContext] = u->x[i % lockstep::kContext];
  });
  lockstep::parallel_for(lockstep::kContext * kStride, [&](int i) { v[i] = u->w[i / kStride]; });
  __syncthreads();
  if (u->kind == 1) {
    lockstep::parallel_for(kSums, [&](int i) {
      out[i] = lockstep::weighted_sum<kStride>(p + i / kStride * kRow, v + i % kStride);
    });
  } else if (lockstep::thread_index() == 0) {
    lockstep::weighted_sum_tile<kStride>(out, p, v);
  }
  __syncthreads();
  lockstep::parallel_for(kSums, [&](int i) { u->y[i] = out[i]; });
}

// unit_panels: ½ of the product of x (512) with equal columns, w (8, 512, 16), added to -0,
// which changes no bit: y (20, 128) for kind 0, that of all positions, and (128) for 1,
// that of the last one.
extern "C" __global__ void unit_panels(const Units *u) {
  LOCKSTEP_SHARED(memory);
  typedef lockstep::Block<1> B;
  lockstep::Activations a;
  a.residual = reinterpret_cast<float *>(memory);
  a.normed = a.residual + B::kBuffer;
  a.work = a.normed + B::kBuffer;
  a.scores = a.work + B::kBuffer;
  lockstep::parallel_for(B::kBuffer, [&](int i) {
    a.residual[i] = -0.0f;
    a.work[i] = 0.0f;
  });
  lockstep::parallel_for(lockstep::kHidden, [&](int i) { a.normed[i] = u->x[i]; });
  __syncthreads();
  if (u->kind == 1) {
    lockstep::add_last_mlp_output<1>(lockstep::OutRows{a.residual, B::kStride},
                                     lockstep::InRows{a.normed, lockstep::kHidden}, u->w, a.work,
                                     a.work + B::kStride);
  } else {
    lockstep::add_mlp_output<1>(a, u->w, [&](int chunk) {
      lockstep::parallel_for(B::kRows * lockstep::kWidth, [&](int i) {
        const int k = i % lockstep::kWidth;
        a.work[i / lockstep::kWidth * B::kStride + k] = u->x[chunk * lockstep::kWidth + k];
      });
    });
  }
  const int rows = u->kind == 1 ? 1 : B::kRows;
  lockstep::parallel_for(rows * lockstep::kWidth, [&](int i) {
    u->y[i] = a.residual[i / lockstep::kWidth * B::kStride + i % lockstep::kWidth];
  });
}

// unit_cdf: x (1024) probabilities, c (1024) their distribution, as choose sees it.
extern "C" __global__ void unit_cdf(const Units *u) {
  if (threadIdx.x != 0) return;
  const double total = lockstep::cumulate(u->c, u->x);
  for (int i = 0; i < lockstep::kVocabulary; i++) u->c[i] = u->c[i] / total;
}

// unit_beta: x (n, 2) softplus pairs, i (n, 3) seed, id and step: y (n) variates. kind 1:
// the means, c (n).
extern "C" __global__ void unit_beta(const Units *u) {
  for (int64_t i = threadIdx.x; i < u->n; i += blockDim.x) {
    if (u->kind == 1) {
      u->c[i] = lockstep::mean_action(u->x + 2 * i);
    } else {
      const int64_t *of = u->i + 3 * i;
      u->y[i] = lockstep::beta_variate(u->x + 2 * i, static_cast<uint64_t>(of[0]),
                                       static_cast<uint64_t>(of[1]), of[2]);
    }
  }
}

// unit_observe: a (4, n) target, roll, v, a of a route, b (2, n) lataccels and actions,
// kind the step: y (256).
extern "C" __global__ void unit_observe(const Units *u) {
  const int64_t n = u->n;
  const lockstep::View view = {u->a + n,
                               u->a + 2 * n,
                               u->a + 3 * n,
                               u->a,
                               n,
                               u->b,
                               u->b + lockstep::kControlStart,
                               u->b + n + lockstep::kControlStart};
  for (int i = static_cast<int>(threadIdx.x); i < lockstep::kObservation;
       i += static_cast<int>(blockDim.x)) {
    u->y[i] = i < lockstep::kScalars ? lockstep::observed_scalar(view, u->kind, i)
                                     : lockstep::observed(view, u->kind, i);
  }
}

// unit_layer: x (256), w a packed layer of i[0] inputs and i[1] outputs, kind whether
// there is ReLU: y (256).
extern "C" __global__ void unit_layer(const Units *u) {
  LOCKSTEP_SHARED(memory);
  float *in = reinterpret_cast<float *>(memory);
  for (int k = static_cast<int>(threadIdx.x); k < lockstep::kObservation;
       k += static_cast<int>(blockDim.x))
    in[k] = u->x[k];
  __syncthreads();
  const int inputs = static_cast<int>(u->i[0]), outputs = static_cast<int>(u->i[1]);
  const float *bias = u->w + inputs * outputs;
  if (u->kind != 0) {
    lockstep::matmul_few_rows<1, 4>(lockstep::OutRows{u->y, lockstep::kObservation},
                                    lockstep::InRows{in, lockstep::kObservation},
                                    lockstep::PackedWeights{u->w, inputs, outputs}, bias);
  } else {
    lockstep::matmul_few_rows<1, 1>(lockstep::OutRows{u->y, lockstep::kObservation},
                                    lockstep::InRows{in, lockstep::kObservation},
                                    lockstep::PackedWeights{u->w, inputs, outputs});
    lockstep::parallel_for(outputs, [&](int column) { u->y[column] += bias[column]; });
  }
}
