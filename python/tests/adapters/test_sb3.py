"""reprise.sb3 in Stable-Baselines3 itself, and what the tests of Stable-Baselines3 expect of a
buffer."""

import copy
import importlib.util
import multiprocessing
import pickle

import numpy as np
import pytest
from testing.children import run_python
from testing.files import ROOT
from testing.refusals import refuses

pytest.importorskip("stable_baselines3")
import gymnasium as gym  # noqa: E402
import torch  # noqa: E402
from gymnasium import spaces  # noqa: E402
from stable_baselines3 import DQN, SAC, TD3  # noqa: E402
from stable_baselines3.common import buffers as theirs  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.vec_env import VecNormalize  # noqa: E402

from reprise import sb3  # noqa: E402

torch.set_num_threads(1)  # The networks are too small for several threads.

BOX = spaces.Box(-100, 100, (3,), np.float32)
ACTION = spaces.Box(-1, 1, (2,), np.float32)
NO_INFO = [{}]


class Counter(gym.Env):
    """The observation is [episode, t], or as a dict this as "near", and 1 more as "far". The reward
    is t. A time limit cuts episodes after 7 steps, and every third episode terminates after 5."""

    def __init__(self, is_dict=False):
        box = spaces.Box(0, 1000, (2,), np.float32)
        self.is_dict = is_dict
        self.observation_space = spaces.Dict({"near": box, "far": box}) if is_dict else box
        self.action_space = spaces.Box(-1, 1, (2, 3), np.float32)
        self.episode, self.t = -1, 0

    def observe(self):
        seen = np.array([self.episode, self.t], np.float32)
        return {"near": seen, "far": seen + 1} if self.is_dict else seen

    def reset(self, *, seed=None, options=None):
        self.episode, self.t = self.episode + 1, 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        over = self.episode % 3 == 2 and self.t == 5
        return self.observe(), float(self.t), over, self.t == 7, {}


def append_steps(made, envs, steps):
    """Fills a buffer as Stable-Baselines3 does, with final observations where episodes end."""
    obs = envs.reset()
    for _ in range(steps):
        action = np.stack([envs.action_space.sample() for _ in range(envs.num_envs)])
        after, reward, done, infos = envs.step(action)
        real = copy.deepcopy(after)
        for e in np.flatnonzero(done):
            last = infos[e]["terminal_observation"]
            if isinstance(real, dict):
                for key in real:
                    real[key][e] = last[key]
            else:
                real[e] = last
        made.add(obs, real, action, reward, done, infos)
        obs = after
    return made


