#include <reprise/remote.hpp>

#include "buffer_object.hpp"
#include "numpy.hpp"
#include "options.hpp"
#include "sampler.hpp"
#include "values.hpp"
#include "vocabulary.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// One buffer over many processes: the bytes, for whatever carries them.
namespace reprise::python {
namespace {

/// An array over a blob, which it keeps.
nb::object array_of(Blob made) {
  auto* const blob = new Blob(std::move(made));
  const auto destroy = [](PyObject* capsule) {
    delete static_cast<Blob*>(PyCapsule_GetPointer(capsule, nullptr));
  };
  PyObject* const owner = PyCapsule_New(blob, nullptr, destroy);
  if (owner == nullptr) {
    delete blob;
    throw nb::python_error();
  }
  const nb::object keeper = nb::steal(owner);
  return view_of(DType::U8, {{blob->bytes().size()}}, blob->bytes().data(), keeper);
}

/// The bytes of an object with a buffer, read in place.
struct GivenBytes {
  GivenBytes(const Arguments& arguments, std::size_t at)
      : owner(vocabulary("bytes_of")(nb::handle(arguments[at]),
                                     (arguments.what(at).text() + " is").c_str(), false)) {}
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    const Array array(owner);
    return {array.data(), array.size()};
  }
  nb::object owner;
};

template <class T>
nb::object copied_array(DType dtype, const std::vector<T>& values) {
  nb::object made = empty_array(dtype, {{values.size()}});
  if (!values.empty()) {
    std::memcpy(Array(made).data(), values.data(), values.size() * sizeof(T));
  }
  return made;
}

/// A row of numbers, which `owner` keeps.
template <class T>
std::span<const T> numbers_from(const Arguments& arguments, std::size_t at, DType dtype,
                                nb::object& owner) {
  owner = row_from(nb::handle(arguments[at]), dtype, arguments.what(at).text().c_str());
  const Array array(owner);
  return {reinterpret_cast<const T*>(array.data()), array.size()};
}

/// reprise.StepPacker.
struct PackerObject {
  PackerObject(std::shared_ptr<SharedBuffer> buffer, std::optional<std::uint64_t> writer_id,
               const PackerLanes& lanes)
      : shared(std::move(buffer)), packer(shared->buffer, writer_id, lanes) {}

  nb::object take(const Arguments& arguments) {
    const auto lane = arguments.get<std::size_t>(0, 0);
    Blob blob = without_gil([&] { return packer.take(lane); });
    return blob.empty() ? nb::none() : array_of(std::move(blob));
  }
  [[nodiscard]] bool empty(const Arguments& arguments) const {
    return packer.empty(arguments.get<std::size_t>(0, 0));
  }
  [[nodiscard]] std::uint64_t sequence() const { return packer.sequence(); }
  [[nodiscard]] StepPacker& core() { return packer; }

  const std::shared_ptr<SharedBuffer> shared;
  StepPacker packer;
};

void make_packer(PackerObject* place, const Arguments& arguments) {
  const PackerLanes lanes{
      .count = arguments.get<std::size_t>(2, 1),
      .first = arguments.get<std::size_t>(3, 0),
      .longest_run = arguments.optional<std::size_t>(4).value_or(PackerLanes().longest_run)};
  new (place) PackerObject(arguments.object<BufferObject>(0).shared,
                           arguments.optional<std::uint64_t>(1), lanes);
}

std::uint64_t steps_of(const Arguments& arguments) {
  return StepPacker::steps_of(GivenBytes(arguments, 0).bytes());
}

/// reprise.ReplayShard.
struct ShardObject {
  ShardObject(std::shared_ptr<SharedBuffer> buffer, std::uint64_t seed,
              std::optional<std::uint64_t> incarnation)
      : shared(std::move(buffer)), shard(shared->buffer, seed, incarnation) {}

