"""Numbers that calls and options are given: what is refused is named."""

import re

import numpy as np
import pytest
from testing.buffers import fill, plain_schema

import reprise


@pytest.fixture
def filled():
    buffer = reprise.ReplayBuffer(plain_schema(), 100, episode_index=True)
    fill(buffer, 50)
    return buffer


def make(buffer, **options):
    return reprise.ReplayBuffer(**{"schema": plain_schema(), "capacity_steps": 100, **options})


# Call, argument, and how to call with a value for it.
COUNTS = [
    (f"ReplayBuffer: {name}", lambda b, v, name=name: make(b, **{name: v}))
    for name in (
        "capacity_steps",
        "max_times_sampled",
        "max_writers",
        "chunk_steps",
        "shards",
        "key_tag",
    )
] + [
    (
        "ReplayBuffer.vector_writer: environments",
        lambda b, v: b.vector_writer(v, autoreset="same_step"),
    ),
    ("ReplayBuffer.sampler: seed", lambda b, v: b.sampler(seed=v)),
    ("ReplayBuffer.sampler: selector", lambda b, v: b.sampler(selector=v)),
    ("ReplayBuffer.sampler: resume", lambda b, v: b.sampler(resume=v)),
    ("ReplayBuffer.prefetch: n", lambda b, v: b.prefetch(v)),
    ("ReplayBuffer.prefetch: depth", lambda b, v: b.prefetch(4, depth=v)),
    ("ReplayBuffer.prefetch: seed", lambda b, v: b.prefetch(4, seed=v)),
    ("ReplayBuffer.prefetch: selector", lambda b, v: b.prefetch(4, selector=v)),
    (
        "ReplayBuffer.update_priorities: selector",
        lambda b, v: b.update_priorities(np.zeros(0, np.int64), [], v),
    ),
    ("ReplayBuffer.find: episode", lambda b, v: b.find(v, 0)),
    ("ReplayBuffer.find: position", lambda b, v: b.find(0, v)),
    (
        "ReplayBuffer.update_episode_priorities: episode",
        lambda b, v: b.update_episode_priorities(v, 0, [1]),
    ),
    (
        "ReplayBuffer.update_episode_priorities: position",
        lambda b, v: b.update_episode_priorities(0, v, [1]),
    ),
    (
        "ReplayBuffer.update_episode_priorities: selector",
        lambda b, v: b.update_episode_priorities(0, 0, [1], v),
    ),
    ("ReplayBuffer.set_alpha: selector", lambda b, v: b.set_alpha(0.5, v)),
    ("ReplayBuffer.decay: selector", lambda b, v: b.decay(0.5, v)),
    ("ReplayBuffer.save: keep", lambda b, v: b.save("/nowhere", keep=v)),
    (
        "ReplayBuffer.save: bytes_per_second",
        lambda b, v: b.save("/nowhere", bytes_per_second=v),
    ),
    ("SegmentTree: capacity", lambda b, v: reprise.SegmentTree(v)),
    ("SegmentTree.leaf: leaf", lambda b, v: reprise.SegmentTree(4).leaf(v)),
    ("SegmentTree.sum: first", lambda b, v: reprise.SegmentTree(4).sum(v)),
    ("SegmentTree.min: last", lambda b, v: reprise.SegmentTree(4).min(0, v)),
    ("Transitions.n_step", lambda b, v: make(b, window=reprise.Transitions(n_step=v))),
    ("Transitions.frame_stack", lambda b, v: make(b, window=reprise.Transitions(frame_stack=v))),
    ("Sequences.length", lambda b, v: make(b, window=reprise.Sequences(length=v))),
    ("MinSize.items", lambda b, v: make(b, rate_limiter=reprise.MinSize(v))),
    ("Queue.size", lambda b, v: make(b, rate_limiter=reprise.Queue(v), max_times_sampled=1)),
    (
        "LeastFrequentlySampled.candidates",
        lambda b, v: make(b, remover=reprise.LeastFrequentlySampled(v)),
    ),
    ("LowestPriority.selector", lambda b, v: make(b, remover=reprise.LowestPriority(v))),
    (r"field 'x': shape\[1\]", lambda b, v: reprise.Schema().column("x", "f4", (3, v))),
]
REALS = [
    ("ReplayBuffer.prefetch: beta", lambda b, v: b.prefetch(4, beta=v)),
    ("Sampler.sample: beta", lambda b, v: b.sampler().sample(4, beta=v)),
    ("ReplayBuffer.set_alpha: alpha", lambda b, v: b.set_alpha(v)),
    ("ReplayBuffer.decay: factor", lambda b, v: b.decay(v)),
    ("SegmentTree.fill: value", lambda b, v: reprise.SegmentTree(4).fill(v)),
    ("SegmentTree.scale: factor", lambda b, v: reprise.SegmentTree(4).scale(v)),
    ("Transitions.discount", lambda b, v: make(b, window=reprise.Transitions(discount=v))),
    ("Proportional.alpha", lambda b, v: make(b, selectors=reprise.Proportional(alpha=v))),
    ("Proportional.epsilon", lambda b, v: make(b, selectors=reprise.Proportional(epsilon=v))),
    ("Recency.p", lambda b, v: make(b, selectors=reprise.Recency(p=v))),
    ("LossAdjusted.alpha", lambda b, v: make(b, selectors=reprise.LossAdjusted(alpha=v))),
    ("Mixture.uniform", lambda b, v: make(b, selectors=reprise.Mixture(uniform=v))),
    ("Mixture.alpha", lambda b, v: make(b, selectors=reprise.Mixture(alpha=v))),
    ("RankBased.alpha", lambda b, v: make(b, selectors=reprise.RankBased(alpha=v))),
    (
        "SampleToInsertRatio.samples_per_insert",
        lambda b, v: make(b, rate_limiter=reprise.SampleToInsertRatio(v)),
    ),
    (
        "SampleToInsertRatio.error_buffer",
        lambda b, v: make(b, rate_limiter=reprise.SampleToInsertRatio(2.0, error_buffer=v)),
    ),
]
FLAGS = [
    ("ReplayBuffer: episode_index", lambda b, v: make(b, episode_index=v)),
    ("Sampler.sample: views", lambda b, v: b.sampler().sample(4, views=v)),
    ("ReplayBuffer.prefetch: gather", lambda b, v: b.prefetch(4, gather=v)),
    ("ReplayBuffer.save: incremental", lambda b, v: b.save("/nowhere", incremental=v)),
]


