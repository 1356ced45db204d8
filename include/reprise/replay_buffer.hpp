#pragma once

#include <reprise/batch.hpp>
#include <reprise/checkpoint.hpp>
#include <reprise/hindsight.hpp>
#include <reprise/item.hpp>
#include <reprise/options.hpp>
#include <reprise/sampler.hpp>
#include <reprise/schema.hpp>
#include <reprise/writer.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace reprise {

namespace buffer {
class BufferCore;
}
namespace detail {
struct Access;
}
class ReplayBuffer;

/// One selector of a buffer: the weights by which items are drawn. Made by
/// `ReplayBuffer::selector`; a copy is the same selector.
///
/// Thread safety: every method from any thread.
/// Lifetime: may outlive its buffer, whose memory it keeps, and which then reads as closed. After
/// `ReplayBuffer::restore` it refers to the former items only: make a new one.
class SelectorHandle {
 public:
  /// The first selector of a buffer.
  SelectorHandle(
      const ReplayBuffer& buffer);  // NOLINT(google-explicit-constructor): parts convert.

  /// Sets raw priorities, such as absolute TD errors, of the named items. The last of repeated keys
  /// counts; stale keys are counted and skipped. Here and in every other call, a priority above 0
  /// and below 2^-126 counts as 2^-126: such floats are denormal, and a thread may take them for 0.
  /// Errors, all found before anything is changed: `std::invalid_argument` for counts that differ,
  /// a priority that is NaN, infinite, negative or too large to be weighed, or a key of another
  /// buffer.
  /// Cost, per 2048 keys: one lock per shard touched; each touched tree node is written about once.
  UpdateResult update(std::span<const ItemKey> keys, std::span<const float> priorities);

  /// The present raw priorities of the items with these keys, in the order of the keys. Each is the
  /// smallest priority that weighs as much as the item, so setting it again changes no weight. A
  /// returned priority is within 2^-22 / alpha of what was set, relative to priority + epsilon,
  /// unless it weighs 2^-126, the least weight above 0; `decay` and `set_alpha` change it. An item
  /// that is gone or exhausted has NaN. If priorities change no weight (`Uniform`, `Recency`,
  /// `Fifo`, `Lifo`, an alpha of 0) the numbers have no meaning, and `LossAdjusted` gives 0 for all
  /// up to 1. Returns how many items are still there. Errors: `std::invalid_argument` for counts
  /// that differ, or a key of another buffer. Cost, per 2048 keys: one lock per shard touched, and
  /// 31 times what weighing the keys costs.
  // NOLINTNEXTLINE(modernize-use-nodiscard): the priorities tell it too.
  std::size_t priorities(std::span<const ItemKey> keys, std::span<float> priorities) const;

  /// Sum and maximum of the weights, and the number of items, everything committed before the call
  /// included. Cost: as `ReplayBuffer::size`, and all shards' locks for a moment.
  [[nodiscard]] SelectorTotals totals() const;

  /// Sets the exponent of a `Proportional`, `LossAdjusted` or `Mixture` selector, or of one of your
  /// own whose rule has an alpha. Every weight w becomes w^(alpha / present alpha), which is the
  /// weight of its priority with the new exponent, and later priorities are weighed with it. A
  /// weight of 0 stays 0. One that a float cannot hold becomes the largest float, or 2^-126; a
  /// priority that was too small for the old exponent counts as the one that had weighed 2^-126. An
  /// alpha of 0 makes all others 1, for good. A weight keeps a relative error of about 2^-24 *
  /// alpha / present alpha. `ReplayBuffer::options` still reports the original exponent. All
  /// shards' locks are held, so no shard is ever seen half changed, and draws that hold all locks
  /// never see the buffer half changed. Another draw in flight may meet one shard before the change
  /// and the next one after it, and reports the probabilities with which it really drew. An update
  /// in flight writes each of its keys before or after the change. Errors: `std::invalid_argument`
  /// for an alpha outside 0 to 8 or with which epsilon or the initial constant weighs infinity, a
  /// selector without an exponent to set, one of your own that does not take it, or a present alpha
  /// of 0, with which every weight is 1 and nothing can be inverted. A call that throws has changed
  /// nothing. Cost: O(items): a few milliseconds per million.
  void set_alpha(float alpha);

