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

/// Why the library refuses a call, in parts, for code that words the reason differently, as the
/// Python package does. Exceptions of the library for a wrong argument or a call at the wrong time
/// have `Refusal` as a second base class, which `dynamic_cast<const Refusal*>(&error)` finds. Their
/// `what` returns the same message in the words of C++.
///
/// Thread safety: immutable.
class Refusal {
 public:
  /// The kind of a part.
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

/// A value of an option. Whole numbers, flags and enumerators are stored as `std::uint64_t`, floats
/// and doubles as themselves.
using OptionValue = std::variant<std::uint64_t, float, double>;

/// Describes an option of a strategy, which is a member of the strategy's struct. The default and
/// the bounds are values of one type.
struct StrategyOption {
  std::string_view name;  ///< The name of the member.
  OptionValue value;      ///< The default.
  /// The smallest value allowed. A buffer may refuse further values because of its other options.
  OptionValue min;
  OptionValue max;  ///< The largest value allowed; without a bound, that of the member's type.
  /// Names of the enumerators 0, 1, 2, ..., of which those from `min` on are allowed; empty if the
  /// option is a number. For the enumerator "constant", the option `<name>_constant` has the
  /// constant.
  std::span<const std::string_view> words;
};

/// The name and the options of a type of strategy, for code that reads strategies from a text,
/// checks, shows or stores them. Family is `Selector`, `Remover`, `Window` or `RateLimiter`.
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

  /// The kind has the first `count` of `options`. Throws `std::invalid_argument` if `count` is
  /// above kMaxOptions.
  constexpr StrategyKind(std::string_view name, std::string_view about, const Options& options,
                         std::size_t count, Make maker, Read reader)
      : name_(name), about_(about), options_(options), count_(count), make_(maker), read_(reader) {
    if (count > kMaxOptions) {
      throw std::invalid_argument("StrategyKind: count is " + std::to_string(count) +
                                  "; allowed: 0 to " + std::to_string(kMaxOptions));
    }
  }

  /// The name of the strategy's type.
  [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }
  /// A sentence or two on what the strategy does.
  [[nodiscard]] constexpr std::string_view about() const noexcept { return about_; }
  /// The options, in the order of the members.
  [[nodiscard]] constexpr std::span<const StrategyOption> options() const noexcept {
    return std::span(options_).first(count_);
  }

  /// Makes a strategy of this kind. `values`: one per option; options without a value get their
  /// defaults. Throws `std::invalid_argument`, which names the option, for a value that is not
  /// allowed.
  [[nodiscard]] Family make(std::span<const OptionValue> values = {}) const;

  /// Returns one value per option, or nothing if the strategy is of another kind.
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
