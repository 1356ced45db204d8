#include "device/cuda_driver.hpp"
#include "device/devices.hpp"
#include "testing/test.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <new>

namespace reprise::test {
namespace {

using device::DevicePointer;
using device::Driver;
using device::Handle;
using device::Ordinal;
using device::Result;

/// Whose memory a block is in.
enum Place : std::uint8_t { kDevice, kHost };

/// The state of a fake driver with one device, number 3, in the host's memory. Calls complete at
/// once.
struct Fake {
  std::vector<std::string> calls;  ///< Calls that concern streams, each with its handle.
  std::string failing;             ///< The name of the call that returns `error`.
  Result error = 700;              ///< `CUDA_ERROR_ILLEGAL_ADDRESS`.
  int contexts = 0;                ///< How often the device's context is retained.
  int current = 0;                 ///< How often the context was pushed and not popped.
  int handles = 0;                 ///< Number of streams and events.
  int blocks[2] = {};              ///< Number of blocks in the memory of each `Place`.
  int without_context = 0;         ///< Number of calls that need a current context and had none.
};
Fake* fake = nullptr;

Result call_result(const char* call) {
  return fake->failing == call ? fake->error : 0;
}
/// The result of a call that needs a context.
Result call_result_in_context(const char* call) {
  fake->without_context += fake->current == 0 ? 1 : 0;
  return call_result(call);
}

Result make_handle(const char* call, Handle* handle) {
  if (const Result result = call_result_in_context(call); result != 0) {
    return result;
  }
  *handle = new char;
  ++fake->handles;
  return 0;
}

Result free_handle(const char* call, Handle handle) {
  if (handle != nullptr) {
    delete static_cast<char*>(handle);
    --fake->handles;
  }
  return call_result_in_context(call);
}

Result allocate_block(const char* call, Place place, std::size_t bytes, void** block) {
  if (const Result result = call_result_in_context(call); result != 0) {
    return result;
  }
  *block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  ++fake->blocks[place];
  return 0;
}

Result free_block(const char* call, Place place, void* block) {
  std::free(block);
  --fake->blocks[place];
  return call_result_in_context(call);
}

Result record_stream_call(const char* call, std::vector<Handle> handles) {
  std::string entry = call;
  for (const Handle handle : handles) {
    entry += ' ' + std::to_string(reinterpret_cast<std::uintptr_t>(handle));
  }
  fake->calls.push_back(entry);
  return call_result_in_context(call);
}

/// Each function checks its constant arguments. 1 is CUDA_ERROR_INVALID_VALUE, 101
/// CUDA_ERROR_INVALID_DEVICE, 201 CUDA_ERROR_INVALID_CONTEXT.
Driver fake_driver() {
  return {
      .init = [](unsigned flags) -> Result { return flags == 0 ? call_result("cuInit") : 1; },
      .error_name = [](Result result, const char** name) -> Result {
        *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
        return result == 700 ? 0 : 1;
      },
      .get_device = [](Ordinal* device, int ordinal) -> Result {
        *device = ordinal;
        return ordinal == 3 ? call_result("cuDeviceGet") : 101;
      },
      .retain_context = [](Handle* context, Ordinal device) -> Result {
        const Result result = device == 3 ? call_result("cuDevicePrimaryCtxRetain") : 101;
        *context = result == 0 ? fake : nullptr;
        fake->contexts += result == 0 ? 1 : 0;
        return result;
      },
      .release_context = [](Ordinal device) -> Result {
        fake->contexts -= device == 3 ? 1 : 0;
        return 0;
      },
      .push_context = [](Handle context) -> Result {
        const Result result = context == fake ? call_result("cuCtxPushCurrent") : 201;
        fake->current += result == 0 ? 1 : 0;
        return result;
      },
      .pop_context = [](Handle* context) -> Result {
        *context = fake;
        return --fake->current >= 0 ? 0 : 201;
      },
      .allocate_host = [](void** block, std::size_t bytes, unsigned flags) -> Result {
        return flags == 1 ? allocate_block("cuMemHostAlloc", kHost, bytes, block) : 1;
      },
      .free_host = [](void* block) -> Result { return free_block("cuMemFreeHost", kHost, block); },
      .allocate = [](DevicePointer* away, std::size_t bytes) -> Result {
        return allocate_block("cuMemAlloc", kDevice, bytes, reinterpret_cast<void**>(away));
      },
      .free = [](DevicePointer away) -> Result {
        return free_block("cuMemFree", kDevice, reinterpret_cast<void*>(away));
      },
      .make_stream = [](Handle* stream, unsigned flags) -> Result {
        return flags == 1 ? make_handle("cuStreamCreate", stream) : 1;
      },
      .free_stream = [](Handle stream) -> Result { return free_handle("cuStreamDestroy", stream); },
      .stream_wait = [](Handle stream, Handle event, unsigned flags) -> Result {
        return flags == 0 ? record_stream_call("cuStreamWaitEvent", {stream, event}) : 1;
      },
      .make_event = [](Handle* event, unsigned flags) -> Result {
        return flags == 2 ? make_handle("cuEventCreate", event) : 1;
      },
      .free_event = [](Handle event) -> Result { return free_handle("cuEventDestroy", event); },
      .record = [](Handle event, Handle stream) -> Result {
        return record_stream_call("cuEventRecord", {stream, event});
      },
      .synchronize = [](Handle event) -> Result {
        return record_stream_call("cuEventSynchronize", {event});
      },
      .copy = [](DevicePointer to, const void* from, std::size_t bytes, Handle stream) -> Result {
        std::memcpy(reinterpret_cast<void*>(to), from, bytes);
        return record_stream_call("cuMemcpyHtoDAsync", {stream});
      },
  };
}

/// Expects at the end that everything was given back, and that no call lacked its context.
class FakeCuda : public testing::Test {
 public:
  FakeCuda() { fake = &state; }
  ~FakeCuda() override {
    EXPECT_EQ(state.contexts, 0);
    EXPECT_EQ(state.current, 0);
    EXPECT_EQ(state.handles, 0);
    EXPECT_EQ(state.blocks[kDevice], 0);
    EXPECT_EQ(state.blocks[kHost], 0);
    EXPECT_EQ(state.without_context, 0);
    fake = nullptr;
  }

