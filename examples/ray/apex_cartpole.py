#!/usr/bin/env python3
"""The DQN of examples/python over a Ray cluster of several nodes on this machine, as in Ape-X.

Each actor has a node of its own, steps its environments, and sends the steps to the shards of one
replay buffer; one learner draws from all shards. On the way one shard is killed, and comes back
from its newest checkpoint while the learner goes on. Exits with 0 if CartPole is solved after that.
"""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# With Ray's default niceness the shards get less processor time, and the learner waits for them.
os.environ.setdefault("RAY_worker_niceness", "0")
# The actors' processes import dqn_cartpole too, so they inherit the path.
PYTHON_EXAMPLES = str(Path(__file__).resolve().parents[1] / "python")
os.environ["PYTHONPATH"] = os.pathsep.join([PYTHON_EXAMPLES, os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, PYTHON_EXAMPLES)

import numpy as np
import ray
import reprise
import reprise.ray
import torch
from dqn_cartpole import (
    BATCH,
    BEGIN,
    BETA,
    ENVIRONMENTS,
    SCREEN_EPISODES,
    SOLVED,
    TEST_EPISODES,
    Actor,
    Learner,
    make_buffer,
    make_network,
    mean_return,
)
from ray.cluster_utils import Cluster

NODES = 2  # Nodes with an actor; the learner and the shards share another node.
SHARDS = 3
PUBLISH_EVERY = 20  # Number of updates.
SCREEN_EVERY = 250  # Number of updates.
SAVE_AT, KILL_AT = 400, 600  # Numbers of updates.
STORE_BYTES = 80 << 20  # Size of Ray's object store on each node.
BATCH_TIMEOUT = 5.0  # After so long without a batch the learner looks for dead actors.


@ray.remote(num_cpus=1, max_concurrency=2)
class RemoteActor:
    """Steps its environments with the newest parameters that `set_parameters` was given."""

    def __init__(self, replay, seed):
        torch.set_num_threads(1)
        self.replay, self.seed = replay, seed
        self.parameters = make_network().state_dict()

    def set_parameters(self, parameters):
        self.parameters = {name: torch.from_numpy(value) for name, value in parameters.items()}

    def act(self):
        actor, network, loaded = Actor(self.replay, self.seed), make_network(), None
        with contextlib.suppress(reprise.Closed):
            while True:
                if loaded is not self.parameters:
                    loaded = self.parameters
                    network.load_state_dict(loaded)
                actor.step(network)  # Waits if the learner is too far behind.


class Progress:
    """The data of the picture, with a row for each screening."""

    def __init__(self, replay, learner):
        self.replay, self.learner = replay, learner
        self.began = self.last = time.monotonic()
        self.samples = 0
        self.rows, self.alive = [], []
        self.killed = None

    def record_alive(self):
        """Records the number of shards alive whenever it changes."""
        alive = self.replay.shards_alive
        if not self.alive or self.alive[-1][1] != alive:
            self.alive.append((self.seconds(), alive))
            self.log(f"{alive} of {SHARDS} shards are alive")

    def seconds(self):
        return time.monotonic() - self.began

    def log(self, text):
        print(f"{self.seconds():6.1f} s {self.learner.updates:6} updates  {text}", flush=True)

    def screen(self, seed):
        """Plays greedy episodes and, if their mean return is high enough, a longer test. Returns
        whether the mean return of the last of the two solves the task."""
        now, samples = time.monotonic(), self.learner.updates * BATCH
        rate = (samples - self.samples) / (now - self.last)
        network = self.learner.target
        score = mean_return(network, SCREEN_EPISODES, (seed, self.learner.updates, 0))
        self.rows.append((self.seconds(), score, rate))
        self.log(f"mean return {score:5.1f}, {rate:8,.0f} samples/s")
        if score >= SOLVED:
            score = mean_return(network, TEST_EPISODES, (seed, self.learner.updates, 1))
            self.log(f"test of {TEST_EPISODES} episodes: mean return {score:5.1f}")
        self.last, self.samples = time.monotonic(), samples
        return score >= SOLVED

    def draw(self, path):
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        seconds, returns, rates = np.array(self.rows).T
        figure, (top, middle, bottom) = plt.subplots(
            3, 1, sharex=True, figsize=(8, 7), height_ratios=(3, 2, 1)
        )
        top.plot(seconds, returns, marker=".")
        top.axhline(SOLVED, color="grey", linestyle=":")
        top.set_ylabel("mean return")
        middle.plot(seconds, rates, marker=".")
        middle.set_ylabel("samples per second")
        middle.set_ylim(bottom=0)
        times, alive = np.array([*self.alive, (seconds[-1], self.alive[-1][1])]).T
        bottom.step(times, alive, where="post")
        bottom.set_ylabel("shards alive")
        bottom.set_ylim(0, SHARDS + 0.5)
        bottom.set_xlabel("seconds")
        if self.killed is not None:
            for axes in (top, middle, bottom):
                axes.axvline(self.killed, color="tab:red", linestyle="--", linewidth=1)
            top.set_title("An actor per node, one learner; a shard is killed at the dashed line")
        figure.tight_layout()
        figure.savefig(path)
        print(f"The picture is {path}")


def check_running(running):
    """Raises the error of an actor that has ended: no actor should end before the buffer is
    closed."""
    ended, _ = ray.wait(running, timeout=0)
    if ended:
        ray.get(ended)
        raise RuntimeError("an actor ended before the buffer was closed")


def train(replay, seed, seconds, checkpoints, picture):
    """Returns whether the task was solved in time, after a shard was lost and came back."""
    learner = Learner()
    actors = [
        RemoteActor.options(resources={f"node{i}": 1}).remote(replay, (seed, i))
        for i in range(NODES)
    ]
    running = [actor.act.remote() for actor in actors]
    progress, solved, saving = Progress(replay, learner), False, None
    with replay.prefetch(BATCH, beta=BETA, seed=seed, timeout=BATCH_TIMEOUT) as batches:
        while progress.seconds() <= seconds:
            try:
                batch = next(batches)
            except TimeoutError as error:
                progress.log(str(error))
                check_running(running)
                continue
            replay.update_priorities(batch.item_keys, learner.learn(batch))
            progress.record_alive()
            if learner.updates % PUBLISH_EVERY == 0:
                check_running(running)
                parameters = ray.put(
                    {name: value.numpy() for name, value in learner.online.state_dict().items()}
                )
                for actor in actors:
                    actor.set_parameters.remote(parameters)
            if learner.updates == SAVE_AT:
                saving = threading.Thread(target=replay.save, args=(checkpoints,))
                saving.start()
            if learner.updates == KILL_AT:
                saving.join()
                progress.killed = progress.seconds()
                progress.log("one shard is killed")
                os.kill(replay.stats()["shards"][0]["pid"], signal.SIGKILL)
            if learner.updates % SCREEN_EVERY == 0 and progress.screen(seed):
                recovered = progress.killed is not None and replay.shards_alive == SHARDS
                # Without a restart the loss may just not have been noticed yet.
                solved = recovered and replay.stats()["restarts"] > 0
                if solved:
                    break
    stats = replay.stats()
    names = ("lost_shards", "restarts", "lost_steps", "lost_in_flight_steps", "stale_updates")
    progress.log(", ".join(f"{name} {stats[name]}" for name in names))
    if picture and progress.rows:
        progress.draw(picture)
    replay.close()  # Closing the buffer ends the actors.
    ray.wait(running, num_returns=len(running), timeout=10.0)
    return solved


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=180, help="to give up after")
    parser.add_argument("--picture", default="ray_cartpole.png", help="a file, or nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)  # The network is too small for several threads.
    torch.manual_seed(options.seed)

    print(f"Starting a cluster of {1 + NODES} nodes on this machine", flush=True)
    node = {"object_store_memory": STORE_BYTES}
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False, **node}
    )
    with tempfile.TemporaryDirectory() as checkpoints:
        try:
            for i in range(NODES):
                cluster.add_node(num_cpus=1, resources={f"node{i}": 1}, **node)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            limiter = reprise.SampleToInsertRatio(
                samples_per_insert=BATCH / ENVIRONMENTS, min_size=BEGIN, error_buffer=32 * BATCH
            )
            replay = make_buffer(reprise.ray.ReplayBuffer, shards=SHARDS, rate_limiter=limiter)
            solved = train(replay, options.seed, options.seconds, checkpoints, options.picture)
        finally:
            ray.shutdown()
            cluster.shutdown()
    print("Solved." if solved else f"Not solved in {options.seconds:g} seconds.")
    return 0 if solved else 1


if __name__ == "__main__":
    sys.exit(main())
