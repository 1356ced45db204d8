"""ReplayBuffer.share and reprise.attach."""

import copy
import os
import pickle
import threading

import pytest
from testing.buffers import fill, plain_buffer, plain_schema
from testing.guests import attached_guest
from testing.refusals import refuses
from testing.threads import running

import reprise


def test_a_guest_has_the_schema_window_and_stats_of_the_buffer():
    window = reprise.Transitions(n_step=3, discount=0.9)
    replay = plain_buffer(window=window)
    fill(replay, 10)
    with attached_guest(replay) as guest:
        assert guest.schema == plain_schema() and guest.window == window
        ours, theirs = replay.stats(), guest.stats()
        assert set(ours) == set(theirs)
        assert theirs["committed_steps"] == 10 and theirs["guests"] == 1
        assert theirs["limiter"] == ours["limiter"]
        assert not guest.closed
        guest.close()
        assert guest.closed
        for call in (guest.stats, guest.writer, guest.sampler, lambda: guest.prefetch(4)):
            refuses(reprise.Closed, "the guest is closed, or its host is gone", call)


def test_a_closed_buffer_is_not_shared():
    replay = plain_buffer()
    replay.close()
    refuses(reprise.Closed, "share: the buffer is closed", replay.share)


def test_writers_and_samplers_outlive_their_guest():
    replay = plain_buffer()
    with replay.share() as address:
        with reprise.attach(address) as guest:
            writer, sampler = guest.writer(), guest.sampler()
        for _ in range(2):
            writer.begin_episode(state=[0, 0])
            writer.append(action=0, reward=0, next_state=[0, 0], end=reprise.End.TERMINATED)
        assert len(sampler.sample(4)) == 4


def test_an_address_is_chosen_or_given(tmp_path):
    replay = plain_buffer()
    path = str(tmp_path / "socket")
    for given in ("@reprise-given-" + str(os.getpid()), path):
        host = replay.share(given, ring_steps=8)
        assert host.address == given
        refuses(OSError, "Address already in use", replay.share, given)
        reprise.attach(given).close()
        host.close()
        host.close()
    assert os.listdir(tmp_path) == []
    one, other = replay.share(), replay.share()
    assert one.address != other.address and one.address.startswith("@reprise-")
    for address in (one.address, other.address):
        assert reprise.attach(address).stats()["committed_steps"] == 0
    refuses(ValueError, "ring_steps is 7; allowed: 0, and 8 to 1048576", replay.share, ring_steps=7)
    refuses(ValueError, "address is 'x+'; allowed", replay.share, "x" * 200)
    refuses(OSError, "No such file", replay.share, str(tmp_path / "none" / "socket"))


def test_the_end_of_the_block_or_of_the_buffer_ends_its_guests():
    for by_block in (True, False):
        replay = plain_buffer()
        host = replay.share()
        guest = reprise.attach(host.address)
        writer, sampler = guest.writer(), guest.sampler()
        writer.begin_episode(state=[0, 0])
        before = threading.active_count()
        with running(lambda: refuses(reprise.Closed, "Sampler.sample", sampler.sample, 4)):
            (host if by_block else replay).close()
        assert guest.closed and threading.active_count() == before
        step = {"action": 0, "reward": 0, "next_state": [0, 0]}
        with pytest.raises(reprise.Closed, match="Writer.append"):
            while True:
                writer.append(**step)
        refuses(OSError, "Connection refused", reprise.attach, host.address, timeout=0.02)
        host.close()
    refuses(OSError, "attaching to a buffer at '@reprise-nobody'", reprise.attach, "@reprise-nobody",
            timeout=0)  # fmt: skip
    refuses(ValueError, "address", reprise.attach, "")


def test_a_host_may_come_later_than_its_guests():
    replay = plain_buffer()
    address = f"@reprise-later-{os.getpid()}"
    hosts = []
    with running(lambda: reprise.attach(address, timeout=60).close()):
        hosts.append(replay.share(address))


def test_a_call_that_a_guest_lacks_names_the_call_of_the_buffer():
    replay = plain_buffer()
    with attached_guest(replay) as guest:
        for name in ("save", "episodes", "restore", "options", "gather", "clear", "share"):
            assert not hasattr(guest, name)
            with pytest.raises(AttributeError, match=f"Guest.{name}: .*ReplayBuffer.{name} in the"):
                getattr(guest, name)
        with pytest.raises(AttributeError, match="^'Guest' object has no attribute 'sav'$"):
            guest.sav
        refuses(TypeError, "parts", reprise.mix, [guest], 4)
        host = replay.share()
        for made in (guest, host):
            for call in (pickle.dumps, copy.copy):
                refuses(TypeError, r"replay.share\(\).*reprise.attach", call, made)
        refuses(TypeError, "is in use|pickled", pickle.dumps, guest.writer())


def test_a_restored_buffer_is_shared_anew(tmp_path):
    replay = plain_buffer()
    fill(replay, 10)
    replay.save(tmp_path)
    with replay.share() as address:
        guest = reprise.attach(address)
        replay.restore(tmp_path)
        with pytest.raises(reprise.Closed):
            guest.sampler().sample(4)
    with replay.share() as address:
        assert len(reprise.attach(address).sampler().sample(4)) == 4
