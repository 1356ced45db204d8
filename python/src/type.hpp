#pragma once

#include "arguments.hpp"
#include "waiting.hpp"

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// The classes of the module: nanobind makes their objects, and CPython calls their methods through
/// its own descriptors and vector call. A call by nanobind's dispatch costs a dict of keywords, and
/// its refusal says which types there are instead of which argument is wrong.
namespace reprise::python {

/// The class of a C++ type, from when it is added to the module.
template <class Self>
inline PyTypeObject* class_of = nullptr;

/// The signatures of all methods, by class, for the stub.
nb::dict& signatures();

/// TypeError unless the object's __init__ was called.
[[noreturn]] void refuse_without_init();

/// The C++ object of an instance whose type CPython's descriptor has checked.
template <class Self>
Self& self_of(PyObject* self) {
  if (!nb::inst_ready(self)) {
    refuse_without_init();
  }
  return *nb::inst_ptr<Self>(self);
}

/// A new Python object, made in its place.
template <class Self, class... Values>
nb::object make_object(Values&&... values) {
  nb::object made = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(class_of<Self>)));
  new (nb::inst_ptr<Self>(made)) Self(std::forward<Values>(values)...);
  nb::inst_mark_ready(made);
  return made;
}

template <class T>
T& Arguments::object(std::size_t at) const {
  const nb::handle given(given_[at]);
  check_kind(nb::isinstance<T>(given), given, what(at),
             "a " + str_of(nb::type<T>().attr("__name__")));
  return self_of<T>(given.ptr());
}

