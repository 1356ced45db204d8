"""Code that the benchmarks in Python share: options, the results file, and a page's sections."""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
NAME = os.path.relpath(os.path.abspath(sys.argv[0]), ROOT)


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help that shows defaults and keeps the description's line breaks."""


def parse(description, results, own_options, repetitions=5, quick=None, page="performance.md"):
    """Parses the options that every benchmark has, and those that `own_options(add)` adds.
    `results` is the name of the results file in build/. With --quick the options in `quick` take
    the values given there."""
    parser = argparse.ArgumentParser(description=description, formatter_class=_Help)
    add = parser.add_argument
    results = os.path.join(BUILD, results)
    add("--json", metavar="FILE", help=f"takes the results (default: {results})")
    add("--reuse", action="store_true", help="measure nothing: read that file")
    add("--repetitions", type=int, default=repetitions, help="of each, taking turns")
    add("--page", default=os.path.join(ROOT, "docs", page), help="the page to write into")
    add("--quick", action="store_true", help="see that it runs: small sizes; the page is kept")
    own_options(add)
    arguments = parser.parse_args()
    # A quick run must not replace a full run's results, unless --json names the file to write.
    arguments.keep = not arguments.quick or arguments.json is not None
    arguments.json = arguments.json or results
    if arguments.quick:
        vars(arguments).update({"repetitions": 1} | (quick or {}))
    return arguments


def require_paths(build, *paths):
    """Ends the program if one of `paths` does not exist, with a message that the command `build`
    makes it."""
    for path in paths:
        if not os.path.exists(path):
            sys.exit(f"{NAME}: there is no {path}: build it first with\n  {build}")


def machine():
    """Describes the processor, its cores and the memory. Has no commas, because a comma separates
    facts."""
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines()]
        facts = {key.strip(): value.strip() for key, value in lines}
        model = "{model name} (family {cpu family} model {model})".format_map(facts)
    except (OSError, KeyError, ValueError):
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model} with {os.cpu_count()} CPUs and {memory:.0f} GiB"


def revision():
    """Returns what `git describe` calls the commit of the sources, or "unknown"."""
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def facts(arguments):
    """Returns the machine, date and other facts that the page shows beside results."""
    return {
        "machine": machine(),
        "revision": revision(),
        "date": datetime.date.today().isoformat(),
        "repetitions": arguments.repetitions,
        "load": os.getloadavg()[0],
        "quick": arguments.quick,
    }


def facts_list(results, measured_with, how):
    """Formats the facts of results as a Markdown list."""
    return "\n".join(
        [
            f"- Machine: {results['machine']}",
            f"- Date: {results['date']}; {measured_with}",
            f"- Sources: {results['revision']}",
            f"- {how}; load average before the run {results['load']:.1f}",
        ]
    )


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(arguments, results):
    if arguments.keep:
        os.makedirs(os.path.dirname(os.path.abspath(arguments.json)), exist_ok=True)
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def replace_section(page, name, text):
    """Returns the page with the text between the markers of section `name` replaced."""
    begin, end = f"<!-- report: {name} -->", f"<!-- end: {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        sys.exit(f"{NAME}: the page needs the markers {begin} and {end} once")
    head, rest = page.split(begin)
    return head + begin + "\n" + text.strip() + "\n" + end + rest.split(end)[1]


def write(arguments, sections):
    """Writes each section into the page, between the markers of its name."""
    with open(arguments.page, encoding="utf-8") as file:
        page = file.read()
    for name, text in sections.items():
        page = replace_section(page, name, text)
    with open(arguments.page, "w", encoding="utf-8") as file:
        file.write(page)
    print("Wrote", os.path.relpath(arguments.page))


def run(arguments, measure, sections):
    """Measures, or with --reuse loads an earlier run's results. Writes the sections made of the
    results into the page, or, if they are of a quick run, prints the sections. Returns the
    results."""
    if arguments.reuse:
        results = load(arguments.json)
    else:
        results = measure(arguments)
        save(arguments, results)
    made = sections(results)
    if arguments.quick or results.get("quick"):
        print("\n\n".join(made.values()))
    else:
        write(arguments, made)
    return results
