"""reprise.rllib in RLlib itself, and compared with RLlib's own buffer."""

import copy
import os
from collections import Counter

import numpy as np
import pytest
from testing.refusals import refuses
from testing.threads import wait_until

# The networks are so small that threads of torch would cost more than they save.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# With Ray's default of 15 workers would wait for all other work of the machine.
os.environ.setdefault("RAY_worker_niceness", "0")

pytest.importorskip("ray.rllib")
import ray  # noqa: E402
from gymnasium import spaces  # noqa: E402
from pyarrow import fs  # noqa: E402
from ray.rllib.algorithms.algorithm import Algorithm  # noqa: E402
from ray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode  # noqa: E402
from ray.rllib.env.single_agent_episode import SingleAgentEpisode  # noqa: E402
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer as Theirs  # noqa: E402

import reprise  # noqa: E402
from reprise.rllib import DQN, PrioritizedEpisodeReplayBuffer  # noqa: E402

BOX = spaces.Box(0, 1000, (2,), np.float32)
LONG = "REPRISE_LONG_TESTS" in os.environ


def observe(number, t, is_nested=False):
    seen = np.array([number, t], np.float32)
    return {"near": seen, "far": (seen + 1, np.int64(t))} if is_nested else seen


def begin(number, **options):
    episode = SingleAgentEpisode(id_=f"episode{number}", observation_space=BOX)
    episode.add_env_reset(observe(number, 0, **options))
    return episode


def step(episode, number, steps, end=None, **options):
    """Makes steps with observation [number, t], and with action and reward t."""
    for i in range(steps):
        t = episode.t
        last = i == steps - 1
        episode.add_env_step(
            observe(number, t + 1, **options),
            np.int64(t),
            float(t),
            terminated=last and end == "terminated",
            truncated=last and end == "truncated",
        )
    return episode


def whole(number, steps, end="terminated", **options):
    return step(begin(number, **options), number, steps, end, **options).to_numpy()


def transition(drawn):
    """Returns of a transition (number, t, t of the next observation, action, reward, terminated,
    steps)."""
    assert len(drawn) == 1
    now, after = drawn.get_observations(0), drawn.get_observations(1)
    assert now[0] == after[0]
    return (
        int(now[0]),
        int(now[1]),
        int(after[1]),
        int(drawn.get_actions(0)),
        float(drawn.get_rewards(0)),
        drawn.is_terminated,
        int(drawn.get_extra_model_outputs("n_step", 0)),
    )


def expected(number, steps, n, gamma, is_terminated=True):
    """Returns every transition of a whole episode of `steps` steps."""
    transitions = set()
    for t in range(steps):
        last = min(t + n, steps)
        total = sum(np.float32(gamma) ** (k - t) * k for k in range(t, last))
        over = is_terminated and last == steps
        transitions.add((number, t, last, t, float(np.float32(total)), over, last - t))
    return transitions


@pytest.mark.parametrize("n", [1, 3])
def test_transitions_are_those_of_the_episodes(n):
    buffer = PrioritizedEpisodeReplayBuffer(100, n_step=n, gamma=0.5, seed=1)
    buffer.add([whole(0, 7), whole(1, 4, "truncated")])
    drawn = [transition(one) for one in buffer.sample(500, n_step=n, gamma=0.5, beta=0.4)]
    assert set(drawn) == expected(0, 7, n, 0.5) | expected(1, 4, n, 0.5, is_terminated=False)
    assert len(buffer) == buffer.get_num_timesteps() == 11 and buffer.get_num_episodes() == 2


def test_parts_of_episodes_continue_them():
    buffer = PrioritizedEpisodeReplayBuffer(100, n_step=3, gamma=0.5, seed=1)
    parts = [begin(number) for number in range(3)]
    for turn in range(4):
        for number, part in enumerate(parts):
            step(part, number, number + 1, "terminated" if turn == 3 else None)
        buffer.add([part.to_numpy() if turn % 2 else part for part in copy.deepcopy(parts)])
        parts = [part if part.is_done else part.cut(len_lookback_buffer=1) for part in parts]
    drawn = {transition(one) for one in buffer.sample(1000)}
    assert drawn == {one for number in range(3) for one in expected(number, 4 * number + 4, 3, 0.5)}
    assert buffer.get_num_episodes() == 3


