#pragma once

#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// As a selector `Fifo` (of `remover.hpp`) draws the items that were decided first, oldest first.
/// With `Options::max_times_sampled` = 1 every item is drawn once, in order: a queue.
///
/// Draws in order are no random draws: a batch holds the first n items of the whole buffer, each
/// once; every probability and every weight is 1, and `SampleOptions::draws` means nothing. The
/// call needs n items that can be drawn. Exact for sequenced calls; a call holds all shards' locks
/// while it draws. Cost: O(n log(items)), 8 bytes more per row, and one counter that all writers
/// share.
[[nodiscard]] std::unique_ptr<SelectorRule> make_selector(const Fifo& options);

}  // namespace reprise
