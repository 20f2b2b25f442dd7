// What is known of memory: who wrote each word last, and who has read it. The device says what
// the host does with it, through Watch; an access asks its Block what is wrong with it.
#pragma once

#include <stdint.h>

namespace machine {

// A stamp says who made an access: thread, interval between two barriers, and which run
// of a block it was, of all runs of blocks.
constexpr uint64_t kThread = 1023, kMany = 1ull << 63, kOthers = 1ull << 62;
constexpr int kInterval = 10, kRun = 30;
constexpr uint64_t kIntervals = 1ull << (kRun - kInterval);
constexpr uint64_t kWhole = ~(kMany | kOthers);
constexpr uint64_t kHost = 1;  // of what the host wrote: run 0

inline uint64_t run_of(uint64_t stamp) { return (stamp & kWhole) >> kRun; }

// A Shadow is what is known of a word or a byte: who wrote it last, and who has read it.
struct Shadow {
  uint64_t writer, reader;  // kMany: several threads; kOthers: another block of the launch
  bool operator==(const Shadow &o) const {
    return ((writer ^ o.writer) | (reader ^ o.reader)) == 0;
  }
};

// A Region is memory with its shadow, which takes room only where it is used.
struct Region {
  uint64_t start = 0;
  int64_t bytes = 0;
  // Of each 4 bytes, and of each byte for accesses of one.
  Shadow *words = nullptr, *singles = nullptr;
  uint8_t *single = nullptr;                    // for each 64 bytes, whether there were some
};

// find is the region of global memory in which an address lies, or nullptr.
Region *find(uint64_t address);
extern uint64_t first_run;  // of the launch

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
    while (i < 4 && (recent[i] == nullptr ||
                     address - recent[i]->start >= (uint64_t)recent[i]->bytes)) {
      i++;
    }
    Region *r = i < 4 ? recent[i] : find(address);
    if (r == nullptr || i == 0) return r;
    for (int k = i < 4 ? i : 3; k > 0; k--) recent[k] = recent[k - 1];
    return recent[0] = r;
  }

  // access finds what is wrong with an access, or returns nullptr. The words of an aligned one
  // lie in one block of 64 bytes. Four words of which the same is known are judged as one:
  // nearly all accesses are such, and the checks take most of the executor's time.
  template <bool kShared>
  const char *access(unsigned tid, Region &r, int64_t offset, int bytes, bool write, bool masked) {
    if (bytes == 1) return single<kShared>(tid, r, offset, write);
    Shadow *const s = r.words + offset / 4, before = *s;
    const bool singles = r.single[offset / 64] != 0;
    if (bytes == 16 && !singles && s[0] == s[1] && s[0] == s[2] && s[0] == s[3]) {
      const char *e = word<kShared>(tid, *s, write, masked);
      if (!(*s == before)) s[1] = s[2] = s[3] = *s;
      return e;
    }
    for (int i = 0; i < bytes / 4; i++) {
      bool in_bytes = singles;  // it was written so
      for (int k = 0; singles && k < 4; k++) {
        const Shadow &b = r.singles[offset + 4 * i + k];
        if (const char *e = conflict<kShared>(tid, b, write)) return e;
        in_bytes = in_bytes && written<kShared>(b.writer);
      }
      if (const char *e = word<kShared>(tid, s[i], write, masked || in_bytes)) return e;
    }
    return nullptr;
  }

 private:
  // word is an access to one; may says that it may be one that nobody has written.
  template <bool kShared>
  const char *word(unsigned tid, Shadow &s, bool write, bool may) {
    if (const char *e = conflict<kShared>(tid, s, write)) return e;
    if (!write && !may && !written<kShared>(s.writer)) {
      return "reads memory that nobody has written";
    }
    note<kShared>(tid, s, write);
    return nullptr;
  }
  template <bool kShared>
  const char *single(unsigned tid, Region &r, int64_t offset, bool write) {
    r.single[offset / 64] = 1;
    Shadow &s = r.singles[offset], &word = r.words[offset / 4];
    const char *e = conflict<kShared>(tid, s, write);
    if (e == nullptr) e = conflict<kShared>(tid, word, write);
    if (e != nullptr) return e;
    if (!write && !written<kShared>(s.writer) && !written<kShared>(word.writer)) {
      return "reads memory that nobody has written";
    }
    note<kShared>(tid, s, write);
    return nullptr;
  }

  template <bool kShared>
  bool written(uint64_t writer) const {
    return kShared ? run_of(writer) == run_of(stamp) : writer != 0;
  }

  // conflict: an access of another thread in the same interval, or of another block in the
  // same launch, one of the two a write.
  template <bool kShared>
  const char *conflict(unsigned tid, const Shadow &s, bool write) const {
    const uint64_t now = stamp | tid, w = s.writer, r = s.reader;
    if (w != now && clash<kShared>(w)) {
      return write ? "races: writes what another thread has written"
                   : "races: reads what another thread has written";
    }
    if (write && clash<kShared>(r & kWhole) && (r & ~kOthers) != now) {
      return "races: writes what another thread has read";
    }
    if (!kShared && write && (r & kOthers) != 0 && run_of(r) >= first_run) {
      return "races: writes what another block has read";
    }
    return nullptr;
  }
  template <bool kShared>
  bool clash(uint64_t other) const {
    if (((other ^ stamp) & ~kThread) == 0) return true;
    return !kShared && run_of(other) >= first_run && run_of(other) != run_of(stamp);
  }
  template <bool kShared>
  void note(unsigned tid, Shadow &s, bool write) const {
    const uint64_t now = stamp | tid, r = s.reader;
    if (write) {
      s.writer = now;
    } else if (((r ^ stamp) & kWhole & ~kThread) == 0) {
      if ((r & kWhole) != now) s.reader = r | kMany;
    } else {
      const bool others = !kShared && run_of(r) >= first_run &&
                          (run_of(r) != run_of(stamp) || (r & kOthers) != 0);
      s.reader = now | (others ? kOthers : 0);
    }
  }
};

// own is the block that this thread of the system runs.
Block &own();

}  // namespace machine
