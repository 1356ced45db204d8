"""Waits end by timeout, `close` and signals; one thread at a time uses a writer or sampler."""

import signal
import time
import warnings

import numpy as np
import pytest
from testing.buffers import STEP, append_until_held, fill, plain_buffer, queue_of
from testing.children import run_python
from testing.refusals import refuses
from testing.threads import running, until_waiting

import reprise


def test_sampling_an_empty_buffer_times_out(buffer):
    sampler = buffer.sampler()
    for timeout in (0, 0.01, np.float32(0.12)):
        refuses(TimeoutError, "Sampler.sample: .*", sampler.sample, 4, timeout=timeout)
    fill(buffer, 5)
    assert len(sampler.sample(4, timeout=0)) == 4


def test_a_step_that_found_no_room_is_stored_once_it_is_appended_again():
    buffer = queue_of(8)
    writer = buffer.writer(timeout=0.01)
    writer.begin_episode(state=[-1, 0])
    held = append_until_held(writer)
    assert held >= 8 and writer.episode_steps == held
    message = "Writer.append: no room .*not taken: call again with the same .*Rate limiter: "
    refuses(TimeoutError, message, writer.append, **STEP)
    assert writer.episode_steps == held
    sampler = buffer.sampler()
    for expected in range(held):
        batch = sampler.sample(1, timeout=0)
        assert batch["action"][0] == expected
    writer.append(action=held, reward=0, next_state=[held, 0])
    assert writer.episode_steps == held + 1
    batch = sampler.sample(1, timeout=0)
    assert (batch["action"][0], batch["state"][0, 0]) == (held, held - 1)


def test_close_ends_the_waits_of_writers_and_samplers():
    buffer = queue_of(4)

    def write():
        writer = buffer.writer()
        writer.begin_episode(state=[0, 0])
        with pytest.raises(reprise.Closed, match="closed"):
            while True:
                writer.append(**STEP)

    def draw():
        with pytest.raises(reprise.Closed, match="closed"):
            while True:
                buffer.sampler().sample(4, timeout=60)
                empty.sampler().sample(4)

    empty = plain_buffer()
    with running(write, draw):
        until_waiting(empty, "samplers_for_items")
        empty.close()
        buffer.close()


def test_other_threads_run_while_a_sampler_waits(buffer):
    """This thread waits in `sample`, and another Python thread appends the steps that end the
    wait."""

    def fill_once_it_waits():
        until_waiting(buffer, "samplers_for_items")
        fill(buffer, 10)

    with running(fill_once_it_waits):
        assert len(buffer.sampler().sample(4, timeout=60)) == 4


def test_a_sampler_in_use_is_refused(buffer):
    sampler = buffer.sampler()
    with running(lambda: pytest.raises(reprise.Closed, sampler.sample, 4)):
        until_waiting(buffer, "samplers_for_items")
        # A wait is cut into slices of 50 ms, between which Python looks for signals. The sampler
        # must be in use throughout, so it is tried every 10 ms over several slices.
        for _ in range(20):
            refuses(RuntimeError, "Sampler is in use by another call", sampler.sample, 4, timeout=0)
            time.sleep(0.01)
        buffer.close()


def test_a_call_from_within_a_call_is_refused(buffer):
    fill(buffer, 10)
    errors = []

    def allocator(nbytes):
        with pytest.raises(RuntimeError, match="in use") as error:
            sampler.sample(1)
        errors.append(error)
        return np.empty(nbytes, np.uint8)

    sampler = buffer.sampler(allocator=allocator)
    sampler.sample(2)
    assert len(errors) == 1


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import reprise
from testing.buffers import STEP, append_until_held, fill, plain_schema, queue_of

# With such an interval another thread runs only while the main thread, in a call that waits, has
# given up the GIL.
sys.setswitchinterval(1000)

# A shell starts background jobs with interrupts ignored, which Python would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def interrupt_once(waits):
    ready = threading.Event()
    def watch():
        ready.wait()
        while not waits():
            time.sleep(0.001)
        interrupt()
    threading.Thread(target=watch, daemon=True).start()
    ready.set()

def writer_waits():
    return buffer.stats()["writers_for_limiter"]["waiting_now"] == 1
def sampler_waits():
    return buffer.stats()["samplers_for_items"]["waiting_now"] == 1

