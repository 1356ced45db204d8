#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

constexpr std::size_t kItems = 100;

/// How often each item was drawn, and how often it is expected to be.
struct Histogram {
  std::string selector;
  std::array<double, kItems> drawn{};
  std::array<double, kItems> expected{};
};

/// The items in a batch of an ordered selector.
struct OrderedBatch {
  std::string selector;
  std::array<bool, kItems> items{};
};

/// The draws of all selectors for one set of priorities: a column of the picture.
struct Stage {
  std::string title;
  std::vector<Histogram> histograms;
  std::vector<OrderedBatch> batches;
};

/// Returns the stages side by side as SVG. A selector that draws at random has a row of histograms
/// with their expectations; below, each selector that draws in order has a row that marks its
/// items. All stages have the same selectors in the same order.
std::string picture(const std::string& title, const std::vector<Stage>& stages);
