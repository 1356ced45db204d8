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

ENVIRONMENTS, CAPACITY = 32, 50_000  # The capacity is in steps.
N_STEP, DISCOUNT = 3, 0.99
ALPHA, BETA = 0.6, 0.4  # The exponents of prioritized replay.
BATCH, BEGIN = 128, 2_000  # Items of a batch, and in the buffer before learning begins.
LEARNING_RATE = 1e-3
AVERAGING = 0.02  # How far each update moves the target network towards the online network.
EPSILONS = 0.4 ** np.linspace(1, 7, ENVIRONMENTS)  # As in Ape-X: from exploring to nearly greedy.
SCREEN_EVERY = 250  # In updates.
SCREENED, TESTED, SOLVED = 40, 100, 475.0  # Episodes, and the mean return that solves it.


class CartPoles:
    """A vector of poles on carts, pushed left or right by 10 N.

    The dynamics are of Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve
    difficult learning control problems", 1983, without friction, integrated by Euler's method.
    """

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE = 9.8, 1.0, 0.1, 0.5, 10.0  # m/s^2, kg, kg, m, N
    FARTHEST, STEEPEST = 2.4, np.deg2rad(12)  # In m and rad; beyond either, the episode ends.
    SECONDS, TIME_LIMIT = 0.02, 500  # Between two steps; in steps.

    def __init__(self, environments, seed):
        self.random = np.random.default_rng(seed)
        self.state = self.starts(environments)  # Position, speed, angle, angular speed.
        self.steps = np.zeros(environments, np.int64)

    def starts(self, n):
        return self.random.uniform(-0.05, 0.05, (n, 4)).astype(np.float32)

    def step(self, action):
        """Returns rewards, terminated, truncated and final states, [E, ...] each. Where an episode
        ended, `self.state` is then the first one of the next episode already."""
        _, speed, angle, turn = self.state.T
        mass, sine, cosine = self.CART + self.POLE, np.sin(angle), np.cos(angle)
        push = np.where(action == 1, self.FORCE, -self.FORCE)
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
    hidden = [nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(128, 2))


@torch.no_grad()
def greedy(network, state):
    return network(torch.from_numpy(state)).argmax(1).numpy()


def explore(network, state, random):
    """Greedy actions, and random ones at each environment's own rate."""
    at_random = random.random(ENVIRONMENTS) < EPSILONS
    return np.where(at_random, random.integers(2, size=ENVIRONMENTS), greedy(network, state))


def mean_return(network, episodes, seed):
    """The mean return of greedy episodes, one in each environment."""
    poles, running, total = CartPoles(episodes, seed), np.ones(episodes, bool), 0.0
    while running.any():
        reward, terminated, truncated, _ = poles.step(greedy(network, poles.state))
        total += reward[running].sum()
        running &= ~(terminated | truncated)
    return total / episodes


class Learner:
    def __init__(self):
        self.online, self.target, self.updates = make_network(), make_network(), 0
        self.target.load_state_dict(self.online.state_dict())
        self.pairs = list(zip(self.target.parameters(), self.online.parameters()))
        self.optimizer = torch.optim.Adam(self.online.parameters(), LEARNING_RATE)

    def learn(self, batch):
        """One update; returns the new priorities of the batch, [B]."""
        t = batch.torch()  # Tensors that share the memory of the batch.
        with torch.no_grad():
            # N_STEP steps later, or at the episode's end; where it terminated, the discount is 0.
            best = self.online(t["next_state"]).argmax(1, keepdim=True)
            value = self.target(t["next_state"]).gather(1, best).squeeze(1)
            targets = t.returns["reward"] + t.discounts * value
        values = self.online(t["state"]).gather(1, t["action"].unsqueeze(1)).squeeze(1)
        losses = nn.functional.smooth_l1_loss(values, targets, reduction="none")
        self.optimizer.zero_grad()
        (t.weights * losses).mean().backward()
        self.optimizer.step()
        with torch.no_grad():
            for average, parameter in self.pairs:
                average.lerp_(parameter, AVERAGING)
        self.updates += 1
        return (targets - values.detach()).abs().numpy()


def solved(learner, seed, started):
    """Whether the target network, which is steadier, passes screening and test."""
    network, seeds = learner.target, (seed, learner.updates)
    mean = mean_return(network, SCREENED, (*seeds, 0))
    seconds = time.monotonic() - started
    print(f"{seconds:5.1f} s {learner.updates:6} updates, mean return {mean:5.1f}", flush=True)
    if mean < SOLVED:
        return False
    mean = mean_return(network, TESTED, (*seeds, 1))
    seconds = time.monotonic() - started
    print(f"{seconds:5.1f} s test of {TESTED} episodes: mean return {mean:5.1f}")
    return mean >= SOLVED


def make_buffer(**options):
    schema = reprise.Schema().observation("state", np.float32, (4,)).column("action", np.int64)
    window = reprise.Transitions(n_step=N_STEP, discount=DISCOUNT)
    by_priority = reprise.Proportional(alpha=ALPHA)
    return reprise.ReplayBuffer(
        schema.reward(), CAPACITY, window=window, selectors=by_priority, **options
    )


def train(seed, seconds):
    """Returns whether it was solved in time."""
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    replay, learner, poles = make_buffer(), Learner(), CartPoles(ENVIRONMENTS, seed)
    writers = replay.vector_writer(ENVIRONMENTS, autoreset="same_step")
    sampler = replay.sampler(seed=seed)
    writers.begin(state=poles.state)
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        action = explore(learner.online, poles.state, random)
        reward, terminated, truncated, final = poles.step(action)
        step = {"action": action, "reward": reward, "next_state": poles.state}
        end = reprise.ends(terminated, truncated)
        writers.append(**step, end=end, final={"state": final})
        if len(replay) < BEGIN:
            continue
        batch = sampler.sample(BATCH, beta=BETA)
        replay.update_priorities(batch.item_keys, learner.learn(batch))
        if learner.updates % SCREEN_EVERY == 0 and solved(learner, seed, started):
            held = replay.stats()
            times = held["sampled_items"] / held["items"]
            print(f"reprise holds {held['items']} steps, each drawn {times:.0f} times on average")
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
