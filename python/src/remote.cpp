#include <reprise/remote.hpp>

#include "fields/blobs.hpp"
#include "options.hpp"
#include "sampler.hpp"
#include "writer.hpp"

#include <map>

/// StepPacker and ShardClient, whose bytes any transport may carry, and ShardedLimiter.
namespace reprise::python {

/// Options of which calls take only those that a packer or client needs of the shards' buffers.
struct ShardBufferOptions : Options {};
template <>
inline constexpr auto members_of<ShardBufferOptions> =
    members<&Options::window, &Options::selectors>;

template <>
inline constexpr auto members_of<ShardTotals> =
    members<&ShardTotals::alive, &ShardTotals::incarnation, &ShardTotals::total,
            &ShardTotals::min_positive, &ShardTotals::items, &ShardTotals::inserts,
            &ShardTotals::samples, &ShardTotals::applied_updates, &ShardTotals::stale_updates>;
template <>
inline constexpr auto members_of<ShardClientOptions> =
    members<&ShardClientOptions::selector, &ShardClientOptions::seed>;

namespace {

template <class T>
nb::object copied_array(const std::vector<T>& values) {
  nb::object array = empty_array(kDType<T>, {{values.size()}});
  std::ranges::copy(values, reinterpret_cast<T*>(Array(array).data()));
  return array;
}

nb::object take(PackerObject& self, std::size_t lane) {
  Blob blob = without_gil([&] { return self.core().take(lane); });
  return blob.empty() ? nb::none() : array_of(std::move(blob));
}

std::uint64_t sequence(PackerObject& self) {
  return self.core().sequence();
}

void make_packer(PackerObject* place, Schema& schema, const ShardBufferOptions& options,
                 std::size_t max_writers, std::optional<std::uint64_t> writer_id, std::size_t lanes,
                 std::size_t first_lane, std::optional<std::size_t> longest_run) {
  Options shard_options = options;
  shard_options.max_writers = max_writers;
  const PackerLanes lane_options{.count = lanes,
                                 .first = first_lane,
                                 .longest_run = longest_run.value_or(PackerLanes().longest_run)};
  new (place) PackerObject{std::make_shared<SharedPacker>(
      schema, shard_options, StepPacker(schema, shard_options, writer_id, lane_options))};
}

std::uint64_t steps_of(const Bytes& shipment) {
  return StepPacker::steps_of(shipment.bytes);
}

class ClientObject {
 public:
  ClientObject(const Schema& schema, std::size_t shards, const ShardBufferOptions& shard_options,
               const ShardClientOptions& options, const Allocator& allocator, bool unique_frames)
      : client_(schema, shard_options, shards, options),
        pool_(std::make_shared<BatchPool>(schema, std::make_shared<FieldTable>(schema),
                                          shard_options.window, allocator, unique_frames)) {}

  [[nodiscard]] InUse enter(const char* /*call*/) { return {in_use_, "ShardClient"}; }
  [[nodiscard]] ShardClient& core() { return client_; }

