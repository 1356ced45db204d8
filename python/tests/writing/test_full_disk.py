"""Rows in a mapped file whose disk becomes full in the middle of an append."""

import subprocess

import pytest
from testing.children import run_python

# The test mounts a small file system in a mount namespace of its own.
COMMAND = ["unshare", "--map-root-user", "--mount"]
# A buffer reserves disk space for its capacity when it is made. Sixty other writers, each with one
# step in a chunk of its own, use this space up, so that the tested appends need more disk space.
CODE = """
import os, subprocess, sys
import numpy as np
import reprise

disk = sys.argv[1]
def used():
    facts = os.statvfs(disk)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize // 1024
def grow(by):
    options = f"remount,size={used() + by}k"
    subprocess.run(["mount", "-o", options, disk], check=True)

schema = (reprise.Schema().observation("frame", np.uint8, (4000,)).column("action", np.int32)
          .reward())
buffer = reprise.ReplayBuffer(schema, 320, selectors=reprise.Uniform(), storage=disk, shards=1,
                              chunk_steps=8, window=reprise.Transitions(n_step=2))
OTHER = 251 * 1000

def frames(first, steps):
    return np.repeat((np.arange(first, first + steps) % 251).astype(np.uint8)[:, None], 4000, 1)

others = [buffer.writer() for _ in range(60)]
for other in others:
    other.begin_episode(frame=frames(0, 1)[0])
    other.append(action=OTHER, reward=0, next_frame=frames(0, 1)[0])
grow(0)

writers = buffer.vector_writer(4, autoreset="same_step", timeout=0)
writers.begin(frame=np.repeat(frames(0, 1), 4, 0))
refused = 0
for t in range(50):
    end = np.full(4, 2 * (t % 7 == 6), np.uint8)
    after, action = np.repeat(frames(t + 1, 1), 4, 0), np.full(4, t, np.int32)
    priorities = np.ones(writers.completing(end))
    while True:
        try:
            writers.append(action=action, reward=np.zeros(4), next_frame=after, end=end,
                           final={"frame": after}, priorities=priorities)
            break
        except OSError as error:
            assert error.errno == 28, error
            refused += 1
            grow(40)
for e in range(4):
    writers[e].close()
batch = buffer.sampler().sample(len(buffer), draws="without_replacement", timeout=0)
assert (batch["frame"] == (batch["action"] % 251)[:, None]).all()
mine = batch["action"] != OTHER
assert sorted(batch["action"][mine]) == sorted(4 * [*range(50)])
assert (batch.positions == batch["action"] % 7)[mine].all()
assert refused > 6, refused
print("done")
"""


def test_an_append_that_a_full_disk_refused_succeeds_once_there_is_space(tmp_path):
    mount = ["sh", "-c", 'mount -t tmpfs -o size=64m none "$0" && exec "$@"', str(tmp_path)]
    try:
        subprocess.run([*COMMAND, *mount, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    child = run_python(CODE, tmp_path, before=[*COMMAND, *mount])
    assert child.stdout == "done\n", child.stderr
