"""reprise.mix: several buffers in one batch, with one set of weights."""

import time

import numpy as np
import pytest
from testing.buffers import fill, plain_buffer
from testing.refusals import refuses
from testing.threads import running, until_waiting

import reprise


def buffer_of(first, steps=50, alpha=1.0, **options):
    made = plain_buffer(
        1000, selectors=reprise.Proportional(alpha=alpha, epsilon=0.0), shards=1, **options
    )
    fill(made, steps, first)
    return made


def test_parts_are_exact_and_in_their_places():
    online, demonstrations = buffer_of(0.0), buffer_of(1000.0)
    both = reprise.mix([(online, 12), (demonstrations, 20)], seed=1)
    assert len(both) == 32 and both.parts == [slice(0, 12), slice(12, 32)]
    batch = both.sample()
    assert len(batch) == 32
    of_online = batch["state"][:, 0] < 1000
    assert of_online[:12].all() and not of_online[12:].any()
    assert (batch["next_state"][:, 0] == batch["state"][:, 0] + 1).all()
    np.testing.assert_array_equal(batch.returns["reward"], batch["reward"])
    keys = batch.item_keys.copy()
    # The batch belongs to the caller, so later draws do not change it.
    assert not both.sample().views and (batch.item_keys == keys).all()


def test_the_arguments_of_sample_apply_to_every_part():
    one, other = two_of_known_weights()
    both = reprise.mix([one, other], 32, seed=4)
    batch = both.sample(beta=1.0, normalise="not", draws="independent")
    state = batch["state"][:, 0]
    np.testing.assert_allclose(batch.probabilities, weight_of(state) / 115, rtol=1e-6)
    np.testing.assert_allclose(batch.weights, 115 / (40 * weight_of(state)), rtol=1e-5)
    assert (state[both.parts[0]] < 1000).all() and (state[both.parts[1]] >= 1000).all()
    with pytest.raises(ValueError, match="normalise is 'by_buffer'; allowed of exact parts"):
        reprise.mix([(one, 4), (other, 4)]).sample(normalise="by_buffer")


def test_passes_and_fresh_items_are_counted_for_each_part():
    one, other = buffer_of(0.0, 10), buffer_of(1000.0, 30)
    both = reprise.mix([(one, 5), (other, 5)])
    for _ in range(6):
        both.sample(draws="epoch")
    assert both.passes == [3, 1]
    both = reprise.mix([(one, 8), (other, 4)], fresh=0.5)
    both.sample()
    fill(one, 3, 100.0)
    assert both.sample()["state"][:3, 0].tolist() == [100, 101, 102] and both.fresh == [3, 0]


def priorities_by_state(buffer, priority_of):
    batch = buffer.sampler().sample(len(buffer), draws="without_replacement")
    buffer.update_priorities(batch.item_keys, priority_of(batch["state"][:, 0]))


def two_of_known_weights():
    """Returns two buffers, with states 0 to 9 and 1000 to 1029, whose priorities add up to 55 and
    60."""
    one, other = buffer_of(0.0, 10, key_tag=3000), buffer_of(1000.0, 30, key_tag=8)
    priorities_by_state(one, lambda state: state + 1)
    priorities_by_state(other, lambda state: np.full(len(state), 2.0))
    return one, other


def weight_of(state):
    return np.where(state < 1000, state + 1, 2.0)


