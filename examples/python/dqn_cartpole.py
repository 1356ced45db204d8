#!/usr/bin/env python3
"""Learns to balance Gymnasium's CartPole: a double DQN with prioritized 3-step replay.

One thread in turn steps environments, appends to the buffer and learns from it. The task is solved
with a mean return of at least 475 over 100 greedy episodes with starts of their own, which neither
training nor screening has seen. Exits with 0 if the task is solved in time.
"""

import argparse
import sys
import time

import gymnasium
import numpy as np
import reprise
import torch
from torch import nn

ENVIRONMENTS, CAPACITY = 32, 50_000  # The capacity is in steps.
N_STEP, DISCOUNT = 3, 0.99
ALPHA, BETA = 0.6, 0.4  # The exponents of prioritized replay.
BATCH, BEGIN = 128, 2_000  # Number of items of a batch, and in the buffer when learning begins.
LEARNING_RATE, AVERAGING = 1e-3, 0.02  # The target network moves by AVERAGING per update.
EPSILONS = 0.4 ** np.linspace(1, 8, ENVIRONMENTS)  # As in Ape-X: from exploring to nearly greedy.
SCREEN_EVERY = 250  # Number of updates between screenings.
SCREEN_EPISODES, TEST_EPISODES, SOLVED = (
    40,
    100,
    475.0,
)  # Episodes, and the mean return that solves it.


def make_environments(n, seed):
    """Makes n environments that step together; returns them and their first states [n, 4]."""
    envs = gymnasium.make_vec("CartPole-v1", n)
    state, _ = envs.reset(seed=int(np.random.SeedSequence(seed).generate_state(1)[0]))
    return envs, state


def make_network():
    hidden = [nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(128, 2))


@torch.no_grad()
def greedy(network, state):
    return network(torch.from_numpy(state)).argmax(1).numpy()


class Actor:
    """Steps environments, and appends the steps to the buffer."""

    def __init__(self, replay, seed, epsilons=EPSILONS):
        self.random, self.epsilons = np.random.default_rng(seed), epsilons
        self.envs, self.state = make_environments(len(epsilons), seed)
        self.writers = replay.vector_writer(self.envs)
        self.writers.begin(state=self.state)

    def step(self, network):
        """Acts greedily, or at random with each environment's own probability."""
        action = greedy(network, self.state)
        explores = self.random.random(len(action)) < self.epsilons
        action[explores] = self.random.integers(2, size=explores.sum())
        self.state, reward, terminated, truncated, _ = self.envs.step(action)
        end = reprise.ends(terminated, truncated)
        self.writers.append(action=action, reward=reward, next_state=self.state, end=end)


def mean_return(network, episodes, seed):
    """Returns the mean return of greedy episodes, one in each environment."""
    envs, state = make_environments(episodes, seed)
    running, total = np.ones(episodes, bool), 0.0
    while running.any():
        state, reward, terminated, truncated, _ = envs.step(greedy(network, state))
        total += reward[running].sum()
        running &= ~(terminated | truncated)
    return total / episodes


class Learner:
    def __init__(self):
        self.online, self.target, self.updates = make_network(), make_network(), 0
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), LEARNING_RATE)

    def learn(self, batch):
        """Makes one update; returns the new priorities [B] of the batch."""
        t = batch.torch()  # Tensors that share the memory of the batch.
        with torch.no_grad():
            # next_state is the state N_STEP steps later, or the episode's last state; the discount
            # is 0 if the episode terminated there.
            best = self.online(t["next_state"]).argmax(1, keepdim=True)
            value = self.target(t["next_state"]).gather(1, best).squeeze(1)
            targets = t.returns["reward"] + t.discounts * value
        values = self.online(t["state"]).gather(1, t["action"].unsqueeze(1)).squeeze(1)
        losses = nn.functional.smooth_l1_loss(values, targets, reduction="none")
        self.optimizer.zero_grad()
        (t.weights * losses).mean().backward()
        self.optimizer.step()
        for average, newest in zip(self.target.parameters(), self.online.parameters()):
            average.data.lerp_(newest.data, AVERAGING)
        self.updates += 1
        return (targets - values.detach()).abs().numpy()


def solved(learner, seed, started):
    """Tests the target network, which changes less from update to update. Returns whether it passes
    the screening and the test."""
    for episodes in SCREEN_EPISODES, TEST_EPISODES:
        mean = mean_return(learner.target, episodes, (seed, learner.updates, episodes))
        now, label = time.monotonic() - started, f"mean return of {episodes} episodes"
        print(f"{now:5.1f} s {learner.updates:6} updates, {label}: {mean:5.1f}", flush=True)
        if mean < SOLVED:
            return False
    return True


def make_buffer(make=reprise.ReplayBuffer, **options):
    schema = reprise.Schema().observation("state", np.float32, (4,)).column("action", np.int64)
    window = reprise.Transitions(n_step=N_STEP, discount=DISCOUNT)
    selector = reprise.Proportional(alpha=ALPHA)
    return make(schema.reward(), CAPACITY, window=window, selectors=selector, **options)


def train(seed, seconds):
    """Returns whether the task was solved in time."""
    torch.manual_seed(seed)
    replay, learner = make_buffer(), Learner()
    actor, sampler = Actor(replay, seed), replay.sampler(seed=seed)
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        actor.step(learner.online)
        if len(replay) < BEGIN:
            continue
        batch = sampler.sample(BATCH, beta=BETA)
        replay.update_priorities(batch.item_keys, learner.learn(batch))
        if learner.updates % SCREEN_EVERY == 0 and solved(learner, seed, started):
            stats = replay.stats()
            times = stats["samples_per_insert"]
            print(f"reprise holds {stats['items']} steps, each drawn {times:.0f} times on average")
            return True
    print(f"Not solved in {seconds:g} seconds.")
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="to give up after (%(default)g)")
    options = parser.parse_args()
    torch.set_num_threads(1)  # The network is too small for several threads.
    return 0 if train(options.seed, options.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
