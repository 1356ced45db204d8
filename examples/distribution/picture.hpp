#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

constexpr std::size_t kItems = 100;

/// How often each item was drawn, and the expectation.
struct Histogram {
  std::string selector;
  std::array<double, kItems> drawn{};
  std::array<double, kItems> expected{};
};

/// The items in a batch of an ordered selector.
struct Held {
  std::string selector;
  std::array<bool, kItems> items{};
};

/// The draws of all selectors for one set of priorities: a column of the picture.
struct Stage {
  std::string title;
  std::vector<Histogram> histograms;
  std::vector<Held> batches;
};

/// The stages side by side as SVG: a row of histograms with their expectations for each selector
/// that draws at random, then a row of marked items for each that draws in order. All stages have
/// the same selectors in the same order.
std::string picture(const std::string& title, const std::vector<Stage>& stages);
