#pragma once

#include "convert.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// The parameters of a call are those of the C++ function that it runs. Their types, names and
/// defaults give the signature that `help` and the stub show, and the conversion of arguments.
namespace reprise::python {

/// A C++ parameter that is no argument of the call, but receives the call's name, "Writer.append".
struct CallName {
  const char* text = nullptr;
};

/// A C++ parameter that takes all keywords that name no other parameter, as fields.
class Fields {
 public:
  [[nodiscard]] const char* call() const noexcept { return call_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether the call names no field.
  [[nodiscard]] bool empty() const noexcept { return size_ == count_; }
  /// The name of keyword i; null if it names a parameter.
  [[nodiscard]] PyObject* name(std::size_t i) const noexcept {
    const auto end = not_fields_.begin() + count_;
    return std::find(not_fields_.begin(), end, i) != end
               ? nullptr
               : PyTuple_GetItem(names_, static_cast<Py_ssize_t>(i));
  }
  [[nodiscard]] PyObject* value(std::size_t i) const noexcept { return values_[i]; }

 private:
  friend class Signature;
  static constexpr std::size_t kMaxParameters = 4;  ///< No call with fields has more parameters.
  const char* call_ = nullptr;
  PyObject* names_ = nullptr;
  PyObject* const* values_ = nullptr;
  std::size_t size_ = 0;
  /// The indices of the `count_` keywords that name parameters.
  std::array<std::uint16_t, kMaxParameters> not_fields_{};
  std::uint16_t count_ = 0;
};

/// The default of a parameter without one. A call with Fields checks itself that it is given.
struct Required {};
/// The name and default of a parameter. For a Given the default is the text that signatures show.
template <class Default>
struct Arg {
  const char* name;
  Default default_value;
  bool by_keyword;
};
template <class Default = Required>
constexpr Arg<Default> arg(const char* name, Default default_value = {}) {
  return {name, default_value, false};
}
template <class Default = Required>
constexpr Arg<Default> keyword(const char* name, Default default_value = {}) {
  return {name, default_value, true};
}

/// The parameters of one call, and how their values are read.
class Signature {
 public:
  static constexpr std::size_t kMaxParameters = 16;
  using Converter = void (*)(void* slots, nb::handle given, ArgumentName argument);

  Signature() = default;
  /// `kind` is the class that has the method, or that "__init__" makes.
  Signature(const char* kind, const char* name);
  /// `default_text` is empty if the parameter is required. If it is "None", an argument of None
  /// counts as not given.
  void add(const std::string& name, const std::string& hint, const std::string& default_text,
           bool by_keyword, Converter converter);
  void add_fields(const char* name);

  [[nodiscard]] const char* name() const noexcept { return name_.c_str(); }
  /// "Writer.append", or the class for a constructor.
  [[nodiscard]] const char* call() const noexcept { return call_.c_str(); }
  /// "append(self, *, end: int = 0, **fields: ArrayLike) -> None".
  [[nodiscard]] std::string with_types(const char* first, const std::string& result) const;
  /// "append($self, /, *, end=0, **fields)\n--\n\n", which inspect understands.
  [[nodiscard]] std::string without_types(const char* first) const;

  /// Converts the arguments of a call to `slots`; the slots of arguments that were not given keep
  /// their values. TypeError naming the call and the argument that does not fit the signature.
  void read(void* slots, PyObject* const* values, Py_ssize_t positional, PyObject* names,
            Fields* fields);

 private:
  struct Parameter {
    std::string name;
    std::string hint;
    std::string default_text;
    PyObject* interned_name;  ///< The interned name, never released.
  };

  [[nodiscard]] std::size_t find(PyObject* name) const noexcept;
  void map_keywords(PyObject* names, bool accepts_fields);
  [[noreturn]] void refuse(const std::string& why) const { throw WrongKind(call_ + why); }
  template <class Text>
  [[nodiscard]] std::string list(const char* first, const Text& text) const;

  std::string name_;
  std::string call_;
  std::string fields_;  ///< The name of the Fields parameter; empty: the call takes no fields.
  std::vector<Parameter> parameters_;
  std::array<Converter, kMaxParameters> converters_{};
  std::size_t positional_ = 0;       ///< How many parameters may be given by position.
  std::uint32_t required_mask_ = 0;  ///< A bit for each parameter, as in `none_mask_`.
  std::uint32_t none_mask_ = 0;      ///< The parameters for which None counts as not given.
  /// The tuple of keywords of the last call: a call site passes the same tuple each time, so what
  /// the keywords name is looked up once. Guarded by the GIL, never released.
  PyObject* last_names_ = nullptr;
  /// For each keyword in `last_names_` the index of its parameter; kMaxParameters: it is a field.
  std::vector<std::uint16_t> parameter_indices_;
};

/// The Python class of a C++ type, set when it is added to the module.
template <class Self>
inline PyTypeObject* class_of = nullptr;

/// The C++ object of an instance whose type CPython's descriptor has checked.
template <class Self>
Self& self_of(PyObject* self) {
  if (!nb::inst_ready(self)) {
    throw WrongKind("__init__ of the object was not called");
  }
  return *nb::inst_ptr<Self>(self);
}

/// Makes a Python object with its C++ object inside.
template <class Self, class... Values>
nb::object make_object(Values&&... values) {
  nb::object object = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(class_of<Self>)));
  new (nb::inst_ptr<Self>(object)) Self(std::forward<Values>(values)...);
  nb::inst_mark_ready(object);
  return object;
}

