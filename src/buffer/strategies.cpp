#include <reprise/fifo.hpp>
#include <reprise/removers/least_frequently_sampled.hpp>
#include <reprise/removers/least_recently_sampled.hpp>
#include <reprise/removers/lowest_priority.hpp>
#include <reprise/removers/second_chance.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/lifo.hpp>
#include <reprise/selectors/loss_adjusted.hpp>
#include <reprise/selectors/mixture.hpp>
#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/rank_based.hpp>
#include <reprise/selectors/recency.hpp>
#include <reprise/selectors/uniform.hpp>
#include <reprise/strategies.hpp>

#include "base/text.hpp"

#include <limits>
#include <string>
#include <type_traits>

namespace reprise {
namespace {

/// The alternative of `OptionValue` that a member of type T has.
template <class T>
using ValueOf = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;

/// The type of a member, and of the struct that has it.
template <class T>
struct MemberOf;
template <class K, class T>
struct MemberOf<T K::*> {
  using Kind = K;
  using Type = T;
  using Value = ValueOf<T>;
};
template <auto Member>
using Traits = MemberOf<decltype(Member)>;

/// An option: its description, with the member that holds it as the template argument.
template <auto Member>
struct Option {
  StrategyOption described;
};

template <auto Member, class Of = Traits<Member>>
constexpr Option<Member> option(
    std::string_view name, typename Of::Value least = 0,
    typename Of::Value most = std::numeric_limits<typename Of::Type>::max()) {
  return {{name, static_cast<typename Of::Value>(typename Of::Kind().*Member), least, most, {}}};
}

/// Whether an enumeration has an enumerator of this value. Compilers write it into the signature by
/// its name, or as a cast of a number if it has none.
template <auto Value>
constexpr bool is_enumerator() {
  constexpr std::string_view kBefore = "Value = ";
  constexpr std::string_view kSignature = __PRETTY_FUNCTION__;
  return kSignature[kSignature.find(kBefore) + kBefore.size()] != '(';
}

template <auto Member, std::size_t N>
constexpr Option<Member> option(std::string_view name, const std::string_view (&words)[N]) {
  // A value without a word could be stored in a checkpoint and not loaded.
  using Enumeration = typename Traits<Member>::Type;
  static_assert(is_enumerator<static_cast<Enumeration>(N - 1)>(), "a word without an enumerator");
  static_assert(!is_enumerator<static_cast<Enumeration>(N)>(), "an enumerator without a word");
  Option<Member> made = option<Member>(name, 0, N - 1);
  made.described.words = words;
  return made;
}

template <class Kind, class Strategy>
const Kind* target(const Strategy& strategy) {
  return strategy.template target<Kind>();
}
template <class Kind, class... Kinds>
const Kind* target(const std::variant<Kinds...>& strategy) {
  return std::get_if<Kind>(&strategy);
}

template <class Family, class Kind, auto... Members>
constexpr StrategyKind<Family> kind(std::string_view name, std::string_view about,
                                    Option<Members>... options) {
  constexpr auto kMake = [](std::span<const OptionValue> values) -> Family {
    Kind made;
    [[maybe_unused]] const OptionValue* next = values.data();
    [[maybe_unused]] const auto set = [&next](auto& member) {
      using T = std::remove_reference_t<decltype(member)>;
      member = static_cast<T>(std::get<ValueOf<T>>(*next++));
    };
    (set(made.*Members), ...);
    return made;
  };
  constexpr auto kRead = [](const Family& strategy) -> std::optional<std::vector<OptionValue>> {
    const Kind* const found = target<Kind>(strategy);
    if (found == nullptr) {
      return std::nullopt;
    }
    return std::vector<OptionValue>{
        static_cast<typename Traits<Members>::Value>(found->*Members)...};
  };
  return {name, about, {{options.described...}}, sizeof...(Members), kMake, kRead};
}

// ---- the tables: a strategy is one entry; a new one goes to the end, for checkpoints ----

constexpr std::string_view kInitials[] = {"maximum_in_buffer", "highest_seen", "constant",
                                          "from_caller"};
constexpr std::string_view kStackStarts[] = {"repeat_first", "zeros"};
constexpr std::string_view kSequenceEnds[] = {"truncate", "zero_pad", "drop", "overlap"};

constexpr StrategyKind<Selector> kSelectors[] = {
    kind<Selector, Uniform>(
        "Uniform",
        "Draws every item with the same probability; priorities are checked and ignored."),
    kind<Selector, Proportional>(
        "Proportional",
        R"(Draws item i with probability weight_i / sum, weight = (priority + epsilon)^alpha
(Schaul et al., "Prioritized Experience Replay", 2016). Give raw priorities, such as absolute
TD errors: the exponent is applied once, inside.

alpha: 0 (uniform) to 8. epsilon: finite, at least 0.
initial: what a new item weighs without a priority of its own: "maximum_in_buffer",
  "highest_seen", a raw priority, or "from_caller", with which appends have to bring one.)",
        option<&Proportional::alpha>("alpha", 0.0F, 8.0F),
        option<&Proportional::epsilon>("epsilon"),
        option<&Proportional::initial>("initial", kInitials),
        option<&Proportional::initial_constant>("initial_constant")),
    kind<Selector, RankBased>(
        "RankBased",
        R"(Draws item i with probability proportional to rank(i)^-alpha, where the item of highest
priority has rank 1 (Schaul et al., 2016). `initial` as of Proportional.)",
        option<&RankBased::alpha>("alpha", 0.0F, 8.0F),
        option<&RankBased::initial>("initial", kInitials),
        option<&RankBased::initial_constant>("initial_constant")),
    kind<Selector, Fifo>(
        "Fifo",
        R"(First in, first out. As a remover: evicts the oldest step for each step beyond the capacity.
As a selector: draws the items that were decided first, each once per batch; with
max_times_sampled=1 a queue.)"),
    kind<Selector, Lifo>("Lifo", "Draws the items that were decided last, youngest first."),
    kind<Selector, MinHeap>(
        "MinHeap",
        "Draws the items of lowest priority, lowest first. `initial` as of Proportional.",
        option<&MinHeap::initial>("initial", kInitials),
        option<&MinHeap::initial_constant>("initial_constant")),
    kind<Selector, MaxHeap>(
        "MaxHeap",
        "Draws the items of highest priority, highest first. `initial` as of Proportional.",
        option<&MaxHeap::initial>("initial", kInitials),
        option<&MaxHeap::initial_constant>("initial_constant")),
    kind<Selector, Recency>(
        "Recency",
        R"(Draws item i with probability (1 - p)^age / sum, where the age of an item is the number of items
that were decided after it (truncated geometric; Korniak et al., 2026). The mean age is near
1 / p if the buffer has many times as many items.

p: 0 (uniform) to 0.5.)",
        option<&Recency::p>("p", 0.0F, 0.5F)),
    kind<Selector, LossAdjusted>(
        "LossAdjusted",
        R"(Draws item i with probability weight_i / sum, weight = max(priority, 1)^alpha (LAP: Fujimoto et
al., 2020). Learn with the Huber loss of threshold 1 and beta=0. `initial` as of Proportional.

