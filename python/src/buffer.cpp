#include "buffer.hpp"

#include <reprise/reprise.hpp>

#include "guest.hpp"
#include "options.hpp"

#include <pthread.h>

namespace reprise::python {

template <>
inline constexpr auto members_of<WaitStats> =
    members<&WaitStats::waits, &WaitStats::timeouts, &WaitStats::stops, &WaitStats::waiting_now,
            &WaitStats::waiting_for, &WaitStats::total, &WaitStats::longest>;
template <>
inline constexpr auto members_of<Stats> =
    members<&Stats::committed_steps, &Stats::evicted_steps, &Stats::resident_steps,
            &Stats::excess_steps, &Stats::items, &Stats::pending_steps, &Stats::sampled_items,
            &Stats::sampled_batches, &Stats::applied_updates, &Stats::stale_updates,
            &Stats::outdated_items, &Stats::ever_outdated_items, &Stats::version, &Stats::writers,
            &Stats::queued_chunks, &Stats::retired_pinned, &Stats::chunks, &Stats::chunks_touched,
            &Stats::chunk_bytes, &Stats::reserved_bytes, &Stats::touched_bytes,
            &Stats::compressed_bytes, &Stats::uncompressed_bytes, &Stats::file_bytes,
            &Stats::closed_chunks, &Stats::writer_ingests, &Stats::guests, &Stats::dead_guest_steps,
            &Stats::cut_episodes, &Stats::unsaved_steps, &Stats::samples_per_insert,
            &Stats::limiter, &Stats::writers_for_chunk, &Stats::writers_for_limiter,
            &Stats::samplers_for_items, &Stats::samplers_for_limiter>;

namespace {

void make(BufferObject* place, Schema& schema, std::size_t capacity_steps, const Options& given) {
  Options options = given;
  options.capacity_steps = capacity_steps;
  new (place) BufferObject(std::make_shared<SharedBuffer>(ReplayBuffer(schema, options)));
}

Py_ssize_t size_of(BufferObject& self) {
  return static_cast<Py_ssize_t>(without_gil([&] { return self.buffer().size(); }));
}

template <class Self>
nb::object stats_of(Self& self) {
  return to_python(without_gil([&] { return self.shared->stats(); }));
}

nb::object schema_of(BufferObject& self) {
  return make_object<Schema>(self.buffer().schema());
}

template <class Self>
nb::object options_of(Self& self) {
  nb::dict options;
  options["capacity_steps"] = self.buffer().options().capacity_steps;
  options.update(nb::borrow<nb::dict>(to_python(self.buffer().options())));
  return options;
}

void set_version(BufferObject& self, std::int64_t version) {
  without_gil([&] { self.buffer().set_version(version); });
}

void close(BufferObject& self) {
  self.buffer().close();
}

/// A capsule with the C++ buffer for other modules, which keeps the buffer alive.
nb::object capsule_of(BufferObject& self) {
  constexpr const char* kName = "reprise::ReplayBuffer " REPRISE_VERSION;
  using Shared = std::shared_ptr<SharedBuffer>;
  const auto destroy = [](PyObject* capsule) {
    delete static_cast<Shared*>(PyCapsule_GetContext(capsule));
  };
  nb::object capsule = checked(PyCapsule_New(&self.buffer(), kName, nullptr));
  if (PyCapsule_SetContext(capsule.ptr(), new Shared(self.shared)) != 0 ||
      PyCapsule_SetDestructor(capsule.ptr(), destroy) != 0) {
    throw nb::python_error();
  }
  return capsule;
}

constexpr const char* kStats =
    R"(A dict of counters since the buffer was made, and of sizes at about this moment. While no
call is under way, committed_steps = resident_steps + excess_steps + evicted_steps + pending_steps.

committed_steps: steps appended.
evicted_steps: steps removed to keep within the capacity.
resident_steps: steps in the buffer, at most its capacity.
excess_steps: steps above the capacity, about to be removed.
items: items that can be drawn; with Transitions each resident step is an item. Steps appended since
  the last draw, update of priorities or len() may be missing here. len() looks first: wait by
  `while len(replay) < n`.
pending_steps: steps appended whose window is not complete, or that no call has looked at yet.
sampled_items: items drawn.
sampled_batches: batches drawn.
applied_updates: priorities that update_priorities set.
stale_updates: priorities for items that were gone.
outdated_items: items in the buffer that are more than max_staleness versions behind, so not drawn.
ever_outdated_items: items that became outdated while they could still be drawn.
version: the last set_version.
writers: writers open now.
queued_chunks: chunks of memory with appended steps that no call has looked at yet.
retired_pinned: evicted chunks from which a sample still copies.
chunks: chunks in total.
chunks_touched: chunks ever used.
chunk_bytes: bytes of one chunk's steps.
reserved_bytes: bytes of address space; memory is taken only where touched.
touched_bytes: bytes of memory in use, about; without steps in a mapped file.
compressed_bytes: bytes that compressed observations take.
uncompressed_bytes: bytes that the same observations would take without compression.
file_bytes: bytes of disk space that the mapped file takes; 0 without one.
closed_chunks: chunks filled.
writer_ingests: times a writer took a shard's lock to make room itself.
guests: processes attached to the buffer.
dead_guest_steps: steps taken from attached processes after their death.
cut_episodes: episodes that ended as truncated because their process died.
unsaved_steps: steps appended that the newest save does not have; all of them if there was none. Up
to n_step - 1 of each open episode count though a load has them: there the episode is cut off.
samples_per_insert: sampled_items / committed_steps, a float; 0 before the first step.
limiter: the rate limiter's state, a sentence.
writers_for_chunk: waits of appends for memory, a dict as below.
writers_for_limiter: waits of appends for the rate limiter, likewise.
samplers_for_items: waits of samples for enough items, likewise.
samplers_for_limiter: waits of samples for the ratio of samples to inserts, likewise.

The dicts of waits. A call that waits counts as one wait; in append_episode and in vector writers
each step that waits does:

waits: waits that have ended.
timeouts: ended waits that ran out of time; with timeout=0 as well.
stops: ended waits that an exception of a signal handler (KeyboardInterrupt) or the close of a
prefetcher ended.
waiting_now: calls that wait now.
waiting_for: seconds for which at least one call has been waiting without a break; 0 if none waits.
total: seconds of all waits that have ended.
longest: seconds of the longest wait that has ended.

Takes each shard's lock briefly.)";

constexpr const char* kDoc =
    R"(An in-process experience replay buffer: many writers append, several samplers draw and update.

