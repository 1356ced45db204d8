#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The names of checkpoints and of the files in their directory. Numbers have 20 digits, so that a
// listing sorted by name is sorted by age.

namespace reprise::checkpoint {

/// The file that the running save locks exclusively.
inline constexpr const char* kSaverLock = "saver.lock";
/// The file that loads lock shared, and that is locked exclusively while old files are removed.
inline constexpr const char* kReadersLock = "readers.lock";

/// Names a data file by the number of the checkpoint whose save wrote it, and the file's number
/// among the files of that save.
struct DataName {
  std::uint64_t number = 0;
  std::uint64_t sequence = 0;

  friend auto operator<=>(const DataName&, const DataName&) = default;
};

/// Names a manifest. The checksum tells it from a manifest of the same number that another buffer
/// saved, for example another load of the same checkpoint.
struct ManifestId {
  std::uint64_t number = 0;
  std::uint64_t checksum = 0;

  friend bool operator==(const ManifestId&, const ManifestId&) = default;
};

[[nodiscard]] std::string manifest_name(std::uint64_t number);
/// The name of a manifest while it is written.
[[nodiscard]] std::string unfinished_name(std::uint64_t number);
[[nodiscard]] std::string data_name(const DataName& name);

/// These three return nothing for a name that does not have exactly the form above.
[[nodiscard]] std::optional<std::uint64_t> parse_manifest_name(std::string_view name);
[[nodiscard]] std::optional<std::uint64_t> parse_unfinished_name(std::string_view name);
[[nodiscard]] std::optional<DataName> parse_data_name(std::string_view name);

}  // namespace reprise::checkpoint
