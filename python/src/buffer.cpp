#include <reprise/reprise.hpp>

#include "buffer_object.hpp"
#include "hindsight.hpp"
#include "options.hpp"
#include "sampler.hpp"
#include "writer.hpp"

#include <chrono>
#include <string>

namespace reprise::python {
namespace {

void make(BufferObject* place, const Arguments& arguments) {
  const Options options = options_from(arguments);
  new (place) BufferObject(
      std::make_shared<SharedBuffer>(ReplayBuffer(arguments.object<Schema>(0), options)));
}

nb::object make_writer(BufferObject& self, const Arguments& arguments) {
  const std::chrono::nanoseconds timeout(arguments.timeout_ns(0));
  return make_object<WriterObject>(
      self.shared, std::make_shared<WriterGroup>(self.buffer(), std::nullopt, timeout),
      std::size_t{0});
}

nb::object make_sampler(BufferObject& self, const Arguments& arguments) {
  SamplerOptions options;
  options.seed = arguments.get<std::uint64_t>(0);
  options.selector = arguments.get<std::size_t>(1);
  options.resume = arguments.optional<std::size_t>(3);
  options.unique_frames = arguments.get<bool>(4, false);
  options.fresh = arguments.get<float>(5, options.fresh);
  return make_object<SamplerObject>(self.shared, options, nb::handle(arguments[2]));
}

Py_ssize_t size_of(BufferObject& self) {
  return static_cast<Py_ssize_t>(without_gil([&] { return self.buffer().size(); }));
}

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

nb::dict waits_dict(const WaitStats& waits) {
  nb::dict made;
  made["waits"] = waits.waits;
  made["timeouts"] = waits.timeouts;
  made["stops"] = waits.stops;
  made["waiting_now"] = waits.waiting_now;
  made["waiting_for"] = seconds(waits.waiting_for);
  made["total"] = seconds(waits.total);
  made["longest"] = seconds(waits.longest);
  return made;
}

nb::object stats_of(BufferObject& self) {
  const Stats stats = without_gil([&] { return self.buffer().stats(); });
  nb::dict made;
#define REPRISE_STAT(name) made[#name] = stats.name
  REPRISE_STAT(committed_steps);
  REPRISE_STAT(evicted_steps);
  REPRISE_STAT(resident_steps);
  REPRISE_STAT(excess_steps);
  REPRISE_STAT(items);
  REPRISE_STAT(pending_steps);
  REPRISE_STAT(sampled_items);
  REPRISE_STAT(sampled_batches);
  REPRISE_STAT(applied_updates);
  REPRISE_STAT(stale_updates);
  REPRISE_STAT(writers);
  REPRISE_STAT(queued_chunks);
  REPRISE_STAT(retired_pinned);
  REPRISE_STAT(chunks);
  REPRISE_STAT(chunks_touched);
  REPRISE_STAT(chunk_bytes);
  REPRISE_STAT(reserved_bytes);
  REPRISE_STAT(touched_bytes);
  REPRISE_STAT(compressed_bytes);
  REPRISE_STAT(uncompressed_bytes);
  REPRISE_STAT(file_bytes);
  REPRISE_STAT(closed_chunks);
  REPRISE_STAT(writer_ingests);
  REPRISE_STAT(samples_per_insert);
#undef REPRISE_STAT
  made["writers_for_chunk"] = waits_dict(stats.writers_for_chunk);
  made["writers_for_limiter"] = waits_dict(stats.writers_for_limiter);
  made["samplers_for_items"] = waits_dict(stats.samplers_for_items);
  made["samplers_for_limiter"] = waits_dict(stats.samplers_for_limiter);
  made["limiter"] = text_of(stats.limiter);
  return made;
}

nb::object schema_of(BufferObject& self) {
  return make_object<Schema>(self.buffer().schema());
}

nb::object options_of(BufferObject& self) {
  return options_dict(self.buffer().options());
}

void close(BufferObject& self) {
  self.buffer().close();
}

/// The C++ buffer for other modules; keeps it alive.
nb::object capsule_of(BufferObject& self) {
  constexpr const char* kName = "reprise::ReplayBuffer " REPRISE_VERSION;
  using Shared = std::shared_ptr<SharedBuffer>;
  const auto destroy = [](PyObject* capsule) {
    delete static_cast<Shared*>(PyCapsule_GetContext(capsule));
  };
  nb::object made = checked(PyCapsule_New(&self.buffer(), kName, nullptr));
  if (PyCapsule_SetContext(made.ptr(), new Shared(self.shared)) != 0 ||
      PyCapsule_SetDestructor(made.ptr(), destroy) != 0) {
    throw nb::python_error();
  }
  return made;
}

constexpr const char* kStats =
    R"(Counters since the buffer was made and sizes at about this moment: a dict. While no call is under
way, committed_steps = resident_steps + excess_steps + evicted_steps + pending_steps.

committed_steps: steps appended.
evicted_steps: steps removed to keep within the capacity.
resident_steps: steps in the buffer, at most its capacity.
excess_steps: steps above the capacity, about to be removed.
items: items that can be drawn; of Transitions each step is one.
pending_steps: steps appended whose window is not complete, or not looked at yet.
sampled_items: items drawn.
sampled_batches: batches drawn.
applied_updates: priorities that update_priorities set.
stale_updates: priorities for items that were gone.
writers: writers open now.
queued_chunks: chunks of memory with appended steps not looked at yet.
retired_pinned: chunks evicted that a sample still copies from.
chunks: chunks in total.
chunks_touched: chunks ever used.
chunk_bytes: bytes of one chunk's steps.
reserved_bytes: bytes of address space; memory is taken only where touched.
touched_bytes: bytes of memory in use, about; without steps in a mapped file.
compressed_bytes: bytes that compressed observations take.
uncompressed_bytes: bytes that the same observations would take as they are.
file_bytes: bytes of disk space that the mapped file takes; 0 without one.
closed_chunks: chunks filled.
writer_ingests: times a writer took a shard's lock to make room itself.
samples_per_insert: sampled_items / committed_steps, a float; 0 before the first.
limiter: the rate limiter's state, a sentence.
writers_for_chunk: waits of appends for memory, a dict as below.
writers_for_limiter: waits of appends for the rate limiter, likewise.
samplers_for_items: waits of samples for enough items, likewise.
samplers_for_limiter: waits of samples for the ratio of samples to inserts, likewise.

The dicts of waits; a call that waits is one wait, of append_episode and of vector writers each step
that does:

waits: waits that have ended.
timeouts: of these, waits that ran out of time; with timeout=0 as well.
stops: of these, waits that an exception of a signal handler (KeyboardInterrupt) or the close of a
prefetcher ended.
waiting_now: calls that wait now.
waiting_for: seconds since when somebody has been waiting without a break; 0 if nobody is.
total: seconds of all waits that have ended.
longest: seconds of the longest of them.

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

It works in the process that made it alone: in a forked child every call of it, its writers,
samplers and prefetchers that reads or changes what is in the buffer raises RuntimeError. Make it
after the fork. Giving it to another process raises RuntimeError too; pickle and copy make another
buffer with the same items.)";

constexpr const char* kInit =
    R"(capacity_steps: steps guaranteed resident; a full buffer holds exactly this many. With Sequences at
  least burn_in + length, and the period.
window: what an item spans: Transitions, the default, or Sequences.
selectors: how items are drawn: one, or a sequence of them, which keep their own weights over the
  same items and are named by their place. Proportional() by default.
remover: which steps leave a full buffer; Fifo() by default.
rate_limiter: when samplers and writers have to wait; MinSize(1) by default.
max_times_sampled: draws after which an item is not drawn any more; 0: no limit. A Queue needs one.
episode_index: whether `find`, `update_episode_priorities`, `gather_episode` and `remove_episode`
  work. It costs 8 bytes for each run of up to chunk_steps steps of an episode, in 8 to 16 bytes of
  address space a row, and about 5 ns an append.
max_writers: writers alive at once; each may hold a chunk on top of the capacity.
chunk_steps: rows per chunk; 0 chooses. shards: parts with a lock each, 1 to 256; 0 chooses.
key_tag: tag of the buffer's keys, 0 to 4095, so that others are refused; None takes one at
  random, 1 to 4095.
storage: None keeps steps in memory. The path of a directory on a local disk keeps them in a mapped
  file there, for buffers larger than memory; the file has no name and goes with the buffer. OSError
  if there is no such directory.

Address space is reserved for everything, memory taken as steps arrive. ValueError naming the
option, its value and what is allowed; TypeError for an option of the wrong kind; MemoryError;
OSError if the file or the room for it cannot be had.)";

}  // namespace

