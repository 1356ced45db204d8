#!/usr/bin/env python3
"""Learns to walk to a goal with a small MuZero that renews its targets in the buffer.

This is Reanalyse (Schrittwieser et al., 2020). Mutable columns hold the policy and the value that a
search found for each step. When steps are drawn, a search with the present network replaces theirs.
First the program times a draw beside LightZero's. Exits with 0 once nearly all walks arrive."""

from timeit import default_timer, timeit

import numpy as np
import reprise
import torch
from torch import nn

SIZE, LIMIT, MOVES = 5, 16, np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
ACTIONS, INPUTS, LATENT = len(MOVES), 2 * SIZE**2, 64
DISCOUNT, STEPS, BOOTSTRAP = 0.9, 4, 5
WALKERS, SEARCHES, BATCH, UPDATES, ROUNDS = 32, 16, 128, 8, 600


def layers(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, outputs))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.represent = nn.Sequential(layers(INPUTS, LATENT), nn.LayerNorm(LATENT))
        self.norm = nn.LayerNorm(LATENT)
        self.move, self.predict = layers(LATENT + ACTIONS, LATENT + 1), layers(LATENT, ACTIONS + 1)

    def step(self, latent, action):  # Returns the next latents and the rewards.
        moved = self.move(torch.hstack((latent, nn.functional.one_hot(action, ACTIONS).float())))
        return self.norm(latent + moved[:, 1:]), moved[:, 0]

    def evaluate(self, latent):  # Returns the logits of the policy and the values.
        outputs = self.predict(latent)
        return outputs[:, 1:], outputs[:, 0]


@torch.no_grad()
def search(model, observations, random):
    """Searches from each of B observations, for SEARCHES rounds; returns policies [B, ACTIONS] and
    values [B]."""
    count, rows = len(observations), np.arange(len(observations))
    latents = torch.empty(SEARCHES + 1, count, LATENT)
    latents[0] = model.represent(torch.from_numpy(observations))
    logits, root = model.evaluate(latents[0])
    priors = np.empty((SEARCHES + 1, count, ACTIONS))
    priors[0] = 0.75 * logits.softmax(1).numpy() + 0.25 * random.dirichlet([0.5] * ACTIONS, count)
    visits, totals, rewards = np.zeros((3, *priors.shape))
    children, leaves, last = np.zeros(priors.shape, int), *np.zeros((2, count), int)
    for new in range(1, SEARCHES + 1):  # Each round descends the trees and adds a node to each.
        node, path, in_tree = np.zeros(count, int), [], np.ones(count, bool)
        while in_tree.any():
            seen = visits[node, rows]
            bonus = priors[node, rows] * np.sqrt(seen.sum(1, keepdims=True) + 1) / (1 + seen)
            action = (totals[node, rows] / np.maximum(seen, 1) + 1.25 * bonus).argmax(1)
            path.append((node, action, in_tree))
            leaves[in_tree], last[in_tree] = node[in_tree], action[in_tree]
            in_tree = in_tree & (children[node, rows, action] > 0)
            node = np.where(in_tree, children[node, rows, action], node)
        latents[new], reward = model.step(latents[leaves, rows], torch.from_numpy(last))
        logits, value = model.evaluate(latents[new])
        priors[new], backup = logits.softmax(1).numpy(), value.numpy()
        children[leaves, rows, last], rewards[leaves, rows, last] = new, reward.numpy()
        for node, action, taken in reversed(path):  # Goes from each leaf to the root.
            backup = np.where(taken, rewards[node, rows, action] + DISCOUNT * backup, backup)
            totals[node, rows, action] += np.where(taken, backup, 0)
            visits[node, rows, action] += taken
    return visits[0] / SEARCHES, (root.numpy() + totals[0].sum(1)) / (SEARCHES + 1)


