"""Fills RLlib's metrics for a buffer of reprise.rllib, with the names that RLlib's buffers use."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from ray.rllib.utils.replay_buffers.episode_replay_buffer import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID

import reprise


def log_added(
    buffer: Any, episodes_added: int, steps: int, evicted: int, steps_evicted: int
) -> None:
    """Logs the episodes and steps that a call of `add` appended, and those that it evicted."""
    counts = {
        "episodes_added": episodes_added,
        "steps_added": steps,
        "episodes_evicted": evicted,
        "steps_evicted": steps_evicted,
    }
    buffer._update_add_metrics(
        num_episodes_added=episodes_added,
        num_env_steps_added=steps,
        num_episodes_evicted=evicted,
        num_env_steps_evicted=steps_evicted,
        **_per_agent(counts),
    )


def log_drawn(buffer: Any, batch: reprise.Batch) -> None:
    """Logs the items of a batch."""
    counts = {
        "steps_sampled": len(batch),
        "episodes_per_sample": len(np.unique(batch.episode_ids)),
        "steps_per_sample": len(np.unique(batch.item_keys)),
        "resamples": 0,
    }
    mean = float(batch.lengths.mean())
    buffer._update_sample_metrics(
        num_env_steps_sampled=counts["steps_sampled"],
        num_episodes_per_sample=counts["episodes_per_sample"],
        num_env_steps_per_sample=counts["steps_per_sample"],
        sampled_n_step=mean,
        num_resamples=0,
        agent_to_sampled_n_step={DEFAULT_AGENT_ID: mean},
        module_to_sampled_n_step={DEFAULT_MODULE_ID: mean},
        **_per_agent(counts),
    )


def _per_agent(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The counts as RLlib has them by agent and by module, here of a single agent."""
    return {
        f"{kind}_to_num_{name}": {default_id: count}
        for name, count in counts.items()
        for kind, default_id in (("agent", DEFAULT_AGENT_ID), ("module", DEFAULT_MODULE_ID))
    }
