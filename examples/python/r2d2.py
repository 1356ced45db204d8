#!/usr/bin/env python3
"""Learns to remember with a small R2D2 (Kapturowski et al., 2019), in half a minute.

A sign at the beginning of a corridor tells on which side of the corridor's end the goal is. Later
steps do not see the sign, so a network without a memory finds the goal half of the time, as a
second run shows. Sequences are drawn by the errors in them, and start from the state that the LSTM
had before their first step. Exits with 0 if the LSTM finds the goal nearly always, and the network
without a memory does not."""

from timeit import default_timer

import numpy as np
import reprise
import torch
from torch import nn

CORRIDOR, LIMIT, ACTIONS, INPUTS, HIDDEN = 10, 40, 3, 3, 32
MAZES, CAPACITY, BEGIN, BATCH, UPDATES = 32, 20_000, 2_000, 64, 10_000
BURN_IN, LENGTH, PERIOD, N_STEP, DISCOUNT = 4, 8, 4, 5, 0.97
ETA = 0.9  # Weight of the largest error in a sequence's priority; 1 - ETA is that of the mean.
EPSILONS = 0.5 ** np.linspace(1, 7, MAZES)


class TMazes:
    """Mazes that step together. Actions: forward, left, right. A turn at the end of the corridor
    ends a walk; a turn to the right side pays 1."""

    def __init__(self, count, seed):
        self.random = np.random.default_rng(seed)
        self.place, self.steps = np.zeros(count, int), np.zeros(count, int)
        self.sign = self.random.choice((-1, 1), count)

    def observe(self):
        first, last = self.place == 0, self.place == CORRIDOR
        return np.stack((self.sign * first, first, last), 1).astype(np.float32)

    def step(self, action):
        """Returns rewards, terminated, truncated, final observations. Ended walks begin anew."""
        turned = (self.place == CORRIDOR) & (action > 0)
        reward = turned * (2 * action - 3 == self.sign)
        self.place = np.minimum(self.place + (action == 0), CORRIDOR)
        self.steps += 1
        truncated, final = ~turned & (self.steps == LIMIT), self.observe()
        ended = turned | truncated
        self.place[ended] = self.steps[ended] = 0
        self.sign[ended] = self.random.choice((-1, 1), ended.sum())
        return reward.astype(np.float32), turned, truncated, final


class Network(nn.Module):
    def __init__(self, remembers):
        super().__init__()
        self.remembers = remembers
        self.lstm = nn.LSTM(INPUTS, HIDDEN, batch_first=True)
        self.values = nn.Linear(HIDDEN, ACTIONS)

    def forward(self, observations, state):
        """Returns the values [B, T, ACTIONS] of observations [B, T, INPUTS], and the LSTM's state
        after the last of them. States are [B, 2, HIDDEN]."""
        if not self.remembers:  # Each step begins with a state of zeros.
            steps = observations.reshape(-1, 1, INPUTS)
            return self.values(self.lstm(steps)[0].reshape(*observations.shape[:2], -1)), state
        out, after = self.lstm(observations, tuple(state.transpose(0, 1)[:, None].contiguous()))
        return self.values(out), torch.stack(after, 2)[0]


@torch.no_grad()
def act(network, observations, state):
    values, state = network(torch.from_numpy(observations)[:, None], state)
    return values[:, 0].argmax(1).numpy(), state


def success_rate(network, walks=500, seed=2):
    """Returns the share of greedy walks that find the goal."""
    mazes, state = TMazes(walks, seed), torch.zeros(walks, 2, HIDDEN)
    goals, running = 0, np.ones(walks, bool)
    for _ in range(LIMIT):
        action, state = act(network, mazes.observe(), state)
        reward, terminated, truncated, _ = mazes.step(action)
        goals += ((reward > 0) & running).sum()
        running &= ~(terminated | truncated)
    return goals / walks


