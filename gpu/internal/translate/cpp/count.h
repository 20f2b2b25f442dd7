// What a kernel of machine code executes between two barriers, and how long that takes a
// multiprocessor at least: see count.go, which defines kBlocks and the blocks' costs.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <map>

enum { kThreads = 256, kWarps = kThreads / 32, kSchedulers = 4 };

// What instructions cost: a scheduler's turns, cycles until a warp goes on, passes of shared
// memory and L1, cycles of a scheduler's part of the units for approximations and
// conversions and of those for float64; and how many are FFMA, load, compute otherwise in float32,
// and move.
enum { kIssue, kStall, kShared, kXU, kF64, kFMA, kLoads, kFloat, kMoves, kCosts };

static uint32_t counts[kThreads][kBlocks];
static unsigned arrived;

// An interval ends at a barrier. Its time is the largest of what schedulers, one warp and
// the units are kept busy.
struct Interval {
  double times, cycles, even, part[kCosts];
};
static std::map<int, Interval> intervals;

static void report() {
  const char *path = getenv("LOCKSTEP_COUNTS");
  FILE *f = path == nullptr ? nullptr : fopen(path, "w");
  if (f == nullptr) return;
  for (const auto &[at, i] : intervals) {
    fprintf(f, "%x %.0f %.0f %.0f", at & 0xffffff, i.times, i.cycles, i.even);
    for (double p : i.part) fprintf(f, " %.0f", p);
    fprintf(f, "\n");
  }
  fclose(f);
}

// passed is called by each thread that comes to a barrier. The last one sums up: a warp has
// executed a block of instructions as often as the most of its threads.
static void passed(unsigned threads, int at) {
  if (++arrived < threads) return;
  arrived = 0;
  double of[kSchedulers][kCosts] = {}, all[kCosts] = {}, longest = 0;
  for (unsigned w = 0; w < threads / 32; w++) {
    double stall = 0;
    for (int b = 0; b < kBlocks; b++) {
      uint32_t n = 0;
      for (unsigned t = 32 * w; t < 32 * w + 32; t++) {
        n = std::max(n, counts[t][b]);
        counts[t][b] = 0;
      }
      if (n == 0) continue;
      for (int c = 0; c < kCosts; c++) {
        of[w % kSchedulers][c] += (double)n * costs[b][c];
        all[c] += (double)n * costs[b][c];
      }
      stall += (double)n * costs[b][kStall];
    }
    longest = std::max(longest, stall);
  }
  double busiest[kCosts] = {};
  for (const auto &s : of) {
    for (int c = 0; c < kCosts; c++) busiest[c] = std::max(busiest[c], s[c]);
  }
  busiest[kStall] = longest;
  busiest[kShared] = all[kShared];
  Interval &i = intervals[at];
  i.times++;
  i.cycles += *std::max_element(busiest, busiest + kFMA);
  i.even += all[kIssue] / kSchedulers;
  for (int c = 0; c < kCosts; c++) i.part[c] += c >= kFMA ? all[c] / kSchedulers : busiest[c];
}

// An End is each thread's. The last one of the block writes what was counted.
struct End {
  const unsigned threads;
  ~End() {
    static unsigned ended;
    if (++ended < threads) return;
    ended = 0;
    report();
  }
};

#define barrier(at) barrier((passed(t.ntid, at), at))
