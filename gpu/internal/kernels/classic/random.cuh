// NumPy's PCG64 seeded by a SeedSequence, and Philox4x32-10.
#pragma once

#include "functions.cuh"

namespace lockstep::classic {

struct Generator {
  uint64_t hi, lo, inc_hi, inc_lo;

  __device__ __forceinline__ uint64_t next() {
    const uint64_t m_hi = 0x2360ed051fc65da4, m_lo = 0x4385df649fccf645;
    const uint64_t low = lo * m_lo;
    const uint64_t high = __umul64hi(lo, m_lo) + hi * m_lo + lo * m_hi;
    lo = low + inc_lo;
    hi = high + inc_hi + (lo < low ? 1 : 0);
    const uint64_t x = hi ^ lo;
    const int r = static_cast<int>(hi >> 58);
    return x >> r | x << (-r & 63);
  }

  __device__ __forceinline__ double uniform(double low, double width) {
    return low + width * (static_cast<double>(next() >> 11) * 0x1p-53);
  }
};

struct Hash {
  uint32_t constant, factor;
  __device__ __forceinline__ uint32_t operator()(uint32_t v) {
    v ^= constant;
    constant *= factor;
    v *= constant;
    return v ^ v >> 16;
  }
};

__device__ __noinline__ Generator seeded(uint64_t seed) {
  Hash h{0x43b0d7e5u, 0x931e8875u};
  uint32_t pool[4];
  pool[0] = h(static_cast<uint32_t>(seed));
  pool[1] = h(static_cast<uint32_t>(seed >> 32));
  pool[2] = h(0);
  pool[3] = h(0);
  for (int from = 0; from < 4; from++) {
    for (int to = 0; to < 4; to++) {
      if (from == to) continue;
      const uint32_t r = pool[to] * 0xca01f9ddu - h(pool[from]) * 0x4973f715u;
      pool[to] = r ^ r >> 16;
    }
  }
  Hash out{0x8b51f9ddu, 0x58f38dedu};
  uint64_t q[4];
  for (int i = 0; i < 4; i++) {
    const uint64_t low = out(pool[2 * i & 3]);
    q[i] = low | static_cast<uint64_t>(out(pool[(2 * i + 1) & 3])) << 32;
  }
  Generator g{0, 0, q[2] << 1 | q[3] >> 63, q[3] << 1 | 1};
  g.next();
  const uint64_t low = g.lo + q[1];
  g.hi += q[0] + (low < q[1] ? 1 : 0);
  g.lo = low;
  g.next();
  return g;
}

struct Words {
  uint32_t w[4];
};

__device__ __noinline__ Words philox(uint32_t env, uint32_t block, uint64_t key) {
  uint32_t a = env, b = 0, c = block, d = 0;
  uint32_t k = static_cast<uint32_t>(key), l = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; round++) {
    const uint32_t p_hi = __umulhi(0xd2511f53u, a), p_lo = 0xd2511f53u * a;
    const uint32_t q_hi = __umulhi(0xcd9e8d57u, c), q_lo = 0xcd9e8d57u * c;
    a = q_hi ^ b ^ k;
    b = q_lo;
    c = p_hi ^ d ^ l;
    d = p_lo;
    k += 0x9e3779b9u;
    l += 0xbb67ae85u;
  }
  return Words{{a, b, c, d}};
}

}  // namespace lockstep::classic
