#include "errors.hpp"

#include <reprise/checkpoint.hpp>

#include <array>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::python {
namespace {

/// Made once with the module and never destroyed, because an extension module is not unloaded.
struct ErrorTypes {
  py::object closed;
  py::object nothing_to_draw;
  py::object checkpoint_error;
};

ErrorTypes& types() {
  static auto& made = *new ErrorTypes;
  return made;
}

py::object make_type(py::module_& module, const char* name, const char* doc) {
  const std::string full = std::string("reprise.") + name;
  auto type = py::reinterpret_steal<py::object>(
      PyErr_NewExceptionWithDoc(full.c_str(), doc, PyExc_RuntimeError, nullptr));
  if (!type) {
    throw py::error_already_set();
  }
  module.attr(name) = type;
  return type;
}

const char* kind_name(CheckpointError::Kind kind) noexcept {
  constexpr std::array kNames{"damaged", "missing", "unsupported", "mismatch",
                              "io",      "locked",  "cancelled"};
  return kNames[static_cast<std::size_t>(kind)];
}

void set(py::handle type, const char* what) {
  PyErr_SetObject(type.ptr(), text_of(what).ptr());
}

void set_checkpoint_error(const CheckpointError& error) {
  const py::object& type = types().checkpoint_error;
  const py::object made = type(text_of(error.what()));
  made.attr("kind") = kind_name(error.kind());
  made.attr("file") = text_of(error.file());
  made.attr("offset") = error.offset();
  made.attr("errno") = error.error_number();
  PyErr_SetObject(type.ptr(), made.ptr());
}

void set_os_error(const std::system_error& error, const std::string& file) {
  const auto os_error = py::reinterpret_borrow<py::object>(PyExc_OSError);
  const py::object made =
      file.empty() ? os_error(error.code().value(), text_of(error.what()))
                   : os_error(error.code().value(), text_of(error.what()), text_of(file));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

/// Sets Python's error from the C++ exception that is being handled. An exception of another kind
/// passes through.
void translate() {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const Closed& error) {
    set(types().closed, error.what());
  } catch (const NothingToDraw& error) {
    set(types().nothing_to_draw, error.what());
  } catch (const TimedOut& error) {
    set(PyExc_TimeoutError, error.what());
  } catch (const CheckpointError& error) {
    set_checkpoint_error(error);
  } catch (const std::filesystem::filesystem_error& error) {
    set_os_error(error, error.path1().string());
  } catch (const std::system_error& error) {
    set_os_error(error, {});
  } catch (const std::invalid_argument& error) {
    set(PyExc_ValueError, error.what());
  } catch (const std::logic_error& error) {
    set(PyExc_RuntimeError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    set(PyExc_RuntimeError, error.what());
  }
}

}  // namespace

py::str text_of(std::string_view text) {
  PyObject* const made =
      PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<py::ssize_t>(text.size()));
  if (made == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::str>(made);
}

void bind_errors(py::module_& module) {
  types().closed = make_type(
      module, "Closed",
      "The buffer is closed, or the writer, vector writer or prefetcher that was called.\n"
      "A step that was being appended was not taken.");
  types().nothing_to_draw =
      make_type(module, "NothingToDraw",
                "The weight of every item is 0, or of all but too few where different ones are\n"
                "needed, or an `Unlimited` buffer is empty.");
  types().checkpoint_error = make_type(
      module, "CheckpointError",
      "A save or a load that did not happen; checkpoints and buffers are as they were.\n\n"
      "kind: 'damaged', 'missing', 'unsupported' (written by a newer version),\n"
      "  'mismatch' (of another schema or other options), 'io', 'locked' (another save\n"
      "  is at work in the directory) or 'cancelled'.\n"
      "file: the file or directory at fault, or ''. offset: where in it, in bytes; 0 if\n"
      "  the whole is meant. errno: the system's error number, or 0.");
  py::object& error = types().checkpoint_error;
  error.attr("kind") = "";
  error.attr("file") = "";
  error.attr("offset") = 0;
  error.attr("errno") = 0;
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (...) {
      translate();
    }
  });
}

void set_python_error() noexcept {
  try {
    translate();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "reprise: unknown C++ exception");
  }
}

}  // namespace reprise::python
