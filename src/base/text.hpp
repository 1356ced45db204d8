#pragma once

#include <reprise/strategy_kind.hpp>

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise::base {

/// Joins the arguments, numbers as streams print them, so that a small value stays visible in a
/// message. For errors and explanations, never on a hot path.
template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::ostringstream stream;
  // Otherwise the stream would hide a failed allocation and cut the text.
  stream.exceptions(std::ostringstream::badbit);
  (stream << ... << parts);
  return std::move(stream).str();
}

/// A part of a message that other languages word differently.
template <Refusal::Kind kIs>
struct Named {
  std::string_view name;
};
using Call = Named<Refusal::Kind::Call>;
using OptionsOf = Named<Refusal::Kind::Options>;
using StrategyOf = Named<Refusal::Kind::Strategy>;
using Enumerator = Named<Refusal::Kind::Enumerator>;

namespace detail {

template <Refusal::Kind kIs>
void add(std::vector<Refusal::Part>& to, const Named<kIs>& part) {
  to.push_back({kIs, std::string(part.name)});
}
template <class Part>
void add(std::vector<Refusal::Part>& to, const Part& part) {
  if (to.empty() || to.back().kind != Refusal::Kind::Text) {
    to.emplace_back();
  }
  to.back().text += text(part);
}

/// The message in the words of C++.
inline std::string joined(const std::vector<Refusal::Part>& parts) {
  std::string all;
  for (const Refusal::Part& part : parts) {
    const bool scope = part.kind == Refusal::Kind::Options || part.kind == Refusal::Kind::Strategy;
    all += part.text + (scope ? "::" : part.kind == Refusal::Kind::Call ? ": " : "");
  }
  return all;
}

template <class Error>
class Refused final : public Error, public Refusal {
 public:
  explicit Refused(std::vector<Refusal::Part> parts)
      : Error(joined(parts)), Refusal(std::move(parts)) {}
};

}  // namespace detail

/// Throws Error with a message of these parts, which is a `Refusal` too. The parts are passed by
/// value, so that the caller keeps its own variables in registers.
// NOLINTBEGIN(performance-unnecessary-value-param)
template <class Error = std::invalid_argument, class... Parts>
[[noreturn]] void refuse(Parts... parts) {
  std::vector<Refusal::Part> all;
  (detail::add(all, parts), ...);
  throw detail::Refused<Error>(std::move(all));
}

/// Throws std::invalid_argument unless `ok`.
template <class... Parts>
void require(bool ok, Parts... parts) {
  if (!ok) {
    refuse(parts...);
  }
}
// NOLINTEND(performance-unnecessary-value-param)

}  // namespace reprise::base
