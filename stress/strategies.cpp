#include "strategies.hpp"

#include "options.hpp"
#include "priority_check.hpp"
#include "window_check.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

namespace stress {
namespace {

// ---- the tables: a strategy is one line ----

struct NamedSelector {
  const char* name;
  Drawing drawing;
  reprise::Selector (*make)(const Options& options);
};

constexpr NamedSelector kSelectors[] = {
    {"proportional", Drawing::ByPriority,
     [](const Options&) -> reprise::Selector {
       // Without an epsilon, so that priority 0 is never drawn.
       return reprise::Proportional{.alpha = kAlpha, .epsilon = 0.0F};
     }},
    {"uniform", Drawing::Alike,
     [](const Options&) -> reprise::Selector { return reprise::Uniform{}; }},
    {"rank_based", Drawing::ByRank,
     [](const Options&) -> reprise::Selector { return reprise::RankBased{.alpha = kAlpha}; }},
    {"fifo", Drawing::Oldest, [](const Options&) -> reprise::Selector { return reprise::Fifo{}; }},
    {"lifo", Drawing::Youngest,
     [](const Options&) -> reprise::Selector { return reprise::Lifo{}; }},
    {"max_heap", Drawing::Highest,
     [](const Options&) -> reprise::Selector { return reprise::MaxHeap{}; }},
    {"min_heap", Drawing::Lowest,
     [](const Options&) -> reprise::Selector { return reprise::MinHeap{}; }},
};

struct NamedRemover {
  const char* name;
  reprise::Remover (*make)();
};

constexpr NamedRemover kRemovers[] = {
    {"fifo", []() -> reprise::Remover { return reprise::Fifo{}; }},
    {"second_chance", []() -> reprise::Remover { return reprise::SecondChance{}; }},
    {"least_recently_sampled",
     []() -> reprise::Remover { return reprise::LeastRecentlySampled{}; }},
    {"least_frequently_sampled",
     []() -> reprise::Remover { return reprise::LeastFrequentlySampled{}; }},
    {"lowest_priority", []() -> reprise::Remover { return reprise::LowestPriority{}; }},
};

struct NamedDraws {
  const char* name = nullptr;
  std::optional<reprise::Draws> draws;
};

constexpr NamedDraws kDraws[] = {
    {"either", std::nullopt},
    {"stratified", reprise::Draws::Stratified},
    {"independent", reprise::Draws::Independent},
    {"without_replacement", reprise::Draws::WithoutReplacement},
};

struct NamedEnd {
  const char* name;
  reprise::SequenceEnd end;
};

constexpr NamedEnd kEnds[] = {
    {"truncate", reprise::SequenceEnd::Truncate},
    {"zero_pad", reprise::SequenceEnd::ZeroPad},
    {"drop", reprise::SequenceEnd::Drop},
    {"overlap", reprise::SequenceEnd::Overlap},
};

/// The numbers behind the colon of "name:first,second".
class Numbers {
 public:
  Numbers(const char* option, std::string_view text) : option_(option), text_(text) {
    const std::size_t colon = text.find(':');
    for (std::size_t at = colon; at != std::string_view::npos;) {
      const std::size_t next = text.find(',', at + 1);
      parts_.push_back(text.substr(at + 1, next == std::string_view::npos ? next : next - at - 1));
      at = next;
    }
  }

  /// The number at this place; `otherwise` if the text ends before it.
  template <class T>
  [[nodiscard]] T at(std::size_t place, T otherwise) const {
    if (place >= parts_.size()) {
      return otherwise;
    }
    const std::string_view part = parts_[place];
    T value{};
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size()) {
      throw std::invalid_argument(std::string(option_) + " is '" + std::string(text_) + "': '" +
                                  std::string(part) + "' is no number that is allowed there");
    }
    return value;
  }
  [[nodiscard]] std::string_view word_at(std::size_t place, std::string_view otherwise) const {
    return place < parts_.size() ? parts_[place] : otherwise;
  }
  void at_most(std::size_t count) const {
    if (parts_.size() > count) {
      throw std::invalid_argument(std::string(option_) + " is '" + std::string(text_) +
                                  "'; allowed: at most " + std::to_string(count) +
                                  " numbers behind the name");
    }
  }