buffer = reprise.ReplayBuffer(plain_schema(), 1000)
{body}
"""

WAITS = {
    "sample": "interrupt_once(sampler_waits); buffer.sampler().sample(4)",
    "append": """
buffer = queue_of(4)
writer = buffer.writer()
writer.begin_episode(state=[0, 0])
interrupt_once(writer_waits)
while True: writer.append(**STEP)""",
    "append again": """
buffer = queue_of(4)
writer = buffer.writer()
writer.begin_episode(state=[0, 0])
interrupt_once(writer_waits)
try: append_until_held(writer)
except KeyboardInterrupt: assert writer.episode_steps == 4
interrupt_once(writer_waits)
writer.append(**STEP)""",
    "append_episode": """
buffer = queue_of(4)
writer = buffer.writer()
interrupt_once(writer_waits)
writer.append_episode(state=np.zeros((101, 2)), action=np.zeros(100, int), reward=np.zeros(100))""",
    "vector append": """
buffer = queue_of(4)
writers = buffer.vector_writer(1, autoreset="same_step")
writers.begin(state=np.zeros((1, 2)))
interrupt_once(writer_waits)
while True: writers.append(end=[0], action=[0], reward=[0], next_state=[[0, 0]])""",
    "append_all": """
ratio = reprise.SampleToInsertRatio(samples_per_insert=1.0, error_buffer=8.0)
buffer = reprise.ReplayBuffer(plain_schema(), 1000, rate_limiter=ratio, max_writers=1)
shard, packer = reprise.ReplayShard(buffer), reprise.StepPacker(plain_schema())
writer = packer.writer()
writer.append_episode(state=np.zeros((101, 2)), action=np.zeros(100, int), reward=np.zeros(100))
interrupt_once(writer_waits)
shard.append_all(shard.shipments_of(1, 0, [(packer.writer_id, packer.take())]))""",
    "exchange": """
buffer = reprise.ReplayBuffer(plain_schema(), 1000, rate_limiter=reprise.MinSize(500))
fill(buffer, 100)
shard, client = reprise.ReplayShard(buffer), reprise.ShardClient(plain_schema(), 1)
client.answer(0, shard.exchange(client.request(0)))
client.begin(4)
interrupt_once(sampler_waits)
shard.exchange(client.request(0, timeout=1e6))""",
    "prefetcher": "p = buffer.prefetch(4); interrupt_once(lambda: True); next(p)",
    "save": """
fill(buffer, 900)
def slowly(progress):  # Runs on the save's thread, while the main thread waits.
    interrupt() if progress.chunks_written == 1 else time.sleep(0.5)
    if progress.chunks_written > 20: os._exit(7)
buffer = reprise.ReplayBuffer(plain_schema(), 100000, chunk_steps=4, shards=1)
fill(buffer, 4000)
import tempfile
buffer.save(tempfile.mkdtemp(), progress=slowly)""",
}


@pytest.mark.parametrize("wait", WAITS, ids=list(WAITS))
def test_keyboard_interrupts_reach_waiting_calls(wait):
    code = INTERRUPTED.format(body=WAITS[wait])
    code += "\nos._exit(3)\n"
    child = run_python(code)
    assert child.returncode == -signal.SIGINT, child.stderr
    assert "KeyboardInterrupt" in child.stderr


def test_a_long_wait_without_a_timeout_warns_once(buffer):
    def close():
        while not warned and buffer.stats()["samplers_for_items"]["waiting_for"] < 60:
            time.sleep(0.05)
        time.sleep(0.5)  # Long enough for a second, wrong warning.
        buffer.close()

    # The call warns after 5 s, or later on a busy machine.
    message = r"has waited for ([5-9]|\d\d+) s and has no timeout; 0 items and 0 open writers are"
    with pytest.warns(RuntimeWarning, match=message) as warned:
        with running(close), pytest.raises(reprise.Closed):
            buffer.sampler().sample(4)
    assert len(warned) == 1 and warned[0].filename == __file__
    assert "Rate limiter: " in str(warned[0].message)


def test_a_warning_that_python_makes_an_error_ends_the_wait(buffer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refuses(RuntimeWarning, "has no timeout", buffer.sampler().sample, 4)


def test_a_long_wait_with_a_timeout_does_not_warn(buffer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TimeoutError):
            buffer.sampler().sample(4, timeout=5.5)
