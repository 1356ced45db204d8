#pragma once

#include "options.hpp"
#include "tally.hpp"

#include <span>
#include <string>

namespace stress {

/// What `--compare` measured: repetition i of one next to repetition i of the other.
struct Comparison {
  std::span<const Tally> reprise;
  std::span<const Tally> textbook;
};

void print_summary(const Options& options, const Tally& tally);
void print_comparison(const Options& options, const Comparison& comparison);

/// Both throw `std::runtime_error` if the file cannot be written.
void write_json(const std::string& path, const Options& options, const Tally& tally);
void write_json(const std::string& path, const Options& options, const Comparison& comparison);

}  // namespace stress
