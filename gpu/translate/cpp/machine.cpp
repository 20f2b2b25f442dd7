#include "machine.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <atomic>
#include <map>
#include <string>

#include "../cpu/cuda.h"
#include "../cpu/device.h"

#undef fma

namespace machine {
namespace {

using lockstep::cpu::Watch;

// A stamp says who made an access: thread, interval between two barriers, and which run
// of a block it was, of all runs of blocks.
constexpr uint64_t kThread = 1023, kMany = 1ull << 63, kOthers = 1ull << 62;
constexpr int kInterval = 10, kRun = 30;
constexpr uint64_t kIntervals = 1ull << (kRun - kInterval);
constexpr uint64_t kWhole = ~(kMany | kOthers);
constexpr uint64_t kHost = 1;  // of what the host wrote: run 0

uint64_t run_of(uint64_t stamp) { return (stamp & kWhole) >> kRun; }

// A Shadow is what is known of a word or a byte: who wrote it last, and who has read it.
struct Shadow {
  uint64_t writer, reader;  // kMany: several threads; kOthers: another block of the launch
};

// A Region is memory with its shadow, which takes room only where it is used.
struct Region {
  uint64_t start = 0;
  int64_t bytes = 0;
  Shadow *words = nullptr, *singles = nullptr;  // of each 4 bytes, and of each byte for accesses of one
  uint8_t *single = nullptr;                    // for each 64 bytes, whether there were some
};

template <class T>
void change(T *&p, int64_t n, bool give) {
  const size_t bytes = sizeof(T) * (size_t)(n + 4);
  if (!give) {
    if (p != nullptr) munmap(p, bytes);
    p = nullptr;
    return;
  }
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    fprintf(stderr, "no memory for what is known of memory\n");
    abort();
  }
  p = (T *)memory;
}
void change(Region &r, bool give) {
  change(r.words, r.bytes / 4, give);
  change(r.singles, r.bytes, give);
  change(r.single, r.bytes / 64, give);
}
void cover(Region &r, uint64_t start, int64_t bytes) {
  r.start = start, r.bytes = bytes;
  change(r, true);
}
void uncover(Region &r) { change(r, false); }

std::map<uint64_t, Region> regions;  // of global memory, by start; they change between launches only
std::atomic<uint64_t> runs{1};
uint64_t first_run = 1;  // of the launch

Region *find(uint64_t address) {
  auto r = regions.upper_bound(address);
  if (r == regions.begin()) return nullptr;
  r--;
  return address - r->first < (uint64_t)r->second.bytes ? &r->second : nullptr;
}

// all calls f with the shadow of each word from address on, and of each byte that is in
// no whole word.
template <class F>
void all(Region &r, uint64_t address, int64_t bytes, F f) {
  for (int64_t i = (int64_t)(address - r.start), end = i + bytes; i < end;) {
    if (i % 4 == 0 && end - i >= 4) {
      f(r.words[i / 4], i);
      i += 4;
    } else {
      r.single[i / 64] = 1;
      f(r.singles[i], i);
      i++;
    }
  }
}

}  // namespace

// A Block is what the threads of a block share.
class Block {
 public:
  uint8_t *memory = nullptr;
  Region shared;
  uint64_t stamp = 0;  // of its run and interval, for thread 0
  Region *recent[4] = {};  // of global memory, the last one first

  ~Block();

  Region *region(uint64_t address) {
    int i = 0;
    while (i < 4 && (recent[i] == nullptr || address - recent[i]->start >= (uint64_t)recent[i]->bytes)) i++;
    Region *r = i < 4 ? recent[i] : find(address);
    if (r == nullptr || i == 0) return r;
    for (int k = i < 4 ? i : 3; k > 0; k--) recent[k] = recent[k - 1];
    return recent[0] = r;
  }

  // access finds what is wrong with an access, or returns nullptr.
  template <bool kShared>
  const char *access(Thread &t, Region &r, int64_t offset, int bytes, bool write, bool masked) {
    if (bytes == 1) return single<kShared>(t, r, offset, write);
    for (Shadow *s = r.words + offset / 4, *end = s + bytes / 4; s < end; s++, offset += 4) {
      if (r.single[offset / 64] != 0) {
        for (int i = 0; i < 4; i++) {
          if (const char *e = conflict<kShared>(t, r.singles[offset + i], write)) return e;
        }
      }
      if (const char *e = conflict<kShared>(t, *s, write)) return e;
      if (!write && !masked && !written<kShared>(s->writer)) {
        for (int i = 0; i < 4; i++) {
          if (!written<kShared>(r.singles[offset + i].writer)) return "reads memory that nobody has written";
        }
      }
      note<kShared>(t, *s, write);
    }
    return nullptr;
  }

