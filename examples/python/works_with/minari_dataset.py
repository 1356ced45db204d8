"""Offline data of Minari: here a data set that its own collector makes. With download=True a name
such as "D4RL/door/human-v2" gets one from Minari's server."""

import gymnasium
import minari
import reprise.minari

env = minari.DataCollector(gymnasium.make("CartPole-v1"))
for episode in range(10):
    env.reset(seed=episode)
    done = False
    while not done:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        done = terminated or truncated
dataset = env.create_dataset("cartpole/random-v0", algorithm_name="random")

replay = reprise.minari.load(dataset)
print(len(replay), "steps;", replay.sampler(seed=1).sample(32)["obs"].shape)
