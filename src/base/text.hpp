#pragma once

#include <sstream>
#include <string>

namespace reprise::base {

/// The arguments one after the other, numbers as streams print them: a small value stays visible in
/// a message. For errors and explanations, never on a hot path.
template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::ostringstream stream;
  // Else it would keep a failed allocation to itself, and the text be cut short.
  stream.exceptions(std::ostringstream::badbit);
  (stream << ... << parts);
  return std::move(stream).str();
}

}  // namespace reprise::base