  [[nodiscard]] SharedBuffer::Call enter(const char* call) const { return {*shared, call}; }

  [[nodiscard]] ReplayShard& core() { return shard; }

  nb::object append(const Arguments& arguments) {
    const GivenBytes shipment(arguments, 0);
    const auto timeout = std::chrono::nanoseconds(arguments.timeout_ns(1));
    const auto start = std::chrono::steady_clock::now();
    AppendResult all;
    for (auto left = timeout;;) {
      const AppendResult result =
          without_gil([&] { return shard.append(shipment.bytes(), std::min(left, kSlice)); });
      all.status = result.status;
      all.steps += result.steps;
      all.restarted += result.restarted;
      all.repeated = result.repeated;
      if (result.status != CommitStatus::TimedOut || left.count() == 0) {
        break;
      }
      check_signals();
      const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - start;
      left = std::max(timeout - waited, std::chrono::nanoseconds(0));
    }
    if (all.status == CommitStatus::Closed) {
      throw Closed(std::string(arguments.call()) + ": closed");
    }
    if (all.status != CommitStatus::Committed) {
      throw TimedOut(std::string(arguments.call()) + ": timed out with " +
                     std::to_string(all.steps) +
                     " steps appended; append the shipment again for the others");
    }
    return named_tuple("AppendResult", all.steps, all.repeated, all.restarted);
  }
  nb::object exchange(const Arguments& arguments) {
    const GivenBytes request(arguments, 0);
    return array_of(without_gil([&] { return shard.exchange(request.bytes()); }));
  }

  const std::shared_ptr<SharedBuffer> shared;
  ReplayShard shard;
};

void make_shard(ShardObject* place, const Arguments& arguments) {
  new (place) ShardObject(arguments.object<BufferObject>(0).shared, arguments.get<std::uint64_t>(1),
                          arguments.optional<std::uint64_t>(2));
}

/// reprise.ShardClient.
class ClientObject {
 public:
  ClientObject(std::shared_ptr<SharedBuffer> buffer, std::size_t shards,
               const ShardClientOptions& options, nb::handle allocator, bool unique_frames)
      : shared_(std::move(buffer)),
        pool_(std::make_shared<BatchPool>(*shared_, allocator, unique_frames)),
        client_(shared_->buffer, shards, options) {}

  [[nodiscard]] Entered enter(const char* call) { return {in_use_, "ShardClient", *shared_, call}; }

