"""Values that convert to a field, and errors that name field, expectation and given value."""

import sys

import numpy as np
import pytest
from testing.refusals import refuses

import reprise

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SCALARS = ["bool", *INTEGERS, "float32", "float64"]


def stored_value(dtype, value, shape=()):
    """Stores a value in a column of this dtype, and returns what a batch has of it."""
    schema = reprise.Schema().observation("x", "f4").column("value", dtype, shape)
    buffer = reprise.ReplayBuffer(schema, 10, shards=1, chunk_steps=0)
    with buffer.writer() as writer:
        writer.begin_episode(x=0)
        writer.append(value=value, next_x=0, end=1)
    return buffer.sampler().sample(1)["value"][0]


def casts(source, target):
    """Whether a number of the first dtype is taken for a field of the second."""
    if target.startswith("float"):
        return True
    if target == "bool":
        return source == "bool"
    return not source.startswith("float")


@pytest.mark.parametrize("target", SCALARS)
@pytest.mark.parametrize("source", SCALARS)
def test_numpy_numbers_and_arrays_cast_alike(source, target):
    number = np.dtype(source).type(1)
    for value in (number, np.array(number), np.array([number, number])):
        if casts(source, target):
            result = stored_value(target, value, value.shape)
            assert result.dtype == np.dtype(target) and (result == 1).all()
        else:
            said = f"field 'value': expected {target} .*; given .*{source}"
            refuses(TypeError, said, stored_value, target, value, value.shape)


@pytest.mark.parametrize("target", INTEGERS)
def test_integers_are_taken_within_their_range(target):
    limits = np.iinfo(target)
    for limit, beyond in ((limits.min, limits.min - 1), (limits.max, limits.max + 1)):
        assert int(stored_value(target, limit)) == limit
        assert stored_value(target, np.array([limit, 0], target)[::-1], (2,)).tolist() == [0, limit]
        with pytest.raises(ValueError, match=f"'value': {beyond} is out of the range of {target}"):
            stored_value(target, beyond)
    if target != "uint64":
        beyond = limits.max + 1
        with pytest.raises(ValueError, match=f"'value': {beyond} is out of the range of {target}"):
            stored_value(target, np.array([0, beyond], np.uint64), (2,))


@pytest.mark.parametrize(
    "dtype, value, given",
    [
        ("float32", "one", "<U3 scalar"),
        ("float32", b"one", r"\|S3 scalar"),
        ("float32", np.zeros((), "i4, f4"), r"\[\('f0', '<i4'\), .* scalar"),
        ("float32", 1j, "complex128 scalar"),
        ("float32", None, "object scalar"),
        ("int64", 1.0, "float"),
        ("bool", 1, "int"),
        ("bool", 0.0, "float"),
        ("float32", {}, "object scalar"),
    ],
)
def test_values_of_a_wrong_kind_are_refused(dtype, value, given):
    refuses(
        TypeError, f"'value': expected {dtype} scalar; given {given}", stored_value, dtype, value
    )


def test_python_numbers():
    assert stored_value("float32", 1) == 1 and stored_value("float32", True) == 1
    assert stored_value("int8", True) == 1 and stored_value("bool", False) == 0
    assert stored_value("float64", 1e300) == 1e300
    assert stored_value("float32", np.float16(0.5)) == 0.5
    refuses(ValueError, "out of the range of float32", stored_value, "float32", 10**400)


@pytest.mark.parametrize(
    "value, given",
    [
        (np.zeros(3), r"float64 of shape \(3,\)"),
        (np.zeros((2, 1)), r"float64 of shape \(2, 1\)"),
        (0.0, "float64 scalar"),
        ([[1, 2, 3]], r"int64 of shape \(1, 3\)"),
    ],
)
def test_shapes_have_to_be_exact(value, given):
    said = rf"'value': expected float32 of shape \(2, 3\); given {given}"
    refuses(ValueError, said, stored_value, "float32", value, (2, 3))


def test_scalars_do_not_take_arrays_of_one():
    with pytest.raises(ValueError, match=r"expected float32 scalar; given int64 of shape \(1,\)"):
        stored_value("float32", [1])


def test_a_ragged_list_is_refused():
    with pytest.raises(ValueError, match="field 'value': no array can be made of it"):
        stored_value("float32", [[1, 2], [3]], (2, 2))


