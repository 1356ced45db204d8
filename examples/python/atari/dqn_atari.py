#!/usr/bin/env python3
"""Learns an Atari game from its pixels: a dueling double DQN with prioritized 3-step replay.

One thread steps several games of ale-py, appends single frames to the buffer, and learns from
batches that reprise.torch.loader draws meanwhile; stacks of four frames are made on the network's
device. Prints frames and updates per second, and the share of time and the memory that replay
takes. Draws the returns of the games that explore least.

The defaults are a short run on two cores: small frames, a small network. On an accelerator
`--game pong --size 84 --network nature --steps 5000000 --seconds inf --target 18` goes on until the
mean return is 18.
"""

import argparse
import math
import sys
import time
from collections import deque

import numpy as np
import reprise
import torch
from ale_py.vector_env import AtariVectorEnv
from reprise.torch import loader
from torch import nn

STACK, N_STEP, DISCOUNT = 4, 3, 0.99
ALPHA, BETA = 0.5, 0.4  # The exponents of prioritized replay.
SKIP = 4  # Number of frames of the game for which a step repeats its action.
EPISODES = 20  # Number of episodes that a mean return is of.
# For each convolution: number of filters, their size and stride in pixels. Then the hidden layer.
NETWORKS = {
    "small": ([(16, 8, 4), (32, 4, 2)], 128),
    "nature": ([(32, 8, 4), (64, 4, 2), (64, 3, 1)], 512),
}


