#pragma once

#include <reprise/options.hpp>

#include "buffer/format.hpp"
#include "buffer/plan.hpp"
#include "buffer/selectors.hpp"

#include <cstddef>

namespace reprise::buffer {

/// What a process knows of another process's buffer, to check calls that write to it or draw from
/// it. Immutable.
struct Outline {
  /// Throws as the constructor of `ReplayBuffer` for the schema and for the options that are used.
  Outline(const Schema& schema, const Options& options)
      : format(schema, options.window),
        selectors(options.selectors),
        max_writers(options.max_writers) {
    check_outline(options);
  }

  const Format format;
  const Selectors selectors;
  const std::size_t max_writers;
};

}  // namespace reprise::buffer
