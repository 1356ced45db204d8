#!/usr/bin/env python3
"""Learns to swing up Gymnasium's pendulum with SAC, half of each batch from demonstrations, in a
minute.

As in RLPD (Ball et al., 2023), a batch has equal parts of two buffers, of demonstrations and of the
agent's own steps (`reprise.mix`), and the critics have layer norms. The critics learn once per step
of an environment (RLPD: 20 times), the actor a quarter as often. The demonstrations are by a
controller that pumps energy into the pendulum, then holds it up. Exits with 0 if the agent does
nearly as well after STEPS steps of each environment."""

from timeit import default_timer

import gymnasium
import numpy as np
import reprise
import torch
from torch import nn

ENVIRONMENTS, DEMONSTRATIONS, STEPS = 4, 10, 1_500  # Demonstrations are episodes of 200 steps.
BATCH, UPDATES, BEGIN, DISCOUNT, AVERAGING, TORQUE = 256, 4, 100, 0.98, 0.01, 2.0
TEST_EPISODES = 20
GOOD = -250.0  # The mean return to reach; that of a random agent is -1200.


def controller(obs):
    """Returns the torque [E, 1] of a hand-written policy."""
    cosine, sine, speed = obs.T
    missing_energy = 5 - (speed**2 / 6 + 5 * cosine)  # The energy that is missing to stand upright.
    pump, hold = TORQUE * np.sign(speed * missing_energy + 1e-6), -10 * sine - 3 * speed
    torque = np.where((cosine > 0.95) & (abs(speed) < 2), hold, pump)
    return torque.clip(-TORQUE, TORQUE)[:, None].astype(np.float32)


def make_buffer(envs, capacity):
    schema = reprise.Schema.from_spaces(envs.single_observation_space, envs.single_action_space)
    window = reprise.Transitions(discount=DISCOUNT)
    return reprise.ReplayBuffer(schema, capacity, window=window, selectors=reprise.Uniform())


def run(envs, policy, seed, writers=None, steps=200):
    """Steps all environments; yields their mean return so far after each step."""
    obs, _ = envs.reset(seed=seed)
    total = 0.0
    if writers is not None:
        writers.begin(obs=obs)
    for _ in range(steps):
        action = policy(obs)
        obs, reward, terminated, truncated, _ = envs.step(action)
        if writers is not None:
            end = reprise.ends(terminated, truncated)
            # The reward of a step is -16 to 0; a tenth of it suits the networks.
            writers.append(action=action, reward=reward / 10, next_obs=obs, end=end)
        total += reward.mean()
        yield total


def layers(inputs, outputs, norm=nn.Identity):
    middle = [
        nn.Linear(inputs, 128),
        norm(128),
        nn.ReLU(),
        nn.Linear(128, 128),
        norm(128),
        nn.ReLU(),
    ]
    return nn.Sequential(*middle, nn.Linear(128, outputs))


class Agent:
    def __init__(self):
        self.actor = layers(3, 2)
        self.critics, self.targets = ([layers(4, 1, nn.LayerNorm) for _ in range(2)] for _ in "12")
        for critic, target in zip(self.critics, self.targets):
            target.load_state_dict(critic.state_dict())
        self.temperature = torch.zeros(1, requires_grad=True)  # The logarithm of the temperature.
        critic_parameters = [
            parameter for critic in self.critics for parameter in critic.parameters()
        ]
        self.optimizers = [
            torch.optim.Adam(each, 1e-3)
            for each in (critic_parameters, self.actor.parameters(), [self.temperature])
        ]

    def choose(self, obs):
        """Returns actions in [-2, 2] and the logarithms of their densities."""
        mean, spread = self.actor(obs).chunk(2, 1)
        normal = torch.distributions.Normal(mean, spread.clamp(-5, 1).exp())
        raw = normal.rsample()
        action = raw.tanh()
        density = normal.log_prob(raw) - torch.log(1 - action**2 + 1e-6)
        return TORQUE * action, density.squeeze(1)

    def value(self, critics, obs, action):
        """Returns the values [critics, B]."""
        inputs = torch.cat((obs, action / TORQUE), 1)
        return torch.stack([critic(inputs).squeeze(1) for critic in critics])

    def update(self, optimizer, loss):
        self.optimizers[optimizer].zero_grad()
        loss.backward()
        self.optimizers[optimizer].step()

    def learn(self, batch, improve):
        t, cost = batch.torch(), self.temperature.exp().detach()
        with torch.no_grad():
            action, density = self.choose(t["next_obs"])
            value = self.value(self.targets, t["next_obs"], action).min(0)[0] - cost * density
            target = t.returns["reward"] + t.discounts * value
        self.update(0, ((self.value(self.critics, t["obs"], t["action"]) - target) ** 2).mean())
        for critic, average in zip(self.critics, self.targets):
            for ours, slow in zip(critic.parameters(), average.parameters()):
                slow.data.lerp_(ours.data, AVERAGING)
        if improve:
            action, density = self.choose(t["obs"])
            value = self.value(self.critics, t["obs"], action).min(0)[0]
            self.update(1, (cost * density - value).mean())
            self.update(2, -(self.temperature.exp() * (density.detach() - 1.0)).mean())

    @torch.no_grad()
    def explore(self, obs):
        return self.choose(torch.from_numpy(obs))[0].numpy()

    @torch.no_grad()
    def best(self, obs):
        return TORQUE * self.actor(torch.from_numpy(obs))[:, :1].tanh().numpy()


def main():
    torch.set_num_threads(1)  # The networks are too small for several threads.
    torch.manual_seed(1)
    started, agent = default_timer(), Agent()
    teacher = gymnasium.make_vec("Pendulum-v1", DEMONSTRATIONS)
    demonstrations = make_buffer(teacher, 10_000)
    *_, demonstrated_return = run(teacher, controller, 1, demonstrations.vector_writer(teacher))
    print(
        f"the controller: a mean return of {demonstrated_return:.0f}, {len(demonstrations)} steps of it"
    )

    envs = gymnasium.make_vec("Pendulum-v1", ENVIRONMENTS)
    own = make_buffer(envs, 50_000)
    both = reprise.mix([(own, BATCH // 2), (demonstrations, BATCH // 2)], seed=1)
    for step, _ in enumerate(run(envs, agent.explore, 2, own.vector_writer(envs), STEPS)):
        for update in range(UPDATES if step >= BEGIN else 0):
            agent.learn(both.sample(), improve=update == UPDATES - 1)
    *_, agent_return = run(gymnasium.make_vec("Pendulum-v1", TEST_EPISODES), agent.best, 3)
    print(
        f"the agent: {agent_return:.0f} in {TEST_EPISODES} episodes; {default_timer() - started:.0f} s"
    )
    for name, replay in (("own steps", own), ("demonstrations", demonstrations)):
        stats = replay.stats()
        times = stats["sampled_items"] / stats["items"]
        print(f"  {name}: {stats['items']}, each drawn {times:.0f} times on average")
    return int(agent_return < GOOD)


if __name__ == "__main__":
    raise SystemExit(main())
