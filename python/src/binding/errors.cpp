#include "errors.hpp"

#include <reprise/checkpoint.hpp>
#include <reprise/strategy_kind.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

namespace reprise::python {
namespace {

/// Exception types, made with the module and never released, because it is never unloaded.
struct ErrorTypes {
  nb::object closed;
  nb::object nothing_to_draw;
  nb::object checkpoint_error;
};

ErrorTypes& types() {
  static auto& instance = *new ErrorTypes;
  return instance;
}

nb::object make_type(nb::module_& module, const char* name, const char* doc) {
  const std::string full = std::string("reprise.") + name;
  nb::object type =
      checked(PyErr_NewExceptionWithDoc(full.c_str(), doc, PyExc_RuntimeError, nullptr));
  module.attr(name) = type;
  return type;
}

const char* kind_name(CheckpointError::Kind kind) noexcept {
  constexpr std::array kNames{"damaged", "missing", "unsupported", "mismatch",
                              "io",      "locked",  "cancelled"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Turns "WithoutReplacement" into 'without_replacement'.
std::string python_name(std::string_view enumerator) {
  std::string word;
  for (const char c : enumerator) {
    const bool upper = c >= 'A' && c <= 'Z';
    word += upper && !word.empty() ? "_" : "";
    word += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return "'" + word + "'";
}

/// Rewords a message of the library for the package: calls of C++ become calls of Python, members
/// of options become parameters, and enumerators words.
std::string reword_for_python(const std::string& call, const std::exception& error) {
  const auto* const refusal = dynamic_cast<const Refusal*>(&error);
  if (refusal == nullptr) {
    return error.what();
  }
  using Kind = Refusal::Kind;
  const bool is_strategy = refusal->parts().front().kind == Kind::Strategy;
  std::string text = is_strategy ? "" : call + ": ";
  for (const auto& [kind, part] : refusal->parts()) {
    text += kind == Kind::Text         ? part
            : kind == Kind::Strategy   ? part + "."
            : kind == Kind::Enumerator ? python_name(part)
                                       : "";
  }
  // In Python the option `initial` takes the constant itself, so there is no `initial_constant`.
  constexpr std::string_view kConstant = "initial_constant is";
  const auto at = is_strategy ? text.find(kConstant) : std::string::npos;
  return at == std::string::npos ? text : text.replace(at, kConstant.size(), "initial is");
}

void set(nb::handle type, const std::string& argument) {
  PyErr_SetObject(type.ptr(), text_of(argument).ptr());
}

void set_os_error(const std::system_error& error, const std::string& text,
                  const std::string& file = {}) {
  const nb::handle os_error(PyExc_OSError);
  const nb::object object = file.empty()
                                ? os_error(error.code().value(), text_of(text))
                                : os_error(error.code().value(), text_of(text), text_of(file));
  PyErr_SetObject(object.type().ptr(), object.ptr());
}

/// Sets Python's error from the exception that is being handled, which it rethrows and catches.
void translate(const std::string& call) {
  const auto message_of = [&](const std::exception& error) {
    return reword_for_python(call, error);
  };
  try {
    throw;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const Closed& error) {
    set(types().closed, error.what());
  } catch (const NothingToDraw& error) {
    set(types().nothing_to_draw, error.what());
  } catch (const TimedOut& error) {
    set(PyExc_TimeoutError, error.what());
  } catch (const WrongKind& error) {
    set(PyExc_TypeError, error.what());
  } catch (const CheckpointError& error) {
    PyErr_SetObject(types().checkpoint_error.ptr(), object_of(error).ptr());
  } catch (const std::filesystem::filesystem_error& error) {
    set_os_error(error, error.what(), error.path1().string());
  } catch (const std::system_error& error) {
    set_os_error(error, message_of(error));
  } catch (const std::out_of_range& error) {
    set(PyExc_IndexError, error.what());
  } catch (const std::invalid_argument& error) {
    set(PyExc_ValueError, message_of(error));
  } catch (const std::logic_error& error) {
    set(PyExc_RuntimeError, message_of(error));
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    set(PyExc_RuntimeError, message_of(error));
  }
}

std::string utf8_of(const nb::object& text) {
  const nb::object bytes =
      checked(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

}  // namespace

nb::object object_of(const CheckpointError& error) {
  nb::object object = types().checkpoint_error(text_of(error.what()));
  object.attr("kind") = kind_name(error.kind());
  object.attr("file") = text_of(error.file());
  object.attr("offset") = error.offset();
  object.attr("errno") = error.error_number();
  return object;
}

nb::str text_of(std::string_view text) {
  return nb::borrow<nb::str>(
      checked(PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))));
}

std::string str_of(nb::handle object) {
  return utf8_of(checked(PyObject_Str(object.ptr())));
}

std::string repr_of(nb::handle object) {
  return utf8_of(checked(PyObject_Repr(object.ptr())));
}

/// The name of an object's type, with its module unless that is builtins.
std::string python_type_name(nb::handle object) {
  const std::string module = str_of(object.type().attr("__module__"));
  const std::string name = str_of(object.type().attr("__qualname__"));
  return module == "builtins" ? name : module + "." + name;
}

void bind_errors(nb::module_& module) {
  types().closed = make_type(
      module, "Closed",
      "The buffer is closed, or the writer, vector writer or prefetcher that was called.\n"
      "A step that was being appended was not taken.");
  types().nothing_to_draw =
      make_type(module, "NothingToDraw",
                "Every item has weight 0; or too few have a weight above 0 for a batch of\n"
                "different items; or a buffer with the limiter `Unlimited` is empty.");
  types().checkpoint_error = make_type(
      module, "CheckpointError",
      "A save or a load that did not happen; checkpoints and buffers are as they were.\n\n"
      "kind: 'damaged', 'missing', 'unsupported' (written by a newer version),\n"
      "  'mismatch' (of another schema or other options), 'io', 'locked' (another save\n"
      "  is at work in the directory) or 'cancelled'.\n"
      "file: the file or directory at fault, or ''. offset: where in it, in bytes; 0 if\n"
      "  the whole is meant. errno: the system's error number, or 0.");
  nb::object& error = types().checkpoint_error;
  error.attr("kind") = "";
  error.attr("file") = "";
  error.attr("offset") = 0;
  error.attr("errno") = 0;
}

void set_python_error(const char* call) noexcept {
  try {
    translate(call);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "reprise: unknown C++ exception");
  }
}

}  // namespace reprise::python
