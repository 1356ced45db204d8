#include "sampler.hpp"

namespace reprise::python {
namespace {

py::object sample(SamplerObject& sampler, const Arguments& arguments) {
  return sampler.sample(arguments);
}

constexpr const char* kDoc = R"(Draws batches for one learner thread; made by ReplayBuffer.sampler.

One thread at a time may use a sampler (RuntimeError otherwise); any number of samplers draw at
once.)";

constexpr const char* kSample =
    R"(sample($self, /, n, *, beta=0.4, normalise='by_batch', draws='stratified', timeout=None, gather=True, owned=False)
--

A batch of n items, drawn by the sampler's selector. Items come in the order of their memory:
shuffle before cutting a batch into parts.

beta: exponent of the importance weights, 0 to 1.
normalise: how weights are scaled: 'by_batch', divided by the largest in the batch; 'by_buffer', by
  the largest that the buffer could give, comparable between batches; 'not'.
draws: 'stratified', one from each of n equal parts of the total weight, or 'independent', both with
  replacement; 'without_replacement', n different items, which locks the buffer while it draws.
timeout: seconds to wait for enough items and the rate limiter; None waits for ever, 0 tries once.
gather: False fills keys, weights and probabilities alone; fields stay as they were.
owned: True gives a batch with memory of its own, which no later call changes.

The batch views memory of the sampler and is valid until the next call; the same objects are given
out again while n stays the same, and nothing is allocated then.

Raises ValueError for n or beta out of range and for a batch that the rate limiter could never let
through, TimeoutError with what is missing, Closed, NothingToDraw if every weight is 0. The GIL is
released while it waits, draws and copies; KeyboardInterrupt ends the wait.)";

}  // namespace

void bind_sampler(py::module_& module) {
  py::class_<SamplerObject, std::shared_ptr<SamplerObject>> type(module, "Sampler", kDoc);
  add_fast_method<&sample>(type, "sample", kSample);
}

}  // namespace reprise::python