def test_a_part_after_a_lost_one_begins_another_episode():
    buffer = PrioritizedEpisodeReplayBuffer(100, n_step=3, gamma=1.0, seed=1)
    first = step(begin(0), 0, 2)
    buffer.add(first)
    lost = step(first.cut(), 0, 2)
    buffer.add(step(lost.cut(), 0, 2, "terminated"))
    drawn = {transition(one)[:3] for one in buffer.sample(200)}
    assert drawn == {(0, 0, 2), (0, 1, 2), (0, 4, 6), (0, 5, 6)}


def test_lost_environments_do_not_use_up_the_writers():
    buffer = PrioritizedEpisodeReplayBuffer(1000, max_writers=3, seed=1)
    for number in range(10):
        buffer.add(step(begin(number), number, 2))
    assert buffer.replay.stats()["writers"] == 3 and len(buffer) == 20


def test_nested_observations_and_actions():
    buffer = PrioritizedEpisodeReplayBuffer(100, seed=1)
    buffer.add([whole(0, 5, is_nested=True), step(begin(1, is_nested=True), 1, 3, is_nested=True)])
    for one in buffer.sample(100, to_numpy=True):
        now, after = one.get_observations(0), one.get_observations(1)
        assert set(now) == {"near", "far"} and isinstance(now["far"], tuple)
        assert now["far"][1] == now["near"][1] == one.get_actions(0)
        assert (after["far"][0] == after["near"] + 1).all()
        assert after["far"][1] == now["far"][1] + 1


def test_one_step_transitions_are_those_of_their_buffer():
    episodes = [whole(number, 5 + number, "truncated") for number in range(3)]
    ours, theirs = PrioritizedEpisodeReplayBuffer(100, alpha=0.6), Theirs(100, alpha=0.6)
    drawn = []
    for buffer in (ours, theirs):
        buffer.add(copy.deepcopy(episodes))
        found = buffer.sample(
            num_items=500, n_step=1, batch_length_T=0, lookback=0, min_batch_length_T=0,
            gamma=0.9, beta=0.4, sample_episodes=True,
        )  # fmt: skip
        drawn.append({transition(one) for one in found})
        assert buffer.get_sampled_timesteps() == 500 and buffer.get_added_timesteps() == 18
    assert drawn[0] == drawn[1] and len(drawn[0]) == 18
    ours_at, theirs_at = (paths(buffer.get_metrics()) for buffer in (ours, theirs))
    assert ours_at == theirs_at


def paths(metrics):
    """Returns the numbers of metrics in the structure of the metrics, but for those that depend on
    which items were drawn."""
    if not isinstance(metrics, dict):
        value = metrics.peek() if hasattr(metrics, "peek") else metrics
        return float(np.mean(value)) if np.size(value) else None
    random = (
        "num_env_steps_per_sample",
        "num_agent_steps_per_sample",
        "num_module_steps_per_sample",
    )
    return {key: paths(part) for key, part in metrics.items() if not key.startswith(random)}


def test_priorities_are_assigned_in_the_order_of_the_last_sample():
    buffer = PrioritizedEpisodeReplayBuffer(100, alpha=0.5, seed=3)
    buffer.add(whole(0, 5))
    for _ in range(5):
        drawn = buffer.sample(64)
        buffer.update_priorities([(1.0 + one.t_started) ** 2 for one in drawn])
    drawn = buffer.sample(8_000, beta=1.0)
    counts = Counter(one.t_started for one in drawn)
    chances = np.arange(1, 6) / 15
    np.testing.assert_allclose([counts[t] / 8_000 for t in range(5)], chances, atol=0.03)
    weights = {one.t_started: one.get_extra_model_outputs("weights", 0) for one in drawn}
    np.testing.assert_allclose([weights[t] for t in range(5)], chances[0] / chances, rtol=1e-5)
    # A new transition has the highest priority seen, 25.
    buffer.add(whole(1, 1))
    drawn = buffer.sample(8_000)
    counts = Counter(int(one.get_observations(0)[0]) for one in drawn)
    assert counts[1] / 8_000 == pytest.approx(5 / 20, abs=0.03)


def test_a_new_transition_weighs_as_much_as_in_rllibs_buffer():
    shares = []
    for kind in (PrioritizedEpisodeReplayBuffer, Theirs):
        buffer = kind(100, alpha=1.0)
        buffer.add(whole(0, 1))
        buffer.sample(1, n_step=1)
        buffer.update_priorities(np.array([0.25]))
        buffer.add(whole(1, 1))
        drawn = buffer.sample(4_000, n_step=1)
        shares.append(sum(int(one.get_observations(0)[0]) for one in drawn) / 4_000)
    assert shares[0] == pytest.approx(shares[1], abs=0.03)


