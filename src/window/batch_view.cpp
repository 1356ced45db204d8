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
  if ((which == kNext && !traits(field.role()).has_next) ||
      (which == kReturns && !traits(field.role()).has_returns)) {
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
  std::vector<std::size_t> shape = store.window().dimensions(spec.traits());
  shape.insert(shape.begin(), size);
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return shape;
}

void BatchDeleter::operator()(BatchView* batch) const noexcept {
  delete static_cast<window::BatchStore*>(batch);
}

}  // namespace reprise::detail
