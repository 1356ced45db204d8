#include "measuring/plot.hpp"

#include <cstdio>
#include <sstream>
#include <stdexcept>

namespace apex {
namespace {

/// Rates are taken over this many seconds, so that the curve shows load and not scheduling.
constexpr double kRateWindow = 0.5;

std::string data(const Result& result) {
  std::ostringstream out;
  out << "$curve << END\n";
  std::size_t from = 0;
  for (std::size_t i = 0; i < result.history.size(); ++i) {
    const Snapshot& now = result.history[i];
    while (from + 1 < i && now.seconds - result.history[from + 1].seconds >= kRateWindow) {
      ++from;
    }
    const Snapshot& then = result.history[from];
    const double elapsed = now.seconds - then.seconds;
    if (elapsed <= 0.0) {
      continue;
    }
    out << now.seconds << ' ' << (now.episodes > 0 ? std::to_string(now.mean_return) : "NaN") << ' '
        << static_cast<double>(now.environment_steps - then.environment_steps) / elapsed / 1e3
        << ' ' << static_cast<double>(now.learner_updates - then.learner_updates) / elapsed / 1e3
        << '\n';
  }
  out << "END\n$final << END\n"
      << result.seconds << ' ' << result.final_score.mean << ' ' << result.final_score.deviation
      << "\nEND\n";
  return out.str();
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

std::string script(const std::string& path, const Options& options, const Result& result) {
  const bool png = path.ends_with(".png");
  std::ostringstream out;
  out << data(result) << "set terminal " << (png ? "png" : "svg")
      << " size 800,600 font 'sans,13' background '#ffffff'\n"
      << "set output " << quoted(path) << '\n'
      << "set multiplot layout 2,1 title 'Ape-X DQN on LunarLander-v2, seed " << options.seed
      << ", " << options.actors << " x " << options.environments << " environments'\n"
      << "set grid lc rgb '#dddddd'\nset lmargin 10\nset rmargin 10\n"
      << "set xrange [0:" << result.seconds * 1.05 << "]\n"
      << "set ylabel 'mean return'\nset key bottom right\n"
      << "plot " << options.target_score << " title 'solved' lc rgb '#999999' dt 2, "
      << "$curve using 1:2 with lines lw 2 lc rgb '#1f77b4' "
      << "title 'greediest environments, last 100 episodes', "
      << "$final using 1:2:3 with yerrorbars pt 7 lc rgb '#d62728' "
      << "title '100 greedy episodes, fresh seeds (mean, std)'\n"
      << "set xlabel 'seconds'\nset ylabel '1000 environment steps/s'\n"
      << "set y2label '1000 updates/s'\nset ytics nomirror\nset y2tics\n"
      << "set yrange [0:*]\nset y2range [0:*]\n"
      << "plot $curve using 1:3 with lines lw 2 lc rgb '#2ca02c' title 'environment steps', "
      << "$curve using 1:4 axes x1y2 with lines lw 2 lc rgb '#ff7f0e' title 'updates (right)'\n"
      << "unset multiplot\n";
  return out.str();
}

}  // namespace

void draw_plot(const std::string& path, const Options& options, const Result& result) {
  std::FILE* const gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) {
    throw std::runtime_error("cannot start gnuplot");
  }
  const std::string text = script(path, options, result);
  const bool written = std::fwrite(text.data(), 1, text.size(), gnuplot) == text.size();
  if (pclose(gnuplot) != 0 || !written) {
    throw std::runtime_error("gnuplot could not draw '" + path + "' (is gnuplot installed?)");
  }
}

}  // namespace apex
