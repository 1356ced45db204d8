#include "sampler.hpp"

#include <reprise/device_ring.hpp>

#include "binding/numpy.hpp"
#include "guest.hpp"
#include "options.hpp"

#include <algorithm>
#include <array>

namespace reprise::python {
namespace {

constexpr const char* kDoc = R"(Draws batches for one learner thread; made by ReplayBuffer.sampler.

One thread at a time may use a sampler (RuntimeError otherwise); any number of samplers draw at
once.)";

constexpr const char* kSample =
    R"(A batch of n items, drawn by the sampler's selector. Items come in the order of their memory:
shuffle before cutting a batch into parts.

beta: exponent of the importance weights, 0 to 1.
normalise: how weights are scaled: 'by_batch', divided by the largest in the batch; 'by_buffer', by
  the largest that the buffer could give, comparable between batches; 'not'.
draws: 'stratified', one from each of n equal parts of the total weight, or 'independent', both with
  replacement; 'without_replacement', n different items, which locks the buffer while it draws;
  'epoch', the next n items of a pass over the buffer, which gives each item once, in an order
  shuffled anew for each pass. Items that arrive during a pass wait for the next pass; a batch may
  end one pass and begin the next. In a pass all weights above 0 are alike, and importance weights
  are 1.
n_step, discount: of the returns of this batch, for algorithms that change them while they learn:
  n_step from 1 to that of the window, discount from 0 to 1; None means the window's own. Items
  and probabilities stay the same; `returns`, `discounts`, `lengths` and the next observations are
  those of a window with this n_step and discount.
timeout: seconds to wait for enough items and the rate limiter; None waits for ever, 0 tries once.
gather: False fills keys, weights and probabilities alone; the contents of fields are unspecified,
  with views=True they stay as they were.
views: True fills the batch of the last call with views=True once more, if n is the same, whoever
  holds it: its arrays then show the new items. For loops that are done with a batch before the
  next call; it saves a new object for each call.

Raises ValueError for n or beta out of range and for a batch that the rate limiter could never let
through, TimeoutError that says what is missing, Closed if the buffer is closed, NothingToDraw if
every weight is 0. The GIL is released during the wait, the draw and the copy; KeyboardInterrupt
ends the wait.)";

constexpr const char* kEmpty =
    R"(A batch of n items for `sample_into`, with unspecified contents. Its `views` is True.)";

constexpr const char* kSampleInto =
    R"(Draws n items into the places [offset, offset + n) of a batch of this sampler or of another one,
also one of another buffer with equal schema and window: for mixes other than those of reprise.mix.
'by_batch' normalises over these n items. The batch's `views` is True from then on, because a later
call may fill it again. The other arguments and the errors are those of `sample`; ValueError for
places outside the batch and for a batch of other fields or another window.)";

constexpr const char* kPrefetch =
    R"(A Prefetcher: an iterator over batches of n items, drawn up to `depth` (1 to 1024) ahead by a thread
of its own, as another sampler of the same arguments would draw them; so `fresh` and `passes` of
this sampler do not count them. The first Prefetcher of a sampler has the sampler's seed, each
further one a seed that is larger by 2**32, and each begins passes of its own. allocator: in place
of the sampler's.
timeout: seconds that the iterator waits for a batch. The other arguments and the errors are those
of `sample`.)";

constexpr const char* kUpdate =
    R"(As ReplayBuffer.update_priorities, for the selector that this sampler draws by.)";

constexpr const char* kSampler =
    R"(A Sampler for one learner thread, by the first selector; `selector(i).sampler` draws by another.

seed: sequenced calls on equal buffers with equal seeds give equal batches, bit for bit. After a
  load, or a draw "without_replacement", RankBased has items of equal weight in another order.
allocator: where batches live: a function that takes a number of bytes, and returns an object with a
  writable, contiguous buffer of at least as many, with other memory in each call. The object is
  kept as long as its memory is used. Pinned memory:
  lambda nbytes: torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()
  The sampler holds the function: a function that refers to the sampler keeps both alive for good.
resume: the place of a saved sampler, whose random numbers this one continues, among the
  `samplers` of the save that the buffer was loaded from; `seed` is not used then.
