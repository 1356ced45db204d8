#pragma once

#include "convert.hpp"

#include <chrono>
#include <cstddef>
#include <ranges>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

/// Structs of C++ described once, as lists of the members that Python has: from that come the
/// keywords of calls, dicts and named tuples.
namespace reprise::python {

/// A member, and its name, which the compiler tells in the name of a function.
template <auto kPointer>
struct Member {
  static constexpr auto pointer = kPointer;
  static consteval std::string_view name() {
    const std::string_view function = __PRETTY_FUNCTION__;
    const std::size_t end = function.find_first_of(";]", function.find("kPointer = "));
    const std::size_t begin = function.rfind(':', end) + 1;
    return function.substr(begin, end - begin);
  }
};
template <auto... kPointers>
inline constexpr std::tuple<Member<kPointers>...> members{};

/// The members of a struct, a tuple of Member; nothing for types that are values.
template <class T>
inline constexpr auto members_of = nullptr;
template <class T>
concept Described = !std::is_null_pointer_v<std::remove_cvref_t<decltype(members_of<T>)>>;

/// Calls a function with each Member of a struct.
template <Described T, class Each>
void each_member(const Each& each) {
  std::apply([&](const auto&... member) { (each(member), ...); }, members_of<T>);
}

/// A value as an object: seconds of a duration, a dict of a described struct, a list of a range.
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
    nb::dict made;
    each_member<T>([&](const auto& member) {
      made[text_of(member.name())] = to_python(value.*member.pointer);
    });
    return made;
  } else if constexpr (std::ranges::range<T>) {
    nb::list made;
    for (const auto& one : value) {
      made.append(to_python(one));
    }
    return made;
  } else {
    return Conversion<T>::to(value);
  }
}

/// The module reprise._vocabulary, once the own module has imported it.
inline nb::object& vocabulary_module() {
  static auto& made = *new nb::object;
  return made;
}

/// What it has by this name.
[[nodiscard]] inline nb::object vocabulary(const char* name) {
  return vocabulary_module().attr(name);
}

/// A described struct as the named tuple of this name, made as a tuple is: without the Python code
/// of its class.
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