  Fake state;
  std::string why;
};

/// Opens the fake device, makes a ring on it, and draws batches.
void use_a_ring(std::string& why) {
  NumberedBuffer line;
  fill(line);
  const std::unique_ptr<Device> cuda = open_cuda(fake_driver(), 3, why);
  if (cuda == nullptr) {
    return;
  }
  Sampler sampler = line.replay.sampler();
  DeviceRing ring(sampler, 16, *cuda);
  for (int i = 0; i < 10; ++i) {
    const SampleResult batch = ring.next(fake);
    ASSERT_TRUE(batch);
    const auto ids = batch->now(line.id);
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), ring.at(ids)));
  }
}

TEST_F(FakeCuda, MakesEachCallInItsContextAndFreesEverything) {
  use_a_ring(why);
  EXPECT_EQ(why, "");
}

TEST_F(FakeCuda, NamesTheCallThatFailedAndFreesEverything) {
  for (const char* const call :
       {"cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuMemHostAlloc",
        "cuMemAlloc", "cuStreamCreate", "cuStreamWaitEvent", "cuEventCreate", "cuEventRecord",
        "cuEventSynchronize", "cuMemcpyHtoDAsync"}) {
    state.failing = call;
    why.clear();
    try {
      use_a_ring(why);
    } catch (const std::runtime_error& error) {
      why = error.what();
    }
    EXPECT_NE(why.find(std::string("CUDA: ") + call + " says CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
              std::string::npos)
        << call << ": " << why;
    EXPECT_EQ(state.contexts + state.current + state.handles + state.blocks[kDevice] +
                  state.blocks[kHost],
              0)
        << call;
  }
}

TEST_F(FakeCuda, GivesTheNumberOfAnErrorWithoutAName) {
  EXPECT_EQ(open_cuda(fake_driver(), 4, why), nullptr);
  EXPECT_EQ(why,
            "there is no CUDA device 4 to use; "
            "CUDA: cuDeviceGet says an error without a name (101)");
}

TEST_F(FakeCuda, ThrowsBadAllocWhenItsMemoryIsUsedUp) {
  const auto cuda = open_cuda(fake_driver(), 3, why);
  ASSERT_NE(cuda, nullptr);
  state.error = 2;  // `CUDA_ERROR_OUT_OF_MEMORY`.
  for (const bool on_host : {false, true}) {
    state.failing = on_host ? "cuMemHostAlloc" : "cuMemAlloc";
    EXPECT_THROW(static_cast<void>(cuda->allocate(256, on_host)), std::bad_alloc);
  }
}

TEST_F(FakeCuda, OrdersCopiesAndWorkByEvents) {
  const auto cuda = open_cuda(fake_driver(), 3, why);
  ASSERT_NE(cuda, nullptr);
  const Device::Event made = cuda->make_event();
  char from = 'x';
  char to = 0;
  int stream = 0;
  const auto text = [](const void* handle) {
    return ' ' + std::to_string(reinterpret_cast<std::uintptr_t>(handle));
  };
  cuda->copy(&to, &from, 1, made);
  EXPECT_EQ(to, 'x');
  ASSERT_EQ(state.calls.size(), 2U);
  const std::string copy_stream = state.calls[0].substr(std::strlen("cuMemcpyHtoDAsync"));
  EXPECT_EQ(state.calls[1], "cuEventRecord" + copy_stream + text(made));
  state.calls.clear();
  cuda->follow(&stream, made);
  cuda->wait(made);
  EXPECT_EQ(state.calls, (std::vector{"cuStreamWaitEvent" + text(&stream) + text(made),
                                      "cuEventSynchronize" + text(made)}));
  state.calls.clear();
  cuda->copy_after(&stream);
  ASSERT_EQ(state.calls.size(), 2U);
  const std::string recorded = "cuEventRecord" + text(&stream);
  EXPECT_EQ(state.calls[0].substr(0, recorded.size()), recorded);
  const std::string work_done = state.calls[0].substr(recorded.size());
  EXPECT_NE(work_done, text(made));
  EXPECT_EQ(state.calls[1], "cuStreamWaitEvent" + copy_stream + work_done);
  cuda->free_event(made);
}

TEST(CudaDriver, IsRefusedIfItLacksAnyOfTheFunctions) {
  std::vector<std::string> names;
  const auto function = reinterpret_cast<void*>(&call_result);
  Driver driver;
  EXPECT_EQ(driver.look_up([&](const char* name) {
    names.emplace_back(name);
    return function;
  }),
            nullptr);
  EXPECT_EQ(names.size(), sizeof(Driver) / sizeof(driver.init));
  for (const std::string& missing : names) {
    EXPECT_EQ(
        driver.look_up([&](const char* name) { return name == missing ? nullptr : function; }),
        missing);
  }
}

/// Copies memory of a real device to the host, once the device has finished its work.
class DeviceReader {
 public:
  DeviceReader() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto look_up = [&]<class Function>(Function*& function, const char* name) {
      function = reinterpret_cast<Function*>(dlsym(library, name));
    };
    look_up(retain_, "cuDevicePrimaryCtxRetain");
    look_up(release_, "cuDevicePrimaryCtxRelease_v2");
    look_up(make_current_, "cuCtxSetCurrent");
    look_up(synchronize_, "cuCtxSynchronize");
    look_up(fetch_, "cuMemcpyDtoH_v2");
    Handle context = nullptr;
    EXPECT_EQ(retain_(&context, 0), 0);
    EXPECT_EQ(make_current_(context), 0);
  }
  ~DeviceReader() {
    EXPECT_EQ(make_current_(nullptr), 0);
    EXPECT_EQ(release_(0), 0);
  }
  DeviceReader(const DeviceReader&) = delete;
  DeviceReader& operator=(const DeviceReader&) = delete;

  template <class T>
  std::vector<T> operator()(const T* from, std::size_t n) const {
    std::vector<T> here(n);
    EXPECT_EQ(synchronize_(), 0);
    EXPECT_EQ(fetch_(here.data(), reinterpret_cast<DevicePointer>(from), n * sizeof(T)), 0);
    return here;
  }

 private:
  Result (*retain_)(Handle*, Ordinal) = nullptr;
  Result (*release_)(Ordinal) = nullptr;
  Result (*make_current_)(Handle) = nullptr;
  Result (*synchronize_)() = nullptr;
  Result (*fetch_)(void*, DevicePointer, std::size_t) = nullptr;
};

