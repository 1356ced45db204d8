#pragma once

#include "record/files.hpp"

#include <cstddef>

namespace reprise::checkpoint {

/// Removes old manifests beyond the newest `keep` whole ones, data that none of these names, and
/// files that crashed saves left. Removes nothing while a load is running in the directory, or if
/// any manifest cannot be read. The saver's lock must be held.
///
/// Never throws: a later save removes what stays.
void collect(record::Folder& folder, std::size_t keep) noexcept;

}  // namespace reprise::checkpoint
