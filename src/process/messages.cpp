#include "process/messages.hpp"

#include <reprise/checkpoint.hpp>

#include "record/codec.hpp"
#include "save/stored_options.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace reprise::process {

std::array<char, 24> Greeting::this_version() noexcept {
  std::array<char, 24> version{};
  constexpr std::string_view kText = REPRISE_VERSION;
  static_assert(kText.size() < sizeof(version));
  std::ranges::copy(kText, version.begin());
  return version;
}

std::string Greeting::text() const {
  return {version.begin(), std::ranges::find(version, '\0')};
}

std::vector<std::byte> joined(Bytes front, Bytes behind) {
  std::vector<std::byte> all(front.size() + behind.size());
  std::ranges::copy(front, all.begin());
  std::ranges::copy(behind, all.begin() + static_cast<std::ptrdiff_t>(front.size()));
  return all;
}

std::vector<std::byte> described(const Schema& schema, const Options& options) {
  Options told = options;
  for (Selector& selector : told.selectors) {
    if (save::is_own(selector)) {
      const bool asks = selector.make_selector_rule()->needs_caller();
      selector = Proportional{
          .alpha = 1.0F,
          .epsilon = 0.0F,
          .initial = asks ? InitialPriority::FromCaller : InitialPriority::MaximumInBuffer};
    }
  }
  record::Encoder encoder;
  save::encode(encoder, schema);
  save::encode(encoder, told);
  return std::move(encoder).take();
}

Description description_of(Bytes bytes) {
  record::Decoder decoder(bytes, "the host's description");
  Schema schema = save::decode_schema(decoder);
  return {std::move(schema), save::decode_options(decoder)};
}

// All of it but the sentence at its end are numbers.
static_assert(std::is_standard_layout_v<Stats>);
constexpr std::size_t kNumbers = offsetof(Stats, limiter);

std::vector<std::byte> bytes_of(const Stats& stats) {
  const Bytes numbers(reinterpret_cast<const std::byte*>(&stats), kNumbers);
  return joined(numbers, std::as_bytes(std::span(stats.limiter)));
}

Stats stats_of(Bytes bytes) {
  if (bytes.size() < kNumbers) {
    base::refuse<std::runtime_error>("the host answered ", bytes.size(),
                                     " bytes, which are no statistics");
  }
  Stats stats;
  std::memcpy(reinterpret_cast<std::byte*>(&stats), bytes.data(), kNumbers);
  stats.limiter.assign(reinterpret_cast<const char*>(bytes.data()) + kNumbers,
                       bytes.size() - kNumbers);
  return stats;
}

}  // namespace reprise::process