  /// The present exponent: the one that `set_alpha` set last, before or after a checkpoint, or the
  /// one of the options.
  /// Errors: `std::invalid_argument` for a selector without one.
  [[nodiscard]] float alpha() const;

  /// Multiplies the weight of every item committed before the call by a factor above 0 and at most
  /// 1. It scales weights, not priorities: a factor of x^alpha scales priorities by x. Later
  /// priorities count in full. A new item without a priority gets the maximum in the buffer as it
  /// has decayed; the highest priority ever seen does not decay. Each product is rounded to a float
  /// by itself: with a factor within a few 2^-24 of 1, some weights decay by up to twice as much as
  /// asked and others by less, so decay less often by a smaller factor. A weight above 0 is never
  /// below 2^-126 afterwards, and may still be drawn. All shards' locks are held, as in
  /// `set_alpha`.
  /// Errors: `std::invalid_argument` for a factor outside (0, 1], or a selector that cannot decay:
  /// `Proportional`, `LossAdjusted` and `Mixture` can, and one of your own whose shard selectors do
  /// or are the default ones. Cost: O(items), about a millisecond per million, and the cost of
  /// `ReplayBuffer::size`.
  void decay(float factor);

  /// Gives every item committed before the call this raw priority, as `update` of all keys would,
  /// for example after a network was reset. Updates are not counted. All shards' locks are held, as
  /// in `set_alpha`. The highest priority ever seen stays, so with `InitialPriority::HighestSeen`
  /// new items may weigh more than all others. Errors: those of `update`. Cost: O(items), and the
  /// cost of `ReplayBuffer::size`.
  void reset(float priority = 1.0F);

  /// A sampler for one learner thread, which draws by this selector. Errors:
  /// `std::invalid_argument` naming the option.
  [[nodiscard]] Sampler sampler(const SamplerOptions& options = {}) const;

 private:
  friend struct detail::Access;
  SelectorHandle(std::shared_ptr<buffer::BufferCore> core, std::size_t place) noexcept;

  std::shared_ptr<buffer::BufferCore> core_;
  std::size_t place_;
};

/// The items of a buffer by episode and position, which are those of `Batch::episode_ids` and
/// `positions` or of `Writer::episode_id`. Made by `ReplayBuffer::episodes`, if the buffer has
/// `Options::episode_index`. Each call finds everything that was committed before it.
///
/// Thread safety: every method from any thread. Lifetime: as `SelectorHandle`.
class Episodes {
 public:
  /// The key of the item that begins with a step; nothing if no item begins there, or the item is
  /// gone or its window is not complete yet. Cost: a lock per shard.
  [[nodiscard]] std::optional<ItemKey> find(std::uint64_t episode, std::uint64_t position);

  /// Sets the priorities of consecutive steps of an episode, from this position on, for the
  /// selector with this place. Steps without an item, and steps whose item is gone or not complete
  /// yet, count as stale. Errors: as `SelectorHandle::update`, and `std::invalid_argument` for an
  /// unknown selector.
  UpdateResult update_priorities(std::uint64_t episode, std::uint64_t position,
                                 std::span<const float> priorities, std::size_t selector = 0);

  /// `ReplayBuffer::gather` of the items that begin with consecutive steps of an episode, from this
  /// position on, into places [offset, offset + steps). The place of an item that `find` would not
  /// find is filled as for a stale key, and gets a stale key. Errors: as `ReplayBuffer::gather`.
  /// Cost, per 2048 steps: a lock per shard, and a search in each for each step.
  std::size_t gather(std::uint64_t episode, std::uint64_t position, std::size_t steps, Batch& batch,
                     std::size_t offset = 0);
  /// Gathers into a new batch.
  [[nodiscard]] Batch gather(std::uint64_t episode, std::uint64_t position, std::size_t steps);

