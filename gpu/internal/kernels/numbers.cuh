// Elementary functions, operation by operation. Nothing here may be contracted
// or reordered: products that feed a sum are __fmul_rn and __dmul_rn, quotients
// and roots are the correctly rounded ones, and every FMA is written out.
#pragma once

#ifdef __CUDACC__
// A kernel's argument, which lies where all threads read it without a load.
#define LOCKSTEP_ARGUMENT(type) const __grid_constant__ type
// A block's shared memory, whose size the launch gives.
#define LOCKSTEP_SHARED(name) extern __shared__ float4 name[]
// Part of it that nobody may read or write, where the CPU runs the kernels.
#define LOCKSTEP_GUARD(pointer, bytes) ((void)0)
// Some nanoseconds in which a warp does nothing.
#define LOCKSTEP_SLEEP(ns) __nanosleep(ns)
#else
#include "cpu/cuda.h"
#endif

#include <stdint.h>

namespace lockstep {

// clip is np.clip for numbers; NaN stays NaN, also as a bound.
__device__ __forceinline__ double clip(double x, double low, double high) {
  x = x != x || low != low ? x + low : x < low ? low : x;
  return x != x || high != high ? x + high : x > high ? high : x;
}

// highest is the larger number; NaN wins.
__device__ __forceinline__ float highest(float a, float b) {
  return a != a || a > b ? a : b;
}

// scale is p·2^e in one rounding, for e of an integer from -1000 to 1000. The
// product is exact in float64, so that results below float32's normal range are
// rounded once.
__device__ __forceinline__ float scale(float p, float e) {
  const int64_t exponent = e != e ? 0 : static_cast<int64_t>(e);
  return static_cast<float>(static_cast<double>(p) * __longlong_as_double((1023 + exponent) << 52));
}

// exp_reduced is e^x = p·2^e as in ONNX Runtime's softmax.
__device__ __forceinline__ float exp_reduced(float x, float *e) {
  const float magic = 0x1.8p23f;
  const float m = fmaf(0x1.715476p+0f, x, magic) - magic;
  x = fmaf(m, -0x1.62e4p-1f, x);
  x = fmaf(m, -0x1.7f7d1cp-20f, x);
  float p = fmaf(0x1.694p-10f, x, 0x1.125edcp-7f);
  p = fmaf(p, x, 0x1.555b5ap-5f);
  p = fmaf(p, x, 0x1.55545p-3f);
  p = fmaf(p, x, 0x1.fffff6p-2f);
  p = fmaf(p, x, 1.0f);
  p = fmaf(p, x, 1.0f);
  *e = m;
  return p;
}

// exp512 is e^x for x <= 0, as on CPUs with AVX-512: subnormal results are kept.
__device__ __forceinline__ float exp512(float x) {
  float e;
  const float p = exp_reduced(x < -0x1.9fe36ap+6f ? -0x1.9fe36ap+6f : x, &e);
  return scale(p, e);
}

// exp256 is e^x for x <= 0, as on CPUs with AVX2: the power of two is made in
// the exponent's bits, 0 where the result would be subnormal.
__device__ __forceinline__ float exp256(float x) {
  float e;
  const float p = exp_reduced(x < -0x1.61814ap+6f ? -0x1.61814ap+6f : x, &e);
  const int32_t exponent = e != e ? 0 : static_cast<int32_t>(e);
  return p * __int_as_float(static_cast<int32_t>(static_cast<uint32_t>(127 + exponent) << 23));
}

// exp_numpy is np.exp in float32. fused is how the range reduction rounds.
__device__ __forceinline__ float exp_numpy(float x, bool fused) {
  const float magic = 0x1.8p23f;
  if (x != x) return x;
  if (x >= 0x1.62e43p+6f) return __int_as_float(0x7f800000);
  if (x <= -0x1.9fe36ap+6f) return 0.0f;
  float q = fused ? fmaf(x, 0x1.715476p+0f, magic) : __fmul_rn(x, 0x1.715476p+0f) + magic;
  q -= magic;
  float r = fmaf(q, -0x1.62e4p-1f, x);
  r = fmaf(q, -0x1.7f7d1cp-20f, r);
  float n = fmaf(__int_as_float(0x3a053dd8), r, __int_as_float(0x3bdd7159));
  n = fmaf(n, r, __int_as_float(0x3d517d8c));
  n = fmaf(n, r, __int_as_float(0x3e7d4c58));
  n = fmaf(n, r, __int_as_float(0x3f39cbd5));
  n = fmaf(n, r, 1.0f);
  float d = fmaf(__int_as_float(0x3cb0e832), r, __int_as_float(static_cast<int>(0xbe8c6857)));
  d = fmaf(d, r, 1.0f);
  return scale(__fdiv_rn(n, d), q);
}

// hyperbolic_tangent is ONNX Runtime's tanh.
__device__ __forceinline__ float hyperbolic_tangent(float u) {
  float z = u < -9.0f ? -9.0f : u;
  z = z > 9.0f ? 9.0f : z;
  const float y = z * z;
  float p = fmaf(y, -0x1.3e4b8p-52f, 0x1.c266fcp-43f);
  p = fmaf(p, y, -0x1.7a6ffep-34f);
  p = fmaf(p, y, 0x1.b80082p-25f);
  p = fmaf(p, y, 0x1.f28694p-17f);
  p = fmaf(p, y, 0x1.4e1bdap-11f);
  p = fmaf(p, y, 0x1.40b3b8p-8f);
  p = p * z;
  float q = fmaf(y, 0x1.41a7bp-20f, 0x1.f12bacp-14f);
  q = fmaf(q, y, 0x1.29540ap-9f);
  q = fmaf(q, y, 0x1.40b3bap-8f);
  return __fdiv_rn(p, q);
}

// gelu is twice GELU; the factor ½ is the alpha of the next product.
__device__ __forceinline__ float gelu(float f) {
  float c = f * f;
  c = f * c;
  c = __fmul_rn(0x1.6e4e26p-5f, c);
  c = f + c;
  const float h = hyperbolic_tangent(0x1.988454p-1f * c);
  return f * (1.0f + h);
}

__device__ __forceinline__ float4 zero4() { return make_float4(0.0f, 0.0f, 0.0f, 0.0f); }

__device__ __forceinline__ float4 load4(const float *p) {
  return *reinterpret_cast<const float4 *>(p);
}

__device__ __forceinline__ void store4(float *p, float4 v) { *reinterpret_cast<float4 *>(p) = v; }

// load_weights reads four weights, which the kernel never writes.
__device__ __forceinline__ float4 load_weights(const float *p) {
  return __ldg(reinterpret_cast<const float4 *>(p));
}

#ifdef __CUDACC__
// fma4 is c = fma(a, b, c) in four chains.
__device__ __forceinline__ void fma4(float4 &c, float a, float4 b) {
  c.x = fmaf(a, b.x, c.x);
  c.y = fmaf(a, b.y, c.y);
  c.z = fmaf(a, b.z, c.z);
  c.w = fmaf(a, b.w, c.w);
}
#endif

// thread_index is threadIdx.x, which the compiler would read once and keep.
__device__ __forceinline__ int thread_index() {
#ifdef __CUDACC__
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
#else
  return static_cast<int>(threadIdx.x);
#endif
}

// A Thread is a thread's place in its block.
struct Thread {
  int index, count;              // in the block
  int lane, warp, warps;
};

// this_thread asks anew each time it is called: a place that is kept across the
// network takes registers from the products.
__device__ __forceinline__ Thread this_thread() {
  Thread t;
  t.index = thread_index();
  t.count = static_cast<int>(blockDim.x);
  t.lane = t.index & 31;
  t.warp = t.index >> 5;
  t.warps = t.count >> 5;
  return t;
}

}  // namespace lockstep
