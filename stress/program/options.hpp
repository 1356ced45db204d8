#pragma once

#include "testing/library.hpp"

namespace stress {

/// The options of the command line. Their help texts in options.cpp say what each means.
struct Options {
  std::size_t actors = 4;
  std::size_t learners = 1;
  std::size_t guests = 0;
  std::size_t environments = 0;
  double seconds = 2.0;
  std::size_t capacity_steps = std::size_t{1} << 20U;
  std::size_t chunk_steps = 0;
  std::size_t shards = 0;
  std::size_t observation_bytes = 32;
  std::uint32_t n_step = 1;
  std::uint32_t frame_stack = 1;
  std::size_t batch = 512;
  bool churn = false;
  std::uint64_t seed = 1;
  std::uint64_t schedule = 0;

  // Names of strategies; see strategies.cpp.
  std::string selector = "proportional";
  std::string remover = "fifo";
  std::string window = "transitions";
  std::string limiter = "min_size";
  std::string draws = "either";
  std::uint32_t max_times_sampled = 0;
  std::optional<std::uint64_t> max_staleness;
  /// Whether items may stay in the buffer that can no longer be drawn, other than removed ones.
  [[nodiscard]] bool exhausts() const { return max_times_sampled != 0 || max_staleness; }
  float fresh = 0.0F;
  bool read_by_name = false;
  bool remove = false;
  bool mutable_column = false;
  bool mixed = false;
  bool hindsight = false;
  std::uint64_t set_alpha_every = 0;

  std::string checkpoint_path;
};

/// Exit status of a program that was called with bad options.
inline constexpr int kBadUsage = 2;

struct ParsedOptions {
  Options options;
  int exit_code = -1;  ///< If not negative, the program has to end now with this status.
};

/// Parses the options, and prints help or errors.
ParsedOptions parse_options(int argc, char** argv);

}  // namespace stress
