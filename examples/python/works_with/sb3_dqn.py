"""Stable-Baselines3's DQN with 3-step returns from reprise. ../sb3_prioritized_dqn.py shows what
DQN needs to draw by priority."""

from reprise.sb3 import ReplayBuffer
from stable_baselines3 import DQN

model = DQN(
    "MlpPolicy",
    "CartPole-v1",
    buffer_size=50_000,
    learning_starts=500,
    replay_buffer_class=ReplayBuffer,
    replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99},
    seed=1,
)
model.learn(1_000)
print(model.replay_buffer.size(), "steps;", model.replay_buffer.sample(32).observations.shape)