class Network(nn.Module):
    """Computes action values: the state's value plus each action's advantage, less the mean
    advantage."""

    def __init__(self, kind, size, actions):
        super().__init__()
        filters, hidden = NETWORKS[kind]
        layers, channels = [], STACK
        for out, width, stride in filters:
            layers += [nn.Conv2d(channels, out, width, stride), nn.ReLU()]
            channels, size = out, (size - width) // stride + 1
        self.body = nn.Sequential(*layers, nn.Flatten())
        flat = channels * size * size
        self.value = nn.Sequential(nn.Linear(flat, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.advantage = nn.Sequential(
            nn.Linear(flat, hidden), nn.ReLU(), nn.Linear(hidden, actions)
        )

    def forward(self, stacks):
        seen = self.body(stacks.float() / 255)
        advantage = self.advantage(seen)
        return self.value(seen) + advantage - advantage.mean(1, keepdim=True)


class Learner:
    def __init__(self, options, actions):
        self.online = Network(options.network, options.size, actions).to(options.device)
        self.target = Network(options.network, options.size, actions).to(options.device)
        self.optimizer = torch.optim.Adam(self.online.parameters(), options.rate, eps=1e-4)
        self.target_every = options.target_every
        self.updates = 0

    def learn(self, batch):
        """Makes one update; returns the new priorities [B]."""
        if self.updates % self.target_every == 0:
            self.target.load_state_dict(self.online.state_dict())
        with torch.no_grad():
            following = batch["next_frame"]
            best = self.online(following).argmax(1, keepdim=True)
            value = self.target(following).gather(1, best).squeeze(1)
            targets = batch.returns["reward"] + batch.discounts * value
        values = self.online(batch["frame"]).gather(1, batch["action"][:, None]).squeeze(1)
        losses = nn.functional.smooth_l1_loss(values, targets, reduction="none")
        self.optimizer.zero_grad()
        (batch.weights * losses).mean().backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.optimizer.step()
        self.updates += 1
        return (targets - values.detach()).abs()


class Games:
    """Games that step together, their last observations, and their episodes' returns."""

    def __init__(self, options):
        self.envs = AtariVectorEnv(
            options.game.lower(),
            options.environments,
            img_height=options.size,
            img_width=options.size,
            stack_num=1,  # The buffer stores each frame once and makes the stacks.
            frameskip=SKIP,
            max_num_frames_per_episode=options.longest,
            reward_clipping=False,
        )
        self.actions = int(self.envs.single_action_space.n)
        self.random = np.random.default_rng(options.seed)
        # Exploration as in Ape-X: epsilon is 0.4^1 to 0.4^8. A single game gets 0.4^8.
        exponents = np.linspace(8, 1, options.environments)[::-1]
        self.epsilons = 0.4**exponents
        self.greedy = exponents >= exponents[-1] * 0.75
        self.frames = self.envs.reset(seed=options.seed)[0][:, 0]
        self.stacks = torch.from_numpy(np.repeat(self.frames[:, None], STACK, 1)).to(options.device)
        self.ended = np.zeros(options.environments, bool)
        self.scores = np.zeros(options.environments)
        self.steps = 0
        self.returns = []  # (steps so far, return) of each episode of the games that explore least.

    @torch.no_grad()
    def choose(self, network):
        actions = network(self.stacks).argmax(1).cpu().numpy()
        at_random = self.random.random(len(actions)) < self.epsilons
        return np.where(at_random, self.random.integers(self.actions, size=len(actions)), actions)

    def step(self, action):
        """Steps all games and updates `frames`. Returns rewards [E] and ends [E]."""
        seen, reward, terminated, truncated, _ = self.envs.step(action)
        self.frames = seen[:, 0]
        frames = torch.from_numpy(self.frames).to(self.stacks.device)
        self.stacks = torch.cat((self.stacks[:, 1:], frames[:, None]), 1)
        # The call after an end resets that game and returns its first frame.
        for i in np.flatnonzero(self.ended):
            self.stacks[i] = frames[i]
        self.steps += int((~self.ended).sum())
        self.scores += reward
        self.ended = terminated | truncated
        for i in np.flatnonzero(self.ended):
            if self.greedy[i]:
                self.returns.append((self.steps, self.scores[i]))
            self.scores[i] = 0
        return np.sign(reward), reprise.ends(terminated, truncated)

    def mean_return(self):
        last = [score for _, score in self.returns[-EPISODES:]]
        return float(np.mean(last)) if last else math.nan


class Stopwatch:
    """Sums the seconds spent within its `with` blocks."""

    seconds = 0.0

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *error):
        self.seconds += time.perf_counter() - self.begin


def make_buffer(options):
    schema = reprise.Schema()
    schema.observation("frame", np.uint8, (options.size, options.size)).compress("frame")
    schema.column("action", np.int64)
    schema.reward("reward")
    return reprise.ReplayBuffer(
        schema,
        options.capacity,
        window=reprise.Transitions(n_step=N_STEP, discount=DISCOUNT, frame_stack=STACK),
        selectors=reprise.Proportional(alpha=ALPHA),
        rate_limiter=reprise.MinSize(options.begin),
    )


def train(options):
    """Trains, and prints a line of figures from time to time. Returns the games."""
    games = Games(options)
    learner = Learner(options, games.actions)
    replay = make_buffer(options)
    writers = replay.vector_writer(games.envs)
    writers.begin(frame=games.frames)
    batches = loader(replay, options.batch, device=options.device, beta=BETA, seed=options.seed)
    replay_time, updates_due = Stopwatch(), 0.0
    started = printed_at = time.perf_counter()

    def status_line():
        seconds = time.perf_counter() - started
        gigabytes = replay.stats()["touched_bytes"] / max(len(replay), 1) * 1e6 / 1e9
        return (
            f"{seconds:5.0f} s {games.steps:8} steps, return {games.mean_return():6.1f}; "
            f"{SKIP * games.steps / seconds:6.0f} frames/s, {learner.updates / seconds:5.1f} "
            f"updates/s; replay: {100 * replay_time.seconds / seconds:4.1f}% of the time, "
            f"{gigabytes:.2f} GB per million steps"
        )

    with batches:
        while games.steps < options.steps and time.perf_counter() - started < options.seconds:
            before = games.steps
            action = games.choose(learner.online)
            reward, end = games.step(action)
            with replay_time:
                writers.append(action=action, reward=reward, next_frame=games.frames, end=end)
            if len(replay) >= options.begin:
                updates_due += (games.steps - before) * options.updates_per_step
            while updates_due >= 1:
                with replay_time:
                    batch = next(batches)
                errors = learner.learn(batch)
                with replay_time:
                    batches.update_priorities(batch.item_keys, errors)
                updates_due -= 1
            if time.perf_counter() - printed_at > options.say_every:
                printed_at = time.perf_counter()
                print(status_line(), flush=True)
            if len(games.returns) >= EPISODES and games.mean_return() >= options.target:
                break
    print(status_line())
    return games


def mean_of_last(returns):
    """Yields, after each episode, (steps so far, mean of the last EPISODES returns)."""
    recent = deque(maxlen=EPISODES)
    for step, score in returns:
        recent.append(score)
        yield step, sum(recent) / len(recent)


def draw(options, returns):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.5), layout="constrained")
    axes.plot(*zip(*returns), ".", color="0.8", label="episodes")
    axes.plot(*zip(*mean_of_last(returns)), label=f"mean of the last {EPISODES}")
    axes.set(xlabel=f"steps of {SKIP} frames", ylabel="return", title=options.game)
    axes.legend()
    figure.savefig(options.plot)
    print("Drew", options.plot)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--game", default="kung_fu_master")
    parser.add_argument("--steps", type=int, default=300_000, help="of all games together")
    parser.add_argument("--seconds", type=float, default=480, help="to end after")
    parser.add_argument("--target", type=float, default=math.inf, help="mean return to end at")
    parser.add_argument("--environments", type=int, default=16)
    parser.add_argument("--longest", type=int, default=20_000, help="episode, in frames")
    parser.add_argument("--size", type=int, default=42, help="of a frame, in pixels")
    parser.add_argument("--network", choices=NETWORKS, default="small")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--updates-per-step", type=float, default=1 / 8)
    parser.add_argument("--capacity", type=int, default=1_000_000, help="of the buffer, in steps")
    parser.add_argument(
        "--begin", type=int, default=5_000, help="steps before learning begins; at least a batch"
    )
    parser.add_argument("--rate", type=float, default=2.5e-4, help="of learning")
    parser.add_argument("--target-every", type=int, default=500, help="updates")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--say-every", type=float, default=10, help="seconds")
    parser.add_argument("--plot", help="file to draw the returns into")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    options.begin = max(options.begin, options.batch)  # A draw waits for as many items.
    return options


def main(arguments=None):
    """Returns 1 if a target was given and missed."""
    options = parse_arguments(arguments)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # The games need the other processors.
    returns = train(options).returns
    scores = [score for _, score in returns]
    if n := min(EPISODES, len(scores) // 2):
        first, last = np.mean(scores[:n]), np.mean(scores[-n:])
        print(f"Mean return of the first {n} episodes {first:.1f}, of the last {last:.1f}")
    if options.plot and returns:
        draw(options, returns)
    reached = scores and np.mean(scores[-EPISODES:]) >= options.target
    return 1 if math.isfinite(options.target) and not reached else 0


if __name__ == "__main__":
    sys.exit(main())
