#pragma once

#include <reprise/detail/blob.hpp>
#include <reprise/replay_buffer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// One replay buffer over many processes. This header makes and reads the bytes that go between the
/// processes; your code sends them.
///
/// ```
/// remote writer                  replay shard                       learner
/// StepPacker::take  --shipment-> ReplayShard::append
///                                ReplayShard::exchange <-request--  ShardClient::request
///                                                      ---answer->  ShardClient::answer
/// ```
/// A blob begins with its kind, the version of the format, a fingerprint of schema and window, and
/// a checksum. A wrong blob throws `std::invalid_argument`, which says what is wrong, and changes
/// nothing. Both ends have to run the same version of reprise on machines of one byte order.
///
/// Not stable: calls and blobs may change with any version.
namespace reprise {

namespace remote {
class PackedSteps;
class RemoteWriters;
class ShardServer;
class Deliveries;
class ClientCore;
class RatioOfSums;
}  // namespace remote

/// How a `StepPacker` spreads episodes over several shards.
struct PackerLanes {
  std::size_t count = 1;  ///< The number of lanes: one for each shard, at least 1.
  std::size_t first = 0;  ///< Lane of the first episode, below `count`; packers should differ.
  /// After this many steps in one lane, at least 1, an episode goes on in another lane that has had
  /// fewer steps. In the shard of that lane the episode begins in its middle.
  std::size_t longest_run = ~std::size_t{0};
};

/// Records the steps of its writers, and packs them for shards. A packer checks each step as the
/// shards' buffers would; it has no buffer itself.
///
/// Each shard has a lane. An episode goes to the lane that has had the fewest steps, so that even
/// one writer fills all shards, and the oldest steps of each are about as old.
///
/// Thread safety: every method from any thread. Cost: a lock and a copy per step; memory for two
/// rows of each writer, and for the steps that `take` has not packed yet, which nothing bounds.
/// Lifetime: destroying it closes its writers.
/// Fork: `std::logic_error` in a forked child.
class StepPacker {
 public:
  /// `schema` and `of_shards` are those of the shards' buffers; only `window`, `selectors` and
  /// `max_writers` of the options count. `writer_id`: random by default; lane i is the remote
  /// writer of the id `writer_id` + i, and no two remote writers of a shard may have the same id.
  /// `std::invalid_argument` for lanes that are not allowed, and as the constructor of
  /// `ReplayBuffer`.
  StepPacker(const Schema& schema, const Options& of_shards,
             std::optional<std::uint64_t> writer_id = std::nullopt, const PackerLanes& lanes = {});
  ~StepPacker();
  StepPacker(StepPacker&&) noexcept;
  StepPacker& operator=(StepPacker&&) noexcept;

  /// A writer for one environment. As `ReplayBuffer::writer`, but a commit never waits;
  /// `Committed` means that the step will be in a shipment; without memory it throws
  /// `std::bad_alloc`, and the step is not taken; `Writer::episode_id` is unique in the packer.
  [[nodiscard]] Writer writer();
  /// A writer for each environment. Errors as for `writer`.
  [[nodiscard]] VectorWriter vector_writer(std::size_t environments,
                                           AutoReset auto_reset = AutoReset::Disabled);

  /// Packs the steps of a lane since the last call as one blob, a shipment, which is empty if there
  /// were no steps and no ends of episodes. Send the shipments of a lane to one shard one after the
  /// other, and keep each until its `append` has returned: sent again, it is not appended twice.
  [[nodiscard]] Blob take(std::size_t lane = 0);

  /// The number of steps in a shipment. `std::invalid_argument` for other bytes.
  [[nodiscard]] static std::size_t steps_of(std::span<const std::byte> shipment);

  /// The number of steps of all lanes that `take` has not packed yet.
  [[nodiscard]] std::size_t steps() const;
  /// The largest number of steps of one lane that `take` has not packed yet.
  [[nodiscard]] std::size_t most_steps() const;
  /// The number of steps of a lane that `take` has not packed yet.
  [[nodiscard]] std::size_t steps_in(std::size_t lane) const;
  /// Whether `take` would return an empty blob.
  [[nodiscard]] bool empty(std::size_t lane = 0) const;
  /// The size of all steps that `take` has not packed yet, in bytes.
  [[nodiscard]] std::size_t bytes() const;
  /// The number that names the remote writer of the first lane.
  [[nodiscard]] std::uint64_t writer_id() const noexcept;
  /// The number of the next shipment of a lane, from 0.
  [[nodiscard]] std::uint64_t sequence(std::size_t lane = 0) const;