def test_wrong_keys_change_no_priority():
    one, other = buffer_of(0.0, key_tag=3000), buffer_of(1000.0, key_tag=8)
    both = reprise.mix([one, other], 300)
    keys = both.sample().item_keys
    assert both.update_priorities([], []) == (0, 0)
    keys[7] ^= -(1 << 52)
    with pytest.raises(ValueError, match=r"keys\[7\] has tag .*; allowed: keys of the buffers"):
        both.update_priorities(keys, np.ones(300))
    with pytest.raises(ValueError, match=r"shape \(300,\).*; given shape \(299,\)"):
        both.update_priorities(keys, np.ones(299))
    with pytest.raises(TypeError):
        both.update_priorities(keys.astype(float), np.ones(300))
    assert one.stats()["applied_updates"] + other.stats()["applied_updates"] == 0
    twins = reprise.mix([(buffer_of(0.0, key_tag=7), 2), (buffer_of(0.0, key_tag=7), 2)])
    keys = twins.sample().item_keys
    assert twins.update_priorities(keys, np.ones(4)) == (4, 0)
    message = (
        r"^Mix.update_priorities: parts\[0\] and parts\[1\] have key_tag 7; allowed: .* a whole"
    )
    refuses(ValueError, message, twins.update_priorities, keys[:3], np.ones(3))


def waiting_mix(empty):
    """Returns a mix whose first buffer has items, and whose second, `empty`, makes a draw wait."""
    return reprise.mix([(buffer_of(0.0), 4), (empty, 4)])


def test_a_mix_is_for_one_thread_at_a_time(tmp_path):
    empty = plain_buffer(10)
    empty.save(tmp_path)
    both = waiting_mix(empty)
    with running(lambda: pytest.raises(reprise.Closed, both.sample)):
        until_waiting(empty, "samplers_for_items")
        for call in (lambda: both.sample(timeout=0), lambda: both.parts, lambda: len(both)):
            refuses(RuntimeError, "Mix is in use by another call", call)
        refuses(RuntimeError, "ReplayBuffer.restore: 1 other call", empty.restore, tmp_path)
        empty.close()
    assert len(both) == 8


def test_a_mix_keeps_its_buffers_alive():
    empty = plain_buffer(10)
    both = waiting_mix(empty)
    stats = empty.stats
    del empty
    with pytest.raises(TimeoutError):
        both.sample(timeout=0)
    assert stats()["samplers_for_items"]["timeouts"] == 1


def test_a_draw_that_timed_out_is_continued_by_the_next_call():
    empty, mine = plain_buffer(10), buffer_of(0.0)
    both = reprise.mix([(mine, 4), (empty, 4)])
    refuses(TimeoutError, "0 of the 1 items", both.sample, timeout=0)
    fill(empty, 1, first=500)
    assert (both.sample()["state"][4:, 0] == 500).all()
    assert mine.stats()["sampled_items"] == 4


def test_a_draw_that_timed_out_is_not_continued_with_another_discount():
    empty, mine = plain_buffer(10), buffer_of(0.0)
    both = reprise.mix([(mine, 4), (empty, 4)])
    refuses(TimeoutError, r"parts\[1\]", both.sample, timeout=0)
    refuses(TimeoutError, r"parts\[1\]", both.sample, timeout=0, discount=0.5)
    fill(empty, 1, first=500)
    assert (both.sample(timeout=0, discount=0.5).discounts == 0.5).all()
    assert mine.stats()["sampled_items"] == 8


def test_the_warning_of_a_long_wait_describes_the_part_that_waits():
    empty = plain_buffer(10, rate_limiter=reprise.MinSize(7))

    def close():
        while not warned and empty.stats()["samplers_for_items"]["waiting_for"] < 60:
            time.sleep(0.05)
        empty.close()

    # The call warns after 5 s, or later on a busy machine.
    message = r"waited for ([5-9]|\d\d+) s .*; 0 items .*0 of the 7 items"
    with pytest.warns(RuntimeWarning, match=message) as warned:
        with running(close), pytest.raises(reprise.Closed):
            waiting_mix(empty).sample()


def test_a_mixed_batch_can_hold_each_frame_once():
    parts = [(buffer_of(0.0), 3), (buffer_of(1000.0), 2)]
    assert reprise.mix(parts).sample().frames == {}
    batch = reprise.mix(parts, unique_frames=True).sample()
    assert (batch.frames["state"][:, 1] == batch["next_state"]).all()


