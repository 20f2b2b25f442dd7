// A stand-in for NVIDIA's libcuda.so.1 that runs the kernels on the CPU, so that
// the program built with the tag cuda can be tested, unmodified, without a GPU. It
// has the functions that the program calls; the others answer an error.
//
// It is stricter than a driver: a call on a thread without a context fails, as
// does more shared memory than a kernel was allowed. Environment variables,
// which are read at each call, make it fail on purpose:
//
//   LOCKSTEP_STANDIN_FAULT   no-device, old-driver (11.8), driver-12 (takes no
//                            machine code and no PTX of 13.0), capability (7.5), module,
//                            launch (the kernel is aborted), hang (it ends when the fault
//                            does)
//   LOCKSTEP_STANDIN_MEMORY  bytes of device memory, at the first call
//   LOCKSTEP_STANDIN_MAJOR   compute capability, 9 if not set: 8 takes PTX
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "../internal/kernels/cpu/device.h"
#include "../internal/kernels/classic/launch.h"
#include "../internal/kernels/launch.h"

using lockstep::cpu::Device;
using lockstep::cpu::Result;

// What has passed, as the driver sees it: launches, uploads, downloads, their
// bytes, queries of a stream that had done its work.
extern "C" {
int64_t lockstep_standin_counts[6];
}

namespace {

enum { kLaunches, kUploads, kDownloads, kUploadBytes, kDownloadBytes, kSynchronisations };

bool fault(const char *name) {
  const char *text = getenv("LOCKSTEP_STANDIN_FAULT");
  return text != nullptr && strcmp(text, name) == 0;
}

int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text == nullptr ? otherwise : atoi(text);
}

// A Stream does what it is given on a thread of its own, in order.
struct Context;
struct Stream {
  Context *const context;
  std::mutex mutex;
  std::condition_variable work;
  std::deque<std::function<CUresult()>> queue;
  bool busy = false, ending = false;
  std::thread thread;

  explicit Stream(Context *of) : context(of), thread([this] { run(); }) {}
  ~Stream() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ending = true;
    }
    work.notify_all();
    thread.join();
  }
  void run();
  void add(std::function<CUresult()> f) {
    std::lock_guard<std::mutex> lock(mutex);
    queue.push_back(std::move(f));
    work.notify_all();
  }
  bool idle() {
    std::lock_guard<std::mutex> lock(mutex);
    return queue.empty() && !busy;
  }
};

// An Event is shared with the streams that wait for it, which may be after it was
// destroyed.
struct Moment {
  std::mutex mutex;
  std::condition_variable come;
  bool past = true;
  double milliseconds = -1;
};
struct Event {
  std::shared_ptr<Moment> moment = std::make_shared<Moment>();
};
struct Module {
  int unused = 0;
};
struct Function {
  std::string name;
  int shared = 48 << 10;
};

// A Context has the device's memory to itself. Who is asked whether a stream has done its
// work answers while the device computes, as a driver does: that needs the second lock alone.
// Who takes both takes them in this order.
struct Context {
  std::mutex computing;            // of what the device does
  std::mutex mutex;                // of what follows
  std::unique_ptr<Device> device;  // comes and goes with both locks
  std::map<Function *, std::unique_ptr<Function>> functions;
  int references = 0;              // of the primary one
  CUresult failed = CUDA_SUCCESS;  // answers everything from then on
  std::unique_ptr<Stream> main;    // the default one
};

bool initialised;
Context primary;
thread_local Context *current;

// open gives a context memory.
void open(Context &context) {
  Device::Options options;
  options.workers = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const char *text = getenv("LOCKSTEP_STANDIN_MEMORY")) options.memory_limit = atoll(text);
  context.device = std::make_unique<Device>(options);
  context.failed = CUDA_SUCCESS;
}

void Stream::run() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    work.wait(lock, [this] { return ending || !queue.empty(); });
    if (queue.empty()) return;
    auto f = std::move(queue.front());
    queue.pop_front();
    busy = true;
    lock.unlock();
    CUresult result;
    {
      std::lock_guard<std::mutex> guard(context->mutex);
      result = context->failed;
    }
    if (result == CUDA_SUCCESS) {
      result = f();
      std::lock_guard<std::mutex> guard(context->mutex);
      if (result != CUDA_SUCCESS) context->failed = result;
    }
    lock.lock();
    busy = false;
  }
}

