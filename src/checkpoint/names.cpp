#include "checkpoint/names.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace reprise::checkpoint {
namespace {

constexpr std::size_t kDigits = 20;
constexpr std::string_view kManifest = "manifest-";
constexpr std::string_view kData = "data-";
constexpr std::string_view kUnfinished = ".tmp";

std::string digits(std::uint64_t value) {
  const std::string text = std::to_string(value);
  return std::string(kDigits - text.size(), '0') + text;
}

/// The number in the digits from `at` on, or any number if there are none: the caller makes the
/// name of that number and compares.
std::uint64_t number_at(std::string_view name, std::size_t at) {
  std::uint64_t number = 0;
  const std::string_view digits = name.substr(std::min(at, name.size()));
  std::from_chars(std::to_address(digits.begin()), std::to_address(digits.end()), number);
  return number;
}

}  // namespace

std::string manifest_name(std::uint64_t number) {
  return std::string(kManifest) + digits(number);
}

std::string unfinished_name(std::uint64_t number) {
  return manifest_name(number) + std::string(kUnfinished);
}

std::string data_name(const DataName& name) {
  return std::string(kData) + digits(name.number) + "-" + digits(name.sequence);
}

std::optional<std::uint64_t> parse_manifest_name(std::string_view name) {
  const auto number = number_at(name, kManifest.size());
  return name == manifest_name(number) ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> parse_unfinished_name(std::string_view name) {
  const auto number = number_at(name, kManifest.size());
  return name == unfinished_name(number) ? std::optional(number) : std::nullopt;
}

std::optional<DataName> parse_data_name(std::string_view name) {
  const DataName parsed{number_at(name, kData.size()),
                        number_at(name, kData.size() + kDigits + std::string_view("-").size())};
  return name == data_name(parsed) ? std::optional(parsed) : std::nullopt;
}

}  // namespace reprise::checkpoint
