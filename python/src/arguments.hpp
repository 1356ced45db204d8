#pragma once

#include "errors.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The arguments of one call, by a signature that is also what `help` shows and what the stub says.
namespace reprise::python {

/// A signature as Python and its type checkers write it:
/// "append(self, *, end: int = 0, **fields: ArrayLike) -> None".
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): they have constructors.
struct Signature {
  struct Parameter {
    std::string name;
    std::string usual;         ///< Its default as text; empty if it has to be given.
    PyObject* word = nullptr;  ///< The name, interned; never given back.
    bool by_keyword = false;
  };

  Signature() = default;
  /// `kind`: the class that has the method, or is made.
  Signature(std::string_view kind, const char* text);
  /// "append($self, /, *, end=0, **fields)\n--\n\n", which inspect understands.
  [[nodiscard]] std::string without_types(bool is_class) const;

  std::string name;
  std::string call;  ///< "Writer.append", or the class for a constructor.
  std::vector<Parameter> parameters;
  std::size_t positional = 0;
  std::size_t required = 0;  ///< Those without a default, which come first.
  std::string fields;        ///< Under this name any keyword is taken as a field's; empty: none is.
  bool takes_self = false;
};

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

 private:
  std::string_view call_;
  std::string_view name_;
};

/// The arguments of one call, borrowed.
class Arguments {
 public:
  static constexpr std::size_t kMost = 16;

  /// TypeError naming the call and the argument that does not fit the signature.
  Arguments(const Signature& signature, PyObject* const* values, Py_ssize_t positional,
            PyObject* names);

  [[nodiscard]] const char* call() const noexcept { return signature_.call.c_str(); }
  /// By the parameter's place; null if it was not given.
  [[nodiscard]] PyObject* operator[](std::size_t at) const noexcept { return given_[at]; }
  /// Given, and not None.
  [[nodiscard]] bool has(std::size_t at) const noexcept {
    return given_[at] != nullptr && given_[at] != Py_None;
  }
  [[nodiscard]] What what(std::size_t at) const noexcept {
    return {signature_.call, signature_.parameters[at].name};
  }

  /// The parameter's value as a number, bool, std::string or path; `usual` if it was not given.
  template <class T>
  [[nodiscard]] T get(std::size_t at, T usual = {}) const;
  /// None is no value.
  template <class T>
  [[nodiscard]] std::optional<T> optional(std::size_t at) const {
    return has(at) ? std::optional<T>(get<T>(at)) : std::nullopt;
  }
  /// One of the module's own objects.
  template <class T>
  [[nodiscard]] T& object(std::size_t at) const;
  /// A place among names, 0 for the first. ValueError naming what is allowed.
  template <class Enum, std::size_t N>
  [[nodiscard]] Enum word(std::size_t at, const std::string_view (&names)[N], Enum usual) const;
  /// Seconds; None waits for ever.
  [[nodiscard]] std::int64_t timeout_ns(std::size_t at) const;

  /// All keywords. Where the signature takes fields, `take` has to be called for those that are no
  /// field; before that, parameters are not given.
  [[nodiscard]] Py_ssize_t keywords() const noexcept { return keywords_; }
  [[nodiscard]] PyObject* keyword(Py_ssize_t i) const noexcept {
    return PyTuple_GetItem(names_, i);
  }
  [[nodiscard]] PyObject* value(Py_ssize_t i) const noexcept { return values_[i]; }
  /// Takes a keyword for a parameter; false if it is none. Names written in a call are interned,
  /// and only others need to be compared `as_text`, which takes longer.
  bool take(Py_ssize_t i, bool as_text = true);

 private:
  [[noreturn]] void refuse(const std::string& why) const;

  const Signature& signature_;
  std::array<PyObject*, kMost> given_{};
  PyObject* const* values_;  ///< Those of the keywords.
  PyObject* names_;
  Py_ssize_t keywords_ = 0;
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
/// Accepts every type with __bool__.
[[nodiscard]] bool flag_from(nb::handle given, What what);
/// A str, as UTF-8.
[[nodiscard]] std::string text_from(nb::handle given, What what);
/// A str, bytes or os.PathLike.
[[nodiscard]] std::filesystem::path path_from(nb::handle given, What what);
/// A str among words; ValueError that names them and what is allowed `besides`.
[[nodiscard]] std::size_t word_from(nb::handle given, What what, const std::string_view* words,
                                    std::size_t count, std::string_view besides = {});

/// A value by its type. `what` names it in errors: TypeError for another kind, ValueError for a
/// number out of range.
template <class T>
[[nodiscard]] T value_from(nb::handle given, What what) {
  if constexpr (std::same_as<T, bool>) {
    return flag_from(given, what);
  } else if constexpr (std::integral<T>) {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(
        integer_from(given, what, Limits::min(), static_cast<std::uint64_t>(Limits::max())));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(real_from(given, what));
  } else if constexpr (std::same_as<T, std::string>) {
    return text_from(given, what);
  } else {
    return path_from(given, what);
  }
}

template <class T>
T Arguments::get(std::size_t at, T usual) const {
  return given_[at] == nullptr ? usual : value_from<T>(given_[at], what(at));
}

template <class Enum, std::size_t N>
Enum Arguments::word(std::size_t at, const std::string_view (&names)[N], Enum usual) const {
  return given_[at] == nullptr
             ? usual
             : static_cast<Enum>(word_from(given_[at], signature_.parameters[at].name, names, N));
}

}  // namespace reprise::python
