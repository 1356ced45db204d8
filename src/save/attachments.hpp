#pragma once

#include <reprise/checkpoint.hpp>

#include "checkpoint/saver.hpp"
#include "checkpoint/snapshot.hpp"

#include <span>

namespace reprise::save {

/// Throws `std::invalid_argument` for a name that is empty, too long or given twice, or has a NUL.
void check_attachments(std::span<const Attachment> attachments);

void write_attachments(checkpoint::Saver& saver, std::span<const Attachment> attachments);

[[nodiscard]] Attachments read_attachments(const checkpoint::Snapshot& snapshot);

}  // namespace reprise::save
