#pragma once

#include "call.hpp"
#include "waiting.hpp"

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// The classes of the module. nanobind makes their objects, but CPython calls their methods through
/// its own descriptors and vector call: a call by nanobind's dispatch costs a dict of keywords, and
/// its errors list types instead of naming the wrong argument.
namespace reprise::python {

/// The signatures of all methods, by class, for the stub.
inline nb::dict& signatures() {
  static auto& by_class = *new nb::dict;
  return by_class;
}

namespace detail {

/// Converts a call's result to an object, None if it returns nothing.
template <class Call>
PyObject* result_of(const Call& call) {
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    return nb::none().release().ptr();
  } else {
    return to_python(call()).release().ptr();
  }
}

struct Nothing {};

/// What a call of an object holds while it runs, such as the mark that the object is in use.
template <class Self>
auto guard(Self& self, const char* call) {
  if constexpr (requires { self.enter(call); }) {
    return self.enter(call);
  } else {
    return Nothing();
  }
}

/// Runs a call and turns what it throws into Python's error; the result says whether it failed.
template <class Result, class Call>
Result call_or_set_error(const Signature& signature, Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    set_python_error(signature.call());
    if constexpr (std::is_pointer_v<Result>) {
      return nullptr;
    } else {
      return -1;
    }
  }
}

/// Calls F on an object: F's first parameter takes the object's handle, the Self in it, or what
/// `core()` of Self returns.
template <auto F, bool kReleased, class Self, class... Given>
decltype(auto) call_on(PyObject* self, Self& object, Given&... given) {
  using First = std::remove_cvref_t<std::tuple_element_t<0, ParametersOf<F>>>;
  const GilRelease released(kReleased);
  if constexpr (std::same_as<First, nb::handle>) {
    return std::invoke(F, nb::handle(self), given...);
  } else if constexpr (std::derived_from<Self, First>) {
    return std::invoke(F, object, given...);
  } else {
    return std::invoke(F, object.core(), given...);
  }
}

/// The function of a method in CPython's convention: converts the arguments and F's result.
template <class Self, auto F, bool kReleased>
PyObject* call_method(PyObject* self, PyObject* const* values, Py_ssize_t positional,
                      PyObject* names) noexcept {
  using B = Bound<F, 1>;
  return call_or_set_error<PyObject*>(B::signature, [=] {
    Self& object = self_of<Self>(self);
    [[maybe_unused]] const auto entered = guard(object, B::signature.call());
    return B::invoke(values, positional, names, [&](auto&... slots) {
      return result_of(
          [&]() -> decltype(auto) { return call_on<F, kReleased>(self, object, slots...); });
    });
  });
}

template <auto F>
PyObject* call_static(PyObject* /*none*/, PyObject* const* values, Py_ssize_t positional,
                      PyObject* names) noexcept {
  using B = Bound<F, 0>;
  return call_or_set_error<PyObject*>(B::signature, [=] {
    return B::invoke(values, positional, names, [](auto&... slots) {
      return result_of([&]() -> decltype(auto) { return F(slots...); });
    });
  });
}

/// The function of a special method, such as __len__, for its slot in CPython's type: F gets the
/// slot's arguments as they are.
template <class Self, auto F, class Result, bool kReleased, class... Raw>
Result call_slot(PyObject* self, Raw... raw) noexcept {
  const Signature& signature = Bound<F, 1>::signature;
  return call_or_set_error<Result>(signature, [=]() mutable {
    Self& object = self_of<Self>(self);
    [[maybe_unused]] const auto entered = guard(object, signature.call());
    const auto call = [&]() -> decltype(auto) {
      return call_on<F, kReleased>(self, object, raw...);
    };
    if constexpr (std::is_pointer_v<Result>) {
      return result_of(call);
    } else {
      return call();
    }
  });
}

template <class Self, auto F, bool kReleased>
PyObject* call_getter(PyObject* self, void* /*closure*/) noexcept {
  return call_slot<Self, F, PyObject*, kReleased>(self);
}

/// The arguments of a call in one array: positional ones first, then keyword arguments.
struct CallArguments {
  CallArguments(PyObject* positional, PyObject* keywords);
  std::vector<PyObject*> values;
  Py_ssize_t count = 0;  ///< Number of positional arguments.
  nb::object names;
};

template <class Self, auto F>
int call_init(PyObject* self, PyObject* positional, PyObject* keywords) noexcept {
  using B = Bound<F, 1>;
  return call_or_set_error<int>(B::signature, [=] {
    if (nb::inst_ready(self)) {
      throw WrongKind(std::string(B::signature.call()) + ": __init__ was called before");
    }
    const CallArguments arguments(positional, keywords);
    B::invoke(arguments.values.data(), arguments.count, arguments.names.ptr(),
              [&](auto&... slots) { F(nb::inst_ptr<Self>(self), slots...); });
    nb::inst_mark_ready(self);
    return 0;
  });
}

}  // namespace detail

/// Collects the members of a class; `add` makes it.
///
/// F is a function of Self&, of the object's handle, or of the C++ object that `core()` of Self
/// returns, and of the call's parameters. `args` name the parameters that are no described structs.
/// `result` is the type of F's result in Python, where its C++ type does not say that.
template <class Self>
class Type {
 public:
  Type(const char* name, std::string doc) : name_(name), doc_(std::move(doc)) {}