 private:
  std::shared_ptr<remote::PackedSteps> steps_;
};

/// What `ReplayShard::append` did.
struct AppendResult {
  /// Unless `Committed`, append the shipment again: a part of it may be in.
  CommitStatus status = CommitStatus::Committed;
  std::size_t steps = 0;  ///< Steps appended by this call.
  bool repeated = false;  ///< The shipment was appended before; nothing was appended now.
  /// Episodes that the shipment continues but whose earlier steps are not in this shard: each
  /// begins anew in the middle. With sequences it begins at the next multiple of the period.
  std::size_t restarted = 0;
};

/// The shipment of one remote writer, which its process sends along with others.
struct ShipmentOf {
  /// `StepPacker::writer_id`, plus its lane. A shipment of another writer is `Kind::Invalid`.
  std::uint64_t writer_id = 0;
  std::span<const std::byte> shipment = {};  ///< Empty: the writer has ended.
};
/// Packs shipments of the writers of one process as one call for `ReplayShard::append_all`. An
/// empty list only tells the shard that the process is alive. `process`: 64 bits that no other
/// process has. `incarnation`: that of the shard for which the shipments are; 0 for any.
[[nodiscard]] Blob shipments_of(std::uint64_t process, std::uint64_t incarnation,
                                std::span<const ShipmentOf> shipments);

/// What became of one shipment.
struct ShipmentOutcome {
  /// Whether the shipment was appended, or why not.
  enum class Kind : std::uint32_t {  // NOLINT(performance-enum-size): as it is sent.
    Appended,
    TimedOut,  ///< There was no room for all steps, and some may be in: send it again.
    NoWriter,  ///< The buffer has no writer left (`Options::max_writers`).
    Closed,    ///< The buffer is closed.
    Invalid,   ///< `ReplayShard::append` threw `std::invalid_argument`.
    System,    ///< `append` threw `std::system_error`.
    Memory,    ///< `append` threw `std::bad_alloc`.
    Other,     ///< `append` threw any other exception.
  };
  Kind kind = Kind::Appended;  ///< Whether it was appended, or why not.
  std::size_t steps = 0;       ///< Steps appended by this call.
  std::string reason = {};     ///< The reason as a message; empty if it was appended.
};
/// Reads the outcomes in an answer of `ReplayShard::append_all`, one for each of the first `most`
/// shipments.
[[nodiscard]] std::vector<ShipmentOutcome> outcomes_of(std::span<const std::byte> answer);

/// The state of a shard, which each of its answers carries.
struct ShardState {
  std::uint64_t incarnation = 0;  ///< Names the start of the shard that answered.
  std::uint64_t committed = 0;    ///< Steps committed to the buffer.
  bool closed = false;            ///< Whether the buffer is closed.
  bool done = false;  ///< Whether the call was carried out; false if for another incarnation.
};
/// Reads the state in an answer of `ReplayShard`.
[[nodiscard]] ShardState state_of(std::span<const std::byte> answer);

/// How long a shard waits for processes and clients that are silent.
struct ShardPatience {
  /// A process that was silent for this long, without a call under way, loses its writers if others
  /// need their places.
  std::chrono::nanoseconds silent = std::chrono::seconds(5);
  /// After this long the writers of a silent process are closed, and answers that a silent client
  /// did not take are forgotten.
  std::chrono::nanoseconds forgotten = std::chrono::seconds(60);
};

/// What became of writers whose steps came by `ReplayShard::append_all`.
struct DeliveryCounts {
  std::uint64_t restarted_episodes = 0;     ///< The sum of `AppendResult::restarted`.
  std::uint64_t silent_writers_closed = 0;  ///< Writers closed because of `ShardPatience`.
};

/// A buffer that remote writers append to and remote learners draw from, beside its own writers and
/// samplers.
///
/// A network may deliver a call twice, also over different connections: each request and each
/// shipment has a number, and is carried out once. A call for an earlier incarnation is refused,
/// because its keys may be of a buffer that is gone, and its steps may be in the checkpoint that
/// this shard was loaded from.
///
/// Thread safety: every method from any thread. Exchanges exclude each other, and so do shipments
/// of one writer: with a timeout of 0 the second one is told that there is no room. Lifetime: may
/// outlive the buffer, which then reads as closed; after `ReplayBuffer::restore` make another one.
/// Destroying it closes its remote writers.
class ReplayShard {
 public:
  /// Throws `std::invalid_argument` for a buffer from which several shards cannot draw in
  /// proportion: one with `max_times_sampled`, or a selector whose law is not `Law::ByWeight`; and
  /// for one with a mutable column, whose values no request replaces. `seed`: for the shard's
  /// draws; by default the incarnation, because shards with one seed would draw by the same random
  /// numbers. `incarnation`: random by default; each restart of a shard has another one, and none
  /// is 0, which in calls means any.
  explicit ReplayShard(ReplayBuffer& buffer, std::optional<std::uint64_t> seed = std::nullopt,
                       std::optional<std::uint64_t> incarnation = std::nullopt,
                       const ShardPatience& patience = {});
  ~ReplayShard();
  ReplayShard(ReplayShard&&) noexcept;
  ReplayShard& operator=(ReplayShard&&) noexcept;

