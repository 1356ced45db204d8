"""Measures what compressing the frames of Atari games saves and costs. Steps of random play of
several games go into one buffer that compresses and one that does not. Measurements of the two
buffers take turns, and the median of each figure is shown. Batches have four stacked frames.

There is a table for each game: memory per frame (`stats()["touched_bytes"]`, so everything is
included), batches of 512 per second with one processor and with two, and appends in microseconds of
the thread's processor time, of which Python takes 2 to 3 us. Processor time leaves out other
programs.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial

import numpy as np
import reprise

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import timing
from harness.tables import table

GAMES = ("pong", "breakout", "seaquest", "qbert", "ms_pacman", "space_invaders", "enduro")


def play(game, steps):
    """Plays at random. Returns the frames [steps, 84, 84], and for each step whether it ends an
    episode."""
    from ale_py.vector_env import AtariVectorEnv

    env = AtariVectorEnv(game=game, num_envs=1, stack_num=1, repeat_action_probability=0.0)
    random = np.random.default_rng(1)
    frames = np.empty((steps, 84, 84), np.uint8)
    ends = np.zeros(steps, bool)
    frame, _ = env.reset(seed=1)
    for step in range(steps):
        frames[step] = np.asarray(frame).reshape(84, 84)
        actions = random.integers(env.single_action_space.n, size=1)
        frame, _, terminated, truncated, _ = env.step(actions)
        ends[step] = terminated[0] or truncated[0]
    env.close()
    return frames, ends


def make(frames, ends, compressed):
    """Fills a buffer with the frames. Returns the buffer, and the processor microseconds of each
    append."""
    schema = reprise.Schema().observation("frame", np.uint8, (84, 84))
    if compressed:
        schema.compress("frame")
    replay = reprise.ReplayBuffer(
        schema.column("action", np.int32).reward(),
        len(frames) * 4 // 5,
        window=reprise.Transitions(frame_stack=4),
        max_writers=8,
    )
    writer = replay.writer()
    times = np.empty(len(frames) - 1)
    begun = False
    for step in range(len(frames) - 1):
        if not begun:
            writer.begin_episode(frame=frames[step])
            begun = True
        end = reprise.End.TRUNCATED if ends[step] else reprise.End.CONTINUE
        before = time.thread_time_ns()
        writer.append(action=1, reward=1.0, next_frame=frames[step + 1], end=end)
        times[step] = (time.thread_time_ns() - before) / 1000.0
        begun = not ends[step]
    len(replay)  # Ingests everything that was appended.
    return replay, times


def measure(game, steps, rounds, processors):
    """Returns the figures for plain and compressed frames, measured in this process with so many
    processors."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processors])
    frames, ends = play(game, steps)
    found = {}
    ways = {}
    for kind, compressed in (("plain", False), ("compressed", True)):
        replay, times = make(frames, ends, compressed)
        stats = replay.stats()
        found[kind] = {
            "bytes": stats["touched_bytes"] / len(replay),
            "median": float(np.percentile(times, 50)),
            "p99.9": float(np.percentile(times, 99.9)),
        }
        if compressed:
            found["ratio"] = stats["uncompressed_bytes"] / stats["compressed_bytes"]
        for what, unique in (("stacks", False), ("unique", True)):
            draw = partial(replay.sampler(unique_frames=unique).sample, 512)
            ways[kind, what] = partial(timing.per_second, draw, 0.5)
    for (kind, what), median in timing.medians(ways, rounds).items():
        found[kind][what] = median
    return found


def in_process(arguments, game, processors):
    command = [sys.executable, __file__, "--game", game, "--processors", str(processors)]
    command += ["--steps", str(arguments.steps), "--rounds", str(arguments.rounds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", nargs="+", default=GAMES, help="names of ALE")
    parser.add_argument("--steps", type=int, default=20_000, help="of each game")
    parser.add_argument("--rounds", type=int, default=7, help="of each measurement")
    parser.add_argument("--game", help=argparse.SUPPRESS)
    parser.add_argument("--processors", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.game:
        figures = measure(arguments.game, arguments.steps, arguments.rounds, arguments.processors)
        json.dump(figures, sys.stdout)
        return
    rows = []
    for game in arguments.games:
        print(f"Measuring {game}", file=sys.stderr, flush=True)
        one, two = (in_process(arguments, game, n) for n in (1, 2))
        plain, packed = one["plain"], one["compressed"]

        def beside(found, what):
            a, b = found["plain"][what], found["compressed"][what]
            return f"{b:.0f} of {a:.0f} ({b / a:.2f}x)"

        rows.append(
            [
                game,
                f"{packed['bytes']:.0f} of {plain['bytes']:.0f}",
                f"{plain['bytes'] / packed['bytes']:.1f}x",
                f"{one['ratio']:.1f}x",
                *(beside(found, what) for what in ("stacks", "unique") for found in (one, two)),
                *(f"{packed[p]:.1f} ({plain[p]:.1f})" for p in ("median", "p99.9")),
            ]
        )
    header = ["game", "bytes per step", "less memory", "frames alone", "stacks/s, 1", "stacks/s, 2"]
    print(table(header + ["unique/s, 1", "unique/s, 2", "append p50", "p99.9"], rows))


if __name__ == "__main__":
    main()
