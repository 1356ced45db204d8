#!/usr/bin/env python3
"""The DQN of dqn_cartpole.py with actors in other threads, and batches that are drawn ahead.

Actors append and the learner samples without waiting for each other; only the rate limiter holds
back the side that is too far ahead. Exits with 0 if the task is solved in time.
"""

import argparse
import contextlib
import sys
import threading
import time

import reprise
import torch
from dqn_cartpole import (
    BATCH,
    BEGIN,
    BETA,
    ENVIRONMENTS,
    SCREEN_EVERY,
    Actor,
    Learner,
    make_buffer,
    make_network,
    solved,
)

PUBLISH_EVERY = 10  # Number of updates after which the weights are published.


class Board:
    """Holds a copy of the learner's newest parameters for the actors."""

    def __init__(self, network):
        self.publish(network)

    def publish(self, network):
        self.parameters = {name: value.clone() for name, value in network.state_dict().items()}


def act(replay, board, seed):
    """An actor's thread: steps its environments until the buffer is closed."""
    actor, network, parameters = Actor(replay, seed), make_network(), None
    with contextlib.suppress(reprise.Closed):
        while True:
            if parameters is not board.parameters:
                parameters = board.parameters
                network.load_state_dict(parameters)
            actor.step(network)  # Waits if the learner is too far behind.


def train(actors, seed, seconds):
    """Returns whether the task was solved in time."""
    torch.manual_seed(seed)
    limiter = reprise.SampleToInsertRatio(
        samples_per_insert=BATCH / ENVIRONMENTS, min_size=BEGIN, error_buffer=8 * BATCH
    )
    learner = Learner()
    board = Board(learner.online)
    with make_buffer(rate_limiter=limiter) as replay:
        threads = [
            threading.Thread(target=act, args=(replay, board, (seed, actor)))
            for actor in range(actors)
        ]
        for thread in threads:
            thread.start()
        try:
            return learn(replay, learner, board, seed, seconds)
        finally:
            replay.close()  # Closing the buffer ends the actors.
            for thread in threads:
                thread.join()


def learn(replay, learner, board, seed, seconds):
    started = time.monotonic()
    with replay.prefetch(BATCH, depth=2, beta=BETA, seed=seed, timeout=1.0) as batches:
        while time.monotonic() - started <= seconds:
            try:
                batch = next(batches)
            except TimeoutError:
                continue  # Actors begin slowly. If all have failed, the time limit ends the run.
            replay.update_priorities(batch.item_keys, learner.learn(batch))
            if learner.updates % PUBLISH_EVERY == 0:
                board.publish(learner.online)
            if learner.updates % SCREEN_EVERY == 0 and solved(learner, seed, started):
                return True
    print(f"Not solved in {seconds:g} seconds.")
    return False


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--actors", type=int, default=2, help="threads")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="to give up after")
    options = parser.parse_args()
    torch.set_num_threads(1)  # The network is too small for several threads.
    return 0 if train(options.actors, options.seed, options.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
