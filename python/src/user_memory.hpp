#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <string>
#include <unordered_map>

namespace reprise::python {

namespace py = pybind11;

/// Memory for batches from a Python function: `allocator(nbytes)` gives an object with a writable,
/// contiguous buffer, which is kept until the memory is given back. Needs the GIL.
class UserMemory final : public std::pmr::memory_resource {
 public:
  explicit UserMemory(py::object allocator) : allocator_(std::move(allocator)) {}
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;
  ~UserMemory() override = default;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* at, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  struct Taken {
    Py_buffer buffer;
    std::size_t bytes;  ///< Bytes from the address on.
  };
  [[nodiscard]] bool overlaps(const void* at, std::size_t bytes) const;

  py::object allocator_;
  std::unordered_map<void*, Taken> taken_;
};

/// Calls PyObject_GetBuffer for C-contiguous memory: false with Python's error set. TypeError
/// "`what` references to objects" if the elements are objects, because the owner counts them.
[[nodiscard]] bool get_bytes(py::handle object, int flags, const std::string& what,
                             Py_buffer& buffer);

/// None gives null, which means the heap. TypeError for an object that cannot be called.
[[nodiscard]] std::shared_ptr<UserMemory> user_memory_from(py::handle allocator);

}  // namespace reprise::python
