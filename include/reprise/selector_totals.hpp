#pragma once

#include <cstddef>

namespace reprise {

/// What the items of one selector add up to, at one moment.
struct SelectorTotals {
  /// Sum of the weights: an item of weight w is drawn with probability w / weight. Of `Fifo`,
  /// `Lifo` and the heaps, the number of items. `RankBased`, `Recency` and `Mixture` weigh in a
  /// unit that changes from draw to draw.
  double weight = 0.0;
  /// The largest weight; 0 if there is none. Of `RankBased` and `MaxHeap` the largest priority, of
  /// `MinHeap` the largest that there ever was, of `Mixture` the largest of the proportional part
  /// before it is scaled, and 0 of `Fifo` and `Lifo`.
  float largest = 0.0F;
  std::size_t items = 0;  ///< Items that can be drawn, those of weight 0 included.
};

}  // namespace reprise