namespace detail {

inline nb::object to_python(nb::object object) {
  return object;
}
template <class T>
requires std::is_arithmetic_v<T> nb::object to_python(T value) {
  if constexpr (std::same_as<T, bool>) {
    return nb::borrow(value ? Py_True : Py_False);
  } else if constexpr (std::floating_point<T>) {
    return checked(PyFloat_FromDouble(value));
  } else if constexpr (std::signed_integral<T>) {
    return checked(PyLong_FromLongLong(value));
  } else {
    return checked(PyLong_FromUnsignedLongLong(value));
  }
}

/// The result as an object; None for a function without one.
template <auto F, class... Given>
PyObject* result_of(Given&&... given) {
  if constexpr (std::is_void_v<std::invoke_result_t<decltype(F), Given...>>) {
    std::invoke(F, std::forward<Given>(given)...);
    return nb::none().release().ptr();
  } else {
    return to_python(std::invoke(F, std::forward<Given>(given)...)).release().ptr();
  }
}

template <auto F>
inline Signature signature_of;
/// The text of a method's documentation, for as long as the process lives.
template <auto F>
inline std::string doc_of;

struct Nothing {};

/// What a call of an object holds for as long as it runs, such as the mark that it is in use.
template <class Self>
auto guard(Self& self, const char* call) {
  if constexpr (requires { self.enter(call); }) {
    return self.enter(call);
  } else {
    return Nothing();
  }
}

/// Runs a call; what it throws becomes Python's error, and the result is `failed`.
template <auto F, class Result, class Call>
Result caught(Result failed, const Call& call) noexcept {
  try {
    return call();
  } catch (...) {
    set_python_error(signature_of<F>.call.c_str());
    return failed;
  }
}

template <class Self, auto F>
PyObject* call_method(PyObject* self, PyObject* const* values, Py_ssize_t positional,
                      PyObject* names) noexcept {
  return caught<F, PyObject*>(nullptr, [=] {
    const Signature& signature = signature_of<F>;
    Self& object = self_of<Self>(self);
    [[maybe_unused]] const auto entered = guard(object, signature.call.c_str());
    Arguments arguments(signature, values, positional, names);
    if constexpr (std::is_invocable_v<decltype(F), Self&, Arguments&>) {
      return result_of<F>(object, arguments);
    } else if constexpr (std::is_invocable_v<decltype(F), nb::handle, const Arguments&>) {
      return result_of<F>(nb::handle(self), arguments);
    } else if constexpr (std::is_invocable_v<decltype(F), nb::handle>) {
      return result_of<F>(nb::handle(self));
    } else {
      return result_of<F>(object);
    }
  });
}

template <auto F>
PyObject* call_static(PyObject* /*none*/, PyObject* const* values, Py_ssize_t positional,
                      PyObject* names) noexcept {
  return caught<F, PyObject*>(
      nullptr, [=] { return result_of<F>(Arguments(signature_of<F>, values, positional, names)); });
}

template <class Self, auto F, class Result, class... Given>
Result call_slot(PyObject* self, Given... given) noexcept {
  constexpr bool kObject = std::same_as<Result, PyObject*>;
  Result failed{};
  if constexpr (!kObject) {
    failed = -1;
  }
  return caught<F>(failed, [=] {
    Self& object = self_of<Self>(self);
    [[maybe_unused]] const auto entered = guard(object, signature_of<F>.call.c_str());
    if constexpr (!kObject) {
      return static_cast<Result>(std::invoke(F, object, given...));
    } else if constexpr (std::is_invocable_v<decltype(F), nb::handle, Given...>) {
      return result_of<F>(nb::handle(self), given...);
    } else {
      return result_of<F>(object, given...);
    }
  });
}

template <class Self, auto F>
PyObject* call_getter(PyObject* self, void* /*closure*/) noexcept {
  return call_slot<Self, F, PyObject*>(self);
}

/// The C++ object behind Self, or Self.
template <class Self>
auto& core_of(Self& self) {
  if constexpr (requires { self.core(); }) {
    return self.core();
  } else {
    return self;
  }
}

template <class Result, class Core, class... Given>
std::tuple<Given...> parameters_of(Result (Core::*function)(Given...));
template <class Result, class Core, class... Given>
std::tuple<Given...> parameters_of(Result (Core::*function)(Given...) const);

/// A member function of the core, with the call's arguments as its parameters.
template <class Self, auto F, bool kReleased>
constexpr auto kForward = [](Self& self, const Arguments& arguments) {
  using Given = decltype(parameters_of(F));
  return [&]<std::size_t... I>(std::index_sequence<I...> /*places*/) {
    const Given given{arguments.get<std::tuple_element_t<I, Given>>(I)...};
    const Released released(kReleased);
    return std::invoke(F, core_of(self), std::get<I>(given)...);
  }
  (std::make_index_sequence<std::tuple_size_v<Given>>());
};
template <class Self, auto F, bool kReleased>
constexpr auto kForwardGet = [](Self& self) {
  const Released released(kReleased);
  return std::invoke(F, core_of(self));
};

/// Positional and keyword arguments in one row, as Arguments reads them.
struct Row {
  Row(PyObject* positional, PyObject* keywords);
  std::vector<PyObject*> values;
  Py_ssize_t count = 0;  ///< Of positional ones.
  nb::object names;
};

template <class Self, auto F>
int call_init(PyObject* self, PyObject* positional, PyObject* keywords) noexcept {
  return caught<F>(-1, [=] {
    const Signature& signature = signature_of<F>;
    if (nb::inst_ready(self)) {
      throw WrongKind(signature.call + ": __init__ was called before");
    }
    const Row row(positional, keywords);
    F(nb::inst_ptr<Self>(self),
      Arguments(signature, row.values.data(), row.count, row.names.ptr()));
    nb::inst_mark_ready(self);
    return 0;
  });
}

}  // namespace detail

/// Collects the members of a class; `add` makes it.
template <class Self>
class Type {
 public:
  Type(const char* name, std::string doc) : name_(name), doc_(std::move(doc)) {}

