#include "options.hpp"

#include <reprise/strategies.hpp>

#include <cerrno>
#include <span>
#include <system_error>
#include <variant>

namespace reprise::python {
namespace {

/// The classes of strategies, by name.
nb::dict& classes() {
  static auto& made = *new nb::dict;
  return made;
}

/// The word of an option in whose place Python takes a number.
constexpr std::string_view kConstant = "constant";

/// Whether option i is a word that Python replaces by the number in the next option.
bool allows_number(std::span<const StrategyOption> options, std::size_t i) {
  return i + 1 < options.size() && options[i + 1].name.ends_with("_constant");
}

/// The value of the first word that is allowed.
std::size_t first_word(const StrategyOption& option) {
  return option.words.empty() ? 0 : std::get<std::uint64_t>(option.min);
}

/// The values of options as Python attributes, in which a word and its constant are one.
nb::dict attributes_of(std::span<const StrategyOption> options,
                       std::span<const OptionValue> values) {
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
      i += allows_number(options, i) ? 1U : 0U;
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

/// The values of options from an object of a strategy's class, the reverse of `attributes_of`.
std::vector<OptionValue> from_python(nb::handle given, std::string_view kind,
                                     std::span<const StrategyOption> options) {
  std::vector<OptionValue> values;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const StrategyOption& option = options[i];
    const nb::object value = given.attr(std::string(option.name).c_str());
    const std::size_t first = first_word(option);
    const std::span words = option.words.subspan(first);
    const std::string what = std::string(kind) + "." + std::string(option.name);
    if (allows_number(options, i)) {
      const bool number = PyNumber_Check(value.ptr()) != 0;
      const auto constant = std::find(words.begin(), words.end(), kConstant);
      values.emplace_back(
          first + (number ? static_cast<std::uint64_t>(constant - words.begin())
                          : word_from(value, what, words.data(), words.size(), ", or a number")));
      values.emplace_back(number ? value_from<float>(value, what)
                                 : std::get<float>(options[i + 1].value));
      ++i;
    } else if (!option.words.empty()) {
      values.emplace_back(
          std::uint64_t{first + word_from(value, what, words.data(), words.size())});
    } else {
      std::visit([&]<class T>(T /*default*/) { values.emplace_back(value_from<T>(value, what)); },
                 option.value);
    }
  }
  return values;
}

/// The kinds of a family of strategies, and the option that takes one.
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

template <class Family>
void describe(nb::list& all) {
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
    all.append(nb::make_tuple(FamilyOf<Family>::option, text_of(kind.name()), text_of(kind.about()),
                              attributes_of(kind.options(), defaults), words));
  }
}

}  // namespace

template <class Family>
std::string StrategyConversion<Family>::hint() {
  return FamilyOf<Family>::hint;
}

/// TypeError that names the strategies of the family.
template <class Family>
Family StrategyConversion<Family>::from(nb::handle given, ArgumentName what) {
  std::string allowed;
  for (const StrategyKind<Family>& kind : FamilyOf<Family>::kinds()) {
    const nb::object type = classes()[text_of(kind.name())];
    if (PyObject_IsInstance(given.ptr(), type.ptr()) == 1) {
      return kind.make(from_python(given, kind.name(), kind.options()));
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(kind.name());
  }
  throw WrongKind(refusal(given, what, allowed));
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

std::vector<Selector> Conversion<std::vector<Selector>>::from(nb::handle given, ArgumentName what) {
  const bool one = PySequence_Check(given.ptr()) == 0 || PyUnicode_Check(given.ptr());
  std::vector<Selector> made;
  for (const nb::handle selector : one ? nb::make_tuple(given) : nb::tuple(given)) {
    made.push_back(value_from<Selector>(selector, what));
  }
  return made;
}

Storage Conversion<Storage>::from(nb::handle given, ArgumentName what) {
  std::filesystem::path path;
  try {
    path = value_from<std::filesystem::path>(given, what);
  } catch (const WrongKind&) {
    throw WrongKind(refusal(given, what, "None or a path"));
  }
  // The core accepts a path at which nothing exists, so it would not notice a mistyped one.
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw std::system_error(error ? error.value() : ENOTDIR, std::generic_category(),
                            what.text() + " is '" + path.string() + "'; allowed: a directory");
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
  nb::list all;
  describe<Window>(all);
  describe<Selector>(all);
  describe<Remover>(all);
  describe<RateLimiter>(all);
  /// Each entry has option, name, text, and the members with defaults and words.
  module.attr("_strategies") = all;
  module.attr("_classes") = classes();
}

}  // namespace reprise::python
