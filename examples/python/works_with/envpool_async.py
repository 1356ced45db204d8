"""EnvPool's asynchronous mode: each call steps the 4 of 16 environments that answer first."""

import envpool
import numpy as np
import reprise

envs = envpool.make_gymnasium("CartPole-v1", num_envs=16, batch_size=4, seed=1)
schema = reprise.Schema.from_spaces(envs.observation_space, envs.action_space)
replay = reprise.ReplayBuffer(schema, 100_000)
writers = replay.vector_writer(envs)

random = np.random.default_rng(1)
action = np.zeros(16, np.int64)  # Each environment's last action.
envs.async_reset()
writers.begin()
for _ in range(400):
    obs, reward, terminated, truncated, info = envs.recv()
    ids = info["env_id"]  # The environments to which the arrays' rows belong.
    end = reprise.ends(terminated, truncated)
    writers.append(env_ids=ids, action=action[ids], reward=reward, next_obs=obs, end=end)
    action[ids] = random.integers(2, size=len(ids))
    envs.send(action[ids], ids)

print(len(replay), "steps;", replay.sampler(seed=1).sample(32)["obs"].shape)