  /// With kReleased, F runs without the GIL.
  template <auto F, bool kReleased = false, class... Default>
  Type& method(const char* name, const std::string& result, const char* doc, Arg<Default>... args) {
    add_method<detail::Bound<F, 1>>(name, "self", result, doc, 0,
                                    &detail::call_method<Self, F, kReleased>, args...);
    return *this;
  }
  template <auto F, bool kReleased = false, class... Default>
  Type& method(const char* name, const char* doc, Arg<Default>... args) {
    return method<F, kReleased>(name, hint_of<detail::ResultOf<F>>(), doc, args...);
  }
  template <auto F, class... Default>
  Type& static_method(const char* name, const std::string& result, const char* doc,
                      Arg<Default>... args) {
    add_method<detail::Bound<F, 0>>(name, "", result, doc, METH_STATIC, &detail::call_static<F>,
                                    args...);
    return *this;
  }
  /// F takes a Self*, at which it makes the object, and the parameters.
  template <auto F, class... Default>
  Type& constructor(const char* doc, Arg<Default>... args) {
    using B = detail::Bound<F, 1>;
    B::signature = Signature(name_, "__init__");
    B::add(args...);
    signatures_.append(B::signature.with_types("self", "None").c_str());
    doc_ = B::signature.without_types("") + doc_ + "\n\n" + doc;
    return slot(Py_tp_init, &detail::call_init<Self, F>);
  }
  template <auto F, bool kReleased = false>
  Type& property(const char* name, const std::string& result, const char* doc) {
    using B = detail::Bound<F, 1>;
    B::signature = Signature(name_, name);
    signatures_.append(("@property " + B::signature.with_types("self", result)).c_str());
    getters_.push_back(
        {B::signature.name(), &detail::call_getter<Self, F, kReleased>, nullptr, doc, nullptr});
    return *this;
  }
  template <auto F, bool kReleased = false>
  Type& property(const char* name, const char* doc) {
    return property<F, kReleased>(name, hint_of<detail::ResultOf<F>>(), doc);
  }
  /// Adds a special method, such as __len__, with its signature for the stub. F takes the raw
  /// arguments of the slot `id` of CPython's type.
  template <auto F>
  Type& special(int id, const std::string& signature) {
    detail::Bound<F, 1>::signature =
        Signature(name_, signature.substr(0, signature.find('(')).c_str());
    signatures_.append(signature.c_str());
    return slot(id, slot_of<F>(static_cast<typename detail::Bound<F, 1>::Slots*>(nullptr)));
  }
  /// Makes the object a context manager that closes it.
  template <auto F>
  Type& closes() {
    return closes<F, &Type::itself>("Self", "The object itself.");
  }
  /// As above, but `with ... as` binds what kEnter returns.
  template <auto F, auto kEnter>
  Type& closes(const char* entered, const char* doc) {
    method<kEnter>("__enter__", entered, doc);
    return method<&Type::template exit<F>>("__exit__", "Closes the object.", arg("kind", "None"),
                                           arg("value", "None"), arg("traceback", "None"));
  }

  void add(nb::module_& module) {
    auto& methods = keep(methods_, PyMethodDef{});
    auto& getters = keep(getters_, PyGetSetDef{});
    slots_.push_back({Py_tp_methods, methods.data()});
    slots_.push_back({Py_tp_getset, getters.data()});
    auto& slots = keep(slots_, PyType_Slot{});
    auto& doc = *new std::string(doc_);
    class_of<Self> = reinterpret_cast<PyTypeObject*>(
        nb::class_<Self>(module, name_, doc.c_str(), nb::type_slots(slots.data()),
                         nb::is_weak_referenceable(), nb::pooled(kPooled))
            .ptr());
    signatures()[name_] = signatures_;
  }

 private:
  static nb::object itself(nb::handle self) { return nb::borrow(self); }
  template <auto F>
  static void exit(Self& self, Given<"type[BaseException]"> /*kind*/,
                   Given<"BaseException"> /*value*/, Given<"TracebackType"> /*traceback*/) {
    std::invoke(F, self);
  }
  template <class Result>
  static std::string hint_of() {
    if constexpr (std::is_void_v<Result>) {
      return "None";
    } else {
      return Conversion<std::remove_cvref_t<Result>>::hint();
    }
  }
  template <class Bound, class Function, class... Default>
  void add_method(const char* name, const std::string& first, const std::string& result,
                  const char* doc, int flags, Function function, Arg<Default>... args) {
    Bound::signature = Signature(name_, name);
    Bound::add(args...);
    signatures_.append(
        ((flags == 0 ? "" : "@staticmethod ") + Bound::signature.with_types(first.c_str(), result))
            .c_str());
    Bound::doc = Bound::signature.without_types(flags == 0 ? "$self, /" : "") + doc;
    methods_.push_back({Bound::signature.name(),
                        reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
                        METH_FASTCALL | METH_KEYWORDS | flags, Bound::doc.c_str()});
  }
  template <auto F, class... Raw>
  static auto slot_of(std::tuple<Raw...>* /*types*/) {
    using Result = detail::ResultOf<F>;
    using SlotResult = std::conditional_t<std::derived_from<Result, nb::handle>, PyObject*, Result>;
    return &detail::call_slot<Self, F, SlotResult, /*kReleased=*/false, Raw...>;
  }
  template <class Function>
  Type& slot(int id, Function function) {
    slots_.push_back({id, reinterpret_cast<void*>(function)});
    return *this;
  }
  /// Appends the end mark to a table, and never frees the table, because the type refers to it.
  template <class Entry>
  static std::vector<Entry>& keep(std::vector<Entry> table, Entry end) {
    table.push_back(end);
    return *new std::vector<Entry>(std::move(table));
  }

  /// Up to this many released objects are kept for reuse.
  static constexpr unsigned kPooled = 8;

  const char* name_;
  std::string doc_;
  std::vector<PyMethodDef> methods_;
  std::vector<PyGetSetDef> getters_;
  std::vector<PyType_Slot> slots_;
  nb::list signatures_;
};

}  // namespace reprise::python
