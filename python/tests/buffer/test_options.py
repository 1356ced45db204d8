import dataclasses

import pytest
from testing.buffers import fill, plain_buffer
from testing.refusals import refuses

import reprise
from reprise._options import families

# Options that get this value below, because their default, or any other value, is refused.
FIXED = {"selector": 0, "error_buffer": 500.0}


def changed_value(value):
    """Returns another allowed value of the option that has this default."""
    if isinstance(value, str):
        return {
            "repeat_first": "zeros",
            "zero_pad": "drop",
            "maximum_in_buffer": 2.5,
            "highest_seen": 2.5,
        }[value]
    return value / 2 + 0.125 if isinstance(value, float) else value + 1


def strategies_with_options():
    """Yields every class with its default options, and with each option changed."""
    for option, classes in families.items():
        for strategy in classes:
            names = [field.name for field in dataclasses.fields(strategy)]
            fixed = {name: FIXED[name] for name in names if name in FIXED}
            yield option, strategy(**fixed)
            for name in names:
                if name not in FIXED:
                    changed = changed_value(getattr(strategy(), name))
                    yield option, strategy(**fixed, **{name: changed})


@pytest.mark.parametrize(
    "option, value",
    [
        *strategies_with_options(),
        ("selectors", reprise.Proportional(initial="from_caller")),
        ("remover", reprise.LowestPriority(selector=0, candidates=3)),
    ],
)
def test_a_buffer_returns_the_options_it_was_given(option, value):
    limit = 1 if isinstance(value, reprise.Queue) else 0  # A queue needs a limit of draws.
    buffer = plain_buffer(1000, max_times_sampled=limit, **{option: value})
    found = buffer.options[option]
    assert found == ([value] if option == "selectors" else value)


def test_numbers_and_defaults():
    buffer = plain_buffer(
        1000,
        selectors=[reprise.Uniform(), reprise.Fifo()],
        max_times_sampled=3,
        episode_index=True,
        max_writers=5,
        chunk_steps=32,
        shards=2,
        key_tag=9,
    )
    options = buffer.options
    assert options.pop("window") == reprise.Transitions()
    assert options.pop("remover") == reprise.Fifo()
    assert options.pop("rate_limiter") == reprise.MinSize(1)
    assert options == {
        "capacity_steps": 1000,
        "selectors": [reprise.Uniform(), reprise.Fifo()],
        "max_times_sampled": 3,
        "max_staleness": None,
        "episode_index": True,
        "max_writers": 5,
        "chunk_steps": 32,
        "shards": 2,
        "key_tag": 9,
        "storage": None,
    }
    assert plain_buffer(10).options["selectors"] == [reprise.Proportional()]


def test_wrong_options():
    """Options of a wrong type, or wrong for the buffer as a whole. test_arguments.py has values out
    of range."""
    for given, error, message in (
        ({"window": 3}, TypeError, "window is 3; allowed: Transitions, Sequences"),
        ({"window": reprise.Sequences(end="x")}, ValueError, "end is 'x'; allowed: 'zero_pad'"),
        ({"selectors": "uniform"}, TypeError, "selectors is 'uniform'; allowed: .*Proportional"),
        ({"selectors": reprise.MaxHeap("a number")}, ValueError, "is 'a number'; allowed"),
        ({"selectors": reprise.Proportional(alpha=9)}, ValueError, "alpha is 9"),
        ({"remover": reprise.Lifo()}, TypeError, "remover is Lifo"),
        ({"rate_limiter": reprise.Uniform()}, TypeError, "rate_limiter is Uniform"),
        ({"window": reprise.Sequences(99, 1, 2)}, ValueError, r"at least 101, .*burn_in \+ length"),
        ({"window": reprise.Sequences(1, 101)}, ValueError, "at least 101, .*period = 101"),
        ({"shards": 1000}, ValueError, "shards"),
        ({"key_tag": 4096}, ValueError, "key_tag"),
    ):
        refuses(error, message, plain_buffer, **given)


def test_rows_in_a_mapped_file(tmp_path):
    buffer = plain_buffer(1000, storage=tmp_path)
    fill(buffer, 100)
    assert buffer.options["storage"] == tmp_path
    assert buffer.stats()["file_bytes"] > 0
    assert len(buffer.sampler().sample(8)) == 8
    buffer.save(tmp_path / "saved")
    loaded = reprise.ReplayBuffer.load(tmp_path / "saved", storage=str(tmp_path)).buffer
    assert loaded.options["storage"] == tmp_path and len(loaded) == 100
    assert reprise.ReplayBuffer.load(tmp_path / "saved").buffer.options["storage"] is None
    (tmp_path / "file").touch()
    for wrong, kind in (
        ("mistyped", FileNotFoundError),
        ("nothing/there", FileNotFoundError),
        ("file", NotADirectoryError),
    ):
        with pytest.raises(kind, match=f"storage is '.*/{wrong}'; allowed: a directory"):
            plain_buffer(1000, storage=tmp_path / wrong)
    with pytest.raises(OSError, match="storage: a mapped file in '/proc': no file can be made"):
        plain_buffer(1000, storage="/proc")
    refuses(TypeError, "storage is 3; allowed: None or a path", plain_buffer, 1000, storage=3)


def test_a_with_block_closes_the_buffer():
    with plain_buffer(10) as buffer:
        assert not buffer.closed
    assert buffer.closed
    assert len(buffer) == 0 and buffer.stats()["items"] == 0


def test_another_ratio_counts_for_later_steps_only_and_is_saved(tmp_path):
    ratio = reprise.SampleToInsertRatio(4.0, error_buffer=100.0)
    buffer = plain_buffer(1000, rate_limiter=ratio)
    fill(buffer, 11)
    buffer.set_samples_per_insert(0.5)
    fill(buffer, 10)
    buffer.save(tmp_path)
    for replay in (buffer, reprise.ReplayBuffer.load(tmp_path).buffer):
        assert replay.options["rate_limiter"] == ratio
        # 10 steps beyond min_size came at a ratio of 4, and 10 more at 0.5: 10 * 4 + 10 * 0.5.
        assert "worth 45 samples ahead of 0.5 per insert" in replay.stats()["limiter"]
