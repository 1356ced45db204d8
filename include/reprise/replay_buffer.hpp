#pragma once

#include <reprise/batch.hpp>
#include <reprise/options.hpp>
#include <reprise/sampler.hpp>
#include <reprise/schema.hpp>
#include <reprise/stats.hpp>
#include <reprise/writer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>

namespace reprise {

/// What `ReplayBuffer::update_priorities` did with its keys.
struct UpdateResult {
  std::size_t applied = 0;  ///< Keys whose item has the new priority, repeated keys included.
  std::size_t stale = 0;    ///< Keys whose item was evicted meanwhile; nothing was written.
};

/// An in-process experience replay buffer: many writers append, several samplers draw and update.
///
/// Thread safety: every method from any thread. It starts no thread of its own; samplers ingest
/// what writers appended, and a writer that finds no room makes some.
/// Lifetime: writers and samplers may outlive it; destroying it closes it.
/// Fork: it works in the process that made it alone. In a forked child every call of it, its
/// writers, samplers and prefetchers that appends, locks or may wait throws `std::logic_error`
/// with both process ids, instead of hanging on a lock that no thread there will release; `close`
/// does nothing, `closed` says no more, and destroying any of them is safe. Make the buffer after
/// the fork. (Before Linux 4.14 and elsewhere only calls that may lock or wait throw.)
class ReplayBuffer {
 public:
  /// Reserves address space for everything; memory is taken as steps arrive.
  /// Errors: `std::invalid_argument` naming the option, its value and what is allowed;
  /// `std::bad_alloc` if the address space cannot be had.
  ReplayBuffer(const Schema& schema, const Options& options);
  ~ReplayBuffer();
  ReplayBuffer(ReplayBuffer&&) noexcept;
  ReplayBuffer& operator=(ReplayBuffer&&) noexcept;
  ReplayBuffer(const ReplayBuffer&) = delete;
  ReplayBuffer& operator=(const ReplayBuffer&) = delete;

  /// A writer for one environment. Throws `std::runtime_error` beyond `Options::max_writers`,
  /// `std::invalid_argument` for a negative timeout.
  [[nodiscard]] Writer writer(const WriterOptions& options = {});

  /// A sampler for one learner thread. Throws `std::invalid_argument` for an unknown selector.
  [[nodiscard]] Sampler sampler(const SamplerOptions& options = {});

  /// A batch of the user's own for `Sampler::sample_into`, with room for n items.
  [[nodiscard]] Batch make_batch(std::size_t n, std::pmr::memory_resource* memory = nullptr) const;

  /// Sets raw priorities, such as absolute TD errors, of the items named. The last of repeated
  /// keys wins; stale keys are counted and skipped.
  /// Errors, all found before anything is changed: `std::invalid_argument` for counts that differ,
  /// a priority that is NaN, infinite, negative or too large to be weighed, a key of another
  /// buffer, or an unknown selector.
  /// Cost, per 2048 keys: one lock per shard touched; each touched tree node is written about once.
  UpdateResult update_priorities(std::span<const ItemKey> keys, std::span<const float> priorities,
                                 std::size_t selector = 0);

  /// The key of the item that begins with a step, named by `Batch::episode_ids` and `positions` or
  /// `Writer::episode_id`; none if no item does, if it is gone, or not decided yet. Everything
  /// committed before the call is found.
  /// Errors: `std::logic_error` without `Options::episode_index`. Cost: a lock per shard.
  [[nodiscard]] std::optional<ItemKey> find(std::uint64_t episode, std::uint64_t position);

  /// Sets the priorities of consecutive steps of an episode, from this position on. Steps with
  /// which no item begins, or whose item is gone or not decided yet, count as stale.
  /// Errors: as `update_priorities`, and `std::logic_error` without `Options::episode_index`.
  UpdateResult update_episode_priorities(std::uint64_t episode, std::uint64_t position,
                                         std::span<const float> priorities,
                                         std::size_t selector = 0);

  /// Items that can be sampled now, everything committed before the call included. With
  /// `Sequences`: steps in the buffer.
  [[nodiscard]] std::size_t size() const;

  /// Ends every wait, now and later: samplers and writers then answer Closed.
  void close() noexcept;
  [[nodiscard]] bool closed() const noexcept;

  /// Counters at about this moment, without ingesting anything; takes each shard's lock briefly.
  [[nodiscard]] Stats stats() const;

  [[nodiscard]] const Schema& schema() const noexcept;
  /// The options with every default filled in.
  [[nodiscard]] const Options& options() const noexcept;

 private:
  friend class Prefetcher;
  std::shared_ptr<detail::BufferCore> core_;
};

}  // namespace reprise