TEST(CudaDevice, IsOpenedOrSaysWhyNot) {
  std::string why = "unset";
  const std::unique_ptr<Device> cuda = cuda_device(0, &why);
  EXPECT_EQ(cuda == nullptr, why != "unset") << why;
  EXPECT_EQ(cuda_device(1'000'000), nullptr);
}

TEST(CudaDevice, GetsTheBatchesThatASamplerDraws) {
  std::string why;
  const std::unique_ptr<Device> cuda = cuda_device(0, &why);
  if (cuda == nullptr) {
    GTEST_SKIP() << why;
  }
  NumberedBuffer line;
  fill(line);
  const DeviceReader fetch;
  Sampler sampler = line.replay.sampler({.seed = 4});
  Sampler same_seed = line.replay.sampler({.seed = 4});
  DeviceRing ring(same_seed, 16, *cuda);
  for (int i = 0; i < 60; ++i) {
    const SampleResult batch = ring.next(nullptr);
    ASSERT_TRUE(batch);
    const SampleResult expected = sampler.sample(16);
    const auto ids = expected->now(line.id);
    const auto weights = expected->weights();
    EXPECT_EQ(fetch(ring.at(batch->now(line.id)), 16), std::vector(ids.begin(), ids.end()));
    EXPECT_EQ(fetch(ring.at(batch->weights()), 16), std::vector(weights.begin(), weights.end()));
  }
}

}  // namespace
}  // namespace reprise::test
