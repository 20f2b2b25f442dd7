// Elementary functions of the C library and of NumPy, operation by operation. The
// kernels are compiled without contraction: every fma is written out.
#pragma once

#ifdef __CUDACC__
// The argument of a kernel, which all threads read as a constant.
#define LOCKSTEP_ARGUMENT(type) const __grid_constant__ type
#else
#include "cpu/cuda.h"
#endif

#include "launch.h"

namespace lockstep::classic {

__device__ __forceinline__ uint64_t bits_of(double x) {
  return static_cast<uint64_t>(__double_as_longlong(x));
}
__device__ __forceinline__ double of_bits(uint64_t x) {
  return __longlong_as_double(static_cast<int64_t>(x));
}

constexpr double kPi = 0x1.921fb54442d18p+1;
constexpr double kSn3 = -0x1.5555555555515p-3, kSn5 = 0x1.11110e829872fp-7;
constexpr double kCs2 = 0.5, kCs4 = -0x1.5555555555535p-5, kCs6 = 0x1.6c16bedd9e239p-10;
constexpr double kHalfPi = 0x1.921fb54442d18p0, kHalfPiRest = 0x1.1a62633145c07p-54;

// Table is the row of the sines' table nearest to an angle.
struct Row {
  double sn, ssn, cs, ccs, h;
};

__device__ __forceinline__ Row nearest(const double *table, double a) {
  const double u = fabs(a) + 0x1.8p45;
  const double *r = table + 4 * (bits_of(u) & 127);
  return Row{__ldg(r), __ldg(r + 1), __ldg(r + 2), __ldg(r + 3), fabs(a) - (u - 0x1.8p45)};
}

__device__ __forceinline__ double cosine_rest(double xx) {
  return xx * fma(xx, fma(xx, kCs6, kCs4), kCs2);
}

// taylor is sin(a + da) for |a| < 0.126.
__device__ __forceinline__ double taylor(double a, double da) {
  const double xx = a * a;
  double p = fma(of_bits(0xbe5addffc2fcdf59), xx, of_bits(0x3ec71de27b9a7ed9));
  p = fma(p, xx, of_bits(0xbf2a01a019db08b8));
  p = fma(p, xx, of_bits(0x3f81111111110ece));
  p = fma(p, xx, of_bits(0xbfc5555555555555));
  return a + fma(xx, fma(p, a, -(0.5 * da)), da);
}

// sin_sum is sin(a + da), cos_sum cos(a + da).
__device__ __forceinline__ double sin_sum(const double *table, double a, double da) {
  if (fabs(a) < 0.126) return taylor(a, da);
  const Row r = nearest(table, a);
  if (a <= 0) da = -da;
  const double xx = r.h * r.h;
  const double s = r.h + fma(r.h * xx, fma(xx, kSn5, kSn3), da);
  const double c = fma(r.h, da, cosine_rest(xx));
  const double cor = fma(s, r.cs, fma(-c, r.sn, fma(r.ccs, s, r.ssn)));
  return copysign(r.sn + cor, a);
}

__device__ __forceinline__ double cos_sum(const double *table, double a, double da) {
  const Row r = nearest(table, a);
  const double h = r.h + (a < 0 ? -da : da);
  const double xx = h * h;
  const double s = fma(h * xx, fma(xx, kSn5, kSn3), h);
  const double c = cosine_rest(xx);
  return r.cs + fma(-s, r.sn, fma(-c, r.cs, fma(-r.ssn, s, r.ccs)));
}

__device__ __forceinline__ uint32_t high_word(double x) {
  return static_cast<uint32_t>(bits_of(x) >> 32) & 0x7fffffffu;
}

// Angle is a + da, and n quarters of a turn more, n modulo 4.
struct Angle {
  double a, da;
  uint64_t n;
};

// near reduces angles up to 105414336.
__device__ __forceinline__ Angle near(double x) {
  const double t = fma(x, 0x1.45f306dc9c883p-1, 0x1.8p52);
  const double k = t - 0x1.8p52;
  double y = fma(-k, 0x1.921fb58p0, x);
  y = fma(-k, -0x1.dde973cp-27, y);
  const double t2 = fma(-k, -0x1.cb3b398p-55, y);
  const double d1 = fma(-k, -0x1.cb3b398p-55, y - t2);
  const double a = fma(-k, -0x1.d747f23e32ed7p-83, t2);
  return {a, d1 + fma(-k, -0x1.d747f23e32ed7p-83, t2 - a), bits_of(t)};
}

// head is x to 26 bits.
__device__ __forceinline__ double head(double x) {
  const double t = x * 134217729.0;
  return t - (t - x);
}

// Quarters is sum + rest of them, and n whole ones.
struct Quarters {
  double sum, rest, n;

