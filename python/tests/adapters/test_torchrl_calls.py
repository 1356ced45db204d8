"""Other calls of torchrl's buffer than those that write or draw: indices, priorities,
transforms."""

import copy
import pickle
import sys

import numpy as np
import pytest
from testing.refusals import refuses

pytest.importorskip("torchrl")
pytest.importorskip("gymnasium")
import torch  # noqa: E402
from test_torchrl import rollout  # noqa: E402
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer  # noqa: E402
from torchrl.envs import DTypeCastTransform, RenameTransform, Transform  # noqa: E402

from reprise.torchrl import ReplayBuffer, _keys  # noqa: E402


def test_one_priority_may_be_given_for_many_transitions():
    rb = ReplayBuffer(100, alpha=1.0, eps=0.0)
    rb.extend(rollout(20))
    index = rb.sample(400)["index"].unique()
    assert rb.update_priority(index, 2.5).applied == 20
    assert (rb.replay.selector().priorities(index) == 2.5).all()
    for one, priority in (
        (index[3], 1.0),
        (int(index[4]), torch.tensor(1.0)),
        (index[5:7], torch.tensor([1.0])),
        (index[7:9].tolist(), [1.0, 1.0]),
        (index[9:10].numpy(), np.float32(1)),
        (index[10:12], torch.tensor([[-1.0], [1.0]], dtype=torch.bfloat16, requires_grad=True)),
    ):
        assert rb.update_priority(one, priority).applied == len(_keys(one))
    assert rb.replay.selector().priorities(index).tolist() == [2.5] * 3 + [1.0] * 9 + [2.5] * 8
    for wrong in (torch.ones(3), torch.ones(0)):
        said = r"priority has shape \(\d,\); allowed: a number, or o"
        refuses(ValueError, said, rb.update_priority, index[:2], wrong)


def test_transitions_are_read_by_their_index():
    rb = ReplayBuffer(100, n_step=3, discount=0.5)
    with pytest.raises(IndexError, match="1 of 1 transitions are gone"):
        rb[5]
    rb.extend(rollout(20, end=19))
    batch = rb.sample(6)
    for index in (batch["index"], batch["index"].numpy(), batch["index"].tolist()):
        again = rb[index]
        assert again.batch_size == torch.Size([6])
        for key in ("observation", ("pixels", "left"), ("next", "observation"), ("next", "reward")):
            assert torch.equal(again[key], batch[key])
    for index in (batch["index"][2], int(batch["index"][2])):
        one = rb[index]
        assert one.batch_size == torch.Size([])
        assert torch.equal(one["observation"], batch["observation"][2])
    for wrong in (slice(None), "observation", ("next", "reward"), True, 1.5):
        with pytest.raises(TypeError, match='the index is .*; allowed: "index" of a sample'):
            rb[wrong]
    rb.extend(rollout(200))
    with pytest.raises(IndexError, match="6 of 6 transitions are gone"):
        rb[batch["index"]]
    rb.extend(rollout(1))
    for none in (0, [0], ["observation"], torch.tensor(0.5)):
        with pytest.raises(IndexError, match="of the indices .* one is none; allowed"):
            rb[none]
    rb.empty()
    with pytest.raises(IndexError, match="6 of 6 transitions are gone"):
        rb[batch["index"]]


def test_an_empty_buffer_begins_again():
    rb = ReplayBuffer(100, alpha=0.6)
    rb.empty()
    assert rb.write_count == 0 and len(rb) == 0
    rb.extend(rollout(20))
    rb.add(rollout(1, 20)[0])
    index = rb.sample(5)["index"]
    assert rb.write_count == 21
    rb.empty()
    assert rb.write_count == 0 and len(rb) == 0 and rb.update_priority(index, 1.0).stale == 5
    with pytest.raises(TimeoutError):
        rb.sample(5)
    rb.extend(rollout(7))
    rb.empty(empty_write_count=False)
    assert rb.write_count == 7 and len(rb) == 0
    rb.extend(rollout(150))
    assert rb.write_count == 157 and len(rb) == 100
    assert rb.sample(500)["observation"].min() >= 50
    rb.empty()
    assert rb.write_count == 0


