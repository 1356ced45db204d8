#include "sampler.hpp"

#include <stdexcept>
#include <string>
#include <utility>

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
  'epoch', the next n items of a pass over the buffer, which gives each item once, in a sequence
  shuffled anew for each pass. Items that arrive during a pass wait for the next one; a batch may
  end one pass and begin the next. Weights above 0 do not count, and importance weights are 1.
timeout: seconds to wait for enough items and the rate limiter; None waits for ever, 0 tries once.
gather: False fills keys, weights and probabilities alone; the contents of fields are unspecified,
  with views=True they stay as they were.
views: True fills the batch of the last call with views=True once more, if n is the same, whoever
  holds it: its arrays then show the new items. For loops that are done with a batch before the
  next call; it saves a new object for each call.

Raises ValueError for n or beta out of range and for a batch that the rate limiter could never let
through, TimeoutError with what is missing, Closed, NothingToDraw if every weight is 0. The GIL is
released while it waits, draws and copies; KeyboardInterrupt ends the wait.)";

constexpr const char* kEmpty =
    R"(A batch of n items for `sample_into`; what it holds is unspecified until then.)";

constexpr const char* kSampleInto =
    R"(Draws n items into the places [offset, offset + n) of a batch of this sampler or of another one,
also of another buffer of equal schema and window, to mix them in another way than reprise.mix.
'by_batch' normalises over these n. The other arguments and the errors are those of `sample`;
ValueError for places outside the batch and for a batch of other fields or another window.)";

constexpr std::string_view kNormalise[] = {"by_batch", "by_buffer", "not"};
constexpr std::string_view kDraws[] = {"stratified", "independent", "without_replacement", "epoch"};

}  // namespace

std::size_t items_of(const Arguments& arguments, std::size_t at) {
  const auto count = arguments.get<Py_ssize_t>(at);
  if (count < 1) {
    throw std::invalid_argument(arguments.what(at).text() + " is " + std::to_string(count) +
                                "; allowed: at least 1");
  }
  return static_cast<std::size_t>(count);
}

SampleOptions sample_options(const Arguments& arguments, std::size_t first) {
  SampleOptions options;
  options.beta = arguments.get<float>(first, options.beta);
  options.normalise = arguments.word(first + 1, kNormalise, options.normalise);
  options.draws = arguments.word(first + 2, kDraws, options.draws);
  return options;
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

SamplerObject::SamplerObject(std::shared_ptr<SharedBuffer> buffer, SamplerOptions options,
                             nb::handle allocator)
    : buffer_(std::move(buffer)),
      pool_(std::make_shared<BatchPool>(*buffer_, allocator, options.unique_frames)),
      sampler_(buffer_->buffer.sampler(options)),
      hook_(&buffer_->buffer) {}

nb::object SamplerObject::empty_batch(const Arguments& arguments) {
  return make_batch(pool_, buffer_->buffer, items_of(arguments, 0));
}

/// beta, normalise, draws, timeout and gather stand from `first` on.
void SamplerObject::fill(Batch& batch, std::size_t offset, std::size_t n,
                         const Arguments& arguments, std::size_t first) {
  SampleOptions options = sample_options(arguments, first);
  options.timeout = std::chrono::nanoseconds(arguments.timeout_ns(first + 3));
  options.gather = arguments.get<bool>(first + 4, true);
  options.hook = &hook_;
  const SampleStatus status =
      hook_.wait(options.timeout, [&] { return sampler_.sample_into(batch, offset, n, options); });
  if (status.code != SampleStatus::Code::Ok) {
    buffer_->check_process();
    raise_status(status, arguments.call());
  }
  fresh_ = status.fresh;
  passes_ = status.passes;
}

nb::object SamplerObject::sample(const Arguments& arguments) {
  const std::size_t n = items_of(arguments, 0);
  const bool views = arguments.get<bool>(6, false);
  const bool again = views && views_.is_valid() && self_of<BatchObject>(views_.ptr()).n == n;
  nb::object made = again ? views_ : make_batch(pool_, buffer_->buffer, n);
  fill(self_of<BatchObject>(made.ptr()).batch, 0, n, arguments, 1);
  if (views) {
    views_ = made;
    self_of<BatchObject>(made.ptr()).views = true;
  }
  return made;
}

void SamplerObject::sample_into(const Arguments& arguments) {
  auto& into = arguments.object<BatchObject>(0);
  const auto offset = arguments.get<std::size_t>(1);
  const std::size_t n = items_of(arguments, 2);
  if (offset > into.n || n > into.n - offset) {
    throw std::invalid_argument(
        arguments.what(1).text() + " is " + std::to_string(offset) + " and n " + std::to_string(n) +
        "; allowed: places of the batch, which has " + std::to_string(into.n));
  }
  fill(into.batch, offset, n, arguments, 3);
}

void bind_sampler(nb::module_& module) {
  Type<SamplerObject>("Sampler", kDoc)
      .method<&SamplerObject::sample>(
          "sample(self, n: int, *, beta: float = 0.4, normalise: _Normalise = 'by_batch', "
          "draws: _Draws = 'stratified', timeout: float | None = None, gather: bool = True, "
          "views: bool = False) -> Batch",
          kSample)
      .method<&SamplerObject::empty_batch>("empty_batch(self, n: int) -> Batch", kEmpty)
      .method<&SamplerObject::sample_into>(
          "sample_into(self, batch: Batch, offset: int, n: int, *, beta: float = 0.4, "
          "normalise: _Normalise = 'by_batch', draws: _Draws = 'stratified', timeout: float | None "
          "= None, "
          "gather: bool = True) -> None",
          kSampleInto)
      .forward_property<&SamplerObject::fresh>(
          "fresh(self) -> int",
          "Items of the last batch that came from the queue of `fresh`: its first ones.")
      .forward_property<&SamplerObject::passes>("passes(self) -> int",
                                                "Passes completed with draws='epoch'.")
      .add(module);
}

}  // namespace reprise::python
