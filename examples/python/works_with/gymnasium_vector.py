"""Eight environments of Gymnasium step together; the writer handles how they reset themselves."""

import gymnasium
import reprise

envs = gymnasium.make_vec("CartPole-v1", 8)
schema = reprise.Schema.from_spaces(envs.single_observation_space, envs.single_action_space)
replay = reprise.ReplayBuffer(schema, 100_000)
writers = replay.vector_writer(envs)  # It follows the auto-reset mode of envs.

obs, _ = envs.reset(seed=1)
writers.begin(obs=obs)
for _ in range(100):
    action = envs.action_space.sample()
    obs, reward, terminated, truncated, _ = envs.step(action)
    end = reprise.ends(terminated, truncated)
    writers.append(action=action, reward=reward, next_obs=obs, end=end)

batch = replay.sampler(seed=1).sample(32)
print(len(replay), "steps;", batch["obs"].shape, batch["next_obs"].shape)
