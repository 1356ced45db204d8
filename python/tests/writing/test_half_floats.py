"""Fields of float16 and bfloat16."""

import sys

import numpy as np
import pytest
from testing.buffers import every_item

import reprise

VALUES = [0.0, -1.5, 0.25, 3.0, -0.0]


def buffer_of(dtype, shape=(), finite=False):
    schema = reprise.Schema().observation("x", dtype, shape).reward().require_finite(finite)
    return reprise.ReplayBuffer(schema, 100, window=reprise.Transitions(frame_stack=2))


def filled(dtype, values=VALUES):
    buffer = buffer_of(dtype)
    with buffer.writer() as writer:
        writer.append_episode(x=values, reward=np.zeros(len(values) - 1))
    return buffer


@pytest.fixture(params=["float16", "bfloat16"])
def dtype(request):
    if request.param == "float16":
        return np.dtype(np.float16)
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def test_values_come_back(dtype, tmp_path):
    buffer = filled(dtype)
    assert buffer.schema.fields[0].dtype == dtype and buffer.schema.step_bytes == 2 + 4
    buffer.save(tmp_path)
    for one in (buffer, reprise.ReplayBuffer.load(tmp_path).buffer):
        items = every_item(one)
        assert items["x"].dtype == dtype and items["x"].shape == (4, 2)
        assert items["x"][:, 1].astype(float).tolist() == VALUES[:-1]
        assert items["next_x"][:, 1].astype(float).tolist() == VALUES[1:]


def test_the_type_may_be_named_in_many_ways(dtype):
    for name in (dtype, dtype.type, dtype.name):
        assert buffer_of(name).schema.fields[0].dtype == dtype
    example = reprise.Schema.from_step(observations={"x": np.zeros(3, dtype)})
    assert example.fields[0].dtype == dtype and example.fields[0].shape == (3,)
    assert f"x: observation {dtype.name} of shape (3,)" in str(example)


def test_values_of_other_types_are_converted(dtype):
    for given in (
        np.array(VALUES),
        np.array(VALUES, np.float32),
        np.array(VALUES, dtype),
        np.array([*VALUES, *VALUES], dtype).reshape(2, 5).T[:, 0],
        VALUES,
        [dtype.type(value) for value in VALUES],
    ):
        found = every_item(filled(dtype, given))["next_x"][:, 1]
        assert found.dtype == dtype and found.astype(float).tolist() == VALUES[1:]
    buffer = buffer_of(dtype)
    with buffer.writer() as writer:
        writer.begin_episode(x=1)
        for value in (0.5, 7, True, np.float64(1.25), np.int8(-3), dtype.type(2)):
            writer.append(reward=0, next_x=value)
    assert every_item(buffer)["next_x"][:, 1].astype(float).tolist() == [0.5, 7, 1, 1.25, -3, 2]
    assert np.array_equal(
        every_item(filled("float32", np.array(VALUES, dtype)))["x"][:, 1], VALUES[:-1]
    )


def test_numbers_out_of_range_are_refused(dtype):
    largest, first_beyond = {
        "float16": (65519.9, 65520.0),
        "bfloat16": (float.fromhex("0x1.fefp127"), float.fromhex("0x1.ffp127")),
    }[dtype.name]
    buffer = buffer_of(dtype)
    writer = buffer.writer()
    writer.begin_episode(x=largest)
    writer.append(reward=0, next_x=-np.inf)
    for wrong in (first_beyond, -first_beyond, np.array(first_beyond), np.float64(-first_beyond)):
        with pytest.raises(ValueError, match=f"'next_x': .* is out of the range of {dtype.name}"):
            writer.append(reward=0, next_x=wrong)
    if dtype == np.float16:
        with pytest.raises(ValueError, match="'next_x': 65520.0 is out of the range of float16"):
            writer.append(reward=0, next_x=65520)
    with pytest.raises(TypeError, match=f"'next_x': expected {dtype.name} scalar"):
        writer.append(reward=0, next_x=1j)
    assert buffer.stats()["committed_steps"] == 1


def test_values_that_are_not_finite_are_refused_if_the_schema_says_so(dtype):
    buffer = buffer_of(dtype, finite=True)
    with buffer.writer() as writer:
        for value, text in ((np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")):
            with pytest.raises(ValueError, match=f"'x' is -?{text} at element 0 of row 1; allowed"):
                writer.append_episode(x=[0.5, value, 1], reward=[0, 0])
            writer.begin_episode(x=0)
            with pytest.raises(ValueError, match=f"'x' of the next step is -?{text}"):
                writer.append(reward=0, next_x=value)
        largest = 65504.0 if dtype == np.float16 else 3e38
        writer.append_episode(x=[largest, -largest], reward=[0])


def test_tensors_of_torch(dtype):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype.name)
    buffer = buffer_of(kind, (2,))
    tensor = torch.tensor([[value, 1] for value in VALUES], dtype=kind)
    with buffer.writer() as writer:
        writer.append_episode(x=tensor, reward=np.zeros(4))
        writer.append_transition(x=tensor[0], reward=0, next_x=tensor.T[0][:2])
    batch = buffer.sampler().sample(5, draws="without_replacement")
    tensors = batch.torch()
    assert tensors["x"].dtype == kind and tensors["x"].shape == (5, 2, 2)
    assert np.array_equal(tensors["x"].float().numpy(), batch["x"].astype(np.float32))
    assert sorted(tensors["next_x"][:, 1, 0].tolist()) == sorted([*VALUES[1:], VALUES[0]])
    tensors["x"][0, 0, 0] = 9
    assert batch["x"][0, 0, 0] == 9  # The array and the tensor share memory.
    assert batch.torch("cpu")["x"].dtype == kind


def test_arrays_of_jax(dtype):
    jax = pytest.importorskip("jax")
    given = jax.numpy.array(VALUES, dtype)
    buffer = filled(given.dtype, given)
    assert every_item(buffer)["x"][:, 1].astype(float).tolist() == VALUES[:-1]
    batch = buffer.sampler().sample(4)
    assert jax.numpy.asarray(batch["x"]).dtype == dtype


def test_bfloat16_without_ml_dtypes_names_the_missing_package(monkeypatch):
    if "ml_dtypes" in sys.modules:
        pytest.skip("ml_dtypes is imported")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="bfloat16 needs the package ml_dtypes"):
        reprise.Schema().observation("x", "bfloat16")
