"""Python ends while daemon threads are in calls of reprise."""

from testing.children import run_python

CODE = """
import threading, time
import numpy as np
import reprise

schema = reprise.Schema().observation("frame", np.uint8, (84, 84)).reward()
buffer = reprise.ReplayBuffer(schema, 2000)
frame = np.zeros((84, 84), np.uint8)


def act():
    with buffer.writer() as writer:
        writer.begin_episode(frame=frame)
        while True:
            writer.append(reward=1, next_frame=frame)


def learn():
    sampler = buffer.sampler()
    while True:
        batch = sampler.sample(32)
        buffer.update_priorities(batch.item_keys, np.ones(32))


for work in (act, act, learn):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


def test_daemon_threads_in_calls_do_not_abort_the_process():
    for _ in range(5):
        ended = run_python(CODE)
        assert ended.returncode == 0, ended.stderr


READS = """
import threading, time
import numpy as np
import reprise

schema = reprise.Schema().observation("state", np.float32, (2,)).column("action", np.int32).reward()
buffer = reprise.ReplayBuffer(schema, 100, selectors=[reprise.Uniform(), reprise.Proportional()])


def watch(read):
    while True:
        read()


for read in (
    lambda: buffer.schema.fields,
    lambda: repr(buffer.schema),
    lambda: buffer.options,
    lambda: reprise.Schema.from_step(observations={"a": [1.0, 2.0], "b": np.zeros(3)}),
):
    threading.Thread(target=watch, args=(read,), daemon=True).start()
time.sleep(0.05)
"""


def test_daemon_threads_that_make_objects_end_with_the_process():
    for _ in range(20):
        ended = run_python(READS)
        assert ended.returncode == 0, ended.stderr
