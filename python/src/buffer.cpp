#include "checkpoint.hpp"
#include "numbers.hpp"
#include "options.hpp"
#include "prefetcher.hpp"
#include "sampler.hpp"
#include "shared_buffer.hpp"
#include "stats.hpp"
#include "texts.hpp"
#include "update.hpp"
#include "vector_writer.hpp"
#include "waiting.hpp"
#include "writer.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <optional>
#include <string>

namespace reprise::python {
namespace {

using Shared = std::shared_ptr<SharedBuffer>;

Shared make_buffer(Checked<const Schema*, "ReplayBuffer: schema"> schema,
                   Checked<std::size_t, "ReplayBuffer: capacity_steps"> capacity_steps,
                   py::handle window, py::handle selectors, py::handle remover,
                   py::handle rate_limiter,
                   Checked<std::uint32_t, "ReplayBuffer: max_times_sampled"> max_times_sampled,
                   Checked<bool, "ReplayBuffer: episode_index"> episode_index,
                   Checked<std::size_t, "ReplayBuffer: max_writers"> max_writers,
                   Checked<std::size_t, "ReplayBuffer: chunk_steps"> chunk_steps,
                   Checked<std::size_t, "ReplayBuffer: shards"> shards,
                   std::optional<Checked<std::uint16_t, "ReplayBuffer: key_tag">> key_tag,
                   py::handle storage) {
  Options options;
  options.capacity_steps = capacity_steps;
  if (!window.is_none()) {
    options.window = window_from(window);
  }
  if (!selectors.is_none()) {
    options.selectors = selectors_from(selectors);
  }
  if (!remover.is_none()) {
    options.remover = remover_from(remover);
  }
  if (!rate_limiter.is_none()) {
    options.rate_limiter = rate_limiter_from(rate_limiter);
  }
  options.max_times_sampled = max_times_sampled;
  options.episode_index = episode_index;
  options.max_writers = max_writers;
  options.chunk_steps = chunk_steps;
  options.shards = shards;
  options.key_tag = key_tag;
  options.storage = storage_from(storage);
  return std::make_shared<SharedBuffer>(ReplayBuffer(*schema.value, options));
}

std::shared_ptr<WriterObject> make_writer(const Shared& shared, py::handle timeout) {
  const SharedBuffer::Call call(*shared, "ReplayBuffer.writer");
  return std::make_shared<WriterObject>(shared, timeout_from(timeout.ptr(), "ReplayBuffer.writer"));
}

std::unique_ptr<VectorWriterObject> make_vector_writer(
    const Shared& shared,
    Checked<std::size_t, "ReplayBuffer.vector_writer: environments"> environments,
    py::handle autoreset, py::handle timeout) {
  const SharedBuffer::Call call(*shared, "ReplayBuffer.vector_writer");
  return std::make_unique<VectorWriterObject>(
      shared, environments, autoreset_from(autoreset),
      timeout_from(timeout.ptr(), "ReplayBuffer.vector_writer"));
}

std::shared_ptr<SamplerObject> make_sampler(
    const Shared& shared, Checked<std::uint64_t, "ReplayBuffer.sampler: seed"> seed,
    Checked<std::size_t, "ReplayBuffer.sampler: selector"> selector, py::handle allocator,
    std::optional<Checked<std::size_t, "ReplayBuffer.sampler: resume">> resume,
    Checked<bool, "ReplayBuffer.sampler: checked"> checked) {
  const SharedBuffer::Call call(*shared, "ReplayBuffer.sampler");
  return std::make_shared<SamplerObject>(shared, sampler_options(seed, selector, resume),
                                         user_memory_from(allocator), checked);
}

std::unique_ptr<PrefetcherObject> make_prefetcher(
    const Shared& shared, Checked<std::size_t, "ReplayBuffer.prefetch: n"> n,
    Checked<std::size_t, "ReplayBuffer.prefetch: depth"> depth,
    Checked<float, "ReplayBuffer.prefetch: beta"> beta, py::handle normalise, py::handle draws,
    Checked<bool, "ReplayBuffer.prefetch: gather"> gather,
    Checked<std::uint64_t, "ReplayBuffer.prefetch: seed"> seed,
    Checked<std::size_t, "ReplayBuffer.prefetch: selector"> selector, py::handle allocator,
    py::handle timeout) {
  const SharedBuffer::Call call(*shared, "ReplayBuffer.prefetch");
  std::shared_ptr<UserMemory> memory = user_memory_from(allocator);
  SamplerOptions sampler = sampler_options(seed, selector, std::nullopt);
  sampler.memory = memory.get();
  SampleOptions sample;
  sample.beta = beta;
  sample.normalise = normalise_from(normalise);
  sample.draws = draws_from(draws);
  sample.gather = gather;
  return std::make_unique<PrefetcherObject>(shared, std::move(memory), n, sampler, sample, depth,
                                            timeout_from(timeout.ptr(), "ReplayBuffer.prefetch"));
}

std::size_t size_of(SharedBuffer& shared) {
  const SharedBuffer::Call call(shared, "ReplayBuffer.__len__");
  const Released released;
  return shared.buffer.size();
}

py::dict stats_of(SharedBuffer& shared) {
  const SharedBuffer::Call call(shared, "ReplayBuffer.stats");
  Stats stats;
  {
    const Released released;
    stats = shared.buffer.stats();
  }
  return stats_dict(stats);
}

void set_alpha(SharedBuffer& shared, Checked<float, "ReplayBuffer.set_alpha: alpha"> alpha,
               Checked<std::size_t, "ReplayBuffer.set_alpha: selector"> selector) {
  const SharedBuffer::Call call(shared, "ReplayBuffer.set_alpha");
  {
    const Released released;
    shared.buffer.set_alpha(alpha, selector);
  }
  shared.read_rules();
}

float alpha_of(SharedBuffer& shared,
               Checked<std::size_t, "ReplayBuffer.alpha: selector"> selector) {
  const SharedBuffer::Call call(shared, "ReplayBuffer.alpha");
  return shared.buffer.alpha(selector);
}

void decay(SharedBuffer& shared, Checked<float, "ReplayBuffer.decay: factor"> factor,
           Checked<std::size_t, "ReplayBuffer.decay: selector"> selector) {
  const SharedBuffer::Call call(shared, "ReplayBuffer.decay");
  const Released released;
  shared.buffer.decay(factor, selector);
}

/// A capsule of the C++ buffer for other modules. It keeps the buffer alive.
py::object capsule_of(const Shared& shared) {
  constexpr const char* kName = "reprise::ReplayBuffer " REPRISE_VERSION;
  const auto destroy = [](PyObject* capsule) {
    delete static_cast<Shared*>(PyCapsule_GetContext(capsule));
  };
  auto made = py::reinterpret_steal<py::object>(PyCapsule_New(&shared->buffer, kName, nullptr));
  if (!made || PyCapsule_SetContext(made.ptr(), new Shared(shared)) != 0 ||
      PyCapsule_SetDestructor(made.ptr(), destroy) != 0) {
    throw py::error_already_set();
  }
  return made;
}

void close(SharedBuffer& shared) {
  const SharedBuffer::Call call(shared, "ReplayBuffer.close");
  shared.buffer.close();
}

constexpr const char* kStats = R"(stats(self, /)
--

Counters since the buffer was made and sizes at about this moment: a dict. While no call is under
way, committed_steps = resident_steps + evicted_steps + pending_steps.

committed_steps: steps appended.
evicted_steps: steps removed to keep within the capacity.
resident_steps: steps in the buffer.
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
    buffer.update_priorities(batch.keys, np.abs(td_errors))

Every method but `restore` may be called from any thread, of Python and of C++, at once. Writers,
samplers and prefetchers keep the buffer alive. `with` closes it.

It works in the process that made it alone: in a forked child every call of it, its writers,
samplers and prefetchers that reads or changes what is in the buffer raises RuntimeError. Make it
after the fork.)";

constexpr const char* kInit =
    R"(__init__(self, /, schema, capacity_steps, *, window=None, selectors=None, remover=None, rate_limiter=None, max_times_sampled=0, episode_index=False, max_writers=256, chunk_steps=0, shards=0, key_tag=None, storage=None)
--

capacity_steps: steps guaranteed resident; a full buffer holds exactly this many.
window: what an item spans: Transitions, the default, or Sequences.
selectors: how items are drawn: one, or a sequence of them, which keep their own weights over the
  same items and are named by their place. Proportional() by default.
remover: which steps leave a full buffer; Fifo() by default.
rate_limiter: when samplers and writers have to wait; MinSize(1) by default.
max_times_sampled: draws after which an item is not drawn any more; 0: no limit.
episode_index: whether `find` and `update_episode_priorities` work; costs 8 bytes and more a row.
max_writers: writers alive at once; each may hold a chunk on top of the capacity.
chunk_steps: rows per chunk; 0 chooses. shards: parts with a lock each, 1 to 256; 0 chooses.
key_tag: tag of the buffer's keys, 0 to 4095, so that others are refused; None takes one at random.
storage: None keeps steps in memory. The path of a directory on a local disk keeps them in a mapped
  file there, for buffers larger than memory; the file has no name and goes with the buffer.

Address space is reserved for everything, memory taken as steps arrive. ValueError naming the
option, its value and what is allowed; TypeError for an option of the wrong kind; MemoryError;
OSError if the file or the room for it cannot be had.)";

