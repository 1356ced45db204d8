#include <reprise/guest.hpp>
#include <reprise/host.hpp>
#include <reprise/remote.hpp>

#include "buffer.hpp"
#include "fields/blobs.hpp"
#include "options.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// ReplayShard, a shard of a buffer over many processes, and ShardConnection, by which another
/// process of the same machine calls it.
namespace reprise::python {

template <>
inline constexpr auto members_of<AppendResult> =
    members<&AppendResult::steps, &AppendResult::repeated, &AppendResult::restarted>;
template <>
inline constexpr auto members_of<DeliveryCounts> =
    members<&DeliveryCounts::restarted_episodes, &DeliveryCounts::silent_writers_closed>;

namespace {

struct ShardObject {
  [[nodiscard]] SharedBuffer::Call enter(const char* call) const { return {*shared, call}; }
  [[nodiscard]] ReplayShard& core() { return *shard; }

  nb::object append(CallName call, const Bytes& shipment, std::chrono::nanoseconds timeout) {
    SignalHook hook([this] { return shared->stats(); });
    const AppendResult result =
        hook.wait(timeout, [&] { return shard->append(shipment.bytes, timeout, &hook); });
    if (result.status == CommitStatus::Closed) {
      throw Closed(std::string(call.text) + ": closed");
    }
    if (result.status != CommitStatus::Committed) {
      fail<TimedOut>(call.text, ": timed out with ", result.steps,
                     " steps appended; append the shipment again for the others");
    }
    return named_tuple("AppendResult", result);
  }
  nb::object exchange(const Bytes& request) {
    constexpr std::chrono::seconds kLongestTimeout(1'000'000'000);  // As in `ShardClient.request`.
    SignalHook hook([this] { return shared->stats(); });
    return array_of(hook.wait(kLongestTimeout,
                              [&] { return shard->exchange(request.bytes, /*room=*/{}, &hook); }));
  }
  nb::object append_all(const Bytes& call, std::chrono::nanoseconds timeout,
                        std::optional<std::size_t> most) {
    constexpr std::size_t kAll = ~std::size_t{0};
    SignalHook hook([this] { return shared->stats(); });
    return array_of(hook.wait(timeout, [&] {
      return shard->append_all(call.bytes, timeout, most.value_or(kAll), &hook);
    }));
  }
  nb::object share(std::string address) {
    return make_host(shared, {.address = std::move(address),
                              .service = [served = shard](std::span<const std::byte> call,
                                                          const BlobAllocator& room) {
                                return served->serve(call, room);
                              }});
  }

  const std::shared_ptr<SharedBuffer> shared;
  const std::shared_ptr<ReplayShard> shard;
};

void make_shard(ShardObject* place, BufferObject& buffer, std::optional<std::uint64_t> seed,
                std::optional<std::uint64_t> incarnation, std::chrono::nanoseconds silent,
                std::chrono::nanoseconds forgotten) {
  new (place) ShardObject{
      buffer.shared,
      std::make_shared<ReplayShard>(buffer.buffer(), seed, incarnation,
                                    ShardPatience{.silent = silent, .forgotten = forgotten})};
}

nb::object deliveries(ReplayShard& shard) {
  return to_python(shard.deliveries());
}

/// Writers' ids and their shipments, whose bytes are read in place.
struct ShipmentList {
  std::vector<Bytes> owners;  ///< Keep the bytes of the shipments.
  std::vector<ShipmentOf> shipments;
};

nb::object packed_shipments(std::uint64_t process, std::uint64_t incarnation,
                            const ShipmentList& list) {
  return array_of(without_gil([&] { return shipments_of(process, incarnation, list.shipments); }));
}

nb::object parse_state(const Bytes& answer) {
  const ShardState state = state_of(answer.bytes);
  return nb::make_tuple(state.incarnation, state.committed, state.closed, state.done);
}

nb::object parse_outcomes(const Bytes& answer) {
  nb::list outcomes;
  for (const auto& [kind, steps, reason] : outcomes_of(answer.bytes)) {
    outcomes.append(nb::make_tuple(static_cast<unsigned>(kind), steps, text_of(reason)));
  }
  return outcomes;
}

struct ConnectionObject {
  explicit ConnectionObject(const std::string& address) : client(address) {}

