"""reprise.torch.loader on the CPU, on a stand-in for a device that copies as late as possible, and
on CUDA."""

import re
import runpy
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from testing.files import ROOT
from testing.threads import repeating

import reprise

torch = pytest.importorskip("torch")

import reprise.torch  # noqa: E402
from testing.late_device import device, late, latest  # noqa: E402, F401
from testing.refusals import refuses
from testing.sources import SOURCES, check_priorities_come_back
from testing.tensors import COLUMNS, check_equal  # noqa: E402
from reprise.torch import loader, mirror  # noqa: E402


def frames(n_step=1, frame_stack=4, **options):
    schema = reprise.Schema().observation("frame", np.uint8, (3, 2)).column("a", np.int64).reward()
    window = reprise.Transitions(n_step=n_step, frame_stack=frame_stack)
    selectors = reprise.Proportional(alpha=1.0, epsilon=0.0)
    options = {"window": window, "selectors": selectors, "shards": 1, **options}
    replay = reprise.ReplayBuffer(schema, 400, **options)
    for steps, first in ((150, 0), (40, 160)):
        values = np.arange(first, first + steps + 1, dtype=np.uint8)
        shown = np.broadcast_to(values[:, None, None], (steps + 1, 3, 2))
        replay.writer().append_episode(frame=shown, a=np.arange(steps), reward=np.ones(steps))
    return replay


def many_types():
    schema = reprise.Schema().observation("obs", np.float32, (3,)).observation("u", np.uint16)
    for name in ("bool", "int8", "uint32", "uint64", "float16", "float64"):
        schema.column(name, name, () if name == "bool" else (2,))
    replay = reprise.ReplayBuffer(schema.reward(), 400, selectors=reprise.Uniform(), shards=1)
    rows = np.random.default_rng(1).integers(0, 65536, (100, 2))
    columns = {
        name: np.full((100, 2), 7).astype(name) if name == "int8" else (rows * 1.0).astype(name)
        for name in ("int8", "uint32", "float16", "float64")
    }
    columns["uint64"] = rows.astype(np.uint64) << np.uint64(47)
    replay.writer().append_episode(
        **{"obs": np.arange(303).reshape(101, 3), "u": np.arange(101) * 600, "reward": rows[:, 0]},
        **columns,
        bool=rows[:, 1] % 2 == 0,
    )
    return replay


def sequences(**options):
    schema = reprise.Schema().observation("obs", np.float32, (2,)).reward()
    schema.recurrent_state("lstm", np.float32, (5,))
    window = reprise.Sequences(length=6, period=3, burn_in=2, **options)
    replay = reprise.ReplayBuffer(schema, 400, window=window, shards=1)
    with replay.writer() as writer:
        writer.begin_episode(obs=np.zeros(2))
        for t in range(100):
            writer.append(reward=t, lstm=np.full(5, t), next_obs=np.full(2, t + 1))
    return replay


BUFFERS = {
    "stacks": frames,
    "stacks of 3 steps": lambda: frames(n_step=3),
    "n-step above the stack": lambda: frames(n_step=5, frame_stack=2),
    "single frames": lambda: frames(frame_stack=1),
    "all types": many_types,
    "sequences": sequences,
    "sequences of stacks": lambda: sequences(frame_stack=3, n_step=2, end="drop"),
}


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("name", BUFFERS)
def test_batches_are_those_of_a_sampler(name, thread, device):
    replay = BUFFERS[name]()
    sampler = replay.sampler(seed=5)
    how = {"beta": 0.7, "draws": "independent"}
    expected = [sampler.sample(24, **how) for _ in range(12)]
    with loader(replay, 24, device=device, seed=5, thread=thread, **how) as batches:
        given = [next(batches) for _ in expected]
    for tensors, batch in zip(given, expected):
        check_equal(tensors, batch)


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("unique", [False, True])
def test_batches_in_the_memory_of_a_larger_batch_are_right(unique, thread, device):
    replay, allocator = frames(n_step=3), reprise.torch._device_of(device).allocator
    both = [replay.sampler(seed=5, allocator=allocator, unique_frames=unique) for _ in range(2)]
    for sampler in both:
        sampler.sample(65)
    ahead = both[0].prefetch(24, allocator=allocator) if thread else None
    expected = [ahead.get() if ahead else both[0].sample(24) for _ in range(12)]
    with loader(both[1], 24, device=device, thread=thread) as batches:
        given = [next(batches) for _ in expected]
    for tensors, batch in zip(given, expected):
        check_equal(tensors, batch)


