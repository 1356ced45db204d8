import gc
import os
import threading

import numpy as np
import pytest
from testing.buffers import fill
from testing.children import run_python
from testing.refusals import refuses

import reprise


def test_batches_equal_those_of_a_sampler_with_the_same_seed(buffer):
    fill(buffer, 200)
    sampler = buffer.sampler(seed=3)
    with buffer.prefetch(16, seed=3, depth=2) as batches:
        kept = [batch for _, batch in zip(range(10), batches)]
        for batch in kept:  # A batch does not change while it is held.
            own = sampler.sample(16)
            assert np.array_equal(batch.item_keys, own.item_keys)
            assert np.array_equal(batch["next_state"], own["next_state"])
            assert np.array_equal(batch.weights, own.weights)


def test_memory_of_released_batches_is_used_again(buffer):
    fill(buffer, 50)
    with buffer.prefetch(4, depth=2) as batches:
        seen = {batch["state"].ctypes.data for _, batch in zip(range(50), batches)}
    assert len(seen) <= 5  # 50 batches take the memory of a few.


def test_an_allocator_that_fails_once_loses_no_batch(buffer):
    fill(buffer, 50)
    calls = []

    def allocate(nbytes):
        calls.append(nbytes)
        if len(calls) == 5:  # Three are allocated first, and one for each that is taken.
            raise MemoryError
        return np.empty(nbytes, np.uint8)

    sampler = buffer.sampler(seed=3)
    with buffer.prefetch(4, seed=3, depth=2, allocator=allocate) as batches:
        kept = [next(batches)]
        with pytest.raises(MemoryError):
            next(batches)
        kept += [next(batches) for _ in range(5)]
        for batch in kept:
            assert np.array_equal(batch.item_keys, sampler.sample(4).item_keys)


def test_closing_the_buffer_ends_the_iteration(buffer):
    fill(buffer, 50)
    batches = buffer.prefetch(4, depth=3)
    next(batches)
    threading.Timer(0.05, buffer.close).start()
    for _ in batches:
        pass
    with pytest.raises(StopIteration):
        next(batches)


def next_in_time(batches):
    """Returns the next batch, for which a busy machine may need longer than one timeout."""
    while True:
        try:
            return next(batches)
        except TimeoutError:
            continue


def test_next_raises_if_no_batch_comes_within_the_timeout(buffer):
    batches = buffer.prefetch(4, timeout=0.12)
    refuses(TimeoutError, "Prefetcher.__next__", next, batches)
    fill(buffer, 50)
    assert len(next_in_time(batches)) == 4


def test_closing_a_prefetcher(buffer):
    fill(buffer, 50)
    batches = buffer.prefetch(4)
    state = next(batches)["state"]
    copy = state.copy()
    batches.close()
    batches.close()
    refuses(reprise.Closed, "the prefetcher is closed", next, batches)
    del batches
    gc.collect()
    assert np.array_equal(state, copy)


def test_a_prefetcher_waits_while_the_buffer_is_empty():
    schema = reprise.Schema().observation("state", np.float32).reward()
    buffer = reprise.ReplayBuffer(schema, 10, rate_limiter=reprise.Unlimited())
    with buffer.prefetch(4, timeout=0.1) as batches:
        refuses(TimeoutError, "no batch came of the 0 items", next, batches)
        buffer.writer().append_episode(state=[1, 2], reward=[3])
        assert (next_in_time(batches)["state"] == 1).all()


# A batch takes 84 bytes per item, and the sampler that the prefetcher's thread makes first at least
# 50. The limit leaves memory for two batches and for the stacks of some threads, but not for the
# sampler as well.
WITHOUT_MEMORY = """
import resource
import reprise

n = 8_000_000
schema = reprise.Schema().observation("x", "f4").reward()
buffer = reprise.ReplayBuffer(schema, 10, selectors=reprise.Uniform())
buffer.writer().append_episode(x=[0, 1], reward=[1])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
room = used + 2 * 84 * n + (240 << 20)
resource.setrlimit(resource.RLIMIT_AS, (room, room))
batches = buffer.prefetch(n, depth=1)
for _ in range(2):
    try:
        next(batches)
    except MemoryError:
        print("MemoryError")
"""


@pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer takes all address space"
)
def test_an_error_that_ended_the_prefetching_thread_is_raised_by_each_next():
    ended = run_python(WITHOUT_MEMORY)
    assert ended.stdout == "MemoryError\n" * 2, ended.stderr
