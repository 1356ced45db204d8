#include "picture.hpp"

#include "figures.hpp"
#include "latency.hpp"
#include "options.hpp"
#include "tally.hpp"

#include <stdio.h>  // NOLINT(modernize-deprecated-headers): declares popen

#include <cstddef>
#include <cstdio>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>

namespace stress {
namespace {

constexpr const char* kColours[] = {"#1f77b4", "#ff7f0e"};

/// Share of all durations in each bucket that has any, over the bucket's lower bound.
void add_data(std::ostringstream& out, const std::string& name, const Latency& latency,
              double ns_per_unit) {
  out << '$' << name << " << END\n";
  for (std::size_t i = 0; i < Latency::kBuckets; ++i) {
    if (latency.in_bucket(i) != 0) {
      const double lowest = Latency::lowest(i);
      out << (lowest < 1.0 ? 1.0 : lowest) / ns_per_unit << ' '
          << static_cast<double>(latency.in_bucket(i)) / static_cast<double>(latency.count())
          << '\n';
    }
  }
  if (latency.count() == 0) {
    out << "1 NaN\n";
  }
  out << "END\n";
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    result += c;
    if (c == '\'') {
      result += c;
    }
  }
  return result + "'";
}

void add_plot(std::ostringstream& out, const std::string& what, std::span<const Tally> tallies) {
  const char* separator = "plot ";
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    out << separator << '$' << what << i << " using 1:2 with histeps lw 2 lc rgb '"
        << kColours[i % 2] << "' title '" << name_of(tallies[i].implementation) << '\'';
    separator = ", ";
  }
  out << '\n';
}

std::string script(const std::string& path, const Options& options,
                   std::span<const Tally> tallies) {
  std::ostringstream out;
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    add_data(out, "append" + std::to_string(i), tallies[i].append, 1.0);
    add_data(out, "batch" + std::to_string(i), tallies[i].batch, kNsPerUs);
  }
  out << "set terminal " << (path.ends_with(".png") ? "png" : "svg")
      << " size 800,640 font 'sans,13' background '#ffffff'\n"
      << "set output " << quoted(path) << '\n'
      << "set multiplot layout 2,1 title '" << options.actors << " actors, " << options.learners
      << " learners, batches of " << options.batch << "'\n"
      << "set grid lc rgb '#dddddd'\nset logscale xy\nset format x '%.0s%c'\n"
      << "set format y '10^{%L}'\nset ylabel 'share'\nset key top right\n"
      << "set xlabel 'append, ns'\n";
  add_plot(out, "append", tallies);
  out << "set xlabel 'batch sampled, checked and updated, us'\n";
  add_plot(out, "batch", tallies);
  out << "unset multiplot\n";
  return out.str();
}

}  // namespace

void draw_picture(const std::string& path, const Options& options, std::span<const Tally> tallies) {
  std::FILE* const gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) {
    throw std::runtime_error("cannot start gnuplot");
  }
  const std::string text = script(path, options, tallies);
  const bool written = std::fwrite(text.data(), 1, text.size(), gnuplot) == text.size();
  if (pclose(gnuplot) != 0 || !written) {
    throw std::runtime_error("gnuplot could not draw '" + path + "' (is gnuplot installed?)");
  }
}

}  // namespace stress
