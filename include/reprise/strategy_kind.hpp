#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace reprise {

/// Why the library refuses a call, in parts, for code that words it differently, as the Python
/// package does. Exceptions derived from `std::logic_error` and `std::runtime_error` that the
/// library throws for a wrong argument or a call at the wrong time have it as a second base:
/// `dynamic_cast<const Refusal*>(&error)`. Their `what` is the same message in the words of C++.
///
/// Thread safety: immutable.
class Refusal {
 public:
  /// What a part is.
  enum class Kind : std::uint8_t {
    Text,        ///< Literal text.
    Call,        ///< "Prefetcher::next"; `what` adds ": ".
    Options,     ///< "SamplerOptions", whose member follows; `what` adds "::".
    Strategy,    ///< "Recency", whose option follows; `what` adds "::".
    Enumerator,  ///< "WithoutReplacement".
  };
  /// A part of a message.
  struct Part {
    Kind kind = Kind::Text;  ///< The kind of `text`.
    std::string text;        ///< The text in the words of C++.
  };

  explicit Refusal(std::vector<Part> parts) : parts_(std::move(parts)) {}  ///< Takes the parts.
  /// The parts in the order of the message.
  [[nodiscard]] const std::vector<Part>& parts() const noexcept { return parts_; }

 private:
  std::vector<Part> parts_;
};

/// A value of an option: whole numbers, flags and enumerators as `std::uint64_t`, others as they
/// are.
using OptionValue = std::variant<std::uint64_t, float, double>;

/// An option of a strategy: a member of its struct. All values are of one alternative.
struct StrategyOption {
  std::string_view name;  ///< The name of the member.
  OptionValue value;      ///< Its default.
  /// The smallest value allowed. A buffer may refuse more values, for reasons that lie in its other
  /// options.
  OptionValue min;
  OptionValue max;  ///< The largest allowed; without a bound, the largest of the member's type.
  /// Names of the enumerators 0, 1, 2, ...; allowed from `min` on; empty if the option is a number.
  /// For "constant", the option `<name>_constant` has the number.
  std::span<const std::string_view> words;
};

/// A strategy by its name and its options, as its struct describes itself: for whatever reads
/// strategies from a text, checks, shows or stores them. Family is `Selector`, `Remover`, `Window`
/// or `RateLimiter`.
///
/// Thread safety: immutable.
template <class Family>
class StrategyKind {
 public:
  static constexpr std::size_t kMaxOptions = 8;                  ///< Options that a kind may have.
  using Options = std::array<StrategyOption, kMaxOptions>;       ///< Room for all options.
  using Make = Family (*)(std::span<const OptionValue> values);  ///< Makes a strategy, see `make`.
  /// Reads the options of a strategy, see `values`.
  using Read = std::optional<std::vector<OptionValue>> (*)(const Family& strategy);

  /// The kind has the first `count` options. `std::invalid_argument` if it is above kMaxOptions.
  constexpr StrategyKind(std::string_view name, std::string_view about, const Options& options,
                         std::size_t count, Make maker, Read reader)
      : name_(name), about_(about), options_(options), count_(count), make_(maker), read_(reader) {
    if (count > kMaxOptions) {
      throw std::invalid_argument("StrategyKind: count is " + std::to_string(count) +
                                  "; allowed: 0 to " + std::to_string(kMaxOptions));
    }
  }

  /// The name of its type.
  [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }
  /// A sentence or two on what it does.
  [[nodiscard]] constexpr std::string_view about() const noexcept { return about_; }
  /// The options, in the order of the members.
  [[nodiscard]] constexpr std::span<const StrategyOption> options() const noexcept {
    return std::span(options_).first(count_);
  }

  /// A strategy of this kind. One value per option; options without one get their defaults.
  /// `std::invalid_argument` naming the option for a value that is not allowed.
  [[nodiscard]] Family make(std::span<const OptionValue> values = {}) const;

  /// One value per option; nothing if the strategy is of another kind.
  [[nodiscard]] std::optional<std::vector<OptionValue>> values(const Family& strategy) const {
    return read_(strategy);
  }

  /// Throws `std::invalid_argument` naming the option if a strategy of this kind has a value
  /// outside of the option's range.
  void check(const Family& strategy) const;

 private:
  std::string_view name_;
  std::string_view about_;
  Options options_;
  std::size_t count_;
  Make make_;
  Read read_;
};

}  // namespace reprise
