"""Shared buffers where /dev/shm has only 64 MiB, as in containers of Docker, and files that killed
processes leave there and in /tmp (there must be none)."""

import subprocess
import sys

import pytest
from testing.children import run_python

import reprise

# Mounts a file system of the test's own at /dev/shm, and another at /tmp.
BEFORE = ["unshare", "--map-root-user", "--mount", "sh", "-c",
          'mount -t tmpfs -o size=64m none /dev/shm && mount -t tmpfs none /tmp && exec "$@"',
          "sh"]  # fmt: skip
CODE = """
import os
import numpy as np
import reprise
from testing.guests import attached_guest, hosting, kill
from testing.threads import wait_until

assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == 64 << 20
SIZE = 512 << 10
frames = np.arange(161, dtype=np.uint8)[:, None].repeat(SIZE, axis=1)
schema = reprise.Schema().observation("frame", np.uint8, (SIZE,)).reward()
replay = reprise.ReplayBuffer(schema, 160, selectors=reprise.Fifo())
with attached_guest(replay, ring_steps=256) as guest:
    with guest.writer() as writer:  # Its rows fill 80 MiB of shared memory.
        writer.append_episode(frame=frames, reward=np.zeros(160))
    wait_until(lambda: len(replay) == 160)
    batch = guest.sampler().sample(80)  # The host fills 80 MiB for this batch.
    assert (batch["frame"] == frames[:80]).all() and (batch["next_frame"] == frames[1:81]).all()
print("works")
with hosting(fill_steps=100) as (process, address):
    other = reprise.attach(address)
    sampler, writer = other.sampler(), other.writer()
    sampler.sample(16)
    writer.begin_episode(id=0)
    kill(process)
names = os.listdir("/dev/shm") + os.listdir("/tmp")
assert names == [], names
print("end")
"""


def test_a_host_and_its_guests_need_no_shared_memory_with_a_name():
    needed = [sys.executable, reprise.__file__, __file__]
    try:
        subprocess.run([*BEFORE, "ls", *needed], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here, or /tmp has what the test needs")
    child = run_python(CODE, before=BEFORE)
    assert (child.returncode, child.stdout) == (0, "works\nend\n"), child.stderr
