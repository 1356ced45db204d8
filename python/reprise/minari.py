"""Offline data of Minari in a replay buffer.

import reprise.minari

demonstrations = reprise.minari.load("D4RL/door/human-v2")
batch = demonstrations.sampler(seed=1).sample(256)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import reprise

__all__ = ["load"]


def load(
    dataset: Any,
    *,
    download: bool = False,
    action: str = "action",
    reward: str = "reward",
    **options: Any,
) -> reprise.ReplayBuffer:
    """A buffer with all episodes of a dataset, in their order.

    dataset: a minari.MinariDataset, filtered or not, or the id of one. download: whether a dataset
    that is not on this machine is fetched. options: of reprise.ReplayBuffer, such as window and
    selectors; capacity_steps is the number of the dataset's steps unless given.

    The fields are those of Schema.from_spaces: "obs", or the keys of a Dict, and those that `action`
    and `reward` name. An episode ends as terminated or truncated as the dataset says; if it says
    neither, as truncated. Infos are left out. TimeoutError if a rate limiter, such as
    SampleToInsertRatio, lets no more steps in before something is drawn; ValueError for a dataset
    without steps; TypeError for spaces that Schema.from_spaces does not take.
    """
    data = dataset
    if isinstance(dataset, str):
        import minari

        data = minari.load_dataset(dataset, download=download)
    schema = reprise.Schema.from_spaces(
        data.observation_space, data.action_space, action=action, reward=reward
    )
    steps = int(data.total_steps)
    if steps == 0:
        raise ValueError("reprise.minari.load: the dataset has no steps")
    replay = reprise.ReplayBuffer(schema, **{"capacity_steps": steps} | options)
    with replay.writer(timeout=0.0) as writer:
        for episode in data.iterate_episodes():
            observations = episode.observations
            terminated = bool(np.any(episode.terminations))
            writer.append_episode(
                **reprise.named("" if isinstance(observations, dict) else "obs", observations),
                **reprise.named(action, episode.actions),
                **{reward: np.asarray(episode.rewards, np.float32)},
                end=reprise.End.TERMINATED if terminated else reprise.End.TRUNCATED,
            )
    return replay
