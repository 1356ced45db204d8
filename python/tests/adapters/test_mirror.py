"""Batches of reprise.torch.mirror equal those of the host bit by bit, on the CPU and, where torch
has it, on CUDA."""

import numpy as np
import pytest
from testing.refusals import refuses

import reprise

torch = pytest.importorskip("torch")

from reprise.torch import mirror, on_host  # noqa: E402
from testing.tensors import check_equal as check  # noqa: E402
from testing.torch_devices import device  # noqa: E402, F401

WINDOWS = {
    "one step": reprise.Transitions(),
    "steps and stacks": reprise.Transitions(n_step=3, frame_stack=3, discount=0.9),
    "zeros before": reprise.Transitions(n_step=2, frame_stack=4, stack_start="zeros"),
    "sequences": reprise.Sequences(length=4, period=2, burn_in=1),
    "returns of sequences": reprise.Sequences(length=5, period=3, n_step=3, frame_stack=2),
    "zeros before sequences": reprise.Sequences(
        length=3, period=1, n_step=2, frame_stack=3, stack_start="zeros"
    ),
}


def mirrored_buffer(window, **options):
    schema = reprise.Schema().observation("obs", np.float32, (3,)).observation("u", np.uint16)
    schema.column("action", np.int64).column("wide", np.uint64, (2,)).column("flag", np.bool_)
    schema.reward("reward").reward("cost").discount("gamma")
    selectors = reprise.Proportional(alpha=1.0, epsilon=0.0)
    options = {"shards": 2, "chunk_steps": 32, "key_tag": 1, "max_writers": 4, **options}
    return reprise.ReplayBuffer(schema, 300, window=window, selectors=selectors, **options)


def append(replay, writers, random, steps):
    """Appends steps one at a time, each by a writer chosen at random, which may end its episode."""
    for _ in range(steps):
        writer = writers[random.integers(len(writers))]
        if not writer.in_episode:
            writer.begin_episode(obs=random.random(3), u=random.integers(65536))
        writer.append(
            action=random.integers(1 << 40),
            wide=random.integers(1 << 62, size=2, dtype=np.uint64),
            flag=random.random() < 0.5,
            reward=random.normal(),
            cost=random.normal(),
            gamma=random.random(),
            next_obs=random.random(3),
            next_u=random.integers(65536),
            end=random.choice([0, 0, 0, 0, 0, 0, 1, 2]),
        )


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("seed", range(3))
def test_batches_are_those_of_the_host_while_steps_come_and_go(name, seed, device):
    random = np.random.default_rng(seed)
    replay = mirrored_buffer(WINDOWS[name])
    writers = [replay.writer(), replay.writer()]
    append(replay, writers, random, 40)
    on_device, here = mirror(replay, device, seed=5), replay.sampler(seed=5)
    for _ in range(60):
        # Appends no step, some steps, or so many that chunks are used again.
        append(replay, writers, random, int(random.choice([0, 1, 7, 120])))
        how = {"draws": str(random.choice(["stratified", "independent", "epoch"])), "timeout": 0}
        if on_device._window.n_step > 1 and random.random() < 0.5:
            how |= {"n_step": int(random.integers(1, on_device._window.n_step)), "discount": 0.7}
        n = int(random.integers(1, 40))
        batch = here.sample(n, **how)
        ours = on_device.sample(n, **how)
        assert list(ours) == list(batch)
        check(ours, batch)
        priorities = torch.rand(n, device=device) + 0.1
        applied = on_device.update_priorities(ours.item_keys, priorities)
        assert applied == (n, 0)


