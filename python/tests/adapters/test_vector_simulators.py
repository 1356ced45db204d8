"""replay.vector_writer(envs) with simulators in C++, which step whole vectors of environments."""

import numpy as np
import pytest
from testing.buffers import every_item
from testing.refusals import refuses

import reprise
from reprise._spaces import autoreset_mode


def total(seen):
    """Reduces each environment's observation to a number, [E], so that stored steps can be
    compared."""
    return (1000 * np.asarray(seen, np.float64).reshape(len(seen), -1).sum(1)).astype(np.int64)


def check(envs, calls):
    """Checks that each step of random actions is stored, and that a reset stores none."""
    schema = reprise.Schema().observation("obs", np.int64).column("action", np.int64).reward()
    replay = reprise.ReplayBuffer(schema, 100_000, selectors=reprise.Uniform(), shards=1)
    writers = replay.vector_writer(envs)
    writers.begin(obs=total(envs.reset()[0]))
    random = np.random.default_rng(1)
    ended = resets = 0
    over = np.zeros(len(writers), bool)
    for _ in range(calls):
        action = random.integers(2, size=len(writers))
        seen, reward, terminated, truncated, _ = envs.step(action)
        end = reprise.ends(np.asarray(terminated, bool), np.asarray(truncated, bool))
        resets += over.sum()
        over = (end != 0) & ~over
        ended += over.sum()
        writers.append(action=action, reward=reward, next_obs=total(seen), end=end)
    assert ended > 3
    assert replay.stats()["committed_steps"] == calls * len(writers) - resets


def test_envpool():
    envpool = pytest.importorskip("envpool")
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=4, seed=1)
    check(envs, 300)


def test_the_asynchronous_mode_of_envpool():
    """Environments may answer in any order, from the first call on."""
    envpool = pytest.importorskip("envpool")
    size, part = 6, 2
    schema = reprise.Schema().observation("obs", np.float32, (4,)).column("action", np.int64)
    schema.column("env", np.int64)
    replay = reprise.ReplayBuffer(schema, 100_000, selectors=reprise.Uniform(), shards=1)
    envs = envpool.make_gymnasium("CartPole-v1", num_envs=size, batch_size=part, seed=1)
    writers = replay.vector_writer(envs)
    random = np.random.default_rng(1)
    action = np.zeros(size, np.int64)
    # For each environment, its last observation, and whether that observation ended the episode.
    last, over = {}, {}
    steps = set()
    ended = 0
    envs.async_reset()
    writers.begin()
    for _ in range(900):
        seen, reward, terminated, truncated, info = envs.recv()
        ids = info["env_id"]
        end = reprise.ends(np.asarray(terminated, bool), np.asarray(truncated, bool))
        writers.append(env_ids=ids, action=action[ids], env=ids, next_obs=seen, end=end)
        for row, env in enumerate(ids.tolist()):
            if not over.get(env, True):
                steps.add((env, int(action[env]), *last[env], *seen[row].tolist()))
            over[env] = not over.get(env, True) and end[row] != 0
            ended += over[env]
            last[env] = tuple(seen[row].tolist())
        action[ids] = random.integers(2, size=len(ids))
        envs.send(action[ids], ids)
    assert ended > 20
    items = every_item(replay)
    columns = [items["env"], items["action"], *items["obs"].T, *items["next_obs"].T]
    assert set(zip(*(column.tolist() for column in columns))) == steps
    assert len(replay) == len(steps)


def test_the_vector_environment_of_ale():
    ale = pytest.importorskip("ale_py.vector_env")
    envs = ale.AtariVectorEnv(
        "pong", num_envs=2, img_height=16, img_width=16, max_num_frames_per_episode=400
    )
    check(envs, 300)


def test_two_vector_environments_of_ale_have_their_own_modes():
    ale = pytest.importorskip("ale_py.vector_env")
    gymnasium = pytest.importorskip("gymnasium")
    kinds = ("SAME_STEP", "NEXT_STEP")
    envs = [
        ale.AtariVectorEnv(
            "pong",
            num_envs=2,
            img_height=16,
            img_width=16,
            autoreset_mode=gymnasium.vector.AutoresetMode[kind],
        )
        for kind in kinds
    ]
    assert [autoreset_mode(one, None) for one in envs] == ["same_step", "next_step"]


def test_metadata_inherited_from_gymnasiums_base_class_is_not_read_as_a_mode(monkeypatch):
    vector = pytest.importorskip("gymnasium").vector

    class Plain(vector.VectorEnv):
        num_envs = 2

    class Telling(Plain):
        metadata = {"autoreset_mode": "next_step"}

    monkeypatch.setitem(vector.VectorEnv.metadata, "autoreset_mode", "same_step")
    refuses(ValueError, "autoreset is missing, and Plain has no", autoreset_mode, Plain(), None)
    assert autoreset_mode(Telling(), None) == "next_step"
    one = Telling()
    one.autoreset_mode = "disabled"
    assert autoreset_mode(vector.VectorWrapper(one), None) == "disabled"