  [[nodiscard]] std::uint64_t begin(Count n, const DrawOptions& how) {
    nb::object batch = make_batch(pool_, n.items);
    const auto ticket = client_.begin(self_of<BatchObject>(batch.ptr()).batch, 0, n.items, how);
    if (!ticket) {
      throw NothingToDraw("ShardClient.begin: nothing to draw: no shard is known to have weight");
    }
    batches_.emplace(*ticket, std::move(batch));
    return *ticket;
  }
  nb::object request(std::size_t shard, double timeout) {
    constexpr double kMaxTimeout = 1e9;  // As nanoseconds it fits in 64 bits.
    if (!(timeout >= 0.0 && timeout <= kMaxTimeout)) {
      throw std::invalid_argument("ShardClient.request: timeout: expected seconds, 0 to 1e9");
    }
    return array_of(client_.request(shard, std::chrono::duration_cast<std::chrono::nanoseconds>(
                                               std::chrono::duration<double>(timeout))));
  }
  void answer(std::size_t shard, const Bytes& answer) {
    const GilRelease released;
    client_.answer(shard, answer.bytes);
  }
  nb::object waits_for(std::uint64_t ticket) {
    const ShardClient::State state = client_.state(ticket);
    if (state == ShardClient::State::TimedOut) {
      drop(ticket);
      throw TimedOut("ShardClient: timed out: the rate limiter of a shard let no draw in");
    }
    if (state == ShardClient::State::NothingToDraw) {
      drop(ticket);
      throw NothingToDraw("ShardClient: nothing to draw: no shard of the batch has weight");
    }
    return to_python(client_.waits_for(ticket));
  }
  nb::object finish(std::uint64_t ticket) {
    const ShardClient::Origins origins = client_.finish(ticket);
    nb::object batch = std::move(batches_.at(ticket));
    batches_.erase(ticket);
    return nb::make_tuple(batch, copied_array(origins.shards), copied_array(origins.incarnations));
  }
  void drop(std::uint64_t ticket) {
    client_.drop(ticket);
    batches_.erase(ticket);
  }
  std::size_t update(const Keys& keys, const Numbers<std::uint32_t>& shards,
                     const Numbers<std::uint64_t>& incarnations, const Priorities& priorities) {
    return client_.update(keys.values, shards.values, incarnations.values, priorities.values);
  }
  nb::object totals(std::size_t shard) { return to_python(client_.totals(shard)); }

 private:
  ShardClient client_;
  std::shared_ptr<BatchPool> pool_;
  std::map<ShardClient::Ticket, nb::object> batches_;
  bool in_use_ = false;
};

void make_client(ClientObject* place, Schema& schema, std::size_t shards,
                 const ShardBufferOptions& shard_options, const ShardClientOptions& options,
                 Allocator allocator, bool unique_frames) {
  new (place) ClientObject(schema, shards, shard_options, options, allocator, unique_frames);
}

void make_limiter(ShardedLimiter* place, const RateLimiter& limiter, std::size_t capacity_steps,
                  std::size_t max_writers) {
  new (place) ShardedLimiter(limiter, capacity_steps, max_writers);
}

void set_items(ShardedLimiter& limiter, std::size_t shard, std::uint64_t items) {
  constexpr std::size_t kMaxShards = std::size_t{1} << 20U;
  if (shard >= kMaxShards) {
    fail("ShardedLimiter.set_items: shard is ", shard, "; allowed: below ", kMaxShards);
  }
  limiter.set_items(shard, items);
}

double balance(ShardedLimiter& limiter) {
  return limiter.balance().ahead;
}

constexpr const char* kPacker =
    R"(Records the steps that its writers append, and packs them for ReplayShards, each of which has a lane.
An episode goes to the lane that has had the fewest steps.

    packer = reprise.StepPacker(schema, window=window, selectors=selectors)  # Those of the shards.
    with packer.writer() as writer: ...
    shard.append(packer.take())

It checks every step as the shards' buffers would, and has no buffer itself: it has memory for two
steps of each writer, and, without a bound, for the steps that `take` has not taken yet. Its writers
are as those of ReplayBuffer, and are closed with it; an append never waits. Any thread.)";

constexpr const char* kMakePacker =
    R"(schema, window, selectors, max_writers: those of the shards' buffers.
writer_id: the id of lane 0, 64 bits that no other remote writer has; lane i has writer_id + i.
None takes a random id. lanes: how many lanes there are, one for each shard. first_lane: the lane of
the first episode. longest_run: after this many steps in one lane an episode goes on in another lane
that has had fewer steps; there its first step is in the middle of the episode. None: it never does.)";

constexpr const char* kClient =
    R"(Draws batches from several shards as if they were one buffer; the caller carries the bytes.

    for shard in range(4):
        client.answer(shard, carry(shard, client.request(shard)))   # ReplayShard.exchange there
    ticket = client.begin(512)
    while waiting := client.waits_for(ticket):
        for shard in waiting: ...                                   # request, carry, answer
    batch, shards, incarnations = client.finish(ticket)
    client.update(batch.item_keys, shards, incarnations, priorities)