def ids(cases):
    return [what for what, _ in cases]


@pytest.mark.parametrize("what, call", COUNTS, ids=ids(COUNTS))
def test_what_is_no_count_is_named(filled, what, call):
    least = "; allowed: an integer of at least 0"
    for wrong, error in [(-1, ValueError), (-(2**70), ValueError), ("x", TypeError)] + [
        (1e6, TypeError),
        (np.float32(3), TypeError),
    ]:
        with pytest.raises(error, match=f"^{what} is {re.escape(repr(wrong))}{least}$"):
            call(filled, wrong)
    with pytest.raises(ValueError, match=rf"^{what} is {2**70}; allowed: an integer of \d\d bits"):
        call(filled, 2**70)


@pytest.mark.parametrize("what, call", REALS, ids=ids(REALS))
def test_what_is_no_number_is_named(filled, what, call):
    for wrong in ("x", 1j, [1.0, 2.0]):
        with pytest.raises(TypeError) as error:
            call(filled, wrong)
        assert str(error.value) == f"{what} is {wrong!r}; allowed: a number"
    with pytest.raises(ValueError, match=f"^{what} is 10+; allowed: a number in the range"):
        call(filled, 10**400)


@pytest.mark.parametrize("what, call", FLAGS, ids=ids(FLAGS))
def test_what_is_neither_true_nor_false_is_named(filled, what, call):
    with pytest.raises(TypeError, match=f"^{what} is 'x'; allowed: True or False$"):
        call(filled, "x")


def test_signed_numbers_and_counts_of_batches(filled):
    for wrong in ("x", 1.0):
        with pytest.raises(TypeError, match="compression is .*; allowed: an integer$"):
            filled.save("/nowhere", compression=wrong)
    with pytest.raises(ValueError, match="compression is 2147483648; .* 32 bits$"):
        filled.save("/nowhere", compression=2**31)
    with pytest.raises(ValueError, match="compression is -1"):
        filled.save("/nowhere", compression=-1)
    for wrong in (1e6, "x"):
        with pytest.raises(TypeError, match="Sampler.sample: n is .*; allowed: an integer$"):
            filled.sampler().sample(wrong)
    with pytest.raises(TypeError, match="VectorWriter: environment is 'x'; allowed: an integer$"):
        filled.vector_writer(2, autoreset="same_step")["x"]


def test_numbers_of_numpy_are_numbers(filled):
    one, half, yes = np.int32(1), np.float64(0.5), np.bool_(True)
    buffer = reprise.ReplayBuffer(
        plain_schema(),
        np.uint16(100),
        window=reprise.Transitions(n_step=one, discount=half),
        selectors=reprise.Proportional(alpha=half, initial=half),
        rate_limiter=reprise.MinSize(np.array(2)),
        shards=one,
        key_tag=one,
        episode_index=yes,
    )
    assert buffer.options["capacity_steps"] == 100 and buffer.options["episode_index"] is True
    buffer.set_alpha(np.float32(0.25), np.uint8(0))
    filled.sampler(seed=np.uint64(2**64 - 1)).sample(np.int8(4), beta=half, views=yes)
    assert filled.find(np.int64(0), np.uint8(3)) is not None
    assert reprise.SegmentTree(np.int64(4)).sum(one, np.int64(3)) == 0


def test_what_code_of_the_user_raises_is_raised():
    class Bad:
        def __index__(self):
            raise LookupError("mine")

        __float__ = __bool__ = __index__

    with pytest.raises(LookupError, match="mine"):
        make(None, shards=Bad())
    with pytest.raises(LookupError, match="mine"):
        make(None, window=reprise.Transitions(discount=Bad()))
    with pytest.raises(LookupError, match="mine"):
        make(None, episode_index=Bad())
    with pytest.raises(LookupError, match="mine"):
        reprise.ReplayBuffer(plain_schema(), 10).writer().completing(Bad())
