"""Simulators that reset their environments by themselves, each in its own way, give equal steps."""

import enum

import numpy as np
import pytest
from testing.buffers import every_item, plain_schema
from testing.files import ROOT

import reprise

DOCUMENT = ROOT / "docs" / "python.md"
LENGTHS = np.array([1, 2, 3, 5, 5, 7])
EPISODES = 4  # Of each environment.


class Simulator:
    """Counters whose observation is [environment + 100 * episode, t]; action t belongs to step t.

    Those of odd episodes are cut short by a time limit. The action of a call that resets is wrong,
    as is everything in `infos` that is not to be read.
    """

    def __init__(self):
        self.envs = np.arange(len(LENGTHS))
        self.episode = np.zeros(len(LENGTHS), int)
        self.t = np.zeros(len(LENGTHS), int)

    def observe(self):
        return np.stack([self.envs + 100 * self.episode, self.t], axis=1).astype(np.float32)

    def advance(self, which):
        """Steps some environments: final observations, terminated, truncated."""
        self.t[which] += 1
        ended = (self.t == LENGTHS) & which
        odd = self.episode % 2 == 1
        return self.observe(), ended & ~odd, ended & odd

    def reset(self, which):
        self.episode[which] += 1
        self.t[which] = 0


class NextStep(Simulator):
    """Gymnasium from 1.0, EnvPool."""

    def __init__(self):
        super().__init__()
        self.over = np.zeros(len(LENGTHS), bool)

    def step(self, action):
        resetting = self.over
        assert (action[~resetting] == self.t[~resetting]).all()
        _, terminated, truncated = self.advance(~resetting)
        self.reset(resetting)
        self.over = terminated | truncated
        return self.observe(), terminated, truncated, {}


class SameStep(Simulator):
    def step(self, action):
        assert (action == self.t).all()
        final, terminated, truncated = self.advance(np.ones(len(LENGTHS), bool))
        ended = terminated | truncated
        self.reset(ended)
        return self.observe(), terminated, truncated, self.infos(final, ended)


def objects(final, ended):
    """An array of objects, None where nothing ended."""
    rows = np.full(len(ended), None, dtype=object)
    for e in np.flatnonzero(ended):
        rows[e] = final[e]
    return rows


class GymnasiumSameStep(SameStep):
    """AutoresetMode.SAME_STEP: absent when nothing ended."""

    def infos(self, final, ended):
        return {"final_obs": objects(final, ended), "_final_obs": ended} if ended.any() else {}


class Gym26(SameStep):
    def infos(self, final, ended):
        found = {"final_observation": objects(final, ended), "_final_observation": ended}
        return found if ended.any() else {}


class OneInfoEach(SameStep):
    """gym before 0.24, Stable-Baselines3."""

    def infos(self, final, ended):
        return [{"terminal_observation": final[e]} if ended[e] else {} for e in self.envs]


class Disabled(Simulator):
    def step(self, action):
        assert (action == self.t).all()
        final, terminated, truncated = self.advance(np.ones(len(LENGTHS), bool))
        return final, terminated, truncated, {}


CONVENTIONS = [
    (NextStep, "next_step", None),
    (GymnasiumSameStep, "same_step", '{"obs": infos.get("final_obs")}'),
    (Gym26, "same_step", '{"obs": infos.get("final_observation")}'),
    (
        OneInfoEach,
        "same_step",
        '{"obs": [info.get("terminal_observation") for info in infos]}',
    ),
    (Disabled, "disabled", None),
]


def transitions(kind, autoreset, final):
    """[steps, 8] of the first episodes: now, action, reward, next, discount."""
    schema = reprise.Schema().observation("obs", np.float32, (2,))
    schema.column("action", np.int64).reward()
    buffer = reprise.ReplayBuffer(
        schema, 4096, window=reprise.Transitions(n_step=1), selectors=reprise.Uniform(), shards=1
    )
    envs = kind()
    writers = buffer.vector_writer(len(LENGTHS), autoreset=autoreset)
    writers.begin(obs=envs.observe())
    while (envs.episode < EPISODES).any():
        action = envs.t.copy()
        next_obs, terminated, truncated, infos = envs.step(action)
        end = reprise.ends(terminated, truncated)
        given = {} if final is None else {"final": eval(final, {"infos": infos})}
        writers.append(action=action, reward=action, next_obs=next_obs, end=end, **given)
        if autoreset == "disabled":
            envs.reset(end != 0)
            writers.begin(obs=envs.observe())
    items = every_item(buffer)
    columns = (items["obs"], items["action"][:, None], items["reward"][:, None])
    found = np.hstack([*columns, items["next_obs"], items[".discounts"][:, None]])
    found = found[found[:, 0] < 100 * EPISODES]
    return found[np.lexsort((found[:, 1], found[:, 0]))]


