#include "picture.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>

namespace {

// Lengths are in pixels.
constexpr double kLeft = 78.0;
constexpr double kTop = 84.0;
constexpr double kPanelWidth = 370.0;
constexpr double kPanelHeight = 300.0;
constexpr double kGap = 64.0;
constexpr double kLineHeight = 17.0;  // Of a line of text.

/// A logarithmic axis from 10^first to 10^last, powers of ten around all values.
struct Axis {
  int first;
  int last;

  /// Returns the place of a value on the axis, from 0 at 10^first to 1 at 10^last.
  [[nodiscard]] double fraction(double value) const {
    return (std::log10(value) - first) / (last - first);
  }
};

Axis axis_for(double lowest, double highest) {
  return {static_cast<int>(std::floor(std::log10(lowest))),
          static_cast<int>(std::ceil(std::log10(highest)))};
}

class Drawing {
 public:
  Drawing(const std::vector<double>& transitions, Axis updates)
      : transitions_(transitions),
        x_axis_(axis_for(transitions.front(), transitions.back())),
        y_axis_(updates) {}

  void text(double x, double y, const std::string& words, const std::string& attributes = "") {
    out_ << "<text x='" << x << "' y='" << y << "' " << attributes << '>' << words << "</text>\n";
  }

  void grid(double left) {
    for (int power = x_axis_.first; power <= x_axis_.last; ++power) {
      const double x = left + kPanelWidth * x_axis_.fraction(std::pow(10.0, power));
      line(x, kTop, x, kTop + kPanelHeight);
      text(x, kTop + kPanelHeight + 18.0, ten_to(power), "text-anchor='middle'");
    }
    for (int power = y_axis_.first; power <= y_axis_.last; ++power) {
      const double y = kTop + kPanelHeight * (1.0 - y_axis_.fraction(std::pow(10.0, power)));
      line(left, y, left + kPanelWidth, y);
      text(left - 6.0, y + 4.0, ten_to(power), "text-anchor='end'");
    }
    text(left + kPanelWidth / 2.0, kTop + kPanelHeight + 38.0, "transitions in the buffer",
         "text-anchor='middle'");
  }

  void curve(double left, const std::vector<double>& updates, const std::string& colour,
             const std::string& attributes) {
    out_ << "<path d='";
    for (std::size_t i = 0; i < updates.size(); ++i) {
      out_ << (i == 0 ? 'M' : 'L') << left + kPanelWidth * x_axis_.fraction(transitions_[i]) << ' '
           << kTop + kPanelHeight * (1.0 - y_axis_.fraction(updates[i]));
    }
    out_ << "' fill='none' stroke='" << colour << "' " << attributes << "/>\n";
  }

  std::string to_svg(double width, double height) {
    std::ostringstream all;
    all << "<svg xmlns='http://www.w3.org/2000/svg' width='" << width << "' height='" << height
        << "' viewBox='0 0 " << width << ' ' << height
        << "' font-family='sans-serif' font-size='12' fill='#222222'>\n"
        << "<rect width='100%' height='100%' fill='#ffffff'/>\n"
        << out_.str() << "</svg>\n";
    return all.str();
  }

 private:
  void line(double x1, double y1, double x2, double y2) {
    out_ << "<path d='M" << x1 << ' ' << y1 << 'L' << x2 << ' ' << y2 << "' stroke='#dddddd'/>\n";
  }
  static std::string ten_to(int power) {
    return "10<tspan dy='-5' font-size='9'>" + std::to_string(power) + "</tspan>";
  }

  const std::vector<double>& transitions_;
  Axis x_axis_;
  Axis y_axis_;
  std::ostringstream out_;
};

}  // namespace

std::string picture(const std::string& title, const std::vector<double>& transitions,
                    const std::vector<Panel>& panels) {
  double fewest = panels.front().curves.front().fewest.front();
  double most = fewest;
  std::size_t words = 0;
  for (const Panel& panel : panels) {
    words = std::max(words, panel.words.size());
    for (const Curve& curve : panel.curves) {
      fewest = std::min(fewest, *std::ranges::min_element(curve.fewest));
      most = std::max(most, *std::ranges::max_element(curve.most));
    }
  }
  Drawing drawing(transitions, axis_for(fewest, most));
  drawing.text(kLeft, 30.0, title, "font-size='16' font-weight='bold'");
  drawing.text(0.0, 0.0, "updates until Q is learned",
               "text-anchor='middle' transform='translate(22," +
                   std::to_string(kTop + kPanelHeight / 2.0) + ") rotate(-90)'");
  double left = kLeft;
  for (const Panel& panel : panels) {
    drawing.text(left, kTop - 18.0, panel.title, "font-size='14'");
    drawing.grid(left);
    double label = kTop + 20.0;
    for (const Curve& curve : panel.curves) {
      drawing.curve(left, curve.fewest, curve.colour, "stroke-width='1' opacity='0.35'");
      drawing.curve(left, curve.most, curve.colour, "stroke-width='1' opacity='0.35'");
      drawing.curve(left, curve.median, curve.colour, "stroke-width='2.5'");
      drawing.text(left + 12.0, label, curve.choice,
                   "font-weight='bold' fill='" + curve.colour + "'");
      label += kLineHeight;
    }
    label = kTop + kPanelHeight + 66.0;
    for (const std::string& line : panel.words) {
      drawing.text(left, label, line);
      label += kLineHeight;
    }
    left += kPanelWidth + kGap;
  }
  return drawing.to_svg(left - kGap + 24.0,
                        kTop + kPanelHeight + 66.0 + kLineHeight * static_cast<double>(words));
}