def learn(online, target, optimizer, batch):
    """Makes one update of double Q-learning on sequences; returns their new priorities."""
    t, steps = batch.torch(), torch.arange(BURN_IN + LENGTH)
    observations = torch.cat((t["obs"][:, :1], t["next_obs"]), 1)  # [B, T + 1, INPUTS]
    values, _ = online(observations, t["lstm"])
    with torch.no_grad():
        next_values, _ = target(observations, t["lstm"])
        next_values = next_values.gather(2, values.argmax(2, keepdim=True)).squeeze(2)
        return_ends = torch.minimum(steps + N_STEP, t.lengths[:, None].long())  # Each return's end.
        targets = t.returns["reward"] + t.discounts * next_values.gather(1, return_ends)
    chosen = values[:, :-1].gather(2, t["action"][..., None]).squeeze(2)
    # The burn-in steps adapt the stored state to the present network, and are not learned from, but
    # for those of a walk's first item. Unlike in the paper, gradients flow through them.
    in_loss = ((steps >= BURN_IN) | (t.positions[:, None] == 0)) & (steps < t.lengths[:, None])
    errors = (targets - chosen) * in_loss
    optimizer.zero_grad()
    (t.weights * (errors**2).sum(1) / in_loss.sum(1)).mean().backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10)
    optimizer.step()
    for average, parameter in zip(target.parameters(), online.parameters()):
        average.data.lerp_(parameter.data, 0.02)
    errors = errors.detach().abs()
    return (ETA * errors.max(1)[0] + (1 - ETA) * errors.sum(1) / in_loss.sum(1)).numpy()


def train(remembers, max_updates=UPDATES, seed=1):
    """Returns the share of walks that find the goal, the number of updates, and the buffer's
    stats."""
    torch.manual_seed(seed)
    schema = reprise.Schema().observation("obs", np.float32, (INPUTS,)).column("action", np.int64)
    schema.reward().recurrent_state("lstm", np.float32, (2, HIDDEN))
    window = reprise.Sequences(LENGTH, PERIOD, BURN_IN, n_step=N_STEP, discount=DISCOUNT)
    selector = reprise.Proportional(alpha=0.9)
    replay = reprise.ReplayBuffer(schema, CAPACITY, window=window, selectors=selector)
    writers = replay.vector_writer(MAZES, autoreset="same_step")
    sampler, random = replay.sampler(seed=seed), np.random.default_rng(seed)
    online, target = Network(remembers), Network(remembers)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), 2e-3)
    mazes, state, updates, share = TMazes(MAZES, seed), torch.zeros(MAZES, 2, HIDDEN), 0, 0.0
    writers.begin(obs=mazes.observe())
    while updates < max_updates and (updates % 500 or share < 0.95):
        greedy, after = act(online, mazes.observe(), state)
        at_random = random.random(MAZES) < EPSILONS
        action = np.where(at_random, random.integers(ACTIONS, size=MAZES), greedy)
        reward, terminated, truncated, final = mazes.step(action)
        end = reprise.ends(terminated, truncated)
        step = {"action": action, "reward": reward, "next_obs": mazes.observe(), "lstm": state}
        writers.append(**step, end=end, final={"obs": final})
        state = after * torch.from_numpy(end == 0)[:, None, None]
        if replay.stats()["resident_steps"] >= BEGIN:
            batch = sampler.sample(BATCH)
            replay.update_priorities(batch.item_keys, learn(online, target, optimizer, batch))
            updates += 1
            share = success_rate(online) if updates % 500 == 0 else share
    return share, updates, replay.stats()


torch.set_num_threads(1)  # The networks are too small for several threads.
shares, max_updates = [], UPDATES
for remembers in (True, False):
    started = default_timer()
    share, max_updates, stats = train(remembers, max_updates)
    shares.append(share)
    print(f"{'with' if remembers else 'without'} a memory: {share:.0%} of the walks find the goal")
    print(
        f"  {default_timer() - started:.0f} s, {max_updates} updates; reprise holds {stats['items']} sequences "
        f"of {stats['resident_steps']} steps and drew {stats['sampled_items']} in all"
    )
raise SystemExit(int(shares[0] < 0.95 or shares[1] > 0.75))
