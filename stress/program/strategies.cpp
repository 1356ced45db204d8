#include "program/strategies.hpp"

#include "testing/library.hpp"

#include <charconv>

namespace stress {
namespace {

struct NamedDraws {
  const char* name = nullptr;
  std::optional<reprise::Draws> draws;
};

constexpr NamedDraws kDraws[] = {
    {"either", std::nullopt},
    {"stratified", reprise::Draws::Stratified},
    {"independent", reprise::Draws::Independent},
    {"without_replacement", reprise::Draws::WithoutReplacement},
    {"epoch", reprise::Draws::Epoch},
};

/// Turns "SecondChance" into "second_chance".
std::string command_name(std::string_view type) {
  std::string name;
  for (const char c : type) {
    const bool upper = c >= 'A' && c <= 'Z';
    name += upper && !name.empty() ? "_" : "";
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name;
}

template <class Table, class Name>
std::string names_in(const Table& table, Name name) {
  std::string names;
  for (const auto& entry : table) {
    names += (names.empty() ? "" : ", ") + std::string(name(entry));
  }
  return names;
}

template <class Family>
std::string command_names(std::span<const reprise::StrategyKind<Family>> kinds) {
  return names_in(kinds, [](const auto& kind) { return command_name(kind.name()); });
}

template <class Table, class Name>
const auto& find(const Table& table, const char* option, std::string_view wanted, Name name) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const auto& entry) { return name(entry) == wanted; });
  if (found == std::end(table)) {
    throw std::invalid_argument(std::string(option) + " is '" + std::string(wanted) +
                                "'; allowed: " + names_in(table, name));
  }
  return *found;
}

/// The values of a text such as "name:value,value".
std::vector<std::string_view> values_in(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = text.find(':'); at != std::string_view::npos;) {
    const std::size_t next = text.find(',', at + 1);
    parts.push_back(text.substr(at + 1, next == std::string_view::npos ? next : next - at - 1));
    at = next;
  }
  return parts;
}

reprise::OptionValue value_of(const char* option, const reprise::StrategyOption& described,
                              std::string_view text) {
  if (!described.words.empty()) {
    const std::string what = std::string(described.name) + " of " + option;
    const auto& word =
        find(described.words, what.c_str(), text, [](std::string_view each) { return each; });
    return static_cast<std::uint64_t>(&word - described.words.data());
  }
  return std::visit(
      [&](auto value) -> reprise::OptionValue {
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size()) {
          throw std::invalid_argument(std::string(option) + ": '" + std::string(text) +
                                      "' is no number that is allowed there");
        }
        return value;
      },
      described.value);
}

/// The rule by which the checks judge the draws of a selector.
DrawRule draw_rule_of(std::string_view selector) {
  const auto& kind = find(reprise::selectors(), "--selector", selector,
                          [](const auto& entry) { return command_name(entry.name()); });
  const DrawRule draw_rule = reprise::test::draw_rule_of(kind.name());
  // A Clipped selector takes priorities below 1 for 1, and this program gives none above 1.
  return draw_rule == DrawRule::Clipped ? DrawRule::Uniform : draw_rule;
}

/// Values of options, by name.
using Named = std::map<std::string_view, reprise::OptionValue>;

/// Makes the strategy that a text such as "name:value,value" describes. An option that the text
/// gives no value has its value in `defaults`, or else the library's default.
template <class Family>
Family strategy_of(const char* option, std::string_view text,
                   std::span<const reprise::StrategyKind<Family>> kinds,
                   const Named& defaults = {}) {
  const auto& kind = find(kinds, option, text.substr(0, text.find(':')),
                          [](const auto& entry) { return command_name(entry.name()); });
  const std::vector<std::string_view> parts = values_in(text);
  if (parts.size() > kind.options().size()) {
    throw std::invalid_argument(std::string(option) + " is '" + std::string(text) +
                                "'; allowed: at most " + std::to_string(kind.options().size()) +
                                " values behind the name");
  }
  std::vector<reprise::OptionValue> values;
  for (const reprise::StrategyOption& described : kind.options()) {
    const auto known = defaults.find(described.name);
    values.push_back(values.size() < parts.size()
                         ? value_of(option, described, parts[values.size()])
                     : known != defaults.end() ? known->second
                                               : described.value);
  }
  return kind.make(values);
}