  /// Adds up weights over the episode of each of these items, for priorities that depend on what
  /// comes later in the episode, such as those of ReaPER (docs/guide/items.md): of the items
  /// after it, and of all items of the episode. Weights are those of the selector with this place;
  /// with `Proportional{.alpha = 1, .epsilon = 0}` they are the raw priorities. Items that are gone
  /// or exhausted add nothing, nor do items of an episode under way whose windows are not complete
  /// yet. Both sums are NaN for an item that is gone. Returns how many items are not gone.
  ///
  /// Each call computes its sums from the present weights, so they do not drift, and after[i] <=
  /// totals[i]. Beside other threads each shard's part is of one moment, but not the whole: an item
  /// that is changed meanwhile counts with the weight before or after. An episode may lie in any
  /// number of chunks. Where a remover other than `Fifo` has evicted `Options::chunk_steps` steps
  /// from the middle of an episode, steps beyond that hole are not added.
  /// Errors: `std::invalid_argument` for counts that differ, a key of another buffer, or a selector
  /// that does not draw by weight alone (`Uniform`, `Proportional`, `LossAdjusted` do).
  /// Cost, per 2048 keys: each shard's lock, once for each `Options::chunk_steps` steps of the
  /// longest episode and twice more; under a lock, for each key a search in the index, and O(log
  /// chunk_steps) where the shard has steps of the episode. Allocates nothing.
  // NOLINTNEXTLINE(modernize-use-nodiscard): the sums tell it too.
  std::size_t sums(std::span<const ItemKey> keys, std::span<double> after, std::span<double> totals,
                   std::size_t selector = 0) const;

  /// Removes all items of an episode whose windows were complete before the call, as
  /// `ReplayBuffer::remove`; later items are not removed. Returns how many were removed. Cost: the
  /// cost of `ReplayBuffer::size`, and for each shard a pass over its index, a millisecond per
  /// million rows.
  std::size_t remove(std::uint64_t episode);

 private:
  friend struct detail::Access;
  explicit Episodes(std::shared_ptr<buffer::BufferCore> core) noexcept;

  std::shared_ptr<buffer::BufferCore> core_;
};

struct LoadResult;

/// An in-process experience replay buffer: many writers append, several samplers draw and update.
///
/// Thread safety: every method from any thread. The buffer starts no thread of its own; samplers
/// ingest what writers appended, and a writer that finds no room makes some.
/// Lifetime: writers and samplers may outlive it; destroying it closes it.
/// Fork: the buffer works only in the process that made it. In a forked child every call of it, its
/// writers, samplers and prefetchers that appends, locks or may wait throws `std::logic_error` with
/// both process ids, instead of hanging on a lock that no thread there will release. `close` does
/// nothing there, `closed` has no meaning, and destroying any of them is safe. Make the buffer
/// after the fork. A child that is made without the handlers of `pthread_atfork` does not notice.
class ReplayBuffer {
 public:
  /// Reserves address space for everything; memory is taken as steps arrive.
  /// Errors: `std::invalid_argument` naming the option, its value and what is allowed;
  /// `std::bad_alloc` if there is not enough address space; `std::system_error`, which names the
  /// path, if the file or the disk space of `Options::storage` cannot be had.
  ReplayBuffer(const Schema& schema, const Options& options);
  ~ReplayBuffer();
  ReplayBuffer(ReplayBuffer&&) noexcept;
  ReplayBuffer& operator=(ReplayBuffer&&) noexcept;
  ReplayBuffer(const ReplayBuffer&) = delete;
  ReplayBuffer& operator=(const ReplayBuffer&) = delete;

  /// A writer for one environment. Throws `std::runtime_error` beyond `Options::max_writers`,
  /// `std::invalid_argument` for a negative timeout.
  [[nodiscard]] Writer writer(const WriterOptions& options = {});

  /// A sampler for one learner thread, which draws by the first selector: `selector().sampler()`.
  [[nodiscard]] Sampler sampler(const SamplerOptions& options = {});

  /// A batch of your own for `Sampler::sample_into`, with room for n items. `unique_frames`: see
  /// `SamplerOptions`.
  [[nodiscard]] Batch make_batch(std::size_t n, std::pmr::memory_resource* memory = nullptr,
                                 bool unique_frames = false) const;

  /// One of `Options::selectors`, by its index there: to draw by it, and for its priorities.
  /// Errors: `std::invalid_argument` for an unknown one. Cost: none.
  [[nodiscard]] SelectorHandle selector(std::size_t place = 0) const;

  /// Sets raw priorities of the first selector, such as absolute TD errors; see
  /// `SelectorHandle::update`.
  UpdateResult update_priorities(std::span<const ItemKey> keys, std::span<const float> priorities);

