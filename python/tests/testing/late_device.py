"""Devices for tests of reprise.torch that copy as late as they may, and the fixtures that give them."""

from collections import deque

import numpy as np
import pytest
import torch

import reprise.torch
from reprise.torch import _Cpu


class Late(_Cpu):
    """A device whose copies are made in their order, and not before somebody waits for one."""

    copies = True

    def __init__(self):
        self.queue = deque()
        self.memory = []  # All that was asked for.
        self.waits = 0
        self.sent = 0

    def allocator(self, nbytes):
        self.memory.append(np.full(nbytes, 254, np.uint8))
        return self.memory[-1]

    def copy(self, pairs):
        event = LateEvent(self)
        self.queue.append((event, pairs))
        return event

    def send(self, host):
        assert any(np.shares_memory(host.numpy(), each) for each in self.memory)
        self.sent += 1
        sent = torch.full_like(host, 255)
        return sent, self.copy([(sent, host)])

    def receive(self, sent, event):
        """As if the learner's work began at once."""
        self.finish(event)

    def fetch(self, tensors):
        """What the learner's stream has then; it comes when somebody waits for it."""
        here = [torch.full_like(each, 77) for each in tensors]
        return here, self.copy([(to, each.clone()) for to, each in zip(here, tensors)])

    def finish(self, last=None):
        while self.queue and not (last and last.done):
            event, pairs = self.queue.popleft()
            for to, tensor in pairs:
                to.copy_(tensor)
            event.done = True


class LateEvent:
    def __init__(self, device):
        self.device, self.done = device, False

    def query(self):
        return self.done

    def synchronize(self):
        self.device.waits += not self.done
        self.device.finish(self)


class Latest(Late):
    """One whose learner's work begins when the test calls `finish`: for batches without such work."""

    def receive(self, sent, event):
        pass


@pytest.fixture
def late(monkeypatch):
    return put(Late(), monkeypatch)


@pytest.fixture
def latest(monkeypatch):
    return put(Latest(), monkeypatch)


def put(device, monkeypatch):
    monkeypatch.setattr(reprise.torch, "_device_of", lambda given: device)
    return device


@pytest.fixture(params=["cpu", "late", "cuda"])
def device(request, monkeypatch):
    """What to give as `device`."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    if request.param == "late":
        put(Late(), monkeypatch)
    return request.param
