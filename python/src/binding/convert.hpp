#pragma once

#include <reprise/rate_limiter.hpp>

#include "errors.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

/// Converts Python values to C++ values by the wanted type: each type has its text in signatures,
/// its default's text, and a conversion from an object.
namespace reprise::python {

/// The name of a value in messages, which is put together only when a message is made.
class ArgumentName {
 public:
  template <class Text>
  requires std::convertible_to<const Text&, std::string_view> ArgumentName(const Text& name)
  noexcept : name_(name) {}  // NOLINT(google-explicit-constructor)
  /// "ReplayBuffer.sampler: seed".
  ArgumentName(std::string_view call, std::string_view name) noexcept : call_(call), name_(name) {}
  [[nodiscard]] std::string text() const {
    return std::string(call_) + (call_.empty() ? "" : ": ") + std::string(name_);
  }

 private:
  std::string_view call_;
  std::string_view name_;
};

/// The message "`argument` is `given`; allowed: `allowed`".
[[nodiscard]] std::string refusal(nb::handle given, ArgumentName argument,
                                  std::string_view allowed);
/// Throws a TypeError with the text of `refusal` unless `is_kind`.
void check_kind(bool is_kind, nb::handle given, ArgumentName argument, std::string_view allowed);

/// An integer from `least` to `most`, as 64 bits. It needs __index__; bools are refused.
[[nodiscard]] std::uint64_t integer_from(nb::handle given, ArgumentName argument,
                                         std::int64_t least, std::uint64_t most);
/// A number from every argument that float() accepts, except text and bools.
[[nodiscard]] double real_from(nb::handle given, ArgumentName argument);
/// The index of a str among the words; else a ValueError that names them and what is allowed
/// `besides`.
[[nodiscard]] std::size_t word_from(nb::handle given, ArgumentName argument,
                                    const std::string_view* words, std::size_t count,
                                    std::string_view besides = {});

/// The shortest decimal that is this float, as a Python float: 0.6 rather than 0.6000000238.
[[nodiscard]] nb::object decimal(float value);

/// A word in quotes, as Python writes it.
[[nodiscard]] std::string in_quotes(std::string_view word);

/// `hint` is the text of a type in signatures, `to_text` that of a default. `from` converts an
/// object to a value, and throws a TypeError for another kind of object and a ValueError for a
/// number out of range, which name `argument`.
template <class T>
struct Conversion;

/// Accepts every type with __bool__.
template <>
struct Conversion<bool> {
  static std::string hint() { return "bool"; }
  static std::string to_text(bool value) { return value ? "True" : "False"; }
  static bool from(nb::handle given, ArgumentName argument);
};
template <std::integral T>
struct Conversion<T> {
  static std::string hint() { return "int"; }
  static std::string to_text(T value) { return std::to_string(value); }
  static T from(nb::handle given, ArgumentName argument) {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(
        integer_from(given, argument, Limits::min(), static_cast<std::uint64_t>(Limits::max())));
  }
};
template <std::floating_point T>
struct Conversion<T> {
  static std::string hint() { return "float"; }
  static std::string to_text(T value) { return repr_of(decimal(static_cast<float>(value))); }
  static T from(nb::handle given, ArgumentName argument) {
    return static_cast<T>(real_from(given, argument));
  }
};
template <>
struct Conversion<std::string> {
  static std::string hint() { return "str"; }
  static std::string to_text(const std::string& value) { return in_quotes(value); }
  static std::string from(nb::handle given, ArgumentName argument);
};
/// A str, bytes or os.PathLike.
template <>
struct Conversion<std::filesystem::path> {
  static std::string hint() { return "str | PathLike[str]"; }
  static std::filesystem::path from(nb::handle given, ArgumentName argument);
};
template <class T>
struct Conversion<std::optional<T>> {
  static std::string hint() { return Conversion<T>::hint(); }
  static std::string to_text(const std::optional<T>& /*none*/) { return "None"; }
  static std::optional<T> from(nb::handle given, ArgumentName argument) {
    return Conversion<T>::from(given, argument);
  }
};
/// A timeout in seconds.
template <>
struct Conversion<std::chrono::nanoseconds> {
  static std::string hint() { return "float"; }
  static std::string to_text(std::chrono::nanoseconds value) {
    return value == kNoTimeout
               ? "None"
               : Conversion<double>::to_text(std::chrono::duration<double>(value).count());
  }
  static std::chrono::nanoseconds from(nb::handle given, ArgumentName argument);
};

/// The words of an enum's values 0, 1, ..., and the name of their type for type checkers.
struct Words {
  const char* hint = nullptr;
  std::array<std::string_view, 4> names;  ///< Empty ones follow the words.
  [[nodiscard]] constexpr std::size_t count() const noexcept {
    return names.size() - static_cast<std::size_t>(std::count(names.begin(), names.end(), ""));
  }
};
template <class Enum>
inline constexpr Words words_of;
template <class Enum>
requires(words_of<Enum>.hint != nullptr) struct Conversion<Enum> {
  static constexpr const Words& words = words_of<Enum>;
  static std::string hint() { return words.hint; }
  static std::string to_text(Enum value) {
    return in_quotes(words.names[static_cast<std::size_t>(value)]);
  }
  static Enum from(nb::handle given, ArgumentName argument) {
    return static_cast<Enum>(word_from(given, argument, words.names.data(), words.count()));
  }
};

/// The text of a type in signatures.
template <std::size_t N>
struct Hint {
  constexpr Hint(const char (&text)[N]) {  // NOLINT(google-explicit-constructor): Given<"...">.
    std::copy_n(text, N, name);
  }
  char name[N] = {};
};
/// An argument that the call itself converts; null if it was not given. Where None is the default,
/// None counts as not given.
template <Hint kHint>
struct Given : nb::handle {
  using nb::handle::handle;
};
using ArrayLike = Given<"ArrayLike">;
/// A function of a number of bytes that gives memory, and its name in messages.
struct Allocator : Given<"Callable[[int], Any]"> {
  ArgumentName argument = std::string_view("allocator");
};

template <Hint kHint>
struct Conversion<Given<kHint>> {
  static std::string hint() { return kHint.name; }
  static std::string to_text(nb::handle /*none*/) { return "None"; }
  static Given<kHint> from(nb::handle given, ArgumentName /*what*/) { return {given.ptr()}; }
};
template <>
struct Conversion<Allocator> : Conversion<Given<"Callable[[int], Any]">> {
  static Allocator from(nb::handle given, ArgumentName argument);
};

template <class T>
[[nodiscard]] T value_from(nb::handle given, ArgumentName argument) {
  return Conversion<T>::from(given, argument);
}

/// A member of a struct, and its name, which is taken from the compiler's name of this function.
template <auto kPointer>
struct Member {
  static constexpr auto pointer = kPointer;
  static constexpr std::string_view name() {
    const std::string_view function = __PRETTY_FUNCTION__;
    const std::size_t end = function.find_first_of(";]", function.find("kPointer = "));
    const std::size_t begin = function.rfind(':', end) + 1;
    return function.substr(begin, end - begin);
  }
};
template <auto... kPointers>
inline constexpr std::tuple<Member<kPointers>...> members{};

/// The members of a struct as a tuple of Member; nullptr for types that are single values.
template <class T>
inline constexpr auto members_of = nullptr;
template <class T>
concept Described = !std::is_null_pointer_v<std::remove_cvref_t<decltype(members_of<T>)>>;

template <Described T, class Each>
void each_member(const Each& each) {
  std::apply([&](const auto&... member) { (each(member), ...); }, members_of<T>);
}

/// Converts a value: a duration to seconds, a described struct to a dict, a range to a list.
template <class T>
nb::object to_python(const T& value) {
  if constexpr (std::derived_from<T, nb::handle>) {
    return nb::borrow(value);
  } else if constexpr (std::same_as<T, bool>) {
    return nb::borrow(value ? Py_True : Py_False);
  } else if constexpr (std::floating_point<T>) {
    return checked(PyFloat_FromDouble(static_cast<double>(value)));
  } else if constexpr (std::signed_integral<T>) {
    return checked(PyLong_FromLongLong(value));
  } else if constexpr (std::integral<T>) {
    return checked(PyLong_FromUnsignedLongLong(value));
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    return text_of(value);
  } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
    return to_python(std::chrono::duration<double>(value).count());
  } else if constexpr (requires { *value, value.has_value(); }) {
    return value ? to_python(*value) : nb::none();
  } else if constexpr (Described<T>) {
    nb::dict by_name;
    each_member<T>([&](const auto& member) {
      by_name[text_of(member.name())] = to_python(value.*member.pointer);
    });
    return by_name;
  } else if constexpr (std::ranges::range<T>) {
    nb::list list;
    for (const auto& element : value) {
      list.append(to_python(element));
    }
    return list;
  } else {
    return Conversion<T>::to(value);
  }
}

/// The module reprise._vocabulary, imported together with the extension module.
inline nb::object& vocabulary_module() {
  static auto& module = *new nb::object;
  return module;
}

[[nodiscard]] inline nb::object vocabulary(const char* name) {
  return vocabulary_module().attr(name);
}

/// Converts a described struct to the named tuple `name`. The constructor of tuples makes it, which
/// skips the Python code of the tuple's own class.
template <Described T>
nb::object named_tuple(const char* name, const T& value) {
  static const auto kMake = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
  const nb::object type = vocabulary(name);
  const nb::tuple values = std::apply(
      [&](const auto&... member) { return nb::make_tuple(to_python(value.*member.pointer)...); },
      members_of<T>);
  const nb::tuple arguments = nb::make_tuple(values);
  return checked(kMake(reinterpret_cast<PyTypeObject*>(type.ptr()), arguments.ptr(), nullptr));
}

}  // namespace reprise::python
