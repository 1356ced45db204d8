#pragma once

#include <reprise/options.hpp>
#include <reprise/schema.hpp>

#include "record/codec.hpp"

#include <string>

namespace reprise::save {

// Stores the schema and the options of a buffer in a checkpoint. A user's own strategies are marked
// as such, without their options. Decoding throws `CheckpointError` (`Damaged`) for a schema or
// options that no buffer can have.

void encode(record::Encoder& to, const Schema& schema);
[[nodiscard]] Schema decode_schema(record::Decoder& from);

void encode(record::Encoder& to, const Options& options);

/// Whether a selector is the user's own.
[[nodiscard]] bool is_user_defined(const Selector& selector);

/// Decodes options, which end the state of this version. A user's own strategy becomes a
/// placeholder with which no buffer can be made.
[[nodiscard]] Options decode_options(record::Decoder& from, std::uint32_t version);
/// Names the first strategy that is the user's own, for example "selector 1". Empty without one.
[[nodiscard]] std::string user_defined_strategy(const Options& options);

/// Describes the first difference; empty if nothing differs. Only options that a checkpoint depends
/// on are compared: sizes and limits, the window, the selectors and the remover.
[[nodiscard]] std::string difference(const Schema& stored, const Schema& here);
[[nodiscard]] std::string difference(const Options& stored, const Options& here);

}  // namespace reprise::save