  [[nodiscard]] std::uint64_t begin(const Arguments& arguments) {
    const std::size_t n = items_of(arguments, 0);
    const SampleOptions options = sample_options(arguments, 1);
    nb::object batch = make_batch(pool_, shared_->buffer, n);
    const auto ticket = client_.begin(self_of<BatchObject>(batch.ptr()).batch, 0, n, options);
    if (!ticket) {
      throw NothingToDraw("ShardClient.begin: nothing to draw: no shard is known to have weight");
    }
    batches_.emplace(*ticket, std::move(batch));
    return *ticket;
  }
  nb::object request(const Arguments& arguments) {
    const auto shard = arguments.get<std::size_t>(0);
    const double seconds = arguments.get<double>(1, 0.0);
    if (!(seconds >= 0.0 && seconds <= 1e9)) {
      throw std::invalid_argument("ShardClient.request: timeout: expected seconds, 0 to 1e9");
    }
    return array_of(client_.request(shard, std::chrono::duration_cast<std::chrono::nanoseconds>(
                                               std::chrono::duration<double>(seconds))));
  }
  void answer(const Arguments& arguments) {
    const auto shard = arguments.get<std::size_t>(0);
    const GivenBytes answer(arguments, 1);
    const Released released;
    client_.answer(shard, answer.bytes());
  }
  void lose(const Arguments& arguments) {
    client_.lose(arguments.get<std::size_t>(0), arguments.get<bool>(1, false));
  }
  nb::object waits_for(const Arguments& arguments) {
    const auto ticket = arguments.get<std::uint64_t>(0);
    if (client_.state(ticket) == ShardClient::State::NothingToDraw) {
      forget(ticket);
      throw NothingToDraw("ShardClient: nothing to draw: no shard of the batch has weight");
    }
    nb::list shards;
    for (const std::size_t shard : client_.waits_for(ticket)) {
      shards.append(shard);
    }
    return shards;
  }
  nb::object finish(const Arguments& arguments) {
    const auto ticket = arguments.get<std::uint64_t>(0);
    const ShardClient::Origins origins = client_.finish(ticket);
    nb::object batch = std::move(batches_.at(ticket));
    batches_.erase(ticket);
    return nb::make_tuple(batch, copied_array(DType::U32, origins.shards),
                          copied_array(DType::U64, origins.incarnations));
  }
  void drop(const Arguments& arguments) { forget(arguments.get<std::uint64_t>(0)); }
  [[nodiscard]] std::uint64_t update(const Arguments& arguments) {
    nb::object owners[4];
    const auto keys = numbers_from<ItemKey>(arguments, 0, DType::I64, owners[0]);
    const auto shards = numbers_from<std::uint32_t>(arguments, 1, DType::U32, owners[1]);
    const auto incarnations = numbers_from<std::uint64_t>(arguments, 2, DType::U64, owners[2]);
    const std::span<const float> priorities = priorities_from(nb::handle(arguments[3]), owners[3]);
    return client_.update(keys, shards, incarnations, priorities);
  }
  nb::object totals(const Arguments& arguments) {
    const ShardTotals totals = client_.totals(arguments.get<std::size_t>(0));
    nb::dict made;
    made["alive"] = totals.alive;
    made["incarnation"] = totals.incarnation;
    made["total"] = totals.total;
    made["min_positive"] = totals.min_positive;
    made["items"] = totals.items;
    made["inserts"] = totals.inserts;
    made["samples"] = totals.samples;
    made["applied_updates"] = totals.applied_updates;
    made["stale_updates"] = totals.stale_updates;
    return made;
  }
  [[nodiscard]] ShardClient& core() { return client_; }

 private:
  void forget(ShardClient::Ticket ticket) {
    client_.drop(ticket);
    batches_.erase(ticket);
  }

  std::shared_ptr<SharedBuffer> shared_;
  std::shared_ptr<BatchPool> pool_;
  ShardClient client_;
  std::map<ShardClient::Ticket, nb::object> batches_;
  bool in_use_ = false;
};

void make_client(ClientObject* place, const Arguments& arguments) {
  ShardClientOptions options;
  options.selector = arguments.get<std::size_t>(2);
  options.seed = arguments.get<std::uint64_t>(3);
  new (place) ClientObject(arguments.object<BufferObject>(0).shared, arguments.get<std::size_t>(1),
                           options, nb::handle(arguments[4]), arguments.get<bool>(5, false));
}

void make_limiter(ShardedLimiter* place, const Arguments& arguments) {
  new (place) ShardedLimiter(rate_limiter_from(nb::handle(arguments[0])),
                             arguments.get<std::size_t>(1), arguments.get<std::size_t>(2, 256));
}

void tell(ShardedLimiter& limiter, const Arguments& arguments) {
  constexpr std::size_t kMostShards = std::size_t{1} << 20U;
  const auto shard = arguments.get<std::size_t>(0);
  if (shard >= kMostShards) {
    throw std::invalid_argument("ShardedLimiter.tell: shard is " + std::to_string(shard) +
                                "; allowed: below " + std::to_string(kMostShards));
  }
  limiter.tell(shard, arguments.get<std::uint64_t>(1));
}

double balance(ShardedLimiter& limiter) {
  return limiter.balance().ahead;
}

constexpr const char* kPacker =
    R"(Records the steps that writers of a local buffer append, and packs them for ReplayShards, each of
which has a lane. An episode goes to the lane that has had the fewest steps.

The local buffer has the schema, window and selectors of the shards and checks every step as theirs
would. It needs room for a few windows only; give it rate_limiter=Unlimited(). Any thread.)";

