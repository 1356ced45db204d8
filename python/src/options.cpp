#include "options.hpp"

#include <reprise/strategies.hpp>

#include "numbers.hpp"
#include "vocabulary.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

namespace reprise::python {
namespace {

/// The word of an option in whose place Python takes a number.
constexpr std::string_view kConstant = "constant";

py::object class_of(std::string_view name) {
  return vocabulary().options.attr("classes")[py::str(name.data(), name.size())];
}

/// A value of the alternative that `as` has.
OptionValue number(py::handle given, const std::string& option, const OptionValue& as) {
  return std::visit([&]<class T>(T) -> OptionValue { return number_from<T>(given, option); }, as);
}

/// Whether the next option is the number of this one. Python has a single attribute for both, a
/// word or a number.
bool takes_number(std::span<const StrategyOption> options, std::size_t i) {
  return i + 1 < options.size() &&
         options[i + 1].name == std::string(options[i].name) + "_" + std::string(kConstant);
}

std::uint64_t constant_of(const StrategyOption& option) {
  return static_cast<std::uint64_t>(std::ranges::find(option.words, kConstant) -
                                    option.words.begin());
}

/// The strategy that an object of one of these classes describes; TypeError for other objects.
template <class Family>
Family strategy_from(const char* option, py::handle given,
                     std::span<const StrategyKind<Family>> kinds, const char* besides = "") {
  std::string allowed;
  for (const StrategyKind<Family>& kind : kinds) {
    const std::string name(kind.name());
    allowed += allowed.empty() ? "" : &kind == &kinds.back() ? " or " : ", ";
    allowed += name;
    if (!py::isinstance(given, class_of(kind.name()))) {
      continue;
    }
    std::vector<OptionValue> values;
    const std::span<const StrategyOption> options = kind.options();
    for (std::size_t i = 0; i < options.size(); ++i) {
      const std::string attribute(options[i].name);
      const std::string what = name + "." + attribute;
      const py::object value = given.attr(attribute.c_str());
      if (takes_number(options, i)) {
        const bool is_number = PyNumber_Check(value.ptr()) != 0;
        values.emplace_back(std::uint64_t{
            is_number ? constant_of(options[i]) : place_of(value, what, options[i].words, true)});
        ++i;
        values.push_back(is_number ? number(value, what, options[i].usual) : options[i].usual);
      } else if (!options[i].words.empty()) {
        values.emplace_back(std::uint64_t{place_of(value, what, options[i].words)});
      } else {
        values.push_back(number(value, what, options[i].usual));
      }
    }
    return kind.make(values);
  }
  throw py::type_error(std::string(option) + " is " + py::repr(given).cast<std::string>() +
                       "; allowed: " + allowed + besides);
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

py::object to_python(const StrategyOption& option, const OptionValue& value) {
  if (!option.words.empty()) {
    const std::string_view word = option.words[std::get<std::uint64_t>(value)];
    return py::str(word.data(), word.size());
  }
  if (const auto* const single = std::get_if<float>(&value)) {
    return decimal(*single);
  }
  return std::visit([](auto number) -> py::object { return py::cast(number); }, value);
}

/// Calls take(option, value) for each attribute of a strategy's class, with these values of its
/// options.
template <class Take>
void each_attribute(std::span<const StrategyOption> options, std::span<const OptionValue> values,
                    Take take) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::size_t at = i;
    if (takes_number(options, i)) {
      ++i;
    }
    const bool constant =
        i != at && std::get<std::uint64_t>(values[at]) == constant_of(options[at]);
    take(options[at], to_python(options[constant ? i : at], values[constant ? i : at]));
  }
}

template <class Family>
py::object to_python(const Family& strategy, std::span<const StrategyKind<Family>> kinds) {
  for (const StrategyKind<Family>& kind : kinds) {
    if (const auto values = kind.values(strategy)) {
      py::dict attributes;
      each_attribute(kind.options(), *values,
                     [&](const StrategyOption& option, const py::object& value) {
                       attributes[py::str(option.name.data(), option.name.size())] = value;
                     });
      return class_of(kind.name())(**attributes);
    }
  }
  return py::none();  // A strategy of the user's own has no class in Python.
}

template <class Family>
void define(const char* option, std::span<const StrategyKind<Family>> kinds) {
  for (const StrategyKind<Family>& kind : kinds) {
    std::vector<OptionValue> usual;
    for (const StrategyOption& described : kind.options()) {
      usual.push_back(described.usual);
    }
    py::list fields;
    each_attribute(kind.options(), usual,
                   [&](const StrategyOption& described, const py::object& value) {
                     fields.append(py::make_tuple(described.name, py::type::of(value), value));
                   });
    vocabulary().options.attr("define")(option, kind.name(), kind.about(), fields);
  }
}

py::object to_python(const Storage& storage) {
  const auto* const file = std::get_if<MappedFile>(&storage);
  return file == nullptr ? py::object(py::none()) : py::cast(file->path);
}

}  // namespace

