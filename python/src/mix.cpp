#include "sampler.hpp"

#include <forward_list>

namespace reprise::python {
namespace {

constexpr const char* kDoc =
    R"(Draws from several buffers in one batch; reprise.mix is another name for this class.

In exact parts, such as half online and half demonstrations:

    both = reprise.mix([(online, 128), (demonstrations, 128)], seed=1)
    batch = both.sample()                       # 128 of each, with one set of weights
    both.update_priorities(batch.item_keys, np.abs(errors))

By the common total of their priorities, n items in all: P(i) is the weight of an item over the sum
of all weights of all buffers.

    both = reprise.mix([online, demonstrations], 256, seed=1)
    batch = both.sample()                       # both.parts says which items are whose

One thread at a time may use a Mix (RuntimeError otherwise). It keeps its buffers alive.)";

constexpr const char* kInit =
    R"(parts: buffers of reprise, whose first selectors draw, or selectors of buffers, replay.selector(i);
for exact parts each with its number of items in a batch, at least 1. All buffers have equal schemas
and windows; a ValueError says what differs. By the common total the selectors have to be Uniform,
Proportional or LossAdjusted, and the buffers without max_times_sampled. seed: of the samplers; each
part has its own. fresh, unique_frames: as in ReplayBuffer.sampler; `fresh` is a share of each exact
part, and has to be 0 by the common total. allocator: as in ReplayBuffer.sampler.)";

constexpr const char* kSample =
    R"(A batch whose first items are those of the first part, and so on. n: the length of the mix, or None.

Arguments and errors as in Sampler.sample; `timeout` is for all parts together. If a part raises, for
example TimeoutError, the items that earlier parts drew are kept, with the beta and draws of that
call: the next call draws the other parts, or begins anew if its n_step or discount differ.

Exact parts: weights are (N * P(i))^-beta with N and P of the item's own buffer; with
normalise='by_batch' they are divided by the largest of the whole batch. draws='epoch' makes a pass
of each part; `passes` counts them.
By the common total: N and P are of all buffers together; each batch looks at the totals once to
share its items out. A buffer without weight gives no items, and the call does not wait for it;
while no buffer has weight, the call waits for the first.

ValueError for 'by_buffer' with several exact parts, because it would scale the weights of each part
by another factor, and for draws other than 'stratified' and 'independent' by the common total.)";

constexpr const char* kUpdate =
    R"(Sets the priorities of a batch of this mix in all of its buffers, for each selector that is a part.

keys: `item_keys` of batches, or some of them in any order: the tag of a key tells whose it is.
priorities: one for each key. Both, the result and the errors are as in
ReplayBuffer.update_priorities; ValueError also for a key of another buffer, before anything is set.
Where buffers of exact parts share a key_tag, as two loads of one checkpoint do, the keys have to be
those of one whole batch in their order, else ValueError; by the common total such buffers' keys are
always a ValueError.)";

constexpr const char* kPrefetch =
    R"(A Prefetcher: an iterator over batches of this mix, drawn up to `depth` (1 to 1024) ahead by a
thread of its own, as another mix of the same arguments would draw them. So `parts` and `fresh` of
this mix do not describe these batches; by the common total the tags of keys tell which items are
whose. `update_priorities` takes their keys.

n: the length of the mix, or None. seed, allocator: in place of those of the mix. Without a seed the
first Prefetcher has the seed of the mix, and each further one a seed that is larger by 2**32.
timeout: seconds that the iterator waits for a batch.
The other arguments and the errors are those of `sample`.)";

using Buffers = std::vector<std::shared_ptr<SharedBuffer>>;

/// The marks that one call is under way in each of its buffers.
using Calls = std::forward_list<SharedBuffer::Call>;

/// The parts of a mixed draw. Either `counts` has the items of each part and `n` is 0, or the parts
/// share `n` items by the common total: each gets items in proportion to the sum of its weights.
struct Parts {
  /// Adds a mark to `calls` for each buffer.
  Parts(nb::handle given, std::optional<Count> all, const char* call, Calls& calls);
  [[nodiscard]] std::unique_ptr<MixedSampler> mixed(const SamplerOptions& options) const;

  Buffers buffers;
  std::vector<std::size_t> selectors;  ///< The index of each part's selector.
  std::vector<std::size_t> counts;
  std::size_t n = 0;
};

/// Whether an object is a buffer or a selector of a buffer.
bool is_source(nb::handle part) {
  return nb::isinstance<BufferObject>(part) || nb::isinstance<SelectorObject>(part);
}

