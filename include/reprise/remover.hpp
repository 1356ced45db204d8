#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace reprise {

/// The facts that a remover may ask about the chunks of its shard, numbered 0 to chunks() - 1.
/// Callable while a function of `ShardRemover` runs or while it is being made.
class ShardChunks {
 public:
  /// Chunks of the shard. O(1).
  [[nodiscard]] virtual std::uint32_t chunks() const noexcept = 0;
  /// Selectors of the buffer. O(1).
  [[nodiscard]] virtual std::size_t selectors() const noexcept = 0;
  /// Steps of a chunk that are in the buffer: at least 1 for a chunk that may be evicted. O(1).
  [[nodiscard]] virtual std::uint32_t steps(std::uint32_t chunk) const noexcept = 0;
  /// Sum of the weights of the chunk's steps in a selector, named by its place in
  /// `Options::selectors`; 0 if there is no such chunk or selector. O(log rows of the shard).
  [[nodiscard]] virtual double weight(std::uint32_t chunk, std::size_t selector) const noexcept = 0;

 protected:
  ShardChunks() = default;
  ShardChunks(const ShardChunks&) = default;
  ShardChunks& operator=(const ShardChunks&) = default;
  ShardChunks(ShardChunks&&) = default;
  ShardChunks& operator=(ShardChunks&&) = default;
  ~ShardChunks() = default;
};

/// The part of a remover that belongs to one shard: it chooses the chunk that goes next.
///
/// Thread safety: called under the shard's lock, one call at a time. So no call may throw,
/// allocate, wait, or call the buffer, its writers or its samplers; memory is taken on
/// construction. Calls come per chunk or per batch of draws, never per step; each should be O(1),
/// amortised over chunks and draws. The same calls should lead to the same chunks, or batches
/// cannot be reproduced.
class ShardRemover {
 public:
  ShardRemover() = default;
  virtual ~ShardRemover() = default;
  ShardRemover(const ShardRemover&) = delete;
  ShardRemover& operator=(const ShardRemover&) = delete;

  /// A chunk may be evicted from now on: its writer has filled it, and it has steps.
  virtual void enters(std::uint32_t chunk) noexcept = 0;
  /// The chunk has no steps left. The chunk enters again when it has been reused and filled. With
  /// `Options::max_times_sampled` or `Options::max_staleness` the chunk need not be the last
  /// `victim`.
  virtual void leaves(std::uint32_t chunk) noexcept = 0;

  /// The chunk whose steps are evicted next: a chunk that entered and has not left, of which there
  /// is at least one. All its steps are evicted before the next call, oldest first. If the returned
  /// chunk is none of these, the oldest chunk goes.
  [[nodiscard]] virtual std::uint32_t victim() noexcept = 0;

  /// Whether `sampled` is to be called; asked once, when the buffer is made.
  [[nodiscard]] virtual bool wants_samples() const noexcept { return false; }
  /// The chunks of the items that one batch drew from this shard, once per item; chunks that have
  /// not entered are left out.
  virtual void sampled(std::span<const std::uint32_t> chunks) noexcept {
    static_cast<void>(chunks);
  }
};

class Remover;
template <class Family>
class StrategyKind;

/// A strategy for `Options::remover`: any copyable type that makes the part for a shard.
/// `make_shard_remover` may throw `std::invalid_argument` for options that are not allowed, which
/// the buffer's constructor passes on. nullptr means first in, first out, as `Fifo`.
template <class T>
concept RemoverStrategy = !std::same_as<T, Remover> && std::copy_constructible<T> &&
                          requires(const T& strategy, const ShardChunks& chunks) {
  { strategy.make_shard_remover(chunks) } -> std::convertible_to<std::unique_ptr<ShardRemover>>;
};

/// Decides which steps leave a full buffer: any strategy, one of `reprise/removers` or your own.
///
/// Steps leave one by one and chunks one after the other, so a choice is made once per chunk. Each
/// shard keeps its share of the capacity and chooses among its own chunks: the victim is the worst
/// chunk of one shard, not of the buffer. Writers take their chunks from the shards in turn, so the
/// shards hold similar data; fewer chunks per shard make the choice coarser.
///
/// The header of each remover says how old the steps that it keeps may become. Ages there are in
/// capacities: the number of steps committed since, divided by `Options::capacity_steps`.
///
/// A chunk that its writer still fills is spared while the shard has filled ones, because nothing
/// is known of such a chunk yet. Without filled chunks, open chunks go first in, first out. (`Fifo`
/// treats filled and open chunks alike.) So a writer that pauses keeps up to a chunk of old steps
/// in the buffer.
///
/// With `Options::max_times_sampled` or `Options::max_staleness`, items that are exhausted or
/// outdated go first, from any chunk that has them in front. While some are left behind items that
/// may be drawn again, the remover's choice takes turns with the oldest chunk, so that every chunk
/// leaves at some time.
///
/// Thread safety: immutable. Copies share the strategy; a moved-from one is `Fifo`.
class Remover {
 public:
  /// Takes a copy of a strategy.
  template <RemoverStrategy Strategy>
  Remover(Strategy strategy)  // NOLINT(google-explicit-constructor): options convert.
      : strategy_(std::make_shared<const Model<Strategy>>(std::move(strategy))) {}

  /// The strategy, if it is of this type; else nullptr.
  template <class Strategy>
  [[nodiscard]] const Strategy* target() const noexcept {
    const auto* model = dynamic_cast<const Model<Strategy>*>(strategy_.get());
    return model == nullptr ? nullptr : &model->strategy;
  }

  /// Makes the part for one shard; null if it needs none.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const {
    return strategy_ == nullptr ? nullptr : strategy_->make_shard_remover(chunks);
  }

 private:
  struct Concept {
    Concept() = default;
    virtual ~Concept() = default;
    Concept(const Concept&) = delete;
    Concept& operator=(const Concept&) = delete;
    [[nodiscard]] virtual std::unique_ptr<ShardRemover> make_shard_remover(
        const ShardChunks& chunks) const = 0;
  };
  template <class Strategy>
  struct Model final : Concept {
    explicit Model(Strategy s) : strategy(std::move(s)) {}
    [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(
        const ShardChunks& chunks) const override {
      return strategy.make_shard_remover(chunks);
    }
    const Strategy strategy;
  };

  std::shared_ptr<const Concept> strategy_;
};

}  // namespace reprise
