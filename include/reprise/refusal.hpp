#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// Why the library refuses a call, in parts: for code that says it in words of its own, as the
/// Python package does. The exceptions derived from `std::logic_error` and `std::runtime_error`
/// that the library throws for a wrong argument or a call at the wrong time have it as a second
/// base: `dynamic_cast<const Refusal*>(&error)`. Their `what` has the same in the words of C++.
///
/// Thread safety: immutable.
class Refusal {
 public:
  /// What a part is.
  enum class Is : std::uint8_t {
    Text,        ///< As it is.
    Call,        ///< "Prefetcher::next"; `what` has ": " behind it.
    Options,     ///< "SamplerOptions", whose member follows; `what` has "::" between them.
    Strategy,    ///< "Recency", whose option follows; likewise.
    Enumerator,  ///< "WithoutReplacement".
  };
  /// A part of a message.
  struct Part {
    Is is = Is::Text;  ///< What `text` is.
    std::string text;  ///< As C++ has it.
  };

  explicit Refusal(std::vector<Part> parts) : parts_(std::move(parts)) {}  ///< Of these parts.
  /// In the sequence of the message.
  [[nodiscard]] const std::vector<Part>& parts() const noexcept { return parts_; }

 private:
  std::vector<Part> parts_;
};

}  // namespace reprise
