#include "user_memory.hpp"

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::python {
namespace {

/// Whether a format string has objects. Its syntax is that of module struct, with names between
/// colons as numpy and ctypes write them.
bool has_references(std::string_view format) {
  bool name = false;
  for (const char one : format) {
    name = name != (one == ':');
    if (one == 'O' && !name) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool get_bytes(py::handle object, int flags, const std::string& what, Py_buffer& buffer) {
  // numpy arrays are asked for their dtype, because some dtypes, such as dates, have no format
  // string.
  const bool array = py::isinstance<py::array>(object);
  bool references =
      array && py::reinterpret_borrow<py::array>(object).dtype().attr("hasobject").cast<bool>();
  if (!references) {
    flags |= PyBUF_C_CONTIGUOUS | (array ? 0 : PyBUF_FORMAT);
    if (PyObject_GetBuffer(object.ptr(), &buffer, flags) != 0) {
      return false;
    }
    references = buffer.format != nullptr && has_references(buffer.format);
    if (references) {
      PyBuffer_Release(&buffer);
    }
  }
  if (references) {
    throw py::type_error(what + " references to objects; allowed: bytes and numbers");
  }
  return true;
}

bool UserMemory::overlaps(const void* at, std::size_t bytes) const {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  return std::any_of(taken_.begin(), taken_.end(), [&](const auto& one) {
    const auto other = reinterpret_cast<std::uintptr_t>(one.first);
    return first == other || (first < other + one.second.bytes && other < first + bytes);
  });
}

void* UserMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  // The allocator may give any alignment, so more is asked for: then an aligned part of it is large
  // enough.
  const std::size_t asked = bytes + alignment - 1;
  const py::int_ size(asked);
  const auto made = py::reinterpret_steal<py::object>(
      PyObject_CallFunctionObjArgs(allocator_.ptr(), size.ptr(), nullptr));
  if (!made) {
    throw py::error_already_set();
  }
  Py_buffer buffer{};
  if (!get_bytes(made, PyBUF_WRITABLE, "allocator: gave", buffer)) {
    PyErr_Clear();
    throw py::type_error("allocator: gave " + std::string(Py_TYPE(made.ptr())->tp_name) +
                         "; allowed: an object with a writable, contiguous buffer, such as a numpy "
                         "array");
  }
  if (static_cast<std::size_t>(buffer.len) < asked) {
    const auto given = std::to_string(buffer.len);
    PyBuffer_Release(&buffer);
    throw py::value_error("allocator: gave " + given + " bytes; asked for " +
                          std::to_string(asked));
  }
  void* at = buffer.buf;
  std::size_t room = asked;
  std::align(alignment, bytes, at, room);
  if (overlaps(at, bytes)) {
    PyBuffer_Release(&buffer);
    throw py::value_error("allocator: gave memory that is in use; allowed: other memory each time");
  }
  taken_.emplace(at, Taken{buffer, bytes});
  return at;
}

void UserMemory::do_deallocate(void* at, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  const auto found = taken_.find(at);
  Py_buffer buffer = found->second.buffer;
  taken_.erase(found);
  PyBuffer_Release(&buffer);
}

std::shared_ptr<UserMemory> user_memory_from(py::handle allocator) {
  if (allocator.is_none()) {
    return nullptr;
  }
  if (PyCallable_Check(allocator.ptr()) == 0) {
    throw py::type_error("allocator is " + py::repr(allocator).cast<std::string>() +
                         "; allowed: None or a function of a number of bytes");
  }
  return std::make_shared<UserMemory>(py::reinterpret_borrow<py::object>(allocator));
}

}  // namespace reprise::python
