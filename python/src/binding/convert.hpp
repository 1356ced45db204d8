#pragma once

#include <reprise/wait_hook.hpp>

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
#include <string>
#include <string_view>

/// Values of Python as values of C++, by the type that is wanted: how a type is told in a
/// signature, how a default of it is, and how it is made of an object.
namespace reprise::python {

/// The name of a value in messages, put together only where there is one.
class What {
 public:
  template <class Text>
  requires std::convertible_to<const Text&, std::string_view> What(const Text& name)
  noexcept : name_(name) {}  // NOLINT(google-explicit-constructor)
  /// "ReplayBuffer.sampler: seed".
  What(std::string_view call, std::string_view name) noexcept : call_(call), name_(name) {}
  [[nodiscard]] std::string text() const {
    return std::string(call_) + (call_.empty() ? "" : ": ") + std::string(name_);
  }
  [[nodiscard]] std::string_view name() const noexcept { return name_; }

 private:
  std::string_view call_;
  std::string_view name_;
};

/// "`what` is `given`; allowed: `allowed`".
[[nodiscard]] std::string refusal(nb::handle given, What what, std::string_view allowed);
/// TypeError with that text unless it is of that kind.
void check_kind(bool is_kind, nb::handle given, What what, std::string_view allowed);

/// The 64 bits of an integer in a range. An integer is a type with __index__, but no bool: 1e6 and
/// True are none.
[[nodiscard]] std::uint64_t integer_from(nb::handle given, What what, std::int64_t least,
                                         std::uint64_t most);
/// Accepts every argument of float() except text and bools.
[[nodiscard]] double real_from(nb::handle given, What what);
/// A str among words; ValueError that names them and what is allowed `besides`.
[[nodiscard]] std::size_t word_from(nb::handle given, What what, const std::string_view* words,
                                    std::size_t count, std::string_view besides = {});

/// The shortest decimal that is this float, as a Python float: 0.6 rather than 0.6000000238.
[[nodiscard]] nb::object decimal(float value);

/// A word as Python writes it.
[[nodiscard]] std::string in_quotes(std::string_view word);

/// A type in signatures (`hint`), its defaults (`usual`), and a value of it from an object
/// (`from`): TypeError for another kind, ValueError for a number out of range, naming `what`.
template <class T>
struct Conversion;

/// Accepts every type with __bool__.
template <>
struct Conversion<bool> {
  static std::string hint() { return "bool"; }
  static std::string usual(bool value) { return value ? "True" : "False"; }
  static bool from(nb::handle given, What what);
};
template <std::integral T>
struct Conversion<T> {
  static std::string hint() { return "int"; }
  static std::string usual(T value) { return std::to_string(value); }
  static T from(nb::handle given, What what) {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(
        integer_from(given, what, Limits::min(), static_cast<std::uint64_t>(Limits::max())));
  }
};
template <std::floating_point T>
struct Conversion<T> {
  static std::string hint() { return "float"; }
  static std::string usual(T value) { return repr_of(decimal(static_cast<float>(value))); }
  static T from(nb::handle given, What what) { return static_cast<T>(real_from(given, what)); }
};
/// A str, as UTF-8.
template <>
struct Conversion<std::string> {
  static std::string hint() { return "str"; }
  static std::string usual(const std::string& value) { return in_quotes(value); }
  static std::string from(nb::handle given, What what);
};
/// A str, bytes or os.PathLike.
template <>
struct Conversion<std::filesystem::path> {
  static std::string hint() { return "str | PathLike[str]"; }
  static std::filesystem::path from(nb::handle given, What what);
};
template <class T>
struct Conversion<std::optional<T>> {
  static std::string hint() { return Conversion<T>::hint(); }
  static std::string usual(const std::optional<T>& /*none*/) { return "None"; }
  static std::optional<T> from(nb::handle given, What what) {
    return Conversion<T>::from(given, what);
  }
};
/// A timeout in seconds.
template <>
struct Conversion<std::chrono::nanoseconds> {
  static std::string hint() { return "float"; }
  static std::string usual(std::chrono::nanoseconds /*for ever*/) { return "None"; }
  static std::chrono::nanoseconds from(nb::handle given, What what);
};

/// The words of an enum's values 0, 1, ..., and their type's name for type checkers.
struct Words {
  const char* hint = nullptr;
  std::array<std::string_view, 4> names;
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
  static std::string usual(Enum value) {
    return in_quotes(words.names[static_cast<std::size_t>(value)]);
  }
  static Enum from(nb::handle given, What what) {
    return static_cast<Enum>(word_from(given, what.name(), words.names.data(), words.count()));
  }
};

/// The name of a type in signatures.
template <std::size_t N>
struct Hint {
  constexpr Hint(const char (&text)[N]) {  // NOLINT(google-explicit-constructor): of a literal.
    std::copy_n(text, N, name);
  }
  char name[N] = {};
};
/// An argument that the call converts itself; null if it was not given, or None where that is the
/// default.
template <Hint kHint>
struct Given : nb::handle {
  using nb::handle::handle;
};
using ArrayLike = Given<"ArrayLike">;
using Allocator = Given<"Callable[[int], Any]">;

template <Hint kHint>
struct Conversion<Given<kHint>> {
  static std::string hint() { return kHint.name; }
  static std::string usual(nb::handle /*none*/) { return "None"; }
  static Given<kHint> from(nb::handle given, What /*what*/) { return {given.ptr()}; }
};

template <class T>
[[nodiscard]] T value_from(nb::handle given, What what) {
  return Conversion<T>::from(given, what);
}

}  // namespace reprise::python
