"""Draws the pictures of docs/performance.md with gnuplot."""

import os
import re
import subprocess

from harness.report import ROOT
from harness.sections import LOADS, load_counter
from harness.tables import MS, US

STYLES = {"textbook": "lw 2 pt 5 lc rgb '#d62728'", "reprise": "lw 2 pt 7 lc rgb '#1f77b4'"}
# Number of actors, and steps per second, of the load whose latencies are drawn.
PICTURED_LOAD = (4, 1_000_000)


def draw_picture(arguments, name, script, height=420):
    """Writes a picture into the folder `images` beside the page, and makes that folder if
    needed."""
    folder = os.path.join(os.path.dirname(os.path.abspath(arguments.page)), "images")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    head = (
        "set terminal svg size 720,{} font 'sans,13' background '#ffffff'\n"
        "set output '{}'\nset grid lc rgb '#dddddd'\n"
    ).format(height, path.replace("'", "''"))
    subprocess.run(["gnuplot"], input=head + script, text=True, check=True)
    subprocess.run([os.path.join(ROOT, "docs", "small_svg"), path], check=True)
    print("Wrote", os.path.relpath(path))


def curves(data, title, xlabel, ylabel, settings=""):
    """Returns a script that draws points (x, y) as a line for each implementation."""
    blocks, plots = "", []
    for name, points in data.items():
        lines = "\n".join(f"{x} {y}" for x, y in points)
        blocks += f"${name} << END\n{lines}\nEND\n"
        plots.append(f"${name} using 1:2 with linespoints {STYLES[name]} title '{name}'")
    return (
        f"{blocks}set title '{title}'\nset xlabel '{xlabel}'\nset ylabel '{ylabel}'\n"
        f"set key outside below\nset yrange [0:*]\n{settings}plot {', '.join(plots)}\n"
    )


def against_size(results, subject):
    """Returns the points (base-2 logarithm of N, microseconds) of each implementation."""

    def points(who):
        names = {log: results.name(subject, who, log) for log in results.logs(subject)}
        return [(log, results.ns(name) / 1e3) for log, name in names.items() if results.has(name)]

    return {who: points(who) for who in STYLES}


PICTURED_RATIOS = [
    *(("W1/cycle", 16), ("W1/cycle", 20), ("W1/cycle", 23)),
    *(("W2/append76", None), ("W2/cycle76", None), ("W2/append56k", None), ("W2/gather56k", None)),
    *(("W4/record", 20), ("W4/get5000", 20)),
]


def ratio_bars(results):
    """Returns a script for bars of how many times faster reprise is than the textbook."""
    bars = {}
    for subject, log in PICTURED_RATIOS:
        ratio = results.ratio(subject, log)
        if ratio is not None:
            bars[subject.replace("/", "\\n") + ("" if log is None else f"\\n2^{{{log}}}")] = ratio
    lines = "\n".join(f'"{label}" {ratio}' for label, ratio in bars.items())
    top = 1.1 * max(bars.values(), default=1)
    return (
        f"$bars << END\n{lines}\nEND\nset title 'Times faster than the textbook'\n"
        f"set style fill solid\nset boxwidth 0.6\nset yrange [0:{top}]\nunset key\n"
        "set xtics scale 0 font ',10'\nset bmargin 4.5\n"
        "plot $bars using 0:2:xtic(1) with boxes lc rgb '#1f77b4', "
        "$bars using 0:2:(sprintf('%.1f', $2)) with labels offset 0,0.7, "
        "1 lc rgb '#d62728' lw 2\n"
    )


def against_actors(results, counter, scale):
    """Returns points (actors, value of a counter) of each implementation, from the loads that
    append as fast as they can; None if fewer than two of these loads were run."""
    points = {}
    for who in STYLES:
        values = {a: load_counter(results, who, a, 0, counter) for a, pace, *_ in LOADS if not pace}
        points[who] = [(actors, v / scale) for actors, v in values.items() if v is not None]
    return points if len(points["reprise"]) > 1 else None