def test_what_does_not_fit_a_common_total_is_refused():
    one, other = buffer_of(0.0), buffer_of(1000.0)
    limited = buffer_of(0.0, max_times_sampled=2)
    for parts, n, message in (
        ([], 4, "Mix: no parts; allowed: at least one"),
        ([one, other], 0, "n is 0; allowed: at least 1"),
        ([one, one], 4, r"parts\[0\] is a buffer given twice"),
        ([one, limited], 4, r"parts\[1\] has max_times_sampled 2"),
    ):
        refuses(ValueError, message, reprise.mix, parts, n)
    for parts, place in (([(one, 1), (other, 2)], 0), ([one, (other, 2)], 1)):
        message = rf"Mix: parts\[{place}\] is .*; allowed: a ReplayBuffer, as n is given, or counts"
        refuses(TypeError, message, reprise.mix, parts, 20)
    with pytest.raises(ValueError, match="fresh is 0.5; allowed by the common total: 0"):
        reprise.mix([one, other], 4, fresh=0.5)
    apart = plain_buffer(10, selectors=reprise.RankBased())
    message = r"parts\[1\] has a selector that.*; allowed by the common"
    refuses(ValueError, message, reprise.mix, [one, apart], 4)
    both = reprise.mix([one, other], 4)
    message = "^Mix.sample: draws .* common total: 'stratified' and 'independent'"
    refuses(ValueError, message, both.sample, draws="epoch")
    refuses(TypeError, r"Mix: parts\[0\] is 3; allowed", reprise.mix, [3], 4)
    assert one.stats()["sampled_items"] == 0


def test_arguments_that_do_not_fit_are_refused():
    schema = reprise.Schema().observation("state", np.float32, (3,)).reward()
    foreign = reprise.ReplayBuffer(schema, 100)
    longer = buffer_of(0.0, window=reprise.Transitions(n_step=3))
    mine = buffer_of(0.0)
    for parts, message in (
        ([], "no parts"),
        ([(mine, 1), (mine, 0)], "0 items; allowed: at least 1"),
        ([(mine, 1), (mine, -1)], r"parts\[1\] is -1; allowed"),
        ([(mine, 1), (foreign, 1)], r"^Mix: parts\[1\] has another schema than parts\[0\]"),
        ([(mine, 1), (longer, 1)], r"^Mix: parts\[1\] has another window than parts\[0\]"),
    ):
        refuses(ValueError, message, reprise.mix, parts)
    for wrong in (1.5, 2.0, "2", None):
        said = r"Mix: parts\[1\] is .*; allowed: a ReplayBuffer and an"
        refuses(TypeError, said, reprise.mix, [(mine, 1), (mine, wrong)])
    refuses(TypeError, r"Mix: parts\[0\] is <reprise.ReplayBuffer", reprise.mix, [mine])
    assert len(reprise.mix([(mine, np.int64(3))])) == 3
    empty = plain_buffer()
    ended = reprise.mix([(mine, 2), (empty, 2)])
    with pytest.raises(TimeoutError, match=r"^Mix.sample: parts\[1\]: timed out.*0 of the 1 items"):
        ended.sample(timeout=0.0)
    empty.close()
    refuses(reprise.Closed, r"^Mix.sample: parts\[1\]: ", ended.sample)
    for given in ((mine, 10), (3,)):
        said = r"Mix: parts is .*; allowed: mix\(\[replay, other\], n"
        refuses(TypeError, said, reprise.mix, *given)


def test_another_is_made_after_a_restore(tmp_path):
    online, demonstrations = buffer_of(0.0), buffer_of(1000.0)
    both = reprise.mix([(online, 4), (demonstrations, 4)])
    demonstrations.save(tmp_path)
    demonstrations.restore(tmp_path)
    keys = demonstrations.sampler().sample(4).item_keys
    with pytest.raises(reprise.Closed, match=r"parts\[1\] was restored since"):
        both.update_priorities(keys, np.ones(4))
    with pytest.raises(reprise.Closed):
        both.sample()
    again = reprise.mix([(online, 4), (demonstrations, 4)])
    assert again.update_priorities(keys, np.ones(4)).applied == 4
