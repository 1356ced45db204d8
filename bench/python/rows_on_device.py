"""Measures batches of small rows on a device, in three ways: by reprise.torch.mirror, by the
loader, and by a plain torch ring on the device, which draws uniformly."""

import time
from functools import partial

from harness import timing
from harness.tables import digits, table, times

COLUMNS = {"obs": (100,), "action": (20,), "reward": ()}
LENGTH = 100  # Steps of each environment that the buffer holds.


def loads_of(arguments):
    """Returns the loads as pairs: number of items of a batch, and number of items drawn per new row
    (None: rows never change)."""
    few = max(arguments.rows // 16, 1)
    return [(arguments.rows, None)] + [(n, new) for n in (arguments.rows, few) for new in (16, 512)]


def bus():
    """Returns a context whose `nbytes` counts the bytes that torch calls of this thread copy
    between the device and the host."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Bus(TorchDispatchMode):
        nbytes = 0

        def __torch_dispatch__(self, call, types, given=(), named=None):
            made = call(*given, **(named or {}))
            name = call.overloadpacket.__name__
            if name in ("_to_copy", "copy_"):
                source = given[1] if name == "copy_" else given[0]
                if source.device.type != made.device.type:
                    self.nbytes += source.numel() * source.element_size()
            return made

    return Bus()


class Timed:
    """A sampler that sums the seconds of its draws."""

    def __init__(self, sampler):
        self._sampler, self.seconds = sampler, 0.0

    def __getattr__(self, name):
        return getattr(self._sampler, name)

    def sample(self, *given, **named):
        begin = time.perf_counter()
        made = self._sampler.sample(*given, **named)
        self.seconds += time.perf_counter() - begin
        return made


class Way:
    """One way to get a batch. Appends a step of all environments before each `every`-th batch;
    None: never."""

    def __init__(self, draw, append, every, sampler=None):
        self._draw, self._append, self._every = draw, append, every
        self._sampler = sampler  # The Timed that draws; None if its time is not measured.
        self._calls = 0

    def __call__(self):
        if self._every is not None and self._calls % self._every == 0:
            self._append()
        self._calls += 1
        return self._draw()

    def parts(self, seconds, wait):
        """Returns the share of time that draws on the host take, and the bytes per batch that cross
        the bus."""
        before = self._sampler.seconds if self._sampler else 0.0
        begin = time.perf_counter()
        timing.per_second(self, seconds, block=8, wait=wait)
        elapsed = time.perf_counter() - begin
        share = (self._sampler.seconds - before) / elapsed if self._sampler else None
        counted = 2 * (self._every or 1)
        with bus() as crossing:
            for _ in range(counted):
                self()
        wait()
        return {"drawing": share, "bytes": crossing.nbytes / counted}


def step_of(envs):
    """Returns a step of all environments as a vector writer takes it."""
    import numpy as np

    random = np.random.default_rng(1)
    step = {name: random.random((envs, *shape), np.float32) for name, shape in COLUMNS.items()}
    return step | {"end": np.zeros(envs, np.int64)}


def buffer_of(envs, selector):
    """Returns a full buffer, and a function that appends a step of all environments."""
    import numpy as np
    import reprise

    schema = reprise.Schema()
    for name, shape in COLUMNS.items():
        if name == "obs":
            schema.observation(name, np.float32, shape)
        elif name == "reward":
            schema.reward(name)
        else:
            schema.column(name, np.float32, shape)
    replay = reprise.ReplayBuffer(schema, envs * LENGTH, selectors=selector, max_writers=envs)
    writers = replay.vector_writer(envs, autoreset="disabled")
    step = step_of(envs)
    step["next_obs"] = step.pop("obs")
    writers.begin(obs=step["next_obs"])
    append = partial(writers.append, **step)
    for _ in range(LENGTH + 10):
        append()
    return replay, append


class Ring:
    """A ring of columns on the device, which has a next observation in each row."""

    def __init__(self, envs, device):
        import torch

        self._torch, self._envs, self._device, self._place = torch, envs, device, 0
        columns = COLUMNS | {"next_obs": COLUMNS["obs"]}
        self._columns = {
            name: torch.rand((LENGTH, envs, *shape), device=device)
            for name, shape in columns.items()
        }
        self._step = {name: torch.rand((envs, *shape)) for name, shape in columns.items()}
        if device != "cpu":
            self._step = {name: tensor.pin_memory() for name, tensor in self._step.items()}

    def append(self):
        for name, tensor in self._step.items():
            self._columns[name][self._place] = tensor.to(self._device, non_blocking=True)
        self._place = (self._place + 1) % LENGTH

    def sample(self, n):
        drawn = self._torch.randint(LENGTH * self._envs, (n,), device=self._device)
        return {name: column.flatten(0, 1)[drawn] for name, column in self._columns.items()}


class Subjects:
    """The buffers that the ways of all loads draw from. Each way has a buffer of its own, so that
    the time of a way never includes rows that were appended in another way's turn."""

    def __init__(self, arguments):
        import reprise
        from reprise.torch import mirror

        self._device, self._envs = arguments.device, arguments.environments
        self._replay, self._append = buffer_of(self._envs, reprise.Uniform())
        mirrored, self._append_mirrored = buffer_of(self._envs, reprise.Uniform())
        self._rows = mirror(mirrored, self._device, seed=1)
        prioritized, self._append_prioritized = buffer_of(self._envs, reprise.Proportional())
        self._by_priority = mirror(prioritized, self._device, seed=1)
        for each in (self._rows, self._by_priority):
            each._sampler = Timed(each._sampler)
        self._ring = Ring(self._envs, self._device)

    def ways(self, n, new):
        """Returns the ways to get a batch of n items with n / `new` new rows, and a function that
        ends them."""
        from reprise.torch import loader

        every = None if new is None else max(new * self._envs // n, 1)
        rows, by_priority = self._rows, self._by_priority

        def learned():
            batch = by_priority.sample(n)
            by_priority.update_priorities(batch.item_keys, batch.weights)

        batches = loader(self._replay, n, device=self._device)
        ways = {
            "mirror": Way(lambda: rows.sample(n), self._append_mirrored, every, rows._sampler),
            "mirror, by priority, with updates": Way(
                learned, self._append_prioritized, every, by_priority._sampler
            ),
            "loader": Way(batches.__next__, self._append, every),
            "a ring in torch": Way(lambda: self._ring.sample(n), self._ring.append, every),
        }
        return ways, batches.close


def extend_rate(arguments, wait):
    """Returns how often per second SimpleReplayBuffer takes a step of all environments."""
    import torch
    from reprise.torch import SimpleReplayBuffer

    envs, device = arguments.environments, arguments.device
    buffer = SimpleReplayBuffer(envs, LENGTH, 100, 20, device=device)
    following = {"observations": torch.rand((envs, 100), device=device)}
    following |= {"rewards": torch.rand(envs, device=device)}
    for name in ("dones", "truncations"):
        following[name] = torch.zeros(envs, dtype=torch.int64, device=device)
    step = {"observations": torch.rand((envs, 100), device=device), "next": following}
    step["actions"] = torch.rand((envs, 20), device=device)
    return timing.per_second(partial(buffer.extend, step), arguments.seconds, wait=wait)


def measure(arguments, rate, wait):
    """Returns the results of each load, and of appends whose steps begin on the device."""
    subjects = Subjects(arguments)
    loads = []
    for n, new in loads_of(arguments):
        print(f"Batches of {n} small rows, samples per new row: {new or 'no new rows'}", flush=True)
        ways, close = subjects.ways(n, new)
        rates = {name: partial(rate, way) for name, way in ways.items()}
        found = timing.medians(rates, arguments.repetitions)
        parts = {name: way.parts(arguments.seconds, wait) for name, way in ways.items()}
        close()
        made = {name: {"rate": found[name]} | parts[name] for name in ways}
        loads.append({"items": n, "per_row": new, "ways": made})
    extends = [extend_rate(arguments, wait) for _ in range(arguments.repetitions)]
    return {
        "loads": loads,
        "environments": arguments.environments,
        "extends": sorted(extends)[len(extends) // 2],
    }


def section(results):
    """Returns the tables of the results as Markdown."""
    made = []
    for load in results["loads"]:
        ways = load["ways"]
        ours = ways["mirror"]["rate"]
        rows = []
        for name, way in ways.items():
            share = way["drawing"]
            if name == "a ring in torch":
                drawing = "none"  # The ring draws on the device.
            else:
                drawing = "beside it" if share is None else f"{100 * share:.0f}%"
            rows.append(
                [
                    name,
                    f"{1000 / way['rate']:.3f}",
                    drawing,
                    f"{way['bytes'] / 1e6:.3f}",
                    times(ours / way["rate"]),
                ]
            )
        new = load["per_row"]
        drawn = "no new rows" if new is None else f"{new} samples per new row"
        header = [f"{load['items']:,} rows, {drawn}", "ms per batch", "drawing on the host"]
        made.append(table([*header, "MB over the bus", "mirror beside it"], rows))
    envs = results["environments"]
    made.append(
        f"A row has 484 bytes of values: 100 floats of an observation, 20 of an action, a reward. "
        f"Steps come from the host, of {envs:,} environments at a time, within these times. "
        f"`SimpleReplayBuffer.extend` takes {1000 / results['extends']:.2f} ms for a step of them "
        f"that begins on the device, {digits(envs * results['extends'] / 1e6)} million steps/s."
    )
    return made
