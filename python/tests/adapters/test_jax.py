"""Batches as pytrees, with JAX itself."""

import numpy as np
import pytest
from testing.buffers import fill
from testing.children import run_python

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import reprise  # noqa: E402
import reprise.jax  # noqa: E402


def test_a_jitted_function_takes_a_batch(buffer):
    fill(buffer, 50)
    batch = buffer.sampler().sample(16, beta=1.0)

    @jax.jit
    def loss(scale, batch):
        assert isinstance(batch, reprise.Tensors)
        error = batch.returns["reward"] + batch.discounts * batch["next_state"][:, 0]
        return (batch.weights * scale * (error - batch["state"][:, 0])).sum(), batch.lengths

    expected = batch.returns["reward"] + batch.discounts * batch["next_state"][:, 0]
    expected = (batch.weights * 2 * (expected - batch["state"][:, 0])).sum()
    value, lengths = loss(2.0, batch)
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    np.testing.assert_array_equal(lengths, batch.lengths)
    assert loss._cache_size() == 1  # Compiled once.
    loss(2.0, buffer.sampler(seed=5).sample(16))
    # Batches of one schema and size have one type, so the second call does not compile again.
    assert loss._cache_size() == 1


@pytest.mark.parametrize("first", ["reprise.jax", "reprise.ray"])
def test_batches_of_a_cluster_are_trees(first):
    pytest.importorskip("ray")
    code = f"""
import {first}, jax, numpy, reprise, reprise.jax, reprise.ray

schema = reprise.Schema().observation("x", "f4").reward()
replay = reprise.ReplayBuffer(schema, 100, selectors=reprise.Uniform())
replay.writer().append_episode(x=numpy.arange(9), reward=numpy.ones(8))
batch = reprise.ray.Batch(replay.sampler().sample(4), 1, 7)
loss = jax.jit(lambda batch: (batch["x"] + batch.returns["reward"] + batch.weights).sum())
assert loss(batch) == (batch["x"] + 2).sum()
print("summed")
"""
    result = run_python(code)
    assert "summed" in result.stdout, result.stderr


def test_a_tree_keeps_names_and_values(buffer):
    fill(buffer, 50)
    batch = buffer.sampler().sample(4)
    moved = jax.device_put(batch)
    assert set(moved) == set(batch) and set(moved.returns) == {"reward"}
    for name, array in batch.items():
        np.testing.assert_array_equal(moved[name], array)
    doubled = jax.tree.map(lambda x: x * 2, moved)
    np.testing.assert_array_equal(doubled["state"], 2 * batch["state"])
    np.testing.assert_array_equal(doubled.weights, 2 * batch.weights)
    assert len(jax.tree.leaves(batch)) == 4 + 1 + 3  # Fields, a return, and three columns.


def test_appends_take_arrays_of_jax(buffer):
    writer = buffer.writer()
    writer.begin_episode(state=jnp.zeros(2))
    writer.append(action=jnp.int32(1), reward=jnp.float32(0.5), next_state=jnp.ones(2))
    assert buffer.sampler().sample(1)["next_state"].tolist() == [[1, 1]]


def test_a_batch_that_is_filled_again_is_copied(buffer):
    fill(buffer, 50)
    sampler = buffer.sampler()
    for views, batch in (
        (False, sampler.sample(4)),
        (True, sampler.sample(4, views=True)),
        (True, sampler.empty_batch(4)),
    ):
        arrays, _ = reprise.jax._flatten(batch)
        assert np.shares_memory(arrays[0], batch["state"]) != views
        np.testing.assert_array_equal(arrays[0], batch["state"])


def test_a_mirrors_batch_is_taken_without_copying():
    torch = pytest.importorskip("torch")
    from reprise.torch import mirror

    schema = reprise.Schema().observation("state", np.float32, (3,)).column("action", np.int32)
    replay = reprise.ReplayBuffer(schema.reward(), 100, window=reprise.Transitions(n_step=3))
    with replay.writer() as writer:
        seen = np.random.default_rng(1).random((41, 3))
        writer.append_episode(state=seen, action=np.arange(40), reward=np.arange(40))
    batch = mirror(replay, "cpu", seed=5).sample(16)
    here = replay.sampler(seed=5).sample(16)
    taken = jax.tree.map(jax.dlpack.from_dlpack, batch)
    assert list(taken) == ["state", "next_state", "action", "reward"]
    for name, array in taken.items():
        assert array.unsafe_buffer_pointer() == batch[name].data_ptr(), name
        np.testing.assert_array_equal(array, here[name])
    np.testing.assert_array_equal(taken.returns["reward"], here.returns["reward"])
    for name in ("discounts", "weights", "lengths"):
        assert isinstance(getattr(batch, name), torch.Tensor)
        np.testing.assert_array_equal(getattr(taken, name), getattr(here, name))