Parts::Parts(nb::handle given, std::optional<Count> all, const char* call, Calls& calls)
    : n(all ? all->items : 0) {
  check_kind(nb::hasattr(given, "__iter__"), given, {call, "parts"},
             "mix([replay, other], n), or with counts mix([(replay, 4), (other, 4)])");
  for (const nb::handle part : nb::list(given)) {
    const std::string name = "parts[" + std::to_string(buffers.size()) + "]";
    const ArgumentName argument(call, name);
    nb::object replay = nb::borrow(part);
    if (n == 0) {
      const bool is_pair = PySequence_Check(part.ptr()) != 0 && PySequence_Size(part.ptr()) == 2;
      const nb::object count = is_pair ? nb::object(part[1]) : nb::none();
      replay = is_pair ? nb::object(part[0]) : nb::none();
      check_kind(is_source(replay) && PyIndex_Check(count.ptr()) != 0, part, argument,
                 "a ReplayBuffer and an integer, (replay, n), or buffers alone and n of the whole "
                 "batch, mix([replay, other], n)");
      counts.push_back(value_from<std::size_t>(count, argument));
    }
    check_kind(is_source(replay), part, argument,
               "a ReplayBuffer, as n is given, or counts, (replay, 4), and no n");
    if (nb::isinstance<SelectorObject>(replay)) {
      const auto& selector = self_of<SelectorObject>(replay.ptr());
      buffers.push_back(selector.shared);
      selectors.push_back(selector.selector_index());
    } else {
      buffers.push_back(self_of<BufferObject>(replay.ptr()).shared);
      selectors.push_back(0);
    }
    calls.emplace_front(*buffers.back(), call);
  }
}

std::unique_ptr<MixedSampler> Parts::mixed(const SamplerOptions& options) const {
  std::vector<MixedPart> parts;
  std::vector<SelectorHandle> handles;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    handles.push_back(buffers[i]->buffer.selector(selectors[i]));
    if (n == 0) {
      parts.push_back({handles.back(), counts[i]});
    }
  }
  if (n == 0) {
    return std::make_unique<MixedSampler>(parts, options);
  }
  return std::make_unique<MixedSampler>(handles, n, options);
}

class MixObject {
 public:
  MixObject(Parts parts, const SamplerOptions& options, Allocator allocator)
      : parts_(std::move(parts)),
        buffers_(parts_.buffers),
        options_(options),
        mixed_(parts_.mixed(options)),
        pool_(std::make_shared<BatchPool>(*buffers_.front(), allocator, options.unique_frames)),
        hook_([this] { return buffers_[mixed_->waits_for()]->stats(); }) {
    for (const auto& buffer : buffers_) {
      restore_counts_.push_back(buffer->restore_count);
    }
  }

  /// The marks that one call holds.
  struct Entered {
    Entered(MixObject& self, const char* call) : in_use(self.in_use_, "Mix") {
      for (const auto& buffer : self.buffers_) {
        calls.emplace_front(*buffer, call);
      }
    }
    InUse in_use;
    Calls calls;
  };
  [[nodiscard]] Entered enter(const char* call) { return {*this, call}; }

  nb::object sample(CallName call, std::optional<Count> n, const DrawOptions& how,
                    std::chrono::nanoseconds timeout);
  nb::object prefetch(CallName call, std::optional<Count> n, std::size_t depth,
                      const DrawOptions& how, Allocator allocator, std::chrono::nanoseconds timeout,
                      std::optional<std::uint64_t> seed);
  nb::object update_priorities(CallName call, const Keys& keys, const Priorities& priorities) {
    check_current(call.text);
    return run_update(call, keys, priorities, [this](auto own_keys, auto own_priorities) {
      return mixed_->update_priorities(own_keys, own_priorities);
    });
  }

  [[nodiscard]] Py_ssize_t size() { return static_cast<Py_ssize_t>(mixed_->size()); }
  [[nodiscard]] MixSource mix_source() const { return {mixed_.get(), buffers_.front().get()}; }
  [[nodiscard]] nb::object parts() const;
  template <auto kMember>
  [[nodiscard]] nb::object per_part() const {
    return to_python(mixed_->statuses() |
                     std::views::transform([](const SampleStatus& part) { return part.*kMember; }));
  }

 private:
  /// ValueError unless n is the length of the mix, or not given.
  void check_length(CallName call, std::optional<Count> n) const;
  /// Closed if a buffer was restored since, because `mixed_` draws from the old one.
  void check_current(const char* call) const;

  const Parts parts_;
  const Buffers& buffers_;
  const SamplerOptions options_;
  /// `SharedBuffer::restore_count` of each buffer when the mix was made.
  std::vector<unsigned> restore_counts_;
  const std::unique_ptr<MixedSampler> mixed_;
  const std::shared_ptr<BatchPool> pool_;
  SignalHook hook_;
  /// The batch of a call that raised, which the next call goes on to fill; else null.
  nb::object unfinished_batch_;
  bool in_use_ = false;
  std::uint64_t prefetchers_ = 0;  ///< How many were made.
};

