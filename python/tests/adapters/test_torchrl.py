"""reprise.torchrl with torchrl itself: its trainer and its collectors."""

import warnings

import numpy as np
import pytest
from testing.refusals import refuses

pytest.importorskip("torchrl")
gymnasium = pytest.importorskip("gymnasium")
import torch  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from tensordict.nn import TensorDictModule, TensorDictSequential  # noqa: E402
from torchrl.collectors import Collector  # noqa: E402
from torchrl.envs import GymEnv, StepCounter, TransformedEnv  # noqa: E402
from torchrl.modules import EGreedyModule, MLP, QValueModule  # noqa: E402
from torchrl.objectives import DQNLoss  # noqa: E402
from torchrl.trainers import ReplayBufferTrainer, Trainer  # noqa: E402

import reprise  # noqa: E402
from reprise.torchrl import ReplayBuffer, tensordict  # noqa: E402

torch.set_num_threads(1)


def rollout(steps, first=0, end=None, cut=None):
    """Returns steps of one environment. The observation of a step is the step's number."""
    numbers = torch.arange(first, first + steps, dtype=torch.float32)
    terminated = (numbers == end).unsqueeze(-1) if end is not None else torch.zeros(steps, 1).bool()
    truncated = (numbers == cut).unsqueeze(-1) if cut is not None else torch.zeros(steps, 1).bool()
    return TensorDict(
        {
            "observation": numbers.unsqueeze(-1).repeat(1, 3),
            "pixels": {"left": numbers.to(torch.uint8).reshape(-1, 1, 1).repeat(1, 2, 2)},
            "action": torch.ones(steps, 2),
            "done": torch.zeros(steps, 1, dtype=torch.bool),
            "terminated": torch.zeros(steps, 1, dtype=torch.bool),
            "truncated": torch.zeros(steps, 1, dtype=torch.bool),
            "next": {
                "observation": numbers.unsqueeze(-1).repeat(1, 3) + 1,
                "pixels": {"left": (numbers + 1).to(torch.uint8).reshape(-1, 1, 1).repeat(1, 2, 2)},
                "reward": numbers.unsqueeze(-1) + 1,
                "done": terminated | truncated,
                "terminated": terminated,
                "truncated": truncated,
            },
        },
        batch_size=[steps],
    )


def test_a_sample_has_the_entries_of_what_was_added():
    rb = ReplayBuffer(100, batch_size=64)
    assert len(rb) == 0 and rb.replay is None
    rb.extend(rollout(20, end=7, cut=12))
    assert len(rb) == 20
    batch = rb.sample()
    assert isinstance(batch, TensorDict) and batch.batch_size == torch.Size([64])
    assert torch.equal(batch["next", "observation"], batch["observation"] + 1)
    assert batch["pixels", "left"].dtype == torch.uint8 and batch["pixels", "left"].shape == (
        64,
        2,
        2,
    )
    assert torch.equal(batch["next", "pixels", "left"], batch["pixels", "left"] + 1)
    assert torch.equal(batch["next", "reward"], batch["next", "observation"][:, :1])
    over = batch["observation"][:, :1] == 7
    assert torch.equal(batch["next", "terminated"], over) and over.any()
    cut = batch["observation"][:, :1] == 12
    assert torch.equal(batch["next", "truncated"], cut) and cut.any()
    assert torch.equal(batch["next", "done"], over | cut)
    assert batch["action"].shape == (64, 2)
    assert torch.equal(batch["steps_to_next_obs"], torch.ones(64, 1, dtype=torch.int32))
    data, info = rb.sample(5, return_info=True)
    assert len(data) == 5 and torch.equal(info["index"], data["index"])


def test_compressed_observations_give_the_same_batches():
    steps = rollout(40)
    frames = torch.tril(torch.ones(41, 1024, dtype=torch.uint8)).reshape(41, 32, 32)
    steps["pixels", "left"], steps["next", "pixels", "left"] = frames[:-1], frames[1:]
    plain = ReplayBuffer(100)
    small = ReplayBuffer(100, compress=[("pixels", "left")])
    for rb in (plain, small):
        rb.extend(steps)
    assert plain.replay.schema.compressed == ()
    assert small.replay.schema.compressed == ("pixels/left",)
    stats = small.replay.stats()
    assert 0 < stats["compressed_bytes"] < stats["uncompressed_bytes"] / 4
    expected, actual = plain.sample(64), small.sample(64)
    for key in (("pixels", "left"), ("next", "pixels", "left"), "observation"):
        assert torch.equal(expected[key], actual[key])
    again = ReplayBuffer(100)
    again.load_state_dict(small.state_dict())
    assert again.replay.schema.compressed == ("pixels/left",)
    refuses(TypeError, "compress is 3; allowed: True, False, a list", ReplayBuffer, 100, compress=3)
    all_that_may = ReplayBuffer(100, compress=True)
    all_that_may.extend(steps)
    assert all_that_may.replay.schema.compressed == ("pixels/left",)
    for wrong in ("absent", "observation", "action"):
        said = rf"compress is \['{wrong}'\]; .* 512 .*: pixels/left$"
        refuses(ValueError, said, ReplayBuffer(100, compress=[wrong]).extend, steps)
    with pytest.raises(ValueError, match="compress is True; allowed: .*: none$"):
        ReplayBuffer(100, compress=True).extend(rollout(3))