  __device__ __forceinline__ double whole(double x) {
    const double i = (x + 0x1.8p52) - 0x1.8p52;
    n += i;
    return i;
  }

  // of multiplies 26 bits of an angle by the six digits of 2/π, in base 2^24, that
  // make neither whole turns nor nothing.
  __device__ __noinline__ void of(const double *digits, double x) {
    const int exponent = static_cast<int>(high_word(x) >> 20);
    const int first = exponent < 450 ? 0 : (exponent - 450) / 24;
    double scale = of_bits(static_cast<uint64_t>(1023 + 576 - 24 * first) << 52), r[6];
    for (int i = 0; i < 6; i++, scale *= 0x1p-24) {
      r[i] = x * __ldg(digits + first + i) * scale;
      if (i < 3) r[i] -= whole(r[i]);
    }
    double t = 0;
    for (int i = 5; i >= 0; i--) t += r[i];
    double below = r[0] - t;
    for (int i = 1; i < 6; i++) below += r[i];
    t -= whole(t);
    sum = t + below;
    rest = (t - sum) + below;
  }
};

// far reduces all other finite angles.
__device__ __noinline__ Angle far(const double *digits, double x) {
  x *= 0x1p-600;
  const double x1 = head(x);
  Quarters p{0, 0, 0}, q{0, 0, 0};
  p.of(digits, x1);
  q.of(digits, x - x1);
  double n = p.n + q.n, sum = p.sum + q.sum;
  const double rest = fabs(p.sum) > fabs(q.sum) ? (p.sum - sum) + q.sum : (q.sum - sum) + p.sum;
  if (fabs(sum) > 0.5) {
    const double quarter = copysign(1.0, sum);
    sum -= quarter;
    n += quarter;
  }
  const double s = sum + (rest + p.rest + q.rest), t = ((sum - s) + rest) + (p.rest + q.rest);
  const double s1 = head(s), s2 = s - s1, y = s * kHalfPi;
  const double h1 = 0x1.921fb58p0, h2 = -0x1.dde974p-27;
  const double below =
      (((s1 * h1 - y) + s1 * h2) + s2 * h1) + ((s2 * h2 + s * kHalfPiRest) + t * kHalfPi);
  const double a = y + below;
  return {a, (y - a) + below, static_cast<uint64_t>(static_cast<int64_t>(n))};
}

// reduced is sine or cosine, quarters of a turn on, of an angle beyond 2.426265; NaN
// of what is not finite.
__device__ __noinline__ double reduced(const Launch &l, double x, uint32_t quarters) {
  const uint32_t word = high_word(x);
  if (word >= 0x7ff00000u) return x - x;
  const Angle r = word < 0x419921fbu ? near(x) : far(l.two_over_pi, x);
  const uint64_t n = r.n + quarters;
  const double v = (n & 1) != 0 ? cos_sum(l.sincos, r.a, r.da) : sin_sum(l.sincos, r.a, r.da);
  return (n & 2) != 0 ? -v : v;
}

// sine and cosine are glibc's.
__device__ __forceinline__ double sine(const Launch &l, double x) {
  const uint32_t word = high_word(x);
  if (word < 0x3e500000u) return x;
  if (word < 0x3feb6000u) return sin_sum(l.sincos, x, 0);
  if (word < 0x400368fdu) return copysign(cos_sum(l.sincos, kHalfPi - fabs(x), kHalfPiRest), x);
  return reduced(l, x, 0);
}

__device__ __forceinline__ double cosine(const Launch &l, double x) {
  const uint32_t word = high_word(x);
  if (word < 0x3e400000u) return 1;
  if (word < 0x3feb6000u) return cos_sum(l.sincos, x, 0);
  if (word < 0x400368fdu) {
    const double y = kHalfPi - fabs(x), a = y + kHalfPiRest;
    return sin_sum(l.sincos, a, (y - a) + kHalfPiRest);
  }
  return reduced(l, x, 1);
}

struct SineCosine {
  double sine, cosine;
};

__device__ __noinline__ SineCosine beyond_row(const Launch &l, double x) {
  return {sine(l, x), cosine(l, x)};
}

// sine_cosine is both of one angle. Below 0.855469, where poles stand, they share a row
// of the table; what da adds there to their sums is 0.
__device__ __forceinline__ SineCosine sine_cosine(const Launch &l, double x) {
  const uint32_t word = high_word(x);
  if (word >= 0x3feb6000u) return beyond_row(l, x);
  const Row r = nearest(l.sincos, x);
  const double xx = r.h * r.h, cube = r.h * xx, rest = fma(xx, kSn5, kSn3), c = cosine_rest(xx);
  const double s1 = fma(cube, rest, r.h), s2 = r.h + cube * rest;
  const double cosine = r.cs + fma(-s1, r.sn, fma(-c, r.cs, fma(-r.ssn, s1, r.ccs)));
  const double above = copysign(r.sn + fma(s2, r.cs, fma(-c, r.sn, fma(r.ccs, s2, r.ssn))), x);
  return {word < 0x3e500000u ? x : fabs(x) < 0.126 ? taylor(x, 0) : above, cosine};
}

// whole_power is glibc's pow(x, 2) for 2^-540 <= x < 2^360.
__device__ __noinline__ double whole_power(const Launch &l, double x) {
  const uint64_t ix = bits_of(x), tm = ix - 0x3fe6955500000000;
  const uint64_t *row = l.pow_log + 3 * (tm >> 45 & 127);
  const double k = static_cast<double>(static_cast<int64_t>(tm) >> 52);
  const double z = of_bits(ix - (tm & 0xfff0000000000000));
  const double r = fma(z, of_bits(row[0]), -1.0);
  const double t1 = fma(k, 0x1.62e42fefa38p-1, of_bits(row[1]));
  const double t2 = t1 + r;
  const double ar = -0.5 * r, ar2 = r * ar, ar3 = r * ar2;
  const double hi = t2 + ar2;
  double lo = fma(k, 0x1.ef35793c7673p-45, of_bits(row[2])) + ((t1 - t2) + r);
  lo = (lo + fma(ar, r, -ar2)) + ((t2 - hi) + ar2);
  double p = fma(fma(r, 0x1.0002b8b263fc3p0, -0x1.2495b9b4845e9p0), ar2,
                 fma(r, -0x1.555555529a47ap-1, 0x1.999999959554ep-1));
  p = fma(p, ar2, fma(r, 0x1.0000000000006p-1, -0x1.555555555556p-1));
  lo = fma(ar3, p, lo);
  const double y = hi + lo, e = 2 * y, rest = 2 * ((hi - y) + lo);
  if (fabs(e) < 0x1p-54) return 1 + e;
  double kd = fma(0x1.71547652b82fep+7, e, 0x1.8p52);
  const uint64_t n = bits_of(kd);
  kd -= 0x1.8p52;
  double q = fma(kd, -0x1.62e42fefa0000p-8, e);
  q = fma(kd, -0x1.cf79abc9e3b3ap-47, q) + rest;
  const uint64_t *power = l.exp_table + 2 * (n & 127);
  const double q2 = q * q;
  double t = of_bits(power[0]) + q;
  t = fma(q2, fma(q, 0x1.555555555543cp-3, 0x1.ffffffffffdbdp-2), t);
  t = fma(q2 * q2, fma(q, 0x1.1111167a4d017p-7, 0x1.55555cf172b91p-5), t);
  const uint64_t bits = power[1] + (n << 45);
  if (e > -512) return fma(of_bits(bits), t, of_bits(bits));
  const double scale = of_bits(bits + (uint64_t{1022} << 52));
  const double product = scale * t;  // not fused here
  double v = scale + product;
  if (v < 1) {  // subnormal: 1 + v rounds where the result does
    const double below = (scale - v) + product, one = 1 + v;
    v = (one + (((1 - one) + v) + below)) - 1;
  }
  return 0x1p-1022 * v;
}

// square is glibc's pow(x, 2) for |x| < 2^360, NaN elsewhere. It is x·x where that
// is at least 0.0156 ulp from a midpoint, for pow errs by less.
__device__ __forceinline__ double square(const Launch &l, double x) {
  const double h = x * x, rest = fma(x, x, -h), d = h * 0x1p-58;
  if (h == h + (rest + d) && h == h + (rest - d) && h > 0x1p-200 && h < 0x1p200) return h;
  x = fabs(x);
  if (x < 0x1p-540) return 0;
  return x < 0x1p360 ? whole_power(l, x) : of_bits(0x7ff8000000000000);
}

// square32 is glibc's powf(u, 2) for |u| < 2^63.
__device__ __forceinline__ float square32(const Launch &l, float u) {
  const uint32_t ix = static_cast<uint32_t>(__float_as_int(u)) & 0x7fffffffu;
  if (ix < 0x0d800000u) return 0.0f;  // 2^-100
  const uint32_t tm = ix - 0x3f330000u;
  const uint64_t *row = l.powf_log + 2 * (tm >> 19 & 15);
  const double z =
      static_cast<double>(__int_as_float(static_cast<int32_t>(ix - (tm & 0xff800000u))));
  const double r = fma(z, of_bits(row[0]), -1.0);
  const double y0 = of_bits(row[1]) + static_cast<double>(static_cast<int32_t>(tm) >> 23);
  const double r2 = r * r;
  const double p = fma(r, 0x1.ec70a6ca7baddp-2, -0x1.7154748bef6c8p-1);
  double q = fma(r, 0x1.71547652ab82bp0, y0);
  q = fma(p, r2, q);
  const double e = 2 * fma(fma(r, 0x1.27616c9496e0bp-2, -0x1.71969a075c67ap-2), r2 * r2, q);
  const double t = e + 0x1.8p47, f = e - (t - 0x1.8p47);
  const uint64_t n = bits_of(t);
  const double v = fma(fma(f, 0x1.c6af84b912394p-5, 0x1.ebfce50fac4f3p-3), f * f,
                       fma(f, 0x1.62e42ff0c52d6p-1, 1.0));
  return static_cast<float>(v * of_bits(l.exp2f[n & 31] + (n << 47)));
}

// quarter32 is NumPy's sine of the float32 x + quarters·π/2, |x| up to 71,476.
__device__ __noinline__ float quarter32(float x, int quarters) {
  const float n = (__fmul_rn(x, 0x1.45f306p-1f) + 0x1.8p23f) - 0x1.8p23f;
  float r = fmaf(n, -0x1.921fb0p+00f, x);
  r = fmaf(n, -0x1.5110b4p-22f, r);
  r = fmaf(n, -0x1.846988p-48f, r);
  const float s = r * r;
  const int turn = static_cast<int>(n) + quarters;
  float y;
  if ((turn & 1) != 0) {
    y = fmaf(0x1.98e616p-16f, s, -0x1.6c06dcp-10f);
    y = fmaf(fmaf(fmaf(y, s, 0x1.55553cp-05f), s, -0.5f), s, 1.0f);
  } else {
    y = fmaf(0x1.7d3bbcp-19f, s, -0x1.a06bbap-13f);
    y = fmaf(fmaf(y, s, 0x1.11119ap-07f), s, -0x1.555556p-03f);
    y = fmaf(y * s, r, r);
  }
  return (turn & 2) != 0 ? -y : y;
}

// remainder_of is Python's x % y for y > 0 and |x/y| < 2^52.
__device__ __forceinline__ double remainder_of(double x, double y, double inverse) {
  const double k = trunc(x * inverse);
  double m = fma(-k, y, x);
  if (m != 0 && (m < 0) != (x < 0)) {
    m = fma(-(k - copysign(1.0, x)), y, x);
  } else if (fabs(m) >= y) {
    m = fma(-(k + copysign(1.0, x)), y, x);
  }
  return m == 0 ? 0.0 : m < 0 ? m + y : m;
}

// single is x rounded to float32. The CPU's compiler is kept from looking through:
// g++ 12 leaves the rounding out where it makes vectors of four of them.
__device__ __forceinline__ double single(double x) {
  float f = static_cast<float>(x);
#ifndef __CUDACC__
  asm("" : "+m"(f));
#endif
  return static_cast<double>(f);
}

// clip is x between low and high, for numbers.
template <class T>
__device__ __forceinline__ T clip(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

}  // namespace lockstep::classic
