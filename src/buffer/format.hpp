#pragma once

#include <reprise/schema.hpp>

#include "base/text.hpp"
#include "storage/row_layout.hpp"
#include "window/window_spec.hpp"

namespace reprise::buffer {

/// The schema of a buffer, its window, and the layouts of rows that follow. Immutable.
struct Format {
  /// Throws std::invalid_argument for a schema without fields, or with a field that the window does
  /// not allow.
  Format(const Schema& of, const Window& window_of)
      : schema(of),
        window(window_of),
        layout(schema, storage::RowLayout::Frames::InRows, window.continues()),
        chunk_layout(schema, storage::RowLayout::Frames::ByRef, window.continues()) {
    base::require(!schema.fields().empty(), "schema has 0 fields; allowed: at least 1");
    window.check_fields(schema);
  }

  const Schema schema;
  const window::WindowSpec window;
  /// The layouts of rows outside of chunks and in chunks; they differ if fields are compressed.
  const storage::RowLayout layout;
  const storage::RowLayout chunk_layout;
};

}  // namespace reprise::buffer
