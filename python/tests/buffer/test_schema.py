import numpy as np
import pytest
from testing.refusals import refuses

import reprise

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


def test_fields_are_what_was_declared(schema):
    assert schema.fields == (
        reprise.Field("state", reprise.Role.OBSERVATION, np.dtype("float32"), (2,)),
        reprise.Field("action", reprise.Role.COLUMN, np.dtype("int32"), ()),
        reprise.Field("reward", reprise.Role.REWARD, np.dtype("float32"), ()),
    )
    assert schema.step_bytes == 16


def test_declarations_return_the_schema():
    schema = reprise.Schema()
    assert schema.observation("x", "f4") is schema
    assert schema.reward() is schema


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_of_numpy(dtype):
    schema = reprise.Schema().observation("x", dtype, (3, 2))
    assert schema.fields[0].dtype == np.dtype(dtype)
    assert schema.step_bytes == 6 * np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", ["float128", "complex64", "U3", "O", "datetime64[s]"])
def test_other_dtypes_are_type_errors(dtype):
    with pytest.raises(TypeError, match="field 'x': dtype is .*allowed: bool, int8"):
        reprise.Schema().observation("x", dtype)


@pytest.mark.parametrize("name", ["end", "priorities", "final", "env_ids"])
def test_keywords_of_appends_are_refused_as_names(name):
    with pytest.raises(ValueError, match=f"field '{name}'.*reserved: end, priorities, final"):
        reprise.Schema().column(name, "f4")


def test_names_of_next_observations_are_refused_as_names():
    with pytest.raises(ValueError, match="next observation of field 'x'"):
        reprise.Schema().observation("x", "f4").column("next_x", "f4")
    with pytest.raises(ValueError, match="field 'next_x'"):
        reprise.Schema().column("next_x", "f4").observation("x", "f4")
    # `next_x` is free, because a column has no next value.
    reprise.Schema().column("x", "f4").column("next_x", "f4")


def test_a_refused_field_leaves_the_schema_as_it_was(schema):
    before = schema.fields
    for given in (("state", "f4"), ("", "f4"), ("x", "f4", (0,))):
        refuses(ValueError, "field '", schema.column, *given)
    refuses(TypeError, "field 'x': shape is 'abc'", schema.column, "x", "f4", "abc")
    assert schema.fields == before


def test_from_step_infers_dtypes_and_shapes():
    schema = reprise.Schema.from_step(
        observations={"frame": np.zeros((4, 3), np.uint8), "angle": 0.5},
        columns={"action": 3, "legal": [True, False], "logits": np.zeros(2)},
        rewards=("reward", "bonus"),
        discount="gamma",
        recurrent_states={"lstm": np.zeros((2, 5), np.float32)},
        mutable_columns={"value": 0.0},
    )
    found = {f.name: (f.role.name, f.dtype.name, f.shape) for f in schema.fields}
    assert found == {
        "frame": ("OBSERVATION", "uint8", (4, 3)),
        "angle": ("OBSERVATION", "float32", ()),
        "action": ("COLUMN", "int64", ()),
        "legal": ("COLUMN", "bool", (2,)),
        "logits": ("COLUMN", "float64", (2,)),
        "reward": ("REWARD", "float32", ()),
        "bonus": ("REWARD", "float32", ()),
        "gamma": ("DISCOUNT", "float32", ()),
        "lstm": ("RECURRENT_STATE", "float32", (2, 5)),
        "value": ("MUTABLE_COLUMN", "float32", ()),
    }


def test_schemas_are_compared_and_shown_by_their_fields(schema):
    same = reprise.Schema().observation("state", "f4", (2,)).column("action", "i4").reward()
    assert schema == same
    assert schema != same.discount()
    assert "action: column int32 scalar" in repr(schema)
    frames = reprise.Schema().observation("plain", "u1", (512,)).observation("frame", "u1", (512,))
    assert repr(frames.compress("frame")) == (
        "Schema(plain: observation uint8 of shape (512,), "
        "frame: observation uint8 of shape (512,), compressed)"
    )


def test_ends():
    ends = reprise.ends([False, True, False, True], [False, False, True, True])
    assert ends.dtype == np.uint8
    assert ends.tolist() == [0, 1, 2, 1]
    assert int(reprise.ends(np.False_, True)) == reprise.End.TRUNCATED
    assert reprise.ends([0, 1, 0], np.array([0, 1, 1], np.uint8)).tolist() == [0, 1, 2]
    said = "terminated: expected bools, or 0 and 1; given float64"
    refuses(TypeError, said, reprise.ends, [0.0], [False])
    refuses(ValueError, "truncated has 2; allowed: bools, or 0 and 1", reprise.ends, [0], [2])
    refuses(ValueError, "truncated: expected shape", reprise.ends, [True], [False, False])


def test_from_step_says_what_is_wrong():
    with pytest.raises(TypeError, match="from_step: observations is None; allowed: a mapping"):
        reprise.Schema.from_step(observations=None)
    for wrong in ("text", object(), np.zeros(2, complex), None):
        with pytest.raises(TypeError, match="field 'x': dtype is .*; allowed: bool, int8 to"):
            reprise.Schema.from_step(observations={"x": wrong})