def walk(model, random, writer):
    """Appends a walk of each walker; returns the share of walks that arrived."""
    places, goals = random.integers(SIZE, size=(2, WALKERS, 2))
    seen, steps = np.zeros((LIMIT + 1, WALKERS, 2, SIZE, SIZE), np.float32), []
    for t in range(LIMIT + 1):
        for plane, cells in enumerate((places, goals)):
            seen[t, np.arange(WALKERS), plane, cells[:, 0], cells[:, 1]] = 1
        policy, value = search(model, seen[t].reshape(WALKERS, INPUTS), random)
        action = (policy.cumsum(1) > random.random((WALKERS, 1))).argmax(1)
        places = (places + MOVES[action]).clip(0, SIZE - 1)
        steps.append((action, (places == goals).all(1), policy, value))
    fields = dict(zip(("action", "reward", "policy", "value"), map(np.array, zip(*steps))))
    arrived = fields["reward"][:LIMIT].any(0)
    for w in range(WALKERS):
        n = fields["reward"][:, w].argmax() + 1 if arrived[w] else LIMIT
        end = reprise.End.TERMINATED if arrived[w] else reprise.End.TRUNCATED
        game = {name: values[:n, w] for name, values in fields.items()}
        writer.append_episode(obs=seen[: n + 1, w].reshape(n + 1, INPUTS), end=end, **game)
    return arrived.mean()


def learn(model, optimizer, batch, random):
    """Makes one update with the model unrolled over STEPS steps; returns the value errors of the
    first steps."""
    steps, rows = np.arange(STEPS), np.arange(len(batch))
    within = steps < batch.lengths[:, None]
    ended = batch.discounts[rows, batch.lengths - 1, None] == 0  # The walk arrived within the item.
    discounts, bootstrap_steps = batch.discounts[:, :STEPS], steps + BOOTSTRAP
    values = batch.returns["reward"][:, :STEPS] + discounts * batch["value"][:, bootstrap_steps]
    has_target = np.where(
        within, (bootstrap_steps < batch.lengths[:, None]) | (discounts == 0), ended
    )
    # Past the end of a walk all moves have reward and value 0, so actions are random there.
    actions = np.where(
        within, batch["action"][:, steps], random.integers(ACTIONS, size=within.shape)
    )
    masks = torch.from_numpy(np.stack((within, has_target, within | ended))).float()
    value, action, drawn = torch.from_numpy(values), torch.from_numpy(actions), batch.torch()
    latent, loss = model.represent(drawn["obs"][:, 0]), 0.0
    for k in steps:
        logits, predicted = model.evaluate(latent)
        latent, rewarded = model.step(latent, action[:, k])
        loss -= masks[0, :, k] * (drawn["policy"][:, k] * logits.log_softmax(1)).sum(1)
        loss += masks[1, :, k] * (predicted - value[:, k]) ** 2
        loss += masks[2, :, k] * (rewarded - drawn["reward"][:, k]) ** 2
    optimizer.zero_grad()
    (drawn.weights * loss).mean().backward()
    optimizer.step()
    return np.abs(values[:, 0] - batch["value"][:, 0]) * has_target[:, 0]


torch.set_num_threads(1)  # The network is too small for several threads.
torch.manual_seed(1)
window, million = reprise.Sequences(STEPS, period=1), 1_000_000
replay = reprise.ReplayBuffer(reprise.Schema().reward(), million, window=window)
replay.writer().append_episode(reward=np.zeros(million))
sampler, errors = replay.sampler(seed=1), np.random.random(million)
draws = {
    "LightZero": lambda: np.random.choice(million, 256, False, (c := errors**0.6) / c.sum()),
    "reprise, with rows": lambda: sampler.sample(256),
}
for name, draw in draws.items():
    print(f"256 of a million positions by {name}: {100 * timeit(draw, number=10):.3f} ms")

schema = reprise.Schema().observation("obs", np.float32, (INPUTS,)).column("action", np.int64)
schema.reward().mutable_column("value", "float32").mutable_column("policy", "float32", (ACTIONS,))
window = reprise.Sequences(STEPS + BOOTSTRAP, period=1, n_step=BOOTSTRAP, discount=DISCOUNT)
replay = reprise.ReplayBuffer(schema, 50_000, window=window)
writer, sampler, started = replay.writer(), replay.sampler(seed=1), default_timer()
model, random, arrived = Model(), np.random.default_rng(1), []
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
while len(arrived) < ROUNDS and np.mean(arrived[-10:] or [0]) < 0.97:
    arrived.append(walk(model, random, writer))
    for _ in range(UPDATES):
        batch = sampler.sample(BATCH)
        found = search(model, batch["obs"][:, 0], random)
        for name, values in zip(("policy", "value"), found):
            replay.update(batch.item_keys, name, values)
            batch[name][:, 0] = values
        replay.update_priorities(batch.item_keys, learn(model, optimizer, batch, random))
    if len(arrived) % 20 == 0:
        print(f"{default_timer() - started:4.0f} s: {np.mean(arrived[-10:]):.0%} arrive")
raise SystemExit(int(np.mean(arrived[-10:]) < 0.97))