  /// The number that names this start of the shard.
  [[nodiscard]] std::uint64_t incarnation() const noexcept;

  /// Appends the steps of a shipment, once for each incarnation: a shard that was loaded from a
  /// checkpoint does not know which shipments the checkpoint has, and the shipments of a closed
  /// writer are known only until 4096 other writers were closed. Each remote environment has a
  /// writer of the buffer, so its windows go on from one shipment to the next; between two episodes
  /// another environment may take that writer, also one of the same shipment. `timeout`: how long
  /// the call may wait for room in all. `hook`, or null, is asked every 50 ms while the call waits.
  /// After each question the call waits anew, behind others, and another call of the same writer
  /// may come between. So append the shipments of a writer from one thread at a time.
  /// `std::runtime_error` beyond `Options::max_writers`; `std::system_error` as `Writer::commit`.
  AppendResult append(std::span<const std::byte> shipment,
                      std::chrono::nanoseconds timeout = kNoTimeout, WaitHook* hook = nullptr);
  /// Ends the episodes of a remote writer that has ended or is lost, as truncated at their last
  /// step in this shard, and gives its writers back. Returns how many there were. Waits for an
  /// append of that writer that is under way. A remote writer that is never closed is remembered
  /// for ever.
  std::size_t close_writer(std::uint64_t writer_id);
  /// The number of remote writers that have a writer of the buffer.
  [[nodiscard]] std::size_t writers() const;

  /// Does what a `ShardClient` asks, once: updates first, then draws. Returns the answer, in memory
  /// of `room` if there is one, and keeps it until a later request says that the client has it. A
  /// key that this buffer never gave counts as stale, because it may be of a shard that is gone:
  /// the client may not know yet that this shard took its place. `hook`, or null, is asked while
  /// the call waits for items. The hook must not call `exchange`, and draws whose wait it ends
  /// count as timed out. `std::invalid_argument` also for a batch beyond memory.
  [[nodiscard]] Blob exchange(std::span<const std::byte> request, const BlobAllocator& room = {},
                              WaitHook* hook = nullptr);

  /// Appends the first `most` of these shipments (`shipments_of`), each as `append`. Answers with
  /// their outcomes; after a shipment that failed, later ones of the same writer have the same
  /// outcome. A shipment whose wait `hook` ends is `Kind::TimedOut`.
  [[nodiscard]] Blob append_all(std::span<const std::byte> call,
                                std::chrono::nanoseconds timeout = kNoTimeout,
                                std::size_t most = ~std::size_t{0}, WaitHook* hook = nullptr);
  /// Records that a process that sends shipments is alive, as each `append_all` of it does.
  void note_alive(std::uint64_t process);
  /// Whether a process that sends shipments has been silent for `ShardPatience::silent`.
  [[nodiscard]] bool is_silent(std::uint64_t process) const;
  /// Counts over all calls of `append_all`.
  [[nodiscard]] DeliveryCounts deliveries() const;

  /// `exchange` or `append_all`, without waiting for items or room, whatever the timeout of the
  /// request: for `HostOptions::service`.
  [[nodiscard]] Blob serve(std::span<const std::byte> call, const BlobAllocator& room);

