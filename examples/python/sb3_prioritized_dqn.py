#!/usr/bin/env python3
"""Prioritized double DQN in Stable-Baselines3: the class below makes DQN use the weights of
reprise.sb3.PrioritizedReplayBuffer and write priorities back. It balances CartPole."""

import argparse

import torch
from reprise.sb3 import PrioritizedReplayBuffer
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from torch.nn import functional


class PrioritizedDQN(DQN):
    def train(self, gradient_steps, batch_size=100):
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                best = self.q_net(data.next_observations).argmax(1, keepdim=True)
                value = self.q_net_target(data.next_observations).gather(1, best)
                targets = data.rewards + (1 - data.dones) * data.discounts * value
            values = self.q_net(data.observations).gather(1, data.actions.long())
            losses = functional.smooth_l1_loss(values, targets, reduction="none")
            self.policy.optimizer.zero_grad()
            (data.weights * losses).mean().backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            self.replay_buffer.update_priorities(data.item_keys, (targets - values).abs())
        self._n_updates += gradient_steps


def make(seed, **options):
    return PrioritizedDQN(
        "MlpPolicy",
        "CartPole-v1",
        replay_buffer_class=PrioritizedReplayBuffer,
        replay_buffer_kwargs={"alpha": 0.6, "beta": 0.4, "n_steps": 3, "gamma": 0.99},
        learning_rate=1e-3,
        buffer_size=50_000,
        gradient_steps=2,
        target_update_interval=250,
        seed=seed,
        **options,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    learner = make(options.seed, learning_starts=1_000)
    learner.learn(options.steps)
    mean, spread = evaluate_policy(learner, learner.get_env(), n_eval_episodes=20)
    print(f"mean return {mean:.1f}, standard deviation {spread:.1f}, of 20 episodes")


if __name__ == "__main__":
    main()
