"""reprise.torch.SimpleReplayBuffer has the calls of the class of this name in other projects. It
returns what was appended, without the faults of that class."""

import importlib.util
import sys

import numpy as np
import pytest
from testing.refusals import refuses

import reprise

torch = pytest.importorskip("torch")

from testing import tensordict_stand_in  # noqa: E402
from testing.torch_devices import device  # noqa: E402, F401
from reprise.torch import SimpleReplayBuffer  # noqa: E402


@pytest.fixture(autouse=True)
def a_tensordict(monkeypatch):
    if importlib.util.find_spec("tensordict") is None:
        monkeypatch.setitem(sys.modules, "tensordict", tensordict_stand_in)


class ReferenceBuffer:
    """A model of what the published class promises: the steps of each environment in order, and the
    n-step window that begins with a given step.

    The published class of 2025 breaks its promise. If a step is truncated and not done, rewards of
    the next episode are added to a window whose next observation is that of the truncation, and
    effective_n_steps counts these steps. In a full ring the newest step is marked as truncated
    during a draw: a window there has rewards of the oldest steps, and a truncation that never was.
    Next observations are stored a second time. Each of these faults would fail the tests below."""

    def __init__(self, n_steps, gamma):
        self.n_steps, self.gamma, self.steps = n_steps, gamma, []

    def extend(self, step):
        self.steps.append(step)

    def window(self, env, first):
        reward = np.float64(0)
        for k in range(self.n_steps):
            step = self.steps[first + k]
            reward += self.gamma**k * float(step["next"]["rewards"][env])
            if step["next"]["dones"][env] or step["next"]["truncations"][env]:
                break
        return reward, step, k + 1


def steps_of(n_env, count, random):
    """Yields steps of `n_env` environments. Random observations identify steps; a reset follows
    each end."""
    tensordict = importlib.import_module("tensordict")
    seen = torch.from_numpy(random.random((n_env, 3)).astype(np.float32))
    for _ in range(count):
        after = torch.from_numpy(random.random((n_env, 3)).astype(np.float32))
        truncations = torch.from_numpy(random.random(n_env) < 0.1)
        dones = torch.from_numpy(random.random(n_env) < 0.1)
        dones |= truncations & (random.random() < 0.5)  # Some simulators mark both.
        following = {"observations": after, "critic_observations": torch.cat([after, -after], 1)}
        following |= {"rewards": torch.from_numpy(random.random(n_env).astype(np.float32))}
        following |= {"dones": dones.long(), "truncations": truncations.long()}
        step = {"observations": seen, "critic_observations": torch.cat([seen, -seen], 1)}
        step |= {"actions": seen[:, :2] * 2, "next": following}
        yield tensordict.TensorDict(step, batch_size=n_env)
        reset = torch.from_numpy(random.random((n_env, 3)).astype(np.float32))
        seen = torch.where((dones | truncations)[:, None], reset, after)


@pytest.mark.parametrize("playground", [False, True])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_simple_buffer_gives_the_transitions_that_were_given(n_steps, playground, device):
    random = np.random.default_rng(6)
    n_env, size = 4, 50
    theirs = ReferenceBuffer(n_steps, 0.9)
    buffer = SimpleReplayBuffer(
        n_env, size, 3, 2, 6, n_steps, 0.9, device=device, playground_mode=playground
    )
    where = {}
    for index, step in enumerate(steps_of(n_env, 180, random)):
        buffer.extend(step.to(device))
        theirs.extend(step)
        for env in range(n_env):
            where[step["observations"][env].numpy().tobytes()] = env, index
        if index < n_steps:
            continue
        data = buffer.sample(8).cpu()
        assert data.batch_size == torch.Size([n_env * 8])
        for i in range(len(data)):
            env, first = where[data["observations"][i].numpy().tobytes()]
            # Old steps are evicted, by whole chunks, so that each environment may keep some more.
            assert index - first < 4 * size
            reward, last, count = theirs.window(env, first)
            assert data["next", "rewards"][i] == pytest.approx(reward, rel=1e-6)
            assert torch.equal(data["actions"][i], theirs.steps[first]["actions"][env])
            critic = theirs.steps[first]["critic_observations"][env]
            assert torch.equal(data["critic_observations"][i], critic)
            for name in ("observations", "critic_observations", "dones", "truncations"):
                assert torch.equal(data["next", name][i], last["next"][name][env]), name
            assert data["next", "effective_n_steps"][i] == count


def test_a_simple_buffer_draws_by_priority():
    random = np.random.default_rng(7)
    selector = reprise.Proportional(alpha=1.0, epsilon=0.0)
    buffer = SimpleReplayBuffer(2, 30, 3, 2, n_critic_obs=0, selector=selector)
    for step in steps_of(2, 20, random):
        buffer.extend(step)
    data = buffer.sample(16)
    assert "critic_observations" not in data
    assert buffer.update_priorities(data["item_keys"], torch.zeros(32)).applied == 32
    left = buffer.sample(16)
    assert not set(left["item_keys"].tolist()) & set(data["item_keys"].tolist())
    assert torch.all(left["weights"] == 1.0)