def test_write_count_equals_that_of_torchrl():
    there = TensorDictReplayBuffer(storage=LazyTensorStorage(15), batch_size=4)
    here = ReplayBuffer(15, batch_size=4)
    for steps in (10, 3, 8):
        for rb in (there, here):
            rb.extend(rollout(steps))
            rb.add(rollout(1)[0])
        assert there.write_count == here.write_count
        assert len(there) == len(here)
    for rb in (there, here):
        rb.empty(empty_write_count=False)
    assert there.write_count == here.write_count and len(there) == len(here)
    for rb in (there, here):
        rb.extend(rollout(2))
        rb.empty()
        rb.extend(rollout(2))
    assert there.write_count == here.write_count == 2


def test_empty_also_drops_steps_whose_windows_are_incomplete():
    rb = ReplayBuffer(200, n_step=3)
    rb.extend(rollout(20))
    rb.empty()
    rb.extend(rollout(20, first=100))
    assert rb.sample(200)["observation"].min() == 100


def test_next_returns_a_batch_of_the_buffers_batch_size():
    rb = ReplayBuffer(100, batch_size=6)
    refuses(TimeoutError, "the buffer is empty", rb.next)
    rb.extend(rollout(20))
    assert rb.next().batch_size == torch.Size([6])


def test_can_sample_tells_whether_there_are_transitions():
    rb = ReplayBuffer(100, n_step=3)
    assert rb.can_sample() is False
    rb.extend(rollout(2))
    assert rb.can_sample(1) is False
    rb.extend(rollout(1, 2))
    assert rb.can_sample(1) is rb.can_sample(256) is True
    rb.sample(256)
    rb.empty()
    assert rb.can_sample() is False


def test_a_generator_decides_the_draws():
    index = []
    for when in ("before", "after", "twice"):
        rb = ReplayBuffer(100, batch_size=20)
        if when == "before":
            rb.set_rng(torch.Generator().manual_seed(5))
        rb.extend(rollout(50))
        if when != "before":
            rb.sample()
            rb.set_rng(torch.Generator().manual_seed(5 if when == "after" else 6))
        index.append(rb.sample()["observation"][:, 0])
    assert torch.equal(index[0], index[1]) and not torch.equal(index[0], index[2])


@pytest.mark.parametrize("load", ["load", "loads", "state"])
def test_draws_continue_after_a_load(load, tmp_path):
    rb = ReplayBuffer(100, batch_size=20)
    rb.extend(rollout(50))
    rb.sample()
    rb.save(tmp_path / "rb") if load != "state" else None
    state = rb.state_dict()
    expected = [rb.sample()["observation"] for _ in range(3)]
    other = ReplayBuffer(100, batch_size=20)
    if load == "state":
        other.load_state_dict(state)
    else:
        getattr(other, load)(tmp_path / "rb")
    assert all(torch.equal(batch, other.sample()["observation"]) for batch in expected)


def test_a_checkpoint_without_a_sampler_begins_draws_anew(tmp_path):
    rb = ReplayBuffer(100, batch_size=20, seed=3)
    rb.extend(rollout(50))
    rb.replay.save(tmp_path)
    expected = rb.sample()["observation"]
    rb.loads(tmp_path)
    assert torch.equal(rb.sample()["observation"], expected)


def test_only_an_empty_buffer_can_be_pickled():
    rb = ReplayBuffer(100, batch_size=6)
    again = pickle.loads(pickle.dumps(rb))
    for one in (rb, again):
        one.extend(rollout(20))
        assert one.sample().batch_size == torch.Size([6])
        for call in (pickle.dumps, copy.deepcopy):
            refuses(TypeError, "cannot be pickled or copied; allowed: `dumps` and", call, one)


def test_insert_transform_inserts_where_torchrl_does():
    calls = [], []
    for rb, seen in zip(
        (TensorDictReplayBuffer(storage=LazyTensorStorage(9)), ReplayBuffer(9)), calls
    ):
        for place, name in ((0, "c"), (0, "a"), (1, "b"), (-1, "last but one")):
            assert rb.insert_transform(place, CallRecorder(name, seen)) is rb
        rb.extend(rollout(5))
        rb.sample(3)
        with pytest.raises(ValueError, match="Index expected to be between"):
            rb.insert_transform(9, CallRecorder("never", seen))
    assert calls[0] == calls[1] and len(calls[0]) == 8
    with pytest.raises(TypeError, match="^insert_transform: transform is 3; allowed: a transform"):
        ReplayBuffer(9).insert_transform(0, 3)


