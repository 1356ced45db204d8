#pragma once

#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// Draws every item with the same probability; priorities are checked and ignored.
struct Uniform {
  friend bool operator==(const Uniform&, const Uniform&) = default;
};

[[nodiscard]] std::unique_ptr<SelectorRule> make_selector(const Uniform& options);

}  // namespace reprise