def test_a_batch_that_continues_the_last_one_continues_its_episode():
    rb = ReplayBuffer(100)
    for first in (0, 10):
        rb.extend(rollout(10, first))
    rb.add(rollout(1, 20)[0])
    rb.extend(rollout(5, 50))
    ids = rb.replay.sampler().sample(500).episode_ids
    assert len(rb) == 26 and len(set(ids.tolist())) == 2


def test_environments_side_by_side():
    rb = ReplayBuffer(100)
    rows = [torch.stack([rollout(5, 100 * e + 5 * t) for e in range(3)]) for t in range(2)]
    for data in rows:
        rb.extend(data)
    batch = rb.replay.sampler().sample(500)
    assert set(batch["observation"][:, 0].tolist()) == {
        100 * e + t for e in range(3) for t in range(10)
    }
    assert len(set(batch.episode_ids.tolist())) == 3


def side_by_side(steps=10, environments=3):
    return torch.stack([rollout(steps, 100 * e) for e in range(environments)])


def episodes(rb):
    batch = rb.replay.sampler().sample(1000)
    return len(set(batch.episode_ids.tolist()))


@pytest.mark.parametrize("steps", [1, 5])
def test_a_flat_batch_of_several_environments(steps):
    """A flat batch has one step of each environment, as `env.step` returns, or several steps of
    each."""
    rb = ReplayBuffer(1000, n_step=3, environments=3)
    data = side_by_side()
    for t in range(0, 10, steps):
        rb.extend(data[:, t : t + steps].reshape(-1))
    assert rb.replay.stats()["committed_steps"] == 30 and episodes(rb) == 3
    said = "data has 4 steps; allowed: a multiple of environments, 3"
    refuses(ValueError, said, rb.extend, rollout(4))
    rb.add(rollout(1, 10)[0])
    assert rb.replay.stats()["committed_steps"] == 31 and episodes(rb) == 3


def test_a_dimension_of_time_and_numbers_of_trajectories():
    data = side_by_side()
    for names in ([None, "time"], ["time", None]):
        rb = ReplayBuffer(1000)
        given = data if names[0] is None else data.transpose(0, 1).contiguous()
        given.names = names
        rb.extend(given)
        assert episodes(rb) == 3
    row = rollout(10)
    row.names = ["time"]
    rb = ReplayBuffer(1000, environments=5)
    rb.extend(row)
    assert episodes(rb) == 1
    rb = ReplayBuffer(10_000, max_writers=4)
    for first in range(0, 2000, 5):
        data = torch.stack([rollout(5, 100 * e + first, end=100 * e + first + 4) for e in range(3)])
        data["collector", "traj_ids"] = torch.arange(3).unsqueeze(1).expand(3, 5) + 3 * first
        for part in (data[:, :2], data[:, 2:]):
            rb.extend(part.reshape(-1))
    assert len(rb) == 6000
    assert len(set(rb.replay.sampler().sample(50_000).episode_ids.tolist())) == 1200


def test_steps_that_continue_no_step_cause_a_warning(recwarn):
    data = side_by_side()
    ReplayBuffer(100).extend(data[:, 0])
    ReplayBuffer(100, n_step=3).extend(rollout(10, end=4))
    assert not [one for one in recwarn if "do not continue" in str(one.message)]
    with pytest.warns(UserWarning, match="of 3 steps of one environment 2 do not continue"):
        ReplayBuffer(100, n_step=3).extend(data[:, 0])