@pytest.mark.parametrize("kind, autoreset, final", CONVENTIONS[1:])
def test_all_conventions_give_the_same_transitions(kind, autoreset, final):
    if final is not None:
        assert f"final={final}" in DOCUMENT.read_text("utf-8")
    found = transitions(kind, autoreset, final)
    assert len(found) == EPISODES * LENGTHS.sum()
    np.testing.assert_array_equal(found, transitions(*CONVENTIONS[0]))
    # Nothing leads from one episode into another.
    np.testing.assert_array_equal(found[:, 0], found[:, 4])
    np.testing.assert_array_equal(found[:, 1] + 1, found[:, 5])


@pytest.mark.parametrize("given", [list, tuple, np.array])
def test_rows_of_environments_that_ended_are_converted_and_checked(given):
    buffer = reprise.ReplayBuffer(plain_schema(), 100, selectors=reprise.Uniform(), shards=1)
    writers = buffer.vector_writer(3, autoreset="same_step")
    writers.begin(state=np.zeros((3, 2)))
    step = {"action": [0, 0, 0], "reward": [0, 0, 0], "next_state": np.zeros((3, 2))}

    def final(*rows):
        objects = np.full(len(rows), None, dtype=object)
        objects[:] = rows
        return {"state": objects if given is np.array else given(rows)}

    for wrong, error in (
        (final(None, None, None), TypeError),
        (final(None, np.zeros(2), np.zeros(3)), ValueError),
        (final(None, np.zeros(2), np.zeros(2, complex)), TypeError),
        (final(None, np.zeros(2)), (TypeError, ValueError)),
    ):
        with pytest.raises(error, match="final.state"):
            writers.append(end=[0, 1, 2], final=wrong, **step)
    assert len(buffer) == 0
    writers.append(end=[0, 1, 2], final=final("not read", [1, 2], np.array([3, 4])), **step)
    ended = sorted(row.tolist() for row in every_item(buffer)["next_state"])
    assert ended == [[0, 0], [1, 2], [3, 4]]
    writers.append(end=[0, 0, 0], final={"state": None}, **step)
    assert len(buffer) == 6


def test_scalar_observations_one_by_one():
    schema = reprise.Schema().observation("x", np.int16).reward()
    buffer = reprise.ReplayBuffer(schema, 100, selectors=reprise.Uniform(), shards=1)
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(x=[0, 0])
    with pytest.raises(ValueError, match="final.x.*range of int16"):
        writers.append(reward=[0, 0], next_x=[0, 0], end=[0, 1], final={"x": [None, 40_000]})
    writers.append(reward=[0, 0], next_x=[0, 0], end=[0, 1], final={"x": [None, 7]})
    assert sorted(every_item(buffer)["next_x"].tolist()) == [0, 7]


class Declares:
    """Vector environments with a mode, as those of Gymnasium, or a wrapper of them."""

    def __init__(self, mode, as_metadata=False):
        self.num_envs = 2
        if as_metadata:
            self.metadata = {"autoreset_mode": mode}
        else:
            self.unwrapped = type("Inner", (), {"autoreset_mode": mode})


@pytest.mark.parametrize("as_metadata", [False, True])
@pytest.mark.parametrize("given", ["same_step", "next_step", "disabled"])
def test_a_mode_that_environments_contradict_is_refused(buffer, given, as_metadata):
    for declared in ("same_step", "next_step", "disabled"):
        for mode in (declared, declared.upper(), enum.Enum("Mode", {declared.upper(): 3})(3)):
            envs = Declares(mode, as_metadata)
            if given == declared:
                buffer.vector_writer(envs, autoreset=given).close()
                buffer.vector_writer(envs).close()
                continue
            with pytest.raises(
                ValueError, match=f"autoreset is '{given}', and Declares declares '{declared}'; all"
            ):
                buffer.vector_writer(envs, autoreset=given)
        buffer.vector_writer(Declares(declared).num_envs, autoreset=given).close()
    for unknown in (None, "of its own", 3):
        buffer.vector_writer(Declares(unknown, as_metadata), autoreset=given).close()
    with pytest.raises(ValueError, match="autoreset is 'nonsense'; allowed: 'same_step'"):
        buffer.vector_writer(Declares("next_step"), autoreset="nonsense")


def test_the_mode_has_no_default(buffer):
    message = (
        "autoreset is missing, and int has no autoreset_mode.*allowed: 'same_step', 'next_step'"
    )
    with pytest.raises(ValueError, match=message):
        buffer.vector_writer(2)
