#pragma once

#include <reprise/options.hpp>
#include <reprise/selector.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace reprise::buffer {

/// The rules of a buffer's selectors, which all shards share. Any thread.
class Selectors {
 public:
  /// Throws what the selectors throw.
  explicit Selectors(std::span<const Selector> selectors);

  [[nodiscard]] std::span<const std::unique_ptr<SelectorRule>> rules() const noexcept {
    return rules_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return rules_.size(); }
  /// std::invalid_argument for an unknown selector.
  [[nodiscard]] const SelectorRule& at(std::size_t selector) const;
  /// Exponents set so far. With a shard's lock in hand no exponent changes.
  /// A1: acquire; partner: set_alpha. What is weighed after this has that exponent or a later one.
  [[nodiscard]] std::uint64_t alphas_set() const noexcept {
    return alphas_set_.load(std::memory_order_acquire);
  }
  /// With all shards' locks held: the exponent of the rule alone.
  void set_alpha(float alpha, std::size_t selector) noexcept {
    rules_[selector]->set_alpha(alpha);
    // A1: release; partner: alphas_set.
    alphas_set_.fetch_add(1, std::memory_order_release);
  }
  /// Whether some selector draws in the order in which items were decided.
  [[nodiscard]] bool need_order() const noexcept;
  /// Whether new items take a priority from their writer.
  [[nodiscard]] bool need_caller() const noexcept;

 private:
  std::vector<std::unique_ptr<SelectorRule>> rules_;
  std::atomic<std::uint64_t> alphas_set_{0};
};

}  // namespace reprise::buffer