def latencies(results):
    """Returns a script that draws the quantiles of appends and of batches side by side."""
    script = "set multiplot layout 1,2 title '{} actors, {:,} steps/s'\n".format(*PICTURED_LOAD)
    # All but one call in so many are as fast as the quantile whose digits follow.
    quantiles = {2: 50, 10: 90, 100: 99, 1000: 999, 10000: 9999}
    for what in ("append", "batch"):
        data = {
            who: [
                (one_in, load_counter(results, who, *PICTURED_LOAD, f"{what}_p{digits}_ns"))
                for one_in, digits in quantiles.items()
            ]
            for who in STYLES
        }
        settings = "set logscale xy\nset yrange [*:*]\nset format y '%.0s%c'\n"
        script += curves(data, "", "all but one in", f"{what}, ns", settings)
    return script + "unset multiplot\n"


def beside_bars(page):
    """Returns a script for bars of each package's fastest time to draw 512 of a million items by
    priority and to update them. The figures are read from the page's table, so that both agree."""
    rows = page.split("<!-- report: beside -->")[1].split("\n\nSample and update, frames:")[0]
    fastest = {}
    for name, value, unit in re.findall(r"^\| ([^|]+) \|.* ([\d.,]+) (us|ms) \|$", rows, re.M):
        if "(uniform)" not in name:
            us = float(value.replace(",", "")) * {"us": US, "ms": MS}[unit] / US
            package = name.split(",")[0]
            fastest[package] = min(us, fastest.get(package, us))
    names = sorted(fastest, key=fastest.get)
    lines = "\n".join(f'"{name}" {fastest[name]:.0f} {name != "reprise":d}' for name in names)
    return (
        f"$bars << END\n{lines}\nEND\nset title '512 of a million items drawn by priority "
        "and updated, microseconds'\nunset key\n"
        f"unset grid\nset logscale x\nset xrange [10:20000]\nset yrange [{len(names)}-0.4:-0.6]\n"
        "set border 3\nset tics nomirror\nset ytics scale 0\nset style fill solid\n"
        "set palette defined (0 '#1f77b4', 1 '#aaaaaa')\nunset colorbox\nset cbrange [0:1]\n"
        "plot $bars using (10):0:(10):2:($0-0.36):($0+0.36):3:ytic(1) with boxxyerror lc palette, "
        "$bars using 2:0:(sprintf('%.0f', $2)) with labels left offset 0.5,0\n"
    )


def draw_beside(arguments):
    with open(arguments.page, encoding="utf-8") as file:
        draw_picture(arguments, "beside.svg", beside_bars(file.read()), height=220)


def draw(arguments, results):
    """Draws each picture whose figures were measured."""
    draw_beside(arguments)
    for subject, name, title in (
        ("W1/cycle", "cycle_cost.svg", "Draw 512 and update 512 (W1)"),
        ("W4/record", "record_cost.svg", "100 records (W4)"),
        ("W4/get5000", "get_cost.svg", "5000 windows of 8 steps (W4)"),
    ):
        data = against_size(results, subject)
        if all(data.values()):
            script = curves(data, title, "items, base-2 logarithm", "microseconds")
            draw_picture(arguments, name, script)
    draw_picture(arguments, "ratios.svg", ratio_bars(results))
    for counter, scale, name, ylabel in (
        ("appends_per_second", 1e6, "appends_against_actors.svg", "million appends/s"),
        ("batches_per_second", 1e3, "cycles_against_actors.svg", "1000 learner cycles/s"),
    ):
        data = against_actors(results, counter, scale)
        if data is not None:
            script = curves(data, "Flat out, one learner (W3)", "actors", ylabel)
            draw_picture(arguments, name, script)
    if load_counter(results, "reprise", *PICTURED_LOAD, "append_p50_ns") is not None:
        draw_picture(arguments, "latencies.svg", latencies(results))
