#!/usr/bin/env python3
"""Learns to balance poles on carts: a double DQN with prioritized 3-step replay.

One thread steps a vector of environments, appends to the buffer and learns from it by turns. Solved:
a mean return of at least 475 over 100 greedy episodes on starts that neither training nor screening
has seen. Exits with 0 if that is reached in time.
"""

import argparse
import sys
import time

import numpy as np
import reprise
import torch
from torch import nn

ENVIRONMENTS = 32
CAPACITY = 50_000  # In steps.
N_STEP, DISCOUNT = 3, 0.99
ALPHA, BETA = 0.6, 0.4  # The exponents of prioritized replay.
BATCH = 128
BEGIN = 2_000  # Items in the buffer before learning begins.
LEARNING_RATE = 1e-3
AVERAGING = 0.02  # How far each update moves the target network towards the online network.
EPSILONS = 0.4 ** np.linspace(1, 7, ENVIRONMENTS)  # As in Ape-X: from exploring to nearly greedy.
SCREEN_EVERY = 250  # In updates.
# Numbers of episodes, and the mean return that solves it.
SCREENED, TESTED, SOLVED = 40, 100, 475.0


class CartPoles:
    """A vector of poles on carts, pushed left or right by 10 N.

    The dynamics are of Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve
    difficult learning control problems", 1983, without friction, integrated by Euler's method.
    """

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE = 9.8, 1.0, 0.1, 0.5, 10.0  # m/s^2, kg, kg, m, N
    SECONDS = 0.02  # The time between two steps.
    FARTHEST, STEEPEST = 2.4, np.deg2rad(12)  # In m and rad; beyond either, the episode ends.
    TIME_LIMIT = 500  # In steps.

    def __init__(self, environments, seed):
        self.random = np.random.default_rng(seed)
        self.state = self.starts(environments)  # Position, speed, angle, angular speed.
        self.steps = np.zeros(environments, np.int64)

    def starts(self, n):
        return self.random.uniform(-0.05, 0.05, (n, 4)).astype(np.float32)

    def step(self, action):
        """Returns rewards, terminated, truncated and final states, [E, ...] each.

        Where an episode ended, `self.state` is then the first one of the next episode already.
        """
        _, speed, angle, turn = self.state.T
        mass = self.CART + self.POLE
        push = np.where(action == 1, self.FORCE, -self.FORCE)
        sine, cosine = np.sin(angle), np.cos(angle)
        pull = (push + self.POLE * self.HALF_LENGTH * turn**2 * sine) / mass
        inertia = self.HALF_LENGTH * (4 / 3 - self.POLE * cosine**2 / mass)
        turning = (self.GRAVITY * sine - cosine * pull) / inertia
        speeding = pull - self.POLE * self.HALF_LENGTH * turning * cosine / mass
        final = self.state + self.SECONDS * np.stack((speed, speeding, turn, turning), axis=1)
        final = final.astype(np.float32)

        self.steps += 1
        terminated = (abs(final[:, 0]) > self.FARTHEST) | (abs(final[:, 2]) > self.STEEPEST)
        truncated = ~terminated & (self.steps == self.TIME_LIMIT)
        over = terminated | truncated
        self.state = final.copy()
        self.state[over] = self.starts(over.sum())
        self.steps[over] = 0
        return np.ones(len(action), np.float32), terminated, truncated, final


def make_network():
    return nn.Sequential(
        nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
    )


@torch.no_grad()
def greedy(network, state):
    return network(torch.from_numpy(state)).argmax(1).numpy()


def explore(network, state, random):
    """Greedy actions, and random ones at each environment's own rate."""
    at_random = random.random(ENVIRONMENTS) < EPSILONS
    return np.where(at_random, random.integers(2, size=ENVIRONMENTS), greedy(network, state))


