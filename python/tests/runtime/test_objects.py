"""Objects whose __init__ was called never or twice, subclasses, and a batch in several threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from testing.buffers import fill
from testing.refusals import refuses

import reprise

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
def test_calls_of_an_object_without_init_are_refused(kind):
    made = kind.__new__(kind)
    for _ in range(2):
        refuses(TypeError, "__init__ of the object was not called", CALLS[kind], made)


def test_writers_and_samplers_are_made_by_a_buffer():
    for kind in (reprise.Writer, reprise.Sampler, reprise.VectorWriter, reprise.Prefetcher):
        refuses(TypeError, "constructor", kind)


def test_init_makes_an_object_once():
    tree = reprise.SegmentTree(4)
    refuses(TypeError, "SegmentTree: __init__ was called before", tree.__init__, 8)
    assert len(tree) == 4


class Named(reprise.SegmentTree):
    """A subclass has its own attributes and the methods of its base."""

    def __init__(self, name):
        super().__init__(4)
        self.name = name


def test_subclasses():
    tree = Named("mine")
    tree.assign([0, 3], [1, 2])
    assert (tree.name, tree.sum(), len(tree)) == ("mine", 3, 4)


def test_threads_read_one_batch(buffer):
    fill(buffer, 50)
    batch = buffer.sampler().sample(64)
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda _: {**batch, "weights": batch.weights}, range(2000)))
    for name, array in (read[0] | dict(batch)).items():
        assert all(np.array_equal(one[name], array) for one in read)
