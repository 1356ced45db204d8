"""Schema.from_spaces and replay.vector_writer(envs) with Gymnasium itself, in versions before and
after 1.0."""

import numpy as np
import pytest
from testing.buffers import every_item
from testing.refusals import refuses
from testing.simulators import expected_steps, found_steps

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402

import reprise  # noqa: E402

AutoresetMode = getattr(gymnasium.vector, "AutoresetMode", None)
BEFORE_1 = int(gymnasium.__version__.split(".")[0]) < 1
LENGTHS = [1, 2, 3, 5, 7]


class Counter(gymnasium.Env):
    """The observation is [environment + 100 * episode, t]. Episodes have LENGTHS[environment]
    steps, and every second episode is truncated."""

    def __init__(self, number, is_dict=False):
        box = spaces.Box(-1, 10_000, (2,), np.float32)
        self.is_dict = is_dict
        inner = spaces.Dict({"left": box, "right": spaces.Discrete(10_000)})
        self.observation_space = spaces.Dict({"state": box, "eye": inner}) if is_dict else box
        self.action_space = spaces.Discrete(4)
        self.number, self.episode, self.t = number, -1, 0

    def observe(self):
        seen = np.array([self.number + 100 * self.episode, self.t], np.float32)
        if not self.is_dict:
            return seen
        return {"state": seen, "eye": {"left": seen + 1, "right": self.t}}

    def reset(self, *, seed=None, options=None):
        self.episode, self.t = self.episode + 1, 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        over = self.t == LENGTHS[self.number]
        cut = over and self.episode % 2 == 1
        return self.observe(), float(self.t), over and not cut, cut, {}


def vector(mode, is_dict=False):
    makers = [lambda number=number: Counter(number, is_dict) for number in range(len(LENGTHS))]
    options = {} if mode is None or AutoresetMode is None else {"autoreset_mode": mode}
    return gymnasium.vector.SyncVectorEnv(makers, **options)


def expected(mode, calls=40):
    autoreset = "" if mode is None else mode.name.lower()
    return expected_steps(LENGTHS, [calls] * len(LENGTHS), autoreset, odd_are_cut=True)


MODES = (
    [pytest.param(None, id="before 1.0")]
    if AutoresetMode is None
    else [pytest.param(mode, id=mode.name) for mode in AutoresetMode]
)


def run(envs, calls, named_mode=None, name="obs"):
    schema = reprise.Schema.from_spaces(envs.single_observation_space, envs.single_action_space)
    replay = reprise.ReplayBuffer(schema, 4096, selectors=reprise.Uniform(), shards=1)
    given = {} if named_mode is None else {"autoreset": named_mode}
    writers = replay.vector_writer(envs, **given)
    assert len(writers) == len(LENGTHS)
    metadata = getattr(envs, "metadata", None) or {}
    mode = getattr(metadata.get("autoreset_mode"), "name", None)
    obs, _ = envs.reset(seed=1)
    writers.begin(**reprise.named(name, obs))
    for _ in range(calls):
        action = envs.action_space.sample()
        after, reward, terminated, truncated, infos = envs.step(action)
        final = (
            {}
            if mode in ("NEXT_STEP", "DISABLED")
            else {"final": reprise.final_observations(name, infos)}
        )
        end = reprise.ends(terminated, truncated)
        writers.append(
            action=action,
            reward=reward,
            **reprise.named(name, after, prefix="next_"),
            end=end,
            **final,
        )
        if mode == "DISABLED" and end.any():
            first, _ = envs.reset(options={"reset_mask": end != 0})
            writers.begin(**reprise.named(name, first))
    return replay


@pytest.mark.parametrize("mode", MODES)
def test_steps_around_resets_are_those_of_the_environments(mode):
    replay = run(vector(mode), 40, None if mode is not None else "same_step")
    assert found_steps(every_item(replay), "obs") == expected(mode)


@pytest.mark.parametrize("mode", MODES)
def test_dict_observations(mode):
    replay = run(vector(mode, True), 40, None if mode is not None else "same_step", name="")
    items = every_item(replay)
    assert {"state", "eye/left", "eye/right", "next_eye/right"} <= set(items)
    for prefix in ("", "next_"):
        state = items[prefix + "state"]
        assert (items[prefix + "eye/left"] == state + 1).all()
        assert (items[prefix + "eye/right"] == state[:, 1]).all()
    steps = sorted(
        (int(a[0]), int(a[1]), int(b[1])) for a, b in zip(items["state"], items["next_state"])
    )
    assert steps == [step[:3] for step in expected(mode)]