 private:
  std::shared_ptr<buffer::BufferCore> core_;
  std::unique_ptr<remote::RemoteWriters> writers_;
  std::unique_ptr<remote::ShardServer> server_;
  std::unique_ptr<remote::Deliveries> deliveries_;
};

/// What a client knows of a shard, as of its last answer.
struct ShardTotals {
  bool alive = false;             ///< Whether the shard has answered, and was not lost since.
  std::uint64_t incarnation = 0;  ///< Names the start of the shard that answered.
  double total = 0.0;             ///< Sum of the weights of the client's selector.
  double min_positive = 0.0;  ///< A lower bound of the weights above 0; infinity if there is none.
  std::uint64_t items = 0;    ///< Items that can be drawn.
  std::uint64_t inserts = 0;  ///< Committed steps.
  std::uint64_t samples = 0;  ///< Items drawn.
  std::uint64_t applied_updates = 0;  ///< As in `Stats`.
  std::uint64_t stale_updates = 0;    ///< As in `Stats`.
};

/// Options of a `ShardClient`.
struct ShardClientOptions {
  std::size_t selector = 0;  ///< The place of the selector in the buffers' options.
  std::uint64_t seed = 0;    ///< The seed by which draws are allotted to shards.
};

/// Draws batches from several shards as if they were one buffer.
///
/// A batch is begun: its draws are allotted to the shards by the totals known at that moment. Then
/// its shards are asked; their answers fill it. A draw's probability is (total known / sum of
/// totals known) * (weight / present total of the shard): the one with which the item really was
/// drawn, whatever the totals did meanwhile. Importance weights are normalised over the whole
/// batch.
///
/// A shard that is lost before it has answered for a batch has no part in it: all its draws, also
/// those that had arrived, are made again among the others, and every draw of the batch reports
/// its probability by the sum over the others. docs/design.md has the sum. A shard that answers
/// that it has nothing to draw is left out likewise. Ask every shard in each round trip, also for
/// no draw: whether a loss is noticed must not depend on what was drawn.
///
/// Thread safety: one thread at a time. Cost: O(n) per batch, plus a copy of its rows.
/// Fork: `std::logic_error` in a forked child, but for the counts.
class ShardClient {
 public:
  /// `schema` and `of_shards` are those of the shards' buffers; only `window` and `selectors` of
  /// the options count. `std::invalid_argument` for schemas and options that `ReplayBuffer` or
  /// `ReplayShard` refuses.
  ShardClient(const Schema& schema, const Options& of_shards, std::size_t shards,
              const ShardClientOptions& options = {});
  ~ShardClient();
  ShardClient(ShardClient&&) noexcept;
  ShardClient& operator=(ShardClient&&) noexcept;

  /// As `ReplayBuffer::make_batch`, for any thread.
  [[nodiscard]] Batch make_batch(std::size_t n, std::pmr::memory_resource* memory = nullptr,
                                 bool unique_frames = false) const;

  /// Names a batch that was begun.
  using Ticket = std::uint64_t;

  /// Begins a batch of n items in places [offset, offset + n) of `batch`, whose memory has to stay
  /// until the ticket is finished or dropped. Returns nothing if no shard is known to have weight.
  /// Of the options, `beta`, `normalise`, `draws`, `n_step` and `discount` count;
  /// `WithoutReplacement` and `Epoch` are refused. If the batch has unique frames, each shard sends
  /// each of its frames once.
  [[nodiscard]] std::optional<Ticket> begin(Batch& batch, std::size_t offset, std::size_t n,
                                            const SampleOptions& options = {});
  /// What to send to a shard now: its updates, and its draws of all batches that it was not asked
  /// for yet. `timeout`: how long the shard may wait for items, in all; over `serve` it does not
  /// wait. If a request or its answer may have been lost on the way, send the same bytes again, or
  /// `lose` the shard: until then client and shard keep what they know of the request, also if its
  /// batches were dropped.
  [[nodiscard]] Blob request(std::size_t shard,
                             std::chrono::nanoseconds timeout = std::chrono::nanoseconds(0));
  /// Takes the answer to a request, each once, in any order. Rows are copied into their batches.
  void answer(std::size_t shard, std::span<const std::byte> answer);
  /// Marks a shard as lost, because it is gone or you wait for it no longer: its answers are
  /// refused from now on. Its updates that are queued or under way become stale; but if it
  /// `restarted`, they are queued for its successor. The shard is drawn from again once it has
  /// answered a later request.
  void lose(std::size_t shard, bool restarted = false);