    buffer = reprise.ReplayBuffer(schema, 1_000_000, window=reprise.Transitions(n_step=3))
    with buffer.writer() as writer: ...
    sampler = buffer.sampler(seed=1)
    batch = sampler.sample(256)
    buffer.update_priorities(batch.item_keys, np.abs(td_errors))

Every method but `restore` may be called from any thread, of Python and of C++, at once. Writers,
samplers and prefetchers keep the buffer alive. `with` closes it.

It works only in the process that made it: in a forked child every call of the buffer, its writers,
samplers and prefetchers that reads or changes what is in the buffer raises RuntimeError, and so does
giving the buffer to another process. Other processes attach to it: see `share`. pickle and copy
make another buffer with the same items.)";

constexpr const char* kSelector =
    R"(One selector of a buffer, which keeps the weights by which items are drawn; made by
ReplayBuffer.selector. The handle keeps the buffer alive. Any thread may call it.)";

constexpr const char* kInit =
    R"(capacity_steps: steps guaranteed resident; a full buffer holds exactly this many. With sequences at
  least burn_in + length, and the period.
window: what an item spans: Transitions, the default, or Sequences.
selectors: how items are drawn: one, or a sequence of them, which keep their own weights over the
  same items; `selector(i)` is one of them by its place. Proportional() by default.
remover: which steps leave a full buffer; Fifo() by default.
rate_limiter: when samplers and writers have to wait; MinSize(1) by default.
max_times_sampled: draws after which an item is not drawn any more, and leaves before others; 0: no
  limit. A Queue needs one.
max_staleness: versions of the policy (`Schema.version`, which it needs) that an item may be behind
  `set_version`: no sampler or selector draws an item that is more behind, and the item leaves before
  others, unless max_writers chunks of its shard are partly empty: then fresh steps may leave before
  it. None: no bound. The rate limiter counts the items that can be drawn.
episode_index: whether there is `episodes()`. It costs 8 bytes for each run of up to chunk_steps
  steps of an episode, in 8 to 16 bytes of address space a row, and about 5 ns an append.
max_writers: writers alive at once; each may hold a chunk on top of the capacity.
chunk_steps: rows per chunk. shards: parts with a lock each, 1 to 256. 0 lets the buffer choose. A
  capacity of at least a few chunks for each writer keeps old steps of slow writers from filling it.
