"""reprise.sb3.HerReplayBuffer: goals of the same episode, and the rewards of the environment."""

import pickle

import numpy as np
import pytest
from testing.refusals import refuses

pytest.importorskip("stable_baselines3")
from gymnasium import spaces  # noqa: E402
from stable_baselines3 import DQN, HerReplayBuffer  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.envs import BitFlippingEnv  # noqa: E402
from test_sb3 import Counter, append_steps  # noqa: E402

from reprise import sb3  # noqa: E402

NOWHERE = [-1.0, -1.0]


class Walk(Counter):
    """An environment in which step t of an episode achieves the goal [episode, t]."""

    def __init__(self):
        super().__init__()
        keys = ("observation", "achieved_goal", "desired_goal")
        box = spaces.Box(-1, 1000, (2,), np.float32)
        self.observation_space = spaces.Dict(dict.fromkeys(keys, box))
        self.action_space, self.infos = spaces.Discrete(2), []

    def observe(self):
        here, goal = super().observe(), np.array(NOWHERE, np.float32)
        return {"observation": here, "achieved_goal": here, "desired_goal": goal}

    def step(self, action):
        after, _, over, cut, _ = super().step(action)
        return after, 50.0, over, cut, {"at": (self.episode, self.t)}

    def compute_reward(self, achieved, desired, infos):
        self.infos = infos
        return np.where((achieved == desired).all(1), 0.0, -1.0)


class Pictures(Walk):
    """A Walk whose observations are large enough to be compressed."""

    def __init__(self):
        super().__init__()
        pictures = spaces.Box(0, 255, (16, 32), np.uint8)
        self.observation_space = spaces.Dict({**self.observation_space, "observation": pictures})

    def observe(self):
        return super().observe() | {"observation": np.full((16, 32), self.t, np.uint8)}


def collected(steps=100, n_envs=1, size=1000, env=Walk, **options):
    envs = make_vec_env(env, n_envs)
    made = sb3.HerReplayBuffer(
        size, envs.observation_space, envs.action_space, envs, "cpu", n_envs, **options
    )
    return append_steps(made, envs, steps), envs


def parts(batch):
    episode, t = batch.observations["achieved_goal"].numpy().T
    goal_episode, goal = batch.observations["desired_goal"].numpy().T
    np.testing.assert_array_equal(
        batch.next_observations["desired_goal"], batch.observations["desired_goal"]
    )
    return episode, t, goal_episode, goal, batch.rewards.numpy()[:, 0]


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "Final", "episode"])
def test_goals_are_those_of_the_episode_and_rewards_follow(strategy, n_envs):
    buffer, _ = collected(n_envs=n_envs, goal_selection_strategy=strategy)
    episode, t, goal_episode, goal, rewards = parts(buffer.sample(2001))
    own, other = goal == -1, goal != -1
    assert own.sum() == 401  # Every fifth step keeps its own goal.
    assert set(episode[own]) == set(episode[other])  # Steps with own goals are of all ages, too.
    assert (goal[own] == -1).all() and (rewards[own] == 50).all()
    assert (goal_episode[other] == episode[other]).all()
    assert (rewards[other] == np.where(goal[other] == t[other] + 1, 0, -1)).all()
    ahead = goal[other] - t[other]
    if strategy == "episode":
        assert ahead.min() < 0 and 0 not in ahead
    else:
        assert ahead.min() == 1 and ahead.max() <= 7
    if strategy == "Final":
        ended = episode[other] < episode.max() - n_envs
        assert (goal[other] == np.where(episode[other] % 3 == 2, 5, 7))[ended].all()


def test_the_share_of_other_goals():
    for k, others in ((0, 0), (1, 50), (4, 80)):
        _, _, _, goal, _ = parts(collected(n_sampled_goal=k)[0].sample(100))
        assert (goal >= 0).sum() == others


@pytest.mark.parametrize("n_envs", [1, 4])
def test_rewards_may_depend_on_infos(n_envs):
    # New steps have replaced old ones many times.
    buffer, envs = collected(700, n_envs, size=200, copy_info_dict=True)
    for again in (buffer, pickle.loads(pickle.dumps(buffer))):
        if again is not buffer:
            again.set_env(envs)
        for _ in range(2):
            batch = again.sample(500)
            seen = envs.get_attr("infos")[0]
            assert len(seen) == 400
            other = parts(batch)[3] >= 0
            at = batch.next_observations["achieved_goal"].numpy()[other]
            np.testing.assert_array_equal([info.pop("at") for info in seen], at)
    plain, envs = collected()
    plain.sample(10)
    assert envs.get_attr("infos")[0] == [{}] * 8


def test_a_pickle_goes_on_with_an_environment():
    buffer, envs = collected()
    again = pickle.loads(pickle.dumps(buffer))
    refuses(RuntimeError, "no environment; call set_env first", again.sample, 4)
    again.set_env(envs)
    again.truncate_last_trajectory()
    assert (parts(again.sample(100))[3] >= 0).sum() == 80
    with pytest.raises(ValueError):
        again.set_env(envs)


def test_compressed_observations_give_the_same_batches():
    def made(compress):
        np.random.seed(1)  # The buffer draws its seeds from numpy's.
        return collected(env=Pictures, compress=compress)

    (plain, _), (small, envs) = made(False), made(True)
    assert small.replay.schema.compressed == ("obs/observation",)
    for _ in range(3):
        one, other = plain.sample(50), small.sample(50)
        for a, b in zip(parts(one), parts(other)):
            np.testing.assert_array_equal(a, b)
        for name in ("observations", "next_observations"):
            pictures = [getattr(batch, name)["observation"] for batch in (one, other)]
            np.testing.assert_array_equal(*pictures)
    again = pickle.loads(pickle.dumps(small))
    again.set_env(envs)
    batch = again.sample(50)
    picture, t = batch.observations["observation"].numpy(), parts(batch)[1]
    assert (picture == t[:, None, None]).all() and (parts(batch)[3] >= 0).sum() == 40


def test_refusals():
    envs = make_vec_env(Walk, 1)
    space, actions = envs.observation_space, envs.action_space
    refuses(
        *(ValueError, "goal_selection_strategy is 'next'; allowed: future, final, episode"),
        *(sb3.HerReplayBuffer, 10, space, actions, envs),
        goal_selection_strategy="next",
    )
    refuses(
        *(ValueError, "n_sampled_goal is -1; allowed: at least 0"),
        *(sb3.HerReplayBuffer, 10, space, actions, envs),
        n_sampled_goal=-1,
    )
    other = spaces.Dict(dict(space.spaces) | {"desired_goal": spaces.Box(0, 1, (3,))})
    refuses(
        *(ValueError, "allowed: goals of one shape and dtype"),
        *(sb3.HerReplayBuffer, 10, other, actions, envs),
    )


def test_an_algorithm_learns_with_it(tmp_path):
    options = dict(n_sampled_goal=4, goal_selection_strategy="future")
    made = dict(replay_buffer_class=sb3.HerReplayBuffer, replay_buffer_kwargs=options)
    env = BitFlippingEnv(n_bits=4, continuous=False)
    model = DQN("MultiInputPolicy", env, learning_starts=100, seed=1, device="cpu", **made)
    model.learn(600)
    assert isinstance(model.replay_buffer, HerReplayBuffer)
    assert model.replay_buffer.size() == 600
    model.save_replay_buffer(tmp_path / "steps")
    again = DQN("MultiInputPolicy", env, learning_starts=0, seed=1, device="cpu", **made)
    again.load_replay_buffer(tmp_path / "steps")
    assert again.replay_buffer.size() == 600
    again.learn(100)
