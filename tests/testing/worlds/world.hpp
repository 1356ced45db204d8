#pragma once

#include <reprise/reprise.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace reprise::test {

/// A schema with fields of every role, and rows that say what they should be: what a step holds
/// follows from its episode and its position alone, except what `change` was told. A batch can
/// therefore be judged completely without a record of what was written, and from many threads.
class World {
 public:
  explicit World(bool with_discount = false, bool with_states = false, bool compressed = false,
                 bool with_mutable = false);

  [[nodiscard]] const Schema& schema() const { return schema_; }

  /// Begins an episode and writes its first observation.
  void begin(Writer& writer) const;
  /// The columns of the episode's next step and the observation behind it.
  void write_step(Writer& writer) const;
  /// The recurrent states of that step.
  void write_states(Writer& writer) const;

  /// The value of a mutable column that a step has from now on; which one, `change` says.
  std::vector<std::byte> change(std::size_t field, std::uint64_t episode, std::uint64_t position,
                                std::uint64_t change);

  /// What a field of a step, or the observation behind it, holds.
  [[nodiscard]] std::vector<std::byte> content(std::size_t field, std::uint64_t episode,
                                               std::uint64_t position) const;

  /// In words, the first thing wrong with an item of a batch, given that its episode, position and
  /// length are right; empty if nothing is. `terminated`: with the item's last step.
  [[nodiscard]] std::string lie(const Batch& batch, std::size_t item, const Window& window,
                                bool terminated) const;

 private:
  /// Of returns and discounts.
  [[nodiscard]] std::string target_lie(const Batch& batch, std::size_t item, const Window& window,
                                       bool terminated) const;
  /// Of a reward or discount.
  [[nodiscard]] double number(std::size_t field, std::uint64_t episode,
                              std::uint64_t position) const;
  void fill(std::span<std::byte> to, std::size_t field, const Writer& writer,
            std::uint64_t position) const;

  Schema schema_;
  std::vector<AnyField> fields_;
  /// By field, episode and position.
  std::map<std::tuple<std::size_t, std::uint64_t, std::uint64_t>, std::uint64_t> changes_;
};

}  // namespace reprise::test
