"""docs/performance.md as a page with sections to rewrite, and what its figures were taken on."""

import os
import platform
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT_PAGE = os.path.join(ROOT, "docs", "performance.md")


def machine():
    """The processor, its number and the memory, in words without commas."""
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            facts = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines())
        facts = {key.strip(): value.strip() for key, value in facts.items()}
        model = "{} (family {} model {})".format(
            facts["model name"], facts["cpu family"], facts["model"])
    except (OSError, KeyError, ValueError):
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return "{} with {} CPUs and {:.0f} GiB".format(model, os.cpu_count(), memory)


def revision():
    """What git calls the sources, or nothing."""
    try:
        return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], check=True,
                              capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def replace_section(page, name, text):
    """What stands between the markers of that name becomes `text`."""
    begin, end = "<!-- report: {} -->".format(name), "<!-- end: {} -->".format(name)
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        sys.exit("{}: the page needs the markers {} and {} once".format(
            os.path.relpath(sys.argv[0], ROOT), begin, end))
    head, rest = page.split(begin)
    return head + begin + "\n" + text.strip() + "\n" + end + rest.split(end)[1]