def test_a_sample_is_in_random_order():
    buffer = PrioritizedEpisodeReplayBuffer(1000, seed=1)
    buffer.add(whole(0, 1000))
    times = np.array([one.t_started for one in buffer.sample(500)])
    assert 150 < (np.diff(times) > 0).sum() < 350


def test_the_latest_steps_stay():
    buffer = PrioritizedEpisodeReplayBuffer(100, seed=1, chunk_steps=10, shards=1)
    for number in range(50):
        buffer.add(whole(number, 10))
    assert len(buffer) == 100
    assert {transition(one)[0] for one in buffer.sample(500)} == set(range(40, 50))
    assert buffer.get_num_episodes() == 10 and buffer.get_num_episodes_evicted() == 40
    assert buffer.replay.stats()["writers"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_step": 2},
        {"n_step": (2, 5)},
        {"gamma": 0.9},
        {"batch_length_T": 8},
        {"include_infos": True},
        {"include_extra_model_outputs": True},
    ],
)
def test_a_sample_with_other_options_than_the_buffers_is_refused(wrong):
    buffer = PrioritizedEpisodeReplayBuffer(100, n_step=3, gamma=0.99)
    buffer.add(whole(0, 5))
    refuses(ValueError, f"sample: {next(iter(wrong))} is .*; allowed: ", buffer.sample, 8, **wrong)


def test_wrong_use_is_refused():
    buffer = PrioritizedEpisodeReplayBuffer(100, timeout=0.0)
    refuses(TimeoutError, "empty", buffer.sample, 1)
    refuses(ValueError, "weight is 2.0; allowed: None", buffer.add, whole(0, 5), weight=2.0)
    with pytest.raises(TypeError, match="MultiAgentEpisode; allowed: SingleAgentEpisode"):
        buffer.add([MultiAgentEpisode()])
    buffer.add(whole(0, 5))
    refuses(RuntimeError, "no sample", buffer.update_priorities, np.ones(8))
    buffer.sample(8)
    refuses(ValueError, "8", buffer.update_priorities, np.ones(7))
    buffer.update_priorities(np.ones(8))
    refuses(RuntimeError, "no sample", buffer.update_priorities, np.ones(8))
    with pytest.raises(TypeError, match="capacity_stepz"):
        PrioritizedEpisodeReplayBuffer(100, capacity_stepz=1).add(whole(0, 5))


@pytest.mark.parametrize(
    "wrong, name",
    [
        ({"capacity": 0}, "capacity_steps is 0"),
        ({"n_step": 0}, "n_step is 0"),
        ({"alpha": -1.0}, "alpha is -1"),
        (
            {"window": reprise.Transitions(n_step=3)},
            "window is .*; allowed: none, because n_step",
        ),
    ],
)
def test_wrong_options_are_refused_at_once(wrong, name):
    refuses(ValueError, name, PrioritizedEpisodeReplayBuffer, **wrong)


def test_an_episode_that_is_refused_is_not_counted():
    buffer = PrioritizedEpisodeReplayBuffer(100)
    buffer.add(whole(0, 5))
    for number in (1, 2):
        refuses(ValueError, "obs", buffer.add, whole(number, 5, is_nested=True))
    assert buffer.get_num_episodes() == 1 and len(buffer) == 5


def drawn_again(buffer):
    return [
        (transition(one), one.get_extra_model_outputs("weights", 0)) for one in buffer.sample(99)
    ]


@pytest.mark.parametrize("way", ["state", "path", "file system"])
def test_a_buffer_comes_back_with_priorities_and_random_numbers(way, tmp_path):
    buffer = PrioritizedEpisodeReplayBuffer(100, alpha=0.5, seed=1)
    buffer.add([whole(0, 30), step(begin(1), 1, 3)])
    buffer.update_priorities(np.arange(len(buffer.sample(50))))
    other = PrioritizedEpisodeReplayBuffer(100, alpha=0.5, seed=2)
    other.add([whole(7, 20), step(begin(1), 1, 3)])
    if way == "state":
        other.set_state(copy.deepcopy(buffer.get_state()))
    else:
        inside = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        where, path = (None, tmp_path / "one") if way == "path" else (inside, "one")
        buffer.save_to_path(path, filesystem=where)
        other.restore_from_path(path, filesystem=where)
    assert len(other) == 33 and other.get_num_episodes() == 2
    assert other.get_added_timesteps() == 33 and other.get_sampled_timesteps() == 50
    assert drawn_again(other) == drawn_again(buffer)
    rest = step(step(begin(1), 1, 3).cut(), 1, 4, "terminated")
    other.add(rest)  # The save ended this episode.
    assert len(other) == 37 and other.get_num_episodes() == 3


