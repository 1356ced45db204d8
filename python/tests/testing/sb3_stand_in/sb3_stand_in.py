"""A plugin of pytest that replaces Stable-Baselines3's own buffers by those of reprise.sb3,
wherever they have been imported."""

import sys

import stable_baselines3
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common import buffers

from reprise import sb3

REPLACED = {
    buffers.ReplayBuffer: sb3.ReplayBuffer,
    buffers.DictReplayBuffer: sb3.DictReplayBuffer,
    buffers.NStepReplayBuffer: sb3.ReplayBuffer,
    HerReplayBuffer: sb3.HerReplayBuffer,
}

for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith(stable_baselines3.__name__):
        for theirs, ours in REPLACED.items():
            if getattr(module, theirs.__name__, None) is theirs:
                setattr(module, theirs.__name__, ours)
