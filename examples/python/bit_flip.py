#!/usr/bin/env python3
"""Learns to flip bits until they equal a goal, with hindsight and without.

This is the experiment of Andrychowicz et al., "Hindsight experience replay", 2017, section 3.1 and
figure 1. n bits and n goal bits are random. An action flips one bit, an episode ends after n steps
or at the goal, and every step before the goal costs 1. Without hindsight a DQN learns this only
with few bits: with more, hardly any random episode ends at its goal. Draws the share of goals
reached, the median over seeds. Exits with 0 if, with the most bits, the DQN with hindsight reached
nearly all goals and the DQN without it hardly any.
"""

import argparse
import sys
import time

import matplotlib

matplotlib.use("svg")  # This backend needs no display. The file's ending decides the format.

import matplotlib.pyplot as plt
import numpy as np
import reprise
import torch
from torch import nn

BITS = [4, 7, 10, 13, 16]
SEEDS = 3
ENVIRONMENTS = 16
CYCLES, UPDATES = 300, 20  # A cycle is an episode of each environment, then UPDATES updates.
CAPACITY = 200_000  # Capacity in steps.
BATCH, DISCOUNT, LEARNING_RATE, AVERAGING = 256, 0.98, 1e-3, 0.05
EXPLORE = 0.2  # Share of actions that are random.
SHARE = 0.8  # Share of items that get another goal (k = 4 in the paper).
TEST_EPISODES = 500  # Number of greedy episodes in the test.


class Agent:
    """A DQN over bits and goal bits."""

    def __init__(self, bits, seed):
        torch.manual_seed(seed)
        self.bits = bits
        self.online, self.target = (
            nn.Sequential(nn.Linear(2 * bits, 256), nn.ReLU(), nn.Linear(256, bits))
            for _ in range(2)
        )
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), LEARNING_RATE)

    @torch.no_grad()
    def greedy(self, state, goal):
        return self.online(torch.from_numpy(np.hstack((state, goal)))).argmax(1).numpy()

    def learn(self, batch):
        goal = torch.from_numpy(batch["goal"])
        after = torch.from_numpy(batch["next_bits"])
        reached = (after == goal).all(1)  # Rewards follow from the batch's goals, which may be new.
        with torch.no_grad():
            value = self.target(torch.hstack((after, goal))).amax(1)
            # A step costs at most 1, so no value is below the discounted sum of endless costs of 1.
            targets = (DISCOUNT * value - 1).clamp(-1 / (1 - DISCOUNT), 0) * ~reached
        action = torch.from_numpy(batch["action"])
        values = self.online(torch.hstack((torch.from_numpy(batch["bits"]), goal)))
        loss = nn.functional.smooth_l1_loss(values.gather(1, action[:, None]).squeeze(1), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for average, parameter in zip(self.target.parameters(), self.online.parameters()):
                average.lerp_(parameter, AVERAGING)


def episodes(agent, count, explore, random):
    """Plays episodes. Returns bits [E, n + 1, n], goals [E, n], actions [E, n], lengths [E], and
    for each episode whether it reached its goal [E]."""
    n = agent.bits
    bits = np.empty((count, n + 1, n), np.float32)
    bits[:, 0] = random.integers(2, size=(count, n))
    goals = random.integers(2, size=(count, n)).astype(np.float32)
    actions = np.empty((count, n), np.int64)
    for step in range(n):
        at_random = random.random(count) < explore
        greedy = agent.greedy(bits[:, step], goals)
        actions[:, step] = np.where(at_random, random.integers(n, size=count), greedy)
        flipped = np.arange(count), actions[:, step]
        bits[:, step + 1] = bits[:, step]
        bits[:, step + 1][flipped] = 1 - bits[:, step][flipped]
    at_goal = (bits[:, 1:] == goals[:, None]).all(2)
    reached = at_goal.any(1)
    lengths = np.where(reached, at_goal.argmax(1) + 1, n)
    return bits, goals, actions, lengths, reached


def train(bits, with_hindsight, seed):
    """Trains an agent. Returns the share of greedy episodes that then reach their goals."""
    random = np.random.default_rng(seed)
    agent = Agent(bits, seed)
    schema = (
        reprise.Schema()
        .observation("bits", np.float32, (bits,))
        .column("goal", np.float32, (bits,))
        .column("action", np.int64)
    )
    replay = reprise.ReplayBuffer(schema, CAPACITY, selectors=reprise.Uniform())
    writer = replay.writer()
    sampler = replay.sampler(seed=seed)
    hindsight = replay.hindsight("bits", goal="future", share=SHARE, seed=seed)
    for _ in range(CYCLES):
        for path, goal, action, length, reached in zip(
            *episodes(agent, ENVIRONMENTS, EXPLORE, random)
        ):
            writer.append_episode(
                bits=path[: length + 1],
                goal=np.broadcast_to(goal, (length, bits)),
                action=action[:length],
                end=reprise.End.TERMINATED if reached else reprise.End.TRUNCATED,
            )
        for _ in range(UPDATES):
            batch = sampler.sample(BATCH)
            if with_hindsight:
                hindsight.relabel(batch.item_keys, batch["goal"])
            agent.learn(batch)
    *_, reached = episodes(agent, TEST_EPISODES, explore=0, random=random)
    return reached.mean()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("file", help="picture to write: .svg, .png or .pdf")
    parser.add_argument("--bits", type=int, nargs="+", default=BITS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    torch.set_num_threads(1)  # The network is too small for several threads.

    started = time.monotonic()
    reached = np.empty((2, len(options.bits), options.seeds))
    for index, bits in enumerate(options.bits):
        for with_hindsight in (0, 1):
            for seed in range(options.seeds):
                reached[with_hindsight, index, seed] = train(bits, with_hindsight, seed)
        without, with_it = np.median(reached[:, index], axis=1)
        print(
            f"{time.monotonic() - started:5.0f} s  {bits:2} bits: {without:4.0%} of the goals "
            f"reached without hindsight, {with_it:4.0%} with it",
            flush=True,
        )

    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    for row, name, color in ((1, "with hindsight", "#1f77b4"), (0, "without", "#d62728")):
        axis.plot(options.bits, np.median(reached[row], axis=1), color=color, label=name)
        axis.fill_between(
            options.bits, reached[row].min(1), reached[row].max(1), color=color, alpha=0.2
        )
    axis.set(xlabel="bits", ylabel="goals reached", ylim=(-0.02, 1.02))
    axis.set_title(f"Bit flipping: a DQN, median and range of {options.seeds} seeds", loc="left")
    axis.legend(frameon=False)
    figure.savefig(options.file)
    without, with_it = np.median(reached[:, -1], axis=1)
    return 0 if with_it > 0.9 and without < 0.1 else 1


if __name__ == "__main__":
    sys.exit(main())
