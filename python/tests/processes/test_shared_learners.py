"""Samplers of other processes: draws, priorities, views, prefetch."""

import multiprocessing

import numpy as np
import pytest
from testing.buffers import fill, plain_buffer
from testing.children import run_python
from testing.guests import attached_guest, numbered, running_child, write_all
from testing.refusals import refuses
from testing.threads import wait_until

import reprise


def rank(address, number, results):
    """Draws batches, and sets priorities that no other rank sets: `number` plus twice the number of
    the batch. Puts in `results` the number of applied updates, and the last priority of each
    key."""
    last, applied = {}, 0
    with reprise.attach(address) as guest:
        sampler = guest.sampler(seed=number)
        for batch_number in range(100):
            keys = sampler.sample(16).item_keys
            priority = float(number + 2 * batch_number)
            applied += sampler.update_priorities(keys, np.full(16, priority, np.float32)).applied
            last |= dict.fromkeys(keys.tolist(), priority)
    results.put((applied, last))


def test_updates_of_two_ranks_are_applied_once_each():
    replay = numbered(selectors=reprise.Proportional(alpha=1.0, epsilon=0.0))
    results = multiprocessing.get_context("spawn").Queue()
    with replay.share() as address:
        write_all(address, 0, 50)
        wait_until(lambda: len(replay) == 50)
        with running_child(rank, address, 1, results), running_child(rank, address, 2, results):
            (first, last_of_first), (second, last_of_second) = (
                results.get(timeout=180) for _ in range(2)
            )
    assert replay.stats()["applied_updates"] == first + second == 2 * 100 * 16
    keys = list(last_of_first.keys() | last_of_second.keys())
    priorities = replay.selector(0).priorities(np.array(keys))
    for key, priority in zip(keys, priorities.tolist()):
        assert priority in (last_of_first.get(key), last_of_second.get(key))


def test_batches_are_copies_unless_views_are_asked_for():
    replay = plain_buffer(500)
    fill(replay, 400)
    with attached_guest(replay) as guest:
        sampler = guest.sampler(seed=1)
        first = sampler.sample(32)
        copy = first["action"].copy()
        view = sampler.sample(32, views=True)
        assert sampler.sample(32, views=True) is view and view.views
        seen = view["action"].copy()
        for n in (4, 400, 32):
            assert len(sampler.sample(n)) == n
        assert (view["action"] == seen).all(), "only another view fills it"
        sampler.sample(32, views=True)
        assert (view["action"] != seen).any() and (first["action"] == copy).all()
        into = sampler.empty_batch(8)
        sampler.sample_into(into, 0, 5)
        sampler.sample_into(into, 5, 3)
        assert (into["action"] == into["state"][:, 0]).all()
        memory = []

        def allocator(nbytes):
            memory.append(np.empty(nbytes, np.uint8))
            return memory[-1]

        batch = guest.sampler(allocator=allocator).sample(16)
        assert np.shares_memory(batch["action"], memory[0])


def test_errors_of_a_guests_sampler_are_those_of_a_sampler():
    replay = plain_buffer(500, selectors=reprise.Proportional(alpha=1.0, epsilon=0.0))
    with attached_guest(replay) as guest:
        here, there = replay.sampler(), guest.sampler()
        for sampler in (here, there):
            said = "Sampler.sample: .*0 of the 1 items needed"
            refuses(TimeoutError, said, sampler.sample, 4, timeout=0.05)
            refuses(TimeoutError, "Sampler.sample: ", sampler.sample, 4, timeout=0)
        fill(replay, 10)
        for sampler in (here, there):
            said = "beta is 2; allowed: 0 to 1$"
            refuses(ValueError, f"^Sampler.sample: {said}", sampler.sample, 4, beta=2.0)
            refuses(ValueError, f"^Sampler.prefetch: {said}", sampler.prefetch, 4, beta=2.0)
            refuses(ValueError, "n is 0", sampler.sample, 0)
        refuses(ValueError, "^ReplayBuffer.selector: selector is 3", replay.selector, 3)
        refuses(ValueError, "^Guest.sampler: selector is 3", guest.sampler, selector=3)
        for owner in (replay, guest):
            kind = type(owner).__name__
            refuses(ValueError, f"^{kind}.update_priorities: .*-1", owner.update_priorities,
                    there.sample(1).item_keys, [-1.0])  # fmt: skip
            refuses(TypeError, "keys", owner.update_priorities, [0.5], [1.0])
        keys = there.sample(10, draws="without_replacement").item_keys
        assert guest.update_priorities(keys, np.zeros(10)) == (10, 0)
        for sampler in (here, there):
            refuses(reprise.NothingToDraw, "Sampler.sample", sampler.sample, 4)
        refuses(TypeError, "resume", guest.sampler, resume=0)


def test_a_batch_has_as_many_bytes_as_the_host_allows():
    replay = plain_buffer(500)
    fill(replay, 400)
    with attached_guest(replay, max_batch_bytes=20_000) as guest:
        sampler = guest.sampler()
        assert len(sampler.sample(100)) == 100
        message = "a batch of 400 items takes [0-9]* bytes; allowed: .* max_batch_bytes, .* 20000"
        refuses(ValueError, f"^Sampler.sample: {message}$", sampler.sample, 400)
        refuses(ValueError, f"^Sampler.prefetch: {message}$", sampler.prefetch, 400)
        assert len(sampler.sample(100)) == 100


def test_a_save_refuses_a_sampler_of_a_guest(tmp_path):
    replay = plain_buffer()
    with attached_guest(replay) as guest:
        with pytest.raises(ValueError, match="of another buffer"):
            replay.save(tmp_path / "saved", samplers=[guest.sampler()])


LOADER = """
import os, reprise
from reprise.torch import loader
guest = reprise.attach(os.environ["REPLAY"])
for source in (guest, guest.sampler(seed=1)):
    with loader(source, 32, device="cpu") as batches:
        for _, batch in zip(range(30), batches):
            assert (batch["action"] == batch["id"]).all()
            batches.update_priorities(batch.item_keys, batch["id"] % 2)
        assert batches.updates.applied == 960
print("end")
"""


def test_a_loader_of_torch_works_in_a_child(monkeypatch):
    pytest.importorskip("torch")
    replay = numbered()
    with replay.share() as address:
        write_all(address, 0, 100)
        monkeypatch.setenv("REPLAY", address)
        child = run_python(LOADER)
    assert (child.returncode, child.stdout) == (0, "end\n"), child.stderr
