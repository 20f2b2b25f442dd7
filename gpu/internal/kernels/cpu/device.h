// A device whose kernels run on the CPU. It checks what a GPU does not: that all
// threads of a block meet at the same barriers, and that nobody wrote beside the
// memory that was allocated. Shared memory and new memory hold NaN.
#pragma once

#include <stdint.h>

#include <map>
#include <string>

namespace lockstep::cpu {

// In which order the threads of a block run between two barriers.
enum class Order { kAscending, kDescending, kShuffled };

enum class Result {
  kOK,
  kOutOfMemory,  // the device goes on
  kInvalid,      // arguments that no device takes; nothing was done
  kFailed,       // the kernel did something wrong
};

// A Watch hears what happens to memory, and checks what kernels do with it. There is one
// where the kernels are translated instructions, see package translate.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void allocated(uint64_t pointer, int64_t bytes) = 0;  // and variables
  virtual void released(uint64_t pointer) = 0;
  virtual void written(uint64_t to, int64_t bytes) = 0;  // by the host
  virtual void copied(uint64_t to, uint64_t from, int64_t bytes) = 0;
  virtual void launched() = 0;
  // On the thread that runs the block: it begins, with so much shared memory; all its
  // threads have passed a barrier, which gives a reason why that cannot be.
  virtual void began(void *shared, int64_t bytes) = 0;
  virtual std::string passed() = 0;
  virtual std::string place(int at) = 0;  // where an instruction is
};
extern Watch *watch;

// stop ends the launch, called by a kernel's thread.
[[noreturn]] void stop(const std::string &why);

class Device {
 public:
  struct Options {
    int64_t memory_limit = int64_t{4} << 30;  // bytes
    int shared_limit = 232448;                // bytes of a block, as on sm_90
    int workers = 1;                          // blocks that run at the same time
    Order order = Order::kAscending;
    uint64_t seed = 1;  // of the shuffled order
  };

  explicit Device(const Options &options) : options_(options) {}
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  // Each explains in message what was wrong.
  Result allocate(int64_t bytes, uint64_t *pointer);
  Result release(uint64_t pointer);
  Result upload(uint64_t to, const void *from, int64_t bytes);
  Result download(void *to, uint64_t from, int64_t bytes);
  Result copy(uint64_t to, uint64_t from, int64_t bytes);
  Result fill(uint64_t to, int value, int64_t bytes);
  // within tells whether bytes from pointer on lie in one allocation or variable.
  Result within(uint64_t pointer, int64_t bytes, const char *what);
  Result symbol(const std::string &name, uint64_t *pointer, int64_t *bytes);
  // load adds the kernels of a shared library.
  Result load(const std::string &library);

  // launch returns when the kernel has ended. Its only argument is the struct with
  // so many bytes, which it takes by reference, or a pointer.
  Result launch(const std::string &kernel, int64_t blocks, int64_t threads, int64_t shared,
                const void *argument, int64_t bytes);

  int64_t free_memory() const { return options_.memory_limit - used_; }
  const Options &options() const { return options_; }

  std::string message;

 private:
  struct Allocation {
    void *memory;  // with what guards it
    int64_t bytes;
  };

  Result fail(Result result, std::string text);
  Result check_guards();

  Options options_;
  int64_t used_ = 0;
  std::map<uint64_t, Allocation> allocations_;
  std::map<uint64_t, int64_t> symbols_;
};

}  // namespace lockstep::cpu
