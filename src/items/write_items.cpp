#include "items/write_items.hpp"

#include "base/text.hpp"
#include "buffer/update.hpp"
#include "items/pinned_items.hpp"
#include "schema/field_check.hpp"
#include "storage/mutable_values.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace reprise::items {
namespace {

/// Finds where a mutable column lies in a row. Throws std::invalid_argument for any other field.
const storage::MutableField& find(const buffer::BufferCore& core, AnyField field) {
  const auto& accesses = core.layout().fields();
  if (field.index() >= accesses.size() || accesses[field.index()].signature != field.signature()) {
    schema::refuse_field(core.schema(), field.index(), field.signature());
  }
  const FieldSpec& spec = core.schema().fields()[field.index()];
  base::require(spec.traits().changes, base::Call{"update"}, "field '", spec.name, "' is a ",
                spec.traits().name, "; allowed: mutable columns");
  return *std::ranges::find(core.chunk_layout().mutable_fields(), field.index(),
                            &storage::MutableField::field);
}

/// The number of steps of each item for which there are values.
std::size_t steps_given(const buffer::BufferCore& core, std::size_t keys,
                        const storage::MutableField& field, std::size_t bytes) {
  const std::size_t steps = core.window().has_steps() ? core.window().ahead() : 1;
  if (bytes == keys * steps * field.bytes) {
    return steps;
  }
  base::require(bytes == keys * field.bytes, base::Call{"update"}, keys, " keys and ", bytes,
                " bytes of values of ", field.bytes, "; allowed: one value for each key",
                core.window().has_steps() ? ", or one for each step of its sequence" : "");
  return 1;
}

}  // namespace

/// The pins keep the rows from being used again (I2), and the items are decided (complete), so only
/// updates write their mutable columns.
UpdateResult update_column(buffer::BufferCore& core, std::span<const ItemKey> keys, AnyField field,
                           std::span<const std::byte> values, std::size_t skip) {
  core.life().check_not_forked();
  const storage::MutableField& column = find(core, field);
  const std::size_t steps = steps_given(core, keys.size(), column, values.size());
  base::require(skip < steps, base::Call{"update"}, "skip is ", skip,
                "; allowed: below the number of values of a key, here ", steps);
  buffer::check_keys("update", core, keys);
  storage::ChunkStore& store = core.store();
  PinnedItems items(core.shards());
  std::size_t applied = 0;
  for (std::size_t done = 0; done < keys.size(); done += kItemsAtATime) {
    const std::span<const ItemKey> part =
        keys.subspan(done, std::min(kItemsAtATime, keys.size() - done));
    items.find(part);
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (!items.found(i)) {
        continue;
      }
      ++applied;
      const storage::Place place = items.places()[i];
      std::byte* const row = store.row(place.chunk, place.row);
      storage::ItemHeader header;
      std::memcpy(&header, row, sizeof(header));
      const std::size_t length = std::min<std::size_t>(steps, header.length());
      storage::Version* const versions = store.version(row);
      const std::byte* const given = values.data() + (done + i) * steps * column.bytes;
      std::size_t r = 0;  // The row of step k, counted from the item's first row.
      for (std::size_t k = 0; k < length; ++k) {
        std::byte* const own = row + r * store.row_stride();
        if (k >= skip) {
          storage::write_consistent(versions[r], [&] {
            storage::put_value(own + column.offset, given + k * column.bytes, column.bytes);
          });
        }
        r += k + 1 < length ? core.chunk_layout().stream_rows().to_next(own) : 1;
      }
    }
    items.unpin();
  }
  if (applied != 0) {
    core.counters.changed();
  }
  return {applied, keys.size() - applied};
}

}  // namespace reprise::items
