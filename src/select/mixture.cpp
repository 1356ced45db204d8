#include <reprise/selectors/mixture.hpp>

#include "base/describe.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "select/tree_selector.hpp"
#include "select/weight_rule.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>

namespace reprise {
namespace select {
namespace {

/// How many leaves are hidden or shown at a time, with their weights on the stack.
constexpr std::size_t kBlock = 512;

/// The factors of the two parts of a mixture: the one by weight, and the one in which all items
/// weigh alike. All shards have the same factors.
struct Scales {
  double weighted = 0.0;
  double alike = 1.0;
};

/// A leaf's weight is the sum of its weights in both parts. Each part has a tree of its own and
/// draws by itself: in one tree of the sums every leaf would change with each update, because the
/// factors change. The draws are then merged by leaf, so that all draws of a leaf follow each
/// other, as if the leaf had one interval.
class MixtureSelector final : public ShardSelector {
 public:
  MixtureSelector(const WeightRule& weighted, std::size_t leaves)
      : weighted_(weighted, leaves), alike_(WeightRule(Uniform{}), leaves), hidden_(leaves) {}

  void expect_leaves(std::size_t leaves) noexcept override {
    weighted_.expect_leaves(leaves);
    alike_.expect_leaves(leaves);
  }
  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override {
    weighted_.insert(run, other_shards);
    alike_.insert(run, other_shards);
  }
  void erase(std::uint32_t first, std::size_t count) noexcept override {
    weighted_.erase(first, count);
    alike_.erase(first, count);
  }
  /// The maxima are those of the part by weight, without its factor: the weights of new items are
  /// computed from them.
  [[nodiscard]] SelectorSummary summary() const noexcept override {
    SelectorSummary summary = weighted_.summary();
    const SelectorSummary alike = alike_.summary();
    summary.total = scales_.weighted * summary.total + scales_.alike * alike.total;
    summary.min_positive = scales_.alike > 0.0 ? scaled(scales_.alike, alike.min_positive)
                                               : scaled(scales_.weighted, summary.min_positive);
    return summary;
  }
  /// The sum in the part by weight, without its factor. Only removers call this, to compare chunks.
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override {
    return weighted_.sum(first, count);
  }
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override {
    const double border = scales_.weighted * weighted_.summary().total;
    const auto first_alike =
        scales_.alike > 0.0 ? std::ranges::lower_bound(targets, border) : targets.end();
    const auto by_weight = static_cast<std::size_t>(first_alike - targets.begin());
    std::for_each(targets.begin(), first_alike,
                  [&](double& target) { target /= scales_.weighted; });
    std::for_each(first_alike, targets.end(),
                  [&](double& target) { target = (target - border) / scales_.alike; });
    if (by_weight != 0) {
      weighted_.draw(targets.first(by_weight), leaves.first(by_weight), weights.first(by_weight));
    }
    if (by_weight != targets.size()) {
      alike_.draw(targets.subspan(by_weight), leaves.subspan(by_weight),
                  weights.subspan(by_weight));
    }
    // The targets are not needed any more, so the leaves are merged there; a double can hold every
    // leaf.
    std::ranges::merge(leaves.first(by_weight), leaves.subspan(by_weight), targets.begin());
    std::ranges::transform(targets, leaves.begin(),
                           [](double leaf) { return static_cast<std::uint32_t>(leaf); });
    weighted_.store(leaves, weights);
    std::ranges::transform(weights, weights.begin(), [this](float weight) {
      // A drawn item has a weight above 0, although a float may round it to 0. And because weights
      // may have grown since the scales were computed, it could be more than a float can hold.
      return static_cast<float>(
          std::clamp(scales_.weighted * static_cast<double>(weight) + scales_.alike,
                     static_cast<double>(std::numeric_limits<float>::min()),
                     static_cast<double>(std::numeric_limits<float>::max())));
    });
  }
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override {
    return alike_.all_positive(leaves) && (scales_.alike > 0.0 || weighted_.all_positive(leaves));
  }
  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept override {
    weighted_.update(leaves, weights);
  }

