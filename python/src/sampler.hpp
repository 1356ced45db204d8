#pragma once

#include <reprise/sampler.hpp>

#include "batch.hpp"
#include "fast_method.hpp"
#include "waiting.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace reprise::python {

/// reprise.Sampler: draws batches for one learner thread.
class SamplerObject {
 public:
  SamplerObject(std::shared_ptr<SharedBuffer> buffer, const SamplerOptions& options,
                std::shared_ptr<UserMemory> memory, bool checked);

  py::object sample(const Arguments& arguments);

  [[nodiscard]] const Sampler& sampler() const noexcept { return sampler_; }
  [[nodiscard]] const SharedBuffer& buffer() const noexcept { return *buffer_; }
  [[nodiscard]] bool& in_use() noexcept { return in_use_; }

 private:
  [[nodiscard]] std::shared_ptr<BatchMemory> make_memory(std::size_t n) const;
  [[nodiscard]] py::object make_object(const std::shared_ptr<BatchMemory>& memory,
                                       std::size_t n) const;
  void draw(Batch& batch, std::size_t n, SampleOptions options, std::chrono::nanoseconds timeout);
  void replace(std::shared_ptr<BatchMemory> memory, std::size_t n);

  std::shared_ptr<SharedBuffer> buffer_;
  Sampler sampler_;
  std::shared_ptr<UserMemory> memory_;
  const bool checked_;
  bool in_use_ = false;
  SignalHook hook_;
  std::uint64_t calls_ = 0;

  // The batch given out last, unless it is the caller's own.
  std::shared_ptr<BatchMemory> current_;
  py::object object_;  ///< A BatchObject.
  std::size_t n_ = 0;
  std::uint64_t drawn_by_ = 0;  ///< The number of the call that gave it out.
};

/// Read the arguments `normalise` and `draws` of a call; ValueError that names what is allowed.
[[nodiscard]] Normalise normalise_from(py::handle given);
[[nodiscard]] Draws draws_from(py::handle given);
/// Converts the keyword arguments of ReplayBuffer.sampler and prefetch.
[[nodiscard]] SamplerOptions sampler_options(std::uint64_t seed, std::size_t selector,
                                             std::optional<std::size_t> resume);

/// Throws Closed, TimedOut or NothingToDraw with the status in a sentence.
[[noreturn]] void raise_status(const SampleStatus& status, const char* call);

void bind_sampler(py::module_& module);

}  // namespace reprise::python
