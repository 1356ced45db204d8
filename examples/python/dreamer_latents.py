#!/usr/bin/env python3
"""A recurrent world model learns on streams, as DreamerV3 does, with its latents written back.

Hafner et al., 2023. The first observation of an episode shows a cue, and the last one shows it again, about
a dozen steps later. Items are 9 consecutive steps of a writer, across ends of episodes, and most begin
after the cue: what the model needs to know is in the latent of their first step, which it has stored there
itself. The episodes are recorded once, with latents of zero. Without latents it can only guess in such
items; with those it writes back after each batch it knows. Exits with 0 if so."""

from timeit import default_timer

import numpy as np
import reprise
import torch
from torch import nn

STEPS, PLACES, LIMIT, HIDDEN = 20_000, 6, 16, 32
BATCH, UPDATES, REPORT = 64, 2_000, 500
# The first step of an item has the latent with which the others begin; it is the last step of the item before.
WINDOW = reprise.Sequences(length=8, period=8, burn_in=1, end="continue")


def record():
    """A buffer of walks: an action goes on to the next place or waits, and a time limit ends some early."""
    schema = reprise.Schema().observation("obs", np.float32, (2,)).column("action", np.int64)
    schema.mutable_column("latent", np.float32, (HIDDEN,))
    replay = reprise.ReplayBuffer(schema, STEPS, window=WINDOW, selectors=reprise.Uniform())
    random, written = np.random.default_rng(1), 0
    with replay.writer() as writer:
        while written < STEPS - LIMIT:
            places = np.cumsum(actions := random.integers(2, size=LIMIT))
            steps = min(int((places < PLACES).sum()) + 1, LIMIT)
            arrived, cue = places[steps - 1] == PLACES, random.choice([-1.0, 1.0])
            obs = np.zeros((steps + 1, 2), np.float32)
            obs[0, 0], obs[-1, 0], obs[1:, 1] = cue, cue * arrived, places[:steps] / PLACES
            end = reprise.End.TERMINATED if arrived else reprise.End.TRUNCATED
            latents = np.zeros((steps, HIDDEN), np.float32)
            writer.append_episode(obs=obs, action=actions[:steps], latent=latents, end=end)
            written += steps
    return replay


class Model(nn.Module):
    """Predicts the next observation from a latent, which each step changes."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, HIDDEN)
        self.predict = nn.Sequential(nn.Linear(HIDDEN, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, batch):
        """The latents of an item's steps, [B, T, HIDDEN]; the first is that which was stored."""
        seen = torch.cat((batch["obs"], batch["action"][..., None].float()), 2)
        latents = [batch["latent"][:, 0]]
        for t in range(1, seen.shape[1]):
            # An episode that begins here knows nothing of the one before.
            before = torch.where(batch["is_first"][:, t, None], 0.0, latents[-1])
            latents.append(self.cell(seen[:, t], before))
        return torch.stack(latents, 1)


def known(batch, predicted):
    """Of the terminations in items that began behind their cue: how many cues are right, and all."""
    behind = ~torch.cumsum(batch["is_first"][:, 1:], 1).bool()  # The first step predicts nothing.
    asked = batch["terminated"][:, 1:] & behind
    right = (predicted[..., 0] * batch["next_obs"][:, 1:, 0] > 0) & asked
    return int(right.sum()), int(asked.sum())


def learn(replay, write_back):
    """Trains a model; returns its share of right cues in the last batches."""
    torch.manual_seed(1)
    model, sampler = Model(), replay.sampler(seed=1)
    optimizer, counts = torch.optim.Adam(model.parameters(), 4e-3), []
    for update in range(1, UPDATES + 1):
        drawn = sampler.sample(BATCH, beta=0.0)
        batch = drawn.torch()
        latents = model(batch)
        predicted = model.predict(latents[:, 1:])
        loss = ((predicted - batch["next_obs"][:, 1:]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if write_back:
            replay.update(drawn.item_keys, "latent", latents.detach().numpy())
        counts.append(known(batch, predicted))
        if update % REPORT == 0:
            right, asked = np.sum(counts[-REPORT // 2 :], 0)
            print(f"{default_timer() - STARTED:4.0f} s: {right / asked:.0%} of {asked} cues")
    return right / asked


torch.set_num_threads(1)  # The network is too small for several threads.
STARTED, shares = default_timer(), []
for write_back in (False, True):
    print("Latents", "written back" if write_back else "of zero")
    shares.append(learn(record(), write_back))
raise SystemExit(int(shares[0] > 0.65 or shares[1] < 0.95))
