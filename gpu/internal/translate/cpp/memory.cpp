#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <atomic>
#include <map>
#include <string>

#include "../cpu/device.h"
#include "machine.h"

namespace machine {

uint64_t first_run = 1;

namespace {

template <class T>
void change(T *&p, int64_t n, bool give) {
  const size_t bytes = sizeof(T) * (size_t)(n + 4);
  if (!give) {
    if (p != nullptr) munmap(p, bytes);
    p = nullptr;
    return;
  }
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

// Of global memory, by start; they change between launches only.
std::map<uint64_t, Region> regions;
std::atomic<uint64_t> runs{1};

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

thread_local Block block;

}  // namespace

Region *find(uint64_t address) {
  auto r = regions.upper_bound(address);
  if (r == regions.begin()) return nullptr;
  r--;
  return address - r->first < (uint64_t)r->second.bytes ? &r->second : nullptr;
}

Block::~Block() { uncover(shared); }

Block &own() { return block; }

namespace {

// The Watcher hears what the device does.
struct Watcher : lockstep::cpu::Watch {
  Watcher() { lockstep::cpu::watch = this; }
  void allocated(uint64_t pointer, int64_t bytes) override {
    cover(regions[pointer], pointer, bytes);
  }
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
    if (block.memory != memory || block.shared.bytes != bytes) {
      uncover(block.shared);
      cover(block.shared, 0, bytes);
      block.memory = (uint8_t *)memory;
    }
    block.stamp = runs++ << kRun;
    for (Region *&r : block.recent) r = nullptr;
  }
  std::string place(int at) override {
    char text[32];
    snprintf(text, sizeof text, (at & kCode) != 0 ? "0x%04x" : "line %d", at & ~(kCode | kMasked));
    return text;
  }
  std::string passed() override {
    block.stamp += 1 << kInterval;
    return (block.stamp >> kInterval) % kIntervals == 0
               ? "more barriers than the executor can number"
               : "";
  }
} watcher;

}  // namespace

}  // namespace machine
