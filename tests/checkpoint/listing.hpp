#pragma once

#include <reprise/checkpoint.hpp>

#include "../record/memory_file_system.hpp"
#include "checkpoint/names.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// The names of the files in a directory, by the kind of file. Each list is sorted.
struct Listing {
  std::vector<std::uint64_t> manifests;
  std::vector<checkpoint::DataName> data;
  std::vector<std::string> other;
};

inline Listing list(const MemoryFileSystem& system) {
  Listing listing;
  for (const auto& [name, bytes] : system.files()) {
    if (const auto number = checkpoint::parse_manifest_name(name)) {
      listing.manifests.push_back(*number);
    } else if (const auto data = checkpoint::parse_data_name(name)) {
      listing.data.push_back(*data);
    } else {
      listing.other.push_back(name);
    }
  }
  return listing;
}

template <class Call>
void expect_error(CheckpointError::Kind kind, Call&& call) {
  const CheckpointError error = checkpoint_error_of(call);
  EXPECT_EQ(error.kind(), kind) << error.what();
}

}  // namespace reprise::test
