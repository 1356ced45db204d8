"""reprise.skrl compared with skrl's own memory, and in one of skrl's agents."""

import numpy as np
import pytest
from testing.refusals import refuses

for needed in ("torch", "gymnasium", "skrl"):
    pytest.importorskip(needed)

import gymnasium
import torch
from skrl.memories.torch import RandomMemory

from reprise.skrl import ReplayMemory

SIZES = {"observations": 3, "next_observations": 3, "actions": 1, "rewards": 1, "terminated": 1}
NAMES = list(SIZES)


def created(memory):
    for name, size in SIZES.items():
        dtype = torch.bool if name == "terminated" else torch.float32
        assert memory.create_tensor(name, size=size, dtype=dtype)
        assert not memory.create_tensor(name, size=size, dtype=dtype)
    assert not memory.create_tensor("states", size=None)
    return memory


def steps(count, environments):
    """Yields steps. Step t of environment e has the number 1000 e + t. Every tenth step ends an
    episode; every other end is a time limit, of which skrl does not tell the memory."""
    for t in range(count):
        numbers = (1000.0 * torch.arange(environments) + t).reshape(-1, 1)
        last = t % 10 == 9
        yield {
            "observations": numbers.repeat(1, 3),
            "next_observations": numbers.repeat(1, 3) + (0.5 if last else 1),
            "actions": -numbers,
            "rewards": numbers / 2,
            "terminated": torch.full((environments, 1), last and t % 20 == 19),
            "infos": None,
            "states": None,
        }


@pytest.mark.parametrize("environments", [1, 4])
def test_batches_equal_those_of_skrls_memory(environments):
    ours = created(ReplayMemory(memory_size=50, num_envs=environments, device="cpu"))
    theirs = created(RandomMemory(memory_size=50, num_envs=environments, device="cpu"))
    for step in steps(50, environments):
        for memory in (ours, theirs):
            memory.add_samples(**step)
    assert len(ours) == len(theirs) == 50 * environments
    assert ours.get_tensor_names() == theirs.get_tensor_names()
    # So large a batch lacks one of the 200 rows with a chance of e^-100.
    (batch,) = ours.sample([*NAMES, "states"], batch_size=20_000)
    (whole,) = theirs.sample_all([*NAMES, "states"])
    assert batch[-1] is None and whole[-1] is None
    place = {float(number): i for i, number in enumerate(whole[0][:, 0])}
    rows = [place[float(number)] for number in batch[0][:, 0]]
    for mine, all_ in zip(batch[:-1], whole[:-1]):
        assert mine.dtype == all_.dtype and torch.equal(mine, all_[rows])
    assert len(set(rows)) == 50 * environments
    drawn = ours.replay.sampler(seed=1).sample(100)
    assert ((drawn.discounts == 0) == drawn["terminated"][:, 0]).all()


def test_the_latest_transitions_stay():
    memory = created(ReplayMemory(memory_size=50, device="cpu"))
    for step in steps(175, 1):
        memory.add_samples(**step)
    ((observations,),) = memory.sample(["observations"], batch_size=2000)
    assert sorted(set(observations[:, 0].tolist())) == list(range(125, 175))


def test_parts_of_a_batch():
    memory = created(ReplayMemory(memory_size=50, device="cpu"))
    rows = list(steps(30, 1))
    memory.add_samples(**{name: torch.cat([row[name] for row in rows]) for name in NAMES})
    assert len(memory) == 30
    parts = memory.sample(["observations"], batch_size=20, mini_batches=3)
    assert [len(part[0]) for part in parts] == [7, 7, 6]
    parts = memory.sample(["observations"], batch_size=2, mini_batches=4)
    assert [tuple(part[0].shape) for part in parts] == [(1, 3), (1, 3), (0, 3), (0, 3)]
    memory.reset()
    assert len(memory) == 0
    with pytest.raises(TimeoutError):
        memory.sample(NAMES, batch_size=1)


def test_observations_are_stored_once_and_may_be_compressed():
    memory = ReplayMemory(memory_size=100, device="cpu", compress=True)
    for name in ("observations", "next_observations"):
        memory.create_tensor(name, size=(8, 80), dtype=torch.uint8, keep_dimensions=True)
    for t in range(20):
        frames = torch.full((2, 1, 8, 80), t, dtype=torch.uint8) + torch.tensor([[[[0]]], [[[1]]]])
        memory.add_samples(observations=frames[0], next_observations=frames[1])
    assert memory.replay.schema.compressed == ("observations",)
    assert memory.replay.schema.step_bytes < 2 * 8 * 80
    ((now, after),) = memory.sample(["observations", "next_observations"], batch_size=9)
    assert now.shape == (9, 8, 80) and torch.equal(now + 1, after)


