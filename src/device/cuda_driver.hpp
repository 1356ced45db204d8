#pragma once

#include <reprise/device_ring.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace reprise::device {

using Result = int;                    ///< CUresult; 0 is success.
using Ordinal = int;                   ///< CUdevice
using Handle = void*;                  ///< CUcontext, CUstream, CUevent
using DevicePointer = std::uintptr_t;  ///< CUdeviceptr

/// The functions of CUDA's driver that the library calls. Tests replace them.
struct Driver {
  Result (*init)(unsigned) = nullptr;
  Result (*error_name)(Result, const char**) = nullptr;
  Result (*get_device)(Ordinal*, int) = nullptr;
  Result (*retain_context)(Handle*, Ordinal) = nullptr;
  Result (*release_context)(Ordinal) = nullptr;
  Result (*push_context)(Handle) = nullptr;
  Result (*pop_context)(Handle*) = nullptr;
  Result (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  Result (*free_host)(void*) = nullptr;
  Result (*allocate)(DevicePointer*, std::size_t) = nullptr;
  Result (*free)(DevicePointer) = nullptr;
  Result (*make_stream)(Handle*, unsigned) = nullptr;
  Result (*free_stream)(Handle) = nullptr;
  Result (*stream_wait)(Handle, Handle, unsigned) = nullptr;
  Result (*make_event)(Handle*, unsigned) = nullptr;
  Result (*free_event)(Handle) = nullptr;
  Result (*record)(Handle, Handle) = nullptr;
  Result (*synchronize)(Handle) = nullptr;
  Result (*copy)(DevicePointer, const void*, std::size_t, Handle) = nullptr;

  /// Sets all functions to what `find` returns for their names, null if one is missing. Returns the
  /// first missing name, or null.
  template <class Find>
  const char* look_up(Find&& find) {
    const char* missing = nullptr;
    const auto take = [&]<class Function>(Function*& function, const char* name) {
      function = reinterpret_cast<Function*>(find(name));
      if (function == nullptr && missing == nullptr) {
        missing = name;
      }
    };
    take(init, "cuInit");
    take(error_name, "cuGetErrorName");
    take(get_device, "cuDeviceGet");
    take(retain_context, "cuDevicePrimaryCtxRetain");
    take(release_context, "cuDevicePrimaryCtxRelease_v2");
    take(push_context, "cuCtxPushCurrent_v2");
    take(pop_context, "cuCtxPopCurrent_v2");
    take(allocate_host, "cuMemHostAlloc");
    take(free_host, "cuMemFreeHost");
    take(allocate, "cuMemAlloc_v2");
    take(free, "cuMemFree_v2");
    take(make_stream, "cuStreamCreate");
    take(free_stream, "cuStreamDestroy_v2");
    take(stream_wait, "cuStreamWaitEvent");
    take(make_event, "cuEventCreate");
    take(free_event, "cuEventDestroy_v2");
    take(record, "cuEventRecord");
    take(synchronize, "cuEventSynchronize");
    take(copy, "cuMemcpyHtoDAsync_v2");
    return missing;
  }
};

/// Opens the device with this ordinal; null if it fails, with the reason as a sentence in `why`.
[[nodiscard]] std::unique_ptr<Device> open_cuda(const Driver& driver, int ordinal,
                                                std::string& why);

}  // namespace reprise::device