  void hide(std::span<const std::uint32_t> leaves) noexcept override {
    in_blocks(leaves, [this](auto block, auto weights, auto visible) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        hidden_[block[i]] = visible[i] > 0.0F ? weights[i] : hidden_[block[i]];
      }
      weighted_.hide(block);
      alike_.hide(block);
    });
  }
  void show(std::span<const std::uint32_t> leaves,
            std::span<const float> /*weights*/) noexcept override {
    in_blocks(leaves, [this](auto block, auto weights, auto visible) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        weights[i] = visible[i] > 0.0F ? weights[i] : hidden_[block[i]];
        visible[i] = 1.0F;
      }
      weighted_.show(block, weights);
      alike_.show(block, visible);
    });
  }

  bool set_alpha(float alpha) noexcept override { return weighted_.set_alpha(alpha); }
  bool decay(float factor) noexcept override { return weighted_.decay(factor); }

  void store(std::span<const std::uint32_t> leaves,
             std::span<float> stored) const noexcept override {
    weighted_.store(leaves, stored);
  }
  void restore(std::span<const std::uint32_t> leaves,
               std::span<const float> stored) noexcept override {
    weighted_.restore(leaves, stored);
  }
  [[nodiscard]] SelectorMemory memory() const noexcept override { return weighted_.memory(); }
  void set_memory(const SelectorMemory& memory) noexcept override { weighted_.set_memory(memory); }

  [[nodiscard]] double weight() const noexcept { return weighted_.summary().total; }
  /// Items that can be drawn.
  [[nodiscard]] double items() const noexcept { return alike_.summary().total; }
  void set_scales(const Scales& scales) noexcept { scales_ = scales; }

 private:
  /// The product, but at least the smallest normal float, because the result bounds weights that
  /// are above 0.
  [[nodiscard]] static float scaled(double scale, float weight) noexcept {
    return std::max(static_cast<float>(scale * static_cast<double>(weight)),
                    std::numeric_limits<float>::min());
  }
  /// Calls call(leaves, weights, visible) for blocks of the leaves: `weights` are those in
  /// `weighted_`, and `visible` those in `alike_`, where a hidden leaf has 0.
  template <class Call>
  void in_blocks(std::span<const std::uint32_t> leaves, Call call) noexcept {
    // Each block is written before it is read.
    std::array<float, kBlock> weights;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::array<float, kBlock> visible;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    while (!leaves.empty()) {
      const auto block = leaves.first(std::min(kBlock, leaves.size()));
      weighted_.store(block, weights);
      alike_.store(block, visible);
      call(block, std::span(weights).first(block.size()), std::span(visible).first(block.size()));
      leaves = leaves.subspan(block.size());
    }
  }

  TreeSelector weighted_;
  TreeSelector alike_;
  base::LazyArray<float> hidden_;  ///< The weights that hidden leaves had in `weighted_`.
  Scales scales_;
};

class MixtureRule final : public SelectorRule {
 public:
  /// Throws as the constructor of WeightRule.
  explicit MixtureRule(const Mixture& options)
      : uniform_(static_cast<double>(options.uniform)),
        weighted_({.alpha = options.alpha,
                   .epsilon = 0.0F,
                   .initial = options.initial,
                   .initial_constant = options.initial_constant},
                  "Mixture") {}

  void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept override {
    weighted_.weigh(priorities, weights);
  }
  [[nodiscard]] bool needs_caller() const noexcept override { return weighted_.needs_caller(); }
  [[nodiscard]] std::optional<float> alpha() const noexcept override { return weighted_.alpha(); }
  void check_alpha(float alpha) const override { weighted_.check_alpha(alpha); }
  [[nodiscard]] bool set_alpha(float alpha) noexcept override { return weighted_.set_alpha(alpha); }

  [[nodiscard]] Law law() const noexcept override { return Law::Mixed; }
  [[nodiscard]] bool needs_refresh() const noexcept override { return true; }
  /// Computes the factors with which the parts get their shares of the total over all shards.
  void refresh(const EachShardSelector& each_shard_selector) noexcept override {
    double weight = 0.0;
    double items = 0.0;
    const auto report = [&](ShardSelector& selector) {
      weight += as_mixture(selector).weight();
      items += as_mixture(selector).items();
    };
    each_shard_selector(std::ref(report));
    const double uniform = weight > 0.0 ? uniform_ : 1.0;
    const Scales scales{weight > 0.0 ? (1.0 - uniform) / weight : 0.0,
                        items > 0.0 ? uniform / items : 1.0};
    each_shard_selector(
        [&scales](ShardSelector& selector) { as_mixture(selector).set_scales(scales); });
  }

  [[nodiscard]] std::size_t bytes(std::size_t leaves) const noexcept override {
    return 2 * tree::WeightTree::bytes(leaves) + leaves * sizeof(float);
  }
  [[nodiscard]] std::unique_ptr<ShardSelector> make_shard_selector(
      std::size_t leaves) const override {
    return std::make_unique<MixtureSelector>(weighted_, leaves);
  }

 private:
  /// Shard selectors of this rule are always of this type.
  static MixtureSelector& as_mixture(ShardSelector& selector) noexcept {
    return static_cast<MixtureSelector&>(selector);
  }

  const double uniform_;
  WeightRule weighted_;
};

}  // namespace
}  // namespace select

std::unique_ptr<SelectorRule> Mixture::make_selector_rule() const {
  selector_kind().check(*this);
  return std::make_unique<select::MixtureRule>(*this);
}

StrategyKind<Selector> Mixture::selector_kind() {
  return base::describe<Selector, Mixture>(
      "Mixture",
      R"(Draws uniformly with probability `uniform`, else as Proportional without an epsilon: item i with
probability uniform / N + (1 - uniform) * weight_i / sum, weight = priority^alpha. Batches have
the probabilities of the whole. `initial` as of Proportional.

uniform: 0 to 1. alpha: 0 to 8.)",
      base::option<&Mixture::uniform>("uniform", 0.0F, 1.0F),
      base::option<&Mixture::alpha>("alpha", 0.0F, select::kMaxAlpha),
      base::option<&Mixture::initial>("initial", select::kInitials),
      base::option<&Mixture::initial_constant>("initial_constant"));
}

}  // namespace reprise
