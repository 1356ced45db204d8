"""Formats tables of Markdown, and the figures in them."""

US, MS = 1e3, 1e6  # Nanoseconds per microsecond and per millisecond.


def table(header, rows):
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    text[1] = text[1].replace(" ", "")
    return "\n".join(text)


def digits(value):
    """Formats a number with three significant digits and without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(ratio):
    return "not measured" if ratio is None else digits(ratio) + "x"


def short(ns):
    """Formats nanoseconds, as ns, us or ms."""
    if ns < US:
        return digits(ns) + " ns"
    return digits(ns / US) + " us" if ns < MS else digits(ns / MS) + " ms"


def size(log):
    return "" if log is None else f"2^{log}"


class Targets:
    """A table of targets, and whether each was met. A measured value of None means: not
    measured."""

    def __init__(self):
        self._rows = []

    def add(self, what, target, measured, met):
        verdict = "" if met is None else "yes" if met else "no"
        self._rows.append([what, target, measured, verdict])

    def at_least(self, what, least, ratio):
        met = None if ratio is None else ratio >= least
        self.add(what, f"at least {least:g}x", times(ratio), met)

    def below(self, what, most, value, unit):
        measured = "not measured" if value is None else f"{digits(value)} {unit}"
        self.add(what, f"below {most:g} {unit}", measured, None if value is None else value < most)

    def table(self, *header):
        return table(header or ["measure", "target", "measured", "met"], self._rows)
