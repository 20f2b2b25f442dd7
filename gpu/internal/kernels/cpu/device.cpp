#include "device.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "cuda.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
// Switching stacks in a few instructions, or as the system does it.
#if defined(__x86_64__) && !defined(LOCKSTEP_UCONTEXT)
#define LOCKSTEP_SWITCH 1
#else
#include <ucontext.h>
#endif

namespace lockstep::cpu {

thread_local Index thread_index, block_index, block_size;
Watch *watch = nullptr;

namespace {

// kPoison is NaN as float and, twice, as double.
constexpr uint32_t kPoison = 0x7ff4dbad;

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kGuard = 0;  // the sanitizer has its own
#else
constexpr int64_t kGuard = 256;  // bytes on either side
#endif

void poison(void *memory, int64_t bytes) {
  auto *p = static_cast<unsigned char *>(memory);
  for (int64_t i = 0; i < bytes; i++) p[i] = static_cast<unsigned char>(kPoison >> (i % 4 * 8));
}

// written is the offset of the first byte that is poison no more, or -1.
int64_t written(const void *memory, int64_t bytes) {
  auto *p = static_cast<const unsigned char *>(memory);
  for (int64_t i = 0; i < bytes; i++) {
    if (p[i] != static_cast<unsigned char>(kPoison >> (i % 4 * 8))) return i;
  }
  return -1;
}

// new_guarded is memory between two guards.
void *new_guarded(int64_t bytes) {
  // The end is not rounded up, so that the sanitizer sees the first byte beyond.
  void *memory = nullptr;
  if (posix_memalign(&memory, 256, static_cast<size_t>(bytes + 2 * kGuard)) != 0) return nullptr;
  poison(memory, bytes + 2 * kGuard);
  return memory;
}

// beside tells where a guard was written to, or is empty.
std::string beside(const void *memory, int64_t bytes) {
  auto *p = static_cast<const unsigned char *>(memory);
  if (int64_t i = written(p, kGuard); i >= 0)
    return std::to_string(kGuard - i) + " bytes before its start";
  int64_t end = kGuard + bytes;
  for (int64_t i = 0; i < kGuard; i++) {
    if (p[end + i] != static_cast<unsigned char>(kPoison >> ((end + i) % 4 * 8)))
      return std::to_string(i) + " bytes after its end";
  }
  return "";
}

// A Context is where a fiber or a worker stopped.
#if defined(LOCKSTEP_SWITCH)
using Context = void *;  // its stack pointer

extern "C" void lockstep_cpu_switch(void **from, void *to);
asm(R"(
.text
.globl lockstep_cpu_switch
.type lockstep_cpu_switch, @function
lockstep_cpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lockstep_cpu_switch, .-lockstep_cpu_switch
)");
#else
using Context = ucontext_t;
#endif

constexpr size_t kStack = 256 << 10;

struct Fiber {
  Context context;
  const char *file = nullptr;  // of the barrier at which it waits
  int line = 0;
  uint64_t path = 0;  // by which it came there
  bool done = false;
  char *stack = nullptr;
  void *shadow = nullptr;  // the sanitizer's
};

// Stacks are those of a block's threads, each above a guard. They are kept from one launch to
// the next: mapping them takes longer than a short kernel runs.
class Stacks {
 public:
  explicit Stacks(size_t count) {
    std::lock_guard lock(mutex_);
    auto found =
        std::find_if(idle_.begin(), idle_.end(), [&](const Mapped &m) { return m.count >= count; });
    if (found != idle_.end()) {
      mapped_ = *found;
      idle_.erase(found);
      return;
    }
    void *memory = mmap(nullptr, kStack * count, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    mapped_ = {static_cast<char *>(memory), count};
    for (size_t i = 0; i < count; i++) mprotect(of(i), 4096, PROT_NONE);  // an overflow faults
  }
  ~Stacks() {
    if (!mapped()) return;
    std::lock_guard lock(mutex_);
    idle_.push_back(mapped_);
  }
  Stacks(const Stacks &) = delete;
  Stacks &operator=(const Stacks &) = delete;

  bool mapped() const { return mapped_.memory != nullptr; }
  char *of(size_t thread) const { return mapped_.memory + thread * kStack; }
  // abandon gives them back to the system: threads that did not end have left frames on them.
  void abandon() {
    munmap(mapped_.memory, kStack * mapped_.count);
    mapped_ = {};
  }

 private:
  struct Mapped {
    char *memory = nullptr;
    size_t count = 0;
  };
  static inline std::mutex mutex_;
  static inline std::vector<Mapped> idle_;
  Mapped mapped_;
};

using Kernel = void (*)(const void *);

// A Worker runs blocks, one after the other, on one thread of the system.
class Worker {
 public:
  Worker(Kernel kernel, const void *argument, int threads, int64_t shared, Order order,
         uint64_t seed)
      : kernel_(kernel),
        argument_(argument),
        stacks_(static_cast<size_t>(threads)),
        fibers_(static_cast<size_t>(threads)),
        shared_(shared),
        order_(order),
        seed_(seed) {
    if (!stacks_.mapped()) {
      failure = "no memory for the stacks of the threads";
      return;
    }
    for (size_t i = 0; i < fibers_.size(); i++) fibers_[i].stack = stacks_.of(i);
    memory_ = new_guarded(shared_);
    if (memory_ == nullptr) failure = "no memory for the block's shared memory";
  }

