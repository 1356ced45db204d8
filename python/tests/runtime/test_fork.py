"""A forked child gets a clear error, not a hang."""

import pytest
from testing.children import run_python

CODE = """
import os, sys, tempfile
import numpy as np
import reprise
from testing.buffers import fill, plain_schema

buffer = reprise.ReplayBuffer(plain_schema(), 1000, storage={storage!r})
fill(buffer, 100)
writer = buffer.writer(); writer.begin_episode(state=[0, 0])
writers = buffer.vector_writer(2, autoreset="same_step"); writers.begin(state=np.zeros((2, 2)))
sampler = buffer.sampler()
batch = sampler.sample(4)
prefetcher = buffer.prefetch(4)
next(prefetcher)
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for call in {calls!r}:
    try:
        exec(call)
        print("no error:", call)
    except RuntimeError as error:
        assert type(error) is RuntimeError and "a fork of it" in str(error), (call, error)
for call in {returning!r}:
    exec(call)
buffer.close()
writer.close(); writers.close(); prefetcher.close()
del writer, writers, sampler, prefetcher, batch, buffer
print("end of child")
sys.exit(11)
"""

CALLS = [
    "writer.begin_episode(state=[0, 0])",
    "writer.append(action=0, reward=0, next_state=[0, 0])",
    "writer.append_episode(state=np.zeros((2, 2)), action=[0], reward=[0])",
    "writer.append_transition(state=[0, 0], action=0, reward=0, next_state=[0, 0])",
    "writer.append_transitions(state=[[0, 0]], action=[0], reward=[0], next_state=[[0, 0]], end=[0])",
    "writers.append(action=[0] * 2, reward=[0] * 2, next_state=np.zeros((2, 2)), end=[0] * 2)",
    "sampler.sample(4)",
    "next(prefetcher)",
    "buffer.update_priorities(batch.item_keys, np.ones(4))",
    "len(buffer)",
    "buffer.stats()",
    "buffer.writer()",
    "buffer.sampler()",
    "buffer.save(tempfile.mkdtemp())",
]

# Calls that still work in the child, because they do not touch the contents of the buffer.
RETURNING = [
    "assert buffer.schema == plain_schema()",
    "assert buffer.options['capacity_steps'] == 1000",
    "assert not buffer.closed",
    "assert writer.completing(0) == 1 and writer.in_episode",
    "assert writer.episode_steps == 0 and writer.episode_id >= 0",
    "assert len(writers) == 2 and writers.completing([0, 0]) == 2",
]


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_calls_in_a_forked_child_raise(storage, tmp_path):
    where = str(tmp_path) if storage == "file" else None
    child = run_python(CODE.format(storage=where, calls=CALLS, returning=RETURNING))
    assert (child.returncode, child.stdout) == (11, "end of child\n"), child.stderr


IN_A_HANDLER = """
import os, signal, sys
from testing.buffers import STEP, plain_schema, queue_of
import reprise

children = []
def fork(*_):
    children.append(os.fork())
    if children[-1] != 0:
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, fork)
buffer = queue_of(4)
writer = buffer.writer()
writer.begin_episode(state=[0, 0])
sampler = reprise.ReplayBuffer(plain_schema(), 100).sampler()
try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    while True: {call}
except RuntimeError as error:
    os._exit(5 if "a fork of it" in str(error) else 6)
except KeyboardInterrupt:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""


@pytest.mark.parametrize("call", ["writer.append(**STEP)", "sampler.sample(4)"])
def test_a_handler_that_forks_ends_the_wait_in_the_child(call):
    child = run_python(IN_A_HANDLER.format(call=call))
    assert child.returncode == 5, child.stderr


HANDLER = """
import os, signal, sys, tempfile
import numpy as np
import reprise

schema = reprise.Schema().observation("frame", np.uint8, (1 << 20,)).column("action", np.int64)
buffer = reprise.ReplayBuffer(schema, 300)
writer = buffer.writer()
writer.begin_episode(frame=np.zeros(1 << 20, np.uint8))
frame = np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8)
for _ in range(300):
    writer.append(action=0, next_frame=frame)
children = []
def fork(*_):
    children.append(os.fork())
signal.signal(signal.SIGALRM, fork)
signal.setitimer(signal.ITIMER_REAL, 0.001)
try:
    buffer.save(tempfile.mkdtemp(dir={folder!r}))
    message = ""
except RuntimeError as error:
    message = str(error)
if children == [0]:
    os._exit(11 if "fork" in message else 12)
assert message == "", message
sys.exit(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) if children else 13)
"""


def test_a_save_ends_in_a_child_that_a_signal_handler_forked(tmp_path):
    ended = run_python(HANDLER.format(folder=str(tmp_path)))
    assert ended.returncode == 11, ended.stderr