// enter calls f on a thread that has the context, beside what the device computes.
template <class F>
CUresult enter(F f) {
  if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard<std::mutex> lock(current->mutex);
  if (current->failed != CUDA_SUCCESS) return current->failed;
  if (current->device == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return f();
}

// use calls f with the device, when it has computed.
template <class F>
CUresult use(F f) {
  if (current == nullptr) return enter([] { return CUDA_SUCCESS; });
  std::lock_guard<std::mutex> lock(current->computing);
  return enter([&] { return f(*current->device); });
}

CUresult translate(Device &device, Result result, CUresult invalid) {
  switch (result) {
    case Result::kOK:
      return CUDA_SUCCESS;
    case Result::kOutOfMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    default:
      fprintf(stderr, "stand-in: %s\n", device.message.c_str());
      return result == Result::kInvalid ? invalid : CUDA_ERROR_LAUNCH_FAILED;
  }
}

// stream_of is a stream of the current context, locked by the caller.
Stream *stream_of(CUstream stream) {
  if (stream != nullptr && stream != CU_STREAM_LEGACY) return reinterpret_cast<Stream *>(stream);
  if (current->main == nullptr) current->main = std::make_unique<Stream>(current);
  return current->main.get();
}

// then gives a command to the stream, which calls f with the device.
CUresult then(CUstream stream, std::function<CUresult(Device &)> f) {
  return enter([&] {
    Stream *s = stream_of(stream);
    if (s->context != current) return CUDA_ERROR_INVALID_HANDLE;
    s->add([f, s] {
      std::lock_guard<std::mutex> lock(s->context->computing);
      return s->context->device == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                           : f(*s->context->device);
    });
    return CUDA_SUCCESS;
  });
}

double now() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

// expose lets the device find the kernels, which are in this library.
void expose() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&lockstep_standin_counts), &info) != 0) {
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  }
}

bool counts_at(CUdeviceptr p) {
  return p == reinterpret_cast<CUdeviceptr>(&lockstep_standin_counts);
}