 private:
  template <bool kShared>
  const char *single(Thread &t, Region &r, int64_t offset, bool write) {
    r.single[offset / 64] = 1;
    Shadow &s = r.singles[offset], &word = r.words[offset / 4];
    const char *e = conflict<kShared>(t, s, write);
    if (e == nullptr) e = conflict<kShared>(t, word, write);
    if (e != nullptr) return e;
    if (!write && !written<kShared>(s.writer) && !written<kShared>(word.writer)) return "reads memory that nobody has written";
    note<kShared>(t, s, write);
    return nullptr;
  }

  template <bool kShared>
  bool written(uint64_t writer) const {
    return kShared ? run_of(writer) == run_of(stamp) : writer != 0;
  }

  // conflict: an access of another thread in the same interval, or of another block in the
  // same launch, one of the two a write.
  template <bool kShared>
  const char *conflict(Thread &t, const Shadow &s, bool write) const {
    const uint64_t now = stamp | t.tid, w = s.writer, r = s.reader;
    if (w != now && clash<kShared>(w)) return write ? "races: writes what another thread has written" : "races: reads what another thread has written";
    if (write && clash<kShared>(r & kWhole) && (r & ~kOthers) != now) return "races: writes what another thread has read";
    if (!kShared && write && (r & kOthers) != 0 && run_of(r) >= first_run) return "races: writes what another block has read";
    return nullptr;
  }
  template <bool kShared>
  bool clash(uint64_t other) const {
    if (((other ^ stamp) & ~kThread) == 0) return true;
    return !kShared && run_of(other) >= first_run && run_of(other) != run_of(stamp);
  }
  template <bool kShared>
  void note(Thread &t, Shadow &s, bool write) const {
    const uint64_t now = stamp | t.tid, r = s.reader;
    if (write) {
      s.writer = now;
    } else if (((r ^ stamp) & kWhole & ~kThread) == 0) {
      if ((r & kWhole) != now) s.reader = r | kMany;
    } else {
      const bool others = !kShared && run_of(r) >= first_run && (run_of(r) != run_of(stamp) || (r & kOthers) != 0);
      s.reader = now | (others ? kOthers : 0);
    }
  }
};

Block::~Block() { uncover(shared); }

namespace {

thread_local Block own;

// The Watcher hears what the device does.
struct Watcher : Watch {
  Watcher() { lockstep::cpu::watch = this; }
  void allocated(uint64_t pointer, int64_t bytes) override { cover(regions[pointer], pointer, bytes); }
  void released(uint64_t pointer) override {
    uncover(regions[pointer]);
    regions.erase(pointer);
  }
  void written(uint64_t to, int64_t bytes) override {
    if (Region *r = find(to)) all(*r, to, bytes, [](Shadow &s, int64_t) { s = {kHost, 0}; });
  }
  void copied(uint64_t to, uint64_t from, int64_t bytes) override {
    Region *source = find(from), *r = find(to);
    if (source == nullptr || r == nullptr) return;
    all(*r, to, bytes, [&](Shadow &s, int64_t offset) {
      const int64_t i = (int64_t)(from - source->start) + offset - (int64_t)(to - r->start);
      s = {source->words[i / 4].writer != 0 || source->singles[i].writer != 0 ? kHost : 0, 0};
    });
  }
  void launched() override { first_run = runs; }
  void began(void *memory, int64_t bytes) override {
    if (own.memory != memory || own.shared.bytes != bytes) {
      uncover(own.shared);
      cover(own.shared, 0, bytes);
      own.memory = (uint8_t *)memory;
    }
    own.stamp = runs++ << kRun;
    for (Region *&r : own.recent) r = nullptr;
  }
  std::string place(int at) override {
    char text[32];
    snprintf(text, sizeof text, (at & kCode) != 0 ? "0x%04x" : "line %d", at & ~(kCode | kMasked));
    return text;
  }
  std::string passed() override {
    own.stamp += 1 << kInterval;
    return (own.stamp >> kInterval) % kIntervals == 0 ? "more barriers than the executor can number" : "";
  }
} watcher;

}  // namespace

Thread::Thread(const void *argument)
    : block(own), tid(lockstep::cpu::thread_index.x), ntid(lockstep::cpu::block_size.x), ctaid(lockstep::cpu::block_index.x),
      argument((const uint8_t *)argument) {
  memset(local, 0xff, sizeof local);
}

void Thread::stop(int at, const char *what) {
  lockstep::cpu::stop("block " + std::to_string(ctaid) + ", thread " + std::to_string(tid) + ", at " + watcher.place(at) + ": " + what);
}
uint32_t Thread::constant2(const uint8_t *table, uint32_t bytes, uint32_t offset, int at) {
  if (offset % 4 != 0 || offset + 4 > bytes) stop(at, "reads beyond constant bank 2");
  return load<uint32_t>(table + offset);
}
uint32_t Thread::constant0(uint32_t offset, int at) {
  constexpr uint32_t kArgument = 0x210;
  if (offset >= kArgument) return load<uint32_t>(read_global((uint64_t)argument + (offset - kArgument), 4, at));
  switch (offset) {
    case 0: return ntid;
    case 0x20: return (uint32_t)kLocalWindow;
    case 0x24: return kLocalWindow >> 32;
    case 0x28: return frame;
    case 0x198: return (uint32_t)(uint64_t)argument;
    case 0x19c: return (uint64_t)argument >> 32;
    case 0x208: case 0x20c: return 0;  // of a descriptor that global accesses name
  }
  stop(at, "reads a word of constant bank 0 that is not known");
}
void Thread::barrier(int at) { lockstep::cpu::barrier("", at, path); }