@pytest.mark.parametrize(
    "other, name",
    [
        ({"capacity": 50}, "capacity is 50; allowed: 100"),
        ({"n_step": 1}, r"window is .*n_step=1, .*; allowed: .*n_step=3, "),
        ({"gamma": 0.9}, r"window is .*discount=0.9, .*; allowed: .*discount=0.5, "),
        ({"alpha": 1.0}, r"selectors is .*alpha=1.0, .*; allowed: .*alpha=0.5, "),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused(other, name, tmp_path):
    options = {"capacity": 100, "n_step": 3, "gamma": 0.5, "alpha": 0.5, "seed": 1}
    saved = PrioritizedEpisodeReplayBuffer(**options)
    saved.add(whole(0, 20))
    saved.save_to_path(tmp_path / "one")
    buffer = PrioritizedEpisodeReplayBuffer(**options | other)
    buffer.add(whole(7, 5))
    with pytest.raises(ValueError, match=f"load: {name}.*, as saved"):
        buffer.restore_from_path(tmp_path / "one")
    assert len(buffer) == 5 and {transition(one)[0] for one in buffer.sample(20)} == {7}


@pytest.mark.parametrize("gone", ["counters", "replay"])
def test_a_load_that_fails_changes_nothing(gone, tmp_path):
    buffer = PrioritizedEpisodeReplayBuffer(100, seed=1)
    buffer.add(whole(0, 20))
    buffer.save_to_path(tmp_path / "one")
    buffer.add(whole(1, 5))
    (tmp_path / "one" / gone).rename(tmp_path / gone)
    with pytest.raises((FileNotFoundError, reprise.CheckpointError)):
        buffer.restore_from_path(tmp_path / "one")
    assert len(buffer) == 25 and buffer.get_num_episodes() == 2
    buffer.add(whole(2, 5))
    assert {transition(one)[0] for one in buffer.sample(500)} == {0, 1, 2}


def test_an_empty_buffer_comes_back_empty(tmp_path):
    buffer, other = PrioritizedEpisodeReplayBuffer(100), PrioritizedEpisodeReplayBuffer(100)
    other.add(whole(0, 5))
    buffer.save_to_path(tmp_path / "one")
    other.restore_from_path(tmp_path / "one")
    assert len(other) == 0
    other.add(whole(0, 5))
    assert len(other) == 5


@pytest.fixture(scope="module")
def cluster():
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=80 << 20)
    yield
    ray.shutdown()


def cart_pole(kind=DQN, **options):
    """A configuration in one process; `options` are those of the buffer."""
    buffer = {
        "type": "reprise.rllib.PrioritizedEpisodeReplayBuffer",
        "capacity": 50_000,
        "alpha": 0.6,
        "beta": 0.4,
        "n_step": 3,
        "seed": 1,
    }
    model = {
        "fcnet_hiddens": [256],
        "fcnet_activation": "tanh",
        "head_fcnet_hiddens": [256],
        "head_fcnet_activation": "tanh",
    }
    return (
        DQNConfig(algo_class=kind)
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .learners(num_learners=0)
        .training(
            lr=0.0005,
            train_batch_size_per_learner=32,
            num_steps_sampled_before_learning_starts=500,
            n_step=3,
            training_intensity=8.0,
            target_network_update_freq=500,
            epsilon=[(0, 1.0), (6000, 0.02)],
            replay_buffer_config=buffer | options,
        )
        .rl_module(model_config=model)
        .debugging(seed=0)
    )


@pytest.fixture
def in_shards(cluster):
    """The options of a buffer of two shards."""
    remote = pytest.importorskip("reprise.ray")
    patient = {"answer_timeout": 30.0, "start_timeout": 180.0}
    return {"buffer": remote.ReplayBuffer, "shards": 2, **patient}


def test_transitions_of_a_buffer_in_shards(in_shards, tmp_path):
    buffer = PrioritizedEpisodeReplayBuffer(
        200, n_step=3, gamma=0.5, alpha=1.0, seed=1, **in_shards
    )
    buffer.add([whole(0, 7), whole(1, 4, "truncated"), step(begin(2), 2, 5)])
    buffer.add(step(step(begin(2), 2, 5).cut(), 2, 3, "terminated"))
    wait_until(lambda: len(buffer) >= 19)
    all_of = expected(0, 7, 3, 0.5) | expected(1, 4, 3, 0.5, False) | expected(2, 8, 3, 0.5)
    assert {transition(one) for one in buffer.sample(1000)} == all_of
    for _ in range(3):
        drawn = buffer.sample(500)
        buffer.update_priorities([1.0 + transition(one)[0] for one in drawn])
    buffer.sample(1)  # A draw first sends the updates that wait.
    counts = Counter(transition(one)[0] for one in buffer.sample(8_000))
    weights = np.array([7 * 1, 4 * 2, 8 * 3])
    np.testing.assert_allclose([counts[i] / 8_000 for i in range(3)], weights / 39, atol=0.03)
    refuses(ValueError, "get_state: .*; allowed: save_to_path", buffer.get_state)
    buffer.save_to_path(tmp_path / "one")
    other = PrioritizedEpisodeReplayBuffer(200, n_step=3, gamma=0.5, alpha=1.0, seed=2, **in_shards)
    other.restore_from_path(tmp_path / "one")
    assert len(other) == 19 and other.get_num_episodes() == 3
    assert {transition(one) for one in other.sample(1000)} == all_of
    counts = Counter(transition(one)[0] for one in other.sample(8_000))
    np.testing.assert_allclose([counts[i] / 8_000 for i in range(3)], weights / 39, atol=0.03)
    for one in (buffer, other):
        one.replay.close()


@pytest.mark.parametrize("where", ["here", "in_shards"])
def test_dqn_learns_cart_pole(cluster, where, request):
    options = request.getfixturevalue(where) if where == "in_shards" else {}
    algorithm = cart_pole(**options).build_algo()
    bound, most = (400, 200_000) if LONG else (80, 20_000)
    result, steps, mean = {}, 0, 0.0
    while mean < bound and steps < most:
        result = algorithm.train()
        mean = result["env_runners"]["episode_return_mean"]
        steps = result["env_runners"]["num_env_steps_sampled_lifetime"]
    replay = algorithm.local_replay_buffer.replay
    added = result["replay_buffer"]["num_env_steps_added_lifetime"]
    if where == "in_shards":  # The last steps may still be on their way to the shards.
        wait_until(lambda: replay.stats()["committed_steps"] > 0.9 * added)
        wait_until(
            lambda: replay.stats()["applied_updates"] >= 0.99 * replay.stats()["sampled_items"]
        )
    stats = replay.stats()
    replay.close()
    algorithm.stop()
    assert mean >= bound  # Random actions return about 22.
    if where == "here":
        assert stats["applied_updates"] == stats["sampled_items"] > 0
        assert added == stats["committed_steps"]
    else:
        assert 0 < stats["applied_updates"] <= stats["sampled_items"]
        assert stats["committed_steps"] <= added


def test_checkpoints_hold_the_buffer(cluster, tmp_path):
    algorithm = cart_pole().build_algo()
    algorithm.train()
    path = algorithm.save_to_path(tmp_path / "one")
    buffer = algorithm.local_replay_buffer
    stats = buffer.replay.stats()
    restored = cart_pole().build_algo()
    restored.restore_from_path(path)
    made = Algorithm.from_checkpoint(path)
    assert type(made) is DQN
    # A restored buffer ends the episodes that were open, so that their last transitions can be
    # drawn.
    drawn = []
    for other in (restored, made):
        found = other.local_replay_buffer
        # An open episode of fewer than n steps has no transition yet.
        steps = found.replay.stats()["resident_steps"]
        assert stats["committed_steps"] - 4 * 2 <= steps <= stats["committed_steps"]
        drawn.append([one.t_started for one in found.sample(100)])
        found.update_priorities(np.ones(100))
        other.train()
        assert len(found) > len(buffer)
    assert drawn[0] == drawn[1]
    for one in (algorithm, restored, made):
        one.stop()


def test_checkpoints_without_the_buffer_leave_it_as_it_is(cluster, tmp_path):
    algorithm = cart_pole(DQNConfig().algo_class).build_algo()
    algorithm.train()
    path = algorithm.save_to_path(tmp_path / "one")
    other = cart_pole().build_algo()
    other.restore_from_path(path)
    assert len(other.local_replay_buffer) == 0
    algorithm.stop()
    other.stop()
