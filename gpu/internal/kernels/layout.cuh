// What the host checks when it has loaded the module, and chooses by.
#pragma once

#include "launch.h"
#include "weights.h"

namespace lockstep {

enum {
  kVersion = 7,       // of launch.h, weights.h and the names of the kernels
  kMaxThreads = 256,  // of a block; any multiple of 32 up to it
  kDrive = 120,       // bytes of rollout.cu's Drive
#ifdef __CUDACC__
  kGap = 0,
#else
  kGap = 64,          // floats after each buffer in shared memory, for the CPU to guard
#endif
};

// The block's shared memory holds three buffers of activations, the scores, the
// flags and the drives, in this order. Who has which when in a step; between two
// barriers no thread reads what another writes:
//
//   phase              residual       normed             work                  scores
//   start              twisters' words
//   act                layers, sums   observations       layers, sums          who acts, the last layer
//   control_step                                         (flags and drives alone)
//   gather_network_input                                                       tokens, states
//   embed              written                                                 read
//   attention: norm    read           written            sums of the norm
//     pair of heads                   read               queries, keys         written
//     values                          read               values                softmax in place
//     P·V                             written            read                  read
//     projection       added to       read               written
//   mlp: norm          read           written            sums of the norm
//     chunk                           read               hidden columns        output of the first half of K
//     end              added to                                                read
//   last layer: norm   read           written            sums of the norm
//     keys                            read               written               queries, then their scores
//     values                          read               written               softmax in place
//     from P·V on      last rows      a few rows of each  values, sums, logits  read
//   softmax                                              probabilities         maxima and sums
//   sample_lataccel    (running sum)                     read                  sums of chunks
//
// The running sum is made for a trace, or where a draw is near an edge.

// Rows are those of a block's activations: 20 of each route, padded to 8. A lane
// of a warp computes every eighth.
template <int R>
struct Block {
  enum {
    kRows = kContext * R,
    kTile = (kRows + 7) / 8,             // rows of one lane
    kPadded = 8 * kTile,
    kRounds = R == 1 ? 32 : R == 2 ? 8 : 4,     // of four values of k in a turn of a product's loop
    kOutRounds = R == 1 ? 16 : kRounds,         // of the MLP's output
    kStride = kWidth + 4,                // of a row: rows 8 apart share banks, others do not
    kBuffer = kPadded * kStride,         // floats of one of the three buffers of activations
    kScores = kRows * kHeads * kContext,
    kFlags = 16,                         // floats for the jobs' flags
    kShared = 4 * (3 * kBuffer + kScores + kFlags + 5 * kGap) + R * kDrive,  // bytes
  };
};

}  // namespace lockstep