 private:
  const char* option_;
  std::string_view text_;
  std::vector<std::string_view> parts_;
};

struct NamedLimiter {
  const char* name;
  std::size_t numbers;  ///< The most numbers that the name takes.
  reprise::RateLimiter (*make)(const Numbers& numbers, const Options& options);
};

/// Half of the largest possible ratio if draws are limited.
double feasible_ratio(const Options& o, const reprise::Window& window) {
  constexpr double kUsual = 4.0;
  const auto* const sequences = std::get_if<reprise::Sequences>(&window);
  const double items_per_step = sequences != nullptr ? 1.0 / sequences->period : 1.0;
  return o.max_times_sampled == 0 ? kUsual : 0.5 * o.max_times_sampled * items_per_step;
}

reprise::Window window_of(const Options& options);

constexpr NamedLimiter kLimiters[] = {
    {"unlimited", 0,
     [](const Numbers&, const Options&) -> reprise::RateLimiter { return reprise::Unlimited{}; }},
    {"queue", 1,
     [](const Numbers& numbers, const Options& o) -> reprise::RateLimiter {
       const auto size = numbers.at(0, std::max(o.batch, o.capacity_steps / 2));
       if (o.batch > size) {
         throw std::invalid_argument("--batch is " + std::to_string(o.batch) +
                                     "; allowed: at most the size of the queue, " +
                                     std::to_string(size));
       }
       return reprise::Queue{.size = size};
     }},
    {"min_size", 1,
     [](const Numbers& numbers, const Options&) -> reprise::RateLimiter {
       return reprise::MinSize{.items = numbers.at<std::size_t>(0, 1)};
     }},
    {"sample_to_insert_ratio", 3,
     [](const Numbers& numbers, const Options& o) -> reprise::RateLimiter {
       const auto ratio = numbers.at(0, feasible_ratio(o, window_of(o)));
       return reprise::SampleToInsertRatio{
           .samples_per_insert = ratio,
           .min_size = numbers.at(1, std::min(o.capacity_steps, o.batch)),
           .error_buffer = numbers.at(2, 2.0 * static_cast<double>(o.batch) + 8.0 * ratio + 1.0)};
     }},
};

template <class Table>
std::string names_in(const Table& table) {
  std::string names;
  for (const auto& entry : table) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

template <class Table>
const auto& find(const Table& table, const char* option, std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto found = std::find_if(std::begin(table), std::end(table), [&](const auto& entry) {
    return std::string_view(entry.name) == name;
  });
  if (found == std::end(table)) {
    throw std::invalid_argument(std::string(option) + " is '" + std::string(name) +
                                "'; allowed: " + names_in(table));
  }
  return *found;
}

reprise::Window window_of(const Options& options) {
  const Numbers numbers("--window", options.window);
  const std::string name = options.window.substr(0, options.window.find(':'));
  if (name == "transitions") {
    numbers.at_most(0);
    return reprise::Transitions{
        .n_step = options.n_step, .discount = kDiscount, .frame_stack = options.frame_stack};
  }
  if (name != "sequences") {
    throw std::invalid_argument("--window is '" + name + "'; allowed: transitions, sequences");
  }
  if (options.n_step != 1 || options.frame_stack != 1) {
    throw std::invalid_argument("--n-step and --frame-stack are options of transitions alone");
  }
  numbers.at_most(4);
  const reprise::Sequences usual;
  return reprise::Sequences{
      .length = numbers.at(0, usual.length),
      .period = numbers.at(1, usual.period),
      .burn_in = numbers.at(2, usual.burn_in),
      .end = find(kEnds, "end of --window", numbers.word_at(3, "zero_pad")).end};
}

}  // namespace

Strategies strategies_of(const Options& options) {
  const NamedSelector& selector = find(kSelectors, "--selector", options.selector);
  const NamedLimiter& limiter = find(kLimiters, "--limiter", options.limiter);
  const Numbers numbers("--limiter", options.limiter);
  numbers.at_most(limiter.numbers);
  return {.selector = selector.make(options),
          .drawing = selector.drawing,
          .remover = find(kRemovers, "--remover", options.remover).make(),
          .window = window_of(options),
          .limiter = limiter.make(numbers, options),
          .draws = find(kDraws, "--draws", options.draws).draws};
}

std::string selector_names() {
  return names_in(kSelectors);
}
std::string remover_names() {
  return names_in(kRemovers);
}
std::string limiter_names() {
  return names_in(kLimiters);
}

}  // namespace stress
