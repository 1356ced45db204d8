#pragma once

#include <reprise/strategy_kind.hpp>

#include "base/text.hpp"

#include <limits>
#include <string>
#include <type_traits>
#include <variant>

/// The source of a strategy describes the strategy: its name, what it does, and each option with
/// its range. Checks and their messages, checkpoints, the classes of the Python package, the flags
/// of the stress program and the conformance suite are all made from this description.
namespace reprise::base {

/// The type that stores a member of type T in an `OptionValue`.
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

/// Describes a number, flag or float, with the default of the struct.
template <auto Member, class Of = Traits<Member>>
constexpr Option<Member> option(
    std::string_view name, typename Of::Value min = 0,
    typename Of::Value max = std::numeric_limits<typename Of::Type>::max()) {
  return {{name, static_cast<typename Of::Value>(typename Of::Kind().*Member), min, max, {}}};
}

/// Whether an enumeration has an enumerator of this value. Compilers put "Value = Name" into the
/// function's signature, or "Value = (Type)1" for a value without an enumerator.
template <auto Value>
constexpr bool is_enumerator() {
  constexpr std::string_view kBefore = "Value = ";
  constexpr std::string_view kSignature = __PRETTY_FUNCTION__;
  return kSignature[kSignature.find(kBefore) + kBefore.size()] != '(';
}

/// Describes an enumeration whose enumerators from 0 on are named `words`; `first` is the first
/// allowed.
template <auto Member, std::size_t N>
constexpr Option<Member> option(std::string_view name, const std::string_view (&words)[N],
                                typename Traits<Member>::Type first = {}) {
  // A value without a word could be stored in a checkpoint and not loaded.
  using Enumeration = typename Traits<Member>::Type;
  static_assert(is_enumerator<static_cast<Enumeration>(N - 1)>(), "a word without an enumerator");
  static_assert(!is_enumerator<static_cast<Enumeration>(N)>(), "an enumerator without a word");
  Option<Member> made = option<Member>(name, static_cast<std::uint64_t>(first), N - 1);
  made.described.words = words;
  return made;
}

/// The strategy as a Kind, or null if it is of another kind.
template <class Kind, class Strategy>
const Kind* target(const Strategy& strategy) {
  return strategy.template target<Kind>();
}
template <class Kind, class... Kinds>
const Kind* target(const std::variant<Kinds...>& strategy) {
  return std::get_if<Kind>(&strategy);
}

/// Describes the struct Kind as a strategy of a Family, with these options.
template <class Family, class Kind, auto... Members>
constexpr StrategyKind<Family> describe(std::string_view name, std::string_view about,
                                        Option<Members>... options) {
  constexpr auto kMake = [](std::span<const OptionValue> values) -> Family {
    Kind strategy;
    [[maybe_unused]] const OptionValue* next = values.data();
    [[maybe_unused]] const auto set = [&next](auto& member) {
      using T = std::remove_reference_t<decltype(member)>;
      member = static_cast<T>(std::get<ValueOf<T>>(*next++));
    };
    (set(strategy.*Members), ...);
    return strategy;
  };
  constexpr auto kRead = [](const Family& strategy) -> std::optional<std::vector<OptionValue>> {
    const Kind* const typed = target<Kind>(strategy);
    if (typed == nullptr) {
      return std::nullopt;
    }
    return std::vector<OptionValue>{
        static_cast<typename Traits<Members>::Value>(typed->*Members)...};
  };
  return {name, about, {{options.described...}}, sizeof...(Members), kMake, kRead};
}

/// The text of an option's range in messages.
inline std::string range_of(const StrategyOption& option) {
  if (!option.words.empty()) {
    std::string all;
    for (std::size_t i = std::get<std::uint64_t>(option.min); i < option.words.size(); ++i) {
      all += (all.empty() ? "" : ", ") + std::string(option.words[i]);
    }
    return all;
  }
  return std::visit(
      [&]<class T>(T min) {
        const T max = std::get<T>(option.max);
        constexpr bool kReal = std::is_floating_point_v<T>;
        // The largest value of a type, which is no bound, is not shown. Whole numbers of 32 bits
        // are kept as 64, so from the largest of 32 bits on a maximum is none.
        if (static_cast<double>(max) < std::numeric_limits<std::uint32_t>::max() ||
            (kReal && max < std::numeric_limits<T>::max())) {
          return text(min, " to ", max);
        }
        return min == std::numeric_limits<T>::denorm_min() && kReal
                   ? std::string("finite, above 0")
                   : text(kReal ? "finite, at least " : "at least ", min);
      },
      option.min);
}

/// Throws `std::invalid_argument`, which names the option, unless the value is of its type and in
/// its range.
inline void check(std::string_view kind, const StrategyOption& option, const OptionValue& value) {
  // A comparison with NaN is false, so `!(>=)` refuses NaN and `<` would not.
  if (value.index() != option.value.index() || !(value >= option.min) || !(value <= option.max)) {
    const auto* const number = std::get_if<std::uint64_t>(&value);
    const bool has_word = number != nullptr && *number < option.words.size();
    refuse(StrategyOf{kind}, option.name, " is ",
           has_word ? std::string(option.words[*number])
                    : std::visit([](auto one) { return text(one); }, value),
           "; allowed: ", range_of(option));
  }
}

}  // namespace reprise::base

namespace reprise {

template <class Family>
Family StrategyKind<Family>::make(std::span<const OptionValue> values) const {
  base::require(values.size() <= count_, base::Call{name_}, values.size(),
                " values; allowed: at most ", count_, ", one per option");
  std::array<OptionValue, kMaxOptions> all;
  for (std::size_t i = 0; i < count_; ++i) {
    all[i] = i < values.size() ? values[i] : options_[i].value;
    base::check(name_, options_[i], all[i]);
  }
  return make_(all);
}

template <class Family>
void StrategyKind<Family>::check(const Family& strategy) const {
  const auto all = values(strategy);
  for (std::size_t i = 0; all && i < count_; ++i) {
    base::check(name_, options_[i], (*all)[i]);
  }
}

}  // namespace reprise
