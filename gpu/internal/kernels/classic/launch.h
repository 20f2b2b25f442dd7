// What the host and the kernels of classic control say to each other. Every field
// takes 8 bytes. N is environments, T steps of a launch; columns are (values, N), so
// that neighbouring threads touch neighbouring memory.
#pragma once

#include <stdint.h>

namespace lockstep::classic {

enum Autoreset { kNextStep = 0, kSameStep = 1, kDisabled = 2, kOff = 3 };
enum Policy { kRecorded = 0, kUniform = 1, kNetwork = 2 };
enum { kMaxLayers = 8, kMaxWidth = 64 };

// Flags of an environment between steps.
enum {
  kEnded = 1,   // the last step ended an episode that has not been reset
  kFallen = 2,  // without autoreset: an earlier step has terminated
  kWide = 4,    // the mountain car's state is float64, the acrobot's is fresh
};

// Launch is the one argument of the kernels. Pointers to outputs that are not
// wanted are null.
struct Launch {
  int64_t num, steps, first;  // first is the number of the launch's first step for the policy
  int64_t autoreset, limit;   // limit of steps of an episode
  int64_t numpy1, sutton_barto, semi_implicit, nips, shared;
  double goal_velocity, gravity;
  double low[4], width[4];  // of the reset's draws

  int64_t policy, actions;  // actions: how many there are, 0 if they are float32
  uint64_t key;             // of the uniform actions, or of the noise
  double action_limit;
  int64_t layers, widths[kMaxLayers + 1];  // of the network; widths[0] is its inputs
  const float *network;                    // weights and biases, layer by layer
  const float *noise;                      // added to its outputs, or null
  int64_t noise_shift;  // of a random word, to a place there; 32 where there is one

  const double *sincos, *two_over_pi;  // (128, 4), (47)
  const uint64_t *pow_log, *exp_table, *powf_log, *exp2f;

  // State between launches.
  double *state;         // (S, N)
  uint64_t *generator;   // (4, N): state and increment, high word first; one if shared
  int32_t *elapsed;      // (N)
  int32_t *flags;        // (N)
  float *observation;    // (D, N), the last one
  double *total;         // (N), rewards
  int64_t *episodes;     // (N)

  // What a reset is told: seeds of N environments, negative ones draw on; those to be
  // reset, null for all.
  const int64_t *seeds;
  const uint8_t *mask;

  // Steps: given or chosen actions, and answers, (T, values, N).
  int32_t *discrete;
  float *continuous;
  double *states;
  float *observations;
  double *rewards;
  uint8_t *terminated, *truncated;
  float *final_observations;
};

}  // namespace lockstep::classic