  ~Worker() {
    if (!failure.empty() && stacks_.mapped()) stacks_.abandon();
    free(memory_);
  }

  // run runs one block. What goes wrong is in failure.
  void run(unsigned block);
  void guard(void *p, int64_t bytes);

  std::string failure;

 private:
  friend void lockstep::cpu::barrier(const char *, int, uint64_t);
  friend void lockstep::cpu::stop(const std::string &);
  friend void *lockstep::cpu::shared_memory();
  static void enter();
  void start(Fiber &fiber, size_t index);
  void turn_to(Fiber &fiber);
  void resume(Fiber &fiber);
  void yield(Fiber &fiber, bool last);
  std::string overrun();
  std::string apart();

  Kernel kernel_;
  const void *argument_;
  Stacks stacks_;
  std::vector<Fiber> fibers_;
  int64_t shared_;
  Order order_;
  uint64_t seed_;  // of the shuffled order
  void *memory_ = nullptr;
  struct Guard {
    void *pointer;
    int64_t bytes;
  };
  std::vector<Guard> guards_;   // inside the memory
  std::vector<size_t> turns_;   // the order between two barriers
  size_t turn_ = 0;             // whose it is
  Context context_{};
  Fiber *current_ = nullptr;
  const void *outer_stack_ = nullptr;  // the worker's own, for the sanitizer
  size_t outer_size_ = 0;
};

thread_local Worker *worker = nullptr;

void Worker::start(Fiber &fiber, size_t index) {
  fiber.done = false;
  fiber.file = nullptr;
  // Stacks begin at different places in the cache's sets.
  char *top = fiber.stack + kStack - (index * 832 % 16384 & ~size_t{63});
#if defined(LOCKSTEP_SWITCH)
  auto **sp = reinterpret_cast<void **>(top);
  *--sp = nullptr;  // where enter would return to: the stack is aligned as after a call
  *--sp = reinterpret_cast<void *>(&Worker::enter);
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  fiber.context = sp;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack + 4096;
  fiber.context.uc_stack.ss_size = static_cast<size_t>(top - fiber.stack - 4096);
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &Worker::enter, 0);
#endif
}

void Worker::enter() {
  Worker &w = *worker;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &w.outer_stack_, &w.outer_size_);
#endif
  w.kernel_(w.argument_);
  Fiber &fiber = *worker->current_;
  fiber.done = true;
  worker->yield(fiber, true);
}

void Worker::turn_to(Fiber &fiber) {
  current_ = &fiber;
  thread_index.x = static_cast<unsigned>(&fiber - fibers_.data());
}

void Worker::resume(Fiber &fiber) {
  turn_to(fiber);
#if defined(__SANITIZE_ADDRESS__)
  void *shadow = nullptr;
  __sanitizer_start_switch_fiber(&shadow, fiber.stack, kStack);
#endif
#if defined(LOCKSTEP_SWITCH)
  lockstep_cpu_switch(&context_, fiber.context);
#else
  swapcontext(&context_, &fiber.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow, nullptr, nullptr);
#endif
}

void Worker::yield(Fiber &fiber, bool last) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(last ? nullptr : &fiber.shadow, outer_stack_, outer_size_);
#else
  (void)last;
#endif
#if defined(LOCKSTEP_SWITCH)
#if !defined(__SANITIZE_ADDRESS__)
  // To the next fiber without a stop at the worker, who goes on when all have had their turn.
  if (failure.empty() && turn_ + 1 < turns_.size()) {
    Fiber &next = fibers_[turns_[++turn_]];
    turn_to(next);
    lockstep_cpu_switch(&fiber.context, next.context);
    return;
  }
#endif
  lockstep_cpu_switch(&fiber.context, context_);
#else
  swapcontext(&fiber.context, &context_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber.shadow, &outer_stack_, &outer_size_);
#endif
}

