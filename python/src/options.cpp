#include "options.hpp"

#include <reprise/strategies.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

namespace reprise::python {
namespace {

/// The classes of the strategies by name.
nb::dict& classes() {
  static auto& made = *new nb::dict;
  return made;
}

/// The word of an option in whose place Python takes a number.
constexpr std::string_view kConstant = "constant";

/// The shortest decimal that is this float, as a Python float: 0.6 rather than 0.6000000238.
nb::object decimal(float value) {
  char text[32];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), value);
  double shortest = double{value};
  if (error == std::errc()) {
    std::from_chars(std::begin(text), end, shortest);
  }
  return nb::float_(shortest);
}

/// Whether the next option is the number of this one, which is then a word or a number of Python's.
bool takes_number(std::span<const StrategyOption> options, std::size_t i) {
  return i + 1 < options.size() && options[i + 1].name.ends_with("_constant");
}

/// The values of options as attributes of Python, in which a word and its constant are one.
nb::dict to_python(std::span<const StrategyOption> options, std::span<const OptionValue> values) {
  nb::dict made;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const nb::str name = text_of(options[i].name);
    if (!options[i].words.empty()) {
      const std::string_view word = options[i].words[std::get<std::uint64_t>(values[i])];
      if (word == kConstant) {
        made[name] = decimal(std::get<float>(values[i + 1]));
      } else {
        made[name] = text_of(word);
      }
      i += takes_number(options, i) ? 1U : 0U;
    } else if (const auto* const narrow = std::get_if<float>(&values[i])) {
      made[name] = decimal(*narrow);
    } else if (const auto* const wide = std::get_if<double>(&values[i])) {
      made[name] = *wide;
    } else {
      made[name] = std::get<std::uint64_t>(values[i]);
    }
  }
  return made;
}

/// The reverse, of an object of a strategy's class.
std::vector<OptionValue> from_python(nb::handle given, std::string_view kind,
                                     std::span<const StrategyOption> options) {
  std::vector<OptionValue> values;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const StrategyOption& option = options[i];
    const nb::object value = given.attr(std::string(option.name).c_str());
    const std::string what = std::string(kind) + "." + std::string(option.name);
    if (takes_number(options, i)) {
      const bool number = PyNumber_Check(value.ptr()) != 0;
      const auto constant = std::find(option.words.begin(), option.words.end(), kConstant);
      values.emplace_back(number ? static_cast<std::uint64_t>(constant - option.words.begin())
                                 : word_from(value, what, option.words.data(), option.words.size(),
                                             ", or a number"));
      values.emplace_back(number ? value_from<float>(value, what)
                                 : std::get<float>(options[i + 1].usual));
      ++i;
    } else if (!option.words.empty()) {
      values.emplace_back(
          std::uint64_t{word_from(value, what, option.words.data(), option.words.size())});
    } else {
      std::visit([&]<class T>(T /*usual*/) { values.emplace_back(value_from<T>(value, what)); },
                 option.usual);
    }
  }
  return values;
}

/// The strategy of a family that an object says. TypeError that names those there are.
template <class Family>
Family strategy_from(nb::handle given, std::span<const StrategyKind<Family>> kinds,
                     const char* option) {
  std::string allowed;
  for (const StrategyKind<Family>& kind : kinds) {
    const nb::object type = classes()[text_of(kind.name())];
    if (PyObject_IsInstance(given.ptr(), type.ptr()) == 1) {
      return kind.make(from_python(given, kind.name(), kind.options()));
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(kind.name());
  }
  throw WrongKind(refusal(given, option, allowed));
}

template <class Family>
nb::object strategy_to(const Family& strategy, std::span<const StrategyKind<Family>> kinds) {
  for (const StrategyKind<Family>& kind : kinds) {
    if (const auto values = kind.values(strategy)) {
      return nb::object(classes()[text_of(kind.name())])(**to_python(kind.options(), *values));
    }
  }
  return nb::none();  // Of C++ code that shares the buffer.
}

std::vector<Selector> selectors_from(nb::handle given) {
  const bool one = PySequence_Check(given.ptr()) == 0 || PyUnicode_Check(given.ptr());
  std::vector<Selector> made;
  for (const nb::handle selector : one ? nb::make_tuple(given) : nb::tuple(given)) {
    made.push_back(strategy_from(selector, selectors(), "selectors"));
  }
  return made;
}

template <class Family>
void describe(nb::list& all, const char* option, std::span<const StrategyKind<Family>> kinds) {
  for (const StrategyKind<Family>& kind : kinds) {
    std::vector<OptionValue> usual;
    nb::dict words;
    for (const StrategyOption& member : kind.options()) {
      usual.push_back(member.usual);
      nb::list each;
      for (const std::string_view word : member.words) {
        each.append(text_of(word));
      }
      words[text_of(member.name)] = each;
    }
    all.append(nb::make_tuple(option, text_of(kind.name()), text_of(kind.about()),
                              to_python(kind.options(), usual), words));
  }
}

}  // namespace