  /// Items by episode and position.
  /// Errors: `std::logic_error` without `Options::episode_index`. Cost: none.
  [[nodiscard]] Episodes episodes() const;

  /// Copies the items with these keys into places [offset, offset + keys.size()) of a batch made by
  /// `make_batch`, in the order of the keys, as `Sampler::sample_into` does for drawn ones. The
  /// batch's size becomes at least offset + keys.size(). Returns how many items are still there,
  /// those that are exhausted included, and here as in `update` those beyond the capacity that
  /// nobody has evicted yet, because no call has looked at the steps that push them out.
  ///
  /// A place whose key is stale has a length of 0 and zeros in every field; `keys` has the key all
  /// the same. `weights` is 1 for an item and 0 for a stale key, `probabilities` is 0, as nothing
  /// was drawn: neither the rate limiter, nor `max_times_sampled`, nor a remover counts a gather.
  /// No lock is held while rows are copied. `keys` may be the batch's own `keys()` from `offset`
  /// on. Errors, all found before anything is changed: `std::invalid_argument` for a key of another
  /// buffer, a batch of another schema or window, or places outside the batch.
  /// Cost, per 2048 keys: one lock per shard touched, and the rows copied. Allocates nothing.
  std::size_t gather(std::span<const ItemKey> keys, Batch& batch, std::size_t offset = 0);
  /// Gathers into a new batch, which is empty if there are no keys.
  [[nodiscard]] Batch gather(std::span<const ItemKey> keys);

  /// Replaces values of a mutable column in the items with these keys; see
  /// `Schema::mutable_column`.
  ///
  /// values: one for each key, row-major, for the step with which its item begins; or, for
  /// sequences, one for each step of each window, [keys, T, ...], of which those beyond an item's
  /// length are not read. The update changes the steps, so other windows that contain them show it
  /// too. (Where an episode goes on in another chunk, up to T steps are stored in both chunks, and
  /// each window shows those of its own chunk. The later chunk begins with the values of that
  /// moment; later updates change one of the two.) Values are written in the order of the keys, so
  /// the last one of a step counts. Items that are gone are counted as stale and skipped; `Stats`
  /// counts neither.
  ///
  /// skip: the number of first steps of each window that keep their values; `values` is not read
  /// for them. Otherwise the steps of a burn-in, whose values were only drawn, would undo what an
  /// update of the item before them wrote since, or earlier in this call.
  ///
  /// Thread safety: beside writers, samplers and other updates. Each value is read whole, as one
  /// update left it; a batch that is drawn meanwhile may have some steps before the update and
  /// others after it. While a call writes a step, other calls that write the step wait, and so does
  /// whoever reads it: samplers, saves, and a commit that moves to its next chunk. Errors, all
  /// found before anything is changed: `std::invalid_argument` for a field that is no mutable
  /// column of this schema, a size of `values` other than above, a `skip` that is not
  /// below the number of values of a key, or a key of another buffer. Cost, per 2048 keys: one lock
  /// per shard touched, and the values copied with no lock held. Allocates nothing.
  UpdateResult update(std::span<const ItemKey> keys, AnyField field,
                      std::span<const std::byte> values, std::size_t skip = 0);
  /// Replaces values by a typed handle.
  template <Element T, bool Shaped>
  UpdateResult update(std::span<const ItemKey> keys, Field<T, Role::MutableColumn, Shaped> field,
                      std::type_identity_t<std::span<const T>> values, std::size_t skip = 0) {
    return update(keys, AnyField(field), std::as_bytes(values), skip);
  }

  /// Makes a `Hindsight`, which gives items goals that their episodes achieved; this observation
  /// field says what was achieved. With frame stacks the newest frame counts.
  /// Errors: `std::invalid_argument` for a field that is no observation of the schema, for a share
  /// outside [0, 1], and for a window other than `Transitions` of n_step 1: the return of several
  /// steps would have to be computed again, from rewards that a batch does not have.
  [[nodiscard]] Hindsight hindsight(AnyField achieved, const HindsightOptions& options = {});
  /// Makes a `Hindsight` by a typed handle.
  template <Element T, bool Shaped>
  [[nodiscard]] Hindsight hindsight(Field<T, Role::Observation, Shaped> achieved,
                                    const HindsightOptions& options = {}) {
    return hindsight(AnyField(achieved), options);
  }