def test_rewards_and_ends_of_agents():
    data = rollout(20)
    after = data["next"]
    nested = {"reward": after["reward"]}
    ended = {name: torch.zeros(20, 2, 1, dtype=torch.bool) for name in ("done", "terminated")}
    for flags in ended.values():
        flags[7] = True
        flags[12, 0] = True
    data["agents"] = TensorDict({"reward": torch.zeros(20, 1)} | ended, [20])
    data["next"] = after.select("observation", "pixels")
    data["next", "agents"] = TensorDict(nested | ended, [20])
    rb = ReplayBuffer(100)
    rb.extend(data)
    batch = rb.sample(500)
    assert torch.equal(batch["next", "agents", "reward"], batch["next", "observation"][:, :1])
    over = batch["observation"][:, :1] == 7
    assert torch.equal(batch["next", "terminated"], over) and over.any()
    assert ("agents", "done") not in batch.keys(True)


def test_unknown_entries_under_next_are_refused():
    data = rollout(5)
    data["next", "cost"] = torch.ones(5, 1)
    with pytest.raises(ValueError, match="\"next\" has 'cost', and the root does not"):
        ReplayBuffer(100).extend(data)
    data = rollout(5)
    data["next", "agents", "reward"] = torch.ones(5, 2, 1)
    with pytest.raises(ValueError, match="'agents/reward' of shape .*a reward of one element"):
        ReplayBuffer(100).extend(data)


def test_n_steps_are_summed():
    rb = ReplayBuffer(100, n_step=3, discount=0.5)
    rb.extend(rollout(20, end=19))
    batch = rb.sample(500)
    number = batch["observation"][:, 0]
    inner = number < 17
    expected = number + 1 + 0.5 * (number + 2) + 0.25 * (number + 3)
    assert torch.allclose(batch["next", "reward"][inner, 0], expected[inner])
    assert torch.equal(batch["next", "observation"][inner, 0], number[inner] + 3)
    assert torch.equal(batch["steps_to_next_obs"][:, 0], torch.clamp(20 - number, max=3).int())
    assert torch.equal(batch["next", "terminated"][:, 0], number >= 17)


def test_priorities_decide_what_is_drawn():
    rb = ReplayBuffer(100, batch_size=400, alpha=1.0, beta=1.0, eps=0.0)
    rb.extend(rollout(20))
    batch = rb.sample()
    assert torch.all(batch["priority_weight"] == 1)
    batch["td_error"] = (batch["observation"][:, :1] == 3).float()
    rb.update_tensordict_priority(batch)
    again = rb.sample()
    assert set(again["observation"][:, 0].tolist()) == {3.0}
    assert rb.update_priority(again["index"], torch.ones(400)).applied == 400


def test_the_end_of_an_n_step_window_is_that_of_its_last_step(tmp_path):
    rb = ReplayBuffer(100, n_step=3)
    rb.extend(rollout(20, end=7, cut=12))
    for batch in (rb.sample(500), rb[rb.sample(500)["index"]]):
        number = batch["observation"][:, 0]
        over, cut = (5 <= number) & (number <= 7), (10 <= number) & (number <= 12)
        for name, expected in (("terminated", over), ("truncated", cut), ("done", over | cut)):
            assert torch.equal(batch["next", name][:, 0], expected) and expected.any()
    rb = ReplayBuffer(100, window=reprise.Sequences(length=4, period=1, end="overlap"))
    rb.extend(rollout(20, end=7, cut=12))
    batch = rb.sample(500)
    last = batch["observation"][:, -1, 0]
    assert torch.equal(batch["next", "truncated"][:, 0], last == 12)
    assert torch.equal(batch["next", "done"][:, 0], (last == 7) | (last == 12))
    assert ("truncated" in batch.keys()) is False


def test_a_buffer_that_was_saved_without_truncated_is_loaded(tmp_path):
    rb = ReplayBuffer(100)
    rb.extend(rollout(5))
    fields = [field for field in rb.replay.schema.fields if field.name != "next/truncated"]
    schema = reprise.Schema()
    for name, role, dtype, shape in fields:
        is_reward = role == reprise.Role.REWARD
        getattr(schema, role.name.lower())(name, *(() if is_reward else (dtype, shape)))
    reprise.ReplayBuffer(schema, 100, window=reprise.Transitions()).save(tmp_path)
    rb.loads(tmp_path)
    rb.extend(rollout(20, end=7, cut=12))
    batch = rb.sample(500)
    assert ("next", "truncated") not in batch.keys(True)
    assert torch.equal(batch["next", "done"], batch["observation"][:, :1] == 7)


