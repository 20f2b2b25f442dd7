// What the host and the kernels say to each other. Every field takes 8 bytes, so
// that Go and C++ agree on the layout without a rule for padding; lockstep_layout
// in the module holds the sizes, which the host checks when it loads the module.
#pragma once

#include <stdint.h>

#include "kinds.h"

namespace lockstep {

// Constants of the task, as in the Python program.
enum {
  kContext = 20,        // positions the network sees; the first simulated step
  kControlStart = 100,  // first step that the controller drives and that costs
  kCostEnd = 500,       // one past the last step that costs
  kVocabulary = 1024,
};
constexpr double kSteerMax = 2.0;         // commands are clipped to ±
constexpr double kLataccelMax = 5.0;      // bins reach from - to +, m/s²
constexpr double kLataccelStepMax = 0.5;  // by which lataccel may change in one step, m/s²
constexpr double kTimeStep = 0.1;         // s
constexpr double kCostScale = 100.0;      // of both costs
constexpr double kLataccelWeight = 50.0;  // of the lataccel's cost in the total
constexpr float kTemperature = 0x1.99999ap-1f;

// Route is a route's place in the columns.
struct Route {
  int64_t rows;
  int64_t first;  // index of its first row in each column
};

// The kinds of policies, and of jobs whose commands the host gives.
enum {
#define LOCKSTEP_NAME(name, gains, memory) name,
  LOCKSTEP_KINDS(LOCKSTEP_NAME)
#undef LOCKSTEP_NAME
  kHost = -1,
};
enum {
  kMaxGains = 10,           // of a policy
  kMaxMemory = 3,           // numbers that a policy remembers
  kTableSteps = kCostEnd - kControlStart,
  kObservation = 256,       // numbers that a network sees which declares none
  kMaxWidth = 1024,         // of an observation, and of a layer
  kSumPanel = 256,          // products of one chain of a layer's sum
  kActor = 2,               // numbers that it answers
  kMaxLayers = 16,
  kLayerUnit = 64,          // layers are padded to multiples of it
};

// Where a number that a network declares comes from, as in lockstep.Source.
enum Source {
  kOfNothing,
  kOfObservation,  // an element of the observation that is not declared
  kOfActions,
  kOfLataccels,
  kOfTargets,
  kOfRolls,
  kOfSpeeds,
  kOfAccelerations,
};

// Seen declares a number that a network sees: lockstep.Seen.
struct Seen {
  int64_t of, at;
  int64_t less, less_at;
  double shift, unit;
};

// A Layer is y = W·x + b. Inputs and outputs are padded, so that all threads do the same.
// W lies in panels of 16 outputs, as in weights.h, and behind all W the bias. What pads
// outputs is +0, and so is then what the next layer reads; what pads inputs is -0, whose
// product with that changes no sum.
struct Layer {
  int64_t inputs, outputs;
  int64_t tanh;  // 1: it stands behind the layer in the place of ReLU
  const float *weights;
};

// Actor is a network that steers. Behind its last layer is neither ReLU nor tanh.
struct Actor {
  double scale;  // of the change of the steer command in one step
  int64_t declared;   // how many numbers it declares to see; 0: it sees the other observation
  int64_t contract;   // 1: some of them are of the other observation
  const Seen *sees;
  int64_t layers;
  Layer layer[kMaxLayers];
};

// Job is one rollout.
struct Job {
  int64_t route;
  int64_t noise;            // seed of its random draws; if negative, they are given in Launch.draws
  int64_t origin;           // the history that it goes on from, of Launch.past_lataccel
  int64_t kind;             // of its policy, or kHost
  double gains[kMaxGains];  // of a kind that has them
  const double *table;      // (kTableSteps), of kTable
  const Actor *actor;       // of kNetwork
  int64_t sampled;          // 1: its action is drawn, by seed and id
  uint64_t seed, id;
  int64_t expected;         // 1: a prediction is its distribution's mean
};

// Status is how a job ended, or where it stopped.
struct Status {
  int64_t code;  // kOK, or why the job ended at step
  int64_t step;
  double value;     // the job's lataccel, or what was wrong: the lataccel without a token, the sum
                    // that is not 1, the kind, the observation's element; kMaxWidth and more is
                    // that of the observation of which a declared one is made
  int64_t sampled;  // steps whose token was drawn
  int64_t serial;   // of those, the ones whose draw was so near an edge that the running sum was
                    // made one by one
};
enum { kOK = 0, kNoToken = 1, kNotDistribution = 2, kNoController = 3, kNoObservation = 4 };

// Memory is what a job's policy keeps from step to step, in the order of its kind.
struct Memory {
  double error_integral, previous_error, previous_command;
};
static_assert(sizeof(Memory) == 8 * kMaxMemory, "numbers");

// Shortcuts, the bits of lockstep.Shortcuts. The last position alone is always
// computed.
enum { kSkipWarmup = 1, kStopAtCostEnd = 2 };

// Choices of the arithmetic profile, as in lockstep.Profile.
enum { kLayerNorm130 = 0, kLayerNorm127 = 1, kLayerNorm123 = 2 };
enum { kSoftmaxAVX512 = 0, kSoftmaxAVX2 = 1 };
enum { kExpU = 0, kExpF = 1 };

// TraceStep is every stage of one step. Where the network did not run, network
// is 0, sample is -1, prediction is 0, and its arrays are left alone; those of an
// actor are where it acts.
struct TraceStep {
  double action, draw, prediction, lataccel;
  int64_t sample, network;
  int64_t tokens[kContext];
  float states[4 * kContext];
  float logits[kVocabulary], probs[kVocabulary];
  double cdf[kVocabulary];
  float observation[kMaxWidth], actor[kActor];
  double raw;  // the action, between -1 and 1
};

// Launch is the argument of the kernel. Pointers are device addresses, those of
// what is not wanted are null. J is jobs, S is stride.
struct Launch {
  int64_t jobs;
  int64_t first_job;     // that of the first block: the launch runs those from here on
  int64_t stride;        // of the arrays over steps: no route has more rows
  int64_t first, end;    // steps to run, each job to the end of its route at most
  int64_t shortcuts;
  int64_t layer_norm, softmax, exp;  // the profile

