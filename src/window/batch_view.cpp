#include <reprise/detail/batch_view.hpp>

#include "schema/field_check.hpp"
#include "window/batch_store.hpp"

#include <stdexcept>
#include <string>

namespace reprise::detail {

void BatchView::refuse(std::size_t index, std::uint32_t wanted) const {
  schema::refuse_field(static_cast<const window::BatchStore&>(*this).schema(), index, wanted);
}

std::span<std::byte> BatchView::bytes(int which, AnyField field) const {
  const std::size_t index = field.index();
  if (index >= column_count || columns[index].signature != field.signature()) {
    refuse(index, field.signature());
  }
  if ((which == kNext && field.role() != Role::Observation) ||
      (which == kReturns && field.role() != Role::Reward)) {
    throw std::invalid_argument(
        std::string("Batch::") + (which == kNext ? "next" : "returns") + ": field '" +
        static_cast<const window::BatchStore&>(*this).schema().fields()[index].name + "' is a " +
        schema::describe(field.signature()) +
        "; allowed: " + (which == kNext ? "observations" : "rewards"));
  }
  const std::size_t elements = which == kReturns ? size : size * columns[index].elements;
  if (elements != 0 && columns[index].data[which] == nullptr) {
    refuse_returns();
  }
  return {columns[index].data[which], elements * element_bytes(field.dtype())};
}

void BatchView::refuse_returns() {
  throw std::logic_error("Batch::returns: Sequences have none; allowed: Transitions");
}

std::vector<std::size_t> BatchView::shape(std::size_t index, std::uint32_t wanted) const {
  if (index >= column_count || columns[index].signature != wanted) {
    refuse(index, wanted);
  }
  const auto& store = static_cast<const window::BatchStore&>(*this);
  const FieldSpec& spec = store.schema().fields()[index];
  std::vector<std::size_t> shape{size};
  const window::WindowSpec& window = store.window();
  if (window.sequences() != nullptr) {
    if (spec.role != Role::RecurrentState) {
      shape.push_back(window.steps());
    }
  } else if (spec.role == Role::Observation && window.frames() > 1) {
    shape.push_back(window.frames());
  }
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return shape;
}

void BatchDeleter::operator()(BatchView* batch) const noexcept {
  delete static_cast<window::BatchStore*>(batch);
}

}  // namespace reprise::detail
