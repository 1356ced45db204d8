"""The replay buffers of reprise and of other packages, each used in the fastest way that its
documents show. setups.py defines Subject."""

import tempfile

import numpy as np
from plain_buffer import PlainBuffer
from runtime_rivals import Flashbax, Reverb
from setups import ALPHA, BATCHES, BETA, EPSILON, SIDE, STACK, Subject


class Reprise(Subject):
    def fill(self, priorities):
        import reprise

        setup = self.setup
        schema = reprise.Schema().observation(
            "obs", np.uint8, (SIDE, SIDE) if setup.frames else (32,)
        )
        schema.column("act", np.int32).reward("rew")
        self.replay = reprise.ReplayBuffer(
            schema,
            setup.size,
            window=reprise.Transitions(frame_stack=STACK if setup.frames else 1),
            selectors=reprise.Proportional(alpha=ALPHA, epsilon=EPSILON),
        )
        length = 1000
        observations = None
        with self.replay.writer() as writer:
            # Appends more steps than the buffer holds, because eviction frees whole chunks.
            for first in range(0, setup.size + setup.size // 4, length):
                at = np.arange(first, first + length) % setup.size
                observations = setup.frames_of(first, length + 1)
                writer.append_episode(
                    obs=observations,
                    act=np.arange(first, first + length, dtype=np.int32),
                    rew=np.ones(length, np.float32),
                    priorities=priorities[at],
                )
        self.sampler = self.replay.sampler(seed=1)
        if setup.environments > 1:
            self.writers = self.replay.vector_writer(setup.environments, autoreset="same_step")
            self.writers.begin(obs=observations[: setup.environments])
        else:
            self.writer = self.replay.writer()
            self.writer.begin_episode(obs=observations[0])

    def row(self, steps):
        # reprise takes one frame of the next observation, the newest, and makes the stacks itself.
        newest = steps["next_obs"][:, -1] if self.setup.frames else steps["next_obs"]
        columns = {"act": steps["act"], "rew": steps["rew"], "next_obs": newest}
        return super().row(columns | {"end": np.zeros(len(newest), np.uint8)})

    def add(self, row):
        if self.setup.environments > 1:
            self.writers.append(**row)
        else:
            self.writer.append(**row)

    def sample(self, n):
        return self.sampler.sample(n, beta=BETA)

    def update(self, batch, priorities):
        self.replay.update_priorities(batch.item_keys, priorities)

    def read(self, batch):
        return batch["obs"], batch["act"], batch["next_obs"], batch.weights


class Cpprb(Subject):
    def fill(self, priorities):
        import cpprb

        env = {
            "obs": {"shape": (SIDE, SIDE, STACK) if self.setup.frames else 32, "dtype": np.uint8},
            "act": {"dtype": np.int32},
            "rew": {},
            "done": {},
        }
        compression = {"next_of": "obs", "stack_compress": "obs"} if self.setup.frames else {}
        if not compression:
            env["next_obs"] = env["obs"]
        self.buffer = cpprb.PrioritizedReplayBuffer(
            self.setup.size, env, alpha=ALPHA, eps=EPSILON, **compression
        )
        first = 0
        for steps in self.setup.pieces():
            count = len(steps["act"])
            self.buffer.add(**self._laid_out(steps), priorities=priorities[first : first + count])
            first += count

    def _laid_out(self, steps):
        """Moves the frames of a stack to the last axis, where cpprb takes them."""
        if not self.setup.frames:
            return steps
        moved = {name: np.moveaxis(steps[name], 1, -1) for name in ("obs", "next_obs")}
        return steps | {name: np.ascontiguousarray(stack) for name, stack in moved.items()}

    def row(self, steps):
        return super().row(self._laid_out(steps))

    def add(self, row):
        self.buffer.add(**row)

    def sample(self, n):
        return self.buffer.sample(n, BETA)

    def update(self, batch, priorities):
        self.buffer.update_priorities(batch["indexes"], priorities)

    def read(self, batch):
        obs, after = batch["obs"], batch["next_obs"]
        if self.setup.frames:
            obs, after = np.moveaxis(obs, -1, 1), np.moveaxis(after, -1, 1)
        return obs, batch["act"], after, batch["weights"]


class Torchrl(Subject):
    """torchrl over LazyTensorStorage, which keeps columns in memory."""

    prefetch = None

    def storage(self):
        from torchrl.data import LazyTensorStorage

        return LazyTensorStorage(self.setup.size)

    def fill(self, priorities):
        import torch
        from torchrl.data import PrioritizedSampler, TensorDictReplayBuffer

        storage = self.storage()
        sampler = PrioritizedSampler(self.setup.size, alpha=ALPHA, beta=BETA, eps=EPSILON)
        # A buffer that draws ahead has one batch size, so each batch size needs a buffer of its
        # own.
        self.buffers = {
            n: TensorDictReplayBuffer(
                storage=storage, sampler=sampler, batch_size=n, prefetch=self.prefetch
            )
            for n in (BATCHES if self.prefetch else BATCHES[:1])
        }
        self.buffer = self.buffers[BATCHES[0]]
        for steps in self.setup.pieces():
            self.buffer.extend(self._tensordict(steps))
        self.buffer.update_priority(torch.arange(self.setup.size), torch.from_numpy(priorities))

    @staticmethod
    def _tensordict(steps):
        import torch
        from tensordict import TensorDict

        t = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in steps.items()}
        after = {"obs": t["next_obs"], "rew": t["rew"], "done": t["done"]}
        count = len(steps["act"])
        return TensorDict(
            {"obs": t["obs"], "act": t["act"], "next": TensorDict(after, [count])}, [count]
        )

    def to_native(self, priorities):
        import torch

        return torch.from_numpy(priorities)

    def row(self, steps):
        made = self._tensordict(steps)
        return made[0] if self.setup.environments == 1 else made

    def add(self, row):
        if self.setup.environments == 1:
            self.buffer.add(row)
        else:
            self.buffer.extend(row)

    def sample(self, n):
        return self.buffers[n].sample() if self.prefetch else self.buffer.sample(n)

    def update(self, batch, priorities):
        self.buffer.update_priority(batch["index"], priorities)

    def read(self, batch):
        weights = batch.get("priority_weight", None)
        weights = batch["_weight"] if weights is None else weights
        after = batch["next", "obs"].numpy()
        return batch["obs"].numpy(), batch["act"].numpy(), after, weights.numpy()


