"""Batches as tensors: on the CPU in the batch's memory, for a GPU copied ahead of the learner."""

import numpy as np
import reprise
import torch
from reprise.torch import loader

schema = reprise.Schema().observation("obs", np.float32, (4,)).column("action", np.int64).reward()
replay = reprise.ReplayBuffer(schema, 10_000)
with replay.writer() as writer:
    writer.append_episode(obs=np.random.random((1001, 4)), action=[0] * 1000, reward=[1] * 1000)

device = "cuda" if torch.cuda.is_available() else "cpu"
value = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.Adam(value.parameters())
with loader(replay, 256, device=device) as batches:
    for _, batch in zip(range(20), batches):
        target = batch.returns["reward"] + batch.discounts * value(batch["next_obs"]).detach()[:, 0]
        error = target - value(batch["obs"])[:, 0]
        optimizer.zero_grad()
        (batch.weights * error.square()).mean().backward()
        optimizer.step()
        batches.update_priorities(batch.item_keys, error.detach().abs())
print(len(replay), "steps;", tuple(batch["obs"].shape))
