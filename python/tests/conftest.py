"""Fixtures of all tests. pytest puts the folder of this file on the path, so tests can import their
library, `testing`."""

import pytest

import reprise
from testing.buffers import plain_schema


@pytest.fixture
def schema():
    return plain_schema()


@pytest.fixture
def buffer():
    """A buffer of 4096 single transitions in one shard."""
    made = reprise.ReplayBuffer(
        plain_schema(),
        4096,
        window=reprise.Transitions(n_step=1, discount=0.5),
        selectors=reprise.Uniform(),
        shards=1,
    )
    yield made
    made.close()