unique_frames: batches hold each frame of an item once: for Transitions(frame_stack=F) F + n_step
  instead of 2 F, for sequences F + T instead of 2 T F. The stacks are views of
  Batch.frames, which says more.
fresh: share of each batch, 0 to 1, that is fresh items, which nobody has drawn before: the first
  ones of the batch, oldest first, at least 1 if there is one. If there are too few, the selector
  draws the others; `Sampler.fresh` says how many were fresh. Items that arrived before the first
  sampler with such a share was made are not fresh. The probability of a fresh item is 1 / N. The
  selector may draw an item for the first time too, with a share of 1 only one that arrives during a
  draw. Not for selectors that draw in an order, nor with max_times_sampled.)";

/// Without `resume`, because a save stores only samplers of its own process.
constexpr const char* kGuestSampler =
    R"(A Sampler for one learner thread. The process that has the buffer draws, and copies rows into memory
that both processes share.

selector: the place of the selector among the buffer's selectors.
seed, unique_frames, fresh, allocator: as in ReplayBuffer.sampler. A batch is copied once more, into
memory of its own.)";

/// Makes a sampler for the selector that Self is, or for a buffer's first one.
template <class Self>
nb::object make_sampler(Self& self, const SamplerOptions& given, Allocator allocator,
                        std::optional<std::size_t> resume) {
  SamplerOptions options = given;
  options.resume = resume;
  return make_object<SamplerObject>(self.shared, self.selector_index(), options, allocator);
}

nb::object make_guest_sampler(GuestObject& self, const SamplerOptions& options, Allocator allocator,
                              std::size_t selector) {
  return make_object<SamplerObject>(self.shared, selector, options, allocator);
}

/// reprise._RowMirror: for reprise.torch.mirror.
class RowMirrorObject {
 public:
  RowMirrorObject(nb::handle sampler, const AnyBuffer& origin, std::unique_ptr<RowMirror> made)
      : sampler_(nb::borrow(sampler)), origin_(origin), mirror_(std::move(made)) {}

  [[nodiscard]] nb::object schema() const { return make_object<Schema>(origin_.schema()); }
  [[nodiscard]] nb::object window() const { return to_python(origin_.window); }
  [[nodiscard]] std::size_t steps() const { return sequence_steps(origin_.window); }
  [[nodiscard]] std::size_t rows() const { return mirror_->rows(); }
  [[nodiscard]] std::size_t row_bytes() const { return mirror_->layout().row_bytes; }
  [[nodiscard]] nb::object offsets() const { return to_python(mirror_->layout().offsets); }
  [[nodiscard]] nb::object first_rows() const {
    const std::span<const std::int64_t> rows = mirror_->first_rows();
    const std::size_t count = rows.size();
    return copied(DType::I64, {&count, 1}, rows);
  }
  nb::object new_rows() {
    if (pending_rows_.rows.empty()) {
      pending_rows_ = mirror_->new_rows();
    }
    const std::array<std::size_t, 2> shape{pending_rows_.rows.size(), row_bytes()};
    nb::object rows_and_bytes =
        nb::make_tuple(copied(DType::I64, std::span(shape).first(1), pending_rows_.rows),
                       copied(DType::U8, shape, pending_rows_.bytes));
    pending_rows_ = {};
    return rows_and_bytes;
  }

 private:
  template <class T>
  static nb::object copied(DType dtype, std::span<const std::size_t> shape,
                           std::span<const T> from) {
    nb::object array = empty_array(dtype, shape);
    std::ranges::copy(std::as_bytes(from), Array(array).data());
    return array;
  }

  const nb::object sampler_;  ///< Kept alive, with its buffer, as long as the mirror.
  const AnyBuffer& origin_;
  const std::unique_ptr<RowMirror> mirror_;
  RowMirror::NewRows pending_rows_;  ///< Rows of a call that had no memory for their arrays.
};