def test_each_row_is_copied_to_the_device_once():
    random = np.random.default_rng(2)
    replay = mirrored_buffer(WINDOWS["steps and stacks"])
    append(replay, [replay.writer()], random, 200)
    on_device = mirror(replay, "cpu", seed=5)
    crossed = []
    (new,) = on_device._parts
    new_rows = new.new_rows

    class Counted:
        def __getattr__(self, name):
            return getattr(new, name)

        def new_rows(self):
            rows, content = new_rows()
            crossed.extend(rows)
            return rows, content

    on_device._parts = [Counted()]
    for _ in range(50):
        on_device.sample(64, draws="independent")
    rows, times = np.unique(crossed, return_counts=True)
    # Some rows are copied twice: those after the last item of a chunk, once with it, and again with
    # the items that are added later.
    assert len(rows) > 200 and len(crossed) < 1.5 * len(rows)
    before = len(crossed)
    on_device.sample(64)
    assert len(crossed) == before, "nothing is new"


def test_rows_are_copied_with_the_next_batch_after_the_device_had_no_memory(monkeypatch):
    replay = mirrored_buffer(WINDOWS["one step"])
    append(replay, [replay.writer()], np.random.default_rng(2), 100)
    on_device, here = mirror(replay, "cpu", seed=5), replay.sampler(seed=5)
    here.sample(32)

    def full(*arrays):
        raise torch.cuda.OutOfMemoryError("full")

    with monkeypatch.context() as patched:
        patched.setattr(on_device, "_send", full)
        refuses(torch.cuda.OutOfMemoryError, "full", on_device.sample, 32)
    for _ in range(10):
        check(on_device.sample(32), here.sample(32))


def test_a_loaded_buffer_is_mirrored(tmp_path):
    random = np.random.default_rng(3)
    replay = mirrored_buffer(WINDOWS["steps and stacks"])
    append(replay, [replay.writer(), replay.writer()], random, 250)
    replay.save(tmp_path)
    loaded = reprise.ReplayBuffer.load(tmp_path).buffer
    writers = [loaded.writer(), loaded.writer()]
    on_device, here = mirror(loaded, "cpu", seed=5), loaded.sampler(seed=5)
    for _ in range(30):
        check(on_device.sample(32), here.sample(32))
        append(loaded, writers, random, 10)


def test_a_mirror_does_not_change_other_samplers():
    replay = mirrored_buffer(WINDOWS["one step"])
    append(replay, [replay.writer()], np.random.default_rng(4), 100)
    before = replay.sampler(seed=5).sample(16)
    on_device = mirror(replay, "cpu", seed=5)
    after = replay.sampler(seed=5).sample(16)
    assert np.array_equal(before["obs"], after["obs"])
    check(on_device.sample(16), after)
    assert on_device.nbytes >= 300 * replay.schema.step_bytes


# ---- compressed frames, mutable columns and recurrent states, which rows do not hold ----


def with_all_fields(window):
    """Returns a buffer with compressed frames, mutable columns and, for sequences, recurrent
    states."""
    schema = reprise.Schema().observation("obs", np.float32, (3,))
    schema.observation("frame", np.uint8, (32, 32)).compress("frame")
    schema.observation("wide", np.uint16, (20, 30)).compress("wide").reward()
    schema.mutable_column("value", np.float32).mutable_column("mark", np.uint32, (3,))
    if isinstance(window, reprise.Sequences):
        schema.recurrent_state("lstm", np.float32, (5,))
    options = {"chunk_steps": 32, "shards": 1, "key_tag": 1, "max_writers": 3}
    selectors = reprise.Proportional(alpha=1.0, epsilon=0.0)
    return reprise.ReplayBuffer(schema, 200, window=window, selectors=selectors, **options)


def append_all_fields(replay, writer, random, steps):
    def seen(prefix=""):
        frame = np.zeros((32, 32), np.uint8)
        frame[random.integers(32)] = random.integers(1, 255)
        wide = np.full((20, 30), random.integers(65536), np.uint16)
        return {prefix + "obs": random.random(3), prefix + "frame": frame, prefix + "wide": wide}

    for _ in range(steps):
        if not writer.in_episode:
            writer.begin_episode(**seen())
        mark = random.integers(1 << 32, size=3, dtype=np.uint32)
        step = {"value": random.normal(), "mark": mark, "reward": random.normal()}
        if "lstm" in (field.name for field in replay.schema.fields):
            step["lstm"] = random.random(5)
        writer.append(**step, **seen("next_"), end=random.choice([0] * 9 + [1]))