void bind_buffer(nb::module_& module) {
  Type<BufferObject> type("ReplayBuffer", kDoc);
  type.constructor<&make>(
          "__init__(self, schema: Schema, capacity_steps: int, *, window: _Window | None = None, "
          "selectors: _Selector | Sequence[_Selector] | None = None, "
          "remover: _Remover | None = None, rate_limiter: _RateLimiter | None = None, "
          "max_times_sampled: int = 0, episode_index: bool = False, max_writers: int = 256, "
          "chunk_steps: int = 0, shards: int = 0, key_tag: int | None = None, "
          "storage: str | PathLike[str] | None = None) -> None",
          kInit)
      .method<&make_writer>(
          "writer(self, *, timeout: float | None = None) -> Writer",
          R"(A Writer for one environment. timeout: seconds that an append may wait for room, for a chunk or the
rate limiter; None waits for ever, 0 tries once. RuntimeError beyond max_writers.)")
      .method<&make_vector_writer>(
          "vector_writer(self, environments: int, *, autoreset: _Autoreset = 'same_step', "
          "timeout: float | None = None) -> VectorWriter",
          "What ReplayBuffer.vector_writer of _spaces.py calls, once it knows number and mode.")
      .method<&make_sampler>(
          "sampler(self, *, seed: int = 0, selector: int = 0, "
          "allocator: Callable[[int], Any] | None = None, resume: int | None = None, "
          "unique_frames: bool = False, fresh: float = 0.0) -> Sampler",
          R"(A Sampler for one learner thread.

seed: sequenced calls on equal buffers with equal seeds give equal batches, bit for bit.
selector: its place among the buffer's selectors.
allocator: where batches live: a function of a number of bytes that gives an object with a writable,
  contiguous buffer of at least as many, other memory each time, kept as long as it is used. Pinned
  memory: lambda nbytes: torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()
  The sampler holds it: one that refers to the sampler keeps both for good.
resume: goes on with the random numbers of a sampler that was saved: its place among the `samplers`
  of the save that the buffer was loaded from.
unique_frames: batches hold each frame of an item once: of Transitions(frame_stack=F) F + n_step
  instead of 2 F, of Sequences(frame_stack=F) F + T instead of 2 T F. The stacks are views of
  Batch.frames, which says more.
fresh: share of each batch, 0 to 1, that is items which nobody has drawn before, as many as there
  are, at least 1: the first ones of the batch, oldest first. `Sampler.fresh` says how many. Items
  that arrived before the first sampler with such a share was made do not count. Their probability
  is 1 / N. The selector may give an item its first draw too, at 1.0 the few that arrive within a
  draw. Not for selectors that draw in an order, nor with max_times_sampled.)")
      .method<&make_prefetcher>(
          "prefetch(self, n: int, *, depth: int = 2, beta: float = 0.4, "
          "normalise: _Normalise = 'by_batch', draws: _Draws = 'stratified', gather: bool = True, "
          "seed: int = 0, selector: int = 0, allocator: Callable[[int], Any] | None = None, "
          "timeout: float | None = None, unique_frames: bool = False, fresh: float = 0.0) -> "
          "Prefetcher",
          R"(A Prefetcher: an iterator over batches of n items, drawn up to `depth` (1 to 1024) ahead by a thread
of its own. timeout: seconds that the iterator waits for one. The other arguments are those of
`sampler` and Sampler.sample, and so are the errors.)");
  type.method<&make_hindsight>(
      "hindsight(self, achieved: str, *, goal: _Goal = 'future', share: float = 0.8, seed: int = "
      "0) "
      "-> Hindsight",
      R"(What gives items goals that their episodes achieved (HER): see Hindsight.

It reaches the steps of the episode that are in the buffer.

achieved: the observation that says what a step achieved; with frame stacks its newest frame.
goal: 'future', one of the later observations of the item's episode, each as likely as the others;
  'final', the last one; 'episode', any but that of the item's own step.
share: of items that get another goal, 0 to 1. k replays with another goal for each with its own,
  in the paper's words, are k / (k + 1).
seed: start of its own random numbers.
ValueError for another field, a share out of range, and a window other than Transitions of n_step 1:
the return of several steps would have to be made anew.)");
  bind_updates(type);
  bind_items(type);
  bind_checkpoints(type);
  type.special<&size_of, Py_ssize_t>(Py_mp_length, "__len__(self) -> int")
      .method<&stats_of>("stats(self) -> dict[str, Any]", kStats)
      .property<&schema_of>("schema(self) -> Schema", "A copy of the schema.")
      .property<&options_of>(
          "options(self) -> dict[str, Any]",
          "The options by the names of the constructor's arguments, with every default filled in.")
      .property<&capsule_of>("capsule(self) -> Any",
                             R"(The C++ buffer, for C++ threads that share it: a PyCapsule named
"reprise::ReplayBuffer " and the version, of a reprise::ReplayBuffer*, which it keeps alive. For
extension modules built with the same version and compiler; C++'s rules hold for what they call,
and no call may be under way beside `restore`.)")
      .forward_property<&ReplayBuffer::closed>("closed(self) -> bool", "True after `close`.")
      .method<&close>(
          "close(self) -> None",
          R"(Ends every wait, now and later: samplers and writers then raise Closed. Counters, saves and updates
still work.)")
      .closes<&close>()
      .add(module);
}

}  // namespace reprise::python
