"""Replay buffers for Stable-Baselines3, with reprise inside.

    from reprise.sb3 import ReplayBuffer

    model = SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=ReplayBuffer)

`DictReplayBuffer` is for observation spaces that are a Dict, `PrioritizedReplayBuffer` for either,
`HerReplayBuffer` for those with goals. They take the arguments of Stable-Baselines3's own buffers,
and all but the last also take n_steps and gamma: `replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99}`,
where gamma has to be the algorithm's.

What differs from Stable-Baselines3's own:

- Each observation is stored once, whatever `optimize_memory_usage` says, and time limits are kept.
  An observation that equals the last next observation of its environment continues the episode,
  any other one begins a new one.
- An n-step transition can be drawn once its n steps are there or its episode has ended. Its reward
  is normalised by VecNormalize as a sum: `clip_reward` limits the sum. `learning_starts` has to be
  at least (n_steps - 1) * n_envs, or training begins with nothing to draw, a TimeoutError.
- There are no arrays `observations`, `actions`, `rewards`, `timeouts`, and no draws by places in
  them (`_get_samples`), because items have keys instead.
- `HerReplayBuffer` draws steps of episodes under way, too, with goals from their steps so far, and
  from an episode whose oldest steps are gone the steps that are left. With "episode" the step's own
  observation is never the new goal, and the first observation of the episode may be.
- A batch is in the order of memory, which is neither random nor by time. Algorithms that take a batch
  as a whole need no other order: shuffle it before you cut it into parts.
- Draws are uniform over all transitions; an empty buffer raises TimeoutError. Random numbers are
  the buffer's own, seeded from numpy's when it is made, so the algorithm's `seed` fixes them.
- Tensors of a batch on the CPU share the batch's memory, and are the caller's own.
- A pickle (`save_replay_buffer`) holds a checkpoint, in which open episodes end as truncated.

One thread at a time, as the originals.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common import buffers
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.her.goal_selection_strategy import (
    KEY_TO_GOAL_STRATEGY,
    GoalSelectionStrategy,
)
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as TheirHerReplayBuffer

import reprise

from ._compress import compress_option, compressed
from ._files import from_files, to_files

__all__ = [
    "DictReplayBuffer",
    "HerReplayBuffer",
    "PrioritizedReplayBuffer",
    "PrioritizedSamples",
    "ReplayBuffer",
]


class PrioritizedSamples(NamedTuple):
    """A batch of B transitions drawn by priority. All are tensors except `item_keys`.

    observations, next_observations: [B, *shape], or a dict of them. actions: [B, action_dim].
    dones: float32 [B, 1], 1 where nothing follows. rewards: float32 [B, 1], the n-step returns.
    discounts: float32 [B, 1], gamma to the number of steps in the return. None if the buffer has no
    gamma: the algorithm then uses its own.
    weights: float32 [B, 1], importance weights, at most 1.
    item_keys: int64 numpy array [B], for `update_priorities`.
    """

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    discounts: torch.Tensor | None
    weights: torch.Tensor
    item_keys: NDArray[np.int64]


class ReplayBuffer(buffers.ReplayBuffer):  # type: ignore[misc]  # Untyped to mypy here.
    """A ring of the latest `buffer_size` transitions of all environments, drawn uniformly.

    buffer_size, observation_space, action_space, device, n_envs, handle_timeout_termination: as in
    Stable-Baselines3. optimize_memory_usage: accepted without effect.
    n_steps, gamma: rewards of n steps are summed with this discount, float32. ValueError for n_steps
    above 1 without gamma.
    compress: keeps observations of at least 512 bytes, such as images, compressed in memory; see
    reprise.Schema.compress. True: all of them; a list: those with these keys, "obs" if the space is
    no Dict. ValueError for other keys, and for True if no observation is that large.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        n_steps: int = 1,
        gamma: float | None = None,
        compress: bool | Sequence[str] = False,
    ) -> None:
        if n_steps > 1 and gamma is None:
            raise ValueError(
                f"{type(self).__name__}: gamma is missing, and n_steps is {n_steps}; allowed: the "
                "gamma of the algorithm"
            )
        # The base's own constructor would allocate its arrays.
        buffers.BaseBuffer.__init__(
            self, buffer_size, observation_space, action_space, device, n_envs=n_envs
        )
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.n_steps = n_steps
        self.gamma = gamma
        self._action_dtype = np.dtype(self._maybe_cast_dtype(action_space.dtype))
        self._action_shape = (n_envs, self.action_dim)
        self._is_dict = isinstance(observation_space, spaces.Dict)
        # For each observation field: its key, its shape over all environments, and its dtype.
        self._observations: dict[str, tuple[str, tuple[int, ...], np.dtype[Any]]] = (
            {
                f"obs/{key}": (key, (n_envs, *self.obs_shape[key]), np.dtype(space.dtype))
                for key, space in observation_space.spaces.items()
            }
            if self._is_dict
            else {"obs": ("", (n_envs, *self.obs_shape), np.dtype(observation_space.dtype))}
        )
        call = type(self).__name__
        names = {key or name: name for name, (key, _, _) in self._observations.items()}
        sizes = {
            key or name: int(np.prod(shape[1:])) * dtype.itemsize
            for name, (key, shape, dtype) in self._observations.items()
        }
        chosen = compressed(call, compress_option(call, compress), sizes)
        self._compressed = [names[name] for name in chosen]
        self.reset()

    # Stable-Baselines3 reads these: the place of the next step in a ring, and whether that is full.
    pos: int
    full: bool

    def _selector(self) -> Any:
        return reprise.Uniform()

    def _with_columns(self, schema: reprise.Schema) -> reprise.Schema:
        """Adds the columns that `_values` gives."""
        return schema

    def _values(self, infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The values of the columns that `_with_columns` adds, for a step with these infos."""
        return {}

    def reset(self) -> None:
        """Empties the buffer."""
        super().reset()
        schema = reprise.Schema()
        for name, (_, shape, dtype) in self._observations.items():
            schema.observation(name, dtype, shape[1:])
        for name in self._compressed:
            schema.compress(name)
        schema.column("action", self._action_dtype, (self.action_dim,))
        schema.reward("reward")
        self._replay = reprise.ReplayBuffer(
            self._with_columns(schema),
            self.buffer_size * self.n_envs,
            # The algorithm discounts single steps itself.
            window=reprise.Transitions(
                n_step=self.n_steps, discount=1.0 if self.gamma is None else self.gamma
            ),
            selectors=self._selector(),
            max_writers=self.n_envs,
            shards=1,  # Several shards would not evict the oldest step first.
        )
        self._set_sampler(self._replay.sampler(seed=int(np.random.randint(2**31))))

    def _set_sampler(self, sampler: reprise.Sampler) -> None:
        self._writers = self._replay.vector_writer(self.n_envs, autoreset="disabled")
        self._sampler = sampler

    @property
    def replay(self) -> reprise.ReplayBuffer:
        """The buffer inside, for its `stats()` and `save`, for example."""
        return self._replay

    @property
    def dones(self) -> NDArray[np.float32]:
        """Zeros [buffer_size, n_envs]. Algorithms with `optimize_memory_usage` mark the last step of
        an episode here, which this buffer need not read: a first observation tells it the same."""
        return np.zeros((self.buffer_size, self.n_envs), np.float32)

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: ArrayLike,
        reward: ArrayLike,
        done: ArrayLike,
        infos: Sequence[Mapping[str, Any]],
    ) -> None:
        """Appends one transition of every environment.

        obs, next_obs: [n_envs, *shape], or a dict of them; where an episode ended, next_obs is its
        final observation, as the algorithms give it. action: [n_envs, action_dim]. reward, done:
        [n_envs]. infos: one of each environment; "TimeLimit.truncated" says that a time limit ended
        the episode, which counts only with handle_timeout_termination. ValueError for other shapes.
        """
        rows = {
            "action": _as_array(action, self._action_shape, self._action_dtype),
            "reward": _as_array(reward, (self.n_envs,), None),
        }
        now, after = (obs, next_obs) if self._is_dict else ({"": obs}, {"": next_obs})
        for name, (key, shape, dtype) in self._observations.items():
            rows[name] = _as_array(now[key], shape, dtype)
            rows["next_" + name] = _as_array(after[key], shape, dtype)
        # As numbers the bools of `done` are Ends: CONTINUE is 0 and TERMINATED is 1.
        ends = np.asarray(done, np.bool_).reshape(self.n_envs).view(np.uint8)
        if self.handle_timeout_termination:
            cut = [e for e, info in enumerate(infos) if info.get("TimeLimit.truncated", False)]
            if cut:
                ends = ends.copy()
                ends[cut] = reprise.End.TRUNCATED
        self._writers.append_transitions(end=ends, **rows, **self._values(infos))
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True
            self.pos = 0

    def _draw(self, batch_size: int) -> reprise.Batch:
        return self._sampler.sample(batch_size, beta=0.0, draws="independent", timeout=0.0)

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """A batch of ReplayBufferSamples, or DictReplayBufferSamples, on the buffer's device.

        env: a VecNormalize, which normalises observations and rewards. `discounts`, [B, 1], are
        given for n_steps above 1: gamma to the number of steps. TimeoutError if there is nothing to
        draw.
        """
        batch = self._draw(batch_size)
        parts = self._parts(batch, env)
        if self.n_steps > 1 and self.gamma is not None:
            parts["discounts"] = self._discounts(batch, self.gamma)
        return (DictReplayBufferSamples if self._is_dict else ReplayBufferSamples)(**parts)

    def _parts(self, batch: reprise.Batch, env: Any) -> dict[str, Any]:
        rewards = batch.returns["reward"].reshape(-1, 1)
        return {
            "observations": self._tensors(batch.now, env),
            "actions": self.to_torch(batch["action"], copy=False),
            "next_observations": self._tensors(batch.next, env),
            # The discount is 0 only after a termination.
            "dones": self._column(batch.discounts == 0.0),
            "rewards": self.to_torch(self._normalize_reward(rewards, env), copy=False),
        }

    def _tensors(self, arrays: Mapping[str, NDArray[Any]], env: Any) -> Any:
        by_key = {key: arrays[name] for name, (key, _, _) in self._observations.items()}
        if not self._is_dict:
            return self.to_torch(self._normalize_obs(by_key[""], env), copy=False)
        normalised = self._normalize_obs(by_key, env)
        return {key: self.to_torch(array, copy=False) for key, array in normalised.items()}

    def _column(self, values: NDArray[Any]) -> torch.Tensor:
        column: torch.Tensor = self.to_torch(values.astype(np.float32).reshape(-1, 1), copy=False)
        return column

    def _discounts(self, batch: reprise.Batch, gamma: float) -> torch.Tensor:
        return self._column(gamma ** batch.lengths.astype(np.float64))

    def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
        raise NotImplementedError("reprise.sb3 draws by keys, not by places: use sample()")

    def __getstate__(self) -> dict[str, Any]:
        not_pickled = ("_replay", "_writers", "_sampler")
        state = {name: value for name, value in self.__dict__.items() if name not in not_pickled}
        return state | {"_files": to_files(self._replay, [self._sampler])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._replay = from_files(state.pop("_files"))
        self.__dict__.update(state)
        self._set_sampler(self._replay.sampler(resume=0))


class DictReplayBuffer(ReplayBuffer):
    """A ReplayBuffer for an observation space that is a Dict; TypeError for any other."""

    def __init__(
        self, buffer_size: int, observation_space: spaces.Space, *args: Any, **kwargs: Any
    ) -> None:
        if not isinstance(observation_space, spaces.Dict):
            raise TypeError(
                f"DictReplayBuffer: observation_space is {observation_space}; allowed: a Dict"
            )
        super().__init__(buffer_size, observation_space, *args, **kwargs)


class HerReplayBuffer(DictReplayBuffer, TheirHerReplayBuffer):  # type: ignore[misc]
    """Gives a share of each batch goals that their episodes achieved (Andrychowicz et al., 2017),
    and the rewards that `env` computes for them. For observations of "observation", "achieved_goal"
    and "desired_goal"; the other arguments are those of DictReplayBuffer.

    env: the training environment, whose `compute_reward` is called; `set_env` after a pickle.
    n_sampled_goal: for each step of a batch that keeps its own goal, how many get another one.
    goal_selection_strategy: "future", "final" or "episode", or a GoalSelectionStrategy.
    copy_info_dict: keeps the infos of each step, and gives them to `compute_reward`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space,
        env: Any,
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int = 4,
        goal_selection_strategy: GoalSelectionStrategy | str = "future",
        copy_info_dict: bool = False,
        *,
        compress: bool | Sequence[str] = False,
    ) -> None:
        strategy: Any = goal_selection_strategy
        if isinstance(strategy, str):
            strategy = KEY_TO_GOAL_STRATEGY.get(strategy.lower())
        if not isinstance(strategy, GoalSelectionStrategy):
            raise ValueError(
                f"HerReplayBuffer: goal_selection_strategy is {goal_selection_strategy!r}; allowed: "
                + ", ".join(KEY_TO_GOAL_STRATEGY)
            )
        if n_sampled_goal < 0:
            raise ValueError(
                f"HerReplayBuffer: n_sampled_goal is {n_sampled_goal}; allowed: at least 0"
            )
        self.env = env
        self.copy_info_dict = copy_info_dict
        self.goal_selection_strategy = strategy
        self.n_sampled_goal = n_sampled_goal
        self.her_ratio = 1 - 1 / (n_sampled_goal + 1)
        DictReplayBuffer.__init__(
            *(self, buffer_size, observation_space, action_space, device, n_envs),
            *(optimize_memory_usage, handle_timeout_termination),
            compress=compress,
        )
        goals = [observation_space[key] for key in ("achieved_goal", "desired_goal")]
        if (goals[0].shape, goals[0].dtype) != (goals[1].shape, goals[1].dtype):
            raise ValueError(
                f"HerReplayBuffer: achieved_goal is {goals[0]} and desired_goal is {goals[1]}; "
                "allowed: goals of one shape and dtype"
            )

    def _with_columns(self, schema: reprise.Schema) -> reprise.Schema:
        return schema.column("info", np.int64) if self.copy_info_dict else schema

    def _values(self, infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if not self.copy_info_dict:
            return {}
        numbers = np.arange(self._added, self._added + self.n_envs)
        for number, info in zip(numbers % len(self._infos), infos, strict=True):
            self._infos[number] = info
        return {"info": numbers}

    def add(self, *step: Any, **named: Any) -> None:
        super().add(*step, **named)
        if self.copy_info_dict:
            self._added += self.n_envs  # Only now, because refused steps must not count.

    def reset(self) -> None:
        super().reset()
        if self.copy_info_dict:
            options = self._replay.options
            # A ring of infos by the numbers of steps. Steps leave in whole chunks, so beyond the
            # capacity a chunk of each environment and one more may still have steps; n_envs infos
            # are written before the steps are appended.
            chunks = options["chunk_steps"] * (self.n_envs + 1)
            self._infos: list[Any] = [{}] * (options["capacity_steps"] + chunks + self.n_envs)
            self._added = 0

    def _set_sampler(self, sampler: reprise.Sampler) -> None:
        super()._set_sampler(sampler)
        self._hindsight = self._replay.hindsight(
            "obs/achieved_goal",
            goal=self.goal_selection_strategy.name.lower(),
            share=1.0,
            seed=int(np.random.randint(2**31)),
        )
        self._random = np.random.default_rng(np.random.randint(2**31))

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """A batch of DictReplayBufferSamples, of which int(her_ratio * batch_size) steps, chosen at
        random, have another goal, and its reward. env: as in ReplayBuffer.sample. RuntimeError without
        the environment."""
        if self.env is None:
            raise RuntimeError(
                "HerReplayBuffer.sample: there is no environment; call set_env first"
            )
        batch = self._draw(batch_size)
        # Chosen at random, because a batch is in the order of memory: its first steps are alike in age.
        count = int(self.her_ratio * batch_size)
        changed = np.sort(self._random.choice(batch_size, count, replace=False))
        goals = batch.now["obs/desired_goal"][changed]
        self._hindsight.relabel(batch.item_keys[changed], goals)
        batch.now["obs/desired_goal"][changed] = goals
        batch.next["obs/desired_goal"][changed] = goals
        infos: list[Any] = [{} for _ in goals]
        if self.copy_info_dict:
            numbers = batch["info"][changed] % len(self._infos)
            infos = [copy.deepcopy(self._infos[number]) for number in numbers]
        achieved = batch.next["obs/achieved_goal"][changed]
        rewards = self.env.env_method("compute_reward", achieved, goals, infos, indices=[0])
        batch.returns["reward"][changed] = rewards[0]
        return DictReplayBufferSamples(**self._parts(batch, env))

    def truncate_last_trajectory(self) -> None:
        """Ends the episodes under way as truncated. In a loaded buffer none is under way, because
        the save has ended them."""
        self._writers.close()
        self._writers = self._replay.vector_writer(self.n_envs, autoreset="disabled")

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        del state["env"], state["_hindsight"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.env = None
        super().__setstate__(state)


class PrioritizedReplayBuffer(ReplayBuffer):
    """Draws by priority (Schaul et al., 2016): in proportion to (priority + epsilon)^alpha.

    alpha, epsilon: as in reprise.Proportional. beta: exponent of the importance weights, an
    attribute that may be changed between batches. A new transition has the largest priority in the
    buffer. `sample` gives PrioritizedSamples. An algorithm of Stable-Baselines3 trains with it, but
    reads no weights and writes no priorities; examples/python/sb3_prioritized_dqn.py does both.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        *args: Any,
        alpha: float = 0.6,
        beta: float = 0.4,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        self._proportional = reprise.Proportional(alpha=alpha, epsilon=epsilon)
        self.beta = beta
        super().__init__(buffer_size, observation_space, action_space, *args, **kwargs)

    def _selector(self) -> Any:
        return self._proportional

    def sample(self, batch_size: int, env: Any = None) -> PrioritizedSamples:
        """Draws PrioritizedSamples; otherwise as ReplayBuffer.sample."""
        batch = self._sampler.sample(batch_size, beta=self.beta, timeout=0.0)
        return PrioritizedSamples(
            **self._parts(batch, env),
            discounts=None if self.gamma is None else self._discounts(batch, self.gamma),
            weights=self._column(batch.weights),
            item_keys=batch.item_keys,
        )

    def update_priorities(
        self, item_keys: NDArray[np.int64], priorities: torch.Tensor | ArrayLike
    ) -> reprise.UpdateResult:
        """Sets the priorities of a batch, raw and not negative, such as abs(TD error): an array or
        tensor on any device, [B] or [B, 1]. Keys of transitions that were overwritten are
        skipped and counted. ValueError for other shapes, negative priorities and NaN."""
        if isinstance(priorities, torch.Tensor):
            priorities = priorities.detach().cpu().numpy()
        return self._replay.update_priorities(
            item_keys, np.asarray(priorities, np.float32).reshape(-1)
        )


def _as_array(given: Any, shape: tuple[int, ...], dtype: np.dtype[Any] | None) -> NDArray[Any]:
    """Converts a value to an array of this shape and, if given, dtype. An array that fits is
    returned as it is."""
    if type(given) is np.ndarray and given.shape == shape and given.dtype == (dtype or given.dtype):
        return given
    return np.asarray(given, dtype).reshape(shape)