def test_the_mode_is_read_from_the_environments_or_given(buffer):
    envs = vector(None)
    if BEFORE_1 or AutoresetMode is None:
        with pytest.raises(ValueError, match="autoreset is missing, and SyncVectorEnv has no"):
            buffer.vector_writer(envs)
        assert len(buffer.vector_writer(envs, autoreset="same_step")) == len(LENGTHS)
        return
    assert len(buffer.vector_writer(envs)) == len(LENGTHS)
    for mode in AutoresetMode:
        for given in (mode, mode.name, mode.value, mode.name.lower()):
            writers = buffer.vector_writer(2, autoreset=given)
            writers.begin(state=np.zeros((2, 2)))
            step = {"action": [0, 0], "reward": [0, 0], "next_state": np.zeros((2, 2))}
            if mode is AutoresetMode.SAME_STEP:
                refuses(ValueError, "final is missing", writers.append, end=[1, 0], **step)
                continue
            writers.append(end=[1, 0], **step)
            if mode is AutoresetMode.DISABLED:
                refuses(RuntimeError, "outside an episode", writers.append, end=[0, 0], **step)
            else:
                writers.append(end=[0, 0], **step)
            writers.close()


def test_a_wrapper_tells_the_mode_of_its_environments(buffer):
    if AutoresetMode is None:
        pytest.skip("Gymnasium has no modes before 1.1")
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector(AutoresetMode.DISABLED))
    assert len(buffer.vector_writer(envs)) == len(LENGTHS)


SPACES = {
    "box": (spaces.Box(0, 1, (3, 2), np.float32), [("obs", "float32", (3, 2))]),
    "scalar": (spaces.Box(0, 1, (), np.float64), [("obs", "float64", ())]),
    "frames": (spaces.Box(0, 255, (4, 84, 84), np.uint8), [("obs", "uint8", (4, 84, 84))]),
    "discrete": (spaces.Discrete(5), [("obs", "int64", ())]),
    "multi_discrete": (spaces.MultiDiscrete([[2, 3], [4, 5]]), [("obs", "int64", (2, 2))]),
    "multi_binary": (spaces.MultiBinary(4), [("obs", "int8", (4,))]),
    "dict": (
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0, 1, (2,), np.float32)}),
        [("b", "int64", ()), ("a", "float32", (2,))],
    ),
    "tuple": (
        spaces.Tuple((spaces.Discrete(2), spaces.Dict({"x": spaces.MultiBinary(3)}))),
        [("obs/0", "int64", ()), ("obs/1/x", "int8", (3,))],
    ),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_space_has_a_field_for_each_array(name):
    space, fields = SPACES[name]
    schema = reprise.Schema.from_spaces(space, spaces.Discrete(3))
    seen = [f for f in schema.fields if f.role is reprise.Role.OBSERVATION]
    assert sorted((f.name, str(f.dtype), f.shape) for f in seen) == sorted(fields)
    assert [f.name for f in schema.fields[len(seen) :]] == ["action", "reward"]
    # Samples of the spaces are stored unchanged, under the names of the fields.
    replay = reprise.ReplayBuffer(schema, 100, selectors=reprise.Uniform())
    writer = replay.writer()
    top = "" if isinstance(space, spaces.Dict) else "obs"
    first, after = reprise.named(top, space.sample()), space.sample()
    writer.begin_episode(**first)
    writer.append(action=1, reward=0.0, **reprise.named(top, after, prefix="next_"))
    batch = replay.sampler().sample(1)
    for name, value in first.items():
        np.testing.assert_array_equal(batch[name][0], value)
    for name, value in reprise.named(top, after, prefix="next_").items():
        np.testing.assert_array_equal(batch[name][0], value)


def test_action_spaces_and_other_names():
    action = spaces.Dict({"move": spaces.Box(-1, 1, (2,), np.float32), "jump": spaces.Discrete(2)})
    schema = reprise.Schema.from_spaces(
        spaces.Discrete(3), action, observation="state", action="a", reward="r"
    )
    assert {f.name for f in schema.fields} == {"state", "a/move", "a/jump", "r"}
    assert {f.name for f in schema.fields if f.role is reprise.Role.COLUMN} == {"a/move", "a/jump"}


def test_spaces_without_arrays_are_refused():
    with pytest.raises(TypeError, match="observation_space|obs is Text.*allowed: a Dict or Tuple"):
        reprise.Schema.from_spaces(spaces.Text(5), spaces.Discrete(2))
    nested = spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))})
    with pytest.raises(TypeError, match="a is Sequence.*MultiBinary"):
        reprise.Schema.from_spaces(nested, spaces.Discrete(2))
    refuses(TypeError, "action is None", reprise.Schema.from_spaces, spaces.Discrete(2), None)
    with pytest.raises(ValueError, match="reward"):
        reprise.Schema.from_spaces(spaces.Dict({"reward": spaces.Discrete(2)}), spaces.Discrete(2))


def test_final_observations_finds_them_in_every_kind_of_infos():
    assert reprise.final_observations("obs", {}) is None
    assert reprise.final_observations("obs", [{}, {}]) is None
    rows = np.array([None, np.ones(2)], dtype=object)
    for key in ("final_obs", "final_observation"):
        made = reprise.final_observations("obs", {key: rows})
        assert list(made) == ["obs"] and made["obs"] is rows
    made = reprise.final_observations("", [{}, {"terminal_observation": {"a": 1, "b": {"c": 2}}}])
    assert made == {"a": [None, 1], "b/c": [None, 2]}
