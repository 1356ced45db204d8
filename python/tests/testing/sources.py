"""Sources of batches (a sampler, a guest's, a mix) and the stages over them, which work alike for
every source."""

import contextlib

import numpy as np
import pytest

import reprise
from testing.buffers import fill, plain_buffer


def buffer_of(first, steps=40, selectors=None, **options):
    selectors = selectors or reprise.Proportional(alpha=1.0, epsilon=0.0)
    made = plain_buffer(1000, selectors=selectors, shards=1, **options)
    fill(made, steps, first)
    return made


def parts(**options):
    return buffer_of(0.0, key_tag=1, **options), buffer_of(100.0, key_tag=2, **options)


HOSTS = []  # Hosts that serve until the tests end.


def guest_source(make_parts=parts, **given):
    HOSTS.append(make_parts()[0].share())
    return reprise.attach(HOSTS[-1].address).sampler(seed=1, **given)


# Sources by name. `make_parts` makes the two buffers that a source draws from; some draw from one.
SOURCES = {
    "sampler": lambda make_parts=parts, **given: make_parts()[0].sampler(seed=1, **given),
    "guest": guest_source,
    "exact parts": lambda make_parts=parts, **given: reprise.mix(
        [(one, 8) for one in make_parts()], seed=1, **given
    ),
    "common total": lambda make_parts=parts, **given: reprise.mix(
        make_parts(), 16, seed=1, **given
    ),
}

STAGES = ("sample", "prefetch", "loader", "loader without a thread")


@contextlib.contextmanager
def staged(stage, source, n, device="cpu", **how):
    """Yields two functions: one returns the stage's next batch, the other takes priorities of its
    items."""
    if stage == "sample":
        yield (lambda: source.sample(n, **how)), source.update_priorities
    elif stage == "prefetch":
        with source.prefetch(n, **how) as batches:
            yield batches.__next__, source.update_priorities
    else:
        pytest.importorskip("torch")
        from reprise.torch import loader

        with loader(source, n, device=device, thread=stage == "loader", **how) as batches:
            yield batches.__next__, batches.update_priorities
            batches.flush()


def check_priorities_come_back(stage, source, n, numbers_of, device="cpu"):
    """Sets the priority of items with even numbers to 0, and checks that soon only odd ones are
    drawn."""
    with staged(stage, source, n, device) as (next_batch, update):
        odd_alone = 0  # Batches in a row without an even number.
        for _ in range(2000):
            batch = next_batch()
            assert len(batch.item_keys) == n
            odd = np.asarray(numbers_of(batch)) % 2
            update(batch.item_keys, odd.astype(np.float32))
            odd_alone = odd_alone + 1 if odd.all() else 0
            if odd_alone == 20:
                return
        raise AssertionError("items of priority 0 are drawn on")


def check_targets_of_the_call(stage, source, n, reward):
    """Checks that returns and discounts follow the n_step and discount of the call. The source
    needs a window of more than one step, and episodes that have not ended."""
    with staged(stage, source, n, n_step=1, discount=0.25) as (next_batch, _):
        batch = next_batch()
        assert np.array_equal(np.asarray(batch.returns[reward]), np.asarray(batch[reward]))
        assert (np.asarray(batch.discounts) == 0.25).all()
        assert (np.asarray(batch.lengths) == 1).all()