  void ask(std::uint64_t number, const Bytes& call) {
    const GilRelease released;
    client.ask(number, call.bytes);
  }
  nb::object take() {
    nb::list answers;
    while (const auto answer = without_gil([&] { return client.take(); })) {
      answers.append(
          nb::make_tuple(answer->number, answer->error ? nb::none() : array_of(answer->bytes)));
    }
    return answers;
  }
  [[nodiscard]] bool closed() const { return client.closed(); }

  ServiceClient client;
};

void make_connection(ConnectionObject* place, const std::string& address) {
  new (place) ConnectionObject(address);
}

/// The connections of a call, whose objects `list` keeps while the call runs.
struct Connections {
  nb::object list;
  std::vector<ServiceClient*> clients;
};

bool wait(const Connections& connections, std::chrono::nanoseconds timeout) {
  const GilRelease released;
  return ServiceClient::wait(connections.clients, timeout);
}

constexpr const char* kShard =
    R"(Serves a buffer to remote writers and remote learners, beside its own writers and samplers. Any
thread may call it; calls with shipments of one writer take turns, and so do exchanges.)";

constexpr const char* kMakeShard =
    R"(buffer: a ReplayBuffer. ValueError for a buffer with max_times_sampled, or with a selector that draws
in an order, by rank, or by a sum or an age over the whole buffer, because such draws need all shards
at one moment; also for one with a mutable column, because no request replaces its values.
seed: of its draws; None: the incarnation, because shards with equal seeds would draw by the same
random numbers. incarnation: 64 bits, different ones after each restart; None: at random.
silent: a process that was not heard of for this many seconds, without a call under way, loses its
writers if others need their places. forgotten: after this many seconds the writers of a silent
process are closed, and answers that a silent client did not take are forgotten.)";

constexpr const char* kAppend =
    R"(Appends the steps of a shipment. AppendResult(steps, repeated, restarted).

timeout: seconds that the call may wait for room; None waits for ever. At a TimeoutError a part may
be appended: append the shipment again, which appends the rest.
ValueError for bytes that are no shipment of this schema and window, are damaged, or come after a
later shipment of their writer; then nothing has changed. Closed if the buffer is closed;
RuntimeError for more remote writers than max_writers.)";

constexpr const char* kAppendAll =
    R"(Appends the first `most` of the shipments that `shipments_of` has packed, each as `append`.
The answer has their outcomes (`outcomes_of`): after a shipment that was refused, later ones of its
writer are refused too. timeout: seconds that shipments may wait for room; once these seconds are
over, no shipment begins to wait.)";

constexpr const char* kConnection =
    R"(Calls of a ReplayShard in another process of this machine, at the address of its `share`: `ask`
sends a request of ShardClient, or shipments, and `take` gives the answers. Neither waits for the
shard; a connection whose shard is gone is `closed`. Any thread.)";

}  // namespace

template <>
struct Conversion<ShipmentList> {
  static std::string hint() { return "Iterable[tuple[int, Any]]"; }
  static ShipmentList from(nb::handle given, ArgumentName argument) {
    ShipmentList list;
    for (const nb::handle pair : nb::iter(given)) {
      const nb::object bytes = pair[1];
      list.owners.push_back(bytes.is_none() ? Bytes{} : Conversion<Bytes>::from(bytes, argument));
      list.shipments.push_back({Conversion<std::uint64_t>::from(nb::object(pair[0]), argument),
                                list.owners.back().bytes});
    }
    return list;
  }
};
template <>
struct Conversion<Connections> {
  static std::string hint() { return "Iterable[ShardConnection]"; }
  static Connections from(nb::handle given, ArgumentName argument) {
    Connections connections{nb::steal(PySequence_List(given.ptr())), {}};
    for (const nb::handle object : nb::iter(connections.list)) {
      connections.clients.push_back(&Conversion<ConnectionObject*>::from(object, argument)->client);
    }
    return connections;
  }
};

