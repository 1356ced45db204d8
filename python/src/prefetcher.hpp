#pragma once

#include <reprise/prefetcher.hpp>

#include "batch.hpp"
#include "waiting.hpp"

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::python {

/// The objects that a prefetcher's thread uses, and the batches that arrays view.
struct PrefetchCore {
  PrefetchCore(std::shared_ptr<SharedBuffer> of, std::shared_ptr<UserMemory> from, std::size_t n,
               const SamplerOptions& sampler, const SampleOptions& sample, std::size_t depth)
      : buffer(std::move(of)),
        memory(std::move(from)),
        prefetcher(buffer->buffer, n, sampler, sample, depth) {}

  std::shared_ptr<SharedBuffer> buffer;
  std::shared_ptr<UserMemory> memory;
  Prefetcher prefetcher;
  /// The exception that ended `run`. The thread writes it before it ends; it is read after the
  /// thread was joined or `next` has told that `run` ended.
  std::exception_ptr failure;
};

/// reprise.Prefetcher: an iterator over batches that a thread of its own draws ahead.
class PrefetcherObject {
 public:
  PrefetcherObject(std::shared_ptr<SharedBuffer> buffer, std::shared_ptr<UserMemory> memory,
                   std::size_t n, const SamplerOptions& sampler, const SampleOptions& sample,
                   std::size_t depth, std::chrono::nanoseconds timeout);
  ~PrefetcherObject();
  PrefetcherObject(const PrefetcherObject&) = delete;
  PrefetcherObject& operator=(const PrefetcherObject&) = delete;

  py::object next();
  void close();

 private:
  /// The objects that a forked child must not destroy.
  struct Abandoned {
    std::shared_ptr<PrefetchCore> core;
    std::thread thread;
    std::stop_source stop;
  };

  void end_thread();
  py::object object_of(const Batch& batch);
  [[nodiscard]] bool forked() const noexcept;

  std::shared_ptr<PrefetchCore> core_;
  const std::size_t n_;
  const std::chrono::nanoseconds timeout_;
  const long maker_;  ///< The process that has the thread.
  SignalHook hook_;
  bool in_use_ = false;
  bool closed_ = false;
  std::vector<std::pair<const Batch*, py::object>> objects_;  ///< Batches that were given out.
  std::stop_source stop_;
  std::thread thread_;
  const Abandoned* abandoned_ = nullptr;
};

void bind_prefetcher(py::module_& module);

}  // namespace reprise::python
