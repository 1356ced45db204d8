"""ReplayBuffer.restore is refused while another call is under way, and other calls during a
restore."""

import time
import warnings

import numpy as np
import pytest
from testing.buffers import STEP, fill, plain_buffer, queue_of
from testing.refusals import refuses
from testing.threads import running, until_waiting

import reprise


def test_restore_refuses_beside_a_sampler_that_waits(buffer, tmp_path):
    fill(buffer, 20)
    buffer.save(tmp_path)
    empty = reprise.ReplayBuffer.load(tmp_path).buffer

    def draw():
        return len(empty.sampler().sample(1000, draws="without_replacement"))

    with running(draw) as answers, empty:
        until_waiting(empty, "samplers_for_items")
        # The wait is cut into slices of 50 ms; the call must be under way between slices as well.
        for _ in range(20):
            refuses(RuntimeError, "restore: 1 other call .* is under way", empty.restore, tmp_path)
            time.sleep(0.01)
        fill(empty, 1000)
        while answers != [1000]:
            time.sleep(0.01)
        empty.restore(tmp_path)
        assert len(empty) == 20


def test_restore_refuses_beside_a_writer_that_waits(tmp_path):
    buffer = queue_of(2)
    buffer.save(tmp_path)

    def act():
        writer = buffer.writer()
        writer.begin_episode(state=[0, 0])
        with pytest.raises(reprise.Closed):
            while True:
                writer.append(**STEP)

    with running(act), buffer:
        until_waiting(buffer, "writers_for_limiter")
        refuses(RuntimeError, "restore: 1 other call .* is under way", buffer.restore, tmp_path)


def test_restore_refuses_beside_a_prefetcher_that_gives_a_batch(buffer, tmp_path):
    fill(buffer, 20)
    buffer.save(tmp_path)
    inside = []

    def allocator(nbytes):
        if inside:  # The prefetcher calls this within `next`.
            refuses(RuntimeError, "restore: 1 other call .* is under way", buffer.restore, tmp_path)
            inside.append("refused")
        return np.empty(nbytes, np.uint8)

    with buffer.prefetch(4, allocator=allocator) as batches:
        inside.append("next")
        assert len(next(batches)) == 4
    assert "refused" in inside


CALLS = {
    "writer": lambda o: o.buffer.writer(),
    "vector_writer": lambda o: o.buffer.vector_writer(2, autoreset="same_step"),
    "sampler": lambda o: o.buffer.sampler(),
    "prefetch": lambda o: o.buffer.prefetch(4),
    "update_priorities": lambda o: o.buffer.update_priorities(np.zeros(0, np.int64), []),
    "find": lambda o: o.episodes.find(0, 0),
    "update_episode_priorities": lambda o: o.episodes.update_priorities(0, 0, [1]),
    "gather": lambda o: o.buffer.gather(np.zeros(0, np.int64)),
    "gather_episode": lambda o: o.episodes.gather(0, 0, 1),
    "priorities": lambda o: o.selector.priorities(np.zeros(0, np.int64)),
    "update": lambda o: o.selector.update(np.zeros(0, np.int64), []),
    "totals": lambda o: o.selector.totals(),
    "reset": lambda o: o.selector.reset(),
    "remove": lambda o: o.buffer.remove(np.zeros(0, np.int64)),
    "remove_episode": lambda o: o.episodes.remove(0),
    "sums": lambda o: o.episodes.sums(np.zeros(0, np.int64)),
    "clear": lambda o: o.buffer.clear(),
    "set_samples_per_insert": lambda o: o.buffer.set_samples_per_insert(2.0),
    "set_alpha": lambda o: o.selector.set_alpha(0.5),
    "decay": lambda o: o.selector.decay(0.5),
    "len": lambda o: len(o.buffer),
    "stats": lambda o: o.buffer.stats(),
    "schema": lambda o: o.buffer.schema,
    "options": lambda o: o.buffer.options,
    "closed": lambda o: o.buffer.closed,
    "close": lambda o: o.buffer.close(),
    "save": lambda o: o.buffer.save(o.directory),
    "restore": lambda o: o.buffer.restore(o.directory),
    "Writer.begin_episode": lambda o: o.writer.begin_episode(state=[0, 0]),
    "Writer.append": lambda o: o.writer.append(action=0, reward=0, next_state=[0, 0]),
    "Writer.append_episode": lambda o: o.writer.append_episode(
        state=np.zeros((2, 2)), action=[0], reward=[0]
    ),
    "Writer.append_transition": lambda o: o.writer.append_transition(
        state=[0, 0], action=0, reward=0, next_state=[0, 0]
    ),
    "Writer.append_transitions": lambda o: o.writer.append_transitions(end=[0]),
    "Writer.close": lambda o: o.writer.close(),
    "VectorWriter.begin": lambda o: o.writers.begin(state=np.zeros((2, 2))),
    "VectorWriter.append": lambda o: o.writers.append(end=[0, 0]),
    "VectorWriter.append_transitions": lambda o: o.writers.append_transitions(end=[0, 0]),
    "VectorWriter.close": lambda o: o.writers.close(),
    "Sampler.sample": lambda o: o.sampler.sample(4),
    "Prefetcher.__next__": lambda o: next(o.batches),
}


def test_writers_and_samplers_from_before_a_restore_are_closed(buffer, tmp_path):
    buffer.save(tmp_path)
    writer, writers = buffer.writer(), buffer.vector_writer(1, autoreset="disabled")
    writer.begin_episode(state=[0, 0])
    writers.begin(state=[[0, 0]])
    sampler = buffer.sampler()
    buffer.restore(tmp_path)
    step = {name: [value] for name, value in STEP.items()}
    refuses(reprise.Closed, "Writer.append: the buffer was restored since", writer.append, **STEP)
    again = "begin_episode: the buffer was restored since"
    refuses(reprise.Closed, again, writer.begin_episode, state=[0, 0])
    refuses(reprise.Closed, "begin: the buffer was restored since", writers.begin, state=[[0, 0]])
    with pytest.raises(reprise.Closed, match="VectorWriter.append: the buffer was restored since"):
        writers.append(**step, end=[0])
    refuses(reprise.Closed, "sample: the buffer was restored since", sampler.sample, 1)
    buffer.close()
    refuses(reprise.Closed, "the buffer is closed", writer.append, **STEP)


class Probe:
    """Makes all calls while `restore` is under way: in the function that shows its warning."""

    def __init__(self, buffer, directory):
        self.answers = {}
        self.buffer, self.directory = buffer, directory
        self.writer, self.writers = buffer.writer(), buffer.vector_writer(2, autoreset="same_step")
        self.writer.begin_episode(state=[0, 0])
        self.writers.begin(state=np.zeros((2, 2)))
        self.sampler = buffer.sampler()
        self.selector, self.episodes = buffer.selector(), buffer.episodes()
        self.batches = buffer.prefetch(4)

    def showwarning(self, *_):
        for name, call in CALLS.items():
            try:
                call(self)
                self.answers[name] = "no error"
            except RuntimeError as error:
                self.answers[name] = str(error)


def test_other_calls_are_refused_beside_restore(tmp_path, monkeypatch):
    buffer = plain_buffer(episode_index=True)
    fill(buffer, 20)
    for _ in range(2):
        buffer.save(tmp_path)
    newest = max(tmp_path.glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    probe = Probe(buffer, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", probe.showwarning)
        buffer.restore(tmp_path)
    assert list(probe.answers) == list(CALLS)
    for name, answer in probe.answers.items():
        assert "ReplayBuffer.restore of this buffer is under way" in answer, name
    assert not buffer.closed and len(buffer) == 20
