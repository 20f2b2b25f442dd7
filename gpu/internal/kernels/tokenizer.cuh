// Lateral accelerations as tokens.
#pragma once

#include "launch.h"
#include "numbers.cuh"

namespace lockstep {

// bin is a token's lateral acceleration, an element of np.linspace(-5, 5, 1024):
// product and sum are rounded one after the other, and the last is 5 exactly.
__device__ __forceinline__ double bin(int token) {
  const double step = 2.0 * kLataccelMax / (kVocabulary - 1);
  return token == kVocabulary - 1 ? kLataccelMax
                                  : __dmul_rn(static_cast<double>(token), step) + -kLataccelMax;
}

// encode is np.digitize(clip(x), bins, right=True): the smallest token with
// x <= bin. NaN gives 1024, which is no token.
__device__ __forceinline__ int encode(double x) {
  x = clip(x, -kLataccelMax, kLataccelMax);
  int low = 0, high = kVocabulary;
  while (low < high) {
    const int middle = (low + high) >> 1;
    if (x <= bin(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace lockstep