@pytest.mark.parametrize("unique", [False, True])
def test_unique_frames_are_sent_once(unique, device):
    with loader(frames(n_step=3), 16, device=device, unique_frames=unique) as batches:
        assert set(next(batches).frames) == ({"frame"} if unique else set())


@pytest.mark.parametrize(
    "n_step, frame_stack, unique", [(1, 4, True), (4, 4, False), (1, 1, False)]
)
def test_unique_frames_are_sent_if_that_is_less_to_copy(n_step, frame_stack, unique):
    with loader(frames(n_step, frame_stack), 16, device="cpu") as batches:
        assert ("frame" in next(batches).frames) == unique


@pytest.mark.parametrize(
    "frame_stack, end, unique", [(1, "drop", False), (2, "drop", True), (2, "continue", False)]
)
def test_unique_frames_of_sequences_are_sent_if_they_are_stacked(frame_stack, end, unique):
    with loader(sequences(frame_stack=frame_stack, end=end), 16, device="cpu") as batches:
        assert ("obs" in next(batches).frames) == unique


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize("thread", [False, True])
def test_memory_is_not_filled_again_before_it_was_copied(thread, depth, latest):
    """The device copies as late as possible, so a batch shows if its memory was filled again too
    early."""
    replay = frames()
    sampler = replay.sampler(seed=5)
    expected = [sampler.sample(24) for _ in range(40)]
    with loader(replay, 24, seed=5, thread=thread, depth=depth) as batches:
        given = [next(batches) for _ in expected]
        latest.finish()
        for tensors, batch in zip(given, expected):
            check_equal(tensors, batch)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("thread", [False, True])
def test_page_locked_memory_is_used_again(thread, depth, latest):
    with loader(frames(), 24, thread=thread, depth=depth) as batches:
        for _ in range(50):
            next(batches)
    assert len(latest.memory) <= depth + 3 * thread


def test_copies_run_ahead_of_the_learner(latest):
    with loader(frames(), 24, thread=False, depth=3) as batches:
        next(batches)
        assert latest.sent == 3 and latest.waits == 0
        next(batches)
        assert latest.sent == 4 and latest.waits == 1  # The fourth waits for the first's memory.


def test_memory_whose_copy_has_ended_is_used_without_a_wait(late):
    with loader(frames(), 24, thread=False, depth=3) as batches:
        for _ in range(20):
            next(batches)
            late.finish()
        assert late.waits == 0


def test_on_the_cpu_nothing_is_copied_and_nothing_drawn_ahead():
    replay = frames()
    taken = []

    def allocator(nbytes):
        taken.append(np.empty(nbytes, np.uint8))
        return taken[-1]

    sampler = replay.sampler(allocator=allocator, unique_frames=True)
    with loader(sampler, 24, device="cpu", thread=False) as batches:
        batch = next(batches)
        assert replay.stats()["sampled_batches"] == 1
        for tensor in (batch["frame"], batch["next_frame"], batch.weights, batch.returns["reward"]):
            assert any(np.shares_memory(tensor.numpy(), each) for each in taken)


def test_batches_do_not_share_memory_with_later_ones(device):
    with loader(frames(), 24, device=device, thread=False) as batches:
        first = next(batches)
        before = first["next_frame"].clone(), first.item_keys.clone()
        for _ in range(10):
            next(batches)
        first["frame"][:] = 0  # Batches share no memory, so this changes only the first.
        assert (next(batches)["frame"] != 0).any()
    del batches
    assert torch.equal(first.item_keys, before[1])
    assert torch.equal(first["next_frame"][:, -1], before[0][:, -1])


