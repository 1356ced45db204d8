#pragma once

#include "convert.hpp"

#include <chrono>
#include <cstddef>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>

/// Structs of C++ described once, by the names that Python has for their members: from that come
/// the keywords of calls, and dicts.
namespace reprise::python {

/// A member and its name in Python.
template <class Struct, class T>
struct Member {
  const char* name;
  T Struct::*pointer;
};
template <class Struct, class T>
constexpr Member<Struct, T> member(const char* name, T Struct::*pointer) {
  return {name, pointer};
}

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
    each_member<T>(
        [&](const auto& member) { made[member.name] = to_python(value.*member.pointer); });
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