namespace {

[[noreturn]] void refuse(Thread &t, const char *space, uint64_t address, int bytes, bool write, int at, const char *what) {
  char text[200];
  snprintf(text, sizeof text, "%s%d bytes of %s memory at 0x%llx: %s", write ? "writing " : "reading ", bytes, space, (unsigned long long)address, what);
  t.stop(at, text);
}

uint8_t *in_shared(Thread &t, uint32_t address, int bytes, bool write, int at) {
  Block &b = t.block;
  const uint32_t offset = address - kSharedStart;
  const char *e = nullptr;
  if (offset % (uint32_t)bytes != 0) {
    e = "not aligned";
  } else if (address < kSharedStart || (int64_t)offset + bytes > b.shared.bytes) {
    e = "out of bounds";
  } else {
    e = b.access<true>(t, b.shared, offset, bytes, write, (at & kMasked) != 0);
  }
  if (e != nullptr) refuse(t, "shared", address, bytes, write, at, e);
  return b.memory + offset;
}

uint8_t *in_global(Thread &t, uint64_t address, int bytes, bool write, int at) {
  Block &b = t.block;
  const char *e = nullptr;
  Region *r = b.region(address);
  if (address % (uint64_t)bytes != 0) {
    e = "not aligned";
  } else if (r == nullptr || (int64_t)(address - r->start) + bytes > r->bytes) {
    e = "out of bounds";
  } else {
    e = b.access<false>(t, *r, (int64_t)(address - r->start), bytes, write, false);
  }
  if (e != nullptr) refuse(t, "global", address, bytes, write, at, e);
  return (uint8_t *)address;
}

uint8_t *in_generic(Thread &t, uint64_t address, int bytes, bool write, int at) {
  if (address >> 32 == kSharedWindow >> 32) return in_shared(t, (uint32_t)address, bytes, write, at);
  if (address >> 32 == kLocalWindow >> 32) return t.at_local(address, bytes, at);
  return in_global(t, address, bytes, write, at);
}

}  // namespace

const uint8_t *Thread::read_shared(uint32_t a, int bytes, int at) { return in_shared(*this, a, bytes, false, at); }
uint8_t *Thread::write_shared(uint32_t a, int bytes, int at) { return in_shared(*this, a, bytes, true, at); }
const uint8_t *Thread::read_global(uint64_t a, int bytes, int at) { return in_global(*this, a, bytes, false, at); }
uint8_t *Thread::write_global(uint64_t a, int bytes, int at) { return in_global(*this, a, bytes, true, at); }
const uint8_t *Thread::read_generic(uint64_t a, int bytes, int at) { return in_generic(*this, a, bytes, false, at); }
uint8_t *Thread::write_generic(uint64_t a, int bytes, int at) { return in_generic(*this, a, bytes, true, at); }

uint8_t *Thread::at_local(uint64_t address, int bytes, int at) {
  const uint32_t a = (uint32_t)address;
  if (a % (uint32_t)bytes != 0) refuse(*this, "local", address, bytes, false, at, "not aligned");
  if ((uint64_t)a + (uint64_t)bytes > frame) refuse(*this, "local", address, bytes, false, at, "out of bounds");
  return local + a;
}

namespace {

// rounded computes f in a direction. volatile keeps the compiler from moving it out of it.
template <class F>
auto rounded(Rounding direction, F f) {
  const int before = fegetround();
  fesetround(direction == kDown ? FE_DOWNWARD : direction == kUp ? FE_UPWARD : FE_TOWARDZERO);
  volatile auto r = f();
  fesetround(before);
  return (decltype(f()))r;
}

// high has the upper half of a number's bits.
double high(double x) { return x - x != 0 ? x : f64(bits<uint64_t>(x) >> 32 << 32); }

}  // namespace

float fused(Rounding r, float a, float b, float c) {
  volatile float x = a, y = b, z = c;
  return rounded(r, [&] { return __builtin_fmaf(x, y, z); });
}
double fused(Rounding r, double a, double b, double c) {
  volatile double x = a, y = b, z = c;
  return rounded(r, [&] { return __builtin_fma(x, y, z); });
}
double product(Rounding r, double a, double b) {
  volatile double x = a, y = b;
  return rounded(r, [&] { return x * y; });
}
float round_up(double a) {
  volatile double x = a;
  return rounded(kUp, [&] { return (float)x; });
}

float reciprocal(float x) { return (float)(1.0 / (double)x); }
float reciprocal_root(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
double reciprocal_high(double x) { return high(1.0 / x); }
double reciprocal_root_high(double x) { return high(1.0 / __builtin_sqrt(x)); }

}  // namespace machine
