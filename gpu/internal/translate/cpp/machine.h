// What translated instructions are made of: the thread that executes them, memory that
// is checked at every access, and the operations of a GPU that C++ has no operator for.
// The tables ptx.txt and sass.txt say which instruction uses which.
#pragma once

#include <stdint.h>
#include <string.h>

namespace machine {

// Windows of generic addresses; below them lies global memory.
constexpr uint64_t kSharedWindow = 0x00fe0000ull << 32, kLocalWindow = 0x00ff0000ull << 32;
constexpr uint32_t kSharedStart = 0x400;  // what sm_90 keeps for itself; PTX does not see it
constexpr uint32_t kLocalBytes = 4096;    // of a thread

// Marks of an instruction's place: it is machine code; it may read of shared memory what nobody
// has written.
constexpr int kCode = 1 << 30, kMasked = 1 << 29;

class Block;

// A Thread is one of a block. Its local memory is a stack of frames.
struct Thread {
  Block &block;
  unsigned tid, ntid, ctaid;
  const uint8_t *argument;  // of the kernel
  uint64_t path = 0;        // of the branches taken since the warp's threads were together
  uint32_t frame = 0;
  alignas(16) uint8_t local[kLocalBytes];

  explicit Thread(const void *argument);

  // Each returns where bytes at an address lie on the host, or stops the launch, saying
  // what is wrong. at is the instruction: the line of PTX, the address of machine code.
  const uint8_t *read_shared(uint32_t address, int bytes, int at);
  uint8_t *write_shared(uint32_t address, int bytes, int at);
  const uint8_t *read_global(uint64_t address, int bytes, int at);
  uint8_t *write_global(uint64_t address, int bytes, int at);
  uint8_t *at_local(uint64_t address, int bytes, int at);
  const uint8_t *read_local(uint64_t address, int bytes, int at) {
    return at_local(address, bytes, at);
  }
  uint8_t *write_local(uint64_t address, int bytes, int at) { return at_local(address, bytes, at); }
  const uint8_t *read_generic(uint64_t address, int bytes, int at);
  uint8_t *write_generic(uint64_t address, int bytes, int at);

  // A word of constant bank 0, which has the size of the block, the top of the stack and
  // the kernel's argument, and of a table of the kernel's.
  uint32_t constant0(uint32_t offset, int at);
  uint32_t constant2(const uint8_t *table, uint32_t bytes, uint32_t offset, int at);
  void barrier(int at);
  [[noreturn]] void stop(int at, const char *what);

  void branch(int at, bool taken) {
    path = (path ^ (uint64_t)(2 * at + taken)) * 0x9e3779b97f4a7c15ull;
  }
};

// A Frame is a function's local memory.
struct Frame {
  Thread &t;
  const uint32_t before, start;
  Frame(Thread &t, uint32_t bytes, int at) : t(t), before(t.frame), start((t.frame + 15) & ~15u) {
    if (start + bytes > kLocalBytes) t.stop(at, "needs more local memory than there is");
    t.frame = start + bytes;
  }
  ~Frame() { t.frame = before; }
};

template <class To, class From>
inline To bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
template <class T>
inline T load(const uint8_t *p) {
  T x;
  memcpy(&x, p, sizeof x);
  return x;
}
template <class T>
inline void store(uint8_t *p, T x) {
  memcpy(p, &x, sizeof x);
}

// No functions: to put ten thousand calls in line takes g++ as long as all else of a kernel.
#define f32(b) __builtin_bit_cast(float, (uint32_t)(b))
#define f64(b) __builtin_bit_cast(double, (uint64_t)(b))
inline uint64_t pair(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }
inline float negated(float x) { return f32(bits<uint32_t>(x) ^ 0x80000000u); }
inline double negated(double x) { return f64(bits<uint64_t>(x) ^ 1ull << 63); }
inline float absolute(float x) { return f32(bits<uint32_t>(x) & 0x7fffffffu); }
inline double absolute(double x) { return f64(bits<uint64_t>(x) & ~(1ull << 63)); }
inline double copysign(double sign, double x) { return __builtin_copysign(x, sign); }

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float root(float a) { return __builtin_sqrtf(a); }
inline double root(double a) { return __builtin_sqrt(a); }

// Flushes a subnormal number to zero.
inline float ftz(float x) {
  return (bits<uint32_t>(x) & 0x7f800000u) == 0 ? f32(bits<uint32_t>(x) & 0x80000000u) : x;
}

// Rounded down, up, or to zero.
enum Rounding { kDown, kUp, kZero };
float fused(Rounding, float a, float b, float c);
double fused(Rounding, double a, double b, double c);
double product(Rounding, double a, double b);
float round_up(double x);

// The lesser or the greater of two, which of two zeros is the negative or the positive
// one; the number if the other is NaN, NaN if both are.
inline float extreme(float a, float b, bool least) {
  if (a != a && b != b) return f32(0x7fffffffu);
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) {
    return f32(least ? bits<uint32_t>(a) | bits<uint32_t>(b)
                     : bits<uint32_t>(a) & bits<uint32_t>(b));
  }
  return (a < b) == least ? a : b;
}
inline float extreme_nan(float a, float b, bool least) {
  return a != a || b != b ? f32(0x7fffffffu) : extreme(a, b, least);
}
inline double greatest(double a, double b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return f64(bits<uint64_t>(a) & bits<uint64_t>(b));
  return a > b ? a : b;
}

