#include "machine.h"

#include <fenv.h>
#include <stdio.h>

#include <string>

#include "../cpu/cuda.h"
#include "../cpu/device.h"
#include "memory.h"

#undef fma

namespace machine {

Thread::Thread(const void *argument)
    : block(own()), tid(lockstep::cpu::thread_index.x), ntid(lockstep::cpu::block_size.x),
      ctaid(lockstep::cpu::block_index.x),
      argument((const uint8_t *)argument) {
  memset(local, 0xff, sizeof local);
}

void Thread::stop(int at, const char *what) {
  lockstep::cpu::stop("block " + std::to_string(ctaid) + ", thread " + std::to_string(tid) +
                      ", at " + lockstep::cpu::watch->place(at) + ": " + what);
}
uint32_t Thread::constant2(const uint8_t *table, uint32_t bytes, uint32_t offset, int at) {
  if (offset % 4 != 0 || offset + 4 > bytes) stop(at, "reads beyond constant bank 2");
  return load<uint32_t>(table + offset);
}
uint32_t Thread::constant0(uint32_t offset, int at) {
  constexpr uint32_t kArgument = 0x210;
  if (offset >= kArgument) {
    return load<uint32_t>(read_global((uint64_t)argument + (offset - kArgument), 4, at));
  }
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

[[noreturn]] void refuse(Thread &t, const char *space, uint64_t address, int bytes, bool write,
                         int at, const char *what) {
  char text[200];
  snprintf(text, sizeof text, "%s%d bytes of %s memory at 0x%llx: %s",
           write ? "writing " : "reading ", bytes, space, (unsigned long long)address, what);
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
    e = b.access<true>(t.tid, b.shared, offset, bytes, write, (at & kMasked) != 0);
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
    e = b.access<false>(t.tid, *r, (int64_t)(address - r->start), bytes, write, false);
  }
  if (e != nullptr) refuse(t, "global", address, bytes, write, at, e);
  return (uint8_t *)address;
}

uint8_t *in_generic(Thread &t, uint64_t address, int bytes, bool write, int at) {
  if (address >> 32 == kSharedWindow >> 32) {
    return in_shared(t, (uint32_t)address, bytes, write, at);
  }
  if (address >> 32 == kLocalWindow >> 32) return t.at_local(address, bytes, at);
  return in_global(t, address, bytes, write, at);
}

}  // namespace

const uint8_t *Thread::read_shared(uint32_t a, int bytes, int at) {
  return in_shared(*this, a, bytes, false, at);
}
uint8_t *Thread::write_shared(uint32_t a, int bytes, int at) {
  return in_shared(*this, a, bytes, true, at);
}
const uint8_t *Thread::read_global(uint64_t a, int bytes, int at) {
  return in_global(*this, a, bytes, false, at);
}
uint8_t *Thread::write_global(uint64_t a, int bytes, int at) {
  return in_global(*this, a, bytes, true, at);
}
const uint8_t *Thread::read_generic(uint64_t a, int bytes, int at) {
  return in_generic(*this, a, bytes, false, at);
}
uint8_t *Thread::write_generic(uint64_t a, int bytes, int at) {
  return in_generic(*this, a, bytes, true, at);
}

uint8_t *Thread::at_local(uint64_t address, int bytes, int at) {
  const uint32_t a = (uint32_t)address;
  if (a % (uint32_t)bytes != 0) refuse(*this, "local", address, bytes, false, at, "not aligned");
  if ((uint64_t)a + (uint64_t)bytes > frame) {
    refuse(*this, "local", address, bytes, false, at, "out of bounds");
  }
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
