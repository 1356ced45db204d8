#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The files of a checkpoint directory. Numbers have 20 digits, so that a listing by name is one by
// age.

namespace reprise::checkpoint {

/// Held exclusively by the one save at work.
inline constexpr const char* kSaverLock = "saver.lock";
/// Held in common by loads, exclusively while files of old checkpoints are removed.
inline constexpr const char* kReadersLock = "readers.lock";

/// A data file: that of a number of those that the checkpoint with this number wrote.
struct DataName {
  std::uint64_t number = 0;
  std::uint32_t sequence = 0;

  friend auto operator<=>(const DataName&, const DataName&) = default;
};

[[nodiscard]] std::string manifest_name(std::uint64_t number);
/// A manifest that is still being written.
[[nodiscard]] std::string unfinished_name(std::uint64_t number);
[[nodiscard]] std::string data_name(const DataName& name);

/// Nothing for names that are not exactly of this form.
[[nodiscard]] std::optional<std::uint64_t> parse_manifest_name(std::string_view name);
[[nodiscard]] std::optional<std::uint64_t> parse_unfinished_name(std::string_view name);
[[nodiscard]] std::optional<DataName> parse_data_name(std::string_view name);

}  // namespace reprise::checkpoint
