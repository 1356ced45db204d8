#pragma once

#include <cstddef>
#include <variant>

// A rate limiter decides when samplers wait in `sample`, and writers in `commit`. Every wait ends
// at its timeout, at a stop request, and with `ReplayBuffer::close`; `SampleStatus::message` and
// `Stats` say what is waited for. Limiting nothing costs an append nothing; where writers are
// limited, they ask once per block of inserts.

namespace reprise {

/// Nobody waits: writers never, and samplers not even for a first item. Of an empty buffer `sample`
/// answers `NothingToDraw` at once.
struct Unlimited {
  friend bool operator==(const Unlimited&, const Unlimited&) = default;
};

/// Samplers wait until at least this many items can be sampled; writers never wait.
///
/// With `Sequences` steps count: so many are in the buffer, and an item begins with one of them.
/// But where draws are limited (`Options::max_times_sampled`), of which steps know nothing,
/// sequences count that may be drawn once more.
struct MinSize {
  std::size_t items = 1;  ///< 1 to capacity_steps.

  friend bool operator==(const MinSize&, const MinSize&) = default;
};

/// Holds sampled items per inserted step near a ratio: samplers wait when they are ahead, and
/// writers wait in `commit` when they are.
///
/// With S items sampled and I steps inserted, the balance is S - samples_per_insert *
/// (I - min_size); samplers wait while it would rise above error_buffer, writers while it would
/// fall below -error_buffer. Nobody waits for the ratio before min_size steps were inserted, nor
/// a writer while fewer than min_size items can be sampled, or fewer than the different items that
/// a waiting draw takes (one in order, without replacement, or of items that may be drawn only so
/// often): what it brings beyond the error_buffer then counts, and holds it the longer afterwards.
/// Writers book inserts in small blocks: the overshoot is at most one block per writer.
///
/// With `Sequences` min_size counts what `MinSize` does.
///
/// One thread that both commits and samples has nobody to wait for: give its writer and its calls
/// of `sample` timeouts.
struct SampleToInsertRatio {
  double samples_per_insert = 1.0;  ///< Above 0, finite.
  std::size_t min_size = 1;         ///< Items, 1 to capacity_steps.
  /// In sampled items: at least max(1, samples_per_insert), and enough that
  /// batch + samples_per_insert * block <= 2 * error_buffer, or both sides could wait for ever.
  double error_buffer = 0.0;

  friend bool operator==(const SampleToInsertRatio&, const SampleToInsertRatio&) = default;
};

/// A bounded queue between writers and samplers: samplers wait until as many items wait to be
/// sampled as their batch has, writers wait in `commit` while `size` or more do.
///
/// What waits is what can be sampled now. With items that are sampled once, in order, this is a
/// first-in, first-out queue; by itself it lets items be sampled any number of times, fills to
/// `size`, and then holds writers for good. While a batch is being drawn, its items do not count
/// for other samplers. With `Sequences` items are sequences, not steps.
///
/// Overshoot: writers book inserts in blocks of clamp(size / (2 * max_writers), 1, 64), and a step
/// becomes an item only when its window is complete. So at most size items wait, and a block and
/// the open steps of each writer on top. What goes beyond capacity_steps is evicted, sampled or
/// not: with `Fifo` a capacity of that sum loses nothing. In another order, such as that of `Lifo`,
/// it takes that sum times chunk_steps for each shard, because steps leave a chunk from its front:
/// those behind one that waits to be sampled stay with it.
///
/// No deadlock: a writer is held only while `size` items wait, and a batch of more than `size` is
/// refused (`std::invalid_argument`). One thread that both commits and samples needs timeouts, as
/// with `SampleToInsertRatio`.
struct Queue {
  std::size_t size = 1;  ///< Items, 1 to capacity_steps.

  friend bool operator==(const Queue&, const Queue&) = default;
};

using RateLimiter = std::variant<MinSize, SampleToInsertRatio, Queue, Unlimited>;

}  // namespace reprise
