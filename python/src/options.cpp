#include "options.hpp"

#include <reprise/reprise.hpp>

#include "numbers.hpp"
#include "vocabulary.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <variant>

namespace reprise::python {
namespace {

constexpr const char* kStackStarts[] = {"repeat_first", "zeros"};
constexpr const char* kSequenceEnds[] = {"truncate", "zero_pad", "drop", "overlap"};
/// Initial priorities that have names, and the names; a constant is given as a number.
constexpr InitialPriority kInitials[] = {InitialPriority::MaximumInBuffer,
                                         InitialPriority::HighestSeen, InitialPriority::FromCaller};
constexpr const char* kInitialNames[] = {"maximum_in_buffer", "highest_seen", "from_caller"};

bool is(py::handle object, const char* type) {
  return py::isinstance(object, vocabulary().options.attr(type));
}

template <class T>
T number(py::handle object, const char* option) {
  return number_from<T>(object.attr(option),
                        py::type::of(object).attr("__name__").cast<std::string>() + "." + option);
}

[[noreturn]] void refuse(const char* option, py::handle given, const char* allowed) {
  throw py::type_error(std::string(option) + " is " + py::repr(given).cast<std::string>() +
                       "; allowed: " + allowed);
}

template <class Strategy>
Strategy with_initial(py::handle given, Strategy strategy) {
  const py::object initial = given.attr("initial");
  if (PyNumber_Check(initial.ptr()) != 0) {
    strategy.initial = InitialPriority::Constant;
    strategy.initial_constant = number<float>(given, "initial");
  } else {
    strategy.initial =
        kInitials[enum_from<std::size_t>(initial, "initial", kInitialNames, ", or a number")];
  }
  return strategy;
}

Selector selector_from(py::handle given) {
  if (is(given, "Proportional")) {
    return with_initial(given, Proportional{.alpha = number<float>(given, "alpha"),
                                            .epsilon = number<float>(given, "epsilon")});
  }
  if (is(given, "RankBased")) {
    return with_initial(given, RankBased{.alpha = number<float>(given, "alpha")});
  }
  if (is(given, "MaxHeap")) {
    return with_initial(given, MaxHeap{});
  }
  if (is(given, "MinHeap")) {
    return with_initial(given, MinHeap{});
  }
  if (is(given, "Uniform")) {
    return Uniform{};
  }
  if (is(given, "Lifo")) {
    return Lifo{};
  }
  if (is(given, "Fifo")) {
    return Fifo{};
  }
  refuse("selectors", given,
         "Proportional, RankBased, MaxHeap, MinHeap, Uniform, Lifo, Fifo, or a sequence of them");
}

/// The shortest decimal that is this float, as a Python float: 0.6 rather than 0.6000000238.
py::float_ decimal(float value) {
  char text[32];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), value);
  double shortest = value;
  if (error == std::errc()) {
    std::from_chars(std::begin(text), end, shortest);
  }
  return shortest;
}

py::object make(const char* type, const py::dict& values = {}) {
  return vocabulary().options.attr(type)(**values);
}

template <class Strategy>
py::object initial_of(const Strategy& strategy) {
  if (strategy.initial == InitialPriority::Constant) {
    return decimal(strategy.initial_constant);
  }
  const auto* const kind = std::find(std::begin(kInitials), std::end(kInitials), strategy.initial);
  return py::str(kInitialNames[kind - std::begin(kInitials)]);
}

py::object to_python(const Selector& selector) {
  using py::literals::operator""_a;
  if (const auto* const kind = selector.target<Proportional>()) {
    return make("Proportional",
                py::dict("alpha"_a = decimal(kind->alpha), "epsilon"_a = decimal(kind->epsilon),
                         "initial"_a = initial_of(*kind)));
  }
  if (const auto* const kind = selector.target<RankBased>()) {
    return make("RankBased",
                py::dict("alpha"_a = decimal(kind->alpha), "initial"_a = initial_of(*kind)));
  }
  if (const auto* const kind = selector.target<MaxHeap>()) {
    return make("MaxHeap", py::dict("initial"_a = initial_of(*kind)));
  }
  if (const auto* const kind = selector.target<MinHeap>()) {
    return make("MinHeap", py::dict("initial"_a = initial_of(*kind)));
  }
  if (selector.target<Uniform>() != nullptr) {
    return make("Uniform");
  }
  return make(selector.target<Lifo>() != nullptr ? "Lifo" : "Fifo");
}

py::object to_python(const Remover& remover) {
  using py::literals::operator""_a;
  if (const auto* const kind = remover.target<LeastFrequentlySampled>()) {
    return make("LeastFrequentlySampled", py::dict("candidates"_a = kind->candidates));
  }
  if (const auto* const kind = remover.target<LeastRecentlySampled>()) {
    return make("LeastRecentlySampled", py::dict("candidates"_a = kind->candidates));
  }
  if (const auto* const kind = remover.target<LowestPriority>()) {
    return make("LowestPriority",
                py::dict("selector"_a = kind->selector, "candidates"_a = kind->candidates));
  }
  return make(remover.target<SecondChance>() != nullptr ? "SecondChance" : "Fifo");
}