  const float *weights;  // see weights.h
  const Route *routes;
  const Job *job;        // (J)

  // Columns of all routes, one after the other.
  const double *roll_lataccel, *v_ego, *a_ego, *target;
  const double *steer;   // (routes, kControlStart), the recorded commands

  // Histories. The launch that begins rollouts enters the route's own values into the
  // first kContext steps, or what is given of each origin into all before first; others
  // go on from what they find. One begins if its first is kContext or if there is a past.
  double *lataccel, *action;  // (J, S)
  const double *past_lataccel, *past_action;  // (origins, first)
  double *draws;  // (J, S), step s at s; made by the launch that begins, but see Job.noise
  Memory *memory;             // (J)
  Status *status;             // (J); a job whose code is not kOK is left alone

  // Answers of host controllers, before clipping, for each step of the launch. A kernel
  // without policies computes one step. width is J, of all launches together.
  const double *commands;     // (steps, width)
  int64_t width;
  double *now;  // (J), each job's lataccel after the launch, NaN if it has failed; may be commands
  const double *teacher_lataccel, *teacher_action;  // (J, S), see lockstep.Job.Teacher
  double *costs;              // (J, 3): lataccel, jerk, total; written where a job ends

  // What kernels with policies leave.
  double *partial;            // (J), to which each step's part of the total cost is added
  double *path;               // (steps, width), lataccels
  float *variate, *softplus, *reward;  // (J, kTableSteps), softplus pairs; see lockstep.Experience
  TraceStep *trace;           // (J, trace_end - trace_first)
  int64_t trace_first, trace_end;
};

// A Place is a step of a rollout that has been collected, which counts from
// kControlStart.
struct Place {
  int64_t rollout, step;
};

// Observing is the argument of the kernel that observes, a block for each place; without
// places one for each rollout, at a step that counts as those of a route do.
struct Observing {
  const Place *places;
  const int64_t *route;    // of each rollout
  int64_t step, end;       // without places: end is one past the last step of any rollout
  const Job *job;          // and in the place of route
  const Status *status;    // of those that are not kOK, and of those that have ended, 0 is seen
  const Route *routes;
  const double *roll_lataccel, *v_ego, *a_ego, *target;
  const double *lataccel, *action;  // (rollouts, stride), from kControlStart on
  int64_t stride;
  const Seen *sees;                 // that are observed; null is the observation of kObservation
  int64_t inputs;                   // how many numbers
  float *out;                       // (places or rollouts, inputs)
};

}  // namespace lockstep