key_tag: a number in each of the buffer's keys, 0 to 4095, by which it refuses keys of buffers with
  another tag; None takes one at random, 1 to 4095.
storage: None keeps steps in memory. The path of a directory on a local disk keeps them in a mapped
  file there, for buffers larger than memory; the file has no name and goes with the buffer. OSError
  if there is no such directory.

Address space is reserved for everything, memory taken as steps arrive. ValueError naming the
option, its value and what is allowed; TypeError for an option of the wrong kind; MemoryError if the
system refuses the memory; OSError if it refuses the file or the disk space.)";

constexpr const char* kCapsule =
    R"(The C++ buffer, for C++ threads that share it: a PyCapsule of a reprise::ReplayBuffer*, named
"reprise::ReplayBuffer " and the version, which keeps the buffer alive. For extension modules built
with the same version and compiler; C++'s rules hold for what they call, and none of their calls may
be under way beside `restore`.)";

}  // namespace

unsigned Origin::fork_depth() noexcept {
  static unsigned depth = 0;
  // Runs once, in the first call. From then on each child adds 1 to its own copy as it begins.
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++depth; });
  static_cast<void>(registered);
  return depth;
}

void Origin::check_open(const char* call, unsigned expected_count) {
  if (refuses_steps()) {
    throw Closed(std::string(call) + ": the buffer is closed; no step was taken");
  }
  if (restore_count != expected_count) {
    throw Closed(std::string(call) + ": the buffer was restored since; make another writer");
  }
}

void Origin::refuse_beside_restore(const char* call) {
  throw std::logic_error(std::string(call) +
                         ": ReplayBuffer.restore of this buffer is under way in another thread");
}

InUse Origin::restoring() {
  const unsigned others = calls_ - 1;  // `restore` itself is one of the calls under way.
  if (others != 0) {
    fail<std::logic_error>("ReplayBuffer.restore: ", others,
                           others == 1 ? " other call" : " other calls",
                           " of this buffer, its writers, samplers or prefetchers ",
                           others == 1 ? "is" : "are", " under way; allowed: none");
  }
  return {restoring_, "ReplayBuffer.restore"};
}

template <class Self>
void add_stats(Type<Self>& type) {
  type.template method<&stats_of<Self>>("stats", "dict[str, Any]", kStats);
}
template void add_stats(Type<GuestObject>& type);

void bind_buffer(nb::module_& module) {
  Type<BufferObject> type("ReplayBuffer", kDoc);
  type.constructor<&make>(kInit, arg("schema"), arg("capacity_steps"));
  Type<SelectorObject> selector("SelectorHandle", kSelector);
  add_writer(type);
  add_vector_writer(type);
  add_sampler(type);
  add_sampler(selector);
  add_prefetch(type);
  add_prefetch(selector);
  add_update_priorities(type);
  add_stats(type);
  bind_selector(type, selector);
  selector
      .property<&options_of<SelectorObject>>("options", "dict[str, Any]",
                                             "The buffer's options, as ReplayBuffer.options.")
      .add(module);
  bind_episodes(module, type);
  bind_writer(module);
  bind_vector_writer(module);
  bind_sampler(module);
  bind_prefetcher(module);
  bind_mirror(module);
  bind_hindsight(module, type);
  bind_host(module, type);
  bind_updates(type);
  bind_items(type);
  bind_checkpoints(module, type);
  type.special<&size_of>(Py_mp_length, "__len__(self) -> int")
      .property<&schema_of>("schema", "Schema", "A copy of the schema.")
      .property<&options_of<BufferObject>>(
          "options", "dict[str, Any]",
          "The options by the names of the constructor's arguments, with every default filled in.")
      .property<&capsule_of>("capsule", "Any", kCapsule)
      .property<&ReplayBuffer::closed>("closed", "True after `close`.")
      .property<&ReplayBuffer::version>("version", "The last `set_version`; 0 before the first.")
      .method<&set_version>(
          "set_version",
          R"(Tells the buffer the version of the learner's policy, from which max_staleness is counted. The
version never falls: a lower one changes nothing. No draw that begins after this call gives an item
that the call made outdated; batches drawn before, such as a Prefetcher's, may still have such
items. ValueError for a version below 0, and for a schema without a version.)",
          arg("version"))
      .method<&close>(
          "close",
          R"(Ends every wait, now and later: samplers and writers then raise Closed. Counters, saves and updates
still work.)")
      .closes<&close>()
      .add(module);
}

}  // namespace reprise::python