  /// Sets the version of the policy that the learner has, from which `Options::max_staleness` is
  /// counted. A lower version changes nothing; only `restore` lowers the version. It does not
  /// follow the versions of steps, so no actor can make the steps of all others outdated.
  ///
  /// No draw that begins after the call has returned gives an item that the call made outdated. A
  /// draw that was under way may give such an item, and so may a batch that a `Prefetcher` has
  /// drawn. A `Queue` has more room at once. Errors: `std::invalid_argument` for a version below 0,
  /// and for a schema without a version. Cost: one lock per shard, and O(log items) for each item
  /// that becomes outdated.
  void set_version(std::int64_t version);
  /// The highest version that `set_version` has set, also before a checkpoint was saved; 0 at
  /// first.
  [[nodiscard]] std::int64_t version() const noexcept;

  /// Sets `SampleToInsertRatio::samples_per_insert` for the steps inserted from now on. Earlier
  /// steps count as they did: the balance stays what it is, so a change leaves no burst of samples
  /// and no pause. (Each writer may have reserved up to 64 steps before. These count at the former
  /// ratio, and steps given back when the writer ends are given back at the new ratio, so the
  /// balance moves by the number of returned steps times the change. A checkpoint made while the
  /// ratio changes may have the change at another step.) Waiting calls go by the new ratio at once.
  /// A waiting batch that the new ratio could never let through is let through, but later calls
  /// refuse such a batch with `std::invalid_argument`, which `Prefetcher::run` passes on. So keep
  /// batch + samples_per_insert * block <= 2 * error_buffer. `Stats::limiter` names the ratio that
  /// is held; `options` has the first one. A checkpoint keeps the ratio, for `load` and for
  /// `restore` into a buffer with the same `rate_limiter`.
  ///
  /// Thread safety: any thread, beside writers and samplers, as often as you like. Errors:
  /// `std::invalid_argument` for another rate limiter, and for a ratio that the constructor would
  /// refuse: one above `error_buffer`, for example. Cost: O(1).
  void set_samples_per_insert(double samples_per_insert);

  /// Evicts every step whose item was decided before the call, at one moment: all shards' locks are
  /// held. Their keys are stale afterwards, their chunks are free for writers, and they count as
  /// evicted. Episodes and streams under way go on, and so do their steps that are not decided yet.
  /// Rows that a sampler is copying stay until it is done. What a rate limiter has counted stays
  /// counted; a `Queue` has more room at once. A sampler that lacks items then waits for new ones.
  /// The highest priority ever seen, exponents and statistics stay too. Cost: the cost of `size`,
  /// and O(chunks), plus O(rows) for the selectors.
  void clear();

  /// Removes the items with these keys for good: they are not drawn, found or read any more, and
  /// their keys are stale. Their steps stay for the windows of other items, and count for the
  /// capacity and in `stats().resident_steps` until they are evicted as any other; `size` does not
  /// count them. A checkpoint keeps them removed. Batches that were drawn before the call may still
  /// hold them. A `Queue` has more room at once. Returns how many items were removed: keys of items
  /// that were gone do not count, nor do repeated keys.
  /// Errors: `std::invalid_argument` for a key of another buffer, before anything is changed.
  /// Cost, per 2048 keys: one lock per shard touched, and O(log items) for each key and selector.
  std::size_t remove(std::span<const ItemKey> keys);
  /// The number of items in the buffer, everything committed before the call included, with
  /// exhausted and outdated items that wait for eviction, which `stats().items` and
  /// `SelectorHandle::totals` leave out. With sequences it is the number of steps in the
  /// buffer, but those with which a removed item begins.
  [[nodiscard]] std::size_t size() const;

