#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace reprise::base {

/// Joins the arguments, numbers as streams print them, so that a small value stays visible in a
/// message. For errors and explanations, never on a hot path.
template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::ostringstream stream;
  // Without it the stream would hide a failed allocation and cut the text.
  stream.exceptions(std::ostringstream::badbit);
  (stream << ... << parts);
  return std::move(stream).str();
}

/// Throws Error with a text of these parts. They are passed by value, so that the caller keeps its
/// own variables in registers.
// NOLINTBEGIN(performance-unnecessary-value-param)
template <class Error = std::invalid_argument, class... Parts>
[[noreturn]] void refuse(Parts... parts) {
  throw Error(text(parts...));
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