void bind_making(py::class_<SharedBuffer, Shared>& type) {
  type.def(py::init(&make_buffer), py::arg("schema"), py::arg("capacity_steps"), py::kw_only(),
           py::arg("window") = py::none(), py::arg("selectors") = py::none(),
           py::arg("remover") = py::none(), py::arg("rate_limiter") = py::none(),
           py::arg("max_times_sampled") = 0, py::arg("episode_index") = false,
           py::arg("max_writers") = 256, py::arg("chunk_steps") = 0, py::arg("shards") = 0,
           py::arg("key_tag") = py::none(), py::arg("storage") = py::none(), kInit)
      .def("writer", &make_writer, py::kw_only(), py::arg("timeout") = py::none(),
           R"(writer(self, /, *, timeout=None)
--

A Writer for one environment. timeout: seconds that an append may wait for room, for a chunk or the
rate limiter; None waits for ever, 0 tries once. RuntimeError beyond max_writers.)")
      .def("vector_writer", &make_vector_writer, py::arg("environments"), py::kw_only(),
           py::arg("autoreset") = "same_step", py::arg("timeout") = py::none(),
           R"(vector_writer(self, /, environments, *, autoreset='same_step', timeout=None)
--

A VectorWriter for so many environments, 1 to max_writers, each of which counts as a writer.
autoreset: 'same_step', 'next_step' or 'disabled', see VectorWriter. timeout: as of `writer`, for the
whole of an append.)")
      .def("sampler", &make_sampler, py::kw_only(), py::arg("seed") = 0, py::arg("selector") = 0,
           py::arg("allocator") = py::none(), py::arg("resume") = py::none(),
           py::arg("checked") = false,
           R"(sampler(self, /, *, seed=0, selector=0, allocator=None, resume=None, checked=False)
--

A Sampler for one learner thread.

seed: sequenced calls on equal buffers with equal seeds give equal batches, bit for bit.
selector: its place among the buffer's selectors.
allocator: where batches live: a function of a number of bytes that gives an object with a writable,
  contiguous buffer of at least as many, kept as long as it is used. Pinned memory:
  lambda nbytes: torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()
  The sampler holds it: one that refers to the sampler keeps both for good.
resume: goes on with the random numbers of a sampler that was saved: its place among the `samplers`
  of the save that the buffer was loaded from.
checked: each call of `sample` gives a new batch, in memory of its own; using the one before raises
  RuntimeError naming both calls, and its arrays are overwritten with 0xFF bytes (NaN, -1). To find
  uses of old batches; slower.)");
}