std::string place(const Fiber &f) {
  if (f.done) return "has ended";
  if (*f.file == 0) return "waits at " + watch->place(f.line);
  const char *name = strrchr(f.file, '/');
  return std::string("waits at ") + (name != nullptr ? name + 1 : f.file) + ":" +
         std::to_string(f.line);
}

// guard forbids a part of the block's shared memory; every thread may say so.
void Worker::guard(void *p, int64_t bytes) {
  for (const Guard &g : guards_) {
    if (g.pointer == p) return;
  }
  guards_.push_back({p, bytes});
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(p, static_cast<size_t>(bytes));
#endif
}

// overrun tells where the block wrote beside its buffers, or is empty. The
// sanitizer notices it by itself, and reads too.
std::string Worker::overrun() {
#if defined(__SANITIZE_ADDRESS__)
  for (const Guard &g : guards_)
    ASAN_UNPOISON_MEMORY_REGION(g.pointer, static_cast<size_t>(g.bytes));
#endif
  for (const Guard &g : guards_) {
    if (int64_t i = written(g.pointer, g.bytes); i >= 0) {
      return "beside a buffer in its shared memory, " + std::to_string(i) + " bytes after its end";
    }
  }
  guards_.clear();
  if (std::string where = beside(memory_, shared_); !where.empty())
    return "beside its shared memory, " + where;
  return "";
}

// apart tells how threads did not come to the same barrier together, or is empty.
std::string Worker::apart() {
  const Fiber &first = fibers_[0];
  for (size_t i = 1; i < fibers_.size(); i++) {
    const Fiber &f = fibers_[i];
    if (f.done != first.done ||
        (!f.done && (f.line != first.line ||
                     (f.file != first.file && strcmp(f.file, first.file) != 0)))) {
      return "the threads do not meet at one barrier: thread 0 " + place(first) + ", thread " +
             std::to_string(i) + " " + place(f);
    }
    const Fiber &warp = fibers_[i / 32 * 32];
    if (!f.done && f.path != warp.path) {
      return "a barrier under divergence: thread " + std::to_string(i) + " " + place(f) +
             ", apart from thread " + std::to_string(i / 32 * 32) + " of its warp";
    }
  }
  return "";
}

void Worker::run(unsigned block) {
  worker = this;
  block_index.x = block;
  block_size.x = static_cast<unsigned>(fibers_.size());
  poison(static_cast<char *>(memory_) + kGuard, shared_);
  if (watch != nullptr) watch->began(static_cast<char *>(memory_) + kGuard, shared_);
  for (size_t i = 0; i < fibers_.size(); i++) start(fibers_[i], i);
  turns_.resize(fibers_.size());
  std::iota(turns_.begin(), turns_.end(), size_t{0});
  if (order_ == Order::kDescending) std::iota(turns_.rbegin(), turns_.rend(), size_t{0});
  // Drawn from the block, not from the worker: which worker takes a block is chance.
  std::seed_seq seeds{seed_, seed_ >> 32, uint64_t{block}};
  std::mt19937_64 random(seeds);
  for (bool done = false; !done;) {
    if (order_ == Order::kShuffled) std::shuffle(turns_.begin(), turns_.end(), random);
    for (turn_ = 0; turn_ < turns_.size(); turn_++) {
      resume(fibers_[turns_[turn_]]);
      if (!failure.empty()) return;
    }
    std::string wrong = apart();
    if (wrong.empty() && watch != nullptr) wrong = watch->passed();
    if (!wrong.empty()) {
      failure = "block " + std::to_string(block) + ": " + wrong;
      return;
    }
    done = fibers_[0].done;
  }
  if (std::string where = overrun(); !where.empty())
    failure = "block " + std::to_string(block) + " wrote " + where;
}

}  // namespace