  /// F: of Self&, or of a handle, the object itself, and of Arguments& if it has parameters.
  template <auto F>
  Type& method(const char* signature, const char* doc) {
    add_method<F>(signature, doc, &detail::call_method<Self, F>, 0);
    return *this;
  }
  /// F: of const Arguments&.
  template <auto F>
  Type& static_method(const char* signature, const char* doc) {
    add_method<F>(signature, doc, &detail::call_static<F>, METH_STATIC);
    return *this;
  }
  /// F: of Self*, where the object is to be made, and const Arguments&.
  template <auto F>
  Type& constructor(const char* signature, const char* doc) {
    note<F>(signature);
    doc_ = detail::signature_of<F>.without_types(true) + doc_ + "\n\n" + doc;
    return slot(Py_tp_init, &detail::call_init<Self, F>);
  }
  /// A property that is read only. `signature`: "schema(self) -> Schema".
  template <auto F>
  Type& property(const char* signature, const char* doc) {
    note<F>(signature, "@property ");
    getters_.push_back({detail::signature_of<F>.name.c_str(), &detail::call_getter<Self, F>,
                        nullptr, doc, nullptr});
    return *this;
  }
  /// A member function, of the C++ object that `core()` of Self gives or else of Self, which takes
  /// and gives numbers; without the GIL if it is `kReleased`.
  template <auto F, bool kReleased = false>
  Type& forward(const char* signature, const char* doc) {
    return method<detail::kForward<Self, F, kReleased>>(signature, doc);
  }
  /// The same as a property.
  template <auto F, bool kReleased = false>
  Type& forward_property(const char* signature, const char* doc) {
    return property<detail::kForwardGet<Self, F, kReleased>>(signature, doc);
  }
  /// What Python's syntax calls. F: of Self&, or of a handle, the object itself, and what the slot
  /// is given.
  template <auto F, class Result, class... Given>
  Type& special(int id, const char* signature) {
    note<F>(signature);
    return slot(id, &detail::call_slot<Self, F, Result, Given...>);
  }
  /// `with` closes the object.
  template <auto F>
  Type& closes() {
    method<&Type::itself>("__enter__(self) -> Self", "The object itself.");
    return method<&Type::template exit<F>>(
        "__exit__(self, kind: type[BaseException] | None = None, "
        "value: BaseException | None = None, traceback: TracebackType | None = None) -> None",
        "Closes the object.");
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
    signatures()[name_] = noted_;
  }

 private:
  static nb::object itself(nb::handle self) { return nb::borrow(self); }
  template <auto F>
  static void exit(Self& self, const Arguments& /*error*/) {
    std::invoke(F, self);
  }
  template <auto F>
  void note(const char* signature, const char* before = "") {
    detail::signature_of<F> = Signature(name_, signature);
    noted_.append((std::string(before) + signature).c_str());
  }
  template <auto F, class Function>
  void add_method(const char* signature, const char* doc, Function function, int flags) {
    note<F>(signature, flags == 0 ? "" : "@staticmethod ");
    const Signature& made = detail::signature_of<F>;
    detail::doc_of<F> = made.without_types(false) + doc;
    methods_.push_back({made.name.c_str(),
                        reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
                        METH_FASTCALL | METH_KEYWORDS | flags, detail::doc_of<F>.c_str()});
  }
  template <class Function>
  Type& slot(int id, Function function) {
    slots_.push_back({id, reinterpret_cast<void*>(function)});
    return *this;
  }
  /// A table with its end, which the type refers to for ever.
  template <class Entry>
  static std::vector<Entry>& keep(std::vector<Entry> table, Entry end) {
    table.push_back(end);
    return *new std::vector<Entry>(std::move(table));
  }

  /// Objects that are kept to be made again.
  static constexpr unsigned kPooled = 8;

  const char* name_;
  std::string doc_;
  std::vector<PyMethodDef> methods_;
  std::vector<PyGetSetDef> getters_;
  std::vector<PyType_Slot> slots_;
  nb::list noted_;
};

}  // namespace reprise::python
