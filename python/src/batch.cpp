#include "batch.hpp"

#include "fast_method.hpp"
#include "vocabulary.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

py::object read_only(const py::dict& arrays) {
  PyObject* const made = PyDictProxy_New(arrays.ptr());
  if (made == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(made);
}

}  // namespace

void BatchMemory::poison(const SharedBuffer& buffer) const {
  constexpr int kPoison = 0xFF;
  const auto fill = [&](auto column) {
    if (!column.empty()) {
      std::memset(column.data(), kPoison, column.size_bytes());
    }
  };
  for (const FieldInfo& field : buffer.table.fields()) {
    fill(batch.now(field.field));
    if (field.traits().has_next) {
      fill(batch.next(field.field));
    } else if (field.traits().has_returns && buffer.has_returns()) {
      fill(batch.returns(field.field));
    }
  }
  fill(std::as_writable_bytes(batch.discounts()));
  fill(std::as_writable_bytes(batch.weights()));
  fill(std::as_writable_bytes(batch.probabilities()));
  fill(std::as_writable_bytes(batch.keys()));
  fill(std::as_writable_bytes(batch.episode_ids()));
  fill(std::as_writable_bytes(batch.positions()));
  fill(std::as_writable_bytes(batch.lengths()));
}

BatchObject::BatchObject(const SharedBuffer& buffer, const Batch& batch, py::object base,
                         std::size_t n)
    : table_(buffer.shared_table),
      has_returns_(buffer.has_returns()),
      batch_(&batch),
      base_(std::move(base)),
      n_(n),
      now_(table().fields().size()),
      next_(table().fields().size()) {}

void BatchObject::refuse() const {
  throw std::logic_error("the batch of call " + std::to_string(own_call_) +
                         " of this sampler's sample is used after call " +
                         std::to_string(replaced_by_) +
                         ": use it before the next call, or ask for one with owned=True");
}

py::array BatchObject::view(const py::dtype& dtype, const std::vector<std::size_t>& shape,
                            const void* data) const {
  return py::array(dtype, shape, std::vector<py::ssize_t>(), data, base_);
}

std::vector<std::size_t> BatchObject::shape(const FieldInfo& field) const {
  std::vector<std::size_t> shape = batch_->shape(field.field);
  shape.front() = n_;
  return shape;
}

py::object& BatchObject::now(const FieldInfo& field) {
  py::object& array = now_[field.field.index()];
  if (!array) {
    array = view(field.dtype, shape(field), batch_->now(field.field).data());
  }
  return array;
}

py::object& BatchObject::next(const FieldInfo& field) {
  py::object& array = next_[field.field.index()];
  if (!array) {
    array = view(field.dtype, shape(field), batch_->next(field.field).data());
  }
  return array;
}

py::object BatchObject::find(PyObject* name) {
  check();
  const Named named = table().find(name);
  if (named.field == nullptr) {
    return {};
  }
  return named.next ? next(*named.field) : now(*named.field);
}

py::object BatchObject::now_arrays() {
  check();
  if (!mappings_[0]) {
    const py::dict arrays = vocabulary().arrays("Batch.now");
    for (const FieldInfo& field : table().fields()) {
      arrays[field.name] = now(field);
    }
    mappings_[0] = read_only(arrays);
  }
  return mappings_[0];
}

py::object BatchObject::next_arrays() {
  check();
  if (!mappings_[1]) {
    const py::dict arrays = vocabulary().arrays("Batch.next");
    for (const FieldInfo& field : table().fields()) {
      if (field.traits().has_next) {
        arrays[field.name] = next(field);
      }
    }
    mappings_[1] = read_only(arrays);
  }
  return mappings_[1];
}

py::object BatchObject::returns_arrays() {
  check();
  if (!mappings_[2]) {
    const py::dict arrays = vocabulary().arrays("Batch.returns");
    if (has_returns()) {
      for (const FieldInfo& field : table().fields()) {
        if (field.traits().has_returns) {
          arrays[field.name] = view(field.dtype, {n_}, batch_->returns(field.field).data());
        }
      }
    }
    mappings_[2] = read_only(arrays);
  }
  return mappings_[2];
}

py::object BatchObject::make(Column column) const {
  switch (column) {
    case Column::Discounts:
      return view(py::dtype("float32"), {n_}, batch_->discounts().data());
    case Column::Weights:
      return view(py::dtype("float32"), {n_}, batch_->weights().data());
    case Column::Probabilities:
      return view(py::dtype("float64"), {n_}, batch_->probabilities().data());
    case Column::Keys:
      return view(py::dtype("int64"), {n_}, batch_->keys().data());
    case Column::EpisodeIds:
      return view(py::dtype("int64"), {n_}, batch_->episode_ids().data());
    case Column::Positions:
      return view(py::dtype("int64"), {n_}, batch_->positions().data());
    default:
      return view(py::dtype("int32"), {n_}, batch_->lengths().data());
  }
}

py::object BatchObject::column(Column column) {
  check();
  py::object& array = columns_[static_cast<std::size_t>(column)];
  if (!array) {
    array = make(column);
  }
  return array;
}

}  // namespace reprise::python
