"""Simulators that reset environments by themselves: whatever their mode, equal steps are stored."""

import enum

import numpy as np
import pytest
from testing.buffers import every_item, plain_buffer
from testing.files import ROOT
from testing.guests import attached_guest
from testing.refusals import refuses
from testing.simulators import Counters, expected_steps, found_steps
from testing.threads import wait_until

import reprise

DOCUMENT = ROOT / "docs" / "guide" / "environments.md"
LENGTHS = [1, 2, 3, 5, 5, 7]
CALLS = 40


def objects(final, ended):
    """An array of objects with final observations, and None for environments that did not end."""
    rows = np.full(len(ended), None, dtype=object)
    for e in np.flatnonzero(ended):
        rows[e] = final[e]
    return rows


def gymnasium(final, ended):
    return {"final_obs": objects(final, ended), "_final_obs": ended} if ended.any() else {}


def gym26(final, ended):
    found = {"final_observation": objects(final, ended), "_final_observation": ended}
    return found if ended.any() else {}


def one_info_each(final, ended):
    """The infos of gym before 0.24 and of Stable-Baselines3."""
    return [{"terminal_observation": row} if over else {} for row, over in zip(final, ended)]


# For each convention: the mode, the infos of a step, and the expression for `final` that
# docs/guide/environments.md gives.
CONVENTIONS = [
    ("next_step", None, None),  # Gymnasium from 1.0, EnvPool.
    ("same_step", gymnasium, '{"obs": infos.get("final_obs")}'),
    ("same_step", gym26, '{"obs": infos.get("final_observation")}'),
    ("same_step", one_info_each, '{"obs": [info.get("terminal_observation") for info in infos]}'),
    ("disabled", None, None),
]


@pytest.mark.parametrize("attached", [False, True], ids=["in the process", "guest"])
@pytest.mark.parametrize("autoreset, infos_of, final", CONVENTIONS)
def test_all_conventions_give_the_steps_of_the_environments(autoreset, infos_of, final, attached):
    schema = (
        reprise.Schema().observation("obs", np.float32, (2,)).column("action", np.int64).reward()
    )
    buffer = reprise.ReplayBuffer(schema, 4096, selectors=reprise.Uniform(), shards=1)
    envs = Counters(LENGTHS, autoreset, odd_are_cut=True)
    with attached_guest(buffer) as guest:
        writers = (guest if attached else buffer).vector_writer(len(LENGTHS), autoreset=autoreset)
        writers.begin(obs=envs.observe())
        for _ in range(CALLS):
            # The call that resets an environment gets a wrong action, which must not be stored.
            action = np.where(envs.over & (autoreset == "next_step"), -1, envs.t)
            after, terminated, truncated, last = envs.step()
            given = {}
            if final is not None:
                assert f"final={final}" in DOCUMENT.read_text("utf-8")
                given["final"] = eval(final, {"infos": infos_of(last, terminated | truncated)})
            end = reprise.ends(terminated, truncated)
            writers.append(action=action, reward=action, next_obs=after, end=end, **given)
            if autoreset == "disabled":
                envs.reset()
                # Only rows of environments that begin an episode are read.
                writers.begin(obs=np.where((end != 0)[:, None], envs.observe(), -1))
    items = every_item(buffer)
    calls = [CALLS] * len(LENGTHS)
    assert found_steps(items, "obs") == expected_steps(LENGTHS, calls, autoreset, odd_are_cut=True)
    np.testing.assert_array_equal(items["action"], items["obs"][:, 1])
    np.testing.assert_array_equal(items["reward"], items["obs"][:, 1])
    # No step leads from one episode into another.
    np.testing.assert_array_equal(items["obs"][:, 0], items["next_obs"][:, 0])


@pytest.mark.parametrize("given", [list, tuple, np.array])
def test_final_rows_of_ended_environments_alone_are_converted_and_checked(given):
    buffer = plain_buffer(selectors=reprise.Uniform(), shards=1)
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
        refuses(error, "final.state", writers.append, end=[0, 1, 2], final=wrong, **step)
    assert len(buffer) == 0
    writers.append(end=[0, 1, 2], final=final("not read", [1, 2], np.array([3, 4])), **step)
    ended = sorted(row.tolist() for row in every_item(buffer)["next_state"])
    assert ended == [[0, 0], [1, 2], [3, 4]]
    writers.append(end=[0, 0, 0], final={"state": None}, **step)
    assert len(buffer) == 6