@pytest.mark.parametrize("stage", ["loader", "loader without a thread"])
@pytest.mark.parametrize("name", SOURCES)
def test_priorities_come_back_to_every_source(name, stage, device):
    # With a thread the loader passes the device's allocator to the source. Without one, the source
    # has to have it.
    of_device = reprise.torch._device_of(device).allocator
    source = SOURCES[name](allocator=None if stage == "loader" else of_device)
    numbers_of = lambda batch: batch["state"][:, 0].cpu()
    check_priorities_come_back(stage, source, 16, numbers_of, device)


def test_priorities_go_through_a_users_source():
    class Halved:
        """A source that halves the priorities it is given."""

        def __init__(self, replay):
            self.sampler = replay.sampler(seed=1)
            self.sample, self.prefetch = self.sampler.sample, self.sampler.prefetch

        def update_priorities(self, keys, priorities):
            return self.sampler.update_priorities(keys, 0.5 * priorities)

    replay = frames()
    for thread in (False, True):
        with loader(Halved(replay), 8, device="cpu", thread=thread) as batches:
            batch = next(batches)
            batches.update_priorities(batch.item_keys, torch.full((8,), 6.0))
            assert (by_key(replay, batch) == 3.0).all()


class Scattered(dict):
    """A batch whose arrays lie in separate memory, in any order of their elements."""

    def __init__(self, batch):
        super().__init__((name, np.array(batch[name], order="F")) for name in batch)
        self.returns = {name: array.copy() for name, array in batch.returns.items()}
        self.frames = {name: array.copy() for name, array in batch.frames.items()}
        vars(self).update((name, getattr(batch, name).copy()) for name in COLUMNS)


@pytest.mark.parametrize("of", [Scattered, lambda batch: batch])
@pytest.mark.parametrize("name", ["stacks", "all types", "sequences of stacks"])
def test_batches_of_a_users_source_are_copied(name, of, device):
    """Batches are of two buffers, in any memory, and have fewer items than were asked for."""
    how = {"seed": 1, "allocator": reprise.torch._device_of(device).allocator}
    unique = name != "sequences of stacks"
    buffers = BUFFERS[name](), frames(n_step=3)
    samplers = [each.sampler(unique_frames=unique, **how) for each in buffers]
    drawn = [samplers[i % 2].sample(24 - i % 3) for i in range(12)]
    given = map(of, drawn)
    source = SimpleNamespace(sample=lambda n, **how: next(given))
    with loader(source, 24, device=device, thread=False) as batches:
        found = [next(batches) for _ in drawn[:9]]
    for tensors, batch in zip(found, drawn):
        check_equal(tensors, batch)


def test_batches_that_the_source_fills_again_are_copied(device):
    how = {"unique_frames": True, "allocator": reprise.torch._device_of(device).allocator}
    replay = frames(n_step=3)
    sampler, same = (replay.sampler(seed=1, **how) for _ in range(2))
    source = SimpleNamespace(sample=lambda n, **_: sampler.sample(n, views=True))
    expected = [same.sample(24, beta=0.4) for _ in range(6)]
    with loader(source, 24, device=device, thread=False) as batches:
        found = [next(batches) for _ in expected]
    for tensors, batch in zip(found, expected):
        check_equal(tensors, batch)


def by_key(replay, batch):
    return replay.selector().priorities(batch.item_keys.cpu().numpy())


def test_priorities_come_back(device):
    replay = frames()
    with loader(replay, 8, device=device, thread=False) as batches:
        last = {}
        for i in range(10):
            batch = next(batches)
            priorities = torch.arange(8, device=batch.weights.device) + 10.0 * i
            batches.update_priorities(batch.item_keys, priorities.requires_grad_())
            last |= dict(zip(batch.item_keys.tolist(), priorities.tolist()))
            priorities.detach().zero_()  # The caller may change the priorities after the call.
        batches.flush()
        assert sum(batches.updates) == 80
        keys = np.array(list(last))
        np.testing.assert_array_equal(replay.selector().priorities(keys), list(last.values()))


def test_priorities_are_applied_once_copied_and_in_order(latest):
    replay = frames()
    with loader(replay, 8, thread=False, depth=3) as batches:
        batch = next(batches)
        latest.finish()
        first = by_key(replay, batch)
        for value in (5.0, 6.0):
            batches.update_priorities(batch.item_keys, torch.full((8,), value))
        np.testing.assert_array_equal(by_key(replay, batch), first)
        assert latest.waits == 0
        latest.finish()
        next(batches)
        assert (by_key(replay, batch) == 6.0).all() and batches.updates.applied == 16


