#include "picture.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace {

// Lengths are in pixels.
constexpr double kLeft = 78.0;
constexpr double kTop = 96.0;
constexpr double kPanelWidth = 370.0;
constexpr double kGap = 64.0;
constexpr double kHistogramHeight = 110.0;
constexpr double kRow = 178.0;      // From the top of a histogram to the next one's below it.
constexpr double kStrip = 14.0;     // Height of the strip that marks an ordered batch's items.
constexpr double kStripRow = 24.0;  // From the top of a strip to the next one's below it.

constexpr const char* kBarColour = "#9ecae1";
constexpr const char* kLineColour = "#d62728";
constexpr const char* kMarkColour = "#1f77b4";

double left_of(std::size_t stage) {
  return kLeft + static_cast<double>(stage) * (kPanelWidth + kGap);
}

double item_at(double left, std::size_t item) {
  return left + kPanelWidth * static_cast<double>(item) / static_cast<double>(kItems);
}

/// Returns the distance between ticks, 1, 2 or 5 times a power of ten, that makes at most 4 up to
/// `highest`.
double tick_step(double highest) {
  double step = std::pow(10.0, std::floor(std::log10(highest)) - 1.0);
  for (const double factor : {2.0, 2.5, 2.0, 2.0, 2.5, 2.0}) {  // From 1 to 2, 5, 10, 20 and so on.
    if (highest / step <= 4.0) {
      break;
    }
    step *= factor;
  }
  return step;
}

class Svg {
 public:
  Svg(double width, double height) {
    out_ << "<svg xmlns='http://www.w3.org/2000/svg' width='" << width << "' height='" << height
         << "' viewBox='0 0 " << width << ' ' << height
         << "' font-family='sans-serif' font-size='12' fill='#222222'>\n"
         << "<rect width='100%' height='100%' fill='#ffffff'/>\n";
  }

  void text(double x, double y, const std::string& words, const std::string& attributes = "") {
    out_ << "<text x='" << x << "' y='" << y << "' " << attributes << '>' << words << "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, const char* colour, double wide = 1.0) {
    out_ << "<path d='M" << x1 << ' ' << y1 << 'L' << x2 << ' ' << y2 << "' stroke='" << colour
         << "' stroke-width='" << wide << "'/>\n";
  }
  void box(double x, double y, double width, double height, const char* colour) {
    out_ << "<rect x='" << x << "' y='" << y << "' width='" << width << "' height='" << height
         << "' fill='" << colour << "'/>\n";
  }
  void path(const std::string& points, const std::string& attributes) {
    out_ << "<path d='" << points << "' " << attributes << "/>\n";
  }
  std::string to_svg() { return out_.str() + "</svg>\n"; }

 private:
  std::ostringstream out_;
};

void item_axis(Svg& svg, double left, double y) {
  svg.line(left, y, left + kPanelWidth, y, "#222222");
  for (std::size_t item = 0; item <= kItems; item += 10) {
    const double x = item_at(left, item);
    svg.line(x, y, x, y + 4.0, "#222222");
    if (item % 20 == 0) {
      svg.text(x, y + 17.0, std::to_string(item), "text-anchor='middle'");
    }
  }
  svg.text(left + kPanelWidth / 2.0, y + 32.0, "item", "text-anchor='middle'");
}

void histogram(Svg& svg, double left, double top, double highest, const Histogram& data) {
  const double base = top + kHistogramHeight;
  const double scale = kHistogramHeight / highest;
  const double step = tick_step(highest);
  svg.text(left, top - 10.0, data.selector, "font-weight='bold'");
  for (int i = 0; i * step <= highest; ++i) {
    const double tick = i * step;
    const double y = base - tick * scale;
    svg.line(left, y, left + kPanelWidth, y, "#dddddd");
    svg.text(left - 6.0, y + 4.0, std::to_string(static_cast<int>(tick)), "text-anchor='end'");
  }
  std::ostringstream bars;
  std::ostringstream line;
  bars << 'M' << left << ' ' << base;
  for (std::size_t item = 0; item < kItems; ++item) {
    bars << 'V' << base - data.drawn.at(item) * scale << 'H' << item_at(left, item + 1);
    line << (item == 0 ? 'M' : 'L') << (item_at(left, item) + item_at(left, item + 1)) / 2.0 << ' '
         << base - data.expected.at(item) * scale;
  }
  bars << 'V' << base << 'Z';
  svg.path(bars.str(), std::string("fill='") + kBarColour + "'");
  svg.path(line.str(), std::string("fill='none' stroke-width='1.5' stroke='") + kLineColour + "'");
  item_axis(svg, left, base);
}

void strip(Svg& svg, double left, double top, const OrderedBatch& batch) {
  svg.box(left, top, kPanelWidth, kStrip, "#eeeeee");
  for (std::size_t item = 0; item < kItems; ++item) {
    if (batch.items.at(item)) {
      svg.box(item_at(left, item) + 0.4, top, kPanelWidth / kItems - 0.8, kStrip, kMarkColour);
    }
  }
}

void legend(Svg& svg, double right) {
  svg.box(right - 160.0, 20.0, 18.0, 10.0, kBarColour);
  svg.text(right - 136.0, 30.0, "drawn");
  svg.line(right - 82.0, 25.0, right - 60.0, 25.0, kLineColour, 1.5);
  svg.text(right, 30.0, "expected", "text-anchor='end'");
}

/// Returns the upper end of the axis that the histograms of a row share in all stages: a tick.
double highest_of(const std::vector<Stage>& stages, std::size_t row) {
  double highest = 0.0;
  for (const Stage& stage : stages) {
    const Histogram& data = stage.histograms.at(row);
    highest = std::max(
        {highest, *std::ranges::max_element(data.drawn), *std::ranges::max_element(data.expected)});
  }
  return std::ceil(highest / tick_step(highest)) * tick_step(highest);
}

}  // namespace

std::string picture(const std::string& title, const std::vector<Stage>& stages) {
  const std::size_t rows = stages.front().histograms.size();
  const double strips = kTop + kRow * static_cast<double>(rows) + 8.0;
  const double strips_end = strips + kStripRow * static_cast<double>(stages.front().batches.size());
  const double right = left_of(stages.size() - 1) + kPanelWidth;
  Svg svg(right + 24.0, strips_end + 44.0);
  svg.text(kLeft, 30.0, title, "font-size='16' font-weight='bold'");
  legend(svg, right);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const double left = left_of(s);
    svg.text(left, 58.0, stages[s].title, "font-size='14'");
    for (std::size_t row = 0; row < rows; ++row) {
      const double top = kTop + kRow * static_cast<double>(row);
      histogram(svg, left, top, highest_of(stages, row), stages[s].histograms.at(row));
    }
    svg.text(left, strips - 10.0, "What a batch of 10 holds that is drawn in order");
    double top = strips;
    for (const OrderedBatch& batch : stages[s].batches) {
      strip(svg, left, top, batch);
      top += kStripRow;
    }
    item_axis(svg, left, strips_end - 6.0);
  }
  for (std::size_t row = 0; row < rows; ++row) {
    const double y = kTop + kRow * static_cast<double>(row) + kHistogramHeight / 2.0;
    svg.text(
        0.0, 0.0, "times drawn",
        "text-anchor='middle' transform='translate(22," + std::to_string(y) + ") rotate(-90)'");
  }
  double label = strips + 11.0;
  for (const OrderedBatch& batch : stages.front().batches) {
    svg.text(kLeft - 6.0, label, batch.selector, "text-anchor='end' font-weight='bold'");
    label += kStripRow;
  }
  return svg.to_svg();
}
