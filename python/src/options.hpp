#pragma once

#include <reprise/options.hpp>

#include "binding/convert.hpp"

#include <string>
#include <tuple>
#include <vector>

/// Converts the buffer's options between C++ and Python, by the library's lists of strategies.
namespace reprise::python {

/// A selector, remover, window or rate limiter as an object of its class in Python.
template <class Family>
struct StrategyConversion {
  static std::string hint();
  static std::string to_text(const Family& /*none*/) { return "None"; }
  static Family from(nb::handle given, ArgumentName argument);
  static nb::object to(const Family& strategy);
};
template <>
struct Conversion<Window> : StrategyConversion<Window> {};
template <>
struct Conversion<Selector> : StrategyConversion<Selector> {};
template <>
struct Conversion<Remover> : StrategyConversion<Remover> {};
template <>
struct Conversion<RateLimiter> : StrategyConversion<RateLimiter> {};
/// One selector, or a sequence of them.
template <>
struct Conversion<std::vector<Selector>> {
  static std::string hint() { return "_Selector | Sequence[_Selector]"; }
  static std::string to_text(const std::vector<Selector>& /*none*/) { return "None"; }
  static std::vector<Selector> from(nb::handle given, ArgumentName argument);
};
/// The path of a directory for a mapped file. OSError if there is none.
template <>
struct Conversion<Storage> {
  static std::string hint() { return "str | PathLike[str]"; }
  static std::string to_text(const Storage& /*memory*/) { return "None"; }
  static Storage from(nb::handle given, ArgumentName argument);
  static nb::object to(const Storage& storage);
};

/// All options but capacity_steps, which is a required parameter.
template <>
inline constexpr auto members_of<Options> =
    members<&Options::window, &Options::selectors, &Options::remover, &Options::rate_limiter,
            &Options::max_times_sampled, &Options::max_staleness, &Options::episode_index,
            &Options::max_writers, &Options::chunk_steps, &Options::shards, &Options::key_tag,
            &Options::storage>;

}  // namespace reprise::python