void make_mirror(RowMirrorObject* place, CallName, Given<"Sampler | Mix"> source,
                 std::size_t part) {
  if (const MixSource mix = mix_source_of(source); mix.mixed != nullptr) {
    new (place) RowMirrorObject(source, *mix.first, std::make_unique<RowMirror>(*mix.mixed, part));
    return;
  }
  auto* const own =
      nb::isinstance<SamplerObject>(source) ? &self_of<SamplerObject>(source.ptr()) : nullptr;
  auto* const sampler = own != nullptr ? std::get_if<Sampler>(&own->sampler()) : nullptr;
  check_kind(
      sampler != nullptr, source, {"mirror", "source"},
      "a buffer of this process, one of its selectors, a Sampler of them or a Mix. Rows of a "
      "Guest and of a cluster are in memory of other processes: make the mirror there, or "
      "copy batches with reprise.torch.loader");
  new (place) RowMirrorObject(source, own->origin(), std::make_unique<RowMirror>(*sampler));
}

}  // namespace

Count Conversion<Count>::from(nb::handle given, ArgumentName argument) {
  const auto count = value_from<Py_ssize_t>(given, argument);
  if (count < 1) {
    fail(argument, " is ", count, "; allowed: at least 1");
  }
  return {static_cast<std::size_t>(count)};
}

void raise_status(const SampleStatus& status, const char* call) {
  const std::string message = std::string(call) + ": " + status.message();
  switch (status.code) {
    case SampleStatus::Code::Closed:
      throw Closed(message);
    case SampleStatus::Code::NothingToDraw:
      throw NothingToDraw(message);
    default:
      throw TimedOut(message);
  }
}

SamplerObject::SamplerObject(std::shared_ptr<AnyBuffer> origin, std::size_t selector,
                             const SamplerOptions& options, const Allocator& allocator)
    : origin_(std::move(origin)),
      selector_(selector),
      options_(options),
      pool_(std::make_shared<BatchPool>(*origin_, allocator, options.unique_frames)),
      sampler_(without_gil([&] { return origin_->sampler(options, selector); })),
      hook_([this] { return origin_->stats(); }) {}

void SamplerObject::fill(CallName call, Batch& batch, std::size_t offset, std::size_t n,
                         SampleOptions options) {
  options.hook = &hook_;
  const SampleStatus status = hook_.wait(options.timeout, [&] {
    return std::visit([&](auto& sampler) { return sampler.sample_into(batch, offset, n, options); },
                      sampler_);
  });
  if (status.code != SampleStatus::Code::Ok) {
    origin_->check_process();
    if (status.code == SampleStatus::Code::Closed) {
      check_current(call);
    }
    raise_status(status, call.text);
  }
  last_ = status;
}

nb::object SamplerObject::sample(CallName call, Count n, const SampleOptions& options, bool views) {
  const bool reuse = views && views_.is_valid() && self_of<BatchObject>(views_.ptr()).n == n.items;
  nb::object object = reuse ? views_ : make_batch(pool_, n.items);
  auto& batch = self_of<BatchObject>(object.ptr());
  fill(call, batch.batch, 0, n.items, options);
  if (views) {
    views_ = object;
    batch.views = true;
  }
  return object;
}

void SamplerObject::sample_into(CallName call, BatchObject& batch, std::size_t offset, Count n,
                                const SampleOptions& options) {
  if (offset > batch.n || n.items > batch.n - offset) {
    fail(ArgumentName(call.text, "offset"), " is ", offset, " and n ", n.items,
         "; allowed: places of the batch, which has ", batch.n);
  }
  batch.views = true;
  fill(call, batch.batch, offset, n.items, options);
}

void SamplerObject::check_current(CallName call) const {
  if (origin_->restore_count != restore_count_) {
    fail<Closed>(call.text, ": the buffer was restored since; make another sampler");
  }
}

nb::object SamplerObject::prefetch(CallName call, Count n, std::size_t depth,
                                   const DrawOptions& how, bool gather, Allocator allocator,
                                   std::chrono::nanoseconds timeout) {
  check_current(call);
  SampleOptions sample = how;
  sample.gather = gather;
  auto pool = !allocator.is_valid()
                  ? pool_
                  : std::make_shared<BatchPool>(*origin_, allocator, options_.unique_frames);
  SamplerOptions options = options_;
  if (prefetchers_ != 0) {
    options.seed += prefetchers_ << kSeedShift;
    options.resume.reset();
  }
  auto source = std::visit(
      []<class Made>(Made&& sampler) -> std::unique_ptr<BatchSource> {
        return std::make_unique<std::decay_t<Made>>(std::forward<Made>(sampler));
      },
      without_gil([&] { return origin_->sampler(options, selector_); }));
  nb::object prefetcher = make_prefetcher({{origin_}, std::move(source), std::move(pool), n.items},
                                          sample, depth, timeout);
  ++prefetchers_;
  return prefetcher;
}