@pytest.mark.parametrize("name", WINDOWS)
def test_mutable_values_are_those_at_the_time_of_the_draw(name, device):
    random = np.random.default_rng(8)
    window = WINDOWS[name]
    replay = with_all_fields(window)
    writer = replay.writer()
    append_all_fields(replay, writer, random, 60)
    on_device, here = mirror(replay, device, seed=5), replay.sampler(seed=5)
    for _ in range(30):
        append_all_fields(replay, writer, random, int(random.choice([0, 5, 90])))
        batch = here.sample(16)
        ours = on_device.sample(16)
        check(ours, batch)
        steps = () if isinstance(window, reprise.Transitions) else (batch["value"].shape[1],)
        replay.update(batch.item_keys, "value", random.normal(size=(16, *steps)))


def test_compressed_frames_are_whole_in_rows_and_what_changes_is_not():
    replay = with_all_fields(WINDOWS["sequences"])
    (new,) = mirror(replay, "cpu")._parts
    assert 32 * 32 + 2 * 600 < new.row_bytes <= 24 + 3 * 4 + 2 * 8 + 4 + 32 * 32 + 2 * 600 + 16


# ---- sources ----


@pytest.mark.parametrize("n", [None, 24])
@pytest.mark.parametrize("name", ["steps and stacks", "returns of sequences"])
def test_a_mix_is_mirrored(name, n, device):
    """A mix with exact counts for each part (n is None), or one that draws n items by the common
    total."""
    random = np.random.default_rng(9)
    replays = [mirrored_buffer(WINDOWS[name], key_tag=tag) for tag in (1, 2)]
    writers = [[replay.writer()] for replay in replays]
    for replay, own in zip(replays, writers):
        append(replay, own, random, 80)
    parts = replays if n else [(replays[0], 16), (replays[1], 8)]
    on_device = mirror(reprise.mix(parts, n, seed=5), device)
    here = reprise.mix(parts, n, seed=5)
    for _ in range(40):
        append(replays[0], writers[0], random, int(random.choice([0, 10, 120])))
        append(replays[1], writers[1], random, int(random.choice([0, 5])))
        batch = here.sample()
        ours = on_device.sample()
        check(ours, batch)
        applied = on_device.update_priorities(ours.item_keys, torch.rand(24, device=device) + 0.1)
        assert applied == (24, 0)


def test_a_mix_whose_draw_timed_out_continues():
    random = np.random.default_rng(9)
    first, second = (mirrored_buffer(WINDOWS["one step"], key_tag=tag) for tag in (1, 2))
    writer = first.writer()
    append(first, [writer], random, 50)
    parts = [(first, 8), (second, 8)]
    on_device, here = mirror(reprise.mix(parts, seed=5), "cpu"), reprise.mix(parts, seed=5)
    for source in (here, on_device):
        refuses(TimeoutError, "0 of the", source.sample, timeout=0)
    append(second, [second.writer()], random, 50)
    check(on_device.sample(), here.sample())


def test_rows_of_a_part_are_kept_if_another_part_fails(monkeypatch):
    random = np.random.default_rng(9)
    replays = [mirrored_buffer(WINDOWS["one step"], key_tag=tag) for tag in (1, 2)]
    for replay in replays:
        append(replay, [replay.writer()], random, 50)
    parts = [(replay, 8) for replay in replays]
    on_device, here = mirror(reprise.mix(parts, seed=5), "cpu"), reprise.mix(parts, seed=5)
    second = on_device._parts[1]

    class Fails:
        rows = second.rows

        def new_rows(self):
            raise MemoryError

    on_device._parts[1] = Fails()
    with pytest.raises(MemoryError):
        on_device.sample()
    on_device._parts[1] = second
    here.sample()
    for _ in range(5):
        check(on_device.sample(), here.sample())


