"""The rivals of reprise.ray: RLlib's scheme, and torchrl's RayReplayBuffer.

Each class has `cycle`, which draws a batch of small rows and updates its priorities. A row has an
observation of 32 bytes, an action and a reward; episodes have 200 steps.
"""

import functools

import numpy as np
import ray

ALPHA, BETA = 0.6, 0.4
BATCH = 512
EPISODE = 200


def columns(steps, seed):
    """Observations [steps + 1, 32] of bytes, actions and rewards [steps]."""
    random = np.random.default_rng(seed)
    states = random.integers(256, size=(steps + 1, 32), dtype=np.uint8)
    return states, random.integers(4, size=steps), random.random(steps, np.float32)


class Episodes:
    """RLlib's buffer of its new API stack: PrioritizedEpisodeReplayBuffer."""

    def __init__(self, steps):
        from ray.rllib.env.single_agent_episode import SingleAgentEpisode
        from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

        self._buffer = PrioritizedEpisodeReplayBuffer(steps, alpha=ALPHA)
        for number in range(steps // EPISODE):
            states, actions, rewards = columns(EPISODE, number)
            episode = SingleAgentEpisode(
                observations=list(states),
                actions=list(actions),
                rewards=list(rewards),
                len_lookback_buffer=0,
                terminated=True,
            )
            self._buffer.add(episode.to_numpy())

    def cycle(self, priorities):
        """Updates the last batch, and draws the next one."""
        if priorities is not None:
            self._buffer.update_priorities(priorities)
        return self._buffer.sample(BATCH, n_step=1, gamma=0.99, beta=BETA)


class Batches:
    """RLlib's buffer of its old API stack, which its Ape-X used: PrioritizedReplayBuffer."""

    def __init__(self, steps):
        from ray.rllib.policy.sample_batch import SampleBatch
        from ray.rllib.utils.replay_buffers import PrioritizedReplayBuffer

        self._buffer = PrioritizedReplayBuffer(steps, storage_unit="timesteps", alpha=ALPHA)
        for number in range(steps // EPISODE):
            states, actions, rewards = columns(EPISODE, number)
            ends = np.arange(EPISODE) == EPISODE - 1
            self._buffer.add(
                SampleBatch(
                    {
                        "obs": states[:-1],
                        "new_obs": states[1:],
                        "actions": actions,
                        "rewards": rewards,
                        "terminateds": ends,
                    }
                )
            )
        self._drawn = None

    def cycle(self, priorities):
        """Updates the last batch, and draws the next one."""
        if priorities is not None:
            self._buffer.update_priorities(self._drawn, priorities)
        batch = self._buffer.sample(BATCH, beta=BETA)
        self._drawn = batch["batch_indexes"]
        return dict(batch)


class RLlib:
    """RLlib's scheme: each batch comes whole from one shard, an actor with a buffer of RLlib, and
    all shards prepare their next batch while the learner works."""

    def __init__(self, kind, steps, shards):
        actor = ray.remote(num_cpus=0)(kind)
        self._actors = [actor.remote(steps // shards) for _ in range(shards)]
        self._drawn = {one.cycle.remote(None): one for one in self._actors}

    def cycle(self, priorities):
        (ready,), _ = ray.wait(list(self._drawn), num_returns=1)
        actor = self._drawn.pop(ready)
        batch = ray.get(ready)
        self._drawn[actor.cycle.remote(priorities)] = actor
        return batch

    def close(self):
        for one in self._actors:
            ray.kill(one)


class TorchRL:
    """torchrl's RayReplayBuffer: one actor has the whole buffer, and answers one call after the
    other."""

    def __init__(self, steps, shards):
        import torch
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
        from torchrl.data.replay_buffers.ray_buffer import RayReplayBuffer
        from torchrl.data.replay_buffers.samplers import PrioritizedSampler

        self._torch = torch
        self._buffer = RayReplayBuffer(
            replay_buffer_cls=TensorDictReplayBuffer,
            storage=functools.partial(LazyTensorStorage, steps),
            sampler=functools.partial(PrioritizedSampler, steps, ALPHA, BETA),
            batch_size=BATCH,
            remote_config={"num_cpus": 0},
        )
        states, actions, rewards = columns(steps, 1)
        self._buffer.extend(
            TensorDict(
                {
                    "observation": torch.from_numpy(states[:-1]),
                    "action": torch.from_numpy(actions),
                    "next": {
                        "observation": torch.from_numpy(states[1:]),
                        "reward": torch.from_numpy(rewards),
                        "terminated": torch.zeros(steps, dtype=torch.bool),
                    },
                },
                batch_size=[steps],
            )
        )

    def cycle(self, priorities):
        batch = self._buffer.sample()
        self._buffer.update_priority(batch["index"], self._torch.from_numpy(priorities))
        return batch

    def close(self):
        self._buffer.close()