def mean_return(network, episodes, seed):
    """The mean return of greedy episodes, one in each environment."""
    poles = CartPoles(episodes, seed)
    running = np.ones(episodes, bool)
    total = 0.0
    while running.any():
        reward, terminated, truncated, _ = poles.step(greedy(network, poles.state))
        total += reward[running].sum()
        running &= ~(terminated | truncated)
    return total / episodes


class Learner:
    def __init__(self):
        self.online, self.target = make_network(), make_network()
        self.target.load_state_dict(self.online.state_dict())
        self.pairs = list(zip(self.target.parameters(), self.online.parameters()))
        self.optimizer = torch.optim.Adam(self.online.parameters(), LEARNING_RATE)
        self.updates = 0

    def learn(self, batch):
        """One update; returns the new priorities of the batch, [B]."""
        # The tensors share the memory of the batch.
        state = torch.from_numpy(batch["state"])
        action = torch.from_numpy(batch["action"])
        next_state = torch.from_numpy(
            batch["next_state"]
        )  # N_STEP steps later, or at the episode's end.
        returns = torch.from_numpy(batch.returns["reward"])
        discounts = torch.from_numpy(
            batch.discounts
        )  # 0 where the episode terminated within the window.
        weights = torch.from_numpy(batch.weights)

        with torch.no_grad():
            best = self.online(next_state).argmax(1, keepdim=True)
            value = self.target(next_state).gather(1, best).squeeze(1)
            targets = returns + discounts * value
        values = self.online(state).gather(1, action.unsqueeze(1)).squeeze(1)
        losses = nn.functional.smooth_l1_loss(values, targets, reduction="none")
        self.optimizer.zero_grad()
        (weights * losses).mean().backward()
        self.optimizer.step()
        with torch.no_grad():
            for average, parameter in self.pairs:
                average.lerp_(parameter, AVERAGING)
        self.updates += 1
        return (targets - values.detach()).abs().numpy()


def solved(learner, seed, started):
    """Whether the target network, which is steadier, passes screening and test."""

    def passed():
        return f"{time.monotonic() - started:5.1f} s"

    screened = mean_return(learner.target, SCREENED, (seed, learner.updates, 0))
    print(f"{passed()} {learner.updates:6} updates, mean return {screened:5.1f}", flush=True)
    if screened < SOLVED:
        return False
    tested = mean_return(learner.target, TESTED, (seed, learner.updates, 1))
    print(f"{passed()} test of {TESTED} episodes: mean return {tested:5.1f}")
    return tested >= SOLVED


def make_buffer(**options):
    schema = reprise.Schema()
    schema.observation("state", np.float32, (4,))
    schema.column("action", np.int64)
    schema.reward("reward")
    return reprise.ReplayBuffer(
        schema,
        CAPACITY,
        window=reprise.Transitions(n_step=N_STEP, discount=DISCOUNT),
        selectors=reprise.Proportional(alpha=ALPHA),
        **options,
    )


def train(seed, seconds):
    """Returns whether it was solved in time."""
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    replay = make_buffer()
    writers = replay.vector_writer(ENVIRONMENTS, autoreset="same_step")
    sampler = replay.sampler(seed=seed)
    learner = Learner()
    poles = CartPoles(ENVIRONMENTS, seed)
    writers.begin(state=poles.state)

    started = time.monotonic()
    while time.monotonic() - started < seconds:
        action = explore(learner.online, poles.state, random)
        reward, terminated, truncated, final = poles.step(action)
        writers.append(
            action=action,
            reward=reward,
            next_state=poles.state,
            end=reprise.ends(terminated, truncated),
            final={"state": final},
        )
        if len(replay) < BEGIN:
            continue

        batch = sampler.sample(BATCH, beta=BETA)
        replay.update_priorities(batch.item_keys, learner.learn(batch))

        if learner.updates % SCREEN_EVERY == 0 and solved(learner, seed, started):
            return True
    print(f"Not solved in {seconds:g} seconds.")
    return False


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="to give up after")
    options = parser.parse_args()
    torch.set_num_threads(1)  # The network is too small for several threads.
    return 0 if train(options.seed, options.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
