// np.random: MT19937 with one seed word.
#pragma once

#include "numbers.cuh"

namespace lockstep {

enum { kTwisterWords = 624 };

// Twister is a generator whose words lie in memory of the caller's.
struct Twister {
  uint32_t *words;  // (624)
  int next;

  __device__ __forceinline__ void seed(uint32_t value) {
    for (int i = 0; i < kTwisterWords; i++) {
      words[i] = value;
      value = 1812433253u * (value ^ (value >> 30)) + static_cast<uint32_t>(i + 1);
    }
    next = kTwisterWords;
  }

  __device__ __forceinline__ void twist() {
    const int n = kTwisterWords, m = 397;
    for (int i = 0; i < n; i++) {
      const uint32_t y = (words[i] & 0x80000000u) | (words[i + 1 < n ? i + 1 : 0] & 0x7fffffffu);
      words[i] =
          words[i + m < n ? i + m : i + m - n] ^ (y >> 1) ^ ((y & 1u) != 0 ? 0x9908b0dfu : 0u);
    }
    next = 0;
  }

  __device__ __forceinline__ uint32_t word() {
    if (next == kTwisterWords) twist();
    uint32_t y = words[next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }

  // uniform is np.random.random_sample(): 53 bits of two words, in [0, 1).
  __device__ __forceinline__ double uniform() {
    const uint32_t a = word() >> 5, b = word() >> 6;
    return (__dmul_rn(static_cast<double>(a), 67108864.0) + static_cast<double>(b)) /
           9007199254740992.0;
  }
};

}  // namespace lockstep