def first_priorities(rb, data, calls):
    """Appends data by `calls`, then returns the priorities of all transitions by the number of
    their step."""
    for part in calls(data):
        rb.extend(part)
    index = rb.sample(5000)["index"].unique()
    numbers = rb[index]["observation"][:, 0].int().tolist()
    return dict(zip(numbers, rb.replay.selector().priorities(index).tolist()))


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("size", [20, 7, 2, 1])
def test_new_transitions_get_the_priorities_given_with_them(n_step, size):
    data = rollout(20, end=9, cut=19)
    # Step 16 does not continue step 15, though step 15 does not end its episode.
    for entry in (data, data["next"]):
        entry["observation"][16:] += 100
    numbers = data["observation"][:, 0].int().tolist()
    data["td_error"] = -1 - torch.arange(20.0).unsqueeze(1)
    expected = dict(zip(numbers, range(1, 21)))
    rb = ReplayBuffer(100, alpha=1.0, eps=0.0, n_step=n_step)
    assert first_priorities(rb, data, lambda all: all.split(size)) == expected
    rb = ReplayBuffer(100, alpha=1.0, eps=0.0, n_step=n_step, environments=2)
    assert first_priorities(rb, data, lambda all: [all]) == expected
    # Without the entry new transitions get the initial priority.
    data = data.exclude("td_error")
    rb = ReplayBuffer(100, alpha=1.0, n_step=n_step)
    assert set(first_priorities(rb, data, lambda all: [all]).values()) == {1.0}
    assert not rb.replay.options["episode_index"]


@pytest.mark.parametrize("end, decided", [(None, 8), (9, 10)])
def test_a_learner_changes_priorities_between_appends(end, decided):
    rb = ReplayBuffer(100, alpha=1.0, eps=0.0, n_step=3)
    data = rollout(20, end=end, cut=19)
    data["td_error"] = torch.arange(20.0) + 1
    rb.extend(data[:10])
    index = rb.sample(500)["index"].unique()
    assert rb.update_priority(index, 50.0).applied == decided
    found = first_priorities(rb, data[10:], lambda all: [all])
    assert found == {i: 50.0 if i < decided else i + 1.0 for i in range(20)}


def test_priority_key_names_the_entry_with_first_priorities():
    rb = ReplayBuffer(100, alpha=1.0, eps=0.0, priority_key=("loss", "of"), batch_size=50)
    data = rollout(20)
    data["loss"] = {"of": torch.where(torch.arange(20) == 3, 2.0, 0.0)}
    rb.extend(data)
    assert set(rb.sample()["observation"][:, 0].tolist()) == {3.0}
    rb.add(rollout(1, 30).set(("loss", "of"), torch.full((1,), 100.0))[0])
    assert 30.0 in rb.sample()["observation"][:, 0].tolist()


def test_first_priorities_that_are_no_finite_numbers_are_refused():
    data = rollout(5)
    for wrong, said in (
        (torch.full((5,), torch.nan), "extend: 'td_error' is not finite"),
        (torch.ones(5, 0), r"extend: 'td_error' has shape \(5, 0\); allowed: a number, or one for"),
    ):
        rb = ReplayBuffer(100, alpha=1.0)
        data["td_error"] = wrong
        refuses(ValueError, said, rb.extend, data)
        assert len(rb) == 0


@pytest.mark.parametrize("left_out", [["terminated"], ["terminated", "truncated"]])
def test_done_alone_says_that_an_episode_terminated(left_out):
    data = rollout(20, end=7, cut=12).exclude(*(("next", name) for name in left_out))
    rb = ReplayBuffer(100)
    rb.extend(data)
    batch = rb.sample(500)
    over = set(batch["observation"][batch["next", "terminated"][:, 0], 0].tolist())
    assert over == ({7.0} if len(left_out) == 1 else {7.0, 12.0})


def test_a_type_error_names_what_is_wrong(tmp_path):
    rb = ReplayBuffer(100)
    for call in (
        lambda: rb.dumps(tmp_path),
        lambda: rb.update_priority(torch.ones(1), torch.ones(1)),
    ):
        refuses(ValueError, "the buffer is empty", call)
    refuses(TimeoutError, "the buffer is empty", rb.sample, 1)
    rb.extend(rollout(5))
    refuses(ValueError, "batch_size is missing", rb.sample)
    refuses(ValueError, "missing", rb.extend, rollout(5).exclude("action"))


def test_a_buffer_is_saved_and_loaded(tmp_path):
    rb = ReplayBuffer(100, alpha=0.6)
    rb.extend(rollout(20))
    rb.dumps(tmp_path / "rb")
    for load in ("loads", "state"):
        other = ReplayBuffer(100, alpha=0.6)
        other.extend(rollout(3))
        other.empty()
        if load == "loads":
            other.loads(tmp_path / "rb")
        else:
            other.load_state_dict(rb.state_dict())
        assert len(other) == other.write_count == 20
        other.extend(rollout(5))
        assert len(other) == 25


