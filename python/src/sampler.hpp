#pragma once

#include <reprise/batch_source.hpp>
#include <reprise/mixed_sampler.hpp>
#include <reprise/sampler.hpp>

#include "buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

namespace reprise::python {

template <>
inline constexpr Words words_of<Normalise>{"_Normalise", {"by_batch", "by_buffer", "not"}};
template <>
inline constexpr Words words_of<Draws>{
    "_Draws", {"stratified", "independent", "without_replacement", "epoch"}};

/// The options of a draw, without timeout and gather, which some calls take in another form.
struct DrawOptions : SampleOptions {};
template <>
inline constexpr auto members_of<DrawOptions> =
    members<&SampleOptions::beta, &SampleOptions::normalise, &SampleOptions::draws,
            &SampleOptions::n_step, &SampleOptions::discount>;
template <>
inline constexpr auto members_of<SampleOptions> = std::tuple_cat(
    members_of<DrawOptions>, members<&SampleOptions::timeout, &SampleOptions::gather>);
template <>
inline constexpr auto members_of<SamplerOptions> =
    members<&SamplerOptions::seed, &SamplerOptions::unique_frames, &SamplerOptions::fresh>;

/// The number of items that a call asks for; ValueError unless it is at least 1.
struct Count {
  std::size_t items = 0;
};
template <>
struct Conversion<Count> : Conversion<std::size_t> {
  static Count from(nb::handle given, ArgumentName argument);
};

/// The seeds of a sampler's prefetchers are 2^32 apart: the parts of a mix have seeds that follow
/// each other, which would meet those of the next prefetcher's parts otherwise.
constexpr unsigned kSeedShift = 32;

/// reprise.Sampler: draws batches for one learner thread.
class SamplerObject {
 public:
  /// `selector` is the index of the selector that draws.
  SamplerObject(std::shared_ptr<AnyBuffer> origin, std::size_t selector,
                const SamplerOptions& options, const Allocator& allocator);

  [[nodiscard]] Entered enter(const char* call) { return {in_use_, "Sampler", *origin_, call}; }
  nb::object sample(CallName call, Count n, const SampleOptions& options, bool views);
  nb::object empty_batch(Count n) {
    nb::object batch = make_batch(pool_, n.items);
    self_of<BatchObject>(batch.ptr()).views = true;
    return batch;
  }
  void sample_into(CallName call, BatchObject& batch, std::size_t offset, Count n,
                   const SampleOptions& options);
  nb::object prefetch(CallName call, Count n, std::size_t depth, const DrawOptions& how,
                      bool gather, Allocator allocator, std::chrono::nanoseconds timeout);
  nb::object update_priorities(CallName call, const Keys& keys, const Priorities& priorities);

  [[nodiscard]] std::size_t fresh() const noexcept { return last_.fresh; }
  [[nodiscard]] std::uint64_t passes() const noexcept { return last_.passes; }
  [[nodiscard]] const AnySampler& sampler() const noexcept { return sampler_; }
  [[nodiscard]] AnySampler& sampler() noexcept { return sampler_; }
  [[nodiscard]] const AnyBuffer& origin() const noexcept { return *origin_; }
  [[nodiscard]] bool& in_use() noexcept { return in_use_; }

 private:
  void fill(CallName call, Batch& batch, std::size_t offset, std::size_t n, SampleOptions options);
  /// Closed if the buffer was restored since, because `sampler_` draws from the old one.
  void check_current(CallName call) const;

  std::shared_ptr<AnyBuffer> origin_;
  const unsigned restore_count_ = origin_->restore_count;  ///< The count when this was made.
  const std::size_t selector_;                             ///< The index of its selector.
  const SamplerOptions options_;
  std::shared_ptr<BatchPool> pool_;
  AnySampler sampler_;
  SampleStatus last_;  ///< The status of the last call that returned a batch.
  bool in_use_ = false;
  SignalHook hook_;
  nb::object views_;               ///< The BatchObject that calls with views=True fill.
  std::uint64_t prefetchers_ = 0;  ///< How many prefetchers were made.
};

/// The C++ sampler of a reprise.Mix, and its first buffer; both null if the object is no Mix.
struct MixSource {
  MixedSampler* mixed = nullptr;
  const AnyBuffer* first = nullptr;
};
[[nodiscard]] MixSource mix_source_of(nb::handle given);

/// Throws Closed, NothingToDraw or TimedOut, by the status, which the message puts into a sentence.
[[noreturn]] void raise_status(const SampleStatus& status, const char* call);

/// A source of batches of n items, the origins that it draws from, and the memory of its batches.
struct PrefetchSource {
  std::vector<std::shared_ptr<Origin>> origins;
  std::unique_ptr<BatchSource> source;
  std::shared_ptr<BatchPool> pool;
  std::size_t n;
};

/// Makes a reprise.Prefetcher, whose iterator waits up to the timeout for a batch.
[[nodiscard]] nb::object make_prefetcher(PrefetchSource from, const SampleOptions& sample,
                                         std::size_t depth, std::chrono::nanoseconds timeout);

}  // namespace reprise::python
