#include "process/messages.hpp"

#include <reprise/checkpoint.hpp>
#include <reprise/strategies.hpp>

#include "base/text.hpp"
#include "record/codec.hpp"
#include "save/save.hpp"
#include "save/stored_options.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::process {
namespace {

/// A selector of the library with another exponent.
Selector with_alpha(const Selector& selector, float alpha) {
  for (const StrategyKind<Selector>& kind : selectors()) {
    if (auto values = kind.values(selector)) {
      for (std::size_t i = 0; i < values->size(); ++i) {
        if (kind.options()[i].name == "alpha") {
          (*values)[i] = alpha;
        }
      }
      return kind.make(*values);
    }
  }
  return selector;
}

}  // namespace

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

std::vector<std::byte> failure_of(std::uint64_t number, const std::exception& error) {
  using Kind = Failure::Kind;
  const auto is_type = [&](auto* kind) { return dynamic_cast<decltype(kind)>(&error) != nullptr; };
  const Failure failure{
      .number = number,
      .kind = is_type(static_cast<const std::invalid_argument*>(nullptr)) ? Kind::Invalid
              : is_type(static_cast<const std::logic_error*>(nullptr))    ? Kind::Logic
              : is_type(static_cast<const std::bad_alloc*>(nullptr))      ? Kind::Memory
                                                                          : Kind::Other};
  std::vector<Refusal::Part> parts = {{.kind = Refusal::Kind::Text, .text = error.what()}};
  if (const auto* const refusal = dynamic_cast<const Refusal*>(&error)) {
    parts = refusal->parts();
  }
  std::string text;
  for (const Refusal::Part& part : parts) {
    text += static_cast<char>(part.kind);
    text += part.text;
    text += '\0';
  }
  return joined(failure, std::as_bytes(std::span(text)));
}

void rethrow(Bytes bytes) {
  const auto failure = value_of<Failure>(bytes);
  std::vector<Refusal::Part> parts;
  const Bytes behind = bytes.subspan(failure ? sizeof(Failure) : bytes.size());
  std::string_view text(reinterpret_cast<const char*>(behind.data()), behind.size());
  for (std::size_t end = text.find('\0', 1); end != std::string_view::npos;
       end = text.find('\0', 1)) {
    parts.push_back({.kind = static_cast<Refusal::Kind>(text.front()),
                     .text = std::string(text.substr(1, end - 1))});
    text.remove_prefix(end + 1);
  }
  if (parts.empty()) {
    parts.push_back({.kind = Refusal::Kind::Text, .text = "the host refused, and did not say why"});
  }
  switch (failure ? failure->kind : Failure::Kind::Other) {
    case Failure::Kind::Invalid:
      throw base::detail::Refused<std::invalid_argument>(std::move(parts));
    case Failure::Kind::Logic:
      throw base::detail::Refused<std::logic_error>(std::move(parts));
    case Failure::Kind::Memory:
      throw std::bad_alloc();
    case Failure::Kind::Other:
      break;
  }
  throw base::detail::Refused<std::runtime_error>(std::move(parts));
}

std::vector<std::byte> described(const buffer::BufferCore& core) {
  Options sent = core.options();
  for (std::size_t s = 0; s < sent.selectors.size(); ++s) {
    Selector& selector = sent.selectors[s];
    if (save::is_user_defined(selector)) {
      const bool asks = selector.make_selector_rule()->needs_caller();
      selector = Proportional{
          .alpha = 1.0F,
          .epsilon = 0.0F,
          .initial = asks ? InitialPriority::FromCaller : InitialPriority::MaximumInBuffer};
    } else if (const std::optional<float> alpha = core.selectors().at(s).alpha()) {
      selector = with_alpha(selector, *alpha);
    }
  }
  record::Encoder encoder;
  save::encode(encoder, core.schema());
  save::encode(encoder, sent);
  return std::move(encoder).take();
}

Description description_of(Bytes bytes) {
  record::Decoder decoder(bytes, "the host's description");
  Schema schema = save::decode_schema(decoder);
  return {std::move(schema), save::decode_options(decoder, save::kOptionsVersion)};
}

// The members of `Stats` are numbers, except for the sentence at its end.
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