py::object to_python(const Window& window) {
  using py::literals::operator""_a;
  if (const auto* const kind = std::get_if<Transitions>(&window)) {
    return make(
        "Transitions",
        py::dict("n_step"_a = kind->n_step, "discount"_a = decimal(kind->discount),
                 "frame_stack"_a = kind->frame_stack,
                 "stack_start"_a = kStackStarts[static_cast<std::size_t>(kind->stack_start)]));
  }
  const auto& kind = std::get<Sequences>(window);
  return make("Sequences", py::dict("length"_a = kind.length, "period"_a = kind.period,
                                    "burn_in"_a = kind.burn_in,
                                    "end"_a = kSequenceEnds[static_cast<std::size_t>(kind.end)]));
}

py::object to_python(const RateLimiter& limiter) {
  using py::literals::operator""_a;
  if (const auto* const kind = std::get_if<MinSize>(&limiter)) {
    return make("MinSize", py::dict("items"_a = kind->items));
  }
  if (const auto* const kind = std::get_if<Queue>(&limiter)) {
    return make("Queue", py::dict("size"_a = kind->size));
  }
  if (const auto* const kind = std::get_if<SampleToInsertRatio>(&limiter)) {
    return make("SampleToInsertRatio",
                py::dict("samples_per_insert"_a = kind->samples_per_insert,
                         "min_size"_a = kind->min_size, "error_buffer"_a = kind->error_buffer));
  }
  return make("Unlimited");
}

py::object to_python(const Storage& storage) {
  const auto* const file = std::get_if<MappedFile>(&storage);
  return file == nullptr ? py::object(py::none()) : py::cast(file->path);
}

}  // namespace

Window window_from(py::handle window) {
  if (is(window, "Transitions")) {
    return Transitions{.n_step = number<std::uint32_t>(window, "n_step"),
                       .discount = number<float>(window, "discount"),
                       .frame_stack = number<std::uint32_t>(window, "frame_stack"),
                       .stack_start = enum_from<StackStart>(
                           window.attr("stack_start"), "Transitions.stack_start", kStackStarts)};
  }
  if (is(window, "Sequences")) {
    return Sequences{
        .length = number<std::uint32_t>(window, "length"),
        .period = number<std::uint32_t>(window, "period"),
        .burn_in = number<std::uint32_t>(window, "burn_in"),
        .end = enum_from<SequenceEnd>(window.attr("end"), "Sequences.end", kSequenceEnds)};
  }
  refuse("window", window, "Transitions or Sequences");
}

std::vector<Selector> selectors_from(py::handle selectors) {
  std::vector<Selector> made;
  if (PySequence_Check(selectors.ptr()) == 0 || PyUnicode_Check(selectors.ptr())) {
    made.push_back(selector_from(selectors));
    return made;
  }
  for (const py::handle selector : py::iter(selectors)) {
    made.push_back(selector_from(selector));
  }
  return made;
}

Remover remover_from(py::handle remover) {
  if (is(remover, "Fifo")) {
    return Fifo{};
  }
  if (is(remover, "LeastFrequentlySampled")) {
    return LeastFrequentlySampled{.candidates = number<std::uint32_t>(remover, "candidates")};
  }
  if (is(remover, "LeastRecentlySampled")) {
    return LeastRecentlySampled{.candidates = number<std::uint32_t>(remover, "candidates")};
  }
  if (is(remover, "LowestPriority")) {
    return LowestPriority{.selector = number<std::size_t>(remover, "selector"),
                          .candidates = number<std::uint32_t>(remover, "candidates")};
  }
  if (is(remover, "SecondChance")) {
    return SecondChance{};
  }
  refuse("remover", remover,
         "Fifo, LeastFrequentlySampled, LeastRecentlySampled, LowestPriority or SecondChance");
}

RateLimiter rate_limiter_from(py::handle limiter) {
  if (is(limiter, "MinSize")) {
    return MinSize{.items = number<std::size_t>(limiter, "items")};
  }
  if (is(limiter, "SampleToInsertRatio")) {
    return SampleToInsertRatio{.samples_per_insert = number<double>(limiter, "samples_per_insert"),
                               .min_size = number<std::size_t>(limiter, "min_size"),
                               .error_buffer = number<double>(limiter, "error_buffer")};
  }
  if (is(limiter, "Queue")) {
    return Queue{.size = number<std::size_t>(limiter, "size")};
  }
  if (is(limiter, "Unlimited")) {
    return Unlimited{};
  }
  refuse("rate_limiter", limiter, "MinSize, SampleToInsertRatio, Queue or Unlimited");
}

Storage storage_from(py::handle storage) {
  if (storage.is_none()) {
    return Memory{};
  }
  try {
    return MappedFile{storage.cast<std::filesystem::path>()};
  } catch (const py::cast_error&) {
    refuse("storage", storage, "None or a path");
  }
}

py::dict options_dict(const Options& options) {
  using py::literals::operator""_a;
  py::list selectors;
  for (const Selector& selector : options.selectors) {
    selectors.append(to_python(selector));
  }
  return py::dict("capacity_steps"_a = options.capacity_steps,
                  "window"_a = to_python(options.window), "selectors"_a = selectors,
                  "remover"_a = to_python(options.remover),
                  "rate_limiter"_a = to_python(options.rate_limiter),
                  "max_times_sampled"_a = options.max_times_sampled,
                  "episode_index"_a = options.episode_index, "max_writers"_a = options.max_writers,
                  "chunk_steps"_a = options.chunk_steps, "shards"_a = options.shards,
                  "storage"_a = to_python(options.storage), "key_tag"_a = options.key_tag);
}

}  // namespace reprise::python