def test_at_most_depth_updates_are_under_way(latest):
    replay = frames()
    with loader(replay, 8, thread=False, depth=2) as batches:
        batch = next(batches)
        latest.finish()
        for i in range(5):
            batches.update_priorities(batch.item_keys, torch.full((8,), 1.0 + i))
            assert sum(batches.updates) == 8 * max(0, i - 1)


def test_closing_waits_for_copies_and_applies_pending_priorities(latest):
    replay = frames()
    sampler = replay.sampler(seed=1)
    expected = sampler.sample(8)
    with loader(replay, 8, seed=1, thread=False) as batches:
        given = next(batches)
        batches.update_priorities(torch.from_numpy(expected.item_keys), np.full(8, 9.0))
    assert not latest.queue
    assert (by_key(replay, given) == 9.0).all() and sum(batches.updates) == 8
    check_equal(given, expected)
    batches.close()
    calls = (
        lambda: next(batches),
        lambda: batches.update_priorities([1], [1.0]),
        lambda: batches.flush(),
    )
    for call in calls:
        refuses(reprise.Closed, "the loader is closed", call)


def test_a_destroyed_loader_waits_for_its_copies(latest):
    batches = loader(frames(), 8, thread=False)
    next(batches)
    del batches
    assert not latest.queue


def test_priorities_that_are_wrong(device):
    replay = frames()
    with loader(replay, 8, device=device, thread=False) as batches:
        batch = next(batches)
        ones = torch.ones(8, device=batch.weights.device)
        with pytest.raises(ValueError, match=r"shape \(8,\) and priorities \(7,\)"):
            batches.update_priorities(batch.item_keys, ones[:7])
        with pytest.raises(ValueError, match="shape"):
            batches.update_priorities(batch.item_keys[:, None], ones[:, None])
        with pytest.raises(TypeError, match="int32; allowed: int64"):
            batches.update_priorities(batch.item_keys.int(), ones)
        batches.update_priorities(batch.item_keys, 2 * ones) if device != "cpu" else None
        with pytest.raises(ValueError, match="finite"):
            batches.update_priorities(batch.item_keys, ones * float("nan"))
            batches.flush()
        batches.update_priorities(batch.item_keys, 3 * ones)
        batches.flush()
        assert (by_key(replay, batch) == 3.0).all()


@pytest.mark.parametrize("thread", [False, True])
def test_a_loader_of_a_closed_buffer_gives_the_batches_already_drawn(thread, late):
    replay = frames()
    with loader(replay, 8, thread=thread, depth=3) as batches:
        next(batches)
        sent = late.sent
        replay.close()
        assert len(list(batches)) >= sent - 1
        assert list(batches) == []


@pytest.mark.parametrize("thread", [False, True])
def test_a_loader_with_a_batch_ready_does_not_wait_for_further_ones(thread, late):
    """Otherwise the loader would wait for steps that only its own caller can append."""
    limiter = reprise.SampleToInsertRatio(samples_per_insert=1.0, min_size=16, error_buffer=16.0)
    schema = reprise.Schema().observation("x", np.float32, (2,)).reward()
    replay = reprise.ReplayBuffer(schema, 100, rate_limiter=limiter, shards=1)
    steps = 0
    with replay.writer() as writer, loader(replay, 8, thread=thread, depth=3) as batches:
        writer.begin_episode(x=np.zeros(2))
        for _ in range(20):
            while steps < 16 or writer_may_go_on(replay, steps):
                writer.append(reward=0, next_x=np.ones(2))
                steps += 1
            assert next(batches)["x"].shape == (8, 2)


def writer_may_go_on(replay, steps):
    return steps - replay.stats()["sampled_items"] < 12


def test_timeouts(device):
    schema = reprise.Schema().observation("x", np.float32, (2,)).reward()
    replay = reprise.ReplayBuffer(schema, 100, rate_limiter=reprise.MinSize(10))
    for thread in (False, True):
        with loader(replay, 8, device=device, thread=thread, timeout=0.01) as batches:
            refuses(TimeoutError, "10", next, batches)
            with pytest.raises(TimeoutError):
                next(batches)