def collect(kind, steps=200, n_envs=1, is_dict=False):
    envs = make_vec_env(Counter, n_envs, env_kwargs={"is_dict": is_dict})
    made = kind(1000, envs.observation_space, envs.action_space, "cpu", n_envs=n_envs)
    return append_steps(made, envs, steps // n_envs)


def ramp(kind, length, ends=(), limits=(), **options):
    """Returns a buffer of transitions from i to i + 1 with a reward of i + 1."""
    made = kind(length, BOX, ACTION, "cpu", **options)
    for i in range(length):
        over, cut = i in ends, i in limits
        now, after = np.full((1, 3), float(i)), np.full((1, 3), i + 1.0)
        infos = [{"TimeLimit.truncated": cut}]
        made.add(now, after, np.zeros((1, 2)), np.array([i + 1.0]), np.array([over or cut]), infos)
    return made


def by_first(batch, numbers):
    """Returns for each number a row of the batch whose observation begins with it."""
    first = batch.observations[:, 0].numpy()
    return [int(np.flatnonzero(first == number)[0]) for number in numbers]


KINDS = (sb3.ReplayBuffer, sb3.PrioritizedReplayBuffer)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_transitions_are_those_of_the_environments(kind, n_envs):
    buffer = collect(kind, n_envs=n_envs)
    assert buffer.size() == 200 // n_envs and not buffer.full
    batch = buffer.sample(2000)
    now, after = batch.observations.numpy(), batch.next_observations.numpy()
    assert (after[:, 0] == now[:, 0]).all() and (after[:, 1] == now[:, 1] + 1).all()
    assert (batch.rewards.numpy()[:, 0] == after[:, 1]).all()
    over = (now[:, 0] % 3 == 2) & (after[:, 1] == 5)
    assert (batch.dones.numpy()[:, 0] == over).all() and over.any()
    assert (after[:, 1] == 7).any()  # A time limit does not count as done.
    assert batch.actions.shape == (2000, 6) and batch.rewards.shape == (2000, 1)


def test_each_observation_is_stored_once():
    images = spaces.Box(0, 255, (84, 84), np.uint8)
    buffer = sb3.ReplayBuffer(4000, images, ACTION, "cpu")
    last = np.zeros((1, 84, 84), np.uint8)
    for i in range(4000):
        after = np.full((1, 84, 84), i % 250, np.uint8)
        buffer.add(last, after, np.zeros((1, 2)), np.zeros(1), np.array([i % 50 == 49]), NO_INFO)
        last = after
    touched = buffer.replay.stats()["touched_bytes"]
    assert touched < 1.3 * 4000 * 84 * 84


IMAGES = spaces.Box(0, 255, (32, 32), np.uint8)


def images(kind, is_dict=False, **options):
    """Returns a buffer of 100 frames. Each frame has one pixel more set than the frame before."""
    space = spaces.Dict({"near": IMAGES, "far": BOX}) if is_dict else IMAGES
    np.random.seed(3)
    made = kind(100, space, ACTION, "cpu", **options)
    frames = np.tri(101, 1024, -1, dtype=np.uint8).reshape(101, 1, 32, 32)
    for i in range(100):
        now, after = frames[i], frames[i + 1]
        if is_dict:
            now, after = ({"near": one, "far": np.full((1, 3), one.sum())} for one in (now, after))
        made.add(now, after, np.zeros((1, 2)), np.zeros(1), np.array([i % 50 == 49]), NO_INFO)
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_dict", [False, True])
def test_compressed_images_give_the_same_batches(kind, is_dict):
    plain, small = images(kind, is_dict), images(kind, is_dict, compress=True)
    assert plain.replay.schema.compressed == ()
    names = ("obs/near",) if is_dict else ("obs",)
    for buffer in (small, pickle.loads(pickle.dumps(small))):
        assert buffer.replay.schema.compressed == names
        stats = buffer.replay.stats()
        assert 0 < stats["compressed_bytes"] < stats["uncompressed_bytes"] / 4
    for _ in range(5):
        expected, actual = plain.sample(64), small.sample(64)
        for name in ("observations", "next_observations"):
            one, other = getattr(expected, name), getattr(actual, name)
            pairs = [(one[key], other[key]) for key in one] if is_dict else [(one, other)]
            assert all(torch.equal(a, b) for a, b in pairs)
    small.reset()
    assert small.replay.schema.compressed == names


def test_an_algorithm_passes_compress_on_and_small_observations_refuse_it():
    from stable_baselines3.common.envs import FakeImageEnv

    model = DQN(
        "CnnPolicy",
        FakeImageEnv(screen_height=40, screen_width=40, discrete=True),
        buffer_size=60,
        learning_starts=10,
        replay_buffer_class=sb3.ReplayBuffer,
        replay_buffer_kwargs={"compress": True},
    )
    model.learn(20)
    assert model.replay_buffer.replay.stats()["uncompressed_bytes"] > 0
    said = "ReplayBuffer: compress is True; .* at least 512 .*: none"
    refuses(ValueError, said, sb3.ReplayBuffer, 10, BOX, ACTION, "cpu", compress=True)


def test_compress_takes_names_too():
    space = spaces.Dict({"near": IMAGES, "other": IMAGES, "far": BOX})
    for compress, names in (
        (["near"], ("obs/near",)),
        (True, ("obs/near", "obs/other")),
        ([], ()),
        (False, ()),
    ):
        made = sb3.DictReplayBuffer(10, space, ACTION, "cpu", compress=compress)
        assert made.replay.schema.compressed == names
    made = sb3.ReplayBuffer(10, IMAGES, ACTION, "cpu", compress=["obs"])
    assert made.replay.schema.compressed == ("obs",)
    for wrong in ("x", "far"):
        with pytest.raises(ValueError, match=rf"compress is \['{wrong}'\]; .*: near, other$"):
            sb3.DictReplayBuffer(10, space, ACTION, "cpu", compress=[wrong])
    for wrong in ("near", 3):
        said = "compress is .*; allowed: True, False, a list of names"
        refuses(TypeError, said, sb3.DictReplayBuffer, 10, space, ACTION, "cpu", compress=wrong)


def test_time_limits_count_as_ends_where_they_are_not_handled():
    for handled in (True, False):
        buffer = ramp(sb3.ReplayBuffer, 10, limits=[4], handle_timeout_termination=handled)
        batch = buffer.sample(200)
        assert batch.dones[by_first(batch, [4])].item() == (not handled)


@pytest.mark.parametrize("kind", KINDS)
def test_dict_observations(kind):
    kind = sb3.DictReplayBuffer if kind is sb3.ReplayBuffer else kind
    batch = collect(kind, is_dict=True).sample(100)
    assert set(batch.observations) == {"near", "far"}
    assert torch.equal(batch.next_observations["far"], batch.next_observations["near"] + 1)
    refuses(TypeError, "allowed: a Dict", sb3.DictReplayBuffer, 100, BOX, ACTION)


@pytest.mark.parametrize("kind", KINDS)
def test_n_steps_are_summed_up_to_an_end(kind):
    buffer = ramp(kind, 12, ends=[4], limits=[8], n_steps=3, gamma=0.5)
    batch = buffer.sample(2000)
    assert set(batch.observations[:, 0].tolist()) == set(range(10))  # Two windows are not complete.
    rows = by_first(batch, range(10))
    lasts = [min(i + 2, *(end for end in (4, 8, 99) if end >= i)) for i in range(9)] + [11]
    sums = [sum(0.5 ** (k - i) * (k + 1) for k in range(i, lasts[i] + 1)) for i in range(10)]
    discounts = [0.5 ** (last + 1 - i) for i, last in enumerate(lasts)]
    nexts = [last + 1 for last in lasts]
    np.testing.assert_allclose(batch.rewards[rows, 0], sums)
    np.testing.assert_allclose(batch.discounts[rows, 0], discounts)
    assert batch.next_observations[rows, 0].tolist() == nexts
    assert batch.dones[rows, 0].tolist() == [float(i in (2, 3, 4)) for i in range(10)]


def test_a_full_buffer_has_the_latest():
    buffer = ramp(sb3.ReplayBuffer, 50)
    for i in range(50, 75):
        now = np.full((1, 3), float(i))
        buffer.add(now, now + 1, np.zeros((1, 2)), np.zeros(1), np.zeros(1), NO_INFO)
    assert buffer.full and buffer.size() == 50 and buffer.pos == 25
    found = set(buffer.sample(2000).observations[:, 0].tolist())
    assert found == set(range(25, 75))
    buffer.reset()
    assert buffer.size() == 0
    refuses(TimeoutError, "0 of the 1 items", buffer.sample, 1)


@pytest.mark.parametrize("is_dict", [False, True])
def test_normalisation_is_that_of_their_buffer(is_dict):
    envs = VecNormalize(make_vec_env(Counter, 1, env_kwargs={"is_dict": is_dict}))
    kind = sb3.DictReplayBuffer if is_dict else sb3.ReplayBuffer
    original = theirs.DictReplayBuffer if is_dict else theirs.ReplayBuffer
    made = [one(100, envs.observation_space, envs.action_space, "cpu") for one in (kind, original)]
    envs.reset()
    obs = envs.get_original_obs()
    for _ in range(100):
        _, _, done, infos = envs.step([envs.action_space.sample()])
        after, reward = envs.get_original_obs(), envs.get_original_reward()
        for one in made:
            one.add(obs, after, np.zeros((1, 2, 3)), reward, done, infos)
        obs = after

    def pairs(batch):
        seen = batch.observations["far"] if is_dict else batch.observations
        return {(*map(float, o), float(r)) for o, r in zip(seen, batch.rewards[:, 0])}

    assert pairs(made[0].sample(3000, envs)) == pairs(made[1].sample(3000, envs))


@pytest.mark.parametrize("dtype", "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split())
@pytest.mark.parametrize("is_dict", [False, True])
@pytest.mark.parametrize(
    "action_space",
    [spaces.Discrete(10), spaces.Box(-1, 1, (1,), np.float32), spaces.Box(-1, 1, (1,), np.float64)],
    ids=["discrete", "f4", "f8"],
)
def test_dtypes_are_kept(dtype, is_dict, action_space):
    box = spaces.Box(0, 100, (1,), dtype)
    space = spaces.Dict({"obs": box, "other": spaces.Box(0, 1, (1,), np.uint8)}) if is_dict else box
    kind = sb3.DictReplayBuffer if is_dict else sb3.ReplayBuffer
    buffer = kind(1, space, action_space, "cpu")
    seen = np.array([[7]], dtype)
    given = {"obs": seen, "other": np.ones((1, 1), np.uint8)} if is_dict else seen
    buffer.add(given, given, np.array([action_space.sample()]), np.ones(1), np.zeros(1), NO_INFO)
    batch = buffer.sample(4)
    found = batch.observations["obs"] if is_dict else batch.observations
    assert found.numpy().dtype == dtype and (found.numpy() == 7).all()
    wanted = np.float32 if action_space.dtype == np.float64 else action_space.dtype
    assert batch.actions.numpy().dtype == wanted


@pytest.mark.parametrize("space", [spaces.Discrete(5), spaces.MultiDiscrete([3, 4]), BOX])
def test_discrete_observations_have_their_shapes(space):
    buffer = sb3.ReplayBuffer(10, space, spaces.MultiBinary(4), "cpu", n_envs=2)
    seen = np.stack([space.sample(), space.sample()])
    buffer.add(seen, seen, np.ones((2, 4)), np.ones(2), np.zeros(2), NO_INFO * 2)
    batch = buffer.sample(3)
    original = theirs.ReplayBuffer(10, space, spaces.MultiBinary(4), "cpu", n_envs=2)
    original.add(seen, seen, np.ones((2, 4)), np.ones(2), np.zeros(2), NO_INFO * 2)
    expected = original.sample(3)
    for name in ("observations", "actions", "next_observations", "rewards", "dones"):
        one, other = getattr(batch, name), getattr(expected, name)
        assert one.shape == other.shape and one.dtype == other.dtype, name


def test_extend_and_loose_transitions():
    source = ramp(theirs.ReplayBuffer, 20)
    buffer = sb3.ReplayBuffer(20, BOX, ACTION, "cpu")
    infos = [NO_INFO] * 20
    buffer.extend(
        source.observations[::-1],
        source.next_observations[::-1],
        source.actions,
        source.rewards,
        source.dones,
        infos,
    )
    batch = buffer.sample(1000)
    assert torch.equal(batch.next_observations, batch.observations + 1)
    assert len(set(batch.observations[:, 0].tolist())) == 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_by_pickle_goes_on_alike(kind):
    buffer = collect(kind, n_envs=2)
    twin = copy.deepcopy(buffer)
    assert twin.size() == buffer.size() and len(twin.replay) == len(buffer.replay)
    for _ in range(3):
        for name in ("observations", "actions", "rewards", "dones"):
            one, other = (getattr(b.sample(64), name) for b in (buffer, twin))
            assert torch.equal(one, other), name
    obs = np.zeros((2, 2), np.float32)
    twin.add(obs, obs + 1, np.zeros((2, 6)), np.ones(2), np.zeros(2), NO_INFO * 2)
    assert len(twin.replay) == len(buffer.replay) + 2


def test_starting_a_process_with_a_buffer_is_refused():
    process = multiprocessing.get_context("spawn").Process(
        target=len, args=(collect(sb3.ReplayBuffer, 9),)
    )
    refuses(RuntimeError, "cannot be handed to another process", process.start)


def test_priorities_decide_what_is_drawn():
    buffer = ramp(sb3.PrioritizedReplayBuffer, 20, gamma=0.9, alpha=1.0, beta=1.0, epsilon=0.0)
    batch = buffer.sample(500)
    assert batch.weights.shape == (500, 1) and torch.all(batch.weights == 1)
    assert batch.discounts.shape == (500, 1)
    priorities = (batch.observations[:, :1] == 3).float()
    result = buffer.update_priorities(batch.item_keys, priorities)
    assert result == (500, 0)
    assert set(buffer.sample(100).observations[:, 0].tolist()) == {3}
    with pytest.raises(ValueError):
        buffer.update_priorities(batch.item_keys, -priorities)
    # One item now has a weight of 9, the 19 others of 1.
    raised = 1 + 8 * (batch.observations[:, :1] == 3).float()
    buffer.update_priorities(batch.item_keys, raised)
    buffer.beta = 0.5
    batch = buffer.sample(500)
    expected = torch.where(batch.observations[:, :1] == 3, 1 / 3, 1.0)
    assert torch.allclose(batch.weights, expected)
    buffer.beta = 1.0
    assert torch.allclose(buffer.sample(500).weights.min(), torch.tensor(1 / 9))


def test_samples_by_place_are_refused():
    refuses(NotImplementedError, "by keys", ramp(sb3.ReplayBuffer, 3)._get_samples, np.array([0]))


def small():
    """Makes the arguments anew for each algorithm, because an algorithm changes policy_kwargs."""
    return {"buffer_size": 1000, "learning_starts": 50, "policy_kwargs": {"net_arch": [16]}}


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("model", [DQN, SAC, TD3])
def test_algorithms_train_and_save_and_load(model, n_steps, tmp_path):
    name = "CartPole-v1" if model is DQN else "Pendulum-v1"
    learner = model(
        "MlpPolicy",
        make_vec_env(name, 2),
        replay_buffer_class=sb3.ReplayBuffer,
        replay_buffer_kwargs={"n_steps": n_steps, "gamma": 0.99},
        seed=1,
        **small(),
    )
    learner.learn(150)
    assert learner._n_updates > 0
    drawn = learner.replay_buffer.replay.stats()["sampled_items"]
    assert drawn >= learner._n_updates
    learner.save_replay_buffer(tmp_path / "replay")
    size = learner.replay_buffer.size()
    learner.replay_buffer = None
    learner.load_replay_buffer(tmp_path / "replay")
    assert learner.replay_buffer.size() == size
    learner.learn(50, reset_num_timesteps=False)
    assert learner.replay_buffer.size() >= size + 25


@pytest.mark.parametrize("n_envs", [1, 2])
def test_an_algorithm_needs_n_steps_before_it_learns(n_envs):
    def learn(learning_starts):
        learner = SAC(
            "MlpPolicy",
            make_vec_env("Pendulum-v1", n_envs),
            replay_buffer_class=sb3.ReplayBuffer,
            replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99},
            **(small() | {"learning_starts": learning_starts}),
        )
        return learner.learn(5 * n_envs)._n_updates

    assert learn(2 * n_envs) > 0
    refuses(TimeoutError, "0 of the 1 items needed", learn, 2 * n_envs - 1)


def test_the_gamma_of_the_algorithm_is_used_unless_the_buffer_has_one():
    for kind in KINDS:
        with pytest.raises(ValueError, match="gamma is missing, and n_steps is 3"):
            kind(10, BOX, ACTION, "cpu", n_steps=3)
        assert ramp(kind, 5).sample(3).discounts is None
    given = ramp(sb3.PrioritizedReplayBuffer, 5, gamma=0.5).sample(3)
    assert given.discounts.tolist() == [[0.5]] * 3

    def weights(gamma):
        learner = DQN(
            "MlpPolicy",
            "CartPole-v1",
            replay_buffer_class=sb3.PrioritizedReplayBuffer,
            gamma=gamma,
            seed=3,
            **small(),
        )
        learner.learn(80)
        return torch.cat([p.detach().flatten() for p in learner.policy.parameters()])

    assert not torch.equal(weights(0.5), weights(0.9))


def test_runs_with_one_seed_are_equal():
    def weights():
        learner = SAC(
            "MlpPolicy", "Pendulum-v1", replay_buffer_class=sb3.ReplayBuffer, seed=3, **small()
        )
        learner.learn(100)
        return torch.cat([p.detach().flatten() for p in learner.policy.parameters()])

    assert torch.equal(weights(), weights())


def test_dict_observations_and_optimised_memory_train():
    class Flat(gym.ActionWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.action_space = spaces.Box(-1, 1, (6,), np.float32)

        def action(self, action):
            return action.reshape(2, 3)

    envs = make_vec_env(lambda: Flat(Counter(is_dict=True)), 2)
    learner = SAC("MultiInputPolicy", envs, replay_buffer_class=sb3.DictReplayBuffer, **small())
    learner.learn(80)
    assert learner._n_updates > 0
    learner = SAC(
        "MlpPolicy",
        "Pendulum-v1",
        replay_buffer_class=sb3.ReplayBuffer,
        optimize_memory_usage=True,
        **small(),
    )
    learner.learn(80)
    with pytest.warns(UserWarning, match="will be truncated"):
        learner.learn(80)
    ids = learner.replay_buffer.replay.sampler().sample(1000).episode_ids
    assert len(set(ids.tolist())) == 2


def test_the_example_of_priorities_learns():
    path = ROOT / "examples" / "python" / "sb3_prioritized_dqn.py"
    if not path.exists():
        pytest.skip("examples/python is not beside the tests")
    spec = importlib.util.spec_from_file_location("sb3_prioritized_dqn", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    learner = example.make(seed=1, learning_starts=100)
    learner.learn(300)
    assert learner._n_updates > 0
    stats = learner.replay_buffer.replay.stats()
    assert stats["applied_updates"] == stats["sampled_items"] > 0


def test_importing_reprise_imports_nothing_beside():
    code = "import sys, reprise; print({'torch', 'gymnasium', 'jax', 'minari'} & set(sys.modules))"
    found = run_python(code)
    assert found.stdout.strip() == "set()"
