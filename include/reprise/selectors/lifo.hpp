#pragma once

#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// Draws the items that were decided last, youngest first; in order, as `Fifo` does.
struct Lifo {
  friend bool operator==(const Lifo&, const Lifo&) = default;
};

[[nodiscard]] std::unique_ptr<SelectorRule> make_selector(const Lifo& options);

}  // namespace reprise
