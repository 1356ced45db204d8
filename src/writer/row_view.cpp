#include <reprise/detail/row_view.hpp>

#include "schema/field_check.hpp"
#include "writer/writer_core.hpp"

#include <stdexcept>

namespace reprise::detail {

void RowView::refuse(std::size_t index, std::uint32_t wanted) const {
  if (index < field_count && fields[index].signature == wanted) {
    const Schema& schema = static_cast<const writer::WriterCore&>(*this).buffer().schema();
    if (rows[kNow] != nullptr) {
      throw std::invalid_argument("Writer::next: field '" + schema.fields()[index].name +
                                  "' is a " + schema::describe(wanted) + "; allowed: observations");
    }
    throw std::logic_error("Writer: now and next need an episode: call begin_episode first");
  }
  schema::refuse_field(static_cast<const writer::WriterCore&>(*this).buffer().schema(), index,
                       wanted);
}

}  // namespace reprise::detail
