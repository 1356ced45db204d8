"""Ways in which processes bring steps to a learner's buffer. Each class makes a buffer in the
learner's process, and draws and updates a batch in `cycle`. In another process, `appender(argument,
rows)` connects to the buffer and returns two functions: one appends a step of each environment, the
other closes the connection."""

import multiprocessing
import queue
import threading

import numpy as np

import reprise

BATCH = 512
ENVIRONMENTS = 64  # Number of environments in each process, which step together.
SPAWN = multiprocessing.get_context("spawn")
# For each kind of row: dtype and shape of an observation, number of environments, and capacity.
ROWS = {
    "vectors": (np.float32, (8,), ENVIRONMENTS, 1 << 20),
    "frames": (np.uint8, (84, 84), 1, 20_000),
}


def schema_of(rows):
    dtype, shape, _, _ = ROWS[rows]
    return reprise.Schema().observation("obs", dtype, shape).column("action", np.int32).reward()


def buffer_of(rows):
    return reprise.ReplayBuffer(
        schema_of(rows),
        ROWS[rows][3],
        selectors=reprise.Proportional(),
        max_writers=1024,
    )


def arrays(rows):
    """Returns the observations, actions and rewards of one append, a row per environment."""
    dtype, shape, environments, _ = ROWS[rows]
    observations = np.random.default_rng(1).integers(0, 255, (environments, *shape)).astype(dtype)
    return observations, np.ones(environments, np.int32), np.ones(environments, np.float32)


def steps_into(writers, rows):
    """Begins an episode with each writer of a reprise.VectorWriter; returns a function that appends
    a step to each."""
    observations, actions, rewards = arrays(rows)
    goes_on = np.zeros(len(actions), np.int64)
    writers.begin(obs=observations)
    return lambda: writers.append(
        end=goes_on, action=actions, reward=rewards, next_obs=observations
    )


class Host:
    """reprise.attach, which uses rings in shared memory."""

    def __init__(self, rows):
        self.replay = buffer_of(rows)
        self.sampler = self.replay.sampler(seed=1)
        self.errors = np.random.default_rng(2).random(BATCH).astype(np.float32)
        self.shared = self.replay.share()
        self.argument = self.shared.__enter__()

    def cycle(self):
        batch = self.sampler.sample(BATCH, timeout=30)
        self.replay.update_priorities(batch.item_keys, self.errors)

    @staticmethod
    def appender(address, rows):
        guest = reprise.attach(address)
        writers = guest.vector_writer(ROWS[rows][2], autoreset="disabled")
        return steps_into(writers, rows), writers.close

    def taken(self):
        return self.replay.stats()["committed_steps"]

    def close(self):
        self.shared.__exit__(None, None, None)


class Pipe(Host):
    """A StepPacker whose packed steps go through a pipe into a ReplayShard: the simplest
    carrier."""

    def __init__(self, rows):
        super().__init__(rows)
        self.shard = reprise.ReplayShard(self.replay)

    @property
    def argument(self):
        """Makes a pipe for a new process, starts a thread that reads from it, and returns the end
        to write to."""
        reading_end, writing_end = SPAWN.Pipe(duplex=False)
        threading.Thread(target=self._append_received, args=(reading_end,), daemon=True).start()
        return writing_end

    @argument.setter
    def argument(self, _):
        pass

    def _append_received(self, pipe):
        try:
            while True:
                self.shard.append(pipe.recv_bytes(), timeout=30)
        except (EOFError, OSError, reprise.Closed):
            pass

    @staticmethod
    def appender(pipe, rows):
        packer = reprise.StepPacker(schema_of(rows))
        append = steps_into(packer.vector_writer(ROWS[rows][2], autoreset="disabled"), rows)

        def append_and_send():
            append()
            if packer.steps >= 1_024 or packer.nbytes > 1 << 20:
                pipe.send_bytes(packer.take())

        return append_and_send, pipe.close


class Queue(Host):
    """A multiprocessing.Queue of arrays, which a thread of the learner's process appends to the
    buffer."""

    def __init__(self, rows):
        super().__init__(rows)
        self.argument = SPAWN.Queue(maxsize=64)
        self.ended = threading.Event()
        environments = ROWS[rows][2]
        self.writers = self.replay.vector_writer(environments, autoreset="disabled")
        self.writers.begin(obs=arrays(rows)[0])
        threading.Thread(target=self._append_received, daemon=True).start()

    def _append_received(self):
        while not self.ended.is_set():
            try:
                observations, actions, rewards = self.argument.get(timeout=0.1)
            except queue.Empty:
                continue
            self.writers.append(
                end=np.zeros(len(actions), np.int64),
                action=actions,
                reward=rewards,
                next_obs=observations,
            )

    @staticmethod
    def appender(steps, rows):
        step = arrays(rows)

        def put():
            steps.put(step)

        return put, lambda: (steps.close(), steps.join_thread())

    def close(self):
        self.ended.set()
        super().close()