@pytest.mark.parametrize("discount", [-0.1, 1.5, float("nan")])
def test_discounts_are_in_range(discount):
    schema = reprise.Schema().observation("x", "f4").discount()
    buffer = reprise.ReplayBuffer(schema, 10)
    writer = buffer.writer()
    writer.begin_episode(x=0)
    with pytest.raises(ValueError, match="field 'discount' is .*; allowed: 0 to 1"):
        writer.append(discount=discount, next_x=0)


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    "value", [1e300, -1e39, 10**39, 10**400, np.float64(1e300), np.array(1e300)]
)
def test_numbers_beyond_float32_are_refused(value):
    refuses(
        ValueError, "'value': .* is out of the range of float32", stored_value, "float32", value
    )


@pytest.mark.filterwarnings("error")
def test_arrays_with_numbers_beyond_float32_are_refused(buffer):
    for dtype in ("<f8", ">f8"):
        wrong = np.array([1, -1e300], dtype)
        for given in (wrong, wrong[::-1], wrong.tolist()):
            said = r"'value': -1e\+300 is out of the range of float32"
            refuses(ValueError, said, stored_value, "float32", given, (2,))
    given = [LARGEST, -LARGEST, np.inf, -np.inf]
    assert stored_value("float32", given, (4,)).tolist() == given
    assert stored_value("float32", np.inf) == np.inf and stored_value("float32", LARGEST) == LARGEST
    assert stored_value("float64", 1e300) == 1e300
    with pytest.raises(ValueError, match=r"priorities: 1e\+300 is out of the range of float32"):
        buffer.writer().append_episode(
            state=np.zeros((2, 2)), action=[0], reward=[0], priorities=[1e300]
        )


@pytest.mark.parametrize(
    "end, error, message",
    [
        (3, ValueError, "end is 3; allowed: End.CONTINUE"),
        (-1, ValueError, "end is -1"),
        (True, TypeError, "use reprise.ends"),
        (np.True_, TypeError, "use reprise.ends"),
        (np.array(True), TypeError, "use reprise.ends"),
        (1.0, TypeError, "expected an End; given float"),
        (np.array(1.0), TypeError, "expected an End; given numpy.ndarray"),
        ("end", TypeError, "given str"),
    ],
)
def test_wrong_ends(buffer, end, error, message):
    writer = buffer.writer()
    writer.begin_episode(state=[0, 0])
    refuses(error, message, writer.append, action=0, reward=0, next_state=[0, 0], end=end)
    refuses(error, message, writer.completing, end)


def test_unknown_missing_and_misplaced_fields(buffer):
    writer = buffer.writer()
    for call, given, message in (
        (writer.begin_episode, {}, "Writer.begin_episode: missing field state"),
        (writer.begin_episode, {"x": 0}, "unknown field 'x'; fields: state"),
        (writer.begin_episode, {"action": 0}, "field 'action' is not taken by this call"),
        (writer.begin_episode, {"end": 0}, "unknown field 'end'"),
        (writer.begin_episode, {"timeout": 1}, "unknown field 'timeout': a writer is made with"),
        (writer.begin_episode, {"\udc80": 0}, r"unknown field '\\udc80'; fields: state"),
    ):
        refuses(ValueError, message, call, **given)
    writer.begin_episode(state=[0, 0])
    for given, message in (
        ({}, "missing fields action, reward, next_state"),
        ({"reward": 0, "next_state": [0, 0]}, "Writer.append: missing field action"),
        ({"state": [0, 0]}, "what follows the step is given as 'next_state'"),
        ({"next_action": 0}, "unknown field 'next_action'; fields: action, reward, next_state"),
        ({"final": {}}, "unknown field 'final'; fields: action"),
        (
            {"done": True},
            r"unknown field 'done': how a step ends is `end`, .*ends\(terminated, trun",
        ),
        ({"terminal": 1}, "unknown field 'terminal': how a step ends is `end`"),
        ({"truncated": 1}, "unknown field 'truncated': how a step ends is `end`"),
        ({"obs": 0}, "unknown field 'obs': observations have the names of the schema; fields: "),
        ({"next_obs": 0}, "unknown field 'next_obs': observations have .*reward, next_state"),
        ({"priority": 1}, "unknown field 'priority': priorities are `priorities`"),
    ):
        refuses(ValueError, message, writer.append, **given)
    refuses(TypeError, "0 positional", writer.append, [0, 0])
    assert writer.episode_steps == 0


