#pragma once

#include "episode.hpp"
#include "row.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stress {

/// The result of a commit.
enum class Took : std::uint8_t {
  Taken,
  Held,  ///< The step found no room and has to be committed again.
  Closed,
};

/// The result of asking for a batch.
enum class Got : std::uint8_t { Batch, Nothing, Closed };

/// A batch.
struct Drawn {
  std::size_t size = 0;
  std::size_t observation_bytes = 0;
  std::size_t frame_stack = 0;
  /// Steps of a sequence; 0 if items are transitions. The frames of its stacks lie one stack behind
  /// the other, and it has as many actions and rewards as steps.
  std::size_t steps = 0;
  std::span<const std::uint8_t> now;
  std::span<const std::uint8_t> next;
  std::span<const std::int32_t> actions;
  std::span<const float> rewards;  ///< Only for sequences.
  std::size_t n_step = 0;          ///< Most steps of a return; 0: no returns.
  /// One of each item, or of each step of a sequence.
  std::span<const float> returns;
  std::span<const float> discounts;
  /// Of the mutable column, `kLatentWords` for each step; empty without one.
  std::span<const std::uint64_t> latents;
  /// Low half: the place; high half: generation and tag, which name the item in that place.
  std::span<const std::uint64_t> keys;
  std::span<const double> probabilities;
  /// The largest is 1 if `by_batch`.
  std::span<const float> weights;
  bool by_batch = false;
  bool without_replacement = false;
  bool of_a_pass = false;       ///< `reprise::Draws::Epoch`.
  std::uint64_t passes = 0;     ///< Completed with this batch, by this sampler.
  std::size_t fresh = 0;        ///< The first items, which nobody had drawn before.
  std::size_t second_part = 0;  ///< Where it begins, drawn by itself; 0: there is none.
  bool of_one_moment = false;   ///< All items were drawn under the locks of all shards.
  std::span<const std::uint64_t> episode_ids;
  std::span<const std::uint64_t> positions;
  std::span<const std::uint32_t> lengths;

  [[nodiscard]] std::span<const std::uint8_t> frame(std::span<const std::uint8_t> stacks,
                                                    std::size_t item, std::size_t f) const {
    const std::size_t frames = steps != 0 ? steps * frame_stack : frame_stack;
    return stacks.subspan((item * frames + f) * observation_bytes, observation_bytes);
  }
};

/// What hindsight gave the items of a batch.
struct Goals {
  bool backwards = false;            ///< Whether goals may lie before the item's step.
  bool final = false;                ///< Whether each is the last observation of its episode.
  std::vector<std::uint8_t> values;  ///< An observation for each item.
  std::vector<std::int32_t> distances;
};

/// The identity that a drawn item claims.
struct Judged {
  bool legible = false;  ///< False: the other members have no meaning.
  Identity id;
  Episode episode;
  std::uint64_t hash = 0;  ///< Hash of the identity.
};

}  // namespace stress