def test_a_sampler_is_mirrored_and_draws_for_its_mirror_alone():
    replay = mirrored_buffer(WINDOWS["one step"])
    append(replay, [replay.writer()], np.random.default_rng(4), 100)
    sampler = replay.sampler(seed=5)
    on_device = mirror(sampler, "cpu")
    check(on_device.sample(16), replay.sampler(seed=5).sample(16))
    refuses(ValueError, "the sampler has a mirror; allowed: one", mirror, sampler, "cpu")
    refuses(ValueError, "seed is 3; allowed of a buffer alone", mirror, sampler, "cpu", seed=3)
    said = "mirror: unique_frames is True; allowed: False"
    refuses(ValueError, said, mirror, replay, "cpu", unique_frames=True)


def test_rows_of_other_processes_are_refused():
    replay = mirrored_buffer(WINDOWS["one step"])
    words = "mirror: source is .*; allowed: a buffer of this process, .*reprise.torch.loader"
    with replay.share() as address, reprise.attach(address) as guest:
        refuses(TypeError, words, mirror, guest, "cpu")
        refuses(TypeError, words, mirror, guest.sampler(), "cpu")

    class Cluster:
        def sampler(self):
            return self

        def sample(self, n):
            return n

    refuses(TypeError, words, mirror, Cluster(), "cpu")


def test_a_device_with_too_little_memory_is_refused(monkeypatch):
    replay = mirrored_buffer(WINDOWS["one step"])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 2000))
    words = (
        r"mirror: \d+ rows of \d+ bytes take \d+ bytes; allowed on cuda:0: 1000, what it has free"
    )
    refuses(ValueError, words, mirror, replay, "cuda:0")


def test_steps_of_a_device_are_appended(device):
    replay = mirrored_buffer(reprise.Transitions())
    random = np.random.default_rng(8)
    writers = replay.vector_writer(3, autoreset="disabled")
    writers.begin(**on_host({"obs": torch.zeros(3, 3, device=device)}), u=np.zeros(3, np.uint16))
    given = []
    for _ in range(20):
        step = {"action": torch.from_numpy(random.integers(1 << 40, size=3))}
        step |= {"flag": torch.from_numpy(random.random(3) < 0.5), "reward": torch.rand(3)}
        step |= {"next_obs": torch.rand(3, 3).T, "end": torch.zeros(3, dtype=torch.int64)}
        given.append(step)
        step = on_host({name: tensor.to(device) for name, tensor in step.items()})
        zeros = {"wide": np.zeros((3, 2), np.uint64), "cost": np.zeros(3), "gamma": np.ones(3)}
        writers.append(**step, **zeros, next_u=np.zeros(3, np.uint16))
    batch = replay.sampler().sample(64)
    by_action = {int(step["action"][e]): (step, e) for step in given for e in range(3)}
    for i, action in enumerate(batch["action"]):
        step, e = by_action[int(action)]
        assert batch["flag"][i] == step["flag"][e].item()
        assert batch["reward"][i] == step["reward"][e].item()
        assert np.array_equal(batch["next_obs"][i], step["next_obs"][e].numpy())
    half = {"obs": torch.zeros(3, dtype=torch.bfloat16, device=device)}
    try:
        np.dtype("bfloat16")  # numpy has it once the package ml_dtypes is imported.
    except TypeError:
        refuses(TypeError, "on_host: obs has dtype torch.bfloat16; allowed", on_host, half)
    else:
        assert on_host(half)["obs"].dtype == np.dtype("bfloat16")


def test_sources_and_devices_without_a_mirror_are_refused():
    replay = mirrored_buffer(WINDOWS["one step"])
    refuses(ValueError, "mirror: device is 'meta'; allowed here: 'cpu'", mirror, replay, "meta")
    if not torch.cuda.is_available():
        refuses(ValueError, "mirror: device is 'cuda'; allowed here: 'cpu'", mirror, replay)
    refuses(TypeError, "mirror: source is 3; allowed: a ReplayBuffer", mirror, 3, "cpu")
    refuses(
        TypeError, "on_host: obs is of ndarray; allowed: a tensor", on_host, {"obs": np.ones(3)}
    )
    assert on_host({}) == {}