class TorchrlPrefetch(Torchrl):
    """torchrl that draws three batches ahead. Such a batch misses the latest priorities."""

    prefetch = 3


class TorchrlMemmap(Torchrl):
    """torchrl over LazyMemmapStorage, which keeps columns in files."""

    def storage(self):
        from torchrl.data import LazyMemmapStorage

        self.folder = tempfile.TemporaryDirectory(prefix="beside")
        return LazyMemmapStorage(self.setup.size, scratch_dir=self.folder.name)

    def close(self):
        self.folder.cleanup()


class StableBaselines3(Subject):
    """Stable-Baselines3, whose buffer draws uniformly and has no priorities."""

    prioritized = False

    def fill(self, priorities):
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer

        n = self.setup.environments
        self.buffer = ReplayBuffer(
            self.setup.size,
            spaces.Box(0, 255, self.setup.shape, np.uint8),
            spaces.Box(-np.inf, np.inf, (1,), np.float32),
            device="cpu",
            n_envs=n,
            # With this option the buffer stores no next observations, but reads them from the next
            # row.
            optimize_memory_usage=self.setup.frames,
            handle_timeout_termination=not self.setup.frames,
        )
        self.infos = [{}] * n
        at = 0  # Fills the arrays themselves: calls of `add` would take minutes.
        for steps in self.setup.pieces():
            rows = len(steps["act"]) // n
            piece = slice(at, at + rows)
            columns = {k: v[: rows * n].reshape(rows, n, *v.shape[1:]) for k, v in steps.items()}
            self.buffer.observations[piece] = columns["obs"]
            self.buffer.actions[piece] = columns["act"][..., None]
            self.buffer.rewards[piece] = columns["rew"]
            self.buffer.dones[piece] = 0
            if self.setup.frames:
                self.buffer.observations[(at + rows) % self.buffer.buffer_size] = columns[
                    "next_obs"
                ][-1]
            else:
                self.buffer.next_observations[piece] = columns["next_obs"]
                self.buffer.timeouts[piece] = 0
            at += rows
        self.buffer.pos, self.buffer.full = 0, True

    def row(self, steps):
        return (
            *(steps["obs"], steps["next_obs"], steps["act"].astype(np.float32)[:, None]),
            *(steps["rew"], steps["done"], self.infos),
        )

    def add(self, row):
        self.buffer.add(*row)

    def sample(self, n):
        return self.buffer.sample(n)

    def update(self, batch, priorities):
        pass

    def read(self, batch):
        after = batch.next_observations.numpy()
        return batch.observations.numpy(), batch.actions.numpy().astype(int), after, None