The probabilities of a batch are those with which its items really were drawn, however old the
totals are that the client knows. One thread at a time.)";

constexpr const char* kMakeClient =
    R"(schema, window, selectors: those of the shards' buffers. ValueError for selectors that ReplayShard
refuses.
shards: how many there are; they are numbered from 0. selector: the place of the selector that draws.
seed: of the rounding of draws to shards. allocator, unique_frames: as in ReplayBuffer.sampler.)";

constexpr const char* kBegin =
    R"(Begins a batch of n items: allots its draws to the shards by the totals known now. Returns a ticket.

beta, normalise, n_step, discount: as Sampler.sample. draws: 'stratified' or 'independent'.
NothingToDraw if no shard is known to have weight.)";

constexpr const char* kLose =
    R"(Gives up a shard that is gone, or does not answer: its answers to earlier requests are refused from
now on. Batches for which it has not answered make its draws again among the other shards. Updates
that were queued for the shard, or on their way, count as stale; if `restarted`, they are queued for
its successor instead. The shard is drawn from again once it has answered a later request.)";

constexpr const char* kUpdate =
    R"(Queues updates of priorities for the next requests, or the next `lose`. Returns how many
updates are stale at once, because their shard has restarted without the items. Leave out updates
for a shard that you know to be gone.

keys: int64 [n]. shards, incarnations: uint32 and uint64 [n], as `finish` gave them.
priorities: float32 [n]. ValueError as ReplayBuffer.update_priorities.)";

constexpr const char* kLimiter =
    R"(A rate limiter over the sums of all shards: writers ask it for credit, learners for permission to
draw. It keeps the bound that the same limiter keeps in one buffer. It never waits. Any thread.)";

constexpr const char* kMakeLimiter =
    R"(rate_limiter: SampleToInsertRatio, MinSize or Unlimited; ValueError for Queue.
capacity_steps: of all shards together. max_writers: of all remote writers.)";

}  // namespace