def test_each_part_of_a_large_batch_has_steps_of_all_ages(device):
    """Learners draw one large batch for several updates, and cut it."""
    buffers = [SimpleReplayBuffer(2, 1000, 3, 2, device=device, seed=3) for _ in range(2)]
    for i, step in enumerate(steps_of(2, 200, np.random.default_rng(7))):
        step["next"]["rewards"][:] = i
        for buffer in buffers:
            buffer.extend(step.to(device))
    first, again = (buffer.sample(1024).cpu()["next", "rewards"] for buffer in buffers)
    assert torch.equal(first, again)
    for part in first.reshape(8, -1):
        assert part.min() < 20 and part.max() > 180


@pytest.mark.parametrize(
    "n_critic_obs, asymmetric_obs, playground",
    [(0, None, False), (6, None, False), (6, False, False), (6, True, True), (6, False, True)],
)
def test_batches_have_critic_observations_if_these_are_stored(
    n_critic_obs, asymmetric_obs, playground
):
    random = np.random.default_rng(8)
    options = {"asymmetric_obs": asymmetric_obs, "playground_mode": playground}
    buffer = SimpleReplayBuffer(2, 30, 3, 2, n_critic_obs, **options)
    given = {}
    for step in steps_of(2, 20, random):
        buffer.extend(step)
        for row in step:
            given[row["observations"].numpy().tobytes()] = row
    stored = n_critic_obs != 0 if asymmetric_obs is None else asymmetric_obs
    widths = {field.name: field.shape for field in buffer.replay.schema.fields}
    assert widths.get("critic_observations") == (((3,) if playground else (6,)) if stored else None)
    data = buffer.sample(8)
    for part in (data, data["next"]):
        assert ("critic_observations" in part.keys()) == stored
    for row in data if stored else ():
        of = given[row["observations"].numpy().tobytes()]
        for own, other in ((row, of), (row["next"], of["next"])):
            assert torch.equal(own["critic_observations"], other["critic_observations"])


@pytest.mark.parametrize("n_critic_obs, playground", [(0, False), (3, True)])
def test_critic_observations_without_a_width_are_refused(n_critic_obs, playground):
    options = {"asymmetric_obs": True, "playground_mode": playground}
    words = f"n_critic_obs is {n_critic_obs}; allowed with critic observations: above"
    refuses(ValueError, words, SimpleReplayBuffer, 2, 30, 3, 2, n_critic_obs, **options)


def test_a_step_of_all_environments_is_copied_to_the_host_at_once(monkeypatch, device):
    buffer = SimpleReplayBuffer(4, 30, 3, 2, 6, device=device)
    steps = [step.to(device) for step in steps_of(4, 10, np.random.default_rng(8))]
    copies = []
    for name in ("cpu", "numpy", "item", "tolist", "__array__", "__bool__"):

        def counted(tensor, *given, name=name, call=getattr(torch.Tensor, name), **named):
            copies.append(name)
            return call(tensor, *given, **named)

        monkeypatch.setattr(torch.Tensor, name, counted)
    for step in steps:
        buffer.extend(step)
        assert copies == ["cpu", "numpy"]
        copies.clear()


def test_a_simple_buffer_takes_less_memory_than_one_with_next_observations():
    envs, steps, observed, acted = 64, 1024, 100, 20
    buffer = SimpleReplayBuffer(envs, steps, observed, acted)
    theirs = 4 * (2 * observed + acted + 1) + 2 * 8
    assert buffer._mirror.nbytes <= 0.62 * theirs * envs * steps


def test_saved_steps_are_loaded_and_more_can_be_appended(tmp_path):
    random = np.random.default_rng(8)
    first, second = (SimpleReplayBuffer(2, 50, 3, 2) for _ in range(2))
    steps = list(steps_of(2, 40, random))
    for step in steps[:20]:
        first.extend(step)
        second.extend(step)
    first.save(tmp_path)
    for step in steps[20:30]:
        second.extend(step)
    second.load(tmp_path)
    assert len(second.replay) == len(first.replay) > 0
    stored = {row["observations"].numpy().tobytes() for step in steps[:20] for row in step}
    drawn = {row["observations"].numpy().tobytes() for row in second.sample(100)}
    assert drawn <= stored
    for step in steps[20:]:
        second.extend(step)
    assert len(second.replay) > len(first.replay)
    refuses(reprise.CheckpointError, "cannot open", second.load, tmp_path / "none")
    assert len(second.sample(1)) == 2
