"""Objects that are not made as usual: of several bases, or never initialised."""

import numpy as np
import pytest
from conftest import plain_schema

import reprise


class Both(reprise.SegmentTree, reprise.ReplayBuffer):
    """Of two bound classes, each with an object of its own."""

    def __init__(self):
        reprise.SegmentTree.__init__(self, 4)
        reprise.ReplayBuffer.__init__(self, plain_schema(), 100, selectors=reprise.Uniform())


class Other(reprise.ReplayBuffer, reprise.SegmentTree):
    def __init__(self):
        reprise.ReplayBuffer.__init__(self, plain_schema(), 100)
        reprise.SegmentTree.__init__(self, 4)


@pytest.mark.parametrize("kind", [Both, Other])
def test_methods_of_each_base(kind):
    made = kind()
    made.assign([0, 3], [1, 2])
    assert made.sum() == 3 and made.leaves.tolist() == [1, 0, 0, 2]
    writer = reprise.ReplayBuffer.writer(made)
    writer.append_episode(state=np.zeros((11, 2)), action=np.zeros(10, int), reward=np.zeros(10))
    keys = reprise.ReplayBuffer.sampler(made).sample(4).keys
    assert made.update_priorities(keys, np.ones(4)) == (4, 0)
    assert reprise.ReplayBuffer.__len__(made) == 10
    assert reprise.SegmentTree.__len__(made) == 4


CALLS = {
    reprise.ReplayBuffer: lambda o: o.update_priorities(np.zeros(0, np.int64), []),
    reprise.Writer: lambda o: o.append(action=0),
    reprise.VectorWriter: lambda o: o.begin(),
    reprise.Sampler: lambda o: o.sample(1),
    reprise.Batch: lambda o: o["state"],
    reprise.SegmentTree: lambda o: o.sum(),
    reprise.Prefetcher: lambda o: next(o),
    reprise.Schema: lambda o: o.fields,
}


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_without_init_there_is_nothing_to_call(kind):
    made = kind.__new__(kind)
    for _ in range(2):
        with pytest.raises(TypeError, match="__init__ of the object was not called"):
            CALLS[kind](made)


class TwoWithoutInit(reprise.Writer, reprise.Sampler):
    def __init__(self):
        pass


def test_writers_and_samplers_are_made_by_a_buffer():
    for kind in (reprise.Writer, reprise.Sampler, reprise.VectorWriter, reprise.Prefetcher):
        with pytest.raises(TypeError, match="constructor"):
            kind()
    made = TwoWithoutInit.__new__(TwoWithoutInit)
    for call in (lambda: made.append(action=0), lambda: made.sample(1)):
        with pytest.raises(TypeError, match="__init__ of the object was not called"):
            call()
