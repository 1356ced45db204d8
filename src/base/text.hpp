#pragma once

#include <sstream>
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

}  // namespace reprise::base
