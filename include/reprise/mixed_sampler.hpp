#pragma once

#include <reprise/replay_buffer.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace reprise {

/// One source of a `MixedSampler`.
struct MixedPart {
  SelectorHandle selector;  ///< The selector to draw by; a buffer stands for its first one.
  std::size_t items;        ///< Items of this part in each batch, at least 1.
};

/// Draws batches from several buffers of one schema and window: one contiguous batch, the items of
/// the first part in front, with one set of importance weights and one update.
///
/// This takes half of each batch from the agent's own steps, half from offline data that are never
/// evicted (RLPD: Ball et al., "Efficient online reinforcement learning with offline data", 2023):
///
///     MixedSampler both({{online, 128}, {offline, 128}}, {.seed = 1});
///     while (const auto batch = both.sample()) { ... }
///
/// This draws from each buffer in proportion to its total weight (DQfD: Hester et al., "Deep
/// Q-learning from demonstrations", 2018): P(i) is the weight of item i over the sum of all
/// buffers' weights. The bonus of demonstrations is the `epsilon` of their selector, which is added
/// to each priority:
///
///     Options agent{.capacity_steps = 1'000'000, .key_tag = 1};
///     Options teacher{.capacity_steps = 50'000, .key_tag = 2};
///     agent.selectors = {Proportional{.alpha = 0.4F, .epsilon = 0.001F}};
///     teacher.selectors = {Proportional{.alpha = 0.4F, .epsilon = 1.0F}};
///     ...
///     MixedSampler both({online, demonstrations}, 256, {.seed = 1});
///     const auto batch = both.sample({.beta = 0.6F});
///     const std::size_t own = both.counts()[0];  // The others are demonstrations.
///     both.update_priorities(batch->keys(), errors);
///
/// Thread safety: one thread at a time; writers and other samplers go on beside it.
/// Lifetime: may outlive its buffers, which then read as closed. After `ReplayBuffer::restore` it
/// reads as closed, too: make a new one.
class MixedSampler final : public BatchSource {
 public:
  /// Draws an exact number from each part. Part i draws as a sampler with `seed` + i does; the
  /// batch is in `memory`. A buffer may be in several parts. With `fresh` each part has that share
  /// of items from its own queue, which stand first in the part. Errors: `std::invalid_argument`
  /// for no part, a part without items, a schema or window other than the first part's, and
  /// `resume`, which names a sampler of one buffer.
  explicit MixedSampler(const std::vector<MixedPart>& parts, const SamplerOptions& options = {});

  /// Draws n items in all, by the common total (the sum of all buffers' weights). `parts` are
  /// `{online, demonstrations}`, or with another selector than the first `{online.selector(1),
  /// demonstrations}`. Errors: as above, and for a buffer given twice, for `max_times_sampled`, for
  /// `fresh`, and for a selector whose weights mean nothing beside those of another buffer: those
  /// that draw in an order, `RankBased`, `Recency` and `Mixture`.
  MixedSampler(const std::vector<SelectorHandle>& parts, std::size_t n,
               const SamplerOptions& options = {});

  ~MixedSampler() override;
  MixedSampler(const MixedSampler&) = delete;
  MixedSampler& operator=(const MixedSampler&) = delete;

  /// Draws a batch, whose contents change with the next call. Each buffer counts its items as drawn
  /// by itself: its rate limiter admits them, and `timeout` bounds all waits together. If one part
  /// ends the call (closed, timed out, stopped, nothing to draw), `status` is that of this part,
  /// `waits_for` names it, and the items of earlier parts are kept: the next call goes on there,
  /// with its own options for the remaining parts, or begins anew if its `n_step`, `discount` or
  /// `gather` is another one. An exception keeps these items, too. If there is a batch, `items`,
  /// `needed`, `fresh` and `waited` of the status are sums over the parts.
  ///
  /// With exact parts, `probabilities` and weights (N * P(i))^-beta refer to the item's own buffer,
  /// and `ByBatch` divides by the largest weight of the whole batch. In passes (`Draws::Epoch`),
  /// which each part makes by itself, `passes` of the status is the least of any part.
  ///
  /// By the common total, P(i) and N refer to all buffers together. The totals are read once per
  /// batch, and P(i) is the probability by those shares, even if the totals change meanwhile. With
  /// `Stratified` a part has its share of n rounded up or down. A buffer without weight gives no
  /// items, and the call does not wait for it; while no buffer has weight, the call waits for the
  /// first buffer of the list. The call waits for a buffer with weight while its rate limiter holds
  /// samplers: `MinSize` with its default of 1 does not. If a part loses all its weight after the
  /// totals were read, the batch is begun anew; if the part loses all its items, the call waits for
  /// new ones, as `Sampler` does.
  ///
  /// Errors: as `Sampler::sample`, found before anything is drawn; `std::invalid_argument` for
  /// `ByBuffer` of several exact parts, which would scale each part by another factor, and for
  /// draws by the common total that are neither stratified nor independent. Cost: a sampler's draw
  /// for each part, and by the common total a read of each shard's total; allocates nothing once it
  /// has drawn its largest parts.
  SampleResult sample(const SampleOptions& options = {}) &;
  /// The result would outlive its sampler: give the sampler a name.
  SampleResult sample(const SampleOptions& = {}) && = delete;

  /// Makes a batch with room for `size()` items; n has to be that number.
  [[nodiscard]] Batch make_batch(std::size_t n,
                                 std::pmr::memory_resource* memory = nullptr) const override;

  /// Draws as `sample`, into the first `size()` slots of a batch from the `make_batch` of this
  /// sampler or of one of its buffers, with the same `unique_frames` or without. A call that gives
  /// no batch leaves the items drawn so far in `batch`, so the next call goes on only with the same
  /// batch, unchanged; with another batch it begins anew. Errors: also as `Sampler::sample_into`.
  SampleStatus sample_into(Batch& batch, const SampleOptions& options = {}) override;
  void check(const Batch& batch, const SampleOptions& options) const override;
  [[nodiscard]] SampleStatus outlook(std::size_t n) const override;

  /// Items in a batch.
  [[nodiscard]] std::size_t size() const noexcept;
  /// The number of items of each part in the batch, or in an unfinished batch; parts follow each
  /// other.
  [[nodiscard]] std::span<const std::size_t> counts() const noexcept;
  /// The part for which the last call that gave no batch waited.
  [[nodiscard]] std::size_t waits_for() const noexcept;
  /// The status of each part's last draw, with its own `fresh` and `passes`; `sample` reports the
  /// sum of the former and the least of the latter.
  [[nodiscard]] std::span<const SampleStatus> statuses() const noexcept;

  /// Updates the item of each key in every selector that the parts have of the key's buffer, as
  /// `SelectorHandle::update`. The tag of a key names its buffer, the keys may be in any order, and
  /// the result counts each key once. If two buffers of exact parts share a tag, as two loads of
  /// one checkpoint do, the key's place in the batch decides instead: the keys have to be those of
  /// one whole batch, in its order. Errors, all found before any buffer is changed: as
  /// `SelectorHandle::update`; a key of none of the buffers; and for buffers that share a tag,
  /// other keys than a whole batch, or draws by the common total. Set `Options::key_tag`, because
  /// two random ones are equal once in 4095.
  UpdateResult update_priorities(std::span<const ItemKey> keys,
                                 std::span<const float> priorities) override;

 private:
  friend struct detail::Access;
  class State;
  [[nodiscard]] sampler::SamplerCore& sampler(std::size_t part) const;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