  /// Saves the buffer while it is used, as the newest checkpoint of a directory, which is made if
  /// it does not exist. The checkpoint has every step whose item was decided before the call and
  /// that is not evicted during it, with keys, priorities of every selector, counters, the rate
  /// limiter's state, schema and options. An episode under way is saved up to the last step that
  /// the window of a decided item reads in the writer's present chunk; a load ends the episode
  /// there, as truncated. So a save between episodes leaves nothing out, if nothing is evicted
  /// meanwhile (`SaveResult::left_out_steps`) and no stream goes on (`SequenceEnd::Continue`),
  /// which a load ends in the same way. All priorities are read at one moment. Extra memory: 4
  /// bytes per item and selector, and one chunk while data moves out of a file that is mostly
  /// unused.
  ///
  /// The next save writes priorities, and only chunks that are new or were not full. Once the call
  /// has returned, the checkpoint survives a crash; if it throws, the earlier checkpoints are
  /// unchanged. Writers never wait for a save; samplers wait at its beginning for 1 to 2 ms per
  /// million items, with all shards' locks held. One save at a time: a second one waits.
  /// Errors: `CheckpointError`, `std::invalid_argument` for options out of range, `std::bad_alloc`.
  /// docs/checkpoint_format.md describes the files.
  SaveResult save(const std::filesystem::path& directory, const SaveOptions& options = {});

  /// Makes a buffer from the newest checkpoint of a directory that is whole. Keys from before the
  /// save are valid. Keys from after it are stale, also those of another load of the same
  /// checkpoint, because generations continue at a random distance of at least 1024. Writers take
  /// the places of those that were alive and continue in their chunks, the first writer made in the
  /// first place if none had been destroyed. So if the save was between episodes, and not within
  /// streams, sequenced calls give the same batches as in the saved buffer, bit for bit except for
  /// the generations of new keys. (`RankBased`, and removers other than `Fifo`, depend on the draws
  /// and updates after the load; a rate limiter's balance may differ by the block of inserts that
  /// each writer had booked.) Errors: `CheckpointError` if there is no checkpoint, all are damaged,
  /// or a selector or remover is your own, which only `restore` can bring back; `std::bad_alloc`;
  /// for `LoadOptions::storage` as the constructor. Every checksum is compared before anything is
  /// used.
  [[nodiscard]] static LoadResult load(const std::filesystem::path& directory,
                                       const LoadOptions& options = {});

  /// Loads as `load` does, in place of the contents of this buffer. The options of the buffer have
  /// to be those of the checkpoint, except for `rate_limiter`, `episode_index`, a smaller
  /// `max_staleness` and your own strategies, which stay those of the buffer, and `key_tag`, which
  /// becomes that of the checkpoint. The version becomes that of the checkpoint too, even if it
  /// falls. A `SampleToInsertRatio` other than the saved one begins in balance, as if samples had
  /// kept up with all steps so far, and values have to be finite if the schema of the buffer
  /// requires that. Writers and samplers made before are closed, as by `close`, and a `Hindsight`
  /// finds no new item; make new ones. A closed buffer is open again. If the call throws, the
  /// buffer is unchanged. It needs memory for the old and the new contents while it runs, and disk
  /// space if rows are in a mapped file. Errors: as `load`; `CheckpointError` (`Mismatch`) names
  /// what differs. Thread safety: no other call of this object at the same time.
  RestoreResult restore(const std::filesystem::path& directory, const LoadOptions& options = {});

  /// Ends every wait, now and later: samplers and writers then answer Closed. The call takes a lock
  /// for a moment, so do not make it in a signal handler.
  void close() noexcept;
  /// Whether `close` was called.
  [[nodiscard]] bool closed() const noexcept;

  /// Counters at about this moment, without ingesting anything; takes each shard's lock briefly.
  [[nodiscard]] Stats stats() const;

  /// The schema of the buffer.
  [[nodiscard]] const Schema& schema() const noexcept;
  /// The options with every default filled in.
  [[nodiscard]] const Options& options() const noexcept;

 private:
  explicit ReplayBuffer(std::shared_ptr<buffer::BufferCore> core) noexcept;

  friend struct detail::Access;
  std::shared_ptr<buffer::BufferCore> core_;
};

/// The result of `ReplayBuffer::load`.
struct LoadResult {
  ReplayBuffer buffer;  ///< Has the items of the newest checkpoint that is whole.
  /// The checkpoints that were skipped because they were damaged, and why. If no checkpoint is
  /// whole, the call throws `CheckpointError` instead.
  std::vector<SkippedCheckpoint> skipped;
  Attachments attachments;  ///< The attachments of the checkpoint.
};

}  // namespace reprise
