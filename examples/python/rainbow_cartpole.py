#!/usr/bin/env python3
"""Learns to balance Gymnasium's CartPole with a small Rainbow (Hessel et al., 2018), in a minute.

The program is like CleanRL's rainbow_atari.py with another buffer: double, dueling, distributional
(C51), with noisy layers, n-step returns and draws by priority, whose beta rises to 1. cleanrl.md
shows the same changes in the original. Exits with 0 if the pole stays up for 475 of 500 steps."""

import math
from timeit import default_timer

import gymnasium
import numpy as np
import reprise
import torch
from torch import nn

ENVIRONMENTS, CAPACITY, BEGIN, BATCH, STEPS = 16, 50_000, 1_000, 128, 10_000
N_STEP, DISCOUNT, ALPHA, BETA = 5, 0.98, 0.5, 0.4
ATOMS, LOW, HIGH = 41, 0.0, 50.0  # The atoms of the distribution of returns, from LOW to HIGH.
LEARNING_RATE, AVERAGING, TEST_EVERY = 1e-3, 0.03, 500
SCREEN_EPISODES, TEST_EPISODES, SOLVED = (
    20,
    100,
    475.0,
)  # Episodes, and the mean return that solves it.


class Noisy(nn.Module):
    """A linear layer with learned noise (Fortunato et al., 2018), which replaces epsilon."""

    def __init__(self, inputs, outputs):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_noise = nn.Parameter(torch.full((outputs, inputs), 0.5 * bound))
        self.bias_noise = nn.Parameter(torch.full((outputs,), 0.5 * bound))

    def forward(self, x):
        if not self.training:
            return nn.functional.linear(x, self.weight, self.bias)
        outputs, inputs = self.weight.shape
        left, right = (
            n.sign() * n.abs().sqrt()
            for n in torch.randn(outputs + inputs).split((outputs, inputs))
        )
        weight = self.weight + self.weight_noise * left[:, None] * right
        return nn.functional.linear(x, weight, self.bias + self.bias_noise * left)


class Network(nn.Module):
    """Computes the logarithms of the probabilities of each action's atoms, [B, actions, ATOMS]."""

    def __init__(self, inputs, actions):
        super().__init__()
        self.actions = actions
        self.body = nn.Sequential(nn.Linear(inputs, 128), nn.ReLU())
        self.value = nn.Sequential(Noisy(128, 64), nn.ReLU(), Noisy(64, ATOMS))
        self.advantage = nn.Sequential(Noisy(128, 64), nn.ReLU(), Noisy(64, actions * ATOMS))
        self.register_buffer("support", torch.linspace(LOW, HIGH, ATOMS))

    def forward(self, x):
        x = self.body(x)
        advantage = self.advantage(x).view(-1, self.actions, ATOMS)
        atoms = self.value(x)[:, None] + advantage - advantage.mean(1, keepdim=True)
        return atoms.log_softmax(2)

    def greedy(self, x):
        return (self(x).exp() @ self.support).argmax(1)

    @torch.no_grad()
    def act(self, obs):
        return self.greedy(torch.from_numpy(obs)).numpy()


def project(atoms, returns, discounts):
    """Projects the distribution of returns + discounts * support onto the support, [B, ATOMS]."""
    support, gap = torch.linspace(LOW, HIGH, ATOMS), (HIGH - LOW) / (ATOMS - 1)
    moved = (returns[:, None] + discounts[:, None] * support).clamp(LOW, HIGH)
    overlap = 1 - (moved[:, None] - support[:, None]).abs() / gap  # [B, to, from]
    return (overlap.clamp(min=0) * atoms[:, None]).sum(2)


def learn(online, target, optimizer, batch):
    """Makes one update; returns the new priorities [B] of the batch."""
    t, rows = batch.torch(), torch.arange(len(batch))
    with torch.no_grad():
        best = online.greedy(t["next_obs"])
        next_atoms = target(t["next_obs"])[rows, best].exp()
        target_atoms = project(next_atoms, t.returns["reward"], t.discounts)
    losses = -(target_atoms * online(t["obs"])[rows, t["action"]]).sum(1)
    optimizer.zero_grad()
    (t.weights * losses).mean().backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10)
    optimizer.step()
    for slow, fast in zip(target.parameters(), online.parameters()):
        slow.data.lerp_(fast.data, AVERAGING)
    return losses.detach().numpy()


def mean_return(network, episodes, seed):
    """Returns the mean return of `episodes` greedy episodes."""
    envs = gymnasium.make_vec("CartPole-v1", episodes)
    (obs, _), running, total = envs.reset(seed=seed), np.ones(episodes, bool), 0.0
    network.eval()
    while running.any():
        obs, reward, terminated, truncated, _ = envs.step(network.act(obs))
        total += reward[running].sum()
        running &= ~(terminated | truncated)
    network.train()
    return total / episodes


def main():
    torch.set_num_threads(1)  # The network is too small for several threads.
    torch.manual_seed(1)
    started, envs = default_timer(), gymnasium.make_vec("CartPole-v1", ENVIRONMENTS)
    schema = reprise.Schema.from_spaces(envs.single_observation_space, envs.single_action_space)
    window = reprise.Transitions(n_step=N_STEP, discount=DISCOUNT)
    selector = reprise.Proportional(alpha=ALPHA)
    replay = reprise.ReplayBuffer(schema, CAPACITY, window=window, selectors=selector)
    writers, sampler = replay.vector_writer(envs), replay.sampler(seed=1)
    online, target = (Network(4, envs.single_action_space.n) for _ in range(2))
    target.load_state_dict(online.state_dict())
    optimizer, solved = torch.optim.Adam(online.parameters(), LEARNING_RATE, eps=1e-4), False

    obs, _ = envs.reset(seed=1)
    writers.begin(obs=obs)
    for step in range(STEPS):
        action = online.act(obs)
        obs, reward, terminated, truncated, _ = envs.step(action)
        end = reprise.ends(terminated, truncated)
        writers.append(action=action, reward=reward, next_obs=obs, end=end)
        if len(replay) < BEGIN:
            continue
        beta = BETA + (1 - BETA) * step / STEPS
        batch = sampler.sample(BATCH, beta=beta)
        replay.update_priorities(batch.item_keys, learn(online, target, optimizer, batch))
        if step % TEST_EVERY == 0:
            mean = mean_return(online, SCREEN_EPISODES, step)
            print(f"{default_timer() - started:4.0f} s, step {step}: mean return {mean:.0f}")
            if mean >= SOLVED and (
                solved := mean_return(online, TEST_EPISODES, step + 1) >= SOLVED
            ):
                break
    stats = replay.stats()
    print(
        f"{'solved' if solved else 'not solved'}; reprise holds {stats['items']} steps in "
        f"{stats['touched_bytes'] / 2**20:.1f} MiB, each drawn "
        f"{stats['samples_per_insert']:.1f} times on average"
    )
    return int(not solved)


if __name__ == "__main__":
    raise SystemExit(main())