alpha: 0 (uniform) to 8.)",
        option<&LossAdjusted::alpha>("alpha", 0.0F, 8.0F),
        option<&LossAdjusted::initial>("initial", kInitials),
        option<&LossAdjusted::initial_constant>("initial_constant")),
    kind<Selector, Mixture>(
        "Mixture",
        R"(Draws uniformly with probability `uniform`, else as Proportional without an epsilon: item i with
probability uniform / N + (1 - uniform) * weight_i / sum, weight = priority^alpha. Batches have
the probabilities of the whole. `initial` as of Proportional.

uniform: 0 to 1. alpha: 0 to 8.)",
        option<&Mixture::uniform>("uniform", 0.0F, 1.0F),
        option<&Mixture::alpha>("alpha", 0.0F, 8.0F),
        option<&Mixture::initial>("initial", kInitials),
        option<&Mixture::initial_constant>("initial_constant")),
};

constexpr StrategyKind<Remover> kRemovers[] = {
    kind<Remover, Fifo>("Fifo", kSelectors[3].about()),
    kind<Remover, SecondChance>(
        "SecondChance",
        R"(Evicts chunks in the order in which they were filled, sparing once those that were sampled
since, and those of which the turn comes early (the clock algorithm).)"),
    kind<Remover, LeastRecentlySampled>(
        "LeastRecentlySampled",
        R"(Evicts the chunk that was not sampled for the longest time, of `candidates` (1 to 256) picked
at random.)",
        option<&LeastRecentlySampled::candidates>("candidates", 1, 256)),
    kind<Remover, LeastFrequentlySampled>(
        "LeastFrequentlySampled",
        R"(Evicts the chunk that is sampled least often, of `candidates` (1 to 256) picked at random.
Draws count half as much with each capacity of newer steps, so nothing stays for ever.)",
        option<&LeastFrequentlySampled::candidates>("candidates", 1, 256)),
    kind<Remover, LowestPriority>(
        "LowestPriority",
        R"(Evicts the chunk whose steps weigh least on average in a selector, given by its place among
the buffer's selectors, of `candidates` (1 to 256) picked at random.)",
        option<&LowestPriority::selector>("selector"),
        option<&LowestPriority::candidates>("candidates", 1, 256)),
};

