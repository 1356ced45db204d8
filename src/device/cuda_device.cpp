#include "base/text.hpp"
#include "device/cuda_driver.hpp"

#include <dlfcn.h>

#include <new>
#include <stdexcept>
#include <utility>

namespace reprise::device {
namespace {

constexpr Result kOutOfMemory = 2;          ///< CUDA_ERROR_OUT_OF_MEMORY
constexpr unsigned kNonBlockingStream = 1;  ///< CU_STREAM_NON_BLOCKING: does not wait for stream 0.
constexpr unsigned kNoTiming = 2;           ///< CU_EVENT_DISABLE_TIMING
constexpr unsigned kPortable = 1;           ///< CU_MEMHOSTALLOC_PORTABLE: for all contexts.

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const Driver& driver) noexcept : driver_(driver) {}
  ~CudaDevice() override {
    if (context_ != nullptr) {
      quietly([&] {
        driver_.free_event(work_);
        driver_.free_stream(copies_);
      });
      driver_.release_context(ordinal_);
    }
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  /// Call it once, before all other methods.
  void open(int ordinal) {
    check(driver_.init(0), "cuInit");
    check(driver_.get_device(&ordinal_, ordinal), "cuDeviceGet");
    check(driver_.retain_context(&context_, ordinal_), "cuDevicePrimaryCtxRetain");
    const Current current(*this);
    check(driver_.make_stream(&copies_, kNonBlockingStream), "cuStreamCreate");
    check(driver_.make_event(&work_, kNoTiming), "cuEventCreate");
  }

  void* allocate(std::size_t bytes, bool on_host) override {
    const Current current(*this);
    void* block = nullptr;
    DevicePointer address = 0;
    const Result result = on_host ? driver_.allocate_host(&block, bytes, kPortable)
                                  : driver_.allocate(&address, bytes);
    if (result == kOutOfMemory) {
      throw std::bad_alloc();
    }
    check(result, on_host ? "cuMemHostAlloc" : "cuMemAlloc");
    return on_host ? block : reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  }
  void free(void* memory, bool on_host) noexcept override {
    quietly([&] {
      if (on_host) {
        driver_.free_host(memory);
      } else {
        driver_.free(reinterpret_cast<DevicePointer>(memory));
      }
    });
  }

  Event make_event() override {
    const Current current(*this);
    Event event = nullptr;
    check(driver_.make_event(&event, kNoTiming), "cuEventCreate");
    return event;
  }
  void free_event(Event event) noexcept override {
    quietly([&] { driver_.free_event(event); });
  }

  void copy(void* to, const void* from, std::size_t bytes, Event made) override {
    const Current current(*this);
    check(driver_.copy(reinterpret_cast<DevicePointer>(to), from, bytes, copies_),
          "cuMemcpyHtoDAsync");
    check(driver_.record(made, copies_), "cuEventRecord");
  }
  void copy_after(Stream stream) override {
    const Current current(*this);
    // A wait is for the latest record of the event, so one event serves all calls.
    check(driver_.record(work_, stream), "cuEventRecord");
    check(driver_.stream_wait(copies_, work_, 0), "cuStreamWaitEvent");
  }
  void follow(Stream stream, Event made) override {
    const Current current(*this);
    check(driver_.stream_wait(stream, made, 0), "cuStreamWaitEvent");
  }
  void wait(Event made) override {
    const Current current(*this);
    check(driver_.synchronize(made), "cuEventSynchronize");
  }

 private:
  /// Makes the device's context current for this thread, and restores the former one.
  class Current {
   public:
    explicit Current(const CudaDevice& of) : driver_(of.driver_) {
      of.check(driver_.push_context(of.context_), "cuCtxPushCurrent");
    }
    ~Current() {
      Handle popped = nullptr;
      driver_.pop_context(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Driver& driver_;
  };

  void check(Result result, const char* call) const {
    if (result == 0) {
      return;
    }
    const char* name = nullptr;
    if (driver_.error_name(result, &name) != 0 || name == nullptr) {
      name = "an error without a name";
    }
    base::refuse<std::runtime_error>("CUDA: ", call, " says ", name, " (", result, ")");
  }

  /// Runs `work`, which frees objects of the context. If the context is gone, its objects are gone
  /// too.
  template <class Work>
  void quietly(Work&& work) noexcept {
    if (driver_.push_context(context_) == 0) {
      work();
      Handle popped = nullptr;
      driver_.pop_context(&popped);
    }
  }

  const Driver driver_;
  Ordinal ordinal_ = 0;
  Handle context_ = nullptr;
  Stream copies_ = nullptr;
  Event work_ = nullptr;
};

}  // namespace

std::unique_ptr<Device> open_cuda(const Driver& driver, int ordinal, std::string& why) {
  auto device = std::make_unique<CudaDevice>(driver);
  try {
    device->open(ordinal);
  } catch (const std::runtime_error& error) {
    why = base::text("there is no CUDA device ", ordinal, " to use; ", error.what());
    return nullptr;
  }
  return device;
}

}  // namespace reprise::device

namespace reprise {

std::unique_ptr<Device> cuda_device(int ordinal, std::string* why) {
  std::string unasked;
  std::string& reason = why != nullptr ? *why : unasked;
  // The library is never closed, because the driver does not survive unloading.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    reason = "there is no CUDA driver: libcuda.so.1 is not found";
    return nullptr;
  }
  device::Driver driver;
  if (const char* const missing =
          driver.look_up([&](const char* name) { return dlsym(library, name); });
      missing != nullptr) {
    reason = base::text("the CUDA driver is too old: it has no ", missing);
    return nullptr;
  }
  return device::open_cuda(driver, ordinal, reason);
}

}  // namespace reprise