void bind_prefetch(py::class_<SharedBuffer, Shared>& type) {
  type.def(
      "prefetch", &make_prefetcher, py::arg("n"), py::kw_only(), py::arg("depth") = 2,
      py::arg("beta") = 0.4F, py::arg("normalise") = "by_batch", py::arg("draws") = "stratified",
      py::arg("gather") = true, py::arg("seed") = 0, py::arg("selector") = 0,
      py::arg("allocator") = py::none(), py::arg("timeout") = py::none(),
      R"(prefetch(self, /, n, *, depth=2, beta=0.4, normalise='by_batch', draws='stratified', gather=True, seed=0, selector=0, allocator=None, timeout=None)
--

A Prefetcher: an iterator over batches of n items, drawn up to `depth` (1 to 1024) ahead by a thread
of its own. timeout: seconds that the iterator waits for one. The other arguments are those of
`sampler` and Sampler.sample, and so are the errors.)");
}

void bind_upkeep(py::class_<SharedBuffer, Shared>& type) {
  bind_updates(type);
  type.def("set_alpha", &set_alpha, py::arg("alpha"), py::arg("selector") = 0,
           R"(set_alpha(self, /, alpha, selector=0)
--

Sets the exponent of a Proportional selector, 0 to 8: every weight w becomes w^(alpha / present
alpha). O(items), a few milliseconds per million. ValueError for another selector, an alpha out of
range, or a present alpha of 0.)")
      .def("alpha", &alpha_of, py::arg("selector") = 0,
           R"(alpha(self, /, selector=0)
--

The present exponent of a Proportional selector: that of `options`, or what `set_alpha` made of it,
before a checkpoint was saved too. ValueError for another selector.)")
      .def("decay", &decay, py::arg("factor"), py::arg("selector") = 0,
           R"(decay(self, /, factor, selector=0)
--

Multiplies the weight of every item of a Proportional selector by a factor above 0 and at most 1;
weights, not priorities: a factor of x^alpha is one of x on priorities.
O(items): about a millisecond per million.)");
}

