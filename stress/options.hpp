#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stress {

enum class Implementation : std::uint8_t { Reprise, Textbook };

/// How much of each sample is checked.
enum class Checks : std::uint8_t {
  Rows,  ///< Only hashes of the observations: the torn-row check of the workload definitions.
  All,   ///< Whole windows and priorities too.
};

struct Options {
  std::size_t actors = 4;
  std::size_t learners = 1;
  double seconds = 2.0;
  std::size_t capacity_steps = std::size_t{1} << 20U;
  std::size_t chunk_steps = 0;  ///< 0: the buffer chooses.
  std::size_t shards = 0;       ///< 0: the buffer chooses.
  std::size_t observation_bytes = 32;
  std::uint32_t n_step = 1;
  std::uint32_t frame_stack = 1;
  std::size_t batch = 512;
  double pace = 0.0;  ///< Steps per second of all actors together; 0: as fast as they can.
  bool churn = false;
  std::uint64_t seed = 1;
  std::uint64_t schedule = 0;  ///< Seed of the schedule points; 0: they are empty.
  Checks checks = Checks::All;

  // Names of strategies, with numbers behind a colon where they have some; see strategies.cpp.
  std::string selector = "proportional";
  std::string remover = "fifo";
  std::string window = "transitions";
  std::string limiter = "min_size";
  std::string draws = "either";
  std::uint32_t max_times_sampled = 0;  ///< 0: no limit.
  std::uint64_t set_alpha_every = 0;    ///< Batches of the first learner; 0: never.

  Implementation implementation = Implementation::Reprise;
  bool compare = false;
  std::size_t repeats = 3;  ///< Runs of each implementation with `compare`.

  std::string checkpoint_path;  ///< Directory to save to; empty: nothing is saved.
  std::string json_path;        ///< Empty: none.
  std::string picture_path;     ///< Empty: none.
};

/// Exit status of a program that was called wrongly.
inline constexpr int kBadUsage = 2;

struct ParsedOptions {
  Options options;
  int exit_code = -1;  ///< Not negative: stop now with this status.
};

/// Prints help or error messages itself.
ParsedOptions parse_options(int argc, char** argv);

}  // namespace stress
