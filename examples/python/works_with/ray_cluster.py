"""One buffer over the nodes of a Ray cluster: two shards, two tasks that append, one learner."""

import numpy as np
import ray
import reprise.ray

ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
schema = reprise.Schema().observation("state", np.float32, (4,)).column("action", np.int64).reward()
replay = reprise.ray.ReplayBuffer(schema, 100_000, shards=2)


@ray.remote
def act(replay):
    with replay.writer() as writer:
        writer.begin_episode(state=np.zeros(4))
        for t in range(500):
            writer.append(action=t % 2, reward=1.0, next_state=np.full(4, t + 1))


ray.get([act.remote(replay) for _ in range(2)])
batch = replay.sampler().sample(64)  # Draws are exactly proportional over both shards.
replay.update_priorities(batch.item_keys, np.ones(64)).wait()
print(len(replay), "steps;", batch["state"].shape)
replay.close()
