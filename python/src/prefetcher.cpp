#include <reprise/batch_source.hpp>

#include "guest.hpp"
#include "sampler.hpp"

#include <forward_list>
#include <optional>

namespace reprise::python {
namespace {

constexpr const char* kNext = "Prefetcher.__next__";

/// The objects that a prefetcher's thread uses.
struct PrefetchCore {
  PrefetchCore(PrefetchSource given, const SampleOptions& sample, std::size_t depth)
      : from(std::move(given)),
        prefetcher(*from.source, from.n, sample, depth, from.pool->memory()) {}

  /// The statistics that say why no batch comes: those of the first buffer without items, or of the
  /// first buffer if all have items.
  [[nodiscard]] Stats stats() const {
    for (const auto& origin : from.origins) {
      if (Stats stats = origin->stats(); stats.items == 0) {
        return stats;
      }
    }
    return from.origins.front()->stats();
  }

  const PrefetchSource from;
  Prefetcher prefetcher;
};

/// reprise.Prefetcher: an iterator over batches that a thread of its own draws ahead.
class PrefetcherObject {
 public:
  PrefetcherObject(std::shared_ptr<PrefetchCore> core, std::chrono::nanoseconds timeout)
      : core_(std::move(core)),
        timeout_(timeout),
        thread_([core = core_](const std::stop_token& stop) { core->prefetcher.run(stop); }) {}
  ~PrefetcherObject() = default;
  PrefetcherObject(const PrefetcherObject&) = delete;
  PrefetcherObject& operator=(const PrefetcherObject&) = delete;

  /// The guard that the binding holds during each call. It marks only this object as in use:
  /// `close` uses no buffer, so it may run beside `restore`; `next_batch` marks the buffers itself.
  [[nodiscard]] InUse enter(const char* /*call*/) { return {in_use_, "Prefetcher"}; }
  nb::object next() { return next_batch(kNext, timeout_); }
  nb::object get(CallName call, std::chrono::nanoseconds timeout) {
    return next_batch(call.text, timeout);
  }
  [[nodiscard]] std::size_t fresh() const noexcept { return last_.fresh; }
  [[nodiscard]] std::uint64_t passes() const noexcept { return last_.passes; }
  void close() {
    closed_ = true;
    thread_.end();
  }

 private:
  nb::object next_batch(const char* call, std::chrono::nanoseconds timeout);

  const std::shared_ptr<PrefetchCore> core_;
  const std::chrono::nanoseconds timeout_;
  bool in_use_ = false;
  bool closed_ = false;
  SampleStatus last_;  ///< The status of the batch that was handed out last.
  /// The result of the last `Prefetcher::next`, until its batch is handed out.
  std::optional<SampleResult> pending_;
  SignalHook hook_{[this] { return core_->stats(); }};
  OwnThread thread_;
};

nb::object PrefetcherObject::next_batch(const char* call, std::chrono::nanoseconds timeout) {
  if (closed_) {
    throw Closed(std::string(call) + ": the prefetcher is closed");
  }
  std::forward_list<Origin::Call> under_way;
  for (const auto& origin : core_->from.origins) {
    under_way.emplace_front(*origin, call);
  }
  if (!pending_ || !*pending_) {
    pending_ =
        hook_.wait(timeout, [&] { return std::optional(core_->prefetcher.next(timeout, &hook_)); });
  }
  const SampleResult result = *pending_;
  if (result) {
    // The prefetcher will fill the batch of this result again, all of it, so a spare batch of
    // exactly as many items takes its place. If there is no memory for the spare one, `take` throws
    // and the next call hands this result out.
    const PrefetchSource& from = core_->from;
    Batch batch = from.pool->take(from.n, /*exactly=*/true);
    pending_.reset();
    last_ = result.status();
    std::swap(batch, const_cast<Batch&>(*result));
    return make_object<BatchObject>(from.pool, std::move(batch), from.n);
  }
  if (result.status().code != SampleStatus::Code::Closed) {
    core_->from.origins.front()->check_process();
    raise_status(result.status(), call);
  }
  thread_.end();
  thread_.rethrow();
  PyErr_SetNone(PyExc_StopIteration);
  throw nb::python_error();
}

nb::object iterate(nb::handle self) {
  return nb::borrow(self);
}

constexpr const char* kDoc =
    R"(An iterator over batches that a thread of its own draws ahead; made by ReplayBuffer.prefetch
and Mix.prefetch.

