"""reprise.ray: ten minutes of use, in which no process and no object store grows.

Only REPRISE_RAY_LONG=1 runs it.
"""

import os
import time

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

import ray
from ray_cluster import LONG, check, make, started
from test_ray_faults import SECONDS, actor, priority_of

MINUTES = float(os.environ.get("REPRISE_RAY_SOAK_MINUTES", "10"))


def resident_bytes(pid):
    with open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


@pytest.mark.skipif(not LONG, reason="REPRISE_RAY_LONG is not set")
def test_memory_stays_as_it_is():
    import faulthandler

    faulthandler.cancel_dump_traceback_later()  # This one is longer than any test may hang.
    with started() as _, make(20_000) as replay:
        writes = [actor(replay, who) for who in range(2)]
        running = [one.run.remote(0.002) for one in writes]
        pids = [os.getpid(), *ray.get([one.pid.remote() for one in writes])]
        pids += [one["pid"] for one in replay.stats()["shards"]]
        measured, end = [], time.monotonic() + 60 * MINUTES
        with replay.prefetch(256, timeout=SECONDS) as batches:
            while time.monotonic() < end:
                until = min(end, time.monotonic() + 60 * MINUTES / 20)
                while time.monotonic() < until:
                    batch = next(batches)
                    check(batch)
                    replay.update_priorities(batch.item_keys, priority_of(batch))
                used = ray.available_resources().get("object_store_memory", 0)
                measured.append([used, *(resident_bytes(pid) for pid in pids)])
                print([value >> 20 for value in map(int, measured[-1])], "MiB", flush=True)
        ray.get([one.end.remote() for one in writes])
        ray.get(running, timeout=SECONDS)
        # From the middle to the end, when every buffer had been filled and evicted from.
        middle, last = measured[len(measured) // 2], measured[-1]
        assert last[0] >= middle[0] - (8 << 20)
        for pid, before, after in zip(pids, middle[1:], last[1:]):
            assert after <= before * 1.05 + (8 << 20), pid
