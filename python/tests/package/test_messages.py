"""Every message that docs/guide/messages.md explains is raised by some call, and every message that
a call raises here is explained there."""

import os
import re
import threading
import time
import warnings

import numpy as np
import pytest
from testing.children import run_python
from testing.files import ROOT

import reprise

DOCUMENT = ROOT / "docs" / "guide" / "messages.md"
STEP = {"action": 0, "reward": 0, "next_obs": np.zeros(4)}
EPISODE = {"obs": np.zeros((21, 4)), "action": np.zeros(20, int), "reward": np.ones(20)}


def make(steps=20, capacity=1000, **options):
    schema = reprise.Schema().observation("obs", np.float32, (4,)).column("action", np.int64)
    replay = reprise.ReplayBuffer(schema.reward(), capacity, shards=1, **options)
    if steps:
        replay.writer().append_episode(**EPISODE)
    return replay


def draw(replay, n=8, **options):
    sampler = replay.sampler()
    for _ in range(20):
        sampler.sample(n, timeout=0.01, **options)


def append(replay, steps=100, **changed):
    writer = replay.writer(timeout=0.01)
    writer.begin_episode(obs=np.zeros(4))
    for _ in range(steps):
        writer.append(
            **{name: value for name, value in (STEP | changed).items() if value is not None}
        )


def weightless():
    replay = make(selectors=reprise.Proportional(epsilon=0))
    replay.update_priorities(replay.sampler().sample(20, draws="epoch").item_keys, np.zeros(20))
    draw(replay)


def outdated():
    schema = reprise.Schema().observation("obs", np.float32, (4,)).reward().version()
    replay = reprise.ReplayBuffer(schema, 100, max_staleness=1, rate_limiter=reprise.MinSize(8))
    writer = replay.writer()
    writer.begin_episode(obs=np.zeros(4))
    for version in range(8):
        writer.set_version(version)
        writer.append(reward=0, next_obs=np.zeros(4))
    replay.set_version(7)
    draw(replay)


def waits_without_timeout():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        make(rate_limiter=reprise.MinSize(50)).sampler().sample(8)


def beside_a_wait(replay, sampler, call):
    """Makes a call while another thread waits for a batch of 50, then closes the buffer."""
    first = threading.Thread(target=lambda: pytest.raises(reprise.Closed, sampler.sample, 50))
    first.start()
    try:
        for _ in range(10_000):
            stats = replay.stats()
            if any(stats[f"samplers_for_{what}"]["waiting_now"] for what in ("items", "limiter")):
                break
            time.sleep(0.001)
        call()
    finally:
        replay.close()
        first.join()


def too_few_sequences():
    window = reprise.Sequences(length=4, period=4)
    queue = reprise.Queue(8)
    replay = make(steps=0, capacity=8, window=window, rate_limiter=queue, max_times_sampled=1)
    append(replay, 20)
    draw(replay)


def overtaken_in_wait():
    replay = queue(10, 100)
    beside_a_wait(replay, replay.sampler(), lambda: draw(replay, 4))


def two_threads():
    replay = make(rate_limiter=reprise.MinSize(50))
    sampler = replay.sampler()
    beside_a_wait(replay, sampler, lambda: sampler.sample(1))


def closed(call):
    replay = make()
    replay.close()
    call(replay)


def closed_append():
    replay = make()
    writer = replay.writer()
    writer.begin_episode(obs=np.zeros(4))
    replay.close()
    writer.append(**STEP)


def update(priorities, keys=None):
    replay = make()
    drawn = replay.sampler().sample(2).item_keys
    replay.update_priorities(drawn if keys is None else keys, priorities)


def after_a_fork():
    replay = make()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            len(replay)
        except RuntimeError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    raise RuntimeError(os.read(read, 10_000).decode())


def sent_to_a_process():
    code = """
import multiprocessing, reprise
replay = reprise.ReplayBuffer(reprise.Schema().reward(), 10)
multiprocessing.get_context("spawn").Process(target=print, args=(replay,)).start()
"""
    raise RuntimeError(run_python(code).stderr)


def writers(count):
    replay = make(steps=0, max_writers=count)
    return [replay.writer() for _ in range(count + 1)]


def ratio(samples, buffer):
    return reprise.SampleToInsertRatio(samples, error_buffer=buffer)


def queue(steps, size):
    replay = make(steps=0, rate_limiter=reprise.Queue(size), max_times_sampled=1)
    append(replay, steps)
    return replay


CALLS = [
    waits_without_timeout,
    too_few_sequences,
    overtaken_in_wait,
    weightless,
    outdated,
    closed_append,
    two_threads,
    after_a_fork,
    sent_to_a_process,
    lambda: draw(make(rate_limiter=reprise.MinSize(100))),
    lambda: draw(make(rate_limiter=ratio(1.0, 20)), 16),
    lambda: draw(make(rate_limiter=ratio(1.0, 20)), 64),
    lambda: draw(queue(10, 100)),
    lambda: draw(queue(1, 10), 64),
    lambda: draw(make(selectors=reprise.Uniform(), max_times_sampled=2), 16),
    lambda: draw(make(steps=0, rate_limiter=reprise.Unlimited())),
    lambda: closed(draw),
    lambda: append(make(steps=0, rate_limiter=ratio(1.0, 20))),
    lambda: queue(20, 10),
    lambda: make().writer().append(**STEP),
    lambda: append(make(), action=0.5),
    lambda: append(make(), next_obs=np.zeros(3)),
    lambda: append(make(), reward=None),
    lambda: append(make(), next_obs=None, obs=np.zeros(4)),
    lambda: make().vector_writer(3),
    lambda: writers(2),
    lambda: update([1, -1]),
    lambda: update([1, 1], np.arange(2)),
    lambda: make(capacity=10, window=reprise.Sequences()),
    lambda: make(rate_limiter=ratio(8.0, 1)),
    lambda: make(selectors=reprise.Proportional(initial="from_caller")),
    lambda: reprise.attach("/run/none", timeout=0.0),
    lambda: reprise.ReplayBuffer.load("/nonexistent"),
]


def plain(message):
    """Returns the message with # in place of its figures, which differ from run to run."""
    return re.sub(r"-?\d[\d.]*", "#", message)


def test_the_page_and_the_calls_have_the_same_messages():
    text = DOCUMENT.read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|", text, re.M)
    shown = {plain(message) for message in [*rows, *re.findall(r"`(timed out after [^`]+)`", text)]}
    assert len(shown) >= len(CALLS)
    raised = []
    for call in CALLS:
        with pytest.raises((Exception, RuntimeWarning)) as error:
            call()
        raised.append(plain(str(error.value)))
    assert [message for message in shown if not any(message in one for one in raised)] == []
    # No call raises a message that the page does not show.
    assert [one for one in raised if not any(message in one for message in shown)] == []
