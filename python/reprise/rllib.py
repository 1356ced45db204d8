"""A replay buffer for RLlib's DQN on its new API stack, with reprise inside.

    from reprise.rllib import DQN

    config = DQNConfig(algo_class=DQN).environment("CartPole-v1").training(
        n_step=3,
        replay_buffer_config={
            "type": "reprise.rllib.PrioritizedEpisodeReplayBuffer",
            "capacity": 50_000, "alpha": 0.6, "beta": 0.4, "n_step": 3,
        },
    )

"type" has to be the name of the class, not the class. RLlib's own DQN takes the buffer as well, but
leaves it out of its checkpoints; `DQN` of this module is a subclass that saves and restores the
buffer too. RLlib's SAC takes no other buffers than RLlib's.

What differs from RLlib's PrioritizedEpisodeReplayBuffer:

- The window is fixed when the buffer is made: give the buffer the algorithm's `n_step`, and for
  n_step above 1 its `gamma`. `n_step` as a range is refused.
- Steps near the end of an episode are drawn as well, with windows of fewer than n_step steps:
  "n_step" of each transition says how many it has.
- Single steps leave a full buffer, not whole episodes.
- Importance weights are divided by the largest of the batch; with `normalise="by_buffer"`, as in
  RLlib, by the largest of the buffer.
- `is_truncated` of a drawn transition is never set; RLlib's losses do not read it.
- Stateful modules (their sequences), infos, extra model outputs and initial priorities are refused.
- Multi-agent episodes are refused: a buffer here has one schema, and agents differ in theirs.

One thread at a time, as with RLlib's own.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyarrow import fs
from ray.rllib.algorithms import dqn
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import force_list
from ray.rllib.utils.replay_buffers import episode_replay_buffer
from ray.rllib.utils.replay_buffers import prioritized_episode_buffer as theirs
from ray.rllib.utils.spaces.space_utils import batch as stacked

import reprise

from . import _rllib_metrics
from ._vocabulary import Normalise

__all__ = ["DQN", "PrioritizedEpisodeReplayBuffer"]

_NAME = "replay_buffer"  # The name of the buffer's part in an algorithm's checkpoint.


class PrioritizedEpisodeReplayBuffer(theirs.PrioritizedEpisodeReplayBuffer):  # type: ignore[misc]
    """The latest `capacity` steps of SingleAgentEpisodes, drawn by priority.

    capacity: steps. n_step, gamma: those of the algorithm. alpha: exponent of the priorities. A new
    transition has the highest priority seen; over shards the highest that its shard has seen. beta:
    exponent of the importance weights. beta, batch_size_B: for calls of `sample` that give none.
    normalise: how the importance weights are scaled, as in reprise.Sampler.sample.
    timeout: seconds that `sample` waits for a first transition.
    seed: for the draws; None takes one at random.
    buffer: the class of the buffer inside, reprise.ReplayBuffer or reprise.ray.ReplayBuffer.
    options: of that class, such as storage or shards, but not `window`; `selectors` replace alpha.

    The first episode decides the fields: observations and actions are arrays, or arrays in dicts
    and tuples. ValueError or TypeError for a later episode with other fields.
    """

    def __init__(
        self,
        capacity: int = 10_000,
        *,
        n_step: int = 1,
        gamma: float = 0.99,
        alpha: float = 1.0,
        beta: float = 0.4,
        batch_size_B: int = 16,
        normalise: Normalise = "by_batch",
        timeout: float = 10.0,
        seed: int | None = None,
        metrics_num_episodes_for_smoothing: int = 100,
        buffer: Any = reprise.ReplayBuffer,
        **options: Any,
    ) -> None:
        if "window" in options:
            raise ValueError(
                f"PrioritizedEpisodeReplayBuffer: window is {options['window']}; allowed: none, "
                "because n_step and gamma make it"
            )
        # The base's own constructor would allocate its trees.
        episode_replay_buffer.EpisodeReplayBuffer.__init__(
            self,
            capacity,
            batch_size_B=batch_size_B,
            batch_length_T=1,
            metrics_num_episodes_for_smoothing=metrics_num_episodes_for_smoothing,
        )
        self.rng = np.random.default_rng(seed)
        self._n_step = n_step
        self._gamma = gamma
        self._beta = beta
        self._normalise = normalise
        self._timeout = timeout
        self._buffer = buffer
        self._options: dict[str, Any] = {
            "window": reprise.Transitions(n_step=n_step, discount=gamma),
            # RLlib raises priorities to at least 1e-12, so that each can be drawn.
            "selectors": reprise.Proportional(alpha=alpha, epsilon=1e-12, initial="highest_seen"),
        } | options
        # This buffer is made only to refuse wrong options now, instead of at the first step.
        trial: Any = {name: self._options[name] for name in ("window", "selectors")}
        reprise.ReplayBuffer(reprise.Schema().reward("reward"), capacity, **trial).close()
        self._replay: Any = None
        self._clear()

    def _clear(self) -> None:
        """Sets the state of a buffer without steps."""
        if self._replay is not None:
            self._replay.close()
        self._replay = None
        self._sampler: Any = None
        # For observations and for actions: the names of their fields, nested as their values are,
        # and the space.
        self._names: tuple[Any, Any] = ("", "")
        self._spaces: tuple[Any, Any] = (None, None)
        # The fields of one step.
        self._fields: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        # The writer of each open episode, and the time of the episode's next step. The episode that
        # was continued longest ago is first.
        self._open: dict[str, tuple[Any, int]] = {}
        self._idle: list[Any] = []  # Writers without an open episode.
        # For each episode in the buffer, how many steps were added before it began.
        self._begins: deque[int] = deque()
        self._num_timesteps_added = 0
        self._num_episodes_evicted = 0
        self.sampled_timesteps = 0
        self._drawn: NDArray[np.int64] | None = None  # The keys of the last sample.

    @property
    def replay(self) -> Any:
        """The buffer inside, for its `stats()` and `save`; None before the first episode."""
        return self._replay

    def get_num_timesteps(self, module_id: Any = None) -> int:
        """Steps that the buffer holds."""
        return 0 if self._replay is None else len(self._replay)

    def get_num_episodes(self, module_id: Any = None) -> int:
        """Episodes that have steps in the buffer; about that number if several are open at once."""
        return len(self._begins)

    def add(
        self,
        episodes: SingleAgentEpisode | Sequence[SingleAgentEpisode],
        weight: float | None = None,
    ) -> None:
        """Appends episodes, or parts of them. A part that begins where the last part of its episode
        ended continues that episode; any other part begins a new one."""
        if weight is not None:
            raise ValueError(
                f"add: weight is {weight}; allowed: None, as a new transition has the highest "
                "priority seen"
            )
        added_before = self._num_timesteps_added
        begun = 0
        for episode in force_list(episodes):
            if not isinstance(episode, SingleAgentEpisode):
                raise TypeError(
                    f"add: an episode is a {type(episode).__name__}; allowed: SingleAgentEpisode, "
                    "as a buffer has one schema, and agents differ in theirs: make a buffer for "
                    "each agent"
                )
            if len(episode):
                begun += self._append(episode)
                self._num_timesteps_added += len(episode)
        steps = self._num_timesteps_added - added_before
        steps_gone = max(self._num_timesteps_added - self.capacity, 0)
        evicted = 0
        # An episode has left once the last step before the next episode has left.
        while len(self._begins) > 1 and self._begins[1] <= steps_gone:
            self._begins.popleft()
            evicted += 1
        self._num_episodes_evicted += evicted
        steps_evicted = steps_gone - max(added_before - self.capacity, 0)
        _rllib_metrics.log_added(self, begun, steps, evicted, steps_evicted)

    def _append(self, episode: SingleAgentEpisode) -> bool:
        """Appends the steps of an episode or part. Returns whether they begin an episode here."""
        steps = len(episode)
        observations = episode.get_observations(slice(0, steps + 1))
        actions = episode.get_actions(slice(0, steps))
        if not episode.is_numpy:
            observations, actions = stacked(observations), stacked(actions)
        fields = reprise.named("obs", observations) | reprise.named("action", actions)
        fields = {name: np.asarray(array) for name, array in fields.items()}
        fields["reward"] = np.asarray(episode.get_rewards(slice(0, steps)), np.float32)
        if self._replay is None:
            self._names = _names("obs", observations), _names("action", actions)
            self._spaces = episode.observation_space, episode.action_space
            self._fields = {name: (array.dtype, array.shape[1:]) for name, array in fields.items()}
            self._replay = self._buffer(self._schema(), self.capacity, **self._options)
            self._sampler = self._replay.sampler(seed=int(self.rng.integers(2**31)))
        end = reprise.End.TERMINATED if episode.is_terminated else reprise.End.CONTINUE
        if episode.is_truncated and not episode.is_terminated:
            end = reprise.End.TRUNCATED
        writer, time = self._open.pop(episode.id_, (None, -1))
        continues = time == episode.t_started
        if not continues:
            writer = writer or self._writer()
            writer.append_episode(end=end, **fields)
            self._begins.append(self._num_timesteps_added)
        else:
            # Of an observation the next one is given, which is one row later.
            next_names = {name: "next_" + name for name in fields if _is_observation(name)}
            for t in range(steps):
                writer.append(
                    end=end if t == steps - 1 else reprise.End.CONTINUE,
                    **{
                        next_names.get(name, name): array[t + (name in next_names)]
                        for name, array in fields.items()
                    },
                )
        if end == reprise.End.CONTINUE:
            self._open[episode.id_] = writer, episode.t_started + steps
        else:
            self._idle.append(writer)
        return not continues

    @property
    def _is_local(self) -> bool:
        """Whether the buffer is in this process."""
        return self._buffer is reprise.ReplayBuffer

    def _schema(self) -> reprise.Schema:
        schema = reprise.Schema()
        for name, (dtype, shape) in self._fields.items():
            if name == "reward":
                schema.reward(name)
            elif _is_observation(name):
                schema.observation(name, dtype, shape)
            else:
                schema.column(name, dtype, shape)
        return schema

    def _writer(self) -> Any:
        """A writer for a new episode. If all writers are in use, takes that of the episode that was
        continued longest ago: if that episode's environment was lost, it never continues."""
        if self._idle:
            return self._idle.pop()
        if len(self._open) >= self._options.get("max_writers", 256):
            return self._open.pop(next(iter(self._open)))[0]
        return self._replay.writer()

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        to_numpy: bool = False,
        **kwargs: Any,
    ) -> list[SingleAgentEpisode]:
        """Transitions in random order, as episodes of one step each: two observations n steps
        apart, the first action, the sum of the rewards, discounted by gamma, and whether the last
        step terminated. "weights" and "n_step" are extra model outputs.

        num_items, or batch_size_B: how many. beta: exponent of the importance weights. n_step, gamma:
        ValueError if they are not those of the buffer. TimeoutError if there is nothing to draw.
        """
        self._check("n_step", n_step, n_step in (None, self._n_step), self._n_step)
        # With n_step 1 gamma does not matter: the reward of one step is not discounted.
        is_allowed = gamma in (None, self._gamma) or self._n_step == 1
        self._check("gamma", gamma, is_allowed, self._gamma)
        allowed = "0 and 1: stateful modules need sequences, which RLlib draws without priorities"
        self._check("batch_length_T", batch_length_T, batch_length_T in (None, 0, 1), allowed)
        self._check("include_infos", include_infos, not include_infos, False)
        is_allowed = not include_extra_model_outputs
        self._check("include_extra_model_outputs", include_extra_model_outputs, is_allowed, False)
        if self._replay is None:
            raise TimeoutError("sample: the buffer is empty")
        n = num_items or batch_size_B or self.batch_size_B
        batch = self._sampler.sample(
            n,
            beta=self._beta if beta is None else beta,
            normalise=self._normalise,
            timeout=self._timeout,
        )
        # Learners get parts of a batch, and a batch is in the order of memory, so it is shuffled.
        order = self.rng.permutation(n)
        self._drawn = batch.item_keys[order]
        transitions = [self._transition(batch, int(i)) for i in order]
        for transition in transitions if to_numpy else ():
            transition.to_numpy()
        self.sampled_timesteps += n
        _rllib_metrics.log_drawn(self, batch)
        return transitions

    def _check(self, name: str, value: Any, is_allowed: bool, allowed: Any) -> None:
        if not is_allowed:
            raise ValueError(
                f"sample: {name} is {value}; allowed: {allowed}"
                + (
                    f", which the buffer was made with: give it {name} in replay_buffer_config"
                    if name in ("n_step", "gamma")
                    else ""
                )
            )

    def _transition(self, batch: reprise.Batch, i: int) -> SingleAgentEpisode:
        observation, action = self._names
        return SingleAgentEpisode(
            # The learner tells transitions by their ids, so those of one episode differ too.
            f"{batch.episode_ids[i]}_{i}",
            observations=[_row(observation, batch.now, i), _row(observation, batch.next, i)],
            observation_space=self._spaces[0],
            actions=[_row(action, batch.now, i)],
            action_space=self._spaces[1],
            rewards=[float(batch.returns["reward"][i])],
            terminated=bool(batch.discounts[i] == 0.0),
            extra_model_outputs={
                "weights": [batch.weights[i]],
                "n_step": [int(batch.lengths[i])],
            },
            t_started=int(batch.positions[i]),
            len_lookback_buffer=0,
        )

    def update_priorities(self, priorities: ArrayLike, module_id: Any = None) -> None:
        """Sets the priorities of the last sample, in the same order: absolute TD errors [n].
        Transitions that have left are skipped. RuntimeError unless a sample came since the last
        update, ValueError for another number of priorities."""
        if self._drawn is None:
            raise RuntimeError("update_priorities: no sample came before; each has one update")
        values = np.asarray(priorities, np.float32).reshape(-1)
        self._replay.update_priorities(self._drawn, values)
        self._drawn = None

    def save(self, directory: Path) -> None:
        """Writes the buffer into a directory: steps, priorities, counters and, in this process,
        random numbers. In the copy, open episodes end as truncated. An empty buffer writes
        nothing."""
        if self._replay is None:
            return
        samplers = {"samplers": [self._sampler]} if self._is_local else {}
        self._replay.save(directory / "replay", **samplers)
        state = {name: getattr(self, name) for name in _SAVED_ATTRIBUTES}
        (directory / "counters").write_bytes(pickle.dumps(state))

    def load(self, directory: Path) -> None:
        """Replaces the contents by what `save` wrote. Load only checkpoints that you trust, as with
        all of RLlib's, because they contain a pickle. ValueError for the checkpoint of a buffer with
        another capacity, n_step, gamma or alpha, CheckpointError as in reprise.ReplayBuffer.load:
        then nothing is changed, but a buffer in shards is empty. Shards take the saved alpha."""
        if not any(directory.iterdir()):  # `save` of an empty buffer.
            self._clear()
            return
        attributes = pickle.loads((directory / "counters").read_bytes())
        place = directory / "replay"
        replay: Any = None
        if self._is_local:
            replay = self._buffer.load(place, storage=self._options.get("storage")).buffer
            saved, selectors = replay.options, force_list(self._options["selectors"])
            for name, own, saved_value in (
                ("capacity", self.capacity, saved["capacity_steps"]),
                ("window", self._options["window"], saved["window"]),
                ("selectors", selectors, saved["selectors"]),
            ):
                if own != saved_value:
                    raise ValueError(f"load: {name} is {own}; allowed: {saved_value}, as saved")
        # The old shards are closed first, because the new ones may need their memory.
        self._clear()
        for name, value in attributes.items():
            setattr(self, name, value)
        if self._is_local:
            self._replay = replay
            self._sampler = replay.sampler(resume=0)
        else:
            self._replay = self._buffer.load(place, self._schema(), self.capacity, **self._options)
            self._sampler = self._replay.sampler(seed=int(self.rng.integers(2**31)))

    def get_state(self) -> dict[str, Any]:
        """The files of a checkpoint, in memory. ValueError for a buffer in shards."""
        self._check_local("get_state")
        with tempfile.TemporaryDirectory() as name:
            self.save(Path(name))
            files = [path for path in Path(name).rglob("*") if path.is_file()]
            return {"files": {str(path.relative_to(name)): path.read_bytes() for path in files}}

    def _check_local(self, call: str) -> None:
        if not self._is_local:
            raise ValueError(
                f"{call}: a shard that is restarted begins with its checkpoint, which would be "
                "gone; allowed: save_to_path into a directory that all nodes see"
            )

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Replaces the contents by what `get_state` returned."""
        with tempfile.TemporaryDirectory() as name:
            for file, content in state["files"].items():
                path = Path(name, file)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self.load(Path(name))

    def save_to_path(self, path: Any, *, filesystem: Any = None, **kwargs: Any) -> str:
        """Saves as RLlib calls it for the parts of an algorithm, also to RLlib's file systems.
        ValueError for a buffer in shards with another file system than the local one."""
        file_system, target = _resolve(path, filesystem)
        file_system.create_dir(target, recursive=True)
        if isinstance(file_system, fs.LocalFileSystem):
            self.save(Path(target))
        else:
            self._check_local("save_to_path")
            with tempfile.TemporaryDirectory() as name:
                self.save(Path(name))
                fs.copy_files(name, target, fs.LocalFileSystem(), file_system)
        return target

    def restore_from_path(self, path: Any, *, filesystem: Any = None, **kwargs: Any) -> None:
        """Loads as RLlib calls it for the parts of an algorithm."""
        file_system, source = _resolve(path, filesystem)
        if isinstance(file_system, fs.LocalFileSystem):
            self.load(Path(source))
        else:
            with tempfile.TemporaryDirectory() as name:
                fs.copy_files(source, name, file_system, fs.LocalFileSystem())
                self.load(Path(name))


# Attributes that a checkpoint contains besides steps and priorities.
_SAVED_ATTRIBUTES = (
    "rng",
    "_fields",
    "_names",
    "_spaces",
    "_begins",
    "_num_timesteps_added",
    "_num_episodes_evicted",
    "sampled_timesteps",
)


def _is_observation(name: str) -> bool:
    return name.split("/")[0] == "obs"


def _names(name: str, value: Any) -> Any:
    """The names that reprise.named gives to the arrays of a value, in the value's structure."""
    if isinstance(value, Mapping):
        return {key: _names(f"{name}/{key}", part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_names(f"{name}/{key}", part) for key, part in enumerate(value))
    return name


def _row(names: Any, arrays: Mapping[str, NDArray[Any]], i: int) -> Any:
    """Row i of the arrays, in the structure of `names`."""
    if isinstance(names, str):
        return arrays[names][i]
    if isinstance(names, dict):
        return {key: _row(part, arrays, i) for key, part in names.items()}
    return tuple(_row(part, arrays, i) for part in names)


def _resolve(path: Any, filesystem: Any) -> tuple[Any, str]:
    """The file system of a path, which may be a URI, and the path there."""
    path = str(path)
    return (filesystem, path) if filesystem else fs.FileSystem.from_uri(path)


class DQN(dqn.DQN):  # type: ignore[misc]
    """RLlib's DQN, whose checkpoints hold the buffer: `DQNConfig(algo_class=reprise.rllib.DQN)`."""

    local_replay_buffer: PrioritizedEpisodeReplayBuffer | None

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """RLlib's own parts, and the buffer."""
        components: list[tuple[str, Any]] = super().get_checkpointable_components()
        if isinstance(self.local_replay_buffer, PrioritizedEpisodeReplayBuffer):
            components.append((_NAME, self.local_replay_buffer))
        return components

    def get_state(self, components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """RLlib's own state. The buffer saves itself, so its part is empty here."""
        state: dict[str, Any] = super().get_state(components, **kwargs)
        return state | ({_NAME: {}} if components == _NAME else {})
