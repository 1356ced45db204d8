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

  /// The statistics that say why no batch comes, from the first buffer without items if any.
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
  SampleStatus last_;                  ///< The status of the batch that was handed out last.
  std::optional<SampleResult> given_;  ///< What `next` gave last, if that was not handed out.
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
  if (!given_ || !*given_) {
    given_ =
        hook_.wait(timeout, [&] { return std::optional(core_->prefetcher.next(timeout, &hook_)); });
  }
  const SampleResult result = *given_;
  if (result) {
    // The prefetcher overwrites what it hands out, so it gets an empty batch in place of this one,
    // of as many items, because it fills the whole batch. Without memory for it, the next call
    // gives out this one.
    const PrefetchSource& from = core_->from;
    Batch batch = from.pool->take(from.n, /*exactly=*/true);
    given_.reset();
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

Where `sample` would raise NothingToDraw, it waits until there is something. StopIteration when the
buffer is closed and all that was drawn has been given out; TimeoutError when none comes within the
timeout; Closed after `close`. KeyboardInterrupt ends the wait. One thread at a time.)";

}  // namespace

nb::object make_prefetcher(PrefetchSource from, const SampleOptions& sample, std::size_t depth,
                           std::chrono::nanoseconds timeout) {
  auto core =
      HostHook::run([&] { return std::make_shared<PrefetchCore>(std::move(from), sample, depth); });
  return make_object<PrefetcherObject>(std::move(core), timeout);
}

namespace {

/// Draws ahead by the selector that Self is, or by a buffer's first one.
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
of its own. With equal seeds two of them draw alike from an unchanged buffer; those of one Sampler
do not. timeout: seconds that the iterator waits for one. The other arguments are those of `sampler`
and Sampler.sample, and so are the errors.)",
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
          "The next batch, as from the iterator, with a timeout of this call's own; 0 gives one "
          "that is\nready, or raises TimeoutError at once.",
          keyword("timeout", kNoTimeout))
      .property<&Self::fresh>(
          "fresh",
          "Items of the batch given out last that came from the queue of `fresh`: its first ones,\n"
          "or of a Mix the first of each exact part.")
      .property<&Self::passes>("passes",
                               "Passes completed with the batches given out, for draws='epoch'.")
      .method<&Self::close>("close",
                            "Ends the thread. Batches that were given out stay as they are.")
      .closes<&Self::close>()
      .add(module);
}

}  // namespace reprise::python