nb::object SamplerObject::update_priorities(CallName call, const Keys& keys,
                                            const Priorities& priorities) {
  check_current(call);
  return run_update(call, keys, priorities, [this](auto own_keys, auto own_priorities) {
    return std::visit(
        [&](auto& sampler) { return sampler.update_priorities(own_keys, own_priorities); },
        sampler_);
  });
}

template <>
void add_sampler(Type<BufferObject>& type) {
  type.method<&make_sampler<BufferObject>>("sampler", "Sampler", kSampler,
                                           keyword("allocator", "None"),
                                           keyword("resume", std::nullopt));
}
template <>
void add_sampler(Type<SelectorObject>& type) {
  type.method<&make_sampler<SelectorObject>>(
      "sampler", "Sampler", "As ReplayBuffer.sampler, which draws by the first selector.",
      keyword("allocator", "None"), keyword("resume", std::nullopt));
}
template <>
void add_sampler(Type<GuestObject>& type) {
  type.method<&make_guest_sampler>("sampler", "Sampler", kGuestSampler,
                                   keyword("allocator", "None"), keyword("selector", 0U));
}

void bind_sampler(nb::module_& module) {
  using Self = SamplerObject;
  Type<Self>("Sampler", kDoc)
      .method<&Self::sample>("sample", "Batch", kSample, arg("n"), keyword("views", false))
      .method<&Self::empty_batch>("empty_batch", "Batch", kEmpty, arg("n"))
      .method<&Self::sample_into>("sample_into", kSampleInto, arg("batch"), arg("offset"), arg("n"))
      .method<&Self::prefetch>("prefetch", "Prefetcher", kPrefetch, arg("n"), keyword("depth", 2U),
                               keyword("gather", true), keyword("allocator", "None"),
                               keyword("timeout", kNoTimeout))
      .method<&Self::update_priorities>("update_priorities", "UpdateResult", kUpdate, arg("keys"),
                                        arg("priorities"))
      .property<&Self::fresh>(
          "fresh", "How many items of the last batch are fresh ones (`fresh`): its first ones.")
      .property<&Self::passes>("passes", "Passes completed with draws='epoch'.")
      .add(module);
}

void bind_mirror(nb::module_& module) {
  using Self = RowMirrorObject;
  Type<Self>("_RowMirror", "Which rows of a buffer a device lacks; for reprise.torch.mirror.")
      .constructor<&make_mirror>(
          "sampler: its batches have only keys, weights, probabilities, mutable columns and\n"
          "recurrent states from now on. part: the index of a part, for a Mix.",
          arg("sampler"), arg("part", 0U))
      .property<&Self::schema>("schema", "Schema", "The buffer's schema.")
      .property<&Self::window>("window", "_Window", "The buffer's window.")
      .property<&Self::steps>("steps", "T for sequences, 0 for transitions.")
      .property<&Self::rows>("rows",
                             "Rows that the copy has to have room for, more after some draws.")
      .property<&Self::first_rows>("first_rows", "NDArray[np.int64]",
                                   "The row in which each item of the last batch begins, [n].")
      .property<&Self::row_bytes>("row_bytes", "Bytes of a row.")
      .property<&Self::offsets>(
          "offsets", "list[int]",
          "Where each field begins in a row, in bytes; beyond the row if its values are in\n"
          "batches.")
      .method<&Self::new_rows>("new_rows", "tuple[NDArray[np.int64], NDArray[np.uint8]]",
                               "Rows that the draws since the last call have read for the first "
                               "time, [k], and their bytes, [k, row_bytes]. After a MemoryError "
                               "the next call gives the rows that this call could not give.")
      .add(module);
}

}  // namespace reprise::python
