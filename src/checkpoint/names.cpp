#include "checkpoint/names.hpp"

#include <charconv>
#include <cstddef>
#include <memory>
#include <span>
#include <system_error>

namespace reprise::checkpoint {
namespace {

constexpr std::size_t kNumberDigits = 20;
constexpr std::size_t kSequenceDigits = 10;
constexpr std::string_view kManifest = "manifest-";
constexpr std::string_view kData = "data-";
constexpr std::string_view kUnfinished = ".tmp";

std::string digits(std::uint64_t value, std::size_t width) {
  const std::string text = std::to_string(value);
  return std::string(width - text.size(), '0') + text;
}

/// Removes a prefix from the text; false if it does not begin with it.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

/// Removes a number of so many digits from the text.
template <class T>
bool take_number(std::string_view& text, std::size_t width, T& value) {
  if (text.size() < width) {
    return false;
  }
  const std::span<const char> digits = std::span(text).first(width);
  const char* const end = std::to_address(digits.end());
  const auto [stopped, error] = std::from_chars(std::to_address(digits.begin()), end, value);
  text.remove_prefix(width);
  return error == std::errc() && stopped == end;
}

}  // namespace

std::string manifest_name(std::uint64_t number) {
  return std::string(kManifest) + digits(number, kNumberDigits);
}

std::string unfinished_name(std::uint64_t number) {
  return manifest_name(number) + std::string(kUnfinished);
}

std::string data_name(const DataName& name) {
  return std::string(kData) + digits(name.number, kNumberDigits) + "-" +
         digits(name.sequence, kSequenceDigits);
}

std::optional<std::uint64_t> parse_manifest_name(std::string_view name) {
  std::uint64_t number = 0;
  const bool ok = take(name, kManifest) && take_number(name, kNumberDigits, number) && name.empty();
  return ok ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> parse_unfinished_name(std::string_view name) {
  if (!name.ends_with(kUnfinished)) {
    return std::nullopt;
  }
  name.remove_suffix(kUnfinished.size());
  return parse_manifest_name(name);
}

std::optional<DataName> parse_data_name(std::string_view name) {
  DataName parsed;
  const bool ok = take(name, kData) && take_number(name, kNumberDigits, parsed.number) &&
                  take(name, "-") && take_number(name, kSequenceDigits, parsed.sequence) &&
                  name.empty();
  return ok ? std::optional(parsed) : std::nullopt;
}

}  // namespace reprise::checkpoint
