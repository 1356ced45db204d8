#pragma once

#include <reprise/options.hpp>
#include <reprise/schema.hpp>

#include "record/codec.hpp"

#include <string>
#include <vector>

namespace reprise::save {

// The schema and the options of a buffer as a checkpoint has them. Strategies of the user's own
// are noted as such, without what is in them. Reading throws `CheckpointError` (`Damaged`) for what
// no buffer could have had.

void encode(record::Encoder& to, const Schema& schema);
[[nodiscard]] Schema decode_schema(record::Decoder& from);

void encode(record::Encoder& to, const Options& options);

/// Options as they were saved. Where a strategy was the user's own, another stands in for it.
struct StoredOptions {
  Options options;
  std::vector<bool> own_selectors;
  bool own_remover = false;

  /// "selector 1", say, for the first that was the user's own; empty if none was.
  [[nodiscard]] std::string own_strategy() const;
};
[[nodiscard]] StoredOptions decode_options(record::Decoder& from);

/// In words, what of the first is not as in the second; empty if nothing is. Of options only what a
/// checkpoint depends on: how much there is of what, the window, and the strategies.
[[nodiscard]] std::string difference(const Schema& stored, const Schema& here);
[[nodiscard]] std::string difference(const StoredOptions& stored_options, const Options& here);

}  // namespace reprise::save
