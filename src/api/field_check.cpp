#include <reprise/detail/batch_view.hpp>
#include <reprise/detail/row_view.hpp>

#include "api/batch_store.hpp"
#include "api/writer_core.hpp"

#include <stdexcept>
#include <string>

namespace reprise::detail {
namespace {

const char* dtype_name(std::uint32_t signature) {
  static constexpr const char* kNames[] = {"u8",  "i8",  "u16",  "i16", "u32", "i32",
                                           "u64", "i64", "bool", "f32", "f64"};
  return kNames[signature & 0xffU];
}

std::string describe(std::uint32_t signature) {
  static constexpr const char* kRoles[] = {"observation", "column", "reward", "discount",
                                           "recurrent state"};
  return std::string((signature >> 16U) != 0 ? "shaped " : "scalar ") + dtype_name(signature) +
         " " + kRoles[(signature >> 8U) & 0xffU];
}

[[noreturn]] void refuse_field(const Schema& schema, std::size_t index, std::uint32_t wanted) {
  const std::span<const FieldSpec> fields = schema.fields();
  if (index >= fields.size()) {
    throw std::invalid_argument("field " + std::to_string(index) + " (" + describe(wanted) +
                                ") is not of this schema, which has " +
                                std::to_string(fields.size()) + " fields");
  }
  const FieldSpec& spec = fields[index];
  throw std::invalid_argument("field '" + spec.name + "' is a " +
                              describe(signature(spec.dtype, spec.role, !spec.shape.empty())) +
                              "; the handle is of another schema, for a " + describe(wanted));
}

}  // namespace

void RowView::refuse(std::size_t index, std::uint32_t wanted) const {
  if (index < field_count && fields[index].signature == wanted) {
    const Schema& schema = static_cast<const WriterCore&>(*this).buffer().schema();
    if (rows[kNow] != nullptr) {
      throw std::invalid_argument("Writer::next: field '" + schema.fields()[index].name +
                                  "' is a " + describe(wanted) + "; allowed: observations");
    }
    throw std::logic_error("Writer: now and next need an episode: call begin_episode first");
  }
  refuse_field(static_cast<const WriterCore&>(*this).buffer().schema(), index, wanted);
}

void BatchView::refuse(std::size_t index, std::uint32_t wanted) const {
  refuse_field(static_cast<const BatchStore&>(*this).schema(), index, wanted);
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
        static_cast<const BatchStore&>(*this).schema().fields()[index].name + "' is a " +
        describe(field.signature()) +
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

}  // namespace reprise::detail
