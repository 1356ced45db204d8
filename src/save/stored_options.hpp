#pragma once

#include <reprise/options.hpp>
#include <reprise/schema.hpp>

#include "record/codec.hpp"

#include <string>
#include <vector>

namespace reprise::save {

// The schema and the options of a buffer in a checkpoint. Strategies of the user's own are marked
// as such, without their options. Decoding throws `CheckpointError` (`Damaged`) for a schema or
// options that no buffer can have.

void encode(record::Encoder& to, const Schema& schema);
[[nodiscard]] Schema decode_schema(record::Decoder& from);

void encode(record::Encoder& to, const Options& options);

/// Options as they were saved. In place of a strategy of the user's own there is one of the
/// library.
struct StoredOptions {
  Options options;
  std::vector<bool> own_selectors;
  bool own_remover = false;

  /// Names the first strategy that was the user's own, for example "selector 1"; empty if none was.
  [[nodiscard]] std::string own_strategy() const;
};
[[nodiscard]] StoredOptions decode_options(record::Decoder& from);

/// Describe the first difference; empty if there is none. Of the options, only those that a
/// checkpoint depends on are compared: numbers and sizes, the window, the selectors and the
/// remover.
[[nodiscard]] std::string difference(const Schema& stored, const Schema& here);
[[nodiscard]] std::string difference(const StoredOptions& stored_options, const Options& here);

}  // namespace reprise::save
