// What the host checks when it has loaded the module, and chooses by.
#pragma once

#include "launch.h"
#include "weights.h"

namespace lockstep {

enum {
  kVersion = 2,       // of launch.h, weights.h and the names of the kernels
  kMaxThreads = 256,  // of a block; any multiple of 32 up to it
  kDrive = 80,        // bytes of rollout.cu's Drive
#ifdef __CUDACC__
  kGap = 0,
#else
  kGap = 64,          // floats after each buffer in shared memory, for the CPU to guard
#endif
};

// Rows are those of a block's activations: 20 of each route, padded to 8. A lane
// of a warp computes every eighth.
template <int R>
struct Block {
  enum {
    kRows = kContext * R,
    kTile = (kRows + 7) / 8,             // rows of one lane
    kPadded = 8 * kTile,
    kStride = kWidth + 4,                // of a row: rows 8 apart share banks, others do not
    kBuffer = kPadded * kStride,         // floats of one of the three buffers
    kScores = kRows * kHeads * kContext,
    kFlags = 16,                         // floats for what the routes tell the block
    kShared = 4 * (3 * kBuffer + kScores + kFlags + 5 * kGap) + R * kDrive,  // bytes
  };
};

}  // namespace lockstep
