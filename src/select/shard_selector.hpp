#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::select {

/// What a shard's half tells of itself.
struct Summary {
  double total = 0.0;      ///< Sum of weights.
  float min_positive = 0;  ///< Smallest weight above 0; +infinity if there is none.
  float max = 0;           ///< Largest weight; 0 if there is none.
  float highest_seen = 0;  ///< Largest weight there ever was.
};

/// The half of a selector that belongs to one shard: the weights of its leaves, one per row.
///
/// Externally synchronised by the shard's lock, under which every call runs; so no call throws,
/// allocates, or calls back. Called per run or per batch, never per item.
class ShardSelector {
 public:
  ShardSelector() = default;
  virtual ~ShardSelector() = default;
  ShardSelector(const ShardSelector&) = delete;
  ShardSelector& operator=(const ShardSelector&) = delete;

  /// A run of rows enters, with their raw priorities or the marks of `storage/chunk_store.hpp`.
  /// `elsewhere` summarises the other shards, for initial priorities. O(run).
  virtual void insert(std::uint32_t first, std::span<const float> priorities,
                      const Summary& elsewhere) noexcept = 0;

  /// A run of rows leaves. O(run).
  virtual void erase(std::uint32_t first, std::size_t count) noexcept = 0;

  /// O(1).
  [[nodiscard]] virtual Summary summary() const noexcept = 0;

  /// Sum of weights of a run of rows. O(log leaves).
  [[nodiscard]] virtual double sum(std::uint32_t first, std::size_t count) const noexcept = 0;

  /// Draws one leaf for each target in [0, total); targets are clobbered. Only leaves of weight
  /// above 0 (I4). O(targets * log leaves).
  virtual void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
                    std::span<float> weights) const noexcept = 0;

  /// Whether the weight of each of these leaves is above 0. O(leaves).
  [[nodiscard]] virtual bool all_positive(std::span<const std::uint32_t> leaves) const noexcept = 0;

  /// Sets weights of items; the last of repeated leaves wins. O(leaves * log leaves).
  virtual void update(std::span<const std::uint32_t> leaves,
                      std::span<const float> weights) noexcept = 0;
};

}  // namespace reprise::select