// The divisor of integers, if there is a quotient of their type.
template <class T>
inline T divisor(Thread &t, int at, T a, T b) {
  if (b == 0) t.stop(at, "divides an integer by zero");
  if ((T)-1 < (T)0 && b == (T)-1 && a == (T)((uint64_t)1 << (sizeof a * 8 - 1))) {
    t.stop(at, "divides the least integer by -1");
  }
  return b;
}

// A shift by as many places as there are bits, or more, leaves zeros or signs.
template <class T>
inline T left(T x, uint32_t n) {
  return n < sizeof x * 8 ? (T)(x << n) : (T)0;
}
template <class T>
inline T right(T x, uint32_t n) {
  return n < sizeof x * 8 ? (T)(x >> n) : (T)(x < 0 ? -1 : 0);
}
// The n bits of a, in place of those of b from bit position on.
template <class T>
inline T insert(T a, T b, uint32_t position, uint32_t n) {
  position &= 255, n &= 255;
  const T mask = left<T>(n < sizeof(T) * 8 ? (T)(((T)1 << n) - 1) : (T)-1, position);
  return (T)((b & ~mask) | (left<T>(a, position) & mask));
}
// The integer next to x towards zero, the last one where it is beyond; of NaN none.
template <class T, class F>
inline T truncated(F x, T none) {
  constexpr bool kSigned = (T)-1 < (T)0;
  constexpr int kBits = (int)sizeof(T) * 8 - kSigned;
  const F end = (F)((uint64_t)1 << (kBits - 1)) * 2;
  if (x != x) return none;
  if (x >= end) return (T)((kSigned ? (T)0 : (T)-1) | (T)((uint64_t)-1 >> (64 - kBits)));
  if (x <= (kSigned ? -end : (F)-1)) return kSigned ? (T)((uint64_t)1 << (kBits % 64)) : (T)0;
  return (T)x;
}

// Any function of three bits: bit 4a + 2b + c of the table.
inline uint32_t lookup(uint32_t table, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r = 0;
  if (table & 1) r |= ~a & ~b & ~c;
  if (table & 2) r |= ~a & ~b & c;
  if (table & 4) r |= ~a & b & ~c;
  if (table & 8) r |= ~a & b & c;
  if (table & 16) r |= a & ~b & ~c;
  if (table & 32) r |= a & ~b & c;
  if (table & 64) r |= a & b & ~c;
  if (table & 128) r |= a & b & c;
  return r;
}
// Each byte of the result is one of the eight of b:a, or copies of its sign.
inline uint32_t permuted(uint32_t a, uint32_t selector, uint32_t b) {
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) {
    const uint32_t s = selector >> 4 * i & 15;
    uint32_t byte = (uint32_t)(pair(a, b) >> 8 * (s & 7)) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << 8 * i;
  }
  return r;
}

// The special function unit: some approximation of 1/x and 1/√x. What follows it in a
// quotient or a root corrects it, whatever it is within its error.
float reciprocal(float x);
float reciprocal_root(float x);
double reciprocal_high(double x);
double reciprocal_root_high(double x);
// Whether a / b wants the slow way: exponents at which the fast one would lose bits.
inline bool special_quotient(float a, float b) {
  const int p = (int)(bits<uint32_t>(a) >> 23 & 255), q = (int)(bits<uint32_t>(b) >> 23 & 255);
  return q == 0 || q >= 253 || p == 255 || p < 26 || p - q >= 126 || p - q <= -125;
}

}  // namespace machine