constexpr const char* kMakePacker =
    R"(buffer: a ReplayBuffer without writers yet. RuntimeError if it has any, or a packer.
writer_id: 64 bits that no other remote writer has, of lane 0; lane i has the id writer_id + i. None
takes them at random. lanes: how many, one for each shard. first_lane: of the first episode.
longest_run: after so many steps in one lane an episode goes on in another that has had fewer steps,
where it begins in the middle; None for never.)";

constexpr const char* kShard =
    R"(Serves a buffer to remote writers and remote learners, beside its own writers and samplers. Any
thread. Shipments of one writer exclude each other, and so do exchanges.)";

constexpr const char* kMakeShard =
    R"(buffer: a ReplayBuffer. ValueError for one with max_times_sampled, or a selector that draws in
an order, by rank, or by a sum or an age over the whole buffer: such draws need all shards at one
moment.
seed: of its draws. incarnation: 64 bits, others after each restart; None takes them at random.)";

constexpr const char* kAppend =
    R"(Appends the steps of a shipment. AppendResult(steps, repeated, restarted).

timeout: seconds that it may wait for room; None waits for ever. After a TimeoutError a part may be
in: append the shipment again, and it goes on where it stopped.
ValueError for bytes that are no shipment of this schema and window, are damaged, or come after a
later shipment of their writer; then nothing has changed. Closed; RuntimeError beyond max_writers.)";

constexpr const char* kClient =
    R"(Draws batches from several shards as if they were one buffer; the caller carries the bytes.

    for shard in range(4):
        client.answer(shard, carry(shard, client.request(shard)))   # ReplayShard.exchange there
    ticket = client.begin(512)
    while waiting := client.waits_for(ticket):
        for shard in waiting: ...                                   # request, carry, answer
    batch, shards, incarnations = client.finish(ticket)
    client.update(batch.item_keys, shards, incarnations, priorities)

A draw's probability is the one with which it really was made, however old the totals are that the
client knows. One thread at a time.)";

constexpr const char* kMakeClient =
    R"(buffer: a small local ReplayBuffer with the schema and window of the shards.
shards: how many there are; they are numbered from 0. selector: its place in the buffers' options.
seed: of the rounding of draws to shards. allocator, unique_frames: as of ReplayBuffer.sampler.)";

constexpr const char* kBegin =
    R"(Begins a batch of n items: allots its draws to the shards by the totals known now. Returns a ticket.

beta, normalise: as Sampler.sample. draws: 'stratified' or 'independent'.
NothingToDraw if no shard is known to have weight.)";

constexpr const char* kLose =
    R"(A shard is gone, or its answers are given up: they are refused from now on. Batches for which it has
not answered make all its draws again among the others. Updates that were queued for it, or on
their way, count as stale, or are queued for its successor if it was restarted. It is drawn from
again once it has answered a later request.)";

constexpr const char* kUpdate =
    R"(Queues updates of priorities for the next requests, or the next `lose`. Returns how many are stale
at once, because their shard has restarted without these items. Give none for a shard that you know
to be gone.

keys: int64 [n]. shards, incarnations: uint32 and uint64 [n], as `finish` gave them.
priorities: float32 [n]. ValueError as ReplayBuffer.update_priorities.)";

constexpr const char* kLimiter =
    R"(A rate limiter over the sums of all shards: writers ask it for credit, learners for permission, both
with the bound that it has in one buffer. It never waits. Any thread.)";

constexpr const char* kMakeLimiter =
    R"(rate_limiter: SampleToInsertRatio, MinSize or Unlimited; ValueError for Queue.
capacity_steps: of all shards together. max_writers: of all remote writers.)";

