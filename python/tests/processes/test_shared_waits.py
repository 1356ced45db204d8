"""Waits of guests: their warnings, interrupts during a wait, and other threads meanwhile."""

import threading
import time

import pytest
from testing.buffers import fill, plain_buffer, queue_of
from testing.children import run_python, run_script
from testing.guests import attached_guest, numbered
from testing.threads import running

import reprise


@pytest.mark.parametrize("who", ["sampler", "sampler of a closed guest", "writer"])
def test_the_warning_of_a_guests_long_wait_has_the_hosts_reason(who):
    if who != "writer":
        replay = plain_buffer(rate_limiter=reprise.MinSize(50))
        fill(replay, 20)
        reason = "; 20 items and 0 open writers .*50" if who == "sampler" else "$"
    else:
        replay = queue_of(4)
        reason = "; 4 items and 1 open writers .*4 items wait to be sampled"

    def close():
        end = time.monotonic() + 60
        while not caught and time.monotonic() < end:
            time.sleep(0.05)
        replay.close()

    def wait():
        if who != "writer":
            sampler = guest.sampler()
            if who != "sampler":
                guest.close()
            sampler.sample(4)
        with guest.writer() as writer:
            writer.begin_episode(state=[0, 0])
            while True:
                writer.append(action=0, reward=0, next_state=[0, 0])

    message = rf"has waited for ([5-9]|\d\d+) s and has no timeout{reason}"
    with attached_guest(replay, ring_steps=8) as guest:
        with pytest.warns(RuntimeWarning, match=message) as caught:
            with running(close), pytest.raises(reprise.Closed):
                wait()
    assert len(caught) == 1 and caught[0].filename == __file__


def test_a_writer_of_a_closed_guest_still_times_out():
    with attached_guest(queue_of(4), ring_steps=8) as guest:
        writer = guest.writer(timeout=0)
        guest.close()
        writer.begin_episode(state=[0, 0])
        with pytest.raises(TimeoutError, match="no room now; .* with the same arguments$"):
            while True:
                writer.append(action=0, reward=0, next_state=[0, 0])


INTERRUPTED = """
import os, signal, threading, time
import reprise
from testing.guests import attached_guest, numbered

signal.signal(signal.SIGINT, signal.default_int_handler)  # Whatever the parent has set.

def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)

replay = numbered(selectors=reprise.Fifo(), max_times_sampled=1, rate_limiter=reprise.Queue(4))
with attached_guest(replay, ring_steps=8) as guest:
    sampler, writer, ahead = guest.sampler(), guest.writer(), guest.prefetch(4)
    writers = guest.vector_writer(1, autoreset="disabled")
    writer.begin_episode(id=0)
    writers.begin(id=[0])
    for call in (
        lambda: sampler.sample(4),
        lambda: next(ahead),
        lambda: [writer.append(action=0, reward=0, next_id=0) for _ in range(100)],
        lambda: [writers.append(action=[0], reward=[0], next_id=[0], end=[0]) for _ in range(100)],
        lambda: reprise.attach("@reprise-nobody", timeout=600),
    ):
        try:
            threading.Thread(target=interrupt).start()
            call()
            print("no interrupt")
        except KeyboardInterrupt:
            pass
print("end")
"""


def test_a_keyboard_interrupt_ends_a_wait():
    child = run_python(INTERRUPTED)
    assert (child.returncode, child.stdout) == (0, "end\n"), child.stderr


STOPPED = """
import os, signal, threading, time
import reprise
from testing.guests import hosting

signal.signal(signal.SIGINT, signal.default_int_handler)  # Whatever the parent has set.

def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)

def stop(process):
    # Returns once each thread of the process has stopped, which takes a moment.
    os.kill(process.pid, signal.SIGSTOP)
    threads = f"/proc/{process.pid}/task"
    while any(
        open(f"{threads}/{one}/stat").read().rpartition(")")[2].split()[0] != "T"
        for one in os.listdir(threads)
    ):
        time.sleep(0.001)

if __name__ == "__main__":
    with hosting(fill_steps=100) as (process, address):
        guest = reprise.attach(address)
        sampler, writer = guest.sampler(), guest.writer()
        writer.begin_episode(id=0)
        step = {"action": 0, "reward": 0, "next_id": 1}
        keys = sampler.sample(4).item_keys
        stop(process)
        for call in (
            guest.stats,
            guest.writer,
            guest.sampler,
            lambda: guest.prefetch(4),
            lambda: guest.vector_writer(2, autoreset="disabled"),
            lambda: guest.update_priorities(keys, [1.0] * 4),
            lambda: sampler.update_priorities(keys, [1.0] * 4),
            lambda: sampler.sample(4),
            lambda: [writer.append(**step) for _ in range(1000)],
            lambda: reprise.attach(address, timeout=600),
        ):
            start = time.monotonic()
            try:
                threading.Thread(target=interrupt).start()
                call()
                print("no interrupt")
            except KeyboardInterrupt:
                # The signal ended it: a stopped host answers nothing, and a guest waits 30 s.
                assert time.monotonic() - start < 20
        os.kill(process.pid, signal.SIGCONT)
        assert len(sampler.sample(4)) == 4
        assert guest.stats()["committed_steps"] >= 100
        assert guest.update_priorities(keys, [1.0] * 4) == (4, 0)
        writer.append(**step)
        impatient = guest.writer(timeout=0)
        impatient.begin_episode(id=0)
        stop(process)
        try:
            while True:
                impatient.append(**step)
        except TimeoutError as error:  # It does not wait for words of the host.
            assert str(error).startswith("Writer.append: no room now;"), error
        ended = []

        def ask():
            try:
                guest.stats()
            except reprise.Closed:
                ended.append("closed")

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.2)
        assert guest.schema and guest.window and not guest.closed
        guest.close()
        asking.join()
        assert ended == ["closed"] and guest.closed
        os.kill(process.pid, signal.SIGCONT)
    print("end")
"""


def test_a_keyboard_interrupt_ends_a_call_to_a_stopped_host(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(STOPPED, "utf-8")
    child = run_script(program)
    assert (child.returncode, child.stdout) == (0, "end\n"), child.stderr


def test_other_threads_run_while_a_guest_waits_and_its_host_serves():
    replay = numbered(rate_limiter=reprise.MinSize(1000))
    with attached_guest(replay) as guest:
        sampler = guest.sampler()
        drawn = threading.Event()

        def draw():
            sampler.sample(4)
            drawn.set()

        with running(draw), guest.writer() as writer:
            writer.begin_episode(id=0)
            for i in range(1000):
                assert not drawn.is_set()
                writer.append(action=i, reward=0, next_id=i + 1)
        assert drawn.is_set()


def test_one_thread_at_a_time_uses_a_sampler_of_a_guest():
    replay = numbered()
    with attached_guest(replay) as guest:
        sampler = guest.sampler()

        def wait():
            while True:
                try:
                    sampler.sample(4)
                except reprise.Closed:
                    return
                except RuntimeError:  # The other thread was in a call of the sampler.
                    time.sleep(0.001)

        with running(wait):
            with pytest.raises(RuntimeError, match="Sampler is in use"):
                while True:
                    try:
                        sampler.sample(4, timeout=0)
                    except TimeoutError:
                        time.sleep(0.001)
            replay.close()
