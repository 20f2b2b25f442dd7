// What g++ has a kernel call before each access to memory, if it is compiled with
// -fsanitize=thread, whose own library is not linked: each asks the block's memory whether
// another thread was there since the last barrier, in whatever order they ran.
#include <cxxabi.h>
#include <dlfcn.h>
#include <stdlib.h>

#include <string>

#include "../cpu/cuda.h"
#include "../cpu/device.h"
#include "../machine/memory.h"

namespace machine {

namespace {

// function is in which a place of the code lies.
std::string function(const void *at) {
  Dl_info info;
  if (dladdr(at, &info) == 0 || info.dli_sname == nullptr) return "a kernel";
  int status = 0;
  char *plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string name = status == 0 ? plain : info.dli_sname;
  free(plain);
  return name.substr(0, name.find('('));
}

// part is an access to what lies in one word, or in four that are aligned.
void part(uint64_t address, int bytes, bool write, const void *at) {
  Block &b = own();
  const unsigned thread = lockstep::cpu::thread_index.x;
  const uint64_t shared = address - reinterpret_cast<uint64_t>(b.memory);
  const char *wrong = nullptr;
  bool in_shared = shared < static_cast<uint64_t>(b.shared.bytes);
  if (in_shared) {
    wrong = b.access<true>(thread, b.shared, static_cast<int64_t>(shared), bytes, write, true);
  } else if (Region *r = b.region(address)) {  // else it is the thread's own, or the program's
    wrong = b.access<false>(thread, *r, static_cast<int64_t>(address - r->start), bytes, write,
                            true);
  }
  if (wrong == nullptr) return;
  lockstep::cpu::stop("block " + std::to_string(lockstep::cpu::block_index.x) + ", thread " +
                      std::to_string(thread) + ", in " + function(at) + ", " +
                      (in_shared ? "byte " + std::to_string(shared) + " of shared memory: "
                                 : std::string("global memory: ")) +
                      wrong);
}

void access(const void *p, uint64_t bytes, bool write, const void *at) {
  char here;  // on the stack of the thread
  uint64_t address = reinterpret_cast<uint64_t>(p);
  if (own().stamp == 0) return;  // what is initialised before a kernel runs
  if (address - reinterpret_cast<uint64_t>(&here) < 256 << 10) return;
  if (bytes == 16 && address % 16 == 0) return part(address, 16, write, at);
  for (const uint64_t end = address + bytes; address < end;) {
    const int some = address % 4 == 0 && end - address >= 4 ? 4 : 1;
    part(address, some, write, at);
    address += static_cast<uint64_t>(some);
  }
}

}  // namespace

}  // namespace machine

#define LOCKSTEP_ACCESS(bytes)                                               \
  void __tsan_read##bytes(void *p) {                                         \
    machine::access(p, bytes, false, __builtin_return_address(0));           \
  }                                                                          \
  void __tsan_write##bytes(void *p) {                                        \
    machine::access(p, bytes, true, __builtin_return_address(0));            \
  }                                                                          \
  void __tsan_unaligned_read##bytes(void *p) {                               \
    machine::access(p, bytes, false, __builtin_return_address(0));           \
  }                                                                          \
  void __tsan_unaligned_write##bytes(void *p) {                              \
    machine::access(p, bytes, true, __builtin_return_address(0));            \
  }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
LOCKSTEP_ACCESS(1) LOCKSTEP_ACCESS(2) LOCKSTEP_ACCESS(4) LOCKSTEP_ACCESS(8) LOCKSTEP_ACCESS(16)
void __tsan_read_range(void *p, size_t bytes) {
  machine::access(p, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void *p, size_t bytes) {
  machine::access(p, bytes, true, __builtin_return_address(0));
}
}