  /// How far a batch is.
  enum class State : std::uint8_t {
    Ready,          ///< All shards have answered: finish it.
    Waiting,        ///< Shards have to be asked, or to answer.
    NothingToDraw,  ///< All of its shards are lost or empty: drop it.
    TimedOut,       ///< As `NothingToDraw`, but the rate limiter of a shard let no draw in in time.
  };
  /// How far a batch is.
  [[nodiscard]] State state(Ticket ticket) const;
  /// Shards that have to answer before the batch is ready.
  [[nodiscard]] std::vector<std::size_t> waits_for(Ticket ticket) const;
  /// The shard of each item, and the incarnation that gave its key.
  struct Origins {
    std::vector<std::uint32_t> shards;        ///< The shard of each item.
    std::vector<std::uint64_t> incarnations;  ///< The incarnation that gave its key.
  };
  /// Computes probabilities and weights; the ticket ends. `std::logic_error` unless it is ready.
  Origins finish(Ticket ticket);
  /// Ends a ticket without its batch.
  void drop(Ticket ticket);

  /// Queues updates of priorities for the next requests, or the next `lose`. Returns how many are
  /// stale at once, because their shard restarted without the keys of that incarnation. Only the
  /// caller knows whether a shard is alive: give no updates for one that is gone. Errors as
  /// `SelectorHandle::update`, with the alpha of the options; where a shard has another one by
  /// then, too large a weight becomes the largest number. A key of another buffer is stale at the
  /// shard.
  std::size_t update(std::span<const ItemKey> keys, std::span<const std::uint32_t> shards,
                     std::span<const std::uint64_t> incarnations,
                     std::span<const float> priorities);

  /// Number of shards.
  [[nodiscard]] std::size_t shards() const noexcept;
  /// What is known of a shard from its last answer.
  [[nodiscard]] ShardTotals totals(std::size_t shard) const;
  /// Updates that the client found stale itself, without asking a shard.
  [[nodiscard]] std::uint64_t stale_updates() const noexcept;
  /// Draws that were allotted again.
  [[nodiscard]] std::uint64_t reallotted() const noexcept;

 private:
  std::unique_ptr<remote::ClientCore> core_;
};

/// A rate limiter over the sums of all shards: writers ask it for credit, learners for permission.
/// It has the bound that `SampleToInsertRatio` has in one buffer, where each credit is the block of
/// inserts that a writer books.
///
/// No deadlock: the two gates are never shut at once, and while fewer than `min_size` items are in
/// the shards that are left, no writer is held.
///
/// Thread safety: every method from any thread; it never waits.
class ShardedLimiter {
 public:
  /// `capacity_steps`: the capacity of all shards together. `std::invalid_argument` for a `Queue`,
  /// whose room only the shards know, and as the constructor of `ReplayBuffer`.
  ShardedLimiter(const RateLimiter& limiter, std::size_t capacity_steps, std::size_t max_writers);
  ~ShardedLimiter();
  ShardedLimiter(ShardedLimiter&&) noexcept;
  ShardedLimiter& operator=(ShardedLimiter&&) noexcept;

  /// Reports how many items a shard has now; 0 once it is lost.
  void set_items(std::size_t shard, std::uint64_t items);
  /// How many steps a writer may append now. If 0, ask again once something has changed.
  [[nodiscard]] std::size_t credit();
  /// Counts steps that are about to be appended, if they may be; otherwise returns false and counts
  /// nothing. `insert` takes the place of credit for users that append whole shipments.
  /// `std::invalid_argument` for more than error_buffer / samples_per_insert steps, which might
  /// never be let in. Samplers and shipments could wait for each other unless batch +
  /// samples_per_insert * steps is at most 2 * error_buffer.
  [[nodiscard]] bool insert(std::size_t steps);
  /// Gives back credit that was not used, for example that of a lost writer.
  /// `std::invalid_argument` for more than is counted.
  void return_credit(std::size_t steps);
  /// Whether a batch of n may be drawn; if so, it is counted. `std::invalid_argument` for a batch
  /// that could never be admitted.
  [[nodiscard]] bool admit(std::size_t n);
  /// Takes back the count of draws that were not made. `std::invalid_argument` for more than is
  /// counted.
  void return_samples(std::size_t n);
  /// The state of the ratio over all shards.
  [[nodiscard]] RatioBalance balance() const;
  /// Steps inserted so far, as credit or by `insert`; 0 without a ratio, as nothing counts them.
  [[nodiscard]] std::uint64_t inserts() const;
  /// Items drawn so far.
  [[nodiscard]] std::uint64_t samples() const;
  /// Sets the sums, for a limiter that continues another one. Call it before any other.
  /// `std::invalid_argument` for more than 2^47 inserts.
  void restore(std::uint64_t inserts, std::uint64_t samples);

 private:
  std::unique_ptr<remote::RatioOfSums> ratio_;
};

}  // namespace reprise
