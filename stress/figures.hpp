#pragma once

#include "tally.hpp"

#include <array>
#include <span>

namespace stress {

/// The figures that are compared.
struct Figure {
  const char* key;    ///< In JSON, dots between levels.
  const char* label;  ///< For people, unit included.
  double (*of)(const Tally&);
};

inline constexpr double kNsPerUs = 1e3;

inline constexpr std::array<Figure, 9> kFigures = {{
    {"appends_per_second", "appends/s", [](const Tally& t) { return t.appends_per_second(); }},
    {"batches_per_second", "batches/s", [](const Tally& t) { return t.batches_per_second(); }},
    {"append_ns.p50", "append p50, ns", [](const Tally& t) { return t.append.quantile_ns(0.5); }},
    {"append_ns.p99", "append p99, ns", [](const Tally& t) { return t.append.quantile_ns(0.99); }},
    {"append_ns.p999", "append p99.9, ns",
     [](const Tally& t) { return t.append.quantile_ns(0.999); }},
    {"append_ns.max", "append max, ns", [](const Tally& t) { return t.append.max_ns(); }},
    {"batch_us.p50", "batch p50, us",
     [](const Tally& t) { return t.batch.quantile_ns(0.5) / kNsPerUs; }},
    {"batch_us.p99", "batch p99, us",
     [](const Tally& t) { return t.batch.quantile_ns(0.99) / kNsPerUs; }},
    {"batch_us.max", "batch max, us", [](const Tally& t) { return t.batch.max_ns() / kNsPerUs; }},
}};

[[nodiscard]] double median(std::span<const Tally> runs, const Figure& figure);

[[nodiscard]] const char* name_of(Implementation implementation) noexcept;

}  // namespace stress