void bind_shard_side(nb::module_& module) {
  Type<PackerObject>("StepPacker", kPacker)
      .constructor<&make_packer>(
          "__init__(self, buffer: ReplayBuffer, *, writer_id: int | None = None, lanes: int = 1, "
          "first_lane: int = 0, longest_run: int | None = None) -> None",
          kMakePacker)
      .method<&PackerObject::take>(
          "take(self, lane: int = 0) -> NDArray[np.uint8] | None",
          R"(The steps of a lane since the last call as one shipment; None if there are none, and no end of an
episode. Send the shipments of a lane one after the other, and keep each until it was appended:
appended again, it changes nothing.)")
      .method<&PackerObject::empty>("empty(self, lane: int = 0) -> bool",
                                    "Whether `take` would give None.")
      .forward<&StepPacker::steps_in>("steps_in(self, lane: int) -> int",
                                      "Steps of a lane that were not taken.")
      .static_method<&steps_of>("steps_of(shipment: Any) -> int",
                                "The steps in a shipment. ValueError for bytes that are none.")
      .forward_property<&StepPacker::steps>("steps(self) -> int",
                                            "Steps that were not taken, of all lanes.")
      .forward_property<&StepPacker::most_steps>("most_steps(self) -> int",
                                                 "Those of the lane that has the most.")
      .forward_property<&StepPacker::bytes>("nbytes(self) -> int",
                                            "About the bytes of these steps.")
      .forward_property<&StepPacker::writer_id>("writer_id(self) -> int",
                                                "The id of the remote writer of lane 0.")
      .property<&PackerObject::sequence>("sequence(self) -> int",
                                         "Number of the next shipment of lane 0.")
      .add(module);
  Type<ShardObject>("ReplayShard", kShard)
      .constructor<&make_shard>(
          "__init__(self, buffer: ReplayBuffer, *, seed: int = 0, "
          "incarnation: int | None = None) -> None",
          kMakeShard)
      .method<&ShardObject::append>(
          "append(self, shipment: Any, *, timeout: float | None = None) -> AppendResult", kAppend)
      .forward<&ReplayShard::close_writer, true>(
          "close_writer(self, writer_id: int) -> int",
          R"(The remote writer has ended or is lost: its episodes end as truncated at their last step here.
Returns how many environments it had; 0 if it is unknown.)")
      .method<&ShardObject::exchange>(
          "exchange(self, request: Any) -> NDArray[np.uint8]",
          R"(Does what a ShardClient asks, updates first, then draws; the answer. ValueError for bytes that are no
request of this schema and window, or are damaged; then nothing has changed. Updates of keys that
this buffer never gave are stale, as of a shard that is gone.)")
      .forward_property<&ReplayShard::incarnation>("incarnation(self) -> int", "Of this shard.")
      // Without the GIL: it waits for appends under way.
      .forward_property<&ReplayShard::writers, true>("writers(self) -> int",
                                                     "Remote writers, not closed.")
      .add(module);
}

