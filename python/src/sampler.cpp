#include "sampler.hpp"

#include <reprise/replay_buffer.hpp>

#include "numbers.hpp"
#include "options.hpp"
#include "waiting.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

constexpr const char* kCall = "Sampler.sample";
constexpr std::string_view kNormalise[] = {"by_batch", "by_buffer", "not"};
constexpr std::string_view kDraws[] = {"stratified", "independent", "without_replacement"};

constexpr const char* kKeywords[] = {"n",       "beta",   "normalise", "draws",
                                     "timeout", "gather", "owned"};
constexpr std::size_t kKeywordCount = std::size(kKeywords);

/// Interned strings, kept for as long as the interpreter lives.
using Names = PyObject* [kKeywordCount];
const Names& keyword_names() {
  static Names names{};
  if (names[0] == nullptr) {
    for (std::size_t i = 0; i < kKeywordCount; ++i) {
      names[i] = PyUnicode_InternFromString(kKeywords[i]);
      if (names[i] == nullptr) {
        throw py::error_already_set();
      }
    }
  }
  return names;
}

/// The arguments of one call by their places in kKeywords, borrowed; null if not given.
struct Given {
  PyObject* values[kKeywordCount] = {};
};

Given read(const Arguments& arguments) {
  check_positional(arguments, 1, kCall);
  Given given;
  if (arguments.positional() == 1) {
    given.values[0] = arguments[0];
  }
  for (py::ssize_t i = 0; i < arguments.named(); ++i) {
    const int index = keyword_index(arguments.name(i), keyword_names());
    if (index < 0 || (index == 0 && given.values[0] != nullptr)) {
      throw py::type_error(std::string(kCall) + ": unexpected keyword " +
                           py::repr(py::handle(arguments.name(i))).cast<std::string>() +
                           "; allowed: n, beta, normalise, draws, timeout, gather, owned");
    }
    given.values[index] = arguments.value(i);
  }
  return given;
}

std::size_t count_from(PyObject* given) {
  if (given == nullptr) {
    throw py::type_error(std::string(kCall) + ": n is missing");
  }
  const auto n = number_from<py::ssize_t>(given, "Sampler.sample: n");
  if (n < 1) {
    throw std::invalid_argument(std::string(kCall) + ": n is " + std::to_string(n) +
                                "; allowed: at least 1");
  }
  return static_cast<std::size_t>(n);
}

bool flag_from(PyObject* given, const char* what, bool otherwise) {
  return given == nullptr ? otherwise : number_from<bool>(given, what);
}

SampleOptions options_from(const Given& given) {
  SampleOptions options;
  if (given.values[1] != nullptr) {
    options.beta = number_from<float>(given.values[1], "Sampler.sample: beta");
  }
  if (given.values[2] != nullptr) {
    options.normalise = normalise_from(given.values[2]);
  }
  if (given.values[3] != nullptr) {
    options.draws = draws_from(given.values[3]);
  }
  options.gather = flag_from(given.values[5], "Sampler.sample: gather", true);
  return options;
}

}  // namespace

Normalise normalise_from(py::handle given) {
  return enum_from<Normalise>(given, "normalise", kNormalise);
}

Draws draws_from(py::handle given) {
  return enum_from<Draws>(given, "draws", kDraws);
}

SamplerOptions sampler_options(std::uint64_t seed, std::size_t selector,
                               std::optional<std::size_t> resume) {
  SamplerOptions options;
  options.seed = seed;
  options.selector = selector;
  options.resume = resume;
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

SamplerObject::SamplerObject(std::shared_ptr<SharedBuffer> buffer, const SamplerOptions& options,
                             std::shared_ptr<UserMemory> memory, bool checked)
    : buffer_(std::move(buffer)),
      sampler_(buffer_->buffer.sampler(options)),
      memory_(std::move(memory)),
      checked_(checked) {}

std::shared_ptr<BatchMemory> SamplerObject::make_memory(std::size_t n) const {
  return std::make_shared<BatchMemory>(
      BatchMemory{memory_, buffer_->buffer.make_batch(n, memory_.get())});
}

py::object SamplerObject::make_object(const std::shared_ptr<BatchMemory>& memory,
                                      std::size_t n) const {
  return py::cast(std::make_unique<BatchObject>(*buffer_, memory->batch, keeper(memory), n));
}

void SamplerObject::draw(Batch& batch, std::size_t n, SampleOptions options,
                         std::chrono::nanoseconds timeout) {
  options.timeout = timeout;
  options.hook = &hook_;
  const SampleStatus status =
      hook_.wait([&] { return sampler_.sample_into(batch, 0, n, options); });
  if (status.code != SampleStatus::Code::Ok) {
    buffer_->check_process();
    raise_status(status, kCall);
  }
}

py::object SamplerObject::sample(const Arguments& arguments) {
  const InUse in_use(in_use_, "Sampler");
  const SharedBuffer::Call under_way(*buffer_, kCall);
  const Given given = read(arguments);
  const std::size_t n = count_from(given.values[0]);
  const SampleOptions options = options_from(given);
  const std::chrono::nanoseconds timeout = timeout_from(given.values[4], kCall);
  const bool owned = flag_from(given.values[6], "Sampler.sample: owned", false);
  const bool fresh = owned || checked_ || !current_ || n > current_->batch.capacity();
  const std::shared_ptr<BatchMemory> memory = fresh ? make_memory(n) : current_;
  draw(memory->batch, n, options, timeout);
  ++calls_;
  if (owned) {
    return make_object(memory, n);
  }
  if (fresh || n != n_) {
    replace(memory, n);
  }
  return object_;
}

void SamplerObject::replace(std::shared_ptr<BatchMemory> memory, std::size_t n) {
  py::object object = make_object(memory, n);
  if (checked_ && current_) {
    object_.cast<BatchObject&>().replaced_by(drawn_by_, calls_);
    current_->poison(*buffer_);
  }
  current_ = std::move(memory);
  object_ = std::move(object);
  n_ = n;
  drawn_by_ = calls_;
}

}  // namespace reprise::python
