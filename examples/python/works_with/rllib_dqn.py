"""RLlib's DQN on its new API stack, with a prioritized buffer that its checkpoints hold."""

import reprise.rllib
from ray.rllib.algorithms.dqn import DQNConfig

config = (
    DQNConfig(algo_class=reprise.rllib.DQN)
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0)
    .training(
        n_step=3,
        num_steps_sampled_before_learning_starts=100,
        train_batch_size_per_learner=32,
        replay_buffer_config={
            "type": "reprise.rllib.PrioritizedEpisodeReplayBuffer",
            **{"capacity": 50_000, "alpha": 0.6, "beta": 0.4, "n_step": 3},
        },
    )
)
algorithm = config.build_algo()
algorithm.train()
print(len(algorithm.local_replay_buffer), "steps")
algorithm.stop()