/// The C++ object within one of the module's own objects.
template <class T>
struct Conversion<T*> {
  static std::string hint() { return str_of(nb::type<T>().attr("__name__")); }
  static T* from(nb::handle given, ArgumentName argument) {
    check_kind(nb::isinstance<T>(given), given, argument, "a " + hint());
    return &self_of<T>(given.ptr());
  }
};

namespace detail {

template <class F>
struct FunctionOf;
template <class R, bool kNoexcept, class... P>
struct FunctionOf<R (*)(P...) noexcept(kNoexcept)> {
  using Result = R;
  using Parameters = std::tuple<P...>;
};
template <class R, class C, bool kNoexcept, class... P>
struct FunctionOf<R (C::*)(P...) noexcept(kNoexcept)> : FunctionOf<R (*)(C&, P...)> {};
template <class R, class C, bool kNoexcept, class... P>
struct FunctionOf<R (C::*)(P...) const noexcept(kNoexcept)> : FunctionOf<R (*)(C&, P...)> {};

template <auto F>
using ResultOf = typename FunctionOf<std::remove_const_t<decltype(F)>>::Result;
template <auto F>
using ParametersOf = typename FunctionOf<std::remove_const_t<decltype(F)>>::Parameters;

/// The type that stores a parameter's value; an object of the module is stored by its address.
template <class P>
struct SlotOf {
  using Type = std::remove_cvref_t<P>;
};
template <class T>
requires(!std::is_const_v<T>) struct SlotOf<T&> {
  using Type = T*;
};

/// The slots of a function's parameters, but for the first kSkipped.
template <class Parameters, std::size_t kSkipped>
struct SlotsOf;
template <class... P>
struct SlotsOf<std::tuple<P...>, 0> {
  using Type = std::tuple<typename SlotOf<P>::Type...>;
};
template <class First, class... P>
struct SlotsOf<std::tuple<First, P...>, 1> : SlotsOf<std::tuple<P...>, 0> {};

/// A bound function: its signature and its defaults. kSkipped is 1 if its first parameter is the
/// object, else 0.
template <auto F, std::size_t kSkipped>
struct Bound {
  using Slots = typename SlotsOf<ParametersOf<F>, kSkipped>::Type;

  inline static Signature signature;
  inline static Slots defaults;
  inline static std::string doc;  ///< Lives as long as the process.

  template <std::size_t I>
  static void convert_argument(void* slots, nb::handle given, ArgumentName argument) {
    convert(std::get<I>(*static_cast<Slots*>(slots)), given, argument);
  }
  /// Converts an argument to a member of a described struct, which is parameter I.
  template <std::size_t I, class M>
  static void convert_member(void* slots, nb::handle given, ArgumentName argument) {
    convert(std::get<I>(*static_cast<Slots*>(slots)).*M::pointer, given, argument);
  }
  template <class T>
  static void convert(T& to, nb::handle given, ArgumentName argument) {
    to = Conversion<T>::from(given, argument);
  }

  /// Adds the parameters from I on to the signature. Each member of a described struct (see
  /// `members_of`) becomes a keyword; `args` name the parameters of other types.
  template <std::size_t I = 0, class... Args>
  static void add(const Args&... args) {
    if constexpr (I < std::tuple_size_v<Slots>) {
      using T = std::tuple_element_t<I, Slots>;
      if constexpr (Described<T>) {
        each_member<T>([]<class M>(const M& /*member*/) {
          const auto value = T().*M::pointer;
          using Value = std::remove_const_t<decltype(value)>;
          signature.add(std::string(M::name()), Conversion<Value>::hint(),
                        Conversion<Value>::to_text(value), /*by_keyword=*/true,
                        &convert_member<I, M>);
        });
      }
      if constexpr (Described<T> || std::same_as<T, CallName>) {
        add<I + 1>(args...);
      } else {
        add_named<I>(args...);
      }
    }
  }
  template <std::size_t I, class Default, class... Args>
  static void add_named(const Arg<Default>& arg, const Args&... rest) {
    using T = std::tuple_element_t<I, Slots>;
    if constexpr (std::same_as<T, Fields>) {
      signature.add_fields(arg.name);
    } else {
      std::string default_text;
      if constexpr (std::derived_from<T, nb::handle> && std::convertible_to<Default, const char*>) {
        default_text = arg.default_value;
      } else if constexpr (!std::same_as<Default, Required>) {
        std::get<I>(defaults) = static_cast<T>(arg.default_value);
        default_text = Conversion<T>::to_text(std::get<I>(defaults));
      }
      signature.add(arg.name, Conversion<T>::hint(), default_text, arg.by_keyword,
                    &convert_argument<I>);
    }
    add<I + 1>(rest...);
  }

  /// Runs the function with the converted arguments.
  template <class Call>
  static decltype(auto) invoke(PyObject* const* values, Py_ssize_t positional, PyObject* names,
                               const Call& call) {
    Slots slots = defaults;
    Fields* fields = nullptr;
    const auto prepare = [&]<class T>(T& slot) {
      if constexpr (std::same_as<T, CallName>) {
        slot.text = signature.call();
      } else if constexpr (std::same_as<T, Fields>) {
        fields = &slot;
      }
    };
    std::apply([&](auto&... slot) { (prepare(slot), ...); }, slots);
    signature.read(&slots, values, positional, names, fields);
    const auto pass = []<class T>(T & slot) -> auto& {
      if constexpr (std::is_pointer_v<T>) {
        return *slot;
      } else {
        return slot;
      }
    };
    return std::apply([&](auto&... slot) -> decltype(auto) { return call(pass(slot)...); }, slots);
  }
};

}  // namespace detail

}  // namespace reprise::python
