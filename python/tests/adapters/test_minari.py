"""reprise.minari with data sets that Minari recorded, or a stand-in where it is not installed."""

from types import SimpleNamespace

import numpy as np
import pytest
from testing.buffers import every_item
from testing.refusals import refuses

import reprise
import reprise.minari

try:
    import minari
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer
except ImportError:
    minari = None

needs_minari = pytest.mark.skipif(minari is None, reason="without Minari")
LENGTHS = [3, 5, 2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def make(is_dict, name):
    """Records a data set. In episode e observations are 100 e + t, and rewards t; only episode 0
    terminated."""
    box = spaces.Box(-1, 1000, (2,), np.float32)
    space = (
        spaces.Dict({"a": box, "b": spaces.Dict({"c": spaces.Discrete(1000)})}) if is_dict else box
    )
    episodes = []
    for e, length in enumerate(LENGTHS):
        numbers = 100 * e + np.arange(length + 1)
        plain = np.stack([numbers, numbers], 1).astype(np.float32)
        ends = np.arange(length) == length - 1
        episodes.append(
            EpisodeBuffer(
                id=e,
                observations={"a": plain, "b": {"c": numbers}} if is_dict else plain,
                actions=np.arange(length),
                rewards=np.arange(length, dtype=float),
                terminations=ends & (e == 0),
                truncations=ends & (e != 0),
                infos={},
            )
        )
    return minari.create_dataset_from_buffers(
        name,
        episodes,
        observation_space=space,
        action_space=spaces.Discrete(100),
    )


class Box:
    """Stands in for a Box of Gymnasium."""

    dtype, shape = np.float32, (2,)


class Dataset:
    """Stands in for a MinariDataset whose episodes end in every possible way."""

    observation_space = action_space = Box()
    ends = [(True, False), (False, True), (True, True), (False, False)]
    total_steps = 3 * len(ends)

    def iterate_episodes(self):
        for e, (over, cut) in enumerate(self.ends):
            yield SimpleNamespace(
                observations=np.full((4, 2), e) + np.arange(4)[:, None] / 10,
                actions=np.zeros((3, 2)),
                rewards=np.arange(3.0),
                terminations=np.array([False, False, over]),
                truncations=np.array([False, False, cut]),
            )


def test_episodes_end_as_the_dataset_says():
    replay = reprise.minari.load(Dataset(), selectors=reprise.Uniform(), shards=1)
    items = every_item(replay)
    assert replay.options["capacity_steps"] == len(items["obs"]) == 12
    # Only the last step of a terminated episode has a discount of 0.
    last = items[".positions"] == 2
    np.testing.assert_array_equal(items["obs"][last][:, 0].astype(int), np.arange(4))
    assert (items[".discounts"][last] == 0).tolist() == [over for over, _ in Dataset.ends]
    assert (items[".discounts"][~last] > 0).all()


def test_fields_have_the_names_that_are_given():
    replay = reprise.minari.load(Dataset(), action="torque", reward="gain", shards=1)
    assert [field.name for field in replay.schema.fields] == ["obs", "torque", "gain"]
    assert sorted(every_item(replay)["gain"]) == [0.0] * 4 + [1.0] * 4 + [2.0] * 4


def test_the_error_of_a_load_without_room_names_the_rate_limiter():
    limiter = reprise.SampleToInsertRatio(1.0, min_size=1, error_buffer=5.0)
    refuses(
        TimeoutError,
        "no room now.* Rate limiter: ",
        reprise.minari.load,
        Dataset(),
        rate_limiter=limiter,
    )


@needs_minari
@pytest.mark.parametrize("is_dict", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
def test_every_step_of_every_episode_is_loaded(is_dict, by_name):
    dataset = make(is_dict, "test/steps-v0")
    replay = reprise.minari.load(
        "test/steps-v0" if by_name else dataset, selectors=reprise.Uniform(), shards=1
    )
    assert replay.options["capacity_steps"] == sum(LENGTHS)
    items = every_item(replay)
    field = "a" if is_dict else "obs"
    numbers = np.concatenate([100 * e + np.arange(n) for e, n in enumerate(LENGTHS)])
    np.testing.assert_array_equal(items[field][:, 0], numbers)
    np.testing.assert_array_equal(items["next_" + field][:, 0], numbers + 1)
    np.testing.assert_array_equal(items["action"], numbers % 100)
    np.testing.assert_array_equal(items["reward"], numbers % 100)
    assert (items[".discounts"] == 0).tolist() == [n == 2 for n in numbers]
    if is_dict:
        np.testing.assert_array_equal(items["next_b/c"], numbers + 1)


@needs_minari
def test_options_and_filters():
    dataset = make(False, "test/filters-v0")
    some = dataset.filter_episodes(lambda episode: len(episode.rewards) > 2)
    window = reprise.Transitions(n_step=3)
    replay = reprise.minari.load(some, window=window, capacity_steps=50)
    assert len(replay) == 8 and replay.options["capacity_steps"] == 50
    assert replay.options["window"] == window
    none = dataset.filter_episodes(lambda episode: len(episode.rewards) > 20)
    refuses(ValueError, "no steps", reprise.minari.load, none)
