"""Stands in for tensordict where it is not installed: the part that SimpleReplayBuffer and its
tests use."""

import torch


class TensorDict(dict):
    def __init__(self, source, batch_size):
        super().__init__()
        self.batch_size = torch.Size([batch_size] if isinstance(batch_size, int) else batch_size)
        for name, value in source.items():
            self[name] = TensorDict(value, batch_size) if isinstance(value, dict) else value

    def __getitem__(self, key):
        if isinstance(key, int):
            return TensorDict({name: value[key] for name, value in self.items()}, [])
        if isinstance(key, tuple):
            return super().__getitem__(key[0])[key[1:] if len(key) > 2 else key[1]]
        return super().__getitem__(key)

    def __len__(self):
        return self.batch_size[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def to(self, device):
        moved = {name: value.to(device) for name, value in self.items()}
        return TensorDict(moved, self.batch_size)

    def cpu(self):
        return self.to("cpu")
