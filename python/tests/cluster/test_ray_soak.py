"""reprise.ray in use for minutes: no process and no object store may grow.

Only REPRISE_RAY_SOAK_MINUTES=10 runs it.
"""

import os
import time

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

import numpy as np
import ray
from testing.ray_cluster import check, make, started
from test_ray_faults import SECONDS, actor, priority_of

MINUTES = float(os.environ.get("REPRISE_RAY_SOAK_MINUTES", "0"))


def processes():
    """Returns the names and resident bytes of this process and of its descendants, among them the
    cluster's processes."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status") as file:
                lines = dict(line.split(":", 1) for line in file)
            resident = int(lines.get("VmRSS", "0 kB").split()[0]) << 10
            found[int(pid)] = lines["Name"].strip(), int(lines["PPid"]), resident
        except (OSError, KeyError):
            continue  # The process has ended.

    def is_ours(pid):
        while pid in found and pid != os.getpid():
            pid = found[pid][1]
        return pid == os.getpid()

    return {pid: (name, size) for pid, (name, _, size) in found.items() if is_ours(pid)}


@ray.remote(num_cpus=0)
def append_episode(replay, who):
    """A task that appends an episode and ends."""
    steps = np.arange(20)
    replay.append_episode(at=np.arange(21), writer=np.full(20, who), step=steps, reward=steps)


@pytest.mark.skipif(MINUTES == 0, reason="REPRISE_RAY_SOAK_MINUTES is not set")
def test_memory_stays_as_it_is(tmp_path):
    import faulthandler

    faulthandler.cancel_dump_traceback_later()  # This test takes longer than pytest's limit.
    with started() as _, make(20_000) as replay:
        writes = [actor(replay, who) for who in range(2)]
        running = [one.run.remote(0.002) for one in writes]
        store, sizes, batches, end = [], [], 0, time.monotonic() + 60 * MINUTES
        with replay.prefetch(256, timeout=SECONDS) as drawn:
            while time.monotonic() < end:
                until = min(end, time.monotonic() + 60 * MINUTES / 20)
                ray.get(append_episode.remote(replay, 2), timeout=SECONDS)
                replay.save(tmp_path, timeout=SECONDS)
                while time.monotonic() < until:
                    batch = next(drawn)
                    check(batch)
                    replay.update_priorities(batch.item_keys, priority_of(batch))
                    batches += 1
                store.append(ray.available_resources().get("object_store_memory", 0))
                sizes.append(processes())
                total = sum(size for _, size in sizes[-1].values())
                print(
                    f"{batches} batches, {len(sizes[-1])} processes, {total >> 20} MiB; "
                    f"{int(store[-1]) >> 20} MiB free in the object store",
                    flush=True,
                )
        ray.get([one.end.remote() for one in writes])
        ray.get(running, timeout=SECONDS)
        # Compares the middle of the time with its end. By the middle each shard was full and
        # evicted steps.
        middle, last = sizes[len(sizes) // 2], sizes[-1]
        grown = []
        for pid in middle.keys() & last.keys():
            name, before = middle[pid]
            after = last[pid][1]
            print(f"{name:20} {before >> 10:10} KiB {after >> 10:10} KiB")
            if after > before * 1.05 + (8 << 20):
                grown.append(name)
        assert not grown
        assert store[-1] >= store[len(store) // 2] - (8 << 20)
