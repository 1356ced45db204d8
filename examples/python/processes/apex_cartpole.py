#!/usr/bin/env python3
"""The DQN of dqn_cartpole.py as Ape-X: simulators in other processes, one learner, one buffer.

Actors append to the learner's buffer. One actor is killed wherever its work is, and started again.
Exits with 0 if the task is then solved in time. With --picture the program also measures the
steps/s of 1, 2 and 4 actors that nothing holds back, and draws them.
"""

import argparse
import contextlib
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import reprise
import torch

sys.path.append(str(Path(__file__).parents[1]))
from dqn_cartpole import (
    BATCH,
    BEGIN,
    BETA,
    SCREEN_EVERY,
    Actor,
    Learner,
    make_buffer,
    make_network,
    solved,
)

ENVIRONMENTS = 8  # Number of environments of each actor.
PUBLISH_EVERY, SHOW_EVERY, KILL_AT = 10, 50, 400  # In updates.
MEASURED, MEASURED_SECONDS = (1, 2, 4), 3.0  # Numbers of actors, and seconds for each.
START = multiprocessing.get_context("spawn")  # Any start method would do.


class Board:
    """Memory that all processes share, with the learner's newest parameters."""

    def __init__(self):
        size = sum(one.numel() for one in make_network().parameters())
        self.parameters = START.RawArray("f", size)

    def publish(self, network):
        flat = torch.nn.utils.parameters_to_vector(network.parameters())
        np.frombuffer(self.parameters, np.float32)[:] = flat.detach().numpy()

    def read(self, network):
        flat = torch.frombuffer(self.parameters, dtype=torch.float32).clone()
        torch.nn.utils.vector_to_parameters(flat, network.parameters())


def act(address, actor, actors, board, seed):
    """An actor's process: steps its environments until the buffer is closed."""
    torch.set_num_threads(1)
    # As in Ape-X the environments of all actors together range from exploring to nearly greedy.
    epsilons = 0.4 ** np.linspace(1, 8, actors * ENVIRONMENTS)[actor::actors]
    network = make_network()
    with contextlib.suppress(reprise.Closed, KeyboardInterrupt), reprise.attach(address) as guest:
        simulators = Actor(guest, seed, epsilons)
        while True:
            board.read(network)
            simulators.step(network)  # Waits if the learner is too far behind.


def learn(replay, start, number, board, seed, seconds):
    """Learns from `number` actors; start(i) starts actor i. Returns whether the task was solved in
    `seconds`, after an actor was killed."""
    learner = Learner()
    board.publish(learner.online)
    actors = [start(actor) for actor in range(number)]
    began = time.monotonic()
    for batch in replay.prefetch(BATCH, beta=BETA, seed=seed, timeout=seconds):
        replay.update_priorities(batch.item_keys, learner.learn(batch))
        if learner.updates % PUBLISH_EVERY == 0:
            board.publish(learner.online)
        if learner.updates % SHOW_EVERY == 0:
            rate = replay.stats()["committed_steps"] / (time.monotonic() - began)
            print(f"\r{learner.updates:6} updates, {rate:6.0f} steps/s", end="\r", flush=True)
        if learner.updates == KILL_AT:
            os.kill(actors[0].pid, signal.SIGKILL)
            actors[0].join()
            print("killed actor 0, which starts again", flush=True)
            actors[0] = start(0)
        if learner.updates % SCREEN_EVERY == 0 and solved(learner, seed, began):
            if learner.updates > KILL_AT:
                return True
        if time.monotonic() - began > seconds:
            break
    print(f"Not solved in {seconds:g} seconds.")
    return False


def steps_per_second(actors):
    """Returns how many steps/s `actors` actors append to a buffer that nobody draws from."""
    board = Board()
    board.publish(make_network())
    with make_buffer(rate_limiter=reprise.Unlimited()) as replay, replay.share() as address:
        started = [
            START.Process(target=act, args=(address, i, actors, board, i), daemon=True)
            for i in range(actors)
        ]
        for actor in started:
            actor.start()
        steps = lambda: replay.stats()["committed_steps"]
        while replay.stats()["writers"] < actors * ENVIRONMENTS or steps() == 0:
            if not all(actor.is_alive() for actor in started):
                raise RuntimeError("an actor ended before it had writers")
            time.sleep(0.01)
        before, began = steps(), time.monotonic()
        time.sleep(MEASURED_SECONDS)
        rate = (steps() - before) / (time.monotonic() - began)
    for actor in started:  # Actors end because the buffer was closed.
        actor.join()
    return rate


def draw_rates(path):
    rates = {}
    for actors in MEASURED:
        rates[actors] = steps_per_second(actors)
        print(f"{actors} actors: {rates[actors]:,.0f} steps/s", flush=True)
    try:
        import matplotlib
    except ImportError:
        print("no picture: there is no matplotlib")
        return
    matplotlib.use("svg")  # This backend needs no display. The file's ending decides the format.
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(list(rates), list(rates.values()), "o-")
    axes.set(xlabel="actor processes", ylabel="steps/s", ylim=(0, None))
    axes.set_title(f"{ENVIRONMENTS} CartPoles each, {os.cpu_count()} cores")
    axes.set_xticks(list(rates))
    figure.savefig(path)
    print(f"drawn: {path}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--actors", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120, help="to give up after")
    parser.add_argument("--picture", help="a file for the steps/s against the number of actors")
    options = parser.parse_args()
    torch.set_num_threads(1)  # The network is too small for several threads.
    torch.manual_seed(options.seed)
    limiter = reprise.SampleToInsertRatio(BATCH / 32, min_size=BEGIN, error_buffer=8 * BATCH)
    board = Board()
    started = []
    with make_buffer(rate_limiter=limiter) as replay, replay.share(ring_steps=8) as address:

        def start(actor):
            given = (address, actor, options.actors, board, options.seed * 1000 + len(started))
            started.append(START.Process(target=act, args=given, daemon=True))
            started[-1].start()
            return started[-1]

        done = learn(replay, start, options.actors, board, options.seed, options.seconds)
    for actor in started:  # Actors end because the buffer was closed.
        actor.join()
    if options.picture:
        draw_rates(options.picture)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
