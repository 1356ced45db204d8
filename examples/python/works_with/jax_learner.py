"""A batch is a pytree of JAX, so a compiled function takes it as a whole."""

import jax
import jax.numpy as jnp
import numpy as np
import reprise
import reprise.jax

schema = reprise.Schema().observation("obs", np.float32, (4,)).column("action", np.int64).reward()
replay = reprise.ReplayBuffer(schema, 10_000)
with replay.writer() as writer:
    writer.append_episode(obs=np.random.random((1001, 4)), action=[0] * 1000, reward=[1] * 1000)


@jax.jit
def errors(weights, batch):
    target = batch.returns["reward"] + batch.discounts * (batch["next_obs"] @ weights)
    return target - batch["obs"] @ weights


sampler = replay.sampler(seed=1)
for _ in range(20):
    batch = sampler.sample(256)
    replay.update_priorities(batch.item_keys, jnp.abs(errors(jnp.ones(4), batch)))
print(len(replay), "steps;", batch["obs"].shape)
