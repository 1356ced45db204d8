#pragma once

#include "testing/test.hpp"

/// Selectors as a user may write them, without any class of the library's strategies.
namespace reprise::test {

/// Weighs by priority^exponent, and leaves the rest to the library's shard selector for weights.
struct CustomPower {
  struct Rule final : SelectorRule {
    std::atomic<float> exponent = 1.0F;
    void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept final {
      std::ranges::transform(priorities, weights.begin(),
                             [&](float priority) { return std::pow(priority, exponent.load()); });
    }
    [[nodiscard]] std::optional<float> alpha() const noexcept final { return exponent; }
    bool set_alpha(float alpha) noexcept final {
      exponent = alpha;
      return true;
    }
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>();
  }
};

/// Draws the highest priority first. To find it, it looks at every leaf.
struct CustomHighest {
  struct Part final : ShardSelector {
    struct Leaf {
      float priority = -1.0F;  ///< Negative if the leaf has no item.
      bool hidden = false;
    };
    std::vector<Leaf> all;

    explicit Part(std::size_t leaves) : all(leaves) {}
    static bool is_drawable(const Leaf& leaf) { return !leaf.hidden && leaf.priority >= 0.0F; }
    [[nodiscard]] std::size_t first() const {
      const auto rank = [](const Leaf& leaf) { return leaf.hidden ? -1.0F : leaf.priority; };
      return static_cast<std::size_t>(std::ranges::max_element(all, {}, rank) - all.begin());
    }
    void insert(const ItemRun& run, const SelectorSummary& /*other_shards*/) noexcept final {
      for (std::size_t i = 0; i < run.priorities.size(); ++i) {
        all[run.first + i] = {is_item(run.priorities[i]) ? run.priorities[i] : -1.0F};
      }
    }
    void erase(std::uint32_t from, std::size_t count) noexcept final {
      std::fill_n(all.begin() + from, count, Leaf{});
    }
    [[nodiscard]] SelectorSummary summary() const noexcept final {
      const auto items = std::ranges::count_if(all, &Part::is_drawable);
      return {.total = static_cast<double>(items), .min_positive = 1.0F, .max = 1.0F};
    }
    [[nodiscard]] double sum(std::uint32_t from, std::size_t count) const noexcept final {
      const auto run = std::span(all).subspan(from, count);
      return std::transform_reduce(
          run.begin(), run.end(), 0.0, std::plus<>(),
          [](const Leaf& leaf) { return is_drawable(leaf) ? double{leaf.priority} : 0.0; });
    }
    void draw(std::span<double> /*targets*/, std::span<std::uint32_t> /*leaves*/,
              std::span<float> /*weights*/) const noexcept final {
      ADD_FAILURE() << "drawn from by weight";
    }
    void update(std::span<const std::uint32_t> leaves,
                std::span<const float> weights) noexcept final {
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        all[leaves[i]].priority = weights[i];
      }
    }
    void hide(std::span<const std::uint32_t> leaves) noexcept final {
      for (const std::uint32_t leaf : leaves) {
        all[leaf].hidden = true;
      }
    }
    void show(std::span<const std::uint32_t> leaves,
              std::span<const float> /*weights*/) noexcept final {
      for (const std::uint32_t leaf : leaves) {
        all[leaf].hidden = false;
      }
    }
    [[nodiscard]] std::int64_t first_key() const noexcept final {
      const Leaf& leaf = all[first()];
      return leaf.hidden || leaf.priority < 0.0F ? 0 : std::lround(1e6 * double{leaf.priority}) + 1;
    }
    std::uint32_t take_first() noexcept final {
      const auto leaf = static_cast<std::uint32_t>(first());
      all[leaf].hidden = true;
      return leaf;
    }
  };
  struct Rule final : SelectorRule {
    [[nodiscard]] Law law() const noexcept final { return Law::InOrder; }
    [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
        std::size_t leaves) const final {
      return std::make_unique<Part>(leaves);
    }
  };
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>();
  }
};

}  // namespace reprise::test