void barrier(const char *file, int line, uint64_t path) {
  Fiber &fiber = *worker->current_;
  fiber.file = file;
  fiber.line = line;
  fiber.path = path;
  worker->yield(fiber, false);
}

void stop(const std::string &why) {
  worker->failure = why;
  worker->yield(*worker->current_, true);
  abort();  // nobody goes on with it
}

void guard(void *p, int64_t bytes) { worker->guard(p, bytes); }

void *shared_memory() { return static_cast<char *>(worker->memory_) + kGuard; }

Device::~Device() {
  for (auto &[pointer, a] : allocations_) free(a.memory);
}

Result Device::fail(Result result, std::string text) {
  message = std::move(text);
  return result;
}

Result Device::allocate(int64_t bytes, uint64_t *pointer) {
  if (bytes <= 0)
    return fail(Result::kInvalid, "cannot allocate " + std::to_string(bytes) + " bytes");
  void *memory = bytes <= free_memory() ? new_guarded(bytes) : nullptr;
  if (memory == nullptr) {
    return fail(Result::kOutOfMemory, std::to_string(bytes) + " bytes wanted, " +
                                          std::to_string(free_memory()) + " free");
  }
  used_ += bytes;
  *pointer = reinterpret_cast<uint64_t>(memory) + kGuard;
  allocations_[*pointer] = {memory, bytes};
  if (watch != nullptr) watch->allocated(*pointer, bytes);
  return Result::kOK;
}

Result Device::release(uint64_t pointer) {
  auto a = allocations_.find(pointer);
  if (a == allocations_.end())
    return fail(Result::kInvalid, "released memory that was not allocated");
  if (watch != nullptr) watch->released(pointer);
  used_ -= a->second.bytes;
  free(a->second.memory);
  allocations_.erase(a);
  return Result::kOK;
}

Result Device::within(uint64_t pointer, int64_t bytes, const char *what) {
  auto inside = [&](uint64_t start, int64_t size) {
    return pointer >= start && bytes >= 0 && bytes <= size &&
           pointer - start <= static_cast<uint64_t>(size - bytes);
  };
  auto a = allocations_.upper_bound(pointer);
  if (a != allocations_.begin() && inside(std::prev(a)->first, std::prev(a)->second.bytes))
    return Result::kOK;
  auto s = symbols_.upper_bound(pointer);
  if (s != symbols_.begin() && inside(std::prev(s)->first, std::prev(s)->second))
    return Result::kOK;
  return fail(Result::kInvalid, std::string(what) + " of " + std::to_string(bytes) +
                                    " bytes outside the memory that was allocated");
}

Result Device::upload(uint64_t to, const void *from, int64_t bytes) {
  if (Result r = within(to, bytes, "upload"); r != Result::kOK) return r;
  memcpy(reinterpret_cast<void *>(to), from, static_cast<size_t>(bytes));
  if (watch != nullptr) watch->written(to, bytes);
  return Result::kOK;
}

Result Device::download(void *to, uint64_t from, int64_t bytes) {
  if (Result r = within(from, bytes, "download"); r != Result::kOK) return r;
  memcpy(to, reinterpret_cast<const void *>(from), static_cast<size_t>(bytes));
  return Result::kOK;
}

