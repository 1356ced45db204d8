"""`stats()` counts a wait once, although the waiting thread wakes again and again to look for
signals."""

import signal
import threading
import time

import numpy as np
import pytest
from testing.buffers import STEP, append_until_held, fill, plain_buffer, queue_of
from testing.threads import running

import reprise


def waits_of(buffer, kind):
    return buffer.stats()[kind]


def in_main_thread(call):
    return call()


def in_another_thread(call):
    with running(call) as results:
        pass
    return results[0]


threads = pytest.mark.parametrize("run", [in_main_thread, in_another_thread])


def expect(found, **counts):
    """Checks these counts of waits; all others have to be 0, and no call may wait now."""
    expected = {"waits": 0, "timeouts": 0, "stops": 0, "waiting_now": 0} | counts
    assert {name: found[name] for name in expected} == expected
    if expected["waits"] == 0:
        assert found["total"] == found["longest"] == 0
    assert found["total"] >= found["longest"] and found["waiting_for"] == 0


def when_waiting(buffer, kind, act, seconds=0.3):
    """Starts a thread that calls `act` once a call has waited for `seconds`."""

    def watch():
        while buffer.stats()[kind]["waiting_for"] < seconds:
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@threads
def test_a_sample_that_times_out_is_one_wait(buffer, run):
    def call():
        with pytest.raises(TimeoutError):
            buffer.sampler().sample(4, timeout=0.4)

    run(call)
    waits = waits_of(buffer, "samplers_for_items")
    expect(waits, waits=1, timeouts=1)
    assert waits["longest"] >= 0.4


@threads
def test_a_sample_that_gets_its_items_is_one_wait(buffer, run):
    thread = when_waiting(buffer, "samplers_for_items", lambda: fill(buffer, 10))
    assert len(run(lambda: buffer.sampler().sample(4))) == 4
    thread.join()
    waits = waits_of(buffer, "samplers_for_items")
    expect(waits, waits=1)
    assert waits["longest"] >= 0.3


APPENDS = {
    "append": lambda writer: writer.append(**STEP),
    "append_transition": lambda writer: writer.append_transition(state=[0, 0], **STEP),
    "append_episode": lambda writer: writer.append_episode(
        state=np.zeros((2, 2)), action=[0], reward=[0]
    ),
}


@threads
@pytest.mark.parametrize("append", APPENDS.values(), ids=list(APPENDS))
def test_appends_that_get_room_are_one_wait_each(run, append):
    buffer = queue_of(4)
    sampler = buffer.sampler()
    writer = buffer.writer()
    writer.begin_episode(state=[0, 0])
    for waits in (1, 2):
        make_room = lambda: sampler.sample(4, timeout=0)  # noqa: E731
        thread = when_waiting(buffer, "writers_for_limiter", make_room, 0.15)
        while waits_of(buffer, "writers_for_limiter")["waits"] < waits:
            run(lambda: append(writer))
        thread.join()
        expect(waits_of(buffer, "writers_for_limiter"), waits=waits)
    assert waits_of(buffer, "writers_for_limiter")["longest"] >= 0.15


class Interrupt(Exception):
    pass


@pytest.fixture
def alarm():
    """Yields a function that sends SIGALRM to the main thread, where its handler runs, once a call
    has waited for 0.1 s."""
    before = signal.getsignal(signal.SIGALRM)
    threads = []

    def start(buffer, kind, handler):
        signal.signal(signal.SIGALRM, lambda *_: handler())
        main = threading.main_thread().ident
        ring = lambda: signal.pthread_kill(main, signal.SIGALRM)  # noqa: E731
        threads.append(when_waiting(buffer, kind, ring, 0.1))

    yield start
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGALRM, before)


def interrupt():
    raise Interrupt


VECTOR_STEP = {name: [value] * 2 for name, value in STEP.items()} | {"end": [0, 0]}


def waiting_sample():
    buffer = plain_buffer()
    return buffer, buffer.sampler().sample, {"n": 4}


def waiting_append():
    buffer = queue_of(4)
    writer = buffer.writer()
    writer.begin_episode(state=[0, 0])
    return buffer, writer.append, STEP


def waiting_vector_append():
    buffer = queue_of(4, max_writers=2)
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(state=np.zeros((2, 2)))
    return buffer, writers.append, VECTOR_STEP


@pytest.mark.parametrize("waiting", [waiting_sample, waiting_append, waiting_vector_append])
def test_a_call_that_is_interrupted_is_one_wait_and_can_be_made_again(waiting, alarm):
    buffer, call, given = waiting()
    kind = "samplers_for_items" if waiting is waiting_sample else "writers_for_limiter"
    alarm(buffer, kind, interrupt)
    with pytest.raises(Interrupt):
        while True:
            call(**given)
    expect(waits_of(buffer, kind), waits=1, stops=1)
    fill(buffer, 10) if waiting is waiting_sample else buffer.sampler().sample(4, timeout=0)
    call(**given)
    expect(waits_of(buffer, kind), waits=1, stops=1)


def test_a_signal_handler_may_append_what_a_sample_waits_for(buffer, alarm):
    alarm(buffer, "samplers_for_items", lambda: fill(buffer, 10))
    assert len(buffer.sampler().sample(4, timeout=100)) == 4
    expect(waits_of(buffer, "samplers_for_items"), waits=1)


def test_a_signal_handler_may_close_the_buffer_of_a_waiting_call(alarm):
    buffer = queue_of(4)
    writer = buffer.writer()
    writer.begin_episode(state=[0, 0])
    alarm(buffer, "writers_for_limiter", buffer.close)
    with pytest.raises(reprise.Closed):
        append_until_held(writer)
    expect(waits_of(buffer, "writers_for_limiter"), waits=1)


def test_the_documentation_explains_every_key_of_stats(buffer):
    stats = buffer.stats()
    documented = reprise.ReplayBuffer.stats.__doc__
    names = list(stats) + list(stats["samplers_for_items"])
    assert [name for name in names if f"{name}: " not in documented] == []
