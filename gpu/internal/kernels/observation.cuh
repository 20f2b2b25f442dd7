// What a network sees: 256 numbers, or those that it declares, a function of the route and
// of the histories up to the step before.
#pragma once

#include "launch.h"
#include "numbers.cuh"

namespace lockstep {

enum {
  kScalars = 16,       // the first elements, made of several numbers each
  kPlanRows = 50,   // of each column, of which a plan has one less
};
constexpr float kObservationLimit = 5.0f;

// A View is what an observation is made of.
struct View {
  const double *roll, *v, *a, *target;  // columns of the route, from its first row on
  int64_t rows;
  const double *early, *late;  // lataccels: late begins at kControlStart
  const double *actions;       // the controller's own, from kControlStart on

  __device__ __forceinline__ double lataccel(int64_t i) const {
    return i < kControlStart ? early[i] : late[i - kControlStart];
  }
  __device__ __forceinline__ double action(int64_t i) const {
    return i < kControlStart ? 0.0 : actions[i - kControlStart];
  }
};

// sum_errors is the sum of the errors of the last 20 steps: NumPy's sum, eight chains of the
// first 16, and what is left over from left to right.
__device__ __forceinline__ double sum_errors(const View &view, int64_t t) {
  const auto error = [&](int j) { return view.target[t - 19 + j] - view.lataccel(t - 20 + j); };
  double c[8];
#pragma unroll
  for (int j = 0; j < 8; j++) c[j] = error(j) + error(8 + j);
  double sum = ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
  for (int j = 16; j < 20; j++) sum += error(j);
  return sum;
}

// scalar is one of the first elements. Each is x / d · s / e, where a division or product
// by 1 changes no bit, so that threads with different ones do the same.
__device__ __forceinline__ double scalar(const View &view, int64_t t, int i) {
  const double target = view.target[t], roll = view.roll[t], v = view.v[t], a = view.a[t];
  const double lataccel = view.lataccel(t - 1), before = view.lataccel(t - 2);
  const double last = view.action(t - 1);
  double speed = __dmul_rn(v, v);
  speed = speed > 1.0 ? speed : 1.0;
  // before the others, so that its loads wait with theirs
  const double errors = i == 10 ? sum_errors(view, t) : 0.0;
  double x = 0.0, d = 1.0, s = 1.0, e = 1.0;
  switch (i) {
    case 0: x = target; d = 5.0; break;
    case 1: x = lataccel; d = 5.0; break;
    case 2: x = target - lataccel; d = 5.0; break;
    case 3: x = target - roll; d = speed; e = 0.02; break;
    case 4: x = lataccel - roll; d = speed; e = 0.02; break;
    case 5: x = (target - roll) / speed - (lataccel - roll) / speed; d = 0.02; break;
    case 6: x = v; d = 40.0; break;
    case 7: x = a; d = 4.0; break;
    case 8: x = roll; d = 2.0; break;
    case 9: x = last; d = 2.0; break;
    case 10: x = errors; d = 20.0; s = 0.1; e = 5.0; break;
    case 11: x = view.target[t + 1 < view.rows ? t + 1 : t] - target; d = 0.1; e = 5.0; break;
    case 12: x = lataccel - before; d = 0.1; e = 5.0; break;
    case 13: x = last - view.action(t - 2); d = 0.1; e = 2.0; break;
    default: x = __dsqrt_rn(__dmul_rn(lataccel, lataccel) + __dmul_rn(a, a)); d = 7.0; break;
  }
  x = __dmul_rn(x / d, s) / e;
  if (i < 15) return x;
  x = 1.0 - x;
  return x < 0.0 ? 0.0 : x;
}

// limited is clipped; NaN stays NaN.
__device__ __forceinline__ float limited(float x) {
  return x > kObservationLimit    ? kObservationLimit
         : x < -kObservationLimit ? -kObservationLimit
                                  : x;
}

// observed_scalar is an element before kScalars, and observed one from there on: a row of the
// histories, or of the plan, whose last row stands in for the one that it lacks.
__device__ __forceinline__ float observed_scalar(const View &view, int64_t t, int i) {
  return limited(static_cast<float>(scalar(view, t, i)));
}

// Columns that elements from kScalars on come from.
enum { kActions, kLataccels, kTargets, kRolls, kSpeeds, kAccelerations };

// An Element is one of these: its column, row and unit. A row behind the last stands for
// the last.
struct Element {
  int column;
  int64_t row;
  float unit;
};

__device__ __forceinline__ Element element(int64_t t, int i) {
  i -= kScalars;
  if (i < kContext) return {kActions, t - kContext + i, 2.0f};
  i -= kContext;
  if (i < kContext) return {kLataccels, t - (kContext + 1) + i, 5.0f};
  i -= kContext;
  const int column = i / kPlanRows, later = i % kPlanRows;
  return {kTargets + column, t + (later < kPlanRows - 1 ? 1 + later : kPlanRows - 1),
          column == 0   ? 5.0f
          : column == 1 ? 2.0f
          : column == 2 ? 40.0f
                        : 4.0f};
}

// in_units is an element from its number.
__device__ __forceinline__ float in_units(double x, float unit) {
  return limited(__fdiv_rn(static_cast<float>(x), unit));
}

__device__ __forceinline__ float observed(const View &view, int64_t t, int i) {
  const Element e = element(t, i);
  const int64_t row = e.row < view.rows ? e.row : view.rows - 1;
  if (e.column == kActions) return in_units(view.action(row), e.unit);
  if (e.column == kLataccels) return in_units(view.lataccel(row), e.unit);
  const double *of = e.column == kTargets  ? view.target
                     : e.column == kRolls  ? view.roll
                     : e.column == kSpeeds ? view.v
                                           : view.a;
  return in_units(of[row], e.unit);
}

// seen_at is a number of a source, such as lataccel[-1]. element gives those of the
// observation that is not declared.
template <class F>
__device__ __forceinline__ double seen_at(const View &view, int64_t t, int64_t of, int64_t at,
                                          F element) {
  if (of == kOfObservation) return static_cast<double>(element(static_cast<int>(at)));
  if (of == kOfActions) return view.action(t + at);
  if (of == kOfLataccels) return view.lataccel(t + at);
  const double *column = of == kOfTargets  ? view.target
                         : of == kOfRolls  ? view.roll
                         : of == kOfSpeeds ? view.v
                                           : view.a;
  return column[t + at < view.rows ? t + at : view.rows - 1];
}

// seen is a number that a network declares.
template <class F>
__device__ __forceinline__ float seen(const View &view, int64_t t, const Seen &s, F element) {
  double x = seen_at(view, t, s.of, s.at, element);
  if (s.less != kOfNothing) x -= seen_at(view, t, s.less, s.less_at, element);
  return limited(static_cast<float>((x - s.shift) / s.unit));
}

}  // namespace lockstep