@pytest.mark.parametrize("load", ["loads", "state"])
def test_priorities_and_storage_after_a_load(load, tmp_path):
    rb = ReplayBuffer(100, alpha=1.0, eps=0.0)
    rb.extend(rollout(20))
    rb.dumps(tmp_path / "rb")
    (tmp_path / "steps").mkdir()
    other = ReplayBuffer(100, storage=tmp_path / "steps")
    if load == "loads":
        other.loads(tmp_path / "rb")
    else:
        other.load_state_dict(rb.state_dict())
    assert other.replay.options["storage"] is not None
    batch = other.sample(400)
    batch["td_error"] = (batch["observation"][:, :1] == 3).float()
    other.update_tensordict_priority(batch)
    assert set(other.sample(400)["observation"][:, 0].tolist()) == {3.0}
    plain = ReplayBuffer(100)
    plain.extend(rollout(20))
    rb.load_state_dict(plain.state_dict())
    rb.update_tensordict_priority(batch)
    assert rb.replay.stats()["applied_updates"] == 0


def test_updating_by_a_sample_without_priorities_warns():
    rb = ReplayBuffer(100, alpha=1.0)
    rb.extend(rollout(20))
    with pytest.warns(UserWarning, match="the sample has no 'td_error', so its priorities stay"):
        rb.update_tensordict_priority(rb.sample(8))
    assert rb.replay.stats()["applied_updates"] == 0
    uniform = ReplayBuffer(100)
    uniform.extend(rollout(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uniform.update_tensordict_priority(uniform.sample(8))


def test_any_batch_becomes_a_tensordict():
    schema = reprise.Schema().observation("obs", np.float32).column("a/b", np.int64).reward("r")
    replay = reprise.ReplayBuffer(
        schema, 100, window=reprise.Sequences(length=4, period=1, end="drop")
    )
    replay.writer().append_episode(**{"obs": np.arange(9), "a/b": np.ones(8, int), "r": np.ones(8)})
    made = tensordict(replay.sampler().sample(6))
    assert made.batch_size == torch.Size([6]) and made["a", "b"].shape == (6, 4)
    assert made["r"].shape == (6, 4) and made["next", "obs"].shape == (6, 4)


def test_a_batch_of_a_cluster_becomes_a_tensordict_without_keys():
    cluster = pytest.importorskip("reprise.ray")
    rb = ReplayBuffer(100)
    rb.extend(rollout(20))
    local = rb.replay.sampler().sample(6)
    made = tensordict(cluster.Batch(local, 1, 7))
    assert "index" not in made.keys()
    for key in ("observation", "_weight", ("next", "reward"), ("next", "observation")):
        assert torch.equal(made[key], tensordict(local)[key])


def test_returns_of_steps_are_refused():
    schema = reprise.Schema().observation("obs", np.float32).reward("r")
    replay = reprise.ReplayBuffer(schema, 100, window=reprise.Sequences(length=4, n_step=2))
    replay.writer().append_episode(obs=np.arange(9), r=np.ones(8))
    refuses(ValueError, "n_step 0", tensordict, replay.sampler().sample(6))


def test_a_trainer_of_torchrl_trains(tmp_path):
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), StepCounter(50))
    env.set_seed(0)
    torch.manual_seed(0)
    value = TensorDictModule(MLP(4, 2, num_cells=[16]), ["observation"], ["action_value"])
    greedy = TensorDictSequential(value, QValueModule(spec=env.action_spec))
    policy = TensorDictSequential(greedy, EGreedyModule(env.action_spec, annealing_num_steps=500))
    collector = Collector(env, policy, frames_per_batch=50, total_frames=500)
    loss = DQNLoss(greedy, action_space="categorical", delay_value=False)
    loss.make_value_estimator(gamma=0.99)
    rb = ReplayBuffer(10_000, batch_size=32, alpha=0.6, n_step=3, discount=0.99)
    trainer = Trainer(
        collector=collector,
        total_frames=500,
        frame_skip=1,
        loss_module=loss,
        optimizer=torch.optim.Adam(loss.parameters(), 1e-3),
        optim_steps_per_batch=4,
        progress_bar=False,
    )
    hook = ReplayBufferTrainer(rb, flatten_tensordicts=True)
    hook.register(trainer)
    trainer.train()
    stats = rb.replay.stats()
    assert stats["committed_steps"] == 500 and stats["sampled_items"] == 40 * 32
    assert stats["applied_updates"] == 40 * 32
    torch.save(hook.state_dict(), tmp_path / "hook.pt")
    twin = ReplayBufferTrainer(ReplayBuffer(10_000))
    twin.load_state_dict(torch.load(tmp_path / "hook.pt", weights_only=True))
    assert len(twin.replay_buffer) == 500