class CallRecorder(Transform):
    """Records the order of its calls."""

    def __init__(self, name, calls):
        super().__init__()
        self.name, self.calls = name, calls

    def forward(self, data):
        self.calls.append(f"{self.name} {data.batch_size[0]}")
        return data

    def _inv_call(self, data):
        self.calls.append(f"inv {self.name} {data.numel()}")
        return data


def transformed(rb, calls):
    """Passes a buffer's batch through transforms of several kinds."""

    def doubled(data):
        calls.append(f"function {data.batch_size[0]}")
        return data.set("double", 2 * data["observation"])

    assert rb.append_transform(CallRecorder("first", calls)) is rb
    rb.append_transform(CallRecorder("second", calls)).append_transform(doubled)
    rb.append_transform(RenameTransform(["double"], ["twice"]))
    rb.append_transform(DTypeCastTransform(torch.float32, torch.float64, in_keys=["observation"]))
    rb.append_transform(CallRecorder("third", calls), invert=True)
    rb.extend(rollout(20))
    return rb.sample(4)


def test_transforms_are_applied_as_torchrl_applies_them():
    calls = [], []
    there = TensorDictReplayBuffer(storage=LazyTensorStorage(100))
    batch = transformed(there, calls[0])
    mine = ReplayBuffer(100)
    found = transformed(mine, calls[1])
    assert calls[0] == calls[1]
    assert calls[1][:3] == ["inv second 20", "inv first 20", "first 4"]
    for each in (batch, found, mine[found["index"]]):
        assert torch.equal(each["twice"], 2 * each["observation"]) and "double" not in each
        assert each["observation"].dtype == torch.float64
    mine.add(rollout(1)[0])
    with pytest.raises(TypeError, match="transform is 3; allowed: a transform of torchrl or a fun"):
        mine.append_transform(3)


def test_data_that_a_transform_keeps_back_is_not_stored():
    rb = ReplayBuffer(100)
    rb.append_transform(keeps := CallRecorder("keeps", []))
    rb.extend(rollout(20))
    keeps._inv_call = lambda data: None
    rb.extend(rollout(20))
    rb.add(rollout(1)[0])
    assert rb.write_count == 20


@pytest.mark.parametrize("call", ["add", "extend"])
def test_data_without_next_is_refused(call):
    data = rollout(5)
    data = data if call == "extend" else data[0]
    for wrong in (data.exclude("next"), data.exclude("next").set("next", data["action"])):
        with pytest.raises(ValueError, match='without "next"; allowed: .*next obs.*rewards, done'):
            getattr(ReplayBuffer(100), call)(wrong)
    for wrong in (dict(data), [1], None):
        with pytest.raises(TypeError, match=f"^{call}: data is of type .*; allowed: a TensorDict"):
            getattr(ReplayBuffer(100), call)(wrong)


@pytest.mark.parametrize("call", ["add", "extend"])
def test_add_refuses_many_steps_and_extend_refuses_a_single_one(call):
    many = rollout(5)
    data = many if call == "add" else many[0]
    with pytest.raises(ValueError, match=rf"^{call}: data has batch_size \[.*; allowed: \[\] of"):
        getattr(ReplayBuffer(100), call)(data)


def test_tensors_of_bfloat16(monkeypatch):
    data = rollout(20)
    data["half"] = torch.arange(20).bfloat16()
    rb = ReplayBuffer(100)
    with monkeypatch.context() as without_ml_dtypes:
        without_ml_dtypes.setitem(sys.modules, "ml_dtypes", None)
        refuses(TypeError, "bfloat16 needs the package ml_dtypes", rb.extend, data)
    pytest.importorskip("ml_dtypes")
    rb.extend(data)
    batch = rb.sample(50)
    assert batch["half"].dtype == torch.bfloat16
    assert torch.equal(batch["half"].float(), batch["observation"][:, 0])
