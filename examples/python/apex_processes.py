#!/usr/bin/env python3
"""The DQN of dqn_cartpole.py as Ape-X: simulators in processes of their own, one learner, one buffer.

Actors append to the learner's buffer. One is killed on the way, in the middle of whatever it does,
and started again. Exits with 0 if it is solved in time after that.
"""

import argparse
import contextlib
import multiprocessing
import os
import signal
import sys
import time

import numpy as np
import reprise
import torch
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

ENVIRONMENTS = 8  # The environments of each actor.
PUBLISH_EVERY, KILL_AT = 10, 400  # Updates.
START = multiprocessing.get_context("spawn")  # Any start method would do.


class Board:
    """Memory of all processes, which holds the learner's newest parameters."""

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
    """The work of an actor process: it steps its environments until the learner has ended."""
    torch.set_num_threads(1)
    # As in Ape-X: from exploring to nearly greedy, over the environments of all actors.
    epsilons = 0.4 ** np.linspace(1, 7, actors * ENVIRONMENTS)[actor::actors]
    network = make_network()
    with contextlib.suppress(reprise.Closed, KeyboardInterrupt), reprise.attach(address) as guest:
        simulators = Actor(guest, seed, epsilons)
        while True:
            board.read(network)
            simulators.step(network)  # Waits while the learner is too far behind.


def learn(replay, start, number, board, seed, seconds):
    """`start`: starts an actor, of so many. Returns whether it was solved in time."""
    learner = Learner()
    board.publish(learner.online)
    actors = [start(actor) for actor in range(number)]
    began = time.monotonic()
    for batch in replay.prefetch(BATCH, beta=BETA, seed=seed, timeout=seconds):
        replay.update_priorities(batch.item_keys, learner.learn(batch))
        if learner.updates % PUBLISH_EVERY == 0:
            board.publish(learner.online)
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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--actors", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120, help="to give up after")
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
    for actor in started:  # They end as the buffer is closed.
        actor.join()
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