Result Device::copy(uint64_t to, uint64_t from, int64_t bytes) {
  if (Result r = within(to, bytes, "copy"); r != Result::kOK) return r;
  if (Result r = within(from, bytes, "copy"); r != Result::kOK) return r;
  memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from),
          static_cast<size_t>(bytes));
  if (watch != nullptr) watch->copied(to, from, bytes);
  return Result::kOK;
}

Result Device::fill(uint64_t to, int value, int64_t bytes) {
  if (Result r = within(to, bytes, "fill"); r != Result::kOK) return r;
  memset(reinterpret_cast<void *>(to), value, static_cast<size_t>(bytes));
  if (watch != nullptr) watch->written(to, bytes);
  return Result::kOK;
}

Result Device::symbol(const std::string &name, uint64_t *pointer, int64_t *bytes) {
  void *p = dlsym(RTLD_DEFAULT, name.c_str());
  Dl_info info;
  void *entry = nullptr;
  if (p == nullptr || dladdr1(p, &info, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr) {
    return fail(Result::kInvalid, "the kernels have no variable " + name);
  }
  *pointer = reinterpret_cast<uint64_t>(p);
  *bytes = static_cast<int64_t>(static_cast<const ElfW(Sym) *>(entry)->st_size);
  if (symbols_.emplace(*pointer, *bytes).second && watch != nullptr) {
    watch->allocated(*pointer, *bytes);
    watch->written(*pointer, *bytes);
  }
  return Result::kOK;
}

Result Device::load(const std::string &library) {
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return fail(Result::kInvalid, dlerror());
  return Result::kOK;
}

Result Device::check_guards() {
  for (auto &[pointer, a] : allocations_) {
    if (std::string where = beside(a.memory, a.bytes); !where.empty()) {
      return fail(Result::kFailed, "the kernel wrote beside an allocation of " +
                                       std::to_string(a.bytes) + " bytes, " + where);
    }
  }
  return Result::kOK;
}

Result Device::launch(const std::string &kernel, int64_t blocks, int64_t threads, int64_t shared,
                      const void *argument, int64_t bytes) {
  auto run = reinterpret_cast<Kernel>(dlsym(RTLD_DEFAULT, kernel.c_str()));
  if (run == nullptr) return fail(Result::kInvalid, "there is no kernel " + kernel);
  if (blocks < 1 || blocks > INT32_MAX || threads < 1 || threads > 1024) {
    return fail(Result::kInvalid, kernel + ": " + std::to_string(blocks) + " blocks of " +
                                      std::to_string(threads) + " threads cannot be launched");
  }
  if (shared < 0 || shared > options_.shared_limit) {
    return fail(Result::kInvalid, kernel + ": " + std::to_string(shared) +
                                      " bytes of shared memory for each block, " +
                                      std::to_string(options_.shared_limit) + " at most");
  }
  // With nothing beyond its end that a kernel could read unnoticed.
  std::unique_ptr<void, void (*)(void *)> copy(new_guarded(bytes), free);
  void *own = static_cast<char *>(copy.get()) + kGuard;
  if (bytes > 0) memcpy(own, argument, static_cast<size_t>(bytes));
  if (watch != nullptr) {
    watch->allocated(reinterpret_cast<uint64_t>(own), bytes);
    watch->written(reinterpret_cast<uint64_t>(own), bytes);
    watch->launched();
  }
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::string failure;
  auto work = [&] {
    Worker w(run, own, static_cast<int>(threads), shared, options_.order, options_.seed);
    while (w.failure.empty()) {
      int64_t block = next++;
      if (block >= blocks) return;
      w.run(static_cast<unsigned>(block));
    }
    next = blocks;
    std::lock_guard lock(mutex);
    failure = w.failure;
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min<int64_t>(options_.workers, blocks); i++)
    others.emplace_back(work);
  work();
  for (auto &o : others) o.join();
  if (watch != nullptr) watch->released(reinterpret_cast<uint64_t>(own));
  if (!failure.empty()) return fail(Result::kFailed, kernel + ": " + failure);
  if (Result r = check_guards(); r != Result::kOK) return fail(r, kernel + ": " + message);
  return Result::kOK;
}

}  // namespace lockstep::cpu
