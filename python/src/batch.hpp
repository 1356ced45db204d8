#pragma once

#include <reprise/batch.hpp>

#include "shared_buffer.hpp"
#include "user_memory.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::python {

/// The memory that a batch's arrays view. Each array keeps it alive; needs the GIL to be destroyed.
struct BatchMemory {
  std::shared_ptr<UserMemory> memory;  ///< Null: the heap. Outlives the batch.
  Batch batch;

  /// Overwrites every column with 0xFF bytes.
  void poison(const SharedBuffer& buffer) const;
};

/// reprise.Batch: named arrays over the first n items of a batch. They are made when they are first
/// asked for and kept; an array keeps the memory alive, not this.
class BatchObject {
 public:
  /// `base`: the object that keeps the batch alive.
  BatchObject(const SharedBuffer& buffer, const Batch& batch, py::object base, std::size_t n);

  [[nodiscard]] std::size_t size() const noexcept { return n_; }
  [[nodiscard]] const FieldTable& table() const noexcept { return *table_; }
  [[nodiscard]] bool has_returns() const noexcept { return has_returns_; }

  /// One array by "x" or "next_x"; null if there is no such field.
  py::object find(PyObject* name);
  py::object now_arrays();
  py::object next_arrays();
  py::object returns_arrays();

  enum class Column : std::uint8_t {
    Discounts,
    Weights,
    Probabilities,
    Keys,
    EpisodeIds,
    Positions,
    Lengths
  };
  py::object column(Column column);

  /// Every further use raises RuntimeError naming both calls of `sample`.
  void replaced_by(std::uint64_t own_call, std::uint64_t call) noexcept {
    own_call_ = own_call;
    replaced_by_ = call;
  }
  void check() const {
    if (replaced_by_ != 0) {
      refuse();
    }
  }

 private:
  [[noreturn]] void refuse() const;
  py::object& now(const FieldInfo& field);
  py::object& next(const FieldInfo& field);
  [[nodiscard]] py::array view(const py::dtype& dtype, const std::vector<std::size_t>& shape,
                               const void* data) const;
  [[nodiscard]] std::vector<std::size_t> shape(const FieldInfo& field) const;
  [[nodiscard]] py::object make(Column column) const;

  std::shared_ptr<const FieldTable> table_;
  bool has_returns_;
  const Batch* batch_;
  py::object base_;
  std::size_t n_;
  std::vector<py::object> now_;
  std::vector<py::object> next_;
  std::array<py::object, 3> mappings_;
  std::array<py::object, 7> columns_;
  std::uint64_t own_call_ = 0;
  std::uint64_t replaced_by_ = 0;
};

/// An object that keeps what is shared alive, as the base of arrays.
template <class T>
[[nodiscard]] py::object keeper(std::shared_ptr<T> kept) {
  auto* const held = new std::shared_ptr<T>(std::move(kept));
  return py::capsule(held, [](void* pointer) { delete static_cast<std::shared_ptr<T>*>(pointer); });
}

void bind_batch(py::module_& module);

}  // namespace reprise::python
