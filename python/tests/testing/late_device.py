"""Devices for tests of reprise.torch that copy as late as possible, to expose code that does not
wait for a copy."""

from collections import deque

import numpy as np
import pytest
import torch

import reprise.torch
from reprise.torch import _Cpu


class LateCopyDevice(_Cpu):
    """A device that makes its copies in order, each only when somebody waits for it."""

    copies = True

    def __init__(self):
        self.queue = deque()
        self.memory = []  # All allocated memory.
        self.waits = 0
        self.sent = 0

    def allocator(self, nbytes):
        # Like 255 and 77, a value that no test writes.
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
        """Makes the copy now, because on this device the learner's work begins at once."""
        self.finish(event)

    def fetch(self, tensors):
        """Reads the tensors' values now, and writes the results when somebody waits for the
        event."""
        fetched = [torch.full_like(each, 77) for each in tensors]
        return fetched, self.copy([(to, each.clone()) for to, each in zip(fetched, tensors)])

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


class ManualCopyDevice(LateCopyDevice):
    """A device on which the learner's work begins only when the test calls `finish`."""

    def receive(self, sent, event):
        pass


@pytest.fixture
def late(monkeypatch):
    return use_device(LateCopyDevice(), monkeypatch)


@pytest.fixture
def latest(monkeypatch):
    return use_device(ManualCopyDevice(), monkeypatch)


def use_device(device, monkeypatch):
    monkeypatch.setattr(reprise.torch, "_device_of", lambda given: device)
    return device


@pytest.fixture(params=["cpu", "late", "cuda"])
def device(request, monkeypatch):
    """The `device` argument of a loader, for every kind of device."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    if request.param == "late":
        use_device(LateCopyDevice(), monkeypatch)
    return request.param