void bind_learner_side(nb::module_& module) {
  Type<ClientObject>("ShardClient", kClient)
      .constructor<&make_client>(
          "__init__(self, buffer: ReplayBuffer, shards: int, *, selector: int = 0, seed: int = 0, "
          "allocator: Callable[[int], Any] | None = None, unique_frames: bool = False) -> None",
          kMakeClient)
      .method<&ClientObject::begin>(
          "begin(self, n: int, *, beta: float = 0.4, normalise: _Normalise = 'by_batch', "
          "draws: _Draws = 'stratified') -> int",
          kBegin)
      .method<&ClientObject::request>(
          "request(self, shard: int, *, timeout: float = 0.0) -> NDArray[np.uint8]",
          R"(What to send to a shard now: its updates, and the draws of all batches begun for which it was not
asked. Ask every shard in each round trip, also for no draw. timeout: seconds that the shard may
wait for items.)")
      .method<&ClientObject::answer>(
          "answer(self, shard: int, answer: Any) -> None",
          R"(Takes the answer to a request, in any sequence, each once. ValueError for another one, or for bytes
that are damaged; then nothing has changed.)")
      .method<&ClientObject::lose>("lose(self, shard: int, restarted: bool = False) -> None", kLose)
      .method<&ClientObject::waits_for>(
          "waits_for(self, ticket: int) -> list[int]",
          R"(Shards that have to answer before the batch is ready; empty if it is. NothingToDraw if all its
shards are lost or empty; then the ticket is gone.)")
      .method<&ClientObject::finish>(
          "finish(self, ticket: int) -> tuple[Batch, NDArray[np.uint32], NDArray[np.uint64]]",
          R"(The batch, and for each item its shard and that shard's incarnation. RuntimeError unless it is
ready.)")
      .method<&ClientObject::drop>("drop(self, ticket: int) -> None", "Gives a batch up.")
      .method<&ClientObject::update>(
          "update(self, keys: NDArray[np.int64], shards: NDArray[np.uint32], "
          "incarnations: NDArray[np.uint64], priorities: ArrayLike) -> int",
          kUpdate)
      .method<&ClientObject::totals>(
          "totals(self, shard: int) -> dict[str, Any]",
          R"(What a shard last answered: total and min_positive, of its weights; items, inserts, samples,
applied_updates, stale_updates, incarnation; alive: it has answered and was not lost since.)")
      .forward_property<&ShardClient::shards>("shards(self) -> int", "How many shards there are.")
      .forward_property<&ShardClient::stale_updates>(
          "stale_updates(self) -> int", "Updates that were stale here, not in a shard.")
      .forward_property<&ShardClient::reallotted>("reallotted(self) -> int",
                                                  "Draws that were made again among other shards.")
      .add(module);
  Type<ShardedLimiter>("ShardedLimiter", kLimiter)
      .constructor<&make_limiter>(
          "__init__(self, rate_limiter: _RateLimiter, capacity_steps: int, "
          "*, max_writers: int = 256) -> None",
          kMakeLimiter)
      .method<&tell>(
          "tell(self, shard: int, items: int) -> None",
          "The items that a shard has, in place of what was told before; 0 once it is lost.")
      .forward<&ShardedLimiter::credit>(
          "credit(self) -> int",
          "Steps that a writer may append now; 0: ask again once something has changed.")
      .forward<&ShardedLimiter::return_credit>("return_credit(self, steps: int) -> None",
                                               "Gives back credit that was not used.")
      .forward<&ShardedLimiter::admit>(
          "admit(self, n: int) -> bool",
          R"(Whether a batch of n may be drawn; if so, it is counted. ValueError for one that never could.)")
      .forward<&ShardedLimiter::return_samples>("return_samples(self, n: int) -> None",
                                                "Takes back the count of draws that were not made.")
      .forward<&ShardedLimiter::insert>(
          "insert(self, steps: int) -> bool",
          R"(Counts steps that are about to be appended; False: not now, and nothing is counted. In place of
credit, for whole shipments. ValueError for more than error_buffer / samples_per_insert.)")
      .forward<&ShardedLimiter::restore>(
          "restore(self, inserts: int, samples: int) -> None",
          "Sets the sums, for a limiter that continues another one. Before any other call.")
      .forward_property<&ShardedLimiter::inserts>("inserts(self) -> int", "Steps counted so far.")
      .forward_property<&ShardedLimiter::samples>("samples(self) -> int", "Items counted so far.")
      .property<&balance>("balance(self) -> float",
                          "Sampled items ahead of the ratio; negative if inserts are ahead.")
      .add(module);
}

}  // namespace

void bind_remote(nb::module_& module) {
  bind_shard_side(module);
  bind_learner_side(module);
}

}  // namespace reprise::python
