"""The replay buffers of packages with a runtime of their own, TensorFlow or JAX. See rivals.py."""

import functools

import numpy as np
from setups import ALPHA, BATCHES, BETA, EPSILON, SIDE, STACK, Subject


class Reverb(Subject):
    """Reverb, with a server in this process. Batches come from a TrajectoryDataset, which draws
    ahead. All items begin with a priority of 1."""

    first_priority = 1.0

    def fill(self, priorities):
        import reverb
        import tensorflow as tf

        setup = self.setup
        obs = tf.TensorSpec((SIDE, SIDE) if setup.frames else (32,), tf.uint8)
        scalars = {"act": np.int32, "rew": np.float32, "done": np.float32}
        step = {"obs": obs} | {name: tf.TensorSpec((), dtype) for name, dtype in scalars.items()}
        writer = reverb.structured_writer
        length = STACK if setup.frames else 1

        def transition(ref):
            return {
                "obs": ref["obs"][-length - 1 : -1],
                "next_obs": ref["obs"][-length:],
                **{name: ref[name][-2:-1] for name in scalars},
            }

        pattern = writer.pattern_from_transform(step, transition)
        config = writer.create_config(pattern, "table", [])
        table = reverb.Table(
            "table",
            sampler=reverb.selectors.Prioritized(ALPHA),
            remover=reverb.selectors.Fifo(),
            max_size=setup.size,
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature=writer.infer_signature([config], step),
        )
        self.server = reverb.Server([table])
        self.client = self.server.localhost_client()
        self.writers = [self.client.structured_writer([config]) for _ in range(setup.environments)]
        self.pending = 0
        each = setup.size // setup.environments + STACK
        for first in range(0, each, 1000):
            frames = setup.frames_of(first, 1000)
            for i in range(min(1000, each - first)):
                self.add([self._step(frames[i], first + i)] * setup.environments)
        for w in self.writers:
            w.flush()
        self.iterators = {}

    def _step(self, frame, number):
        return {
            "obs": frame,
            "act": np.int32(number),
            "rew": np.float32(1),
            "done": np.float32(0),
        }

    def row(self, steps):
        frames = steps["obs"][:, -1] if self.setup.frames else steps["obs"]
        return [self._step(frame, number) for frame, number in zip(frames, steps["act"])]

    def add(self, row):
        for writer, step in zip(self.writers, row):
            writer.append(step)
        self.pending += 1
        if self.pending == 25:  # Reverb warns if more steps than this wait to be written.
            self.pending = 0
            for writer in self.writers:
                writer.flush(10)

    def sample(self, n):
        import reverb

        if n not in self.iterators:
            made = reverb.TrajectoryDataset.from_table_signature(
                f"localhost:{self.server.port}", "table", max_in_flight_samples_per_worker=2 * n
            )
            self.iterators[n] = made.batch(n, drop_remainder=True).as_numpy_iterator()
        return next(self.iterators[n])

    def to_native(self, priorities):
        return priorities.tolist()

    def update(self, drawn, priorities):
        keys = drawn.info.key.tolist()
        self.client.mutate_priorities("table", updates=dict(zip(keys, priorities)))

    def read(self, drawn):
        data = drawn.data
        obs, after = data["obs"], data["next_obs"]
        if not self.setup.frames:
            obs, after = obs[:, 0], after[:, 0]
        return obs, data["act"][:, 0], after, None

    def close(self):
        # The server's stop waits until its clients have disconnected.
        self.iterators.clear()
        self.writers.clear()
        del self.client
        self.server.stop()


class Flashbax(Subject):
    """flashbax on the CPU, with jitted functions and a donated state."""

    def fill(self, priorities):
        import flashbax
        import jax
        import jax.numpy as jnp

        setup, n = self.setup, self.setup.environments
        self.jax = jax
        make = functools.partial(
            flashbax.make_prioritised_flat_buffer,
            max_length=setup.size,
            min_length=1,
            priority_exponent=ALPHA,
            device="cpu",
            add_batch_size=None if n == 1 else n,
        )
        buffers = {size: make(sample_batch_size=size) for size in BATCHES}
        buffer = buffers[BATCHES[0]]
        step = jax.tree.map(lambda column: column[0], self._columns(setup.steps(0, 1)))
        self.state = buffer.init(step)
        self.jitted_add = jax.jit(buffer.add, donate_argnums=0)
        self.jitted_update = jax.jit(buffer.set_priorities, donate_argnums=0)

        def draw(buffer, state, key):
            drawn = buffer.sample(state, key)
            weights = (setup.size * drawn.probabilities) ** -BETA
            return drawn, weights / weights.max()

        self.jitted_sample = {
            size: jax.jit(functools.partial(draw, each)) for size, each in buffers.items()
        }
        extend = make(sample_batch_size=BATCHES[0], add_sequences=True).add
        extend = jax.jit(extend, donate_argnums=0)
        for steps in setup.pieces():
            columns = self._columns(steps)
            if n > 1:
                each = len(steps["act"]) // n
                columns = {k: v.reshape(n, each, *v.shape[1:]) for k, v in columns.items()}
            self.state = extend(self.state, columns)
        if n == 1:
            many = 10_000
            for first in range(0, setup.size - 1, many):
                at = jnp.arange(first, min(first + many, setup.size - 1))
                self.state = self.jitted_update(
                    self.state, at, jnp.asarray(priorities[at]) + EPSILON
                )
        jax.block_until_ready(self.state)
        self.key = jax.random.key(1)

    @staticmethod
    def _columns(steps):
        return {name: column for name, column in steps.items() if name != "next_obs"}

    def to_native(self, priorities):
        import jax.numpy as jnp

        return jnp.asarray(priorities)

    def row(self, steps):
        return self.jax.tree.map(self.jax.numpy.asarray, super().row(self._columns(steps)))

    def add(self, row):
        self.state = self.jitted_add(self.state, row)
        self.jax.block_until_ready(self.state)

    def sample(self, n):
        self.key, key = self.jax.random.split(self.key)
        return self.jax.block_until_ready(self.jitted_sample[n](self.state, key))

    def update(self, drawn, priorities):
        self.state = self.jitted_update(self.state, drawn[0].indices, priorities)
        self.jax.block_until_ready(self.state)

    def read(self, drawn):
        first, second = drawn[0].experience.first, drawn[0].experience.second
        return tuple(map(np.asarray, (first["obs"], first["act"], second["obs"], drawn[1])))