constexpr StrategyKind<Window> kWindows[] = {
    kind<Window, Transitions>(
        "Transitions",
        R"(One item per step t: the observation at t, the step's columns, the n-step return
R = sum over k < length of discount^k * reward[t + k], and the observation at t + length with
discount^length to multiply its value by (0 after a termination).

n_step: steps in a return, 1 to 65535; fewer where the episode ends sooner.
discount: gamma per step, in [0, 1]; times the steps' own, if the schema has a discount.
frame_stack: observations stacked, oldest first, 1 to 65535; batches then have [B, F, *shape].
stack_start: what a stack shows of the time before an episode: "repeat_first" or "zeros".)",
        option<&Transitions::n_step>("n_step", 1, 65535),
        option<&Transitions::discount>("discount", 0.0F, 1.0F),
        option<&Transitions::frame_stack>("frame_stack", 1, 65535),
        option<&Transitions::stack_start>("stack_start", kStackStarts)),
    kind<Window, Sequences>(
        "Sequences",
        R"(One item per `period` steps of an episode: T = burn_in + length consecutive steps with every
field, and the observation after each of them (R2D2, Kapturowski et al., 2019).

length: steps to learn from. period: steps from one item's first to the next one's.
burn_in: steps before those; burn_in + length is at most 65535.
end: what becomes of steps at the end of an episode that no whole sequence begins with:
  "zero_pad" and "truncate" give items of fewer steps (Batch.lengths) with zeros beyond them,
  "drop" none, "overlap" one that ends with the episode.
n_step: above 0 each step of an item has the return of n_step steps, or of the fewer that are left
  in the item, and a discount: Batch.returns and Batch.discounts are [B, T].
discount: gamma per step of these returns, in [0, 1].
frame_stack: observations stacked at each step, oldest first, 1 to 65535; batches then have
  [B, T, F, *shape], or with unique_frames each frame of an item once.
stack_start: what a stack shows of the time before an episode: "repeat_first" or "zeros".)",
        option<&Sequences::length>("length", 1, 65535), option<&Sequences::period>("period", 1),
        option<&Sequences::burn_in>("burn_in", 0, 65534),
        option<&Sequences::end>("end", kSequenceEnds),
        option<&Sequences::n_step>("n_step", 0, 65535),
        option<&Sequences::discount>("discount", 0.0F, 1.0F),
        option<&Sequences::frame_stack>("frame_stack", 1, 65535),
        option<&Sequences::stack_start>("stack_start", kStackStarts)),
};

constexpr StrategyKind<RateLimiter> kRateLimiters[] = {
    kind<RateLimiter, MinSize>(
        "MinSize",
        R"(Samplers wait until this many items can be sampled, 1 to capacity_steps; writers never wait.
With Sequences steps count.)",
        option<&MinSize::items>("items", 1)),
    kind<RateLimiter, SampleToInsertRatio>(
        "SampleToInsertRatio",
        R"(Holds sampled items per inserted step near a ratio: samplers wait when they are ahead of it,
writers when they are.

samples_per_insert: above 0, at most max_times_sampled if that is set. min_size: items before
  anybody waits for the ratio.
error_buffer: how far either side may be ahead, in sampled items: at least
  max(1, samples_per_insert), and enough for a batch.
Who waits longest is let in first. One thread that both appends and samples would wait for itself,
or for a sampler before it that waits for its steps: give its calls timeouts.)",
        option<&SampleToInsertRatio::samples_per_insert>("samples_per_insert",
                                                         std::numeric_limits<double>::denorm_min()),
        option<&SampleToInsertRatio::min_size>("min_size", 1),
        option<&SampleToInsertRatio::error_buffer>("error_buffer")),
    kind<RateLimiter, Queue>(
        "Queue",
        R"(A bounded queue: samplers wait for as many items as their batch has, writers while `size` or
more wait to be sampled; who waits longest is let in first. It needs max_times_sampled: first in,
first out with Fifo() and max_times_sampled=1.)",
        option<&Queue::size>("size", 1)),
    kind<RateLimiter, Unlimited>("Unlimited",
                                 "Nobody waits; of an empty buffer `sample` raises NothingToDraw."),
};

std::string in_words(const OptionValue& value) {
  return std::visit([](auto number) { return base::text(number); }, value);
}

}  // namespace

template <class Family>
Family StrategyKind<Family>::make(std::span<const OptionValue> values) const {
  base::require(values.size() <= count_, name_, ": ", values.size(), " values; allowed: at most ",
                count_, ", one per option");
  std::array<OptionValue, kMostOptions> all;
  for (std::size_t i = 0; i < count_; ++i) {
    const StrategyOption& option = options_[i];
    all[i] = i < values.size() ? values[i] : option.usual;
    // A comparison with NaN is false, so `!(>=)` refuses NaN and `<` would not.
    if (all[i].index() != option.usual.index() || !(all[i] >= option.least) ||
        !(all[i] <= option.most)) {
      base::refuse(name_, "::", option.name, " is ", in_words(all[i]),
                   "; allowed: ", in_words(option.least), " to ", in_words(option.most));
    }
  }
  return make_(all);
}

std::span<const StrategyKind<Selector>> selectors() noexcept {
  return kSelectors;
}
std::span<const StrategyKind<Remover>> removers() noexcept {
  return kRemovers;
}
std::span<const StrategyKind<Window>> windows() noexcept {
  return kWindows;
}
std::span<const StrategyKind<RateLimiter>> rate_limiters() noexcept {
  return kRateLimiters;
}

template class StrategyKind<Selector>;
template class StrategyKind<Remover>;
template class StrategyKind<Window>;
template class StrategyKind<RateLimiter>;

}  // namespace reprise
