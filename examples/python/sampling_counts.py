#!/usr/bin/env python3
"""Draws from 100 items of rising priority by every selector, raises the priorities of items 0 to
30, and draws again. Compares the counts of draws with their exact expectation, and makes a picture
of both. Exits with 0 if all counts fit.
"""

import argparse
import sys

import matplotlib

matplotlib.use("svg")  # This backend needs no display. The file's ending decides the format.

import matplotlib.pyplot as plt
import numpy as np
import reprise

ITEMS, RAISED, DRAWS, BATCH = 100, 31, 100_000, 10
ALPHA, RANK_ALPHA = 0.6, 0.7

# For each selector: title, selector, and a function from the priorities to the weights of all
# items.
AT_RANDOM = [
    ("Uniform", reprise.Uniform(), np.ones_like),
    (
        f"Proportional, alpha {ALPHA}",
        reprise.Proportional(alpha=ALPHA, epsilon=0),
        lambda priorities: priorities**ALPHA,
    ),
    (
        f"RankBased, alpha {RANK_ALPHA}",
        reprise.RankBased(alpha=RANK_ALPHA),
        lambda priorities: (1.0 + np.argsort(np.argsort(-priorities))) ** -RANK_ALPHA,
    ),
]
# For each selector: title, selector, and the first of the ten consecutive items in a batch, before
# and after the update of priorities.
IN_ORDER = [
    ("Fifo", reprise.Fifo(), (0, 0)),
    ("Lifo", reprise.Lifo(), (90, 90)),
    ("MinHeap", reprise.MinHeap(), (0, 31)),
    ("MaxHeap", reprise.MaxHeap(), (90, 21)),
]
SELECTORS = [selector for _, selector, _ in AT_RANDOM + IN_ORDER]


def counts(replay, place, seed):
    """Returns how often each item was drawn, [ITEMS]."""
    batch = replay.selector(place).sampler(seed=seed).sample(DRAWS, draws="independent")
    return np.bincount(batch.positions, minlength=ITEMS)


def deviations(drawn, expected):
    """Returns how far Pearson's chi-square is from its mean in standard deviations, by the
    approximation of Wilson and Hilferty (1931)."""
    freedom = ITEMS - 1
    variance = 2 / (9 * freedom)
    statistic = ((drawn - expected) ** 2 / expected).sum()
    return (np.cbrt(statistic / freedom) - (1 - variance)) / np.sqrt(variance)


def draw_stage(replay, priorities, axes, title, stage):
    """Draws one column of the picture. Returns whether all counts fit."""
    print(title)
    good = True
    for place, (name, _, weights) in enumerate(AT_RANDOM):
        drawn = counts(replay, place, seed=stage + 1)
        expected = weights(priorities)
        expected = DRAWS * expected / expected.sum()
        deviation = deviations(drawn, expected)
        print(f"  {name:24} {deviation:+.1f} standard deviations from the expectation")
        good &= abs(deviation) < 4

        axis = axes[place]
        axis.bar(np.arange(ITEMS), drawn, width=1.0, color="#9ecae1", label="drawn")
        axis.plot(expected, color="#d62728", linewidth=1.5, label="expected")
        axis.set_title(name, loc="left", fontsize=10, fontweight="bold")
        axis.set_ylabel("times drawn")

    strips = np.zeros((len(IN_ORDER), ITEMS))
    for row, (name, _, firsts) in enumerate(IN_ORDER):
        batch = replay.selector(len(AT_RANDOM) + row).sampler().sample(BATCH)
        items = np.sort(batch.positions)
        print(f"  {name:24} {items}")
        good &= np.array_equal(items, firsts[stage] + np.arange(BATCH))
        strips[row, items] = 1
    axis = axes[len(AT_RANDOM)]
    axis.set_ylim(len(IN_ORDER), 0)
    axis.pcolormesh(strips, cmap="Blues", vmax=1.3, edgecolors="white", linewidth=0.5)
    axis.set_yticks(np.arange(len(IN_ORDER)) + 0.5, [name for name, _, _ in IN_ORDER])
    axis.set_title("A batch of 10, drawn in order", loc="left", fontsize=10)
    axis.set_xlabel("item")
    axes[0].annotate(title, (0, 1.25), xycoords="axes fraction", fontsize=12)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="picture to write: .svg, .png or .pdf")
    options = parser.parse_args()

    # All selectors draw from the same items, each by weights of its own.
    schema = reprise.Schema().column("number", np.int32)
    replay = reprise.ReplayBuffer(schema, ITEMS, selectors=SELECTORS, episode_index=True)
    priorities = np.arange(1, ITEMS + 1, dtype=np.float32)
    writer = replay.writer()
    writer.begin_episode()
    for number, priority in enumerate(priorities):
        writer.append(number=number, priorities=[priority])

    figure, axes = plt.subplots(
        len(AT_RANDOM) + 1, 2, figsize=(11, 9), sharex=True, sharey="row", layout="constrained"
    )
    good = draw_stage(replay, priorities, axes[:, 0], "Item i has priority i + 1", 0)

    priorities[:RAISED] += 100
    for place in range(len(SELECTORS)):
        replay.episodes().update_priorities(writer.episode_id, 0, priorities[:RAISED], place)
    title = f"After 100 was added to those of items 0 to {RAISED - 1}"
    good &= draw_stage(replay, priorities, axes[:, 1], title, 1)

    figure.suptitle(f"{DRAWS:,} draws of {ITEMS} items", x=0.01, ha="left", fontweight="bold")
    axes[0, 1].legend(loc="upper right", ncols=2, bbox_to_anchor=(1, 1.3), frameon=False)
    figure.savefig(options.file)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