using GivenParts = Given<
    "Sequence[tuple[ReplayBuffer | SelectorHandle, int]] | Sequence[ReplayBuffer | "
    "SelectorHandle]">;

void make(MixObject* place, CallName call, GivenParts given, std::optional<Count> n,
          const SamplerOptions& options, Allocator allocator) {
  Calls calls;
  new (place) MixObject(Parts(given, n, call.text, calls), options, allocator);
}

void MixObject::check_length(CallName call, std::optional<Count> n) const {
  if (n && n->items != mixed_->size()) {
    fail(ArgumentName(call.text, "n"), " is ", n->items, "; allowed: the length of the mix, ",
         mixed_->size());
  }
}

nb::object MixObject::sample(CallName call, std::optional<Count> n, const DrawOptions& how,
                             std::chrono::nanoseconds timeout) {
  check_length(call, n);
  SampleOptions options = how;
  options.timeout = timeout;
  options.hook = &hook_;
  if (!unfinished_batch_.is_valid()) {
    unfinished_batch_ = make_batch(pool_, mixed_->size());
  }
  Batch& batch = self_of<BatchObject>(unfinished_batch_.ptr()).batch;
  const SampleStatus status =
      hook_.wait(options.timeout, [&] { return mixed_->sample_into(batch, options); });
  if (status.code != SampleStatus::Code::Ok) {
    const std::size_t part = mixed_->waits_for();
    buffers_[part]->check_process();
    raise_status(status,
                 (call.text + std::string(": parts[") + std::to_string(part) + "]").c_str());
  }
  return std::exchange(unfinished_batch_, nb::object());
}

nb::object MixObject::prefetch(CallName call, std::optional<Count> n, std::size_t depth,
                               const DrawOptions& how, Allocator allocator,
                               std::chrono::nanoseconds timeout,
                               std::optional<std::uint64_t> seed) {
  check_length(call, n);
  check_current(call.text);
  auto pool = !allocator.is_valid() ? pool_
                                    : std::make_shared<BatchPool>(*buffers_.front(), allocator,
                                                                  options_.unique_frames);
  SamplerOptions options = options_;
  options.seed = seed.value_or(options.seed + (prefetchers_ << kSeedShift));
  nb::object prefetcher = make_prefetcher(
      {{buffers_.begin(), buffers_.end()}, parts_.mixed(options), std::move(pool), mixed_->size()},
      how, depth, timeout);
  ++prefetchers_;
  return prefetcher;
}

void MixObject::check_current(const char* call) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i]->restore_count != restore_counts_[i]) {
      fail<Closed>(call, ": parts[", i, "] was restored since; make another Mix");
    }
  }
}

nb::object MixObject::parts() const {
  nb::list slices;
  std::size_t begin = 0;
  for (const std::size_t count : mixed_->counts()) {
    const nb::int_ from(begin);
    const nb::int_ to(begin += count);
    slices.append(checked(PySlice_New(from.ptr(), to.ptr(), nullptr)));
  }
  return slices;
}

}  // namespace

MixSource mix_source_of(nb::handle given) {
  return nb::isinstance<MixObject>(given) ? self_of<MixObject>(given.ptr()).mix_source()
                                          : MixSource();
}

void bind_mix(nb::module_& module) {
  using Self = MixObject;
  Type<Self>("Mix", kDoc)
      .constructor<&make>(kInit, arg("parts"), arg("n", std::nullopt), keyword("allocator", "None"))
      .method<&Self::sample>("sample", "Batch", kSample, arg("n", std::nullopt),
                             keyword("timeout", kNoTimeout))
      .method<&Self::prefetch>("prefetch", "Prefetcher", kPrefetch, arg("n", std::nullopt),
                               keyword("depth", 2U), keyword("allocator", "None"),
                               keyword("timeout", kNoTimeout), keyword("seed", std::nullopt))
      .method<&Self::update_priorities>("update_priorities", "UpdateResult", kUpdate, arg("keys"),
                                        arg("priorities"))
      .special<&Self::size>(Py_mp_length, "__len__(self) -> int")
      .property<&Self::parts>(
          "parts", "list[slice]",
          "The places of each part in a batch, in the order of the parts; by the common total\n"
          "those of the last batch, or of the unfinished one if the last call raised.")
      .property<&Self::per_part<&SampleStatus::passes>>(
          "passes", "list[int]", "Passes that each part has completed with draws='epoch'.")
      .property<&Self::per_part<&SampleStatus::fresh>>(
          "fresh", "list[int]",
          "How many items of each part of the last batch are fresh ones: the first of the part.")
      .add(module);
}

}  // namespace reprise::python
