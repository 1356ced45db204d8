#!/usr/bin/env python3
"""Asynchronous actors whose policies lag behind, and a learner that never trains on a step of a
policy more than K versions old.

Each actor acts with a copy of the policy, which it renews from time to time;
`writer.set_version` tells the buffer the copy's version, and `replay.set_version` the learner's.
With `max_staleness=K` no item is drawn that lags further behind: if actors are too slow, the
learner waits for fresh steps. The task is a corridor with a goal at its end, and the policy is a table.

    python examples/python/stale_policies.py
"""

import threading

import numpy as np

import reprise

CELLS, ACTORS, UPDATES, BATCH, K = 12, 3, 600, 256, 6
GAMMA, LEARNING_RATE = 0.97, 2.0
EPISODE = 200  # The limit of an episode's steps.


class Policy:
    """One version of the policy. A version never changes."""

    def __init__(self, version: int, logits: np.ndarray) -> None:
        self.version, self.logits = version, logits
        exponentials = np.exp(logits)
        self.probabilities = exponentials / exponentials.sum(1, keepdims=True)


class Run:
    def __init__(self) -> None:
        schema = (
            reprise.Schema()
            .observation("cell", np.int64)
            .column("action", np.int64)
            .column("chance", np.float32)  # The action's probability when it was taken.
            .reward()
            .version()
        )
        self.replay = reprise.ReplayBuffer(
            schema,
            50_000,
            window=reprise.Transitions(discount=GAMMA),
            selectors=reprise.Uniform(),
            rate_limiter=reprise.MinSize(BATCH),
            max_staleness=K,
        )
        self.policy = Policy(0, np.zeros((CELLS, 2)))
        self.lengths: list[int] = []  # Lengths of the episodes of all actors.

    def act(self, seed: int) -> None:
        """An actor's thread, which fetches the policy before every (1 + seed)-th episode."""
        rng = np.random.default_rng(seed)
        with self.replay.writer() as writer:
            for episode in range(1_000_000):
                if episode % (1 + seed) == 0:
                    policy = self.policy
                    writer.set_version(policy.version)
                try:
                    self.lengths.append(self.play(writer, policy, rng))
                except reprise.Closed:
                    return

    def play(self, writer: reprise.Writer, policy: Policy, rng: np.random.Generator) -> int:
        """Plays an episode; returns its number of steps."""
        cell, end = 0, reprise.End.CONTINUE
        writer.begin_episode(cell=cell)
        while end == reprise.End.CONTINUE:
            chances = policy.probabilities[cell]
            action = int(rng.random() < chances[1])
            cell = max(cell + 2 * action - 1, 0)
            goal = cell == CELLS - 1
            end = reprise.ends(goal, writer.episode_steps == EPISODE - 1)
            writer.append(
                action=action, chance=chances[action], reward=float(goal), next_cell=cell, end=end
            )
        return writer.episode_steps

    def learn(self) -> np.ndarray:
        """Trains an actor-critic with truncated importance weights. Returns the staleness of all
        drawn items."""
        sampler = self.replay.sampler(seed=1)
        values, logits = np.zeros(CELLS), self.policy.logits.copy()
        items, staleness = np.arange(BATCH), []
        for version in range(1, UPDATES + 1):
            batch = sampler.sample(BATCH)
            staleness.append(batch.staleness(self.replay.version))
            cells, actions = batch["cell"], batch["action"]
            chances = self.policy.probabilities[cells]
            weights = np.minimum(chances[items, actions] / batch["chance"], 1.0)
            target = batch.returns["reward"] + batch.discounts * values[batch["next_cell"]]
            advantage = weights * (target - values[cells])
            np.add.at(values, cells, 0.5 * advantage / BATCH * CELLS)
            score = -chances * advantage[:, None]
            score[items, actions] += advantage
            np.add.at(logits, cells, LEARNING_RATE * score / BATCH * CELLS)
            self.policy = Policy(version, logits.copy())
            self.replay.set_version(version)
        return np.concatenate(staleness)


run = Run()
actors = [threading.Thread(target=run.act, args=(seed,)) for seed in range(ACTORS)]
for actor in actors:
    actor.start()
try:
    staleness = run.learn()
finally:
    run.replay.close()
    for actor in actors:
        actor.join()
stats = run.replay.stats()
print(f"staleness: mean {staleness.mean():.2f}, most {staleness.max()}, of {K} allowed")
print(f"outdated: {stats['ever_outdated_items']} of {stats['committed_steps']} steps")
first, last = np.mean(run.lengths[:20]), np.mean(run.lengths[-20:])
print(f"steps to the goal: {first:.0f} at first, {last:.0f} in the end, {CELLS - 1} at best")
assert staleness.max() <= K and last < first / 3