void bind_state(py::class_<SharedBuffer, Shared>& type) {
  type.def(
          "__len__", &size_of,
          "Items in the buffer, everything appended before the call included; those too that were\n"
          "drawn max_times_sampled times, which stats()['items'] leaves out. Of Sequences,\n"
          "steps in the buffer.")
      .def("stats", &stats_of, kStats)
      .def_property_readonly(
          "schema",
          [](SharedBuffer& shared) {
            const SharedBuffer::Call call(shared, "ReplayBuffer.schema");
            return shared.buffer.schema();
          },
          "A copy of the schema.")
      .def_property_readonly(
          "options",
          [](SharedBuffer& shared) {
            const SharedBuffer::Call call(shared, "ReplayBuffer.options");
            return options_dict(shared.buffer.options());
          },
          "The options by the names of the constructor's arguments, with every default filled in.")
      .def_property_readonly("capsule", &capsule_of,
                             R"(The C++ buffer, for C++ threads that share it: a PyCapsule named
"reprise::ReplayBuffer " and the version, of a reprise::ReplayBuffer*, which it keeps alive. For
extension modules built with the same version and compiler; C++'s rules hold for what they call,
and no call may be under way beside `restore`.)")
      .def_property_readonly(
          "closed",
          [](SharedBuffer& shared) {
            const SharedBuffer::Call call(shared, "ReplayBuffer.closed");
            return shared.buffer.closed();
          },
          "True after `close`.")
      .def("close", &close, R"(close(self, /)
--

Ends every wait, now and later: samplers and writers then raise Closed. Counters, saves and updates
still work.)")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](SharedBuffer& shared, const py::args& /*error*/) { close(shared); });
}

}  // namespace

void bind_buffer(py::module_& module) {
  py::class_<SharedBuffer, Shared> type(module, "ReplayBuffer", kDoc);
  bind_making(type);
  bind_prefetch(type);
  bind_upkeep(type);
  bind_state(type);
  bind_checkpoints(type);
}

}  // namespace reprise::python
