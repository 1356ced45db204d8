"""Vectors of counting environments with every mode of auto-reset, and the steps that a buffer
has to have after some calls."""

import numpy as np


class Counters:
    """Counting environments: the observation is [environment + 100 * episode, t]. Each environment
    has its own length of episodes. With `odd_are_cut` odd episodes are truncated, and even ones
    terminate."""

    def __init__(self, lengths, autoreset, odd_are_cut=False):
        self.lengths, self.autoreset, self.odd_are_cut = np.array(lengths), autoreset, odd_are_cut
        self.episode, self.t = np.zeros((2, len(lengths)), int)
        self.over = np.zeros(len(lengths), bool)

    def observe(self):
        envs = np.arange(len(self.lengths))
        return np.stack([envs + 100 * self.episode, self.t], axis=1).astype(np.float32)

    def step(self, envs=slice(None)):
        """Steps these environments. Returns their observations, whether each terminated, whether
        each was truncated, and the observations before a reset in the same step."""
        resetting = self.over[envs] & (self.autoreset == "next_step")
        self.t[envs] = np.where(resetting, 0, self.t[envs] + 1)
        self.episode[envs] += resetting
        self.over[envs] = (self.t[envs] == self.lengths[envs]) & ~resetting
        over, final = self.over[envs], self.observe()[envs]
        cut = over & self.odd_are_cut & (self.episode[envs] % 2 == 1)
        if self.autoreset == "same_step":
            self.episode[envs] += over
            self.t[envs] *= ~over
        return self.observe()[envs], over & ~cut, cut, final

    def reset(self):
        """Begins the next episode of environments whose episode is over, as a caller does with
        autoreset 'disabled'."""
        self.episode += self.over
        self.t[self.over] = 0
        self.over[:] = False


def expected_steps(lengths, calls, autoreset, odd_are_cut=False):
    """Returns every step after these calls: (environment + 100 * episode, t, next t,
    terminated)."""
    steps = []
    for env, length in enumerate(lengths):
        for call in range(calls[env]):
            episode, t = divmod(call, length + (autoreset == "next_step"))
            if t < length:
                over = t + 1 == length and not (odd_are_cut and episode % 2)
                steps.append((env + 100 * episode, t, t + 1, over))
    return sorted(steps)


def found_steps(items, name):
    """The steps in a batch of all items, in the form of `expected_steps`."""
    return sorted(
        (int(now[0]), int(now[1]), int(after[1]), discount == 0)
        for now, after, discount in zip(items[name], items[f"next_{name}"], items[".discounts"])
    )