/// Refuses a text with values after the name, because the checks need this program's constants.
void require_bare_name(const char* option, std::string_view text) {
  if (text.find(':') != std::string_view::npos) {
    throw std::invalid_argument(std::string(option) + " is '" + std::string(text) +
                                "'; allowed: the name alone");
  }
}

reprise::Window window_of(const Options& options) {
  const reprise::Window window = strategy_of(
      "--window", options.window, reprise::windows(),
      {{"n_step", options.n_step}, {"discount", kDiscount}, {"frame_stack", options.frame_stack}});
  if (WindowRule(window).sequences() == nullptr) {
    require_bare_name("--window", options.window);
  } else if (WindowRule(window).sequences()->stack_start != reprise::StackStart::RepeatFirst) {
    throw std::invalid_argument("--window: stack_start is zeros; allowed: repeat_first");
  } else if (WindowRule(window).streams() && WindowRule(window).sequences()->period != 1) {
    throw std::invalid_argument("--window: the period is not 1; allowed with end continue: 1");
  }
  return window;
}

/// The ratio of samples to inserts if the options give none. With a limit of draws it is half of
/// the highest ratio that the limit allows.
double feasible_ratio(const Options& options, const WindowRule& rule) {
  constexpr double kUsual = 4.0;
  const double items_per_step = rule.sequences() != nullptr ? 1.0 / rule.sequences()->period : 1.0;
  return options.max_times_sampled == 0 ? kUsual : 0.5 * options.max_times_sampled * items_per_step;
}

reprise::RateLimiter limiter_of(const Options& options, const reprise::Window& window) {
  reprise::RateLimiter limiter =
      strategy_of("--limiter", options.limiter, reprise::rate_limiters(),
                  {{"samples_per_insert", feasible_ratio(options, WindowRule(window))},
                   {"min_size", std::min(options.capacity_steps, options.batch)},
                   {"error_buffer", 0.0},
                   {"size", std::max(options.batch, options.capacity_steps / 2)}});
  if (auto* const ratio = std::get_if<reprise::SampleToInsertRatio>(&limiter);
      ratio != nullptr && ratio->error_buffer == 0.0) {
    // Well above the least that the limiter demands for batches of this size.
    ratio->error_buffer =
        2.0 * static_cast<double>(options.batch) + 8.0 * ratio->samples_per_insert + 1.0;
  }
  const auto* const queue = std::get_if<reprise::Queue>(&limiter);
  if (queue != nullptr && options.batch > queue->size) {
    throw std::invalid_argument("--batch is " + std::to_string(options.batch) +
                                "; allowed: at most the size of the queue, " +
                                std::to_string(queue->size));
  }
  return limiter;
}

}  // namespace

Strategies strategies_of(const Options& options) {
  require_bare_name("--selector", options.selector);
  const DrawRule draw_rule = draw_rule_of(options.selector);
  std::optional<reprise::Draws> draws =
      find(kDraws, "--draws", options.draws, [](const NamedDraws& entry) {
        return std::string_view(entry.name);
      }).draws;
  if (draws == reprise::Draws::Epoch && (in_order(draw_rule) || options.max_times_sampled != 0)) {
    draws.reset();  // The buffer refuses such passes, but stress/grid has to run every combination.
  }
  const reprise::Window window = window_of(options);
  const bool independent_draws = !in_order(draw_rule) && options.max_times_sampled == 0 &&
                                 draws != reprise::Draws::Epoch &&
                                 draws != reprise::Draws::WithoutReplacement;
  const float fresh = independent_draws ? options.fresh : 0.0F;
  return {.selector = strategy_of("--selector", options.selector, reprise::selectors(),
                                  {{"alpha", kAlpha}, {"epsilon", 0.0F}}),
          .draw_rule = draw_rule,
          .remover = strategy_of("--remover", options.remover, reprise::removers()),
          .window = window,
          .limiter = limiter_of(options, window),
          .draws = draws,
          .fresh = fresh,
          .mixed = options.mixed && independent_draws && fresh == 0.0F,
          .hindsight = options.hindsight && WindowRule(window).full_length() == 1 &&
                       WindowRule(window).sequences() == nullptr};
}

std::string selector_names() {
  return command_names(reprise::selectors());
}
std::string remover_names() {
  return command_names(reprise::removers());
}
std::string limiter_names() {
  return command_names(reprise::rate_limiters());
}

}  // namespace stress
