#pragma once

#include "record/files.hpp"

#include <cstddef>

namespace reprise::checkpoint {

/// Removes what is not needed any more: manifests older than the newest `keep` whole ones, data
/// that none of these names, and what crashed saves left. Removes nothing while a load is at work
/// in the directory, or if any manifest cannot be read. The saver's lock must be held.
///
/// Never throws: what stays is removed after a later save.
void collect(record::Folder& folder, std::size_t keep) noexcept;

}  // namespace reprise::checkpoint