Storage storage_from(nb::handle storage) {
  if (!storage.is_valid() || storage.is_none()) {
    return Memory{};
  }
  std::filesystem::path path;
  try {
    path = path_from(storage, "storage");
  } catch (const WrongKind&) {
    throw WrongKind(refusal(storage, "storage", "None or a path"));
  }
  // The core takes a name at which there is nothing too, so it would not notice a mistyped one.
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw std::system_error(error ? error.value() : ENOTDIR, std::generic_category(),
                            "storage is '" + path.string() + "'; allowed: a directory");
  }
  return MappedFile{std::move(path)};
}

Window window_from(nb::handle given) {
  return strategy_from(given, windows(), "window");
}

nb::object window_to(const Window& window) {
  return strategy_to(window, windows());
}

RateLimiter rate_limiter_from(nb::handle given) {
  return strategy_from(given, rate_limiters(), "rate_limiter");
}

Options options_from(const Arguments& arguments) {
  Options options;
  options.capacity_steps = arguments.get<std::size_t>(1);
  if (arguments.has(2)) {
    options.window = window_from(arguments[2]);
  }
  if (arguments.has(3)) {
    options.selectors = selectors_from(arguments[3]);
  }
  if (arguments.has(4)) {
    options.remover = strategy_from(arguments[4], removers(), "remover");
  }
  if (arguments.has(5)) {
    options.rate_limiter = rate_limiter_from(arguments[5]);
  }
  options.max_times_sampled = arguments.get<std::uint32_t>(6);
  options.episode_index = arguments.get<bool>(7);
  options.max_writers = arguments.get(8, options.max_writers);
  options.chunk_steps = arguments.get<std::size_t>(9);
  options.shards = arguments.get<std::size_t>(10);
  options.key_tag = arguments.optional<std::uint16_t>(11);
  options.storage = storage_from(arguments[12]);
  return options;
}

nb::dict options_dict(const Options& options) {
  nb::list all;
  for (const Selector& selector : options.selectors) {
    all.append(strategy_to(selector, selectors()));
  }
  nb::dict made;
  made["capacity_steps"] = options.capacity_steps;
  made["window"] = window_to(options.window);
  made["selectors"] = all;
  made["remover"] = strategy_to(options.remover, removers());
  made["rate_limiter"] = strategy_to(options.rate_limiter, rate_limiters());
  made["max_times_sampled"] = options.max_times_sampled;
  made["episode_index"] = options.episode_index;
  made["max_writers"] = options.max_writers;
  made["chunk_steps"] = options.chunk_steps;
  made["shards"] = options.shards;
  made["key_tag"] = options.key_tag ? nb::object(nb::int_(*options.key_tag)) : nb::none();
  const auto* const file = std::get_if<MappedFile>(&options.storage);
  made["storage"] =
      file == nullptr ? nb::none()
                      : nb::module_::import_("pathlib").attr("Path")(text_of(file->path.native()));
  return made;
}

void bind_strategies(nb::module_& module) {
  nb::list all;
  describe(all, "window", windows());
  describe(all, "selectors", selectors());
  describe(all, "remover", removers());
  describe(all, "rate_limiter", rate_limiters());
  /// Option, name, text, and the members with their defaults and with their words.
  module.attr("_strategies") = all;
  module.attr("_classes") = classes();
}

}  // namespace reprise::python
