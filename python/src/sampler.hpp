#pragma once

#include <reprise/sampler.hpp>

#include "batch.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace reprise::python {

/// Items that a call asks for. ValueError unless there is one.
[[nodiscard]] std::size_t items_of(const Arguments& arguments, std::size_t at);

/// beta, normalise and draws, which stand from `first` on.
[[nodiscard]] SampleOptions sample_options(const Arguments& arguments, std::size_t first);

/// reprise.Sampler: draws batches for one learner thread.
class SamplerObject {
 public:
  SamplerObject(std::shared_ptr<SharedBuffer> buffer, SamplerOptions options, nb::handle allocator);

  [[nodiscard]] Entered enter(const char* call) { return {in_use_, "Sampler", *buffer_, call}; }
  nb::object sample(const Arguments& arguments);
  nb::object empty_batch(const Arguments& arguments);
  void sample_into(const Arguments& arguments);

  [[nodiscard]] std::size_t fresh() const noexcept { return fresh_; }
  [[nodiscard]] std::uint64_t passes() const noexcept { return passes_; }
  [[nodiscard]] const Sampler& sampler() const noexcept { return sampler_; }
  [[nodiscard]] const SharedBuffer& buffer() const noexcept { return *buffer_; }
  [[nodiscard]] bool& in_use() noexcept { return in_use_; }

 private:
  void fill(Batch& batch, std::size_t offset, std::size_t n, const Arguments& arguments,
            std::size_t first);

  std::shared_ptr<SharedBuffer> buffer_;
  std::shared_ptr<BatchPool> pool_;
  Sampler sampler_;
  std::size_t fresh_ = 0;
  std::uint64_t passes_ = 0;
  bool in_use_ = false;
  SignalHook hook_;
  nb::object views_;  ///< The BatchObject that calls with views=True fill.
};

/// Closed, TimeoutError or NothingToDraw with the status in a sentence.
[[noreturn]] void raise_status(const SampleStatus& status, const char* call);

void bind_sampler(nb::module_& module);

}  // namespace reprise::python
