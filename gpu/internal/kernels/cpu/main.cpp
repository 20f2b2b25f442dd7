// The device as a process: commands come on the standard input and are answered on
// the standard output, all numbers of 64 bits in the machine's order. Go's package
// emulated is the other end.
//
//   command: operation, a, b, c, d, length of the payload; payload
//   answer:  result, value, length of the payload; payload, or what went wrong
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "device.h"

using lockstep::cpu::Device;
using lockstep::cpu::Order;
using lockstep::cpu::Result;

#if defined(__SANITIZE_ADDRESS__)
extern "C" const char *__asan_default_options() {
  return "detect_leaks=0:detect_stack_use_after_return=0";
}
#endif

namespace {

enum Operation : uint64_t {
  kAllocate = 1,  // a bytes; value: pointer
  kRelease,       // a pointer
  kUpload,        // a to; payload
  kDownload,      // a from, b bytes; payload
  kCopy,          // a to, b from, c bytes
  kFill,          // a to, b value, c bytes
  kSymbol,        // payload name; value: pointer; payload: bytes
  kLaunch,        // a blocks, b threads, c shared, d bytes of the argument; payload argument, name
  kMark,          // value: nanoseconds
  kFree,          // value: bytes
  kLoad,          // payload path of a shared library
};

bool receive(void *to, size_t bytes) {
  auto *p = static_cast<char *>(to);
  while (bytes > 0) {
    ssize_t n = read(0, p, bytes);
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool send(const void *from, size_t bytes) {
  auto *p = static_cast<const char *>(from);
  while (bytes > 0) {
    ssize_t n = write(1, p, bytes);
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

// leave_with_parent ends the process when nobody can send commands any more, also
// in the middle of a kernel.
void leave_with_parent() {
  std::thread([] {
    struct pollfd input = {0, 0, 0};
    while (poll(&input, 1, -1) >= 0) {
      if ((input.revents & (POLLHUP | POLLERR)) != 0) _exit(0);
    }
  }).detach();
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr,
            "usage: device <memory limit> <workers> <ascending|descending|shuffled> <seed>\n");
    return 2;
  }
  Device::Options options;
  options.memory_limit = atoll(argv[1]);
  options.workers = atoi(argv[2]);
  options.order = strcmp(argv[3], "descending") == 0 ? Order::kDescending
                  : strcmp(argv[3], "shuffled") == 0 ? Order::kShuffled
                                                     : Order::kAscending;
  options.seed = strtoull(argv[4], nullptr, 10);
  Device device(options);
  leave_with_parent();

  for (;;) {
    uint64_t command[6];
    if (!receive(command, sizeof command)) return 0;
    const auto [operation, a, b, c, d, length] = command;
    std::vector<char> payload(length);
    Result result = Result::kOK;
    uint64_t value = 0;
    std::vector<char> answer;
    if (!receive(payload.data(), length)) return 0;
    const std::string text(operation == kUpload ? std::string()
                                                : std::string(payload.begin(), payload.end()));
    switch (operation) {
      case kAllocate:
        result = device.allocate(static_cast<int64_t>(a), &value);
        break;
      case kRelease:
        result = device.release(a);
        break;
      case kUpload:
        result = device.upload(a, payload.data(), static_cast<int64_t>(length));
        break;
      case kDownload:
        result = device.within(a, static_cast<int64_t>(b), "download");
        if (result == Result::kOK) {
          answer.resize(b);
          result = device.download(answer.data(), a, static_cast<int64_t>(b));
        }
        break;
      case kCopy:
        result = device.copy(a, b, static_cast<int64_t>(c));
        break;
      case kFill:
        result = device.fill(a, static_cast<int>(b), static_cast<int64_t>(c));
        break;
      case kSymbol: {
        int64_t bytes = 0;
        result = device.symbol(text, &value, &bytes);
        answer.resize(sizeof bytes);
        memcpy(answer.data(), &bytes, sizeof bytes);
        break;
      }
      case kLaunch:
        result = device.launch(text.substr(std::min<size_t>(d, length)), static_cast<int64_t>(a),
                               static_cast<int64_t>(b), static_cast<int64_t>(c), payload.data(),
                               static_cast<int64_t>(std::min<size_t>(d, length)));
        break;
      case kMark: {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        value =
            static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
        break;
      }
      case kFree:
        value = static_cast<uint64_t>(device.free_memory());
        break;
      case kLoad:
        result = device.load(text);
        break;
      default:
        result = Result::kInvalid;
        device.message = "unknown command " + std::to_string(operation);
    }
    if (result != Result::kOK) answer.assign(device.message.begin(), device.message.end());
    const uint64_t head[3] = {static_cast<uint64_t>(result), value, answer.size()};
    if (!send(head, sizeof head) || !send(answer.data(), answer.size())) return 0;
  }
}