def test_final_scalars_may_be_given_one_by_one():
    schema = reprise.Schema().observation("x", np.int16).reward()
    buffer = reprise.ReplayBuffer(schema, 100, selectors=reprise.Uniform(), shards=1)
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(x=[0, 0])
    with pytest.raises(ValueError, match="final.x.*range of int16"):
        writers.append(reward=[0, 0], next_x=[0, 0], end=[0, 1], final={"x": [None, 40_000]})
    writers.append(reward=[0, 0], next_x=[0, 0], end=[0, 1], final={"x": [None, 7]})
    assert sorted(every_item(buffer)["next_x"].tolist()) == [0, 7]


class Declares:
    """Vector environments that declare a mode of auto-reset, in `metadata` as Gymnasium's do, or in
    the environments that a wrapper calls `unwrapped`."""

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
            said = f"autoreset is '{given}', and Declares declares '{declared}'; all"
            refuses(ValueError, said, buffer.vector_writer, envs, autoreset=given)
        buffer.vector_writer(Declares(declared).num_envs, autoreset=given).close()
    for unknown in (None, "of its own", 3):
        buffer.vector_writer(Declares(unknown, as_metadata), autoreset=given).close()
    with pytest.raises(ValueError, match="autoreset is 'nonsense'; allowed: 'same_step'"):
        buffer.vector_writer(Declares("next_step"), autoreset="nonsense")


def test_a_number_of_environments_needs_a_mode(buffer):
    message = (
        "autoreset is missing, and int has no autoreset_mode.*allowed: 'same_step', 'next_step'"
    )
    refuses(ValueError, message, buffer.vector_writer, 2)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_a_reset_in_the_middle_of_an_episode_begins_another_episode(buffer, autoreset):
    with attached_guest(buffer) as guest:
        for replay in (buffer, guest):
            with replay.vector_writer(2, autoreset=autoreset) as writers:
                step = {"action": [0, 0], "reward": [0, 0], "end": [0, 0]}
                writers.begin(state=np.zeros((2, 2)))
                writers.append(next_state=np.ones((2, 2)), **step)
                writers.begin(env_ids=[1], state=[[500, 500]])
                assert [writer.episode_steps for writer in writers] == [1, 0]
                writers.append(next_state=[[2, 2], [501, 501]], **step)
        wait_until(lambda: len(buffer) == 8)
    items = every_item(buffer)
    assert (items[".discounts"] != 0).all()
    found = sorted(zip(items["state"][:, 0].tolist(), items["next_state"][:, 0].tolist()))
    assert found == [(0, 1)] * 4 + [(1, 2)] * 2 + [(500, 501)] * 2


@pytest.mark.parametrize("call", ["append", "append_transitions"])
def test_values_of_a_reset_that_are_not_stored_are_not_checked(call):
    schema = reprise.Schema().observation("obs", np.float32).reward().discount("gamma")
    buffer = reprise.ReplayBuffer(schema.require_finite(), 100, selectors=reprise.Uniform())
    writers = buffer.vector_writer(2, autoreset="next_step")
    if call == "append":
        writers.begin(obs=[0, 10])

    def append(now, after, reward, gamma, end=(0, 0)):
        given = {"obs": now} if call == "append_transitions" else {}
        rows = {"next_obs": after, "reward": reward, "gamma": gamma, "end": end}
        getattr(writers, call)(**rows, **given)

    append([0, 10], [1, 11], [0, 0], [1, 1], end=[1, 0])
    reset = {"now": [1, 11], "after": [5, 12]}
    nan = np.nan
    # The row of the environment that goes on is checked, and nothing is stored before the check.
    refuses(
        ValueError, "'reward' is nan .* of row 1", append, **reset, reward=[nan, nan], gamma=[1, 1]
    )
    refuses(ValueError, "'gamma' is nan", append, **reset, reward=[nan, 0], gamma=[nan, nan])
    assert buffer.stats()["committed_steps"] == 2
    if call == "append":
        refuses(ValueError, "'next_obs' is nan", append, [], [nan, 12], [0, 0], [1, 1])
    append(**reset, reward=[nan, 0], gamma=[nan, 1])
    refuses(ValueError, "'reward' is nan .* of row 0", append, [5, 12], [6, 13], [nan, 0], [1, 1])
    append([5, 12], [6, 13], [7, 0], [1, 1])
    writers.close()
    items = every_item(buffer)
    assert sorted(items["obs"].tolist()) == [0, 5, 10, 11, 12]
    assert items["reward"][items["obs"] == 5] == 7
