import pickle

import numpy as np
import pytest

from testing.refusals import refuses
import reprise


def make(window=None, dtype=np.float32, shape=(3,), **options):
    schema = (
        reprise.Schema()
        .observation("state", np.int64)
        .mutable_column("latent", dtype, shape)
        .reward()
    )
    window = window or reprise.Transitions()
    return reprise.ReplayBuffer(
        schema, 1024, window=window, selectors=reprise.Uniform(), shards=1, **options
    )


def fill(buffer, steps, latent=(0, 0, 0)):
    with buffer.writer(timeout=0) as writer:
        writer.begin_episode(state=0)
        for i in range(steps):
            end = reprise.End.TRUNCATED if i == steps - 1 else reprise.End.CONTINUE
            writer.append(latent=latent, reward=i, next_state=i + 1, end=end)


def everything(buffer):
    """Returns a batch of all items, sorted by position."""
    n = buffer.stats()["items"] if len(buffer) else 0
    batch = buffer.sampler().sample(n, draws="without_replacement", timeout=0)
    return buffer.gather(batch.item_keys[np.argsort(batch.positions)])


def test_an_update_replaces_values_and_counts_stale_keys():
    buffer = make()
    fill(buffer, 6)
    keys = everything(buffer).item_keys.copy()
    buffer.remove(keys[:1])
    values = np.arange(18, dtype=np.float32).reshape(6, 3)
    result = buffer.update(keys, "latent", values)
    assert result == reprise.UpdateResult(applied=5, stale=1)
    np.testing.assert_array_equal(buffer.gather(keys[1:])["latent"], values[1:])
    np.testing.assert_array_equal(everything(buffer)["reward"], np.arange(1, 6))


def test_an_append_of_a_vector_writer_sets_the_first_values():
    buffer = make()
    writers = buffer.vector_writer(2, autoreset="disabled")
    writers.begin(state=[0, 0])
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    for rows in ([0, 1], [2, 3]):
        writers.append(latent=values[rows], reward=rows, next_state=[0, 0], end=[0, 0])
    batch = everything(buffer)
    assert sorted(batch["reward"]) == [0, 1, 2, 3]
    np.testing.assert_array_equal(batch["latent"], values[batch["reward"].astype(int)])


def test_sequences_take_a_value_for_each_step_or_for_the_first():
    buffer = make(reprise.Sequences(length=4, period=2, end="drop"))
    fill(buffer, 8)
    keys = everything(buffer).item_keys.copy()  # The items begin at steps 0, 2 and 4.
    values = np.arange(12, dtype=np.float32).reshape(1, 4, 3) + 1
    assert buffer.update(keys[1:2], "latent", values).applied == 1
    latents = buffer.gather(keys)["latent"]
    np.testing.assert_array_equal(latents[1], values[0])
    # The neighbouring items show the same values in the steps that they share with the item.
    np.testing.assert_array_equal(latents[0, 2:], values[0, :2])
    np.testing.assert_array_equal(latents[2, :2], values[0, 2:])
    np.testing.assert_array_equal(latents[0, :2], 0)
    buffer.update(keys[1:], "latent", np.full((2, 3), 7))
    latents = buffer.gather(keys)["latent"]
    np.testing.assert_array_equal(latents[1, 0], 7)
    np.testing.assert_array_equal(latents[1, 1], values[0, 1])
    np.testing.assert_array_equal(latents[2, 0], 7)


def test_an_update_may_skip_the_first_steps_of_each_window():
    buffer = make(reprise.Sequences(length=2, period=2, burn_in=1, end="continue"), shape=())
    fill(buffer, 5, latent=0)
    keys = everything(buffer).item_keys.copy()  # The items begin at steps 0 and 2.
    values = np.float32([[-1, 1, 2], [-1, 3, 4]])
    assert buffer.update(keys, "latent", values, skip=1) == (2, 0)
    np.testing.assert_array_equal(buffer.gather(keys)["latent"], [[0, 1, 2], [2, 3, 4]])
    refuses(ValueError, "skip is 3; allowed: below", buffer.update, keys, "latent", values, skip=3)
    refuses(ValueError, "skip is -1; allowed", buffer.update, keys, "latent", values, skip=-1)
    # Without `skip` the second item writes its own value to the step that both items have.
    buffer.update(keys, "latent", values)
    np.testing.assert_array_equal(buffer.gather(keys)["latent"], [[-1, 1, -1], [-1, 3, 4]])


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "int64", "bool"])
def test_every_type_and_shape(dtype, shape):
    buffer = make(dtype=np.dtype(dtype), shape=shape)
    fill(buffer, 9, np.zeros(shape, dtype))
    keys = everything(buffer).item_keys.copy()
    values = np.random.default_rng(3).integers(0, 2, (9, *shape)).astype(dtype)
    buffer.update(keys, "latent", values)
    np.testing.assert_array_equal(everything(buffer)["latent"], values)
    # Keys may have any strides.
    buffer.update(keys[::-1], "latent", values)
    np.testing.assert_array_equal(everything(buffer)["latent"], values[::-1])


def test_tensors_are_taken_as_values():
    torch = pytest.importorskip("torch")
    buffer = make()
    fill(buffer, 4)
    keys = everything(buffer).item_keys.copy()
    values = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    assert buffer.update(torch.from_numpy(keys), "latent", values).applied == 4
    np.testing.assert_array_equal(everything(buffer)["latent"], values.numpy())


def test_a_refused_update_changes_no_value():
    buffer = make(reprise.Sequences(length=4, period=2, end="drop"))
    fill(buffer, 8)
    keys = everything(buffer).item_keys.copy()
    for error, message, arguments in [
        (ValueError, "allowed: mutable columns, .*: latent", (keys, "reward", np.zeros(3))),
        (ValueError, "allowed: mutable columns", (keys, "next_latent", np.zeros((3, 3)))),
        (ValueError, r"expected float32 of shape \(3, 3\)", (keys, "latent", np.zeros((2, 3)))),
        (ValueError, r"expected shape \(3, 4, ...\)", (keys, "latent", np.zeros((3, 3, 3)))),
        (ValueError, r"expected shape \(3, 4, ...\)", (keys, "latent", np.zeros((2, 4, 3)))),
        (ValueError, r"expected float32 of shape \(12, 3\)", (keys, "latent", np.ones((3, 4, 2)))),
        (TypeError, "expected float32", (keys, "latent", np.zeros((3, 3), complex))),
        (TypeError, "expected int64", (keys.astype(float), "latent", np.ones((3, 3)))),
        (ValueError, "keys of this buffer", (keys ^ 1 << 60, "latent", np.ones((3, 3)))),
    ]:
        refuses(error, message, buffer.update, *arguments)
    assert not everything(buffer)["latent"].any()
    assert buffer.update(keys[:0], "latent", np.zeros((0, 3))) == (0, 0)
    refuses(ValueError, "'latent' is a mutable column", buffer.schema.compress, "latent")


def test_a_schema_tells_which_columns_are_mutable():
    schema = reprise.Schema().observation("x", np.int8).mutable_column("latent", np.float32, (2,))
    assert schema.fields[1].role == reprise.Role.MUTABLE_COLUMN
    assert (
        repr(schema)
        == "Schema(x: observation int8 scalar, latent: mutable_column float32 of shape (2,))"
    )
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert schema != reprise.Schema().observation("x", np.int8).column("latent", np.float32, (2,))
