#include "options.hpp"

#include <reprise/strategies.hpp>

#include <cerrno>
#include <span>
#include <system_error>
#include <variant>

namespace reprise::python {
namespace {

nb::dict& classes() {
  static auto& by_name = *new nb::dict;
  return by_name;
}

/// The word that means "the number in the next option"; in Python the number takes its place.
constexpr std::string_view kConstant = "constant";

/// Whether option i is a word in whose place Python takes the number of the next option.
bool allows_number(std::span<const StrategyOption> options, std::size_t i) {
  return i + 1 < options.size() && options[i + 1].name.ends_with("_constant");
}

/// The index of the first word that is allowed.
std::size_t first_word(const StrategyOption& option) {
  return option.words.empty() ? 0 : std::get<std::uint64_t>(option.min);
}

/// The values of options as Python attributes, in which a word and its number are one attribute.
nb::dict attributes_of(std::span<const StrategyOption> options,
                       std::span<const OptionValue> values) {
  nb::dict attributes;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const nb::str name = text_of(options[i].name);
    if (!options[i].words.empty()) {
      const std::string_view word = options[i].words[std::get<std::uint64_t>(values[i])];
      if (word == kConstant) {
        attributes[name] = decimal(std::get<float>(values[i + 1]));
      } else {
        attributes[name] = text_of(word);
      }
      if (allows_number(options, i)) {
        ++i;
      }
    } else if (const auto* const narrow = std::get_if<float>(&values[i])) {
      attributes[name] = decimal(*narrow);
    } else if (const auto* const wide = std::get_if<double>(&values[i])) {
      attributes[name] = *wide;
    } else {
      attributes[name] = std::get<std::uint64_t>(values[i]);
    }
  }
  return attributes;
}

/// The values of options from an object of a strategy's class, the reverse of `attributes_of`.
std::vector<OptionValue> from_python(nb::handle given, std::string_view kind,
                                     std::span<const StrategyOption> options) {
  std::vector<OptionValue> values;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const StrategyOption& option = options[i];
    const nb::object value = given.attr(std::string(option.name).c_str());
    const std::size_t first = first_word(option);
    const std::span words = option.words.subspan(first);
    const std::string argument = std::string(kind) + "." + std::string(option.name);
    if (allows_number(options, i)) {
      const bool is_number = PyNumber_Check(value.ptr()) != 0;
      const auto constant = std::find(words.begin(), words.end(), kConstant);
      const std::size_t word =
          is_number ? static_cast<std::size_t>(constant - words.begin())
                    : word_from(value, argument, words.data(), words.size(), ", or a number");
      values.emplace_back(std::uint64_t{first + word});
      values.emplace_back(is_number ? value_from<float>(value, argument)
                                    : std::get<float>(options[i + 1].value));
      ++i;
    } else if (!option.words.empty()) {
      values.emplace_back(
          std::uint64_t{first + word_from(value, argument, words.data(), words.size())});
    } else {
      std::visit(
          [&]<class T>(T /*default*/) { values.emplace_back(value_from<T>(value, argument)); },
          option.value);
    }
  }
  return values;
}

/// The kinds of a family of strategies, the option that takes a strategy, and its type in hints.
template <class Family>
struct FamilyOf;
template <>
struct FamilyOf<Window> {
  static constexpr auto kinds = &windows;
  static constexpr const char *option = "window", *hint = "_Window";
};
template <>
struct FamilyOf<Selector> {
  static constexpr auto kinds = &selectors;
  static constexpr const char *option = "selectors", *hint = "_Selector";
};
template <>
struct FamilyOf<Remover> {
  static constexpr auto kinds = &removers;
  static constexpr const char *option = "remover", *hint = "_Remover";
};
template <>
struct FamilyOf<RateLimiter> {
  static constexpr auto kinds = &rate_limiters;
  static constexpr const char *option = "rate_limiter", *hint = "_RateLimiter";
};

/// Adds each kind of a family to the list `_strategies` of the module: option, name, text, and the
/// members' defaults and words.
template <class Family>
void describe(nb::list& strategies) {
  for (const StrategyKind<Family>& kind : FamilyOf<Family>::kinds()) {
    std::vector<OptionValue> defaults;
    nb::dict words;
    for (const StrategyOption& member : kind.options()) {
      defaults.push_back(member.value);
      nb::list each;
      for (const std::string_view word : member.words.subspan(first_word(member))) {
        each.append(text_of(word));
      }
      words[text_of(member.name)] = each;
    }
    strategies.append(nb::make_tuple(FamilyOf<Family>::option, text_of(kind.name()),
                                     text_of(kind.about()), attributes_of(kind.options(), defaults),
                                     words));
  }
}

}  // namespace

template <class Family>
std::string StrategyConversion<Family>::hint() {
  return FamilyOf<Family>::hint;
}

/// TypeError that names the strategies of the family.
template <class Family>
Family StrategyConversion<Family>::from(nb::handle given, ArgumentName argument) {
  std::string allowed;
  for (const StrategyKind<Family>& kind : FamilyOf<Family>::kinds()) {
    const nb::object type = classes()[text_of(kind.name())];
    if (PyObject_IsInstance(given.ptr(), type.ptr()) == 1) {
      return kind.make(from_python(given, kind.name(), kind.options()));
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(kind.name());
  }
  throw WrongKind(refusal(given, argument, allowed));
}

template <class Family>
nb::object StrategyConversion<Family>::to(const Family& strategy) {
  for (const StrategyKind<Family>& kind : FamilyOf<Family>::kinds()) {
    if (const auto values = kind.values(strategy)) {
      return nb::object(classes()[text_of(kind.name())])(**attributes_of(kind.options(), *values));
    }
  }
  return nb::none();  // C++ code that shares the buffer made this strategy, so it has no class.
}

template struct StrategyConversion<Window>;
template struct StrategyConversion<Selector>;
template struct StrategyConversion<Remover>;
template struct StrategyConversion<RateLimiter>;

std::vector<Selector> Conversion<std::vector<Selector>>::from(nb::handle given,
                                                              ArgumentName argument) {
  const bool is_single = PySequence_Check(given.ptr()) == 0 || PyUnicode_Check(given.ptr());
  std::vector<Selector> selectors;
  for (const nb::handle selector : is_single ? nb::make_tuple(given) : nb::tuple(given)) {
    selectors.push_back(value_from<Selector>(selector, argument));
  }
  return selectors;
}

Storage Conversion<Storage>::from(nb::handle given, ArgumentName argument) {
  std::filesystem::path path;
  try {
    path = value_from<std::filesystem::path>(given, argument);
  } catch (const WrongKind&) {
    throw WrongKind(refusal(given, argument, "None or a path"));
  }
  // The core accepts a path at which nothing exists, so it would not notice a mistyped one.
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw std::system_error(error ? error.value() : ENOTDIR, std::generic_category(),
                            argument.text() + " is '" + path.string() + "'; allowed: a directory");
  }
  return MappedFile{std::move(path)};
}

nb::object Conversion<Storage>::to(const Storage& storage) {
  const auto* const file = std::get_if<MappedFile>(&storage);
  return file == nullptr
             ? nb::none()
             : nb::module_::import_("pathlib").attr("Path")(text_of(file->path.native()));
}

void bind_strategies(nb::module_& module) {
  nb::list strategies;
  describe<Window>(strategies);
  describe<Selector>(strategies);
  describe<Remover>(strategies);
  describe<RateLimiter>(strategies);
  module.attr("_strategies") = strategies;
  module.attr("_classes") = classes();
}

}  // namespace reprise::python