class Cpprb:
    """cpprb's MPPrioritizedReplayBuffer, in shared memory."""

    def __init__(self, rows):
        import cpprb

        dtype, shape, _, self.capacity = ROWS[rows]
        self.argument = cpprb.MPPrioritizedReplayBuffer(
            self.capacity,
            {
                "obs": {"dtype": dtype, "shape": shape},
                "next_obs": {"dtype": dtype, "shape": shape},
                "action": {"dtype": np.int32},
                "reward": {"dtype": np.float32},
                "done": {"dtype": np.float32},
            },
            ctx=SPAWN,
        )
        self.errors = np.random.default_rng(2).random(BATCH).astype(np.float32)
        self.appender(self.argument, rows)[0]()

    def cycle(self):
        batch = self.argument.sample(BATCH, beta=0.4)
        self.argument.update_priorities(batch["indexes"], self.errors)

    @staticmethod
    def appender(buffer, rows):
        observations, actions, rewards = arrays(rows)
        done = np.zeros_like(rewards)

        def add():
            buffer.add(
                obs=observations, next_obs=observations, action=actions, reward=rewards, done=done
            )

        return add, lambda: None

    def taken(self):
        return None  # Unknown, because cpprb's count stops at the capacity.

    def close(self):
        pass


class Torchrl:
    """torchrl's prioritized buffer over a shared memory-mapped storage, with sync=False."""

    def __init__(self, rows):
        import torch
        from torchrl.data import LazyMemmapStorage, TensorDictPrioritizedReplayBuffer

        torch.set_num_threads(1)
        # torchrl makes its lock by the default start method; with `fork` each child would have a
        # lock of its own.
        multiprocessing.set_start_method("spawn", force=True)
        self.errors = torch.rand(BATCH)
        self.argument = TensorDictPrioritizedReplayBuffer(
            alpha=0.6,
            beta=0.4,
            storage=LazyMemmapStorage(ROWS[rows][3]),
            batch_size=BATCH,
            shared=True,
            sync=False,
        )
        for _ in range(BATCH):
            self.appender(self.argument, rows)[0]()

    def cycle(self):
        batch = self.argument.sample()
        batch["td_error"] = self.errors
        self.argument.update_tensordict_priority(batch)

    @staticmethod
    def appender(buffer, rows):
        import torch
        from tensordict import TensorDict

        observations, actions, rewards = map(torch.from_numpy, arrays(rows))
        columns = {
            "obs": observations,
            "next_obs": observations,
            "action": actions,
            "reward": rewards,
        }
        step = TensorDict(columns, batch_size=[len(actions)])
        return lambda: buffer.extend(step), lambda: None

    def taken(self):
        return None

    def close(self):
        pass


class Ray:
    """reprise.ray, whose shards are Ray actors on this machine."""

    def __init__(self, rows):
        import ray

        import reprise.ray

        if not ray.is_initialized():
            ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False)
        self.replay = reprise.ray.ReplayBuffer(
            schema_of(rows), ROWS[rows][3], shards=1, selectors=reprise.Proportional(), name="bench"
        )
        self.argument = ray.get_runtime_context().gcs_address
        self.sampler = self.replay.sampler(seed=1)
        self.errors = np.random.default_rng(2).random(BATCH).astype(np.float32)

    def cycle(self):
        batch = self.sampler.sample(BATCH, timeout=30)
        self.replay.update_priorities(batch.item_keys, self.errors)

    @staticmethod
    def appender(address, rows):
        import ray

        import reprise.ray

        ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
        writers = reprise.ray.attach("bench").vector_writer(ROWS[rows][2], autoreset="disabled")
        return steps_into(writers, rows), writers.close

    def taken(self):
        return self.replay.stats()["committed_steps"]

    def close(self):
        self.replay.close()


WAYS = {"host": Host, "pipe": Pipe, "queue": Queue, "cpprb": Cpprb, "torchrl": Torchrl, "ray": Ray}