// argument_size is how many bytes a kernel's argument has.
size_t argument_size(const std::string &kernel) {
  if (kernel.compare(0, 15, "lockstep_steps_") == 0 ||
      kernel.compare(0, 15, "lockstep_reset_") == 0) {
    return sizeof(lockstep::classic::Launch);
  }
  return kernel == "lockstep_observe" ? sizeof(lockstep::Observing) : sizeof(lockstep::Launch);
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int) {
  if (fault("no-device")) return CUDA_ERROR_NO_DEVICE;
  initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  *version = fault("old-driver") ? 11080 : fault("driver-12") ? 12040 : 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
    case CUDA_ERROR_NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; break;
    case CUDA_ERROR_INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; break;
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION: *name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"; break;
    default: *name = nullptr; return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "out of memory"; break;
    case CUDA_ERROR_LAUNCH_FAILED: *text = "unspecified launch failure"; break;
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      *text = "the provided PTX was compiled with an unsupported toolchain.";
      break;
    default: *text = nullptr; return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  *count = 1;
  return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  snprintf(name, static_cast<size_t>(length), "stand-in");
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
  *bytes = static_cast<size_t>(Device::Options().memory_limit);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
  switch (static_cast<int>(attribute)) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = fault("capability") ? 7 : number("LOCKSTEP_STANDIN_MAJOR", 9);
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = fault("capability") ? 5 : 0; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = Device::Options().shared_limit;
      break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice) {
  if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
  std::scoped_lock lock(primary.computing, primary.mutex);
  if (primary.device == nullptr) open(primary);
  primary.references++;
  *ctx = reinterpret_cast<CUcontext>(&primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  std::scoped_lock lock(primary.computing, primary.mutex);
  if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.references == 0) primary.device.reset();
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *ctx, unsigned int, CUdevice) {
  if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
  current = new Context;
  open(*current);
  *ctx = reinterpret_cast<CUcontext>(current);
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx) {
  auto *context = reinterpret_cast<Context *>(ctx);
  if (context == &primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (current == context) current = nullptr;
  delete context;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  current = reinterpret_cast<Context *>(ctx);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int) {
  return enter([&] {
    *stream = reinterpret_cast<CUstream>(new Stream(current));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy(CUstream stream) {
  delete reinterpret_cast<Stream *>(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  Stream *s = nullptr;
  const CUresult found = enter([&] {
    s = stream_of(stream);
    return CUDA_SUCCESS;
  });
  if (found == CUDA_SUCCESS && !s->idle()) return CUDA_ERROR_NOT_READY;
  return enter([&] {
    lockstep_standin_counts[kSynchronisations]++;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                            CUjit_option *options, void **values) {
  return enter([&] {
    const bool machine_code = memcmp(image, "\177ELF", 4) == 0;
    const bool machine_code_12 = machine_code && fault("driver-12");
    const bool ptx_9 =
        !machine_code && strstr(static_cast<const char *>(image), ".version 9.0") != nullptr;
    const bool ptx = ptx_9 || (!machine_code &&
                               strstr(static_cast<const char *>(image), ".version 8.0") != nullptr);
    const char *log = nullptr;
    CUresult result = CUDA_SUCCESS;
    if (fault("module") || (!machine_code && !ptx) ||
        (machine_code && number("LOCKSTEP_STANDIN_MAJOR", 9) != 9)) {
      log = "ptxas fatal : planted by the\nstand-in";
      result = CUDA_ERROR_INVALID_IMAGE;
    } else if (machine_code_12) {
      log = "";
      result = CUDA_ERROR_INVALID_IMAGE;
    } else if (ptx_9 && fault("driver-12")) {
      log =
          "ptxas application ptx input, line 9; fatal   : Unsupported .version 9.0; current "
          "version is '8.4'";
      result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    for (unsigned i = 0; log != nullptr && i < count; i++) {
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER) strcpy(static_cast<char *>(values[i]), log);
    }
    if (result != CUDA_SUCCESS) return result;
    expose();
    *module = reinterpret_cast<CUmodule>(new Module);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleUnload(CUmodule module) {
  delete reinterpret_cast<Module *>(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
  return enter([&] {
    auto f = std::make_unique<Function>();
    f->name = name;
    *function = reinterpret_cast<CUfunction>(f.get());
    current->functions[f.get()] = std::move(f);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUmodule, const char *name) {
  return use([&](Device &device) {
    if (strcmp(name, "lockstep_standin_counts") == 0) {
      *pointer = reinterpret_cast<CUdeviceptr>(&lockstep_standin_counts);
      *bytes = sizeof lockstep_standin_counts;
      return CUDA_SUCCESS;
    }
    uint64_t p = 0;
    int64_t n = 0;
    const CUresult result = translate(device, device.symbol(name, &p, &n), CUDA_ERROR_NOT_FOUND);
    *pointer = p;
    *bytes = static_cast<size_t>(n);
    return result;
  });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return use([&](Device &device) {
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
        value > device.options().shared_limit)
      return CUDA_ERROR_INVALID_VALUE;
    reinterpret_cast<Function *>(function)->shared = value;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetInfo(size_t *free, size_t *total) {
  return use([&](Device &device) {
    *free = static_cast<size_t>(device.free_memory());
    *total = static_cast<size_t>(device.options().memory_limit);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes) {
  return use([&](Device &device) {
    uint64_t p = 0;
    const CUresult result = translate(device, device.allocate(static_cast<int64_t>(bytes), &p),
                                      CUDA_ERROR_INVALID_VALUE);
    *pointer = p;
    return result;
  });
}

CUresult cuMemFree(CUdeviceptr pointer) {
  return use([&](Device &device) {
    return translate(device, device.release(pointer), CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int) {
  return enter([&] {
    return posix_memalign(pointer, 4096, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult cuMemFreeHost(void *pointer) {
  free(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  lockstep_standin_counts[kUploads]++;
  lockstep_standin_counts[kUploadBytes] += static_cast<int64_t>(bytes);
  return then(stream, [=](Device &device) {
    return translate(device, device.upload(to, from, static_cast<int64_t>(bytes)),
                     CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (counts_at(from)) {
    return then(stream, [=](Device &) {
      memcpy(to, lockstep_standin_counts, bytes);
      return CUDA_SUCCESS;
    });
  }
  lockstep_standin_counts[kDownloads]++;
  lockstep_standin_counts[kDownloadBytes] += static_cast<int64_t>(bytes);
  return then(stream, [=](Device &device) {
    return translate(device, device.download(to, from, static_cast<int64_t>(bytes)),
                     CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return then(stream, [=](Device &device) {
    return translate(device, device.copy(to, from, static_cast<int64_t>(bytes)),
                     CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  return then(stream, [=](Device &device) {
    return translate(device, device.fill(to, value, static_cast<int64_t>(bytes)),
                     CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned int blocks, unsigned int, unsigned int,
                        unsigned int threads, unsigned int, unsigned int, unsigned int shared,
                        CUstream stream, void **parameters, void **) {
  const Function *f = reinterpret_cast<Function *>(function);
  if (static_cast<int>(shared) > f->shared) return CUDA_ERROR_INVALID_VALUE;
  lockstep_standin_counts[kLaunches]++;
  // Exactly the kernel's argument is copied: behind it lies memory that is nobody's.
  const std::string argument(static_cast<const char *>(parameters[0]), argument_size(f->name));
  if (fault("launch")) return then(stream, [](Device &) { return CUDA_ERROR_LAUNCH_FAILED; });
  if (fault("hang")) {
    return enter([&] {
      stream_of(stream)->add([] {
        while (fault("hang")) usleep(1000);
        return CUDA_SUCCESS;
      });
      return CUDA_SUCCESS;
    });
  }
  const std::string name = f->name;
  return then(stream, [=](Device &device) {
    return translate(device,
                     device.launch(name, blocks, threads, shared, argument.data(),
                                   static_cast<int64_t>(argument.size())),
                     CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuEventCreate(CUevent *event, unsigned int) {
  return enter([&] {
    *event = reinterpret_cast<CUevent>(new Event);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy(CUevent event) {
  delete reinterpret_cast<Event *>(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  auto moment = reinterpret_cast<Event *>(event)->moment;
  {
    std::lock_guard<std::mutex> lock(moment->mutex);
    moment->past = false;
  }
  return then(stream, [=](Device &) {
    std::lock_guard<std::mutex> lock(moment->mutex);
    moment->milliseconds = now();
    moment->past = true;
    moment->come.notify_all();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  auto moment = reinterpret_cast<Event *>(event)->moment;
  return enter([&] {
    stream_of(stream)->add([=] {
      std::unique_lock<std::mutex> lock(moment->mutex);
      moment->come.wait(lock, [&] { return moment->past; });
      return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
  });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  return enter([&] {
    *milliseconds = static_cast<float>(reinterpret_cast<Event *>(to)->moment->milliseconds -
                                       reinterpret_cast<Event *>(from)->moment->milliseconds);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
