#include "save/stored_options.hpp"

#include <reprise/item_key.hpp>
#include <reprise/removers/least_frequently_sampled.hpp>
#include <reprise/removers/least_recently_sampled.hpp>
#include <reprise/removers/lowest_priority.hpp>
#include <reprise/removers/second_chance.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/lifo.hpp>
#include <reprise/selectors/rank_based.hpp>

#include "base/text.hpp"
#include "buffer/plan.hpp"

#include <algorithm>
#include <concepts>
#include <limits>
#include <type_traits>
#include <variant>

namespace reprise::save {
namespace {

using record::Decoder;
using record::Encoder;

/// A strategy of the user's own: nothing follows.
constexpr std::uint8_t kOwn = 255;

// The members of each kind, in the order in which they are written.
template <class Of>
auto members(Transitions& t, Of of) {
  return of(t.n_step, t.discount, t.frame_stack, t.stack_start);
}
template <class Of>
auto members(Sequences& s, Of of) {
  return of(s.length, s.period, s.burn_in, s.end);
}
template <class Of>
auto members(Uniform& /*unused*/, Of of) {
  return of();
}
template <class Of>
auto members(Proportional& p, Of of) {
  return of(p.alpha, p.epsilon, p.initial, p.initial_constant);
}
template <class Of>
auto members(RankBased& r, Of of) {
  return of(r.alpha, r.initial, r.initial_constant);
}
template <class Of>
auto members(Fifo& /*unused*/, Of of) {
  return of();
}
template <class Of>
auto members(Lifo& /*unused*/, Of of) {
  return of();
}
template <class Of>
auto members(MinHeap& h, Of of) {
  return of(h.initial, h.initial_constant);
}
template <class Of>
auto members(MaxHeap& h, Of of) {
  return of(h.initial, h.initial_constant);
}
template <class Of>
auto members(SecondChance& /*unused*/, Of of) {
  return of();
}
template <class Of>
auto members(LeastRecentlySampled& l, Of of) {
  return of(l.candidates);
}
template <class Of>
auto members(LeastFrequentlySampled& l, Of of) {
  return of(l.candidates);
}
template <class Of>
auto members(LowestPriority& l, Of of) {
  return of(l.selector, l.candidates);
}
template <class Of>
auto members(MinSize& m, Of of) {
  return of(m.items);
}
template <class Of>
auto members(SampleToInsertRatio& r, Of of) {
  return of(r.samples_per_insert, r.min_size, r.error_buffer);
}
template <class Of>
auto members(Queue& q, Of of) {
  return of(q.size);
}
template <class Of>
auto members(Unlimited& /*unused*/, Of of) {
  return of();
}

template <class T>
void put(Encoder& to, T value) {
  if constexpr (std::is_same_v<T, float>) {
    to.f32(value);
  } else if constexpr (std::is_same_v<T, double>) {
    to.f64(value);
  } else {
    to.u64(static_cast<std::uint64_t>(value));
  }
}

constexpr std::uint64_t last(StackStart /*unused*/) {
  return static_cast<std::uint64_t>(StackStart::Zeros);
}
constexpr std::uint64_t last(SequenceEnd /*unused*/) {
  return static_cast<std::uint64_t>(SequenceEnd::Overlap);
}
constexpr std::uint64_t last(InitialPriority /*unused*/) {
  return static_cast<std::uint64_t>(InitialPriority::FromCaller);
}
template <std::unsigned_integral T>
constexpr std::uint64_t last(T /*unused*/) {
  return std::numeric_limits<T>::max();
}

template <class T>
void get(Decoder& from, T& value) {
  if constexpr (std::is_same_v<T, float>) {
    value = from.f32();
  } else if constexpr (std::is_same_v<T, double>) {
    value = from.f64();
  } else {
    const std::uint64_t stored = from.u64();
    if (stored > last(T{})) {
      from.refuse("an option is ", stored, "; allowed: 0 to ", last(T{}));
    }
    value = static_cast<T>(stored);
  }
}

/// One of several kinds, each with its place in the list as its number.
template <class... Kinds>
struct OneOf {
  /// From `std::variant`.
  static void encode(Encoder& to, const std::variant<Kinds...>& value) {
    to.u8(static_cast<std::uint8_t>(value.index()));
    std::visit([&to](auto kind) { members(kind, [&to](auto&... m) { (put(to, m), ...); }); },
               value);
  }
  /// From `Selector` or `Remover`.
  template <class Strategy>
  static void encode_strategy(Encoder& to, const Strategy& strategy) {
    std::uint8_t number = 0;
    const auto try_kind = [&](const auto* kind) {
      if (kind == nullptr) {
        ++number;
        return false;
      }
      to.u8(number);
      auto copy = *kind;
      members(copy, [&to](auto&... m) { (put(to, m), ...); });
      return true;
    };
    if (!(try_kind(strategy.template target<Kinds>()) || ...)) {
      to.u8(kOwn);
    }
  }
  /// Calls take(kind); false if it is the user's own.
  template <class Take>
  static bool decode(Decoder& from, const char* what, Take take) {
    const std::uint8_t number = from.u8();
    if (number == kOwn) {
      return false;
    }
    std::uint8_t at = 0;
    const auto try_kind = [&](auto kind) {
      if (at++ != number) {
        return false;
      }
      members(kind, [&from](auto&... m) { (get(from, m), ...); });
      take(kind);
      return true;
    };
    if (!(try_kind(Kinds{}) || ...)) {
      from.refuse(what, " of kind ", unsigned{number});
    }
    return true;
  }
};

// A kind keeps its number for ever: new ones go to the end.
using Windows = OneOf<Transitions, Sequences>;
using Limiters = OneOf<MinSize, SampleToInsertRatio, Queue, Unlimited>;
using Selectors = OneOf<Uniform, Proportional, RankBased, Fifo, Lifo, MinHeap, MaxHeap>;
using Removers =
    OneOf<Fifo, SecondChance, LeastRecentlySampled, LeastFrequentlySampled, LowestPriority>;

std::vector<std::byte> encoded(const Selector& selector) {
  Encoder to;
  Selectors::encode_strategy(to, selector);
  return std::move(to).take();
}

std::vector<std::byte> encoded(const Remover& remover) {
  Encoder to;
  Removers::encode_strategy(to, remover);
  return std::move(to).take();
}

}  // namespace

void encode(Encoder& to, const Options& options) {
  to.u64(options.capacity_steps);
  Windows::encode(to, options.window);
  to.u32(static_cast<std::uint32_t>(options.selectors.size()));
  for (const Selector& selector : options.selectors) {
    Selectors::encode_strategy(to, selector);
  }
  to.u32(options.max_times_sampled);
  to.u8(options.episode_index ? 1 : 0);
  Removers::encode_strategy(to, options.remover);
  Limiters::encode(to, options.rate_limiter);
  to.u64(options.max_writers);
  to.u64(options.chunk_steps);
  to.u64(options.shards);
  to.u32(options.key_tag.value_or(0));
}

StoredOptions decode_options(Decoder& from) {
  StoredOptions stored;
  Options& options = stored.options;
  options.capacity_steps = from.u64();
  const auto need = [&from](bool known, const char* what) {
    if (!known) {
      from.refuse(what, " of the user's own");
    }
  };
  need(Windows::decode(from, "a window", [&](const auto& window) { options.window = window; }),
       "a window");
  const std::uint32_t selectors = from.count(1);
  if (selectors == 0 || selectors > buffer::kMaxSelectors) {
    from.refuse(selectors, " selectors; allowed: 1 to ", buffer::kMaxSelectors);
  }
  options.selectors.clear();
  for (std::uint32_t s = 0; s < selectors; ++s) {
    stored.own_selectors.push_back(false);
    if (!Selectors::decode(from, "a selector",
                           [&](const auto& kind) { options.selectors.emplace_back(kind); })) {
      options.selectors.emplace_back(Uniform{});
      stored.own_selectors.back() = true;
    }
  }
  options.max_times_sampled = from.u32();
  options.episode_index = from.u8() != 0;
  stored.own_remover =
      !Removers::decode(from, "a remover", [&](const auto& kind) { options.remover = kind; });
  need(Limiters::decode(from, "a rate limiter",
                        [&](const auto& limiter) { options.rate_limiter = limiter; }),
       "a rate limiter");
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
    const auto was = stored_options.own_selectors[s] ? own : encoded(stored.selectors[s]);
    if (was != encoded(here.selectors[s])) {
      return base::text("selector ", s, " of the checkpoint is another one");
    }
  }
  const auto was = stored_options.own_remover ? own : encoded(stored.remover);
  return was == encoded(here.remover) ? "" : "the remover of the checkpoint is another one";
}

}  // namespace reprise::save
