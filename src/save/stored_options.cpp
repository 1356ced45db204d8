#include "save/stored_options.hpp"

#include <reprise/item_key.hpp>
#include <reprise/strategies.hpp>

#include "base/text.hpp"
#include "buffer/plan.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>

namespace reprise::save {
namespace {

using record::Decoder;
using record::Encoder;

/// Stands for a strategy of the user's own; no options follow.
constexpr std::uint8_t kOwn = 255;

void put(Encoder& to, const OptionValue& value) {
  if (const auto* const number = std::get_if<float>(&value)) {
    to.f32(*number);
  } else if (const auto* const precise = std::get_if<double>(&value)) {
    to.f64(*precise);
  } else {
    to.u64(std::get<std::uint64_t>(value));
  }
}

/// Reads a value of the type that `as` holds.
OptionValue get(Decoder& from, const OptionValue& as) {
  if (std::holds_alternative<float>(as)) {
    return from.f32();
  }
  if (std::holds_alternative<double>(as)) {
    return from.f64();
  }
  return from.u64();
}

/// Writes the index of the strategy in the library's table, and its options.
template <class Family>
void encode(Encoder& to, std::span<const StrategyKind<Family>> kinds, const Family& strategy) {
  for (std::size_t number = 0; number < kinds.size(); ++number) {
    if (const auto values = kinds[number].values(strategy)) {
      to.u8(static_cast<std::uint8_t>(number));
      for (const OptionValue& value : *values) {
        put(to, value);
      }
      return;
    }
  }
  to.u8(kOwn);
}

/// Reads a strategy; nothing if it was the user's own.
template <class Family>
std::optional<Family> decode(Decoder& from, const char* what,
                             std::span<const StrategyKind<Family>> kinds) {
  const std::uint8_t number = from.u8();
  if (number == kOwn) {
    return std::nullopt;
  }
  if (number >= kinds.size()) {
    from.refuse(what, " of kind ", unsigned{number});
  }
  std::vector<OptionValue> values;
  for (const StrategyOption& option : kinds[number].options()) {
    values.push_back(get(from, option.usual));
  }
  try {
    return kinds[number].make(values);
  } catch (const std::invalid_argument& error) {
    from.refuse(error.what());
  }
}

template <class Family>
Family need(Decoder& from, const char* what, std::span<const StrategyKind<Family>> kinds) {
  const auto decoded = decode(from, what, kinds);
  if (!decoded) {
    from.refuse(what, " of the user's own");
  }
  return *decoded;
}

/// A strategy as the bytes of a checkpoint, because strategies have no comparison and their bytes
/// do.
template <class Family>
std::vector<std::byte> encoded(std::span<const StrategyKind<Family>> kinds,
                               const Family& strategy) {
  Encoder to;
  encode(to, kinds, strategy);
  return std::move(to).take();
}

}  // namespace

void encode(Encoder& to, const Options& options) {
  to.u64(options.capacity_steps);
  encode(to, windows(), options.window);
  to.u32(static_cast<std::uint32_t>(options.selectors.size()));
  for (const Selector& selector : options.selectors) {
    encode(to, selectors(), selector);
  }
  to.u32(options.max_times_sampled);
  to.u8(options.episode_index ? 1 : 0);
  encode(to, removers(), options.remover);
  encode(to, rate_limiters(), options.rate_limiter);
  to.u64(options.max_writers);
  to.u64(options.chunk_steps);
  to.u64(options.shards);
  to.u32(options.key_tag.value_or(0));
}

StoredOptions decode_options(Decoder& from) {
  StoredOptions stored;
  Options& options = stored.options;
  options.capacity_steps = from.u64();
  options.window = need(from, "a window", windows());
  const std::uint32_t count = from.count(1);
  if (count == 0 || count > buffer::kMaxSelectors) {
    from.refuse(count, " selectors; allowed: 1 to ", buffer::kMaxSelectors);
  }
  options.selectors.clear();
  for (std::uint32_t s = 0; s < count; ++s) {
    const auto selector = decode(from, "a selector", selectors());
    stored.own_selectors.push_back(!selector);
    options.selectors.push_back(selector.value_or(Uniform{}));
  }
  options.max_times_sampled = from.u32();
  options.episode_index = from.u8() != 0;
  const auto remover = decode(from, "a remover", removers());
  stored.own_remover = !remover;
  options.remover = remover.value_or(Fifo{});
  options.rate_limiter = need(from, "a rate limiter", rate_limiters());
  options.max_writers = from.u64();
  options.chunk_steps = from.u64();
  options.shards = from.u64();
  const std::uint32_t tag = from.u32();
  if (tag > ItemKey::kTagMask) {
    from.refuse("key_tag is ", tag, "; allowed: 0 to ", ItemKey::kTagMask);
  }
  options.key_tag = static_cast<std::uint16_t>(tag);
  return stored;
}

std::string StoredOptions::own_strategy() const {
  const auto own = std::find(own_selectors.begin(), own_selectors.end(), true);
  if (own != own_selectors.end()) {
    return base::text("selector ", own - own_selectors.begin());
  }
  return own_remover ? "the remover" : "";
}

std::string difference(const StoredOptions& stored_options, const Options& here) {
  const Options& stored = stored_options.options;
  const std::vector<std::byte> own{std::byte{kOwn}};
  const auto number = [](const char* option, std::size_t a, std::size_t b) {
    return a == b ? std::string()
                  : base::text(option, " is ", a, " in the checkpoint and ", b, " here");
  };
  for (const std::string& found :
       {number("capacity_steps", stored.capacity_steps, here.capacity_steps),
        number("max_writers", stored.max_writers, here.max_writers),
        number("chunk_steps", stored.chunk_steps, here.chunk_steps),
        number("shards", stored.shards, here.shards),
        number("max_times_sampled", stored.max_times_sampled, here.max_times_sampled),
        number("the number of selectors", stored.selectors.size(), here.selectors.size())}) {
    if (!found.empty()) {
      return found;
    }
  }
  if (stored.window != here.window) {
    return "the window of the checkpoint is another one";
  }
  for (std::size_t s = 0; s < here.selectors.size(); ++s) {
    const auto was =
        stored_options.own_selectors[s] ? own : encoded(selectors(), stored.selectors[s]);
    if (was != encoded(selectors(), here.selectors[s])) {
      return base::text("selector ", s, " of the checkpoint is another one");
    }
  }
  const auto was = stored_options.own_remover ? own : encoded(removers(), stored.remover);
  return was == encoded(removers(), here.remover) ? ""
                                                  : "the remover of the checkpoint is another one";
}

}  // namespace reprise::save
