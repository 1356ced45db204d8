"""The replay buffer that learners on an accelerator write by hand, with their calls."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from ._mirror import Mirror, on_host
from ._options import classes as strategies
from ._reprise import ReplayBuffer, Schema
from ._vocabulary import End, UpdateResult


class SimpleReplayBuffer(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Has `extend` and `sample` of the class of this name in FastTD3, holosoma's FastSAC and other
    packages, on a buffer whose rows are on the device. Of their code only the import changes.

        buffer = SimpleReplayBuffer(n_env, buffer_size, n_obs, n_act, n_critic_obs, n_steps=3,
                                    gamma=0.97, device="cuda")
        buffer.extend(transition)           # A TensorDict [n_env].
        data = buffer.sample(batch_size)    # A TensorDict [n_env * batch_size].

    What differs: each observation is stored once, where the original stores next observations too.
    A window of n steps ends with its episode, at a time limit as at a termination, and never runs
    over the seam where new steps replace old ones. Draws are from all environments alike. A step is
    drawn once all n_steps of its window are appended; before the first such step `sample` raises
    NothingToDraw. An episode also ends where the observations of a step are not the next ones of
    the step before. `state_dict` does not hold the steps: `save` does.

    Beyond the steps themselves, the device has room for the chunk, of 64 steps or more, that each
    environment is writing.
    buffer_size: steps of each environment, give or take such a chunk: n_env * buffer_size together,
    of which the oldest leave in chunks. n_critic_obs: 0 for none. asymmetric_obs: whether
    "critic_observations" are stored; None: they are if n_critic_obs is not 0. playground_mode:
    whether the first n_obs "critic_observations" are the observations, and so are not stored again.
    selector: Uniform(), or Proportional(...) for draws by priority: data["weights"] are importance
    weights, and `update_priorities(data["item_keys"], priorities)` sets priorities. One thread at a
    time.
    """

    def __init__(
        self,
        n_env: int,
        buffer_size: int,
        n_obs: int,
        n_act: int,
        n_critic_obs: int = 0,
        n_steps: int = 1,
        gamma: float = 0.99,
        device: Any = None,
        *,
        asymmetric_obs: bool | None = None,
        playground_mode: bool = False,
        selector: Any = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.n_env, self.buffer_size, self.n_obs, self.n_act = n_env, buffer_size, n_obs, n_act
        self.n_steps, self.gamma, self.device = n_steps, gamma, device
        self._has_critic = bool(n_critic_obs) if asymmetric_obs is None else asymmetric_obs
        # How many of the first critic observations are the observations.
        self._shared_size = n_obs if playground_mode and self._has_critic else 0
        if self._has_critic and n_critic_obs <= self._shared_size:
            raise ValueError(
                f"SimpleReplayBuffer: n_critic_obs is {n_critic_obs}; allowed with "
                f"critic observations: above {self._shared_size}"
            )
        schema = Schema().observation("observations", np.float32, (n_obs,))
        if self._has_critic:
            schema.observation(
                "critic_observations", np.float32, (n_critic_obs - self._shared_size,)
            )
        schema.column("actions", np.float32, (n_act,)).reward("rewards")
        schema.column("dones", np.bool_).column("truncations", np.bool_)
        self.replay = ReplayBuffer(
            schema,
            n_env * buffer_size,
            window=strategies["Transitions"](n_step=n_steps, discount=gamma),
            selectors=strategies["Uniform"]() if selector is None else selector,
            rate_limiter=strategies["Unlimited"](),
            max_writers=n_env,
            # The device holds an open chunk of each environment too: small beside buffer_size, but
            # long beside a window.
            chunk_steps=max(64, buffer_size // 16, 16 * (n_steps + 1)),
        )
        self._seed = seed
        self._begin()

    def _begin(self) -> None:
        self._writers = self.replay.vector_writer(self.n_env, autoreset="disabled")
        device = "cpu" if self.device is None else self.device
        self._mirror = Mirror(self.replay, device, {"seed": self._seed}, shuffles=True)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Saves all steps. Errors are those of ReplayBuffer.save."""
        self.replay.save(directory)

    def load(self, directory: str | os.PathLike[str]) -> None:
        """Replaces the steps by those of the newest checkpoint; new episodes begin. Errors are
        those of ReplayBuffer.restore; after an error the buffer is as before."""
        self.replay.restore(directory)
        self._begin()

    def extend(self, tensor_dict: Any) -> None:
        """Appends one step of each environment: "observations" [n_env, n_obs], "actions"
        [n_env, n_act] and, in "next", "observations", "rewards", "dones" and "truncations",
        [n_env]; if critic observations are stored, "critic_observations" in both places. The next
        observations of an episode that ends are its last ones. The tensors are brought to the host
        by one copy."""
        following = tensor_dict["next"]
        names = ["observations", *(["critic_observations"] if self._has_critic else [])]
        step = {name: self._stored(name, tensor_dict[name]) for name in names}
        step |= {f"next_{name}": self._stored(name, following[name]) for name in names}
        step |= {"actions": tensor_dict["actions"].float(), "rewards": following["rewards"].float()}
        step |= {name: following[name].bool() for name in ("dones", "truncations")}
        arrays = on_host(step)
        ends = np.where(arrays["dones"], int(End.TERMINATED), int(End.CONTINUE))
        ends[arrays["truncations"]] = int(End.TRUNCATED)
        self._writers.append_transitions(end=ends, **arrays)

    def _stored(self, name: str, tensor: Any) -> Any:
        return (tensor[:, self._shared_size :] if name == "critic_observations" else tensor).float()

    def sample(self, batch_size: int) -> Any:
        """n_env * batch_size transitions in random order as a TensorDict: "observations", "actions"
        and, in "next", the n-step "rewards", the "observations" after the window, "dones" and
        "truncations" of its last step, and "effective_n_steps"."""
        from tensordict import TensorDict  # type: ignore[import-not-found, unused-ignore]

        n = self.n_env * batch_size
        batch = self._mirror.sample(n)
        names = ["observations", *(["critic_observations"] if self._has_critic else [])]
        data = {name: batch[name] for name in names} | {"actions": batch["actions"]}
        following = {name: batch[f"next_{name}"] for name in names}
        if self._shared_size:
            for part in (data, following):
                both = part["observations"], part["critic_observations"]
                part["critic_observations"] = torch.cat(both, dim=1)
        following["rewards"] = batch.returns["rewards"]
        following["effective_n_steps"] = batch.lengths.long()
        for name in ("dones", "truncations"):
            of_last_step = self._mirror._column(name, batch.lengths - 1)
            following[name] = of_last_step.long()
        data |= {"next": following, "weights": batch.weights, "item_keys": batch.item_keys}
        return TensorDict(data, batch_size=n)

    def update_priorities(self, keys: Any, priorities: Any) -> UpdateResult:
        """Sets the priorities, [n], of steps that `sample` gave, by their "item_keys"."""
        return self._mirror.update_priorities(keys, priorities)
