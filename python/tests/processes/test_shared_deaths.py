"""Processes that die: the steps that they had committed are in the buffer, and no call waits for
them."""

import contextlib
import multiprocessing
import os

import pytest
from testing.children import run_python
from testing.guests import (
    EPISODE,
    attached_guest,
    hosting,
    kill,
    numbered,
    numbers_in,
    running_child,
    write_all,
    write_for_ever,
)
from testing.refusals import refuses
from testing.threads import running, wait_until

import reprise


@contextlib.contextmanager
def killed_writer(address, steps):
    """Yields a child that appends, once it has appended `steps`, and its count of appends. Kills
    the child at the end."""
    context = multiprocessing.get_context("spawn")
    appended = context.RawValue("q", 0)
    child = context.Process(target=write_for_ever, args=(address, 0, appended))
    child.start()
    try:
        wait_until(lambda: appended.value >= steps)
        yield child, appended
    finally:
        kill(child)


@pytest.mark.parametrize("steps", [1, 700, 1503, 3001])
def test_acknowledged_steps_of_a_killed_writer_are_in_the_buffer(steps):
    replay = numbered(10_000_000)
    with replay.share() as address:
        with killed_writer(address, steps) as (child, appended):
            kill(child)
        wait_until(lambda: replay.stats()["guests"] == 0 and replay.stats()["writers"] == 0)
        stored = len(replay)
        # The last step may have been stored and not counted when the writer was killed.
        assert appended.value <= stored <= appended.value + 1
        assert numbers_in(replay) == list(range(stored))
        assert replay.stats()["cut_episodes"] == (1 if stored % EPISODE != 0 else 0)
        with running_child(write_all, address, 20_000_000, 100):  # Other processes still append.
            pass
    assert len(replay) == stored + 100


def test_calls_of_a_guest_whose_host_was_killed_raise_closed():
    with hosting(fill_steps=100) as (process, address):
        guest = reprise.attach(address)
        sampler, waiting = guest.sampler(), guest.sampler()
        writer, fast = guest.writer(), guest.writer()
        vector = guest.vector_writer(2, autoreset="disabled")
        prefetcher = guest.prefetch(4)
        keys = sampler.sample(4).item_keys
        writer.begin_episode(id=0)
        fast.begin_episode(id=0)
        step = {"action": 0, "reward": 0, "next_id": 1}
        count = []

        def append_for_ever():
            while True:
                fast.append(**step)
                count.append(1)

        def die():
            wait_until(lambda: len(count) > 1000)
            kill(process)

        with running(die, lambda: refuses(reprise.Closed, "Writer.append", append_for_ever)):
            with pytest.raises(reprise.Closed, match="Sampler.sample"):
                while True:
                    waiting.sample(64)
        assert guest.closed
        refuses(reprise.Closed, "Sampler.sample", sampler.sample, 4)
        wait_until(lambda: raises_closed(lambda: writer.append(**step)))
        refuses(reprise.Closed, "no step was taken", writer.begin_episode, id=0)
        refuses(reprise.Closed, "no step was taken", vector.begin, id=[0, 0])
        for call in (guest.stats, guest.writer, guest.sampler):
            refuses(reprise.Closed, "its host is gone", call)
        assert guest.update_priorities(keys, [1.0] * 4) == (0, 4)
        assert len(list(prefetcher)) < 10  # Only batches that were drawn before the host died.
        refuses(OSError, address, reprise.attach, address, timeout=0.05)
    del guest, sampler, waiting, writer, fast, vector, prefetcher


def raises_closed(call):
    try:
        call()
    except reprise.Closed:
        return True
    return False


def test_forked_children_of_a_killed_host_do_not_keep_guests_waiting():
    """A child that multiprocessing forks has copies of the host's sockets, which stay open when the
    host dies."""
    child = run_python(FORKING)
    assert (child.returncode, child.stdout) == (0, "closed\n"), child.stderr


FORKING = """
import os, signal, time
import reprise
from testing.guests import numbered

read_end, write_end = os.pipe()
host = os.fork()
if host == 0:
    replay = numbered()
    with replay.share("@reprise-forking-%d" % os.getppid()) as address:
        while replay.stats()["guests"] == 0: time.sleep(0.01)
        other = os.fork()
        if other != 0: os.write(write_end, b"%d" % other)
        time.sleep(600)
        os._exit(0)
guest = reprise.attach("@reprise-forking-%d" % os.getpid())
sampler = guest.sampler()
other = int(os.read(read_end, 20))
os.kill(host, signal.SIGKILL)
try:
    sampler.sample(4)
except reprise.Closed:
    print("closed", flush=True)
os.kill(other, signal.SIGKILL)
os.waitpid(host, 0)
"""

LEAVES_NOTHING = """
import os, sys, tempfile
from testing.guests import hosting, kill, numbered, running_child, write_all
from testing.threads import wait_until
from testing.children import run_python
import reprise

def names():  # Other processes of the machine may use the library, too.
    return [one for one in os.listdir("/dev/shm") if one.startswith(f"reprise-{os.getpid()}-")]

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def maps():
    return open("/proc/self/maps").read().count("memfd:")

if __name__ == "__main__":
    replay = numbered()
    host = replay.share(os.path.join(tempfile.gettempdir(), "socket"))
    write_all(host.address, 0, 100)
    host.close()
    open_before = descriptors()
    with replay.share(os.path.join(tempfile.gettempdir(), "socket")) as address:
        write_all(address, 100, 100)
        guest = reprise.attach(address)
        batch = guest.sampler().sample(16)
        killed = run_python(
            "import os, sys, reprise\\n"
            "guest = reprise.attach(sys.argv[1]); writer = guest.writer(); sampler = guest.sampler()\\n"
            "sampler.sample(4); writer.begin_episode(id=0); os.kill(os.getpid(), 9)\\n", address)
        assert killed.returncode == -9, killed.stderr
        wait_until(lambda: replay.stats()["writers"] == 0)
        del guest
    replay.close()
    assert descriptors() == open_before and maps() == 0, (descriptors(), open_before, maps())
    assert names() == [] and os.listdir(tempfile.gettempdir()) == []
    print("end")
"""


def test_nothing_is_left_of_processes_that_shared_a_buffer(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    child = run_python(LEAVES_NOTHING)
    assert (child.returncode, child.stdout) == (0, "end\n"), child.stderr
    assert os.listdir(tmp_path) == []


def test_guests_in_threads_come_and_go():
    replay = numbered()
    with attached_guest(replay) as guest:

        def come_and_go():
            for _ in range(20):
                guest.writer().close()
                guest.sampler()

        with running(*[come_and_go] * 4):
            pass
        assert guest.stats()["guests"] == 1
        wait_until(lambda: replay.stats()["writers"] == 0)