def test_from_step_keeps_the_examples_alive_while_it_converts_them():
    class Value:
        def __array__(self, *given, **named):
            examples.clear()
            return np.zeros(3, np.int16)

    class Name(str):  # Unlike a str it is never interned, so only the dict keeps it alive.
        pass

    examples = {Name(f"x{i}"): Value() for i in range(20)}
    schema = reprise.Schema.from_step(observations=examples, rewards=())
    assert [field.name for field in schema.fields] == [f"x{i}" for i in range(20)]
    assert not examples


def test_a_dtype_of_none_is_refused():
    schema = reprise.Schema()
    for declare in (schema.observation, schema.column, schema.recurrent_state):
        with pytest.raises(TypeError, match="field 'a': dtype is None; allowed: bool, int8 to"):
            declare("a", None, ())
    assert schema.fields == ()


def test_finite_observations_and_rewards_are_required_on_request():
    schema = reprise.Schema().observation("x", "f8", (2,)).column("action", "f4").reward()
    assert not schema.requires_finite
    assert schema.require_finite() is schema and schema.requires_finite
    assert schema == reprise.Schema().observation("x", "f8", (2,)).column("action", "f4").reward()
    good = {"action": np.nan, "reward": 1.0, "next_x": [1.0, 2.0]}
    buffer = reprise.ReplayBuffer(schema, 100, window=reprise.Transitions(n_step=1))
    with buffer.writer() as writer:
        writer.begin_episode(x=[0.0, 0.0])
        writer.append(**good)
        with pytest.raises(ValueError, match="'x' of the next step is nan at element 1, in step 1"):
            writer.append(**{**good, "next_x": [1.0, np.nan]})
        with pytest.raises(ValueError, match="'reward' of the current step is -inf"):
            writer.append(**{**good, "reward": -np.inf})
        writer.append(**good)
        with pytest.raises(ValueError, match="'x' of the current step is inf"):
            writer.append_transition(x=[np.inf, 0.0], **good)
        assert writer.episode_steps == 2
        with pytest.raises(ValueError, match="'x' is nan at element 1 of row 0; allowed: finite"):
            writer.begin_episode(x=[0.0, np.nan])
        assert writer.episode_steps == 2, "a refused begin_episode ended the episode"
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(x=np.zeros((2, 2)))
    step = {"action": np.zeros(2), "next_x": np.zeros((2, 2)), "end": np.zeros(2, int)}
    with pytest.raises(ValueError, match="'reward' is nan at element 0 of row 1; allowed: finite"):
        writers.append(reward=[0.0, np.nan], **step)
    writers.append(reward=[0.0, 1.0], **step)
    assert buffer.stats()["committed_steps"] == 4
    with pytest.raises(ValueError, match="'x' is inf at element 1 of row 0"):
        buffer.vector_writer(1, autoreset="same_step").begin(x=[[0.0, np.inf]])
    schema.require_finite(False)
    assert not schema.requires_finite
    refuses(TypeError, "require_finite: on", schema.require_finite, "yes")


def test_a_checkpoint_keeps_require_finite(tmp_path):
    for on in (False, True):
        schema = reprise.Schema().observation("x", "f4").reward().require_finite(on)
        reprise.ReplayBuffer(schema, 10).save(tmp_path / str(on))
        assert reprise.ReplayBuffer.load(tmp_path / str(on)).buffer.schema.requires_finite is on


def test_final_observations_are_checked_only_of_ended_environments():
    schema = reprise.Schema().observation("x", "f4").reward().require_finite()
    buffer = reprise.ReplayBuffer(schema, 100, window=reprise.Transitions(n_step=1))
    writers = buffer.vector_writer(2, autoreset="same_step")
    writers.begin(x=np.zeros(2))
    step = {"reward": np.zeros(2), "next_x": np.zeros(2), "end": np.array([1, 0])}
    with pytest.raises(ValueError, match=r"'final.x' is nan at element 0 of row 0"):
        writers.append(**step, final={"x": np.array([np.nan, 1.0])})
    assert buffer.stats()["committed_steps"] == 0
    # Only the first environment ended, so only its final value is read.
    writers.append(**step, final={"x": np.array([1.0, np.nan])})
    assert buffer.stats()["committed_steps"] == 2


def test_more_dimensions_than_an_array_of_a_batch_can_have_are_refused():
    schema = reprise.Schema()
    schema.observation("most", np.float32, (1,) * 29)
    with pytest.raises(ValueError, match="'x': shape has 30 dimensions; allowed: at most 29"):
        schema.observation("x", np.float32, (1,) * 30)
    window = reprise.Transitions(frame_stack=2)
    buffer = reprise.ReplayBuffer(schema.column("a", np.int64), 10, window=window)
    assert buffer.sampler().empty_batch(2)["most"].ndim == 31


def test_a_name_with_a_nul_is_refused():
    schema = reprise.Schema()
    said = "field 'x...': the name has a NUL"
    refuses(ValueError, said, schema.column, "x\0y", np.int8)
    assert not schema.fields
