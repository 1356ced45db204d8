import pytest
from conftest import fill, plain_schema

import reprise

EVERY = {
    "window": [
        reprise.Transitions(n_step=3, discount=0.9, frame_stack=2, stack_start="zeros"),
        reprise.Sequences(length=4, period=2, burn_in=1, end="drop"),
    ],
    "selectors": [
        reprise.Proportional(alpha=0.7, epsilon=0.01, initial="highest_seen"),
        reprise.Proportional(initial=2.5),
        reprise.Proportional(initial="from_caller"),
        reprise.RankBased(alpha=0.3),
        reprise.MaxHeap(),
        reprise.MinHeap(initial="maximum_in_buffer"),
        reprise.Uniform(),
        reprise.Lifo(),
        reprise.Fifo(),
    ],
    "remover": [
        reprise.Fifo(),
        reprise.LeastFrequentlySampled(candidates=4),
        reprise.LeastRecentlySampled(),
        reprise.LowestPriority(selector=0, candidates=3),
        reprise.SecondChance(),
    ],
    "rate_limiter": [
        reprise.MinSize(7),
        reprise.SampleToInsertRatio(2.5, min_size=10, error_buffer=500.0),
        reprise.Queue(50),
        reprise.Unlimited(),
    ],
}


@pytest.mark.parametrize(
    "option, value", [(option, value) for option, values in EVERY.items() for value in values]
)
def test_options_are_what_was_given(option, value):
    buffer = reprise.ReplayBuffer(plain_schema(), 1000, **{option: value})
    found = buffer.options[option]
    assert found == ([value] if option == "selectors" else value)


def test_numbers_and_defaults():
    buffer = reprise.ReplayBuffer(
        plain_schema(),
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
        "episode_index": True,
        "max_writers": 5,
        "chunk_steps": 32,
        "shards": 2,
        "key_tag": 9,
        "storage": None,
    }
    assert reprise.ReplayBuffer(plain_schema(), 10).options["selectors"] == [reprise.Proportional()]


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({"capacity_steps": 0}, ValueError, "capacity_steps"),
        ({"window": 3}, TypeError, "window is 3; allowed: Transitions, Sequences"),
        ({"window": reprise.Transitions(n_step=0)}, ValueError, "n_step is 0; allowed: 1 to 65535"),
        ({"window": reprise.Transitions(n_step=-1)}, ValueError, "Transitions.n_step is -1"),
        ({"window": reprise.Transitions(n_step="x")}, TypeError, "Transitions.n_step is 'x'"),
        (
            {"window": reprise.Transitions(stack_start="x")},
            ValueError,
            "stack_start is 'x'; allowed",
        ),
        ({"window": reprise.Sequences(end="x")}, ValueError, "end is 'x'; allowed: 'truncate'"),
        ({"selectors": "uniform"}, TypeError, "selectors is 'uniform'; allowed: .*Proportional"),
        ({"selectors": []}, ValueError, "selectors"),
        (
            {"selectors": reprise.Proportional(initial="x")},
            ValueError,
            "initial is 'x'; allowed: .*'from_caller', or a number",
        ),
        ({"selectors": reprise.MaxHeap(initial="a number")}, ValueError, "is 'a number'; allowed"),
        ({"selectors": reprise.Proportional(alpha=9)}, ValueError, "alpha is 9"),
        ({"remover": reprise.Lifo()}, TypeError, "remover is Lifo"),
        ({"rate_limiter": reprise.Uniform()}, TypeError, "rate_limiter is Uniform"),
        ({"rate_limiter": reprise.Queue(0)}, ValueError, "Queue::size"),
        ({"shards": 1000}, ValueError, "shards"),
        ({"key_tag": 4096}, ValueError, "key_tag"),
        ({"sizes": 1}, TypeError, "unexpected keyword 'sizes'; allowed: schema, capacity"),
    ],
)
def test_wrong_options(given, error, message):
    with pytest.raises(error, match=message):
        reprise.ReplayBuffer(**{"schema": plain_schema(), "capacity_steps": 100, **given})


def test_rows_in_a_mapped_file(tmp_path):
    buffer = reprise.ReplayBuffer(plain_schema(), 1000, storage=tmp_path)
    fill(buffer, 100)
    assert buffer.options["storage"] == tmp_path
    assert buffer.stats()["file_bytes"] > 0
    assert len(buffer.sampler().sample(8)) == 8
    buffer.save(tmp_path / "saved")
    loaded = reprise.ReplayBuffer.load(tmp_path / "saved", storage=str(tmp_path))
    assert loaded.options["storage"] == tmp_path and len(loaded) == 100
    assert reprise.ReplayBuffer.load(tmp_path / "saved").options["storage"] is None
    with pytest.raises(OSError) as error:
        reprise.ReplayBuffer(plain_schema(), 1000, storage=tmp_path / "nothing" / "there")
    assert error.value.errno != 0
    with pytest.raises(TypeError, match="storage is 3; allowed: None or a path"):
        reprise.ReplayBuffer(plain_schema(), 1000, storage=3)


def test_a_buffer_is_closed_by_with():
    with reprise.ReplayBuffer(plain_schema(), 10) as buffer:
        assert not buffer.closed
    assert buffer.closed
    assert len(buffer) == 0 and buffer.stats()["items"] == 0
