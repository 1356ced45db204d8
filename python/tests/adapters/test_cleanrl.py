"""The lines that examples/python/cleanrl.md gives for CleanRL's files run, and store the right
steps."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from testing.buffers import every_item
from testing.files import ROOT
from testing.simulators import found_steps

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("torch")
from gymnasium import spaces  # noqa: E402
from test_gymnasium import AutoresetMode, expected, vector  # noqa: E402

import reprise  # noqa: E402

DOCUMENT = ROOT / "examples" / "python" / "cleanrl.md"
SAME_STEP = None if AutoresetMode is None else AutoresetMode.SAME_STEP
CALLS = 40
ARGS = {
    "buffer_size": 4096,
    "batch_size": 64,
    "gamma": 0.5,
    "seed": 1,
    "n_step": 3,
    "prioritized_replay_alpha": 0.5,
    "prioritized_replay_eps": 1e-6,
}


def code(file):
    """Returns the code blocks under the heading that names a file, compiled."""
    section = DOCUMENT.read_text("utf-8").split(f"`{file}`", 1)[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [compile(block, file, "exec") for block in blocks]


def train(make, append, envs, action_of):
    """Runs a loop like CleanRL's, with `make` and `append` in place of its buffer. Returns the
    variables."""
    obs, _ = envs.reset(seed=1)
    names = {
        "np": np,
        "reprise": reprise,
        "args": SimpleNamespace(**ARGS),
        "envs": envs,
        "obs": obs,
    }
    names |= {"device": "cpu", "beta": 0.4}
    for block in make:
        exec(block, names)
    for _ in range(CALLS):
        names["actions"] = action_of(names["obs"])
        step = envs.step(names["actions"])
        next_obs, rewards, terminations, truncations, infos = step
        names |= {"next_obs": next_obs, "rewards": rewards, "infos": infos}
        names |= {"terminations": terminations, "truncations": truncations}
        exec(append, names)
        names["obs"] = next_obs
    return names


def test_the_lines_for_dqn_and_sac_store_every_step():
    *make, append, draw = code("dqn.py")
    envs = vector(SAME_STEP)
    names = train(make, append, envs, lambda obs: envs.action_space.sample())
    assert found_steps(every_item(names["replay"]), "obs") == expected(SAME_STEP, CALLS)
    exec(draw, names)
    batch = names["batch"]
    assert set(batch["action"].unsqueeze(1).shape) == {ARGS["batch_size"], 1}
    over = batch.discounts == 0
    assert ((batch.discounts == ARGS["gamma"]) | over).all() and over.any()


class Pixels(gymnasium.Env):
    """Episodes of 7 steps. An observation is a stack of four frames; every pixel of a frame is the
    number of its step."""

    observation_space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = spaces.Discrete(100)

    def observe(self):
        times = np.maximum(np.arange(self.t - 3, self.t + 1), 0)
        return np.broadcast_to(times[:, None, None], (4, 84, 84)).astype(np.uint8)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        return self.observe(), 1.0, self.t == 7, False, {}


def test_the_lines_for_rainbow_draw_stacks_and_returns_of_three_steps():
    make, append, draw = code("rainbow_atari.py")
    options = {} if SAME_STEP is None else {"autoreset_mode": SAME_STEP}
    envs = gymnasium.vector.SyncVectorEnv([Pixels, Pixels], **options)
    names = train([make], append, envs, lambda obs: obs[:, -1, 0, 0].astype(np.int64))
    exec(draw, names)
    batch = names["batch"]
    t, steps = batch["action"].numpy(), batch.lengths.numpy()
    ages = np.arange(-3, 1)
    for name, newest in (("obs", t), ("next_obs", t + steps)):
        stacks = batch[name].numpy()[:, :, 0, 0]
        np.testing.assert_array_equal(stacks, np.maximum(newest[:, None] + ages, 0))
    assert (steps == np.minimum(ARGS["n_step"], 7 - t)).all() and len(set(t)) == 7
    discounts = np.where(t + steps == 7, 0, ARGS["gamma"] ** steps)
    np.testing.assert_allclose(batch.discounts.numpy(), discounts)
    np.testing.assert_allclose(batch.returns["reward"].numpy(), 2 - 0.5 ** (steps - 1.0))
    keys, priorities = batch.item_keys.cpu().numpy(), np.ones(ARGS["batch_size"])
    assert names["replay"].update_priorities(keys, priorities).applied == len(keys)