def refusals(given):
    """Returns calls that must refuse the value, by the name that errors give the value."""
    schema = reprise.Schema().observation("x", "f4", (2,)).mutable_column("c", "f4", (2,)).reward()
    buffer = reprise.ReplayBuffer(schema, 10, shards=1, selectors=reprise.Uniform())
    writer = buffer.writer()
    writers = buffer.vector_writer(2, autoreset="same_step")
    zeros = np.zeros((2, 2))
    writers.begin(x=zeros)
    buffer.writer().append_episode(x=zeros, c=zeros[:1], reward=[0])
    keys = buffer.sampler().sample(2).item_keys
    both = [given, given]
    step = {"c": zeros, "reward": [0, 0], "next_x": zeros, "end": [0, 1]}
    return {
        "field 'x'": lambda: writer.begin_episode(x=given),
        "field 'next_x'": lambda: writer.append_transition(
            x=zeros[0], next_x=given, c=[0, 0], reward=0
        ),
        "field 'c'": lambda: writer.append_episode(x=np.zeros((3, 2)), c=both, reward=[0, 0]),
        "field 'final.x'": lambda: writers.append(**step, final={"x": [None, given]}),
        "keys": lambda: buffer.selector().priorities(given),
        "priorities": lambda: buffer.update_priorities(keys, given),
        "values": lambda: buffer.update(keys, "c", both),
        "end": lambda: writers.append(**step | {"end": given}, final={"x": zeros}),
        "field 'y'": lambda: reprise.Schema.from_step(observations={"y": given}),
        "SegmentTree.assign: values": lambda: reprise.SegmentTree(4).assign([0, 1], given),
    }


NAMES = list(refusals(None))


@pytest.mark.parametrize("mask", [[True, False], False])
@pytest.mark.parametrize("name", NAMES)
def test_masked_arrays_are_refused(name, mask):
    given = np.ma.masked_array([1, 2], mask)
    said = rf"(^|: ){name}: a masked array, .*; allowed: its filled\(val"
    refuses(TypeError, said, refusals(given)[name])


def test_subclasses_of_arrays_and_mapped_arrays_are_taken(tmp_path):
    class Own(np.ndarray):
        pass

    mapped = np.memmap(tmp_path / "mapped", np.float32, "w+", shape=(2,))
    mapped[:] = [1, 2]
    for given in (np.array([1, 2]).view(Own), mapped, np.ma.masked_array([1, 2]).filled(0)):
        assert stored_value("float32", given, (2,)).tolist() == [1, 2]
        assert stored_value("float32", [given, given], (2, 2)).tolist() == [[1, 2]] * 2
    refuses(TypeError, "field 'value': a masked array", stored_value, "float32", np.ma.masked)


class Tensor:
    """Stands in for a tensor of torch that cannot be converted to numpy."""

    def __init__(self, dtype, requires_grad, error):
        self.dtype, self.requires_grad, self.error = dtype, requires_grad, error
        self.device = type("Device", (), {"type": "cpu"})

    def __array__(self, dtype=None, copy=None):
        raise self.error


GRADIENT = RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach()")
UNKNOWN = TypeError("Got unsupported ScalarType BFloat16")


def tensors():
    """Yields tensors that cannot be converted, each with a part of the error's text."""
    yield pytest.param(Tensor("torch.float32", True, GRADIENT), "requires grad", id="gradient")
    yield pytest.param(Tensor("torch.bfloat16", True, GRADIENT), "requires grad", id="both")
    yield pytest.param(Tensor("torch.bfloat16", False, UNKNOWN), "[Bb][Ff]loat16", id="bfloat16")
    try:
        import torch
    except ImportError:
        return
    for dtype in (torch.float32, torch.bfloat16):
        given = torch.ones(2, dtype=dtype, requires_grad=True)
        yield pytest.param(given, "requires grad", id=f"of torch, {dtype}")
    given = torch.ones(2, dtype=torch.bfloat16)
    yield pytest.param(given, "[Bb][Ff]loat16", id="of torch, without gradient")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given, why", [*tensors()])
def test_a_tensor_that_cannot_be_converted_is_refused_by_name(given, why, name, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    refuses((ValueError, TypeError), rf"(^|: ){name}: .*{why}", refusals(given)[name])


def test_a_tensor_of_bfloat16_without_ml_dtypes_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    given = Tensor("torch.bfloat16", False, UNKNOWN)
    with pytest.raises(
        TypeError, match="^Writer.append: field 'value': .*package ml_dtypes.*pip install ml_dt"
    ):
        stored_value("float32", given, (2,))


def test_other_errors_of_a_conversion_are_not_changed():
    with pytest.raises(RuntimeError, match="^its own$"):
        stored_value("float32", Tensor("other", False, RuntimeError("its own")), (2,))