def test_a_checkpoint(tmp_path):
    memory = created(ReplayMemory(memory_size=50, num_envs=2, device="cpu"))
    refuses(ValueError, "save: it is empty", memory.save, tmp_path)
    for step in steps(30, 2):
        memory.add_samples(**step)
    memory.save(tmp_path)
    again = created(ReplayMemory(memory_size=50, num_envs=2, device="cpu"))
    again.load(tmp_path)
    again.add_samples(**next(steps(1, 2)))
    assert len(again) == 62
    other = ReplayMemory(memory_size=50)
    other.create_tensor("observations", size=3)
    said = "load: the set of tensors is .*; allowed: .'observations'"
    refuses(ValueError, said, other.load, tmp_path)


def test_a_checkpoint_of_another_memory_is_refused_and_changes_nothing(tmp_path):
    step = next(steps(1, 2))
    memory = created(ReplayMemory(memory_size=50, num_envs=2, device="cpu"))
    memory.add_samples(**step)
    wide = {name: size + (name == "actions") for name, size in SIZES.items()}
    for place, (size, environments, widths, message) in enumerate(
        [
            (50, 2, wide, r"the set of tensors is .*\(2,\).*; allowed: "),
            (50, 1, SIZES, "num_envs is 1; allowed: 2"),
            (25, 2, SIZES, "memory_size is 25; allowed: 50"),
        ]
    ):
        other = ReplayMemory(memory_size=size, num_envs=environments, device="cpu")
        for name, width in widths.items():
            dtype = torch.bool if name == "terminated" else torch.float32
            other.create_tensor(name, size=width, dtype=dtype)
        other.add_samples(
            **{name: torch.zeros(environments, width).bool() for name, width in widths.items()}
        )
        other.save(tmp_path / str(place))
        refuses(ValueError, "load: " + message, memory.load, tmp_path / str(place))
        memory.add_samples(**step)
        assert len(memory) == 2 * (place + 2)


def test_refusals():
    memory = created(ReplayMemory(memory_size=50, num_envs=2, device="cpu"))
    step = next(steps(1, 2))
    with pytest.raises(ValueError, match="create_tensor: 'rewards' is .*; allowed: "):
        memory.create_tensor("rewards", size=2)
    with pytest.raises(ValueError, match="add_samples: .'actions'. missing; allowed: all created"):
        memory.add_samples(**step | {"actions": None})
    said = r"add_samples: the tensors have \[1, 2\] rows; allowed: 2"
    refuses(ValueError, said, memory.add_samples, **step | {"actions": torch.zeros(1, 1)})
    assert memory.replay is None and memory.create_tensor("early", size=1)
    step["early"] = torch.zeros(2, 1)
    memory.add_samples(**step)
    with pytest.raises(ValueError, match="create_tensor: 'late' is .*before the first"):
        memory.create_tensor("late", size=2)
    with pytest.raises(ValueError, match="sample: sequence_length is 2; allowed: 1"):
        memory.sample(NAMES, batch_size=2, sequence_length=2)
    refuses(NotImplementedError, "use `sample`, or `replay`", memory.sample_all, NAMES)


def test_an_agent_learns_from_it(tmp_path):
    from skrl.agents.torch.dqn import DQN, DQN_CFG
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.models.torch import DeterministicMixin, Model
    from skrl.trainers.torch import SequentialTrainer

    class Values(DeterministicMixin, Model):
        def __init__(self, env):
            Model.__init__(
                self,
                observation_space=env.observation_space,
                action_space=env.action_space,
                device="cpu",
            )
            DeterministicMixin.__init__(self)
            self.net = torch.nn.Linear(4, 2)

        def compute(self, inputs, role):
            return self.net(inputs["observations"]), {}

    env = wrap_env(gymnasium.make("CartPole-v1"), verbose=False)
    env._device = env.device
    models = {"q_network": Values(env), "target_q_network": Values(env)}
    before = models["q_network"].net.weight.detach().clone()
    cfg = DQN_CFG()
    cfg.batch_size, cfg.learning_starts, cfg.random_timesteps = 16, 20, 20
    cfg.experiment.directory, cfg.experiment.write_interval = str(tmp_path), 0
    cfg.experiment.checkpoint_interval = 0
    memory = ReplayMemory(memory_size=80, device="cpu")
    agent = DQN(
        models=models,
        memory=memory,
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg=cfg,
    )
    trainer = SequentialTrainer(
        env=env, agents=agent, cfg={"timesteps": 100, "disable_progressbar": True}
    )
    trainer.train()
    assert len(memory) == 80 and not torch.equal(before, models["q_network"].net.weight)
    assert np.isfinite(models["q_network"].net.weight.detach().numpy()).all()
