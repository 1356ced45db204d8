#!/usr/bin/env python3
"""Counts the updates until Q-learning knows a walk along a cliff, with three ways to draw its steps.

In each cell one move goes on and the other move falls, which ends the walk; only the last cell
pays. A single walk comes that far. So it helps to draw steps with large errors, but the targets of
early steps are wrong while later values are wrong. ReaPER (Pleiss et al., "Reliability-adjusted
prioritized experience replay", 2025) multiplies the priority of an error by its reliability: 1 less
the share of the episode's errors that belong to later steps. A second selector holds the errors and
sums them. Prints the median over seeds; exits with 0 if ReaPER's median is the lowest.
"""

import sys

import numpy as np
import reprise

CELLS, WALKS, COURAGE, DISCOUNT = 24, 500, 0.85, 0.97
BATCH, RATE, ALPHA, OMEGA = 16, 0.25, 0.6, 0.6
TOLERANCE, SEEDS, MAX_UPDATES = 0.05, 20, 20_000

SCHEMA = reprise.Schema().observation("cell", np.int64).column("move", np.int64).reward()
PLAIN = reprise.Proportional(alpha=1.0, epsilon=0.0)  # Weights equal the priorities.


def record_walks(random):
    """Returns a buffer of walks, each of which goes on with probability COURAGE in each cell."""
    replay = reprise.ReplayBuffer(SCHEMA, 50_000, selectors=[PLAIN, PLAIN], episode_index=True)
    with replay.writer() as writer:
        for walk in range(WALKS):
            steps = min(random.geometric(1 - COURAGE), CELLS) if walk > 0 else CELLS
            moves = np.ones(steps, np.int64)
            moves[-1] = walk == 0  # Only the first walk comes to the end.
            cells = np.append(np.arange(steps), CELLS)
            reward = (np.arange(1, steps + 1) == CELLS) * moves
            writer.append_episode(cell=cells, move=moves, reward=reward, end=reprise.End.TERMINATED)
    return replay


def updates(method, seed):
    """Learns until no value is wrong by TOLERANCE or more; returns the number of updates."""
    random = np.random.default_rng(seed)
    replay = record_walks(random)
    episodes, sampler = replay.episodes(), replay.sampler(seed=seed)
    exact = np.stack([np.zeros(CELLS), DISCOUNT ** np.arange(CELLS)[::-1]], 1)  # Exact values.
    all_steps = sampler.sample(len(replay), draws="epoch")
    stored = all_steps["cell"], all_steps["move"]
    values = np.zeros((CELLS + 1, 2))
    values[stored] = random.random((CELLS, 2))[stored]
    for count in range(MAX_UPDATES):
        if np.abs(values[stored] - exact[stored]).max() < TOLERANCE:
            break
        batch = sampler.sample(BATCH)
        at, keys = (batch["cell"], batch["move"]), batch.item_keys
        errors = batch["reward"] + DISCOUNT * values[batch["next_cell"]].max(1) - values[at]
        # No importance weights: rewards and moves are not random, so draws bias no value.
        values[at] += RATE * errors
        errors = np.abs(errors)
        if method == "prioritized":
            replay.update_priorities(keys, errors**ALPHA)
        elif method == "reliable":
            replay.selector(1).update(keys, errors)
            after, total = episodes.sums(keys, selector=1)
            reliability = 1 - after / np.maximum(total, 1e-9)
            replay.update_priorities(keys, errors**ALPHA * reliability**OMEGA)
    return count


def main():
    medians = {}
    for method in ("uniform", "prioritized", "reliable"):
        counts = [updates(method, seed) for seed in range(SEEDS)]
        medians[method] = np.median(counts)
        print(f"{method}: {medians[method]:.0f} updates of {BATCH}, {min(counts)} to {max(counts)}")
    return int(min(medians, key=medians.get) != "reliable")


if __name__ == "__main__":
    sys.exit(main())
