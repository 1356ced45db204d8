"""Calls leave no reference and no memory behind. REPRISE_LEAK_CALLS sets the number of calls.

Under AddressSanitizer resident memory is not checked, because its quarantine keeps freed memory.
"""

import gc
import os
import sys

import numpy as np
import pytest
from testing.buffers import plain_buffer

import reprise

CALLS = int(os.environ.get("REPRISE_LEAK_CALLS", "20000"))
ADDRESS_SANITIZER = "asan" in os.environ.get("LD_PRELOAD", "")


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class CallArguments:
    """The objects and arguments of all cases. Their references are counted."""

    def __init__(self):
        self.buffer = plain_buffer(256, max_writers=8)
        self.writer = self.buffer.writer()
        self.state = np.zeros(2, np.float32)
        self.wide = np.zeros(2, np.float64)
        self.bad = np.zeros(3, np.float32)
        self.writer.append_episode(state=np.zeros((101, 2)), action=[0] * 100, reward=[0] * 100)
        self.writer.begin_episode(state=self.state)
        self.writers = self.buffer.vector_writer(2, autoreset="same_step")
        self.rows = np.zeros((2, 2), np.float32)
        self.flags = np.zeros(2, np.uint8)
        self.over = np.ones(2, np.uint8)
        self.final = {"state": np.zeros((2, 2))}
        self.writers.begin(state=self.rows)
        self.sampler = self.buffer.sampler()
        self.priorities = np.ones(4, np.float32)
        self.doubles = np.ones(4)
        self.batch = self.sampler.sample(4)
        self.item_keys = self.batch.item_keys.copy()
        self.prefetcher = self.buffer.prefetch(4)
        self.mix = reprise.mix([(self.buffer, 2), (self.buffer, 2)])
        self.waiting_mix = reprise.mix([(self.buffer, 2), (plain_buffer(9), 2)])

    def counted(self):
        return [
            value
            for value in vars(self).values()
            if isinstance(value, (np.ndarray, dict, reprise.Batch, reprise.ReplayBuffer))
        ]

    def fails(self, error, call, *args, **kwargs):
        try:
            call(*args, **kwargs)
        except error:
            return
        raise AssertionError("no error")


CASES = {
    "append": lambda w: w.writer.append(action=1, reward=0.5, next_state=w.state),
    "append converted": lambda w: w.writer.append(action=1, reward=0.5, next_state=w.wide),
    "append refused": lambda w: w.fails(
        ValueError, w.writer.append, action=1, reward=0.5, next_state=w.bad
    ),
    "append unknown": lambda w: w.fails(ValueError, w.writer.append, other=w.state),
    "begin_episode": lambda w: w.writer.begin_episode(state=w.wide),
    "transition": lambda w: w.writer.append_transition(
        state=w.state, action=1, reward=1, next_state=w.wide
    ),
    "vector transitions": lambda w: w.writers.append_transitions(
        state=w.rows, action=w.flags, reward=w.flags, next_state=w.rows, end=w.flags
    ),
    "episode": lambda w: w.writer.append_episode(state=w.rows, action=[1], reward=w.flags[:1]),
    "vector": lambda w: w.writers.append(
        action=w.flags, reward=w.flags, next_state=w.rows, end=w.flags
    ),
    "vector ends": lambda w: w.writers.append(
        action=w.flags, reward=w.flags, next_state=w.rows, end=w.over, final=w.final
    ),
    "vector refused": lambda w: w.fails(
        ValueError,
        w.writers.append,
        action=w.flags,
        reward=w.flags,
        next_state=w.rows,
        end=w.over,
    ),
    "sample": lambda w: w.sampler.sample(4)["state"],
    "sample another n": lambda w: (w.sampler.sample(3)["state"], w.sampler.sample(5).now),
    "sample views": lambda w: w.sampler.sample(4, views=True).returns["reward"],
    "sample refused": lambda w: w.fails(ValueError, w.sampler.sample, 4, draws="x"),
    "no such field": lambda w: w.fails(KeyError, w.batch.__getitem__, "x"),
    "update": lambda w: w.buffer.update_priorities(w.item_keys, w.priorities),
    "update converted": lambda w: w.buffer.update_priorities(w.item_keys[::-1], w.doubles),
    "update refused": lambda w: w.fails(
        TypeError, w.buffer.update_priorities, w.priorities, w.item_keys
    ),
    "prefetch": lambda w: next(w.prefetcher).weights,
    "mix": lambda w: reprise.mix([w.buffer], np.int64(4)).parts,
    "mix refused": lambda w: w.fails(TypeError, reprise.mix, [(w.buffer, 4), (w.buffer, None)]),
    "mix sample": lambda w: (w.mix.sample()["state"], w.mix.fresh, w.mix.passes, len(w.mix)),
    "mix begun": lambda w: w.fails(TimeoutError, w.waiting_mix.sample, timeout=0),
    "mix update": lambda w: w.mix.update_priorities(w.item_keys, w.doubles),
    "writer": lambda w: w.buffer.writer().close(),
    "stats": lambda w: w.buffer.stats(),
    "options": lambda w: w.buffer.options,
    "schema": lambda w: w.buffer.schema.fields,
}


@pytest.mark.parametrize("case", CASES)
def test_calls_leave_nothing_behind(case):
    call = CASES[case]
    world = CallArguments()
    for _ in range(200):
        call(world)
    gc.collect()
    counted = world.counted()
    before = [sys.getrefcount(value) for value in counted]
    blocks = sys.getallocatedblocks()
    memory = resident_bytes()
    for _ in range(CALLS):
        call(world)
    gc.collect()
    assert [sys.getrefcount(value) for value in counted] == before
    # Objects left behind by every tenth call or more often would exceed this.
    assert sys.getallocatedblocks() - blocks < CALLS / 10 + 100
    if not ADDRESS_SANITIZER:  # 16 bytes left behind by every tenth call, and 4 MiB of slack.
        assert resident_bytes() - memory < 16 * CALLS / 10 + (4 << 20)