    with buffer.prefetch(256) as batches:
        for batch in batches:
            ...
            buffer.update_priorities(batch.item_keys, errors)

The next batch is drawn and copied while the learner computes. Staleness: a batch may have been
drawn up to `depth` batches before it is used, so its probabilities and weights are those of that
moment, updates made since then did not count, and a few more of its keys may be stale.

Where `sample` would raise NothingToDraw, the iterator waits until an item can be drawn.
StopIteration when the buffer is closed and all batches drawn have been given out; TimeoutError when
no batch comes within the timeout; Closed after `close`. KeyboardInterrupt ends the wait. One thread
at a time.)";

}  // namespace

nb::object make_prefetcher(PrefetchSource from, const SampleOptions& sample, std::size_t depth,
                           std::chrono::nanoseconds timeout) {
  auto core =
      HostHook::run([&] { return std::make_shared<PrefetchCore>(std::move(from), sample, depth); });
  return make_object<PrefetcherObject>(std::move(core), timeout);
}

namespace {

/// Makes a Prefetcher for the selector that Self is, or for a buffer's first one.
template <class Self>
nb::object prefetch(Self& self, CallName call, Count n, std::size_t depth, const DrawOptions& how,
                    bool gather, const SamplerOptions& options, Allocator allocator,
                    std::chrono::nanoseconds timeout) {
  return SamplerObject(self.shared, self.selector_index(), options, allocator)
      .prefetch(call, n, depth, how, gather, Allocator(), timeout);
}

}  // namespace

template <class Self>
void add_prefetch(Type<Self>& type) {
  type.template method<&prefetch<Self>>(
      "prefetch", "Prefetcher",
      R"(A Prefetcher: an iterator over batches of n items, drawn up to `depth` (1 to 1024) ahead by a thread
of its own. Two Prefetchers with equal seeds draw equal batches from an unchanged buffer; those of
one Sampler have different seeds. timeout: seconds that the iterator waits for a batch. The other
arguments are those of `sampler` and Sampler.sample, and so are the errors.)",
      arg("n"), keyword("depth", 2U), keyword("gather", true), keyword("allocator", "None"),
      keyword("timeout", kNoTimeout));
}
template void add_prefetch(Type<BufferObject>& type);
template void add_prefetch(Type<GuestObject>& type);
template void add_prefetch(Type<SelectorObject>& type);

void bind_prefetcher(nb::module_& module) {
  using Self = PrefetcherObject;
  Type<Self>("Prefetcher", kDoc)
      .special<&iterate>(Py_tp_iter, "__iter__(self) -> Self")
      .special<&Self::next>(Py_tp_iternext, "__next__(self) -> Batch")
      .method<&Self::get>(
          "get", "Batch",
          "The next batch, as from the iterator, with a timeout of this call's own; with 0 a batch "
          "that\nis ready, or TimeoutError at once.",
          keyword("timeout", kNoTimeout))
      .property<&Self::fresh>(
          "fresh",
          "How many items of the batch given out last are fresh ones: its first ones, or of a Mix\n"
          "the first of each exact part.")
      .property<&Self::passes>("passes",
                               "Passes completed with the batches given out, for draws='epoch'.")
      .method<&Self::close>("close",
                            "Ends the thread. Batches that were given out stay as they are.")
      .closes<&Self::close>()
      .add(module);
}

}  // namespace reprise::python