void bind_shard(nb::module_& module) {
  Type<ShardObject>("ReplayShard", kShard)
      .constructor<&make_shard>(kMakeShard, arg("buffer"), keyword("seed", std::nullopt),
                                keyword("incarnation", std::nullopt),
                                keyword("silent", ShardPatience().silent),
                                keyword("forgotten", ShardPatience().forgotten))
      .method<&ShardObject::append>("append", "AppendResult", kAppend, arg("shipment"),
                                    keyword("timeout", kNoTimeout))
      .method<&ReplayShard::close_writer, true>(
          "close_writer",
          R"(Closes a remote writer that has ended or is lost: its episodes end as truncated at
their last step here. Returns how many environments it had; 0 if the writer is unknown.)",
          arg("writer_id"))
      .method<&ShardObject::exchange>(
          "exchange", "NDArray[np.uint8]",
          R"(Does what a ShardClient asks, updates first, then draws. Returns the answer. ValueError for
bytes that are no request of this schema and window, or are damaged; then nothing has changed.
Updates of keys that this buffer never gave count as stale, as if their shard were gone.)",
          arg("request"))
      .method<&ShardObject::append_all>("append_all", "NDArray[np.uint8]", kAppendAll, arg("call"),
                                        keyword("timeout", kNoTimeout),
                                        keyword("most", std::nullopt))
      .method<&ReplayShard::note_alive>(
          "note_alive", "Notes that a process that sends shipments is alive, as `append_all` does.",
          arg("process"))
      .method<&ReplayShard::is_silent>(
          "is_silent",
          "Whether a process that sends shipments was not heard of for `silent` seconds.",
          arg("process"))
      .method<&ShardObject::share>(
          "share", "Host",
          "Serves ShardConnections at this address, by a thread that never takes the GIL.",
          arg("address"))
      .static_method<&packed_shipments>(
          "shipments_of", "NDArray[np.uint8]",
          R"(Packs shipments of writers of one process for one call of `append_all`. shipments: pairs of a
writer's id and its shipment, which is None if the writer has ended. process: 64 bits that no other
process has. incarnation: that of the shard which the shipments are for; 0: any incarnation.)",
          arg("process"), arg("incarnation"), arg("shipments"))
      .static_method<&parse_state>(
          "state_of", "tuple[int, int, bool, bool]",
          R"(What an answer of a shard says of the shard: its incarnation, the steps committed there, whether it
is closed, and whether it did what it was asked, which it refuses if asked for another incarnation.)",
          arg("answer"))
      .static_method<&parse_outcomes>(
          "outcomes_of", "list[tuple[int, int, str]]",
          R"(The outcomes in an answer of `append_all`, one for each shipment. The first number says whether it
is appended: 0: it is; 1: there was no room for all of it; 2: more writers than max_writers; 3: the
buffer is closed; 4: wrong bytes; 5: an error of the system; 6: no memory; 7: another error. Then
the steps appended by this call, and the message of the error.)",
          arg("answer"))
      .property<&deliveries>(
          "deliveries", "dict[str, int]",
          "Sums over all calls of `append_all`: restarted_episodes and silent_writers_closed.")
      .property<&ReplayShard::incarnation>("incarnation",
                                           "The number of this incarnation of the shard.")
      .property<&ReplayShard::writers>("writers",
                                       "The number of remote writers that are not closed.")
      .add(module);
  Type<ConnectionObject>("ShardConnection", kConnection)
      .constructor<&make_connection>("OSError if nobody listens at the address.", arg("address"))
      .method<&ConnectionObject::ask>("ask", "Sends a call under a number of the caller's.",
                                      arg("number"), arg("call"))
      .method<&ConnectionObject::take>(
          "take", "list[tuple[int, Any]]",
          R"(The answers that have come, each with the number of its call; None for one that the shard refused
with an error.)")
      .static_method<&wait>(
          "wait", "bool",
          "Waits until one of the connections may have an answer or be closed; False after the\n"
          "timeout.",
          arg("connections"), arg("timeout"))
      .property<&ConnectionObject::closed>("closed", "Whether the shard is gone.")
      .add(module);
}

}  // namespace reprise::python
