#pragma once

#include "testing/library.hpp"

namespace stress {

struct Options {
  std::size_t actors = 4;
  std::size_t learners = 1;
  /// How many of the last actors, and of the last learners, attach as another process does.
  std::size_t guests = 0;
  /// Environments of each actor's `VectorWriter`; 0: the actor has a `Writer`.
  std::size_t environments = 0;
  double seconds = 2.0;
  std::size_t capacity_steps = std::size_t{1} << 20U;
  std::size_t chunk_steps = 0;  ///< 0: the buffer chooses.
  std::size_t shards = 0;       ///< 0: the buffer chooses.
  std::size_t observation_bytes = 32;
  std::uint32_t n_step = 1;
  std::uint32_t frame_stack = 1;
  std::size_t batch = 512;
  bool churn = false;
  std::uint64_t seed = 1;
  std::uint64_t schedule = 0;  ///< Seed of the schedule points; 0: they do nothing.

  // Names of strategies, with numbers behind a colon where they have some; see strategies.cpp.
  std::string selector = "proportional";
  std::string remover = "fifo";
  std::string window = "transitions";
  std::string limiter = "min_size";
  std::string draws = "either";
  std::uint32_t max_times_sampled = 0;  ///< 0: no limit.
  std::optional<std::uint64_t> max_staleness;
  /// Whether items stay that nobody may draw, besides removed ones.
  [[nodiscard]] bool exhaust() const { return max_times_sampled != 0 || max_staleness; }
  float fresh = 0.0F;  ///< Share of fresh items in each batch.
  bool read_by_name = false;
  bool remove = false;
  bool mutable_column = false;
  bool mixed = false;
  bool hindsight = false;
  /// A new alpha after so many batches of the first learner; 0: never.
  std::uint64_t set_alpha_every = 0;

  std::string checkpoint_path;  ///< Directory to save to; empty: nothing is saved.
};

/// Exit status of a program that was called wrongly.
inline constexpr int kBadUsage = 2;

struct ParsedOptions {
  Options options;
  int exit_code = -1;  ///< If not negative, the program has to end now with this status.
};

/// Parses the options, and prints help or errors.
ParsedOptions parse_options(int argc, char** argv);

}  // namespace stress
