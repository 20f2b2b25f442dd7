// What of CUDA the kernels use, for a C++ compiler. The threads of a block are
// fibers of one thread of the system, see device.cpp.
#pragma once

#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __noinline__ inline __attribute__((noinline))
#if defined(__SANITIZE_ADDRESS__)
#define __forceinline__ inline
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif

namespace lockstep::cpu {

struct Index {
  unsigned x;
};
// Of the fiber that runs.
extern thread_local Index thread_index, block_index, block_size;

void *shared_memory();
void guard(void *p, int64_t bytes);
void barrier(const char *file, int line, uint64_t path = 0);

}  // namespace lockstep::cpu

#define threadIdx lockstep::cpu::thread_index
#define blockIdx lockstep::cpu::block_index
#define blockDim lockstep::cpu::block_size
#define __syncthreads() lockstep::cpu::barrier(__FILE__, __LINE__)
#define LOCKSTEP_ARGUMENT(type) const type &
#define LOCKSTEP_SHARED(name) float4 *name = static_cast<float4 *>(lockstep::cpu::shared_memory())
#define LOCKSTEP_GUARD(pointer, bytes) lockstep::cpu::guard(pointer, bytes)
#define LOCKSTEP_SLEEP(ns) ((void)0)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }

inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
#ifndef fmaf
#define fmaf __builtin_fmaf
#endif
#define fma __builtin_fma
#define fabs __builtin_fabs
#define copysign __builtin_copysign
#define trunc __builtin_trunc

// bit_cast is the number that has another's bits.
template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline float __int_as_float(int32_t bits) { return bit_cast<float>(bits); }
inline int32_t __float_as_int(float x) { return bit_cast<int32_t>(x); }
inline double __longlong_as_double(int64_t bits) { return bit_cast<double>(bits); }
inline int64_t __double_as_longlong(double x) { return bit_cast<int64_t>(x); }

inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}

template <class T>
inline T __ldg(const T *p) {
  return *p;
}

namespace lockstep {

// fma4 is c = fma(a, b, c) in four chains.
__forceinline__ void fma4(float4 &c, float a, float4 b) {
#if defined(__FMA__)
  typedef float vector __attribute__((vector_size(16)));
  vector u = {a, a, a, a}, v, w;
  memcpy(&v, &b, sizeof v);
  memcpy(&w, &c, sizeof w);
  w = __builtin_ia32_vfmaddps(u, v, w);
  memcpy(&c, &w, sizeof w);
#else
  c.x = fmaf(a, b.x, c.x);
  c.y = fmaf(a, b.y, c.y);
  c.z = fmaf(a, b.z, c.z);
  c.w = fmaf(a, b.w, c.w);
#endif
}

}  // namespace lockstep
