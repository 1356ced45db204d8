"""The pictures of docs/performance.md, drawn by gnuplot."""

import os
import subprocess

from tables import LOADS, PICTURED_LOAD, load_counter

STYLES = {"textbook": "lw 2 pt 5 lc rgb '#d62728'", "reprise": "lw 2 pt 7 lc rgb '#1f77b4'"}


def run_gnuplot(path, script):
    head = ("set terminal svg size 720,420 font 'sans,13' background '#ffffff'\n"
            "set output '{}'\nset grid lc rgb '#dddddd'\n").format(path.replace("'", "''"))
    subprocess.run(["gnuplot"], input=head + script, text=True, check=True)
    return path


def curves(data, title, xlabel, ylabel, settings=""):
    """Two lines of points (x, y), one for each implementation."""
    blocks = "".join("${} << END\n{}\nEND\n".format(
        name, "\n".join("{} {}".format(x, y) for x, y in points)) for name, points in data.items())
    plots = ", ".join("${0} using 1:2 with linespoints {1} title '{0}'".format(name, STYLES[name])
                      for name in data)
    return ("{}set title '{}'\nset xlabel '{}'\nset ylabel '{}'\nset key outside below\n"
            "set yrange [0:*]\n{}plot {}\n").format(blocks, title, xlabel, ylabel, settings, plots)


def against_size(results, subject):
    return {i: [(log, results.ns(results.name(subject, i, log)) / 1e3)
                for log in results.logs(subject) if results.has(results.name(subject, i, log))]
            for i in ("textbook", "reprise")}


def ratio_bars(results):
    """How many times faster than the textbook, for each subject."""
    bars = []
    for subject, log in (("W1/cycle", 16), ("W1/cycle", 20), ("W1/cycle", 23), ("W2/append76", None),
                         ("W2/cycle76", None), ("W2/append56k", None), ("W2/gather56k", None),
                         ("W4/record", 20), ("W4/get5000", 20)):
        ratio = results.ratio(subject, log)
        if ratio is not None:
            label = subject.replace("/", "\\n") + ("" if log is None else "\\n2^{%d}" % log)
            bars.append((label, ratio))
    return ("$bars << END\n{}\nEND\nset title 'Times faster than the textbook'\n"
            "set style fill solid\nset boxwidth 0.6\nset yrange [0:{}]\nunset key\n"
            "set xtics scale 0 font ',10'\nset bmargin 4.5\n"
            "plot $bars using 0:2:xtic(1) with boxes lc rgb '#1f77b4', "
            "$bars using 0:2:(sprintf('%.1f', $2)) with labels offset 0,0.7, "
            "1 lc rgb '#d62728' lw 2\n").format(
                "\n".join('"{}" {}'.format(*bar) for bar in bars),
                1.1 * max((ratio for _, ratio in bars), default=1))


def against_actors(results, counter, scale):
    """Flat out; nothing unless two loads were measured."""
    points = {i: [(actors, figure / scale) for actors, pace, *_ in LOADS if not pace
                  and (figure := load_counter(results, i, actors, pace, counter)) is not None]
              for i in ("textbook", "reprise")}
    return points if len(points["reprise"]) > 1 else None


def latencies(results, actors, pace):
    """Quantiles of appends and batches, side by side."""
    script = "set multiplot layout 1,2 title '{} actors, {:,} steps/s'\n".format(actors, pace)
    for what, ylabel in (("append", "append, ns"),
                         ("batch", "batch, ns")):
        data = {i: [(one_in, load_counter(results, i, actors, pace, "{}_p{}_ns".format(what, p)))
                    for one_in, p in ((2, 50), (10, 90), (100, 99), (1000, 999), (10000, 9999))]
                for i in ("textbook", "reprise")}
        script += curves(data, "", "all but one in", ylabel,
                         "set logscale xy\nset yrange [*:*]\nset format y '%.0s%c'\n")
    return script + "unset multiplot\n"


def draw(results, folder):
    """Writes what there are figures for; returns the files."""
    done = []

    def picture(name, script):
        done.append(run_gnuplot(os.path.join(folder, name), script))

    for subject, name, title in (
            ("W1/cycle", "cycle_cost.svg", "Draw 512 and update 512 (W1)"),
            ("W4/record", "record_cost.svg", "100 records (W4)"),
            ("W4/get5000", "get_cost.svg", "5000 windows of 8 steps (W4)")):
        data = against_size(results, subject)
        if all(data.values()):
            picture(name, curves(data, title, "items, base-2 logarithm", "microseconds"))
    picture("ratios.svg", ratio_bars(results))
    for key, scale, name, ylabel in (
            ("appends_per_second", 1e6, "appends_against_actors.svg", "million appends/s"),
            ("batches_per_second", 1e3, "cycles_against_actors.svg", "1000 learner cycles/s")):
        data = against_actors(results, key, scale)
        if data is not None:
            picture(name, curves(data, "Flat out, one learner (W3)", "actors", ylabel))
    if load_counter(results, "reprise", *PICTURED_LOAD, "append_p50_ns") is not None:
        picture("latencies.svg", latencies(results, *PICTURED_LOAD))
    return done
