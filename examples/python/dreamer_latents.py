#!/usr/bin/env python3
"""A recurrent world model learns on streams and writes its latents back, as in DreamerV3.

(Hafner et al., 2023.) The first observation of an episode shows a cue, and the last one, about a
dozen steps later, shows the cue again. An item is 9 consecutive steps of a writer, across ends of
episodes. Most items begin after the cue, so the model can know the cue only from the latent stored
with the item's first step. Episodes are recorded once, with latents of zero. Exits with 0 if the
model knows the cue when it writes its latents back after each batch, and else guesses."""

from timeit import default_timer

import numpy as np
import reprise
import torch
from torch import nn

STEPS, PLACES, LIMIT, HIDDEN = 20_000, 6, 16, 32
BATCH, UPDATES, REPORT = 64, 2_000, 500
# A window begins with the last step of the window before, whose latent it starts from. (At the
# start of a chunk that step is a copy, whose latent stays as it was when the chunk was begun.)
WINDOW = reprise.Sequences(length=8, period=8, burn_in=1, end="continue")


def record():
    """Returns a buffer of walks. An action goes on to the next place or waits; a time limit ends
    some walks before the last place."""
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
    """Predicts the next observation from a latent, which each step renews."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, HIDDEN)
        self.predict = nn.Sequential(nn.Linear(HIDDEN, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, batch):
        """Returns the latents of the items' steps [B, T, HIDDEN]. The first latent is the stored
        one."""
        seen = torch.cat((batch["obs"], batch["action"][..., None].float()), 2)
        latents = [batch["latent"][:, 0]]
        for t in range(1, seen.shape[1]):
            # An episode that begins here must not get the latent of the previous one.
            previous = torch.where(batch["is_first"][:, t, None], 0.0, latents[-1])
            latents.append(self.cell(seen[:, t], previous))
        return torch.stack(latents, 1)


def count_known(batch, predicted):
    """Returns two counts: terminations whose cue came before their item and was predicted rightly,
    and all terminations whose cue came before their item."""
    # The first step of an item has no prediction.
    cue_was_earlier = ~torch.cumsum(batch["is_first"][:, 1:], 1).bool()
    tested = batch["terminated"][:, 1:] & cue_was_earlier
    right = (predicted[..., 0] * batch["next_obs"][:, 1:, 0] > 0) & tested
    return int(right.sum()), int(tested.sum())


def learn(replay, write_back):
    """Trains a model; returns the share of cues that it predicted rightly in the last batches."""
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
            # A window's first latent belongs to the window before, which alone may write it.
            replay.update(drawn.item_keys, "latent", latents.detach().numpy(), skip=1)
        counts.append(count_known(batch, predicted))
        if update % REPORT == 0:
            right, tested = np.sum(counts[-REPORT // 2 :], 0)
            print(f"{default_timer() - STARTED:4.0f} s: {right / tested:.0%} of {tested} cues")
    return right / tested


torch.set_num_threads(1)  # The network is too small for several threads.
STARTED, shares = default_timer(), []
for write_back in (False, True):
    print("Latents", "written back" if write_back else "of zero")
    shares.append(learn(record(), write_back))
raise SystemExit(int(shares[0] > 0.65 or shares[1] < 0.95))
