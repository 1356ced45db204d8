"""torchrl's collector fills a prioritized buffer of 3-step transitions; its loss reads it."""

from reprise.torchrl import ReplayBuffer
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.envs import GymEnv
from torchrl.modules import MLP, EGreedyModule, QValueModule
from torchrl.objectives import DQNLoss

env = GymEnv("CartPole-v1")
net = MLP(in_features=4, out_features=2, num_cells=[32])
q_net = TensorDictSequential(
    TensorDictModule(net, ["observation"], ["action_value"]), QValueModule(spec=env.action_spec)
)
policy = TensorDictSequential(q_net, EGreedyModule(spec=env.action_spec))
loss = DQNLoss(q_net, action_space=env.action_spec, delay_value=True)

rb = ReplayBuffer(10_000, batch_size=64, alpha=0.6, n_step=3, discount=0.99)
for data in Collector(env, policy, frames_per_batch=100, total_frames=500):
    rb.extend(data)
    batch = rb.sample()  # Has "index", "priority_weight" and "steps_to_next_obs" as well.
    loss(batch)["loss"].backward()
    rb.update_tensordict_priority(batch)
print(len(rb), "steps;", batch["observation"].shape)
