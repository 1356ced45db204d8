"""Simulators in other processes append to the buffer of this one."""

import multiprocessing

import numpy as np
import reprise


def act(address, actor):
    with reprise.attach(address) as guest, guest.writer() as writer:
        writer.begin_episode(state=[actor, 0])
        for step in range(1000):
            writer.append(action=step % 2, reward=1.0, next_state=[actor, step + 1])


if __name__ == "__main__":
    schema = reprise.Schema().observation("state", np.float32, (2,)).column("action", np.int64)
    replay = reprise.ReplayBuffer(schema.reward(), 100_000)
    with replay.share() as address:
        actors = [multiprocessing.Process(target=act, args=(address, i)) for i in range(3)]
        for actor in actors:
            actor.start()
        batch = replay.sampler().sample(64)  # The actors still append meanwhile.
        replay.update_priorities(batch.item_keys, np.ones(64))
        for actor in actors:
            actor.join()
    print(len(replay), "steps;", batch["state"].shape)