std::size_t place_of(py::handle given, std::string_view option,
                     std::span<const std::string_view> words, bool or_number) {
  std::string allowed;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (or_number && words[i] == kConstant) {
      continue;
    }
    if (PyUnicode_Check(given.ptr()) && given.cast<std::string>() == words[i]) {
      return i;
    }
    allowed += (allowed.empty() ? "'" : ", '") + std::string(words[i]) + "'";
  }
  throw py::value_error(std::string(option) + " is " + py::repr(given).cast<std::string>() +
                        "; allowed: " + allowed + (or_number ? ", or a number" : ""));
}

void define_strategies() {
  define("window", windows());
  define("selectors", selectors());
  define("remover", removers());
  define("rate_limiter", rate_limiters());
}

Window window_from(py::handle window) {
  return strategy_from("window", window, windows());
}

std::vector<Selector> selectors_from(py::handle given) {
  const auto selector_from = [](py::handle selector) {
    return strategy_from("selectors", selector, selectors(), ", or a sequence of them");
  };
  std::vector<Selector> made;
  if (PySequence_Check(given.ptr()) == 0 || PyUnicode_Check(given.ptr())) {
    made.push_back(selector_from(given));
    return made;
  }
  for (const py::handle selector : py::iter(given)) {
    made.push_back(selector_from(selector));
  }
  return made;
}

Remover remover_from(py::handle remover) {
  return strategy_from("remover", remover, removers());
}

RateLimiter rate_limiter_from(py::handle limiter) {
  return strategy_from("rate_limiter", limiter, rate_limiters());
}

Storage storage_from(py::handle storage) {
  if (storage.is_none()) {
    return Memory{};
  }
  try {
    return MappedFile{storage.cast<std::filesystem::path>()};
  } catch (const py::cast_error&) {
    throw py::type_error("storage is " + py::repr(storage).cast<std::string>() +
                         "; allowed: None or a path");
  }
}

py::dict options_dict(const Options& options) {
  using py::literals::operator""_a;
  py::list drawn_by;
  for (const Selector& selector : options.selectors) {
    drawn_by.append(to_python(selector, selectors()));
  }
  return py::dict("capacity_steps"_a = options.capacity_steps,
                  "window"_a = to_python(options.window, windows()), "selectors"_a = drawn_by,
                  "remover"_a = to_python(options.remover, removers()),
                  "rate_limiter"_a = to_python(options.rate_limiter, rate_limiters()),
                  "max_times_sampled"_a = options.max_times_sampled,
                  "episode_index"_a = options.episode_index, "max_writers"_a = options.max_writers,
                  "chunk_steps"_a = options.chunk_steps, "shards"_a = options.shards,
                  "storage"_a = to_python(options.storage), "key_tag"_a = options.key_tag);
}

}  // namespace reprise::python
