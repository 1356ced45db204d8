#include "user_memory.hpp"

#include <string>

namespace reprise::python {

void* UserMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  // Whatever the alignment of what comes, an aligned part of it is large enough.
  const std::size_t asked = bytes + alignment - 1;
  const py::object made = allocator_(asked);
  Py_buffer buffer{};
  if (PyObject_GetBuffer(made.ptr(), &buffer, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
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
  taken_.emplace(at, buffer);
  return at;
}

void UserMemory::do_deallocate(void* at, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  const auto found = taken_.find(at);
  PyBuffer_Release(&found->second);
  taken_.erase(found);
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