void bind_remote(nb::module_& module) {
  Type<PackerObject> packer("StepPacker", kPacker);
  packer.constructor<&make_packer>(kMakePacker, arg("schema"),
                                   keyword("max_writers", Options().max_writers),
                                   keyword("writer_id", std::nullopt), keyword("lanes", 1U),
                                   keyword("first_lane", 0U), keyword("longest_run", std::nullopt));
  add_writer(packer);
  add_vector_writer(packer);
  packer
      .method<&take>(
          "take", "NDArray[np.uint8] | None",
          R"(Takes the steps of a lane since the last call as one shipment; None if the lane has had
neither a step nor the end of an episode. Send the shipments of a lane one after the other, and keep
each until it was appended; a shipment that is appended again changes nothing.)",
          arg("lane", 0U))
      .method<&StepPacker::empty>("empty", "Whether `take` would give None.", arg("lane", 0U))
      .method<&StepPacker::steps_in>("steps_in", "Steps of a lane that `take` has not taken yet.",
                                     arg("lane"))
      .static_method<&steps_of>("steps_of", "int",
                                "The steps in a shipment. ValueError for other bytes.",
                                arg("shipment"))
      .property<&StepPacker::steps>("steps", "Steps of all lanes that `take` has not taken yet.")
      .property<&StepPacker::most_steps>("most_steps",
                                         "As `steps`, of the lane that has the most alone.")
      .property<&StepPacker::bytes>("nbytes", "About how many bytes these `steps` have.")
      .property<&StepPacker::writer_id>("writer_id", "The id of the remote writer of lane 0.")
      .property<&sequence>("sequence", "Number of the next shipment of lane 0.")
      .add(module);
  using Self = ClientObject;
  Type<Self>("ShardClient", kClient)
      .constructor<&make_client>(kMakeClient, arg("schema"), arg("shards"),
                                 keyword("allocator", "None"), keyword("unique_frames", false))
      .method<&Self::begin>("begin", kBegin, arg("n"))
      .method<&Self::request>(
          "request", "NDArray[np.uint8]",
          R"(The request to send to a shard now: its updates, and the draws of all batches begun
that no request to it has had. Send every shard a request in each round trip, even without a draw.
timeout: seconds that the shard may wait for items; over a ShardConnection it does not wait. If the
request or its answer may be lost on the way, send the same bytes again, or `lose` the shard: until
then client and shard keep what they know of the request.)",
          arg("shard"), keyword("timeout", 0.0))
      .method<&Self::answer>(
          "answer",
          R"(Takes the answer to a request. Answers may come in any order, each once. ValueError for
an answer to no open request, or for damaged bytes; then nothing has changed.)",
          arg("shard"), arg("answer"))
      .method<&ShardClient::lose>("lose", kLose, arg("shard"), arg("restarted", false))
      .method<&Self::waits_for>(
          "waits_for", "list[int]",
          R"(Shards that have to answer before the batch is ready; empty if it is ready.
NothingToDraw if all shards of the batch are lost or empty, TimeoutError if the rate limiter of one
admitted no draw; then the ticket is gone.)",
          arg("ticket"))
      .method<&Self::finish>(
          "finish", "tuple[Batch, NDArray[np.uint32], NDArray[np.uint64]]",
          R"(The batch, and for each item its shard and that shard's incarnation. RuntimeError
unless the batch is ready.)",
          arg("ticket"))
      .method<&Self::drop>("drop", "Gives a batch up, without waiting for its answers.",
                           arg("ticket"))
      .method<&Self::update>("update", kUpdate, arg("keys"), arg("shards"), arg("incarnations"),
                             arg("priorities"))
      .method<&Self::totals>(
          "totals", "dict[str, Any]",
          R"(What a shard last answered: total and min_positive, of its weights; items, inserts, samples,
applied_updates, stale_updates, incarnation; alive: whether it has answered and was not lost since.)",
          arg("shard"))
      .property<&ShardClient::shards>("shards", "How many shards there are.")
      .property<&ShardClient::stale_updates>(
          "stale_updates", "Updates that this client counted as stale without asking a shard.")
      .property<&ShardClient::reallotted>("reallotted",
                                          "Draws that were made again among other shards.")
      .add(module);
  Type<ShardedLimiter>("ShardedLimiter", kLimiter)
      .constructor<&make_limiter>(kMakeLimiter, arg("rate_limiter"), arg("capacity_steps"),
                                  keyword("max_writers", 256U))
      .method<&set_items>("set_items", "Sets how many items a shard has now: 0 once it is lost.",
                          arg("shard"), arg("items"))
      .method<&ShardedLimiter::credit>(
          "credit", "Steps that a writer may append now; 0: ask again once something has changed.")
      .method<&ShardedLimiter::return_credit>(
          "return_credit",
          "Gives back credit for steps that were not appended. ValueError for more steps than are "
          "counted.",
          arg("steps"))
      .method<&ShardedLimiter::admit>(
          "admit",
          R"(Whether a batch of n items may be drawn; if so, the items are counted. ValueError for a
batch that never could be drawn.)",
          arg("n"))
      .method<&ShardedLimiter::return_samples>("return_samples",
                                               "Takes n items that were not drawn out of the "
                                               "count. ValueError for more than are counted.",
                                               arg("n"))
      .method<&ShardedLimiter::insert>(
          "insert",
          R"(Counts steps that are about to be appended, in place of credit, for whole shipments. False if
they may not be appended now; then nothing is counted. ValueError for more than
error_buffer / samples_per_insert.)",
          arg("steps"))
      .method<&ShardedLimiter::restore>(
          "restore",
          "Sets the sums, for a limiter that continues another one. Call it before any other call.",
          arg("inserts"), arg("samples"))
      .property<&ShardedLimiter::inserts>("inserts", "Steps counted so far; 0 without a ratio.")
      .property<&ShardedLimiter::samples>("samples", "Items counted so far.")
      .property<&balance>("balance",
                          "Sampled items ahead of the ratio; negative if inserts are ahead.")
      .add(module);
}

}  // namespace reprise::python
