"""Compares reprise.compat.experience_replay with lists of episodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import reprise
from testing.refusals import refuses
from testing.threads import running
from reprise.compat.experience_replay import Experience_Replay, ExperienceReplay, PickSelector


def state(episode: int, t: int) -> list[float]:
    return [float(episode), float(t)]


def record(
    replay: ExperienceReplay, episode: int, steps: int, terminated: bool = True, first: int = 0
) -> int:
    """Records `steps` steps of an episode; action and reward tell episode and step."""
    handle: Any = None if first == 0 else episode
    for t in range(first, first + steps):
        last = terminated and t == first + steps - 1
        final = state(episode, t + 1) if last else None
        handle = replay.record(handle, state(episode, t), 100 * episode + t, t * 0.5, final)
    return int(handle)


def windows(batch: list[NDArray[Any]]) -> list[tuple[int, int]]:
    """Returns (episode, position) of every window. Checks each row, and that rows beyond the length
    are 0."""
    states, actions, rewards, following, lengths, next_lengths, episodes, positions = batch
    found = list(zip(episodes.tolist(), positions.tolist()))
    for row, (episode, position) in enumerate(found):
        length = int(lengths[row])
        assert length - 1 <= next_lengths[row] <= length
        for t in range(states.shape[1]):
            inside = t < length
            at = position + t
            assert states[row, t].tolist() == (state(episode, at) if inside else [0, 0])
            assert following[row, t].tolist() == (state(episode, at + 1) if inside else [0, 0])
            assert actions[row, t] == (100 * episode + at if inside else 0)
            assert rewards[row, t] == (at * 0.5 if inside else 0)
    return found


def test_a_step_counts_once_its_next_state_is_known() -> None:
    replay = ExperienceReplay(100, seed=1)
    assert len(replay) == 0 and replay.get_random_batch(4) is None
    handle = replay.new_episode()
    lengths, picks = [], []
    for t in range(4):
        assert replay.record(handle, state(handle, t), 100 * handle + t, t * 0.5) == handle
        lengths.append(len(replay))
        batch = replay.get_random_batch(64)
        picks.append(0 if batch is None else len(set(windows(batch))))
    assert lengths == picks == [0, 1, 2, 3]
    assert replay.record(handle, state(handle, 4), 100 * handle + 4, 2.0, state(handle, 5)) == 0
    assert len(replay) == 5
    assert set(windows(replay.get_batch(200))) == {(0, t) for t in range(5)}  # type: ignore[arg-type]


@pytest.mark.parametrize("pick_len", [1, 3, 8])
@pytest.mark.parametrize("short", [False, True])
def test_windows_are_those_of_the_episodes(pick_len: int, short: bool) -> None:
    rng = np.random.default_rng(pick_len)
    replay = ExperienceReplay(10_000, pick_len, short, seed=1)
    assert replay.get_pick_policy() == (pick_len, short)
    expected: set[tuple[int, int]] = set()
    ends: dict[int, int] = {}
    for episode in range(20):
        steps = int(rng.integers(1, 13))
        assert record(replay, episode, steps) == episode
        ends[episode] = steps
        expected |= {(episode, t) for t in range(steps - pick_len + 1)}
        if short and steps < pick_len:
            expected.add((episode, 0))
    batch = replay.get_random_batch(4_000)
    assert batch is not None
    found = windows(batch)
    assert set(found) == expected
    # A window at an episode's end has one next state less than steps: the final state is none.
    at_end = [position + length == ends[e] for (e, position), length in zip(found, batch[4])]
    assert np.array_equal(batch[5], batch[4] - np.array(at_end))


def test_types_and_shapes_of_the_outputs() -> None:
    replay = ExperienceReplay(100, 2, action_dtype=np.float32, seed=1)
    for t in range(4):
        replay.record(0, np.full((2, 3), t), [t, t], t, np.zeros((2, 3)) if t == 3 else None)
    batch = replay.get_random_batch(5)
    assert batch is not None
    assert [(x.dtype.name, x.shape) for x in batch] == [
        ("float32", (5, 2, 2, 3)),
        ("float32", (5, 2, 2)),
        ("float32", (5, 2)),
        ("float32", (5, 2, 2, 3)),
        ("int32", (5,)),
        ("int32", (5,)),
        ("int64", (5,)),
        ("int32", (5,)),
    ]


def test_the_latest_steps_stay() -> None:
    replay = ExperienceReplay(20, seed=1)
    for episode in range(30):
        record(replay, episode, 3)
        assert len(replay) == min(3 * episode + 3, 20)
    batch = replay.get_random_batch(500)
    assert batch is not None
    everything = [(e, t) for e in range(30) for t in range(3)]
    found = set(windows(batch))
    assert len(found) == 20 and (29, 2) in found and found <= set(everything[-40:])


def test_several_episodes_may_be_open_at_once() -> None:
    replay = ExperienceReplay(100, 2, seed=1)
    handles = [replay.new_episode() for _ in range(3)]
    for t in range(4):
        states = [state(h, t) for h in handles]
        finals = [state(h, t + 1) if t == 3 else None for h in handles]
        actions = [100 * h + t for h in handles]
        assert replay.record(handles, states, actions, t * 0.5, finals) == handles
    batch = replay.get_random_batch(300)
    assert batch is not None
    assert set(windows(batch)) == {(h, t) for h in handles for t in range(3)}


def test_arrays_are_split_by_episode() -> None:
    replay = ExperienceReplay(100, seed=1)
    handles: Any = [None, None]
    for t in range(3):
        states = np.array([state(0, t), state(1, t)])
        finals = np.array([state(0, 3), state(1, 3)]) if t == 2 else None
        actions, rewards = np.array([t, 100 + t]), np.full(2, t * 0.5)
        handles = replay.record(handles, states, actions, rewards, finals)
        assert handles == [0, 1]
    batch = replay.get_random_batch(200)
    assert batch is not None and batch[0].shape == (200, 1, 2)
    assert set(windows(batch)) == {(h, t) for h in range(2) for t in range(3)}


def test_a_call_that_fails_records_nothing() -> None:
    replay = ExperienceReplay(100, seed=1)
    first: list[tuple[Any, ...]] = [
        (None, state(0, 0), 0, 0.0, [1.0, 2.0, 3.0]),
        (None, [[0.0]], 0, "much"),
        ([None, None], [state(0, 0), [1.0]], 0, 0.0),
        ([None, None], np.zeros((3, 2)), 0, 0.0),
    ]
    for call in first:
        with pytest.raises(ValueError):
            replay.record(*call)
    # The failed calls have not fixed any shapes.
    assert record(replay, 0, 2, terminated=False) == 0
    then: list[tuple[tuple[Any, ...], str]] = [
        ((0, state(0, 2), 2, 1.0, [1.0]), r"final_state has shape \(1,\); allowed: \(2,\)"),
        ((0, state(0, 2), 2, "much"), "much"),
        (([0, None], [state(0, 2), [1.0]], [2, 100], 1.0), r"state has shape \(1,\)"),
        (([0, None], [state(0, 2)] * 2, [2], 1.0), "1 of action for 2 episodes"),
    ]
    for arguments, words in then:
        refuses(ValueError, words, replay.record, *arguments)
        assert len(replay) == 1
    assert record(replay, 0, 2, first=2) == 0
    batch = replay.get_random_batch(200)
    assert batch is not None and set(windows(batch)) == {(0, t) for t in range(4)}


def test_too_many_open_episodes_end_the_one_whose_last_record_is_the_oldest() -> None:
    replay = ExperienceReplay(100, max_open_episodes=2, seed=1)
    for handle in range(3):
        assert record(replay, handle, 3, terminated=False) == handle
    # Episode 0 was ended, so its step goes to a new one.
    assert replay.record(0, state(3, 0), 300, 0.0) == 3
    assert replay.record(2, state(2, 3), 203, 1.5) == 2
    batch = replay.get_random_batch(200)
    assert batch is not None
    assert set(windows(batch)) == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}
    assert np.array_equal(batch[4], batch[5])


def test_recording_to_more_episodes_than_may_be_open_is_refused() -> None:
    replay = ExperienceReplay(100, max_open_episodes=2, seed=1)
    handles = replay.record([None] * 3, [state(h, 0) for h in range(3)], [0, 100, 200], 0.0)
    words = "episode 0 was ended before its first step .* allowed: max_open_episodes, 2"
    refuses(RuntimeError, words, replay.record, 0, state(0, 1), 1, 0.5)
    refuses(RuntimeError, words, replay.record, handles[::-1], np.zeros((3, 2)), 1, 0.5)
    assert len(replay) == 0
    assert replay.record([None, 1], [state(3, 0), state(1, 1)], [300, 101], 0.5) == [3, 1]
    assert replay.record([3, 1], [state(3, 1), state(1, 2)], [301, 102], 0.5) == [3, 1]
    assert len(replay) == 3


@pytest.mark.parametrize("selector", [reprise.MinHeap, reprise.Fifo, reprise.Lifo])
def test_a_batch_larger_than_the_buffer_repeats_each_window_equally_often(selector: Any) -> None:
    replay = ExperienceReplay(100, seed=1)
    place = replay.new_pick_selector(selector())
    record(replay, 0, 3)
    batch = replay.get_random_batch(6, h_ps=place)
    assert batch is not None and sorted(windows(batch)) == [(0, t) for t in range(3) for _ in "ab"]


def test_greedy_selectors_pick_by_priority_and_new_windows_first() -> None:
    replay = ExperienceReplay(100, seed=1)
    greedy = replay.new_pick_selector(PickSelector.greedy_rb_tree)
    other = replay.new_pick_selector("greedy_bin_heap")
    assert (greedy, other) == (1, 2)
    record(replay, 0, 6)
    batch = replay.get_random_batch(6, h_ps=greedy)
    assert batch is not None and sorted(windows(batch)) == [(0, t) for t in range(6)]
    replay.set_priority(greedy, batch[6], batch[7], batch[7] * 1.0)
    top = replay.get_random_batch(3, h_ps=greedy)
    assert top is not None and windows(top) == [(0, 5), (0, 4), (0, 3)]
    record(replay, 1, 1)
    top = replay.get_random_batch(2, h_ps=greedy)
    assert top is not None and windows(top) == [(1, 0), (0, 5)]
    # Windows that were not in the last batch are looked up, and unknown ones are ignored.
    replay.set_priority(greedy, np.array([0, 9, -1, 1]), np.array([0, 0, 0, 0]), np.full(4, 50.0))
    replay.set_priority(greedy, [1], [0], [60.0])
    top = replay.get_random_batch(3, h_ps=greedy)
    assert top is not None and windows(top) == [(1, 0), (0, 0), (0, 5)]
    again = replay.get_random_batch(17, h_ps=greedy)
    assert again is not None
    counts = {window: windows(again).count(window) for window in set(windows(again))}
    assert counts.pop((1, 0)) == counts.pop((0, 0)) == counts.pop((0, 5)) == 3
    assert set(counts.values()) == {2} and len(counts) == 4
    # Each selector has priorities of its own, and selector 0 has none.
    replay.set_priority(other, [0], [2], [1.0])
    replay.set_priority(0, [0], [2], [1.0])
    rest = replay.get_random_batch(6, h_ps=other)
    assert rest is not None and (0, 2) not in windows(rest)
    replay.reset_priorities(greedy)
    replay.set_priority(greedy, [1], [0], [3.0])
    rest = replay.get_random_batch(6, h_ps=greedy)
    assert rest is not None and (1, 0) not in windows(rest)


def test_takes_selectors_of_reprise() -> None:
    replay = ExperienceReplay(100, seed=1)
    by_priority = replay.new_pick_selector(reprise.Proportional(alpha=1.0, epsilon=0.0))
    record(replay, 0, 4)
    replay.set_priority(by_priority, np.zeros(4), np.arange(4), np.arange(4))
    batch = replay.get_random_batch(600, h_ps=by_priority)
    assert batch is not None
    counts = np.bincount(batch[7])
    assert counts[0] == 0 and np.abs(counts - [0, 100, 200, 300]).max() < 30


@pytest.mark.parametrize("initial, expected", [(5.0, 5.0), ("maximum_in_buffer", 1.0)])
def test_reset_priorities_gives_windows_the_initial_priority(initial: Any, expected: float) -> None:
    replay = ExperienceReplay(100, seed=1)
    heap = replay.new_pick_selector(reprise.MaxHeap(initial=initial))
    record(replay, 0, 4)
    replay.set_priority(heap, np.zeros(4), np.arange(4), [0.0, 0.0, 7.0, 0.0])
    replay.reset_priorities(heap)
    replay.set_priority(heap, [0, 0], [0, 3], [expected - 0.5, expected + 0.5])
    batch = replay.get_random_batch(4, h_ps=heap)
    assert batch is not None
    found = batch[7].tolist()
    assert found[0] == 3 and found[3] == 0


def test_no_batch_without_enough_windows() -> None:
    replay = ExperienceReplay(100, 2, seed=1)
    record(replay, 0, 5)
    assert replay.get_random_batch(8, 0.5) is None  # The 4 windows are not more than 8 * 0.5.
    assert replay.get_random_batch(8, 0.49) is not None
    short = ExperienceReplay(100, 9, seed=1)
    record(short, 0, 8)
    assert short.get_random_batch(1) is None


def test_priorities_go_to_the_named_windows_not_to_those_of_the_last_batch() -> None:
    replay = ExperienceReplay(100, seed=1)
    greedy = replay.new_pick_selector(PickSelector.greedy_rb_tree)
    record(replay, 0, 2)
    record(replay, 1, 2)
    every = replay.get_random_batch(4, h_ps=greedy)
    assert every is not None
    replay.set_priority(greedy, every[6], every[7], np.ones(4))
    first = replay.get_random_batch(1, h_ps=greedy)
    assert first is not None
    other, position = 1 - first[6], first[7]
    replay.set_priority(greedy, other, position, [7.0])
    top = replay.get_random_batch(1, h_ps=greedy)
    assert top is not None and windows(top) == [(int(other[0]), int(position[0]))]
    replay.set_priority(greedy, other, 1 - position, [9.0])
    top = replay.get_random_batch(1, h_ps=greedy)
    assert top is not None and windows(top) == [(int(other[0]), int(1 - position[0]))]


def test_an_open_episode_keeps_its_handle_while_its_first_steps_are_evicted() -> None:
    replay = ExperienceReplay(20, max_open_episodes=2, seed=1)
    greedy = replay.new_pick_selector(PickSelector.greedy_rb_tree)
    record(replay, 0, 1, terminated=False)
    for t in range(1, 200):
        record(replay, 0, 1, terminated=t == 199, first=t)
        record(replay, t, 1)
    every = replay.get_random_batch(len(replay), h_ps=greedy)
    assert every is not None
    *_, episodes, positions = every
    replay.set_priority(greedy, episodes, positions, np.zeros(len(episodes)))
    # Episodes 0 and 199 are still found by their handles, so their last steps are picked first.
    replay.set_priority(greedy, np.array([0, 199]), np.array([199, 0]), [2.0, 1.0])
    batch = replay.get_random_batch(2, h_ps=greedy)
    assert batch is not None and windows(batch) == [(0, 199), (199, 0)]


def test_an_old_episode_that_second_chance_keeps_is_found_by_its_handle() -> None:
    replay = ExperienceReplay(1000, max_open_episodes=2, seed=1)
    replay.set_elimination_policy(second_chance_elimination=True)
    lowest = replay.new_pick_selector(reprise.MinHeap(initial=1.0))
    record(replay, 0, 3)  # Has the lowest priorities, so every batch picks one of its windows.
    replay.set_priority(lowest, [0, 0], [0, 1], [0.2, 0.1])
    for episode in range(1, 6000):
        record(replay, episode, 1)
        if episode % 20 == 0:
            replay.get_random_batch(1, h_ps=lowest)
    replay.set_priority(lowest, [0, 3000], [0, 0], [0.0, 0.0])  # Episode 3000 is gone.
    batch = replay.get_random_batch(2, h_ps=lowest)
    assert batch is not None and windows(batch) == [(0, 0), (0, 1)]
    assert len(replay._stored) < 2200  # Handles of evicted episodes are forgotten.


def test_without_second_chance_a_picked_window_leaves_when_it_is_the_oldest() -> None:
    replay = ExperienceReplay(1000, seed=1)
    replay.set_elimination_policy(True)
    replay.set_elimination_policy(False)
    lowest = replay.new_pick_selector(reprise.MinHeap(initial=1.0))
    record(replay, 0, 1)
    replay.set_priority(lowest, [0], [0], [0.0])
    for episode in range(1, 4000):
        record(replay, episode, 1)
        if episode % 20 == 0:
            batch = replay.get_random_batch(1, h_ps=lowest)
    assert batch is not None and windows(batch) != [(0, 0)]


def test_clear_forgets_everything_but_the_selectors() -> None:
    replay = ExperienceReplay(100, seed=1)
    greedy = replay.new_pick_selector(PickSelector.greedy_bin_heap)
    record(replay, 0, 4)
    replay.clear()
    assert len(replay) == 0 and replay.get_random_batch(1) is None
    assert record(replay, 0, 2) == 0
    batch = replay.get_random_batch(2, h_ps=greedy)
    assert batch is not None and len(set(windows(batch))) == 2


def test_comes_back_from_a_folder(tmp_path: Path) -> None:
    saved = Experience_Replay(100, 3, True, seed=1)
    greedy = saved.new_pick_selector(PickSelector.greedy_rb_tree)
    record(saved, 0, 6)
    record(saved, 1, 2)
    saved.set_priority(greedy, np.zeros(4), np.arange(4), np.array([4.0, 3.0, 2.0, 1.0]))
    assert saved.serialize(tmp_path / "a" / "replay")
    loaded = ExperienceReplay(7, seed=2)
    record(loaded, 0, 2, terminated=False)
    assert loaded.unserialize(tmp_path / "a" / "replay")
    assert loaded.get_pick_policy() == (3, True) and len(loaded) == len(saved) == 8
    ordered = loaded.get_random_batch(5, h_ps=greedy)
    assert ordered is not None
    assert windows(ordered) == [(1, 0), (0, 0), (0, 1), (0, 2), (0, 3)]
    loaded.set_priority(greedy, [0], [3], [9.0])
    assert record(loaded, 2, 3) == 2
    ordered = loaded.get_random_batch(3, h_ps=greedy)
    assert ordered is not None and set(windows(ordered)) == {(1, 0), (2, 0), (0, 3)}
    assert loaded.record(None, state(3, 0), 300) == 3
    loaded.serialize(tmp_path / "a" / "replay")
    record(loaded, 4, 3)
    loaded.unserialize(tmp_path / "a" / "replay")
    assert len(loaded) == 11 and loaded.record(3, state(4, 0), 400) == 4


def test_loading_missing_damaged_or_foreign_files_changes_nothing(tmp_path: Path) -> None:
    replay = ExperienceReplay(10, seed=1)
    refuses(RuntimeError, "nothing was recorded", replay.serialize, tmp_path)
    record(replay, 0, 3)
    with pytest.raises((OSError, reprise.CheckpointError)):
        replay.unserialize(tmp_path / "none")
    replay.serialize(tmp_path / "some")
    for file in (tmp_path / "some").rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    with pytest.raises(reprise.CheckpointError):
        replay.unserialize(tmp_path / "some")
    other = reprise.ReplayBuffer(reprise.Schema().observation("state", np.float32), 10)
    with other.writer() as writer:
        writer.begin_episode(state=0.0)
        writer.append(next_state=1.0, end=reprise.End.TERMINATED)
    other.save(tmp_path / "other")
    with pytest.raises(ValueError, match="other' was not written by serialize"):
        replay.unserialize(tmp_path / "other")
    assert len(replay) == 3
    record(replay, 1, 2)
    assert len(replay) == 5


def test_a_save_cut_off_after_its_checkpoint_leaves_a_replay_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = ExperienceReplay(100, seed=1)
    greedy = replay.new_pick_selector(PickSelector.greedy_rb_tree)
    record(replay, 0, 3)
    replay.serialize(tmp_path)
    record(replay, 1, 3)

    def fail(*_: object, **__: object) -> None:
        raise OSError("cut off")

    # Makes every write and rename after the checkpoint fail.
    with monkeypatch.context() as context:
        context.setattr(Path, "write_text", fail)
        context.setattr("os.replace", fail)
        replay.serialize(tmp_path)
    loaded = ExperienceReplay(1)
    loaded.unserialize(tmp_path)
    loaded.set_priority(greedy, [0, 1], [1, 2], [0.0, 1.0])
    batch = loaded.get_random_batch(6, h_ps=greedy)
    assert batch is not None
    assert windows(batch)[-2:] == [(1, 2), (0, 1)]


def test_threads_take_turns() -> None:
    replay = ExperienceReplay(5000, 2, seed=1)

    def actor() -> None:
        for _ in range(20):
            handle = replay.new_episode()
            for t in range(10):
                final = state(handle, 10) if t == 9 else None
                replay.record(handle, state(handle, t), 100 * handle + t, t * 0.5, final)

    with running(*[actor] * 4):
        for _ in range(50):
            batch = replay.get_random_batch(16)
            if batch is not None:
                windows(batch)
    assert len(replay) == 800


def test_bad_input_is_named() -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: ExperienceReplay(0), "max_record_num is 0; allowed: whole numbers from 1"),
        (lambda: ExperienceReplay(5, 0), "pick_len is 0"),
        (lambda: ExperienceReplay(5, max_open_episodes=0), "max_open_episodes is 0"),
        (lambda: ExperienceReplay(5).new_pick_selector("greedy"), "'greedy' is not a valid"),
    ]
    for make, words in wrong:
        refuses(ValueError, words, make)
    replay = ExperienceReplay(10, seed=1)
    record(replay, 0, 3)
    with pytest.raises(RuntimeError, match="new_pick_selector: allowed before the first record"):
        replay.new_pick_selector(PickSelector.greedy_rb_tree)
    with pytest.raises(RuntimeError, match="set_elimination_policy: allowed before"):
        replay.set_elimination_policy(True)
    wrong = [
        (lambda: replay.record(None, [1.0], 0), r"state has shape \(1,\); allowed: \(2,\)"),
        (lambda: replay.record(None, [1.0, 2.0], [0]), r"action has shape \(1,\)"),
        (lambda: replay.get_random_batch(0), "batch_size is 0"),
        (lambda: replay.get_random_batch(1, h_ps=1), "h_ps is 1; allowed: 0 to 0"),
        (lambda: replay.set_priority(0, [0], [0], [1.0, 2.0]), "priority has 2 elements"),
        (lambda: replay.set_priority(0, [0, 1], [0], [1.0, 2.0]), "1 pick_pos for 2 pick_epi"),
        (lambda: replay.del_pick_selector(4), "h_ps is 4"),
    ]
    for call, words in wrong:
        refuses(ValueError, words, call)
    assert len(replay) == 3


def test_selectors_that_take_priorities_from_appends_are_refused():
    replay = ExperienceReplay(100)
    for selector in (
        reprise.MaxHeap(initial="from_caller"),
        reprise.Proportional(initial="from_caller"),
    ):
        with pytest.raises(ValueError, match="initial of .* is 'from_caller'; allowed: any other"):
            replay.new_pick_selector(selector)
    replay.new_pick_selector(reprise.MaxHeap(initial=1.0))
    replay.record(None, [0.0], 0, 0.0, final_state=[1.0])


def test_arrays_that_the_caller_changes_later_are_copied():
    replay = ExperienceReplay(50, 1)
    seen, done = np.zeros(2, np.float32), np.zeros(1, np.int64)
    handle = None
    for t in range(8):
        seen[:], done[:] = t, t
        handle = replay.record(handle, seen, done, float(t))
    states, actions, rewards, *_ = replay.get_random_batch(64)
    assert (states[:, 0, 0] == actions[:, 0, 0]).all() and (rewards[:, 0] == actions[:, 0, 0]).all()