class Tianshou(Subject):
    def fill(self, priorities):
        from tianshou.data import PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer
        from tianshou.data import ReplayBuffer

        setup = self.setup
        options = {"alpha": ALPHA, "beta": BETA}
        if setup.frames:
            options |= {"stack_num": STACK, "ignore_obs_next": True, "save_only_last_obs": True}
        if setup.environments > 1:
            self.buffer = PrioritizedVectorReplayBuffer(setup.size, setup.environments, **options)
            n = setup.environments
            for first in range(0, setup.size, n):
                self.buffer.add(self._batch(setup.steps(first, n)))
            return
        self.buffer = PrioritizedReplayBuffer(setup.size, **options)
        if setup.frames:
            for steps in setup.pieces():
                for i in range(len(steps["act"])):
                    self.buffer.add(self._batch({k: v[i] for k, v in steps.items()}))
        else:
            # from_data copies the contents of a whole buffer at once.
            batch = self._batch(setup.steps(0, setup.size))
            ended = np.zeros(setup.size, bool)
            filled = ReplayBuffer.from_data(
                *(batch.obs, batch.act, batch.rew, ended, ended, ended, batch.obs_next)
            )
            self.buffer.update(filled)
        self.buffer.update_weight(np.arange(setup.size), priorities)

    def _batch(self, steps):
        from tianshou.data import Batch

        ended = np.zeros_like(steps["rew"], dtype=bool)
        names = {"obs": "obs", "act": "act", "rew": "rew", "obs_next": "next_obs"}
        if self.setup.frames:
            del names["obs_next"]
        columns = {name: steps[step_name] for name, step_name in names.items()}
        return Batch(**columns, terminated=ended, truncated=ended, info={})

    def row(self, steps):
        return self._batch(super().row(steps))

    def add(self, row):
        self.buffer.add(row)

    def sample(self, n):
        return self.buffer.sample(n)

    def update(self, drawn, priorities):
        self.buffer.update_weight(drawn[1], priorities)

    def read(self, drawn):
        batch, _ = drawn
        return batch.obs, batch.act, batch.obs_next, batch.weight


class Lists(Subject):
    """The buffer of bench/python/plain_buffer.py, in place of OpenAI Baselines, whose package does
    not install."""

    def fill(self, priorities):
        size = self.setup.size
        fields = {
            "obs": (np.uint8, self.setup.shape),
            "act": (np.int32, ()),
            "rew": (np.float32, ()),
            "done": (np.float32, ()),
            "next_obs": (np.uint8, self.setup.shape),
        }
        leaves = 1 << (size - 1).bit_length()
        self.buffer = PlainBuffer(leaves, fields, ALPHA, EPSILON)
        for steps in self.setup.pieces():
            at = steps["act"]
            for name, column in steps.items():
                self.buffer.columns[name][at] = column
        self.buffer.set_priorities(priorities)

    def to_native(self, priorities):
        return priorities.tolist()

    def add(self, row):
        if self.setup.environments == 1:
            self.buffer.add(**row)
        else:
            for i in range(self.setup.environments):
                self.buffer.add(**{name: column[i] for name, column in row.items()})

    def sample(self, n):
        return self.buffer.sample(n, BETA)

    def update(self, drawn, priorities):
        self.buffer.update_priorities(drawn[2], priorities)

    def read(self, drawn):
        batch, weights, _ = drawn
        return batch["obs"], batch["act"], batch["next_obs"], weights


SUBJECTS = {
    "reprise": Reprise,
    "cpprb": Cpprb,
    "torchrl, tensors": Torchrl,
    "torchrl, prefetch": TorchrlPrefetch,
    "torchrl, memmap": TorchrlMemmap,
    "Stable-Baselines3": StableBaselines3,
    "tianshou": Tianshou,
    "dm-reverb": Reverb,
    "flashbax": Flashbax,
    "numpy and lists": Lists,
}