def test_nothing_to_draw(device):
    replay = frames()
    replay.selector().reset(0.0)
    with loader(replay, 8, device=device, thread=False) as batches:
        with pytest.raises(reprise.NothingToDraw):
            next(batches)
        replay.selector().reset(1.0)
        assert len(next(batches).weights) == 8


def test_other_threads_append_while_a_loader_draws(device):
    replay = frames()
    writer = replay.writer()

    def append():
        shown = np.zeros((11, 3, 2), np.uint8)
        writer.append_episode(frame=shown, a=np.arange(10), reward=np.ones(10))

    with repeating(append), loader(replay, 32, device=device) as batches:
        for _, batch in zip(range(100), batches):
            batches.update_priorities(batch.item_keys, batch.weights)
        batches.flush()
        assert sum(batches.updates) == 3200


def test_options_that_are_wrong():
    replay = frames()
    refuses(ValueError, "loader: depth is 0; allowed: at least 1", loader, replay, 8, depth=0)
    for depth in (2.5, True, "3"):
        said = f"loader: depth is {depth!r}; allowed: an integer of at least 1"
        refuses(TypeError, said, loader, replay, 8, depth=depth)
    with pytest.raises(ValueError, match="loader: device is 'cuda:99'; allowed here: 'cpu'"):
        loader(replay, 8, device="cuda:99")
    with pytest.raises(ValueError, match="loader: device is 'meta'; allowed here: 'cpu'"):
        loader(replay, 8, device="meta")
    refuses(ValueError, "beta", loader, replay, 8, device="cpu", beta=2.0)
    mix = reprise.mix([(replay, 4), (replay, 4)])
    for thread in (False, True):
        with pytest.raises(ValueError, match="n is 7; allowed: the length of the mix, 8"):
            next(loader(mix, 7, device="cpu", thread=thread))
    for source in (mix, replay.sampler()):
        with pytest.raises(ValueError, match="seed is 3; allowed of a buffer alone"):
            loader(source, 8, device="cpu", seed=3)
    refuses(TypeError, "sede", loader, replay, 8, device="cpu", sede=3)
    own = SimpleNamespace(sample=replay.sampler().sample)
    for source, thread in (
        (3, True),
        (own, True),
        (rows := mirror(replay, "cpu"), True),
        (rows, False),
    ):
        words = f"loader: source is {source!r}; allowed: a BatchSource"
        refuses(TypeError, re.escape(words), loader, source, 8, device="cpu", thread=thread)


def test_memory_that_is_not_page_locked_is_refused():
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    replay = frames()
    with loader(replay.sampler(), 8, device="cuda", thread=False) as batches:
        refuses(ValueError, "allocator=reprise.torch.pinned", next, batches)
    sampler = replay.sampler(allocator=reprise.torch.pinned)
    with loader(sampler, 8, device="cuda", thread=False) as batches:
        assert next(batches)["frame"].device.type == "cuda"


def test_the_benchmark_runs(capsys, monkeypatch):
    program = str(ROOT / "bench" / "python" / "to_device")
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("sys.argv", [program, "--quick", "--device", "cpu"])
    runpy.run_path(program, run_name="__main__")
    shown = capsys.readouterr().out
    ways = ("loader, unique frames", "pageable .to()", "pin per batch", "the bus", "mirror")
    for way in (
        *ways,
        "mirror, by priority, with updates",
        "a ring in torch",
        "SimpleReplayBuffer",
    ):
        assert way in shown
    if not torch.cuda.is_available():
        monkeypatch.setattr("sys.argv", [program])
        runpy.run_path(program, run_name="__main__")
        assert capsys.readouterr().out == (
            "skipped: bench/python/to_device: torch finds no CUDA device\n"
        )


def test_the_benchmark_of_large_draws_runs(capsys, monkeypatch):
    program = str(ROOT / "bench" / "python" / "large_draws")
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("sys.argv", [program, "--quick"])
    runpy.run_path(program, run_name="__main__")
    shown = capsys.readouterr().out
    assert "64 of 2^10 items" in shown and "torch.multinomial" in shown
