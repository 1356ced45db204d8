"""reprise.lerobot beside lerobot's own buffer."""

import enum

import numpy as np
import pytest
from testing.lerobot_guest import lerobot_or_skip
from testing.threads import running

lerobot_or_skip()

import torch
from lerobot.rl import buffer
from lerobot.rl.buffer import ReplayBuffer as Theirs

import reprise
from reprise.lerobot import ReplayBuffer, concatenate_batch_transitions

FRONT, VECTOR = "observation.images.front", "observation.state"
EPISODE = 10


class TeleopEvents(enum.Enum):
    """Stands in for lerobot's class, whose module imports drivers of robot arms."""

    IS_INTERVENTION = "is_intervention"


def refuses(call, match):
    return pytest.raises(ValueError, match=f"{call}: {match}")


def state(number, size=16):
    """Returns the state with this number: an image of bytes, given as floats, and the number
    itself."""
    image = (torch.arange(3 * size * size) + number) % 256 / 255
    return {FRONT: image.reshape(1, 3, size, size), VECTOR: torch.tensor([[float(number), 0.0]])}


def transition(i, done=False, first=0, size=16):
    """Returns transition i. Every tenth one is the last of its episode, and leads to state 1000 + i
    instead of i + 1."""
    last = i % EPISODE == EPISODE - 1
    return {
        "state": state(first + i, size),
        "action": torch.tensor([[i, -i]]),
        "reward": float(i),
        "next_state": state(first + (1000 if last else 1) + i, size),
        "done": last and done,
        "truncated": last and not done,
        "complementary_info": {
            "penalty": torch.tensor([i / 2]),
            TeleopEvents.IS_INTERVENTION: i % 3 == 0,
        },
    }


def buffer_of(transitions, capacity=100, **options):
    made = ReplayBuffer(capacity, "cpu", [FRONT, VECTOR], use_drq=False, **options)
    for one in transitions:
        made.add(**one)
    return made


def numbers(batch, part="state"):
    return batch[part][VECTOR][:, 0].int().tolist()


@pytest.mark.parametrize("done", [False, True])
def test_transitions_equal_those_of_lerobots_buffer(done):
    theirs = Theirs(40, "cpu", [FRONT, VECTOR], use_drq=False)
    ours = ReplayBuffer(40, "cpu", [FRONT, VECTOR], use_drq=False)
    for i in range(35):
        for one in (theirs, ours):
            one.add(**transition(i, done))
    assert len(ours) == len(theirs) == ours.size == 35
    batch, expected = ours.sample(64), theirs.sample(64)
    assert len(batch["reward"]) == 35 and set(batch) == set(expected)
    rows = batch["reward"].long()
    for name in ("state", "next_state"):
        for key, stored in (theirs.states if name == "state" else theirs.next_states).items():
            assert batch[name][key].dtype == expected[name][key].dtype
            assert torch.equal(batch[name][key], stored[rows]), key
            whole = getattr(ours, name + "s")[key]
            assert torch.equal(whole[:], stored[:35]) and torch.equal(whole[7], stored[7])
    for name in ("action", "reward", "done", "truncated"):
        stored = getattr(theirs, name + "s")
        assert batch[name].dtype == expected[name].dtype
        assert torch.equal(batch[name], stored[rows].float()), name
        assert torch.equal(getattr(ours, name + "s")[:], stored[:35]), name
    info = theirs.complementary_info
    assert torch.equal(batch["complementary_info"]["penalty"], info["penalty"][rows])
    assert torch.equal(
        batch["complementary_info"]["is_intervention"], info[TeleopEvents.IS_INTERVENTION][rows]
    )
    assert ours.complementary_info["penalty"][4] == 2.0


def test_next_states_are_right_at_time_limits_and_after_old_steps_were_evicted():
    made = buffer_of(transition(i) for i in range(257))
    assert len(made) == 100 and made.states[VECTOR][:][:, 0].tolist() == list(range(157, 257))
    for _ in range(20):
        batch = made.sample(100)
        for now, after, cut in zip(
            numbers(batch), numbers(batch, "next_state"), batch["truncated"]
        ):
            assert after == now + (1000 if now % EPISODE == EPISODE - 1 else 1)
            assert bool(cut) == (now % EPISODE == EPISODE - 1)
        assert not batch["done"].any()


def test_a_gap_between_transitions_begins_another_episode():
    made = buffer_of(transition(i) for i in (0, 1, 4, 5))
    assert made.states[VECTOR][:][:, 0].tolist() == [0, 1, 4, 5]
    assert made.next_states[VECTOR][:][:, 0].tolist() == [1, 2, 5, 6]


def test_a_robot_that_comes_back_to_where_it_was_begins_another_episode():
    home = transition(0)
    ends_at_home = home | {"next_state": home["state"], "truncated": True}
    made = buffer_of([ends_at_home, home])
    batch = made.replay.sampler().sample(2, draws="without_replacement")
    assert len(set(batch.episode_ids.tolist())) == 2


def test_images_are_shifted_alike_in_both_states():
    shifts = []

    def shift(images):
        shifts.append(images.shape)
        return images + torch.arange(len(images)).reshape(-1, 1, 1, 1)

    made = ReplayBuffer(100, "cpu", image_augmentation_function=shift)
    for i in range(8):
        made.add(**transition(i))
    batch = made.sample(4)
    assert shifts == [(8, 3, 16, 16)]
    for part, first in (("state", 0), ("next_state", 4)):
        for place, number in enumerate(numbers(batch, part)):
            expected = state(number)[FRONT][0] + first + place
            assert torch.equal(batch[part][FRONT][place], expected)


def test_bytes_take_an_eighth_of_the_memory_and_may_be_compressed():
    size, steps = 64, 256
    options = {"capacity": steps}
    plain = buffer_of((transition(i, size=size) for i in range(steps)), **options)
    small = buffer_of((transition(i, size=size) for i in range(steps)), compress=True, **options)
    theirs = Theirs(steps, "cpu", [FRONT, VECTOR], use_drq=False)
    theirs.add(**transition(0, size=size))
    lerobot_bytes = sum(t.nbytes for t in (*theirs.states.values(), *theirs.next_states.values()))
    stats = plain.replay.stats()
    # An episode of ten steps has eleven states; the last chunk is partly filled.
    assert stats["touched_bytes"] < lerobot_bytes / 8 * 1.5
    assert plain.replay.schema.step_bytes < lerobot_bytes / steps / 8 * 1.1
    stats = small.replay.stats()
    assert small.replay.schema.compressed == (FRONT,)
    assert 0 < stats["compressed_bytes"] < stats["uncompressed_bytes"] / 4
    for key in (FRONT, VECTOR):
        assert torch.equal(small.states[key][:], plain.states[key][:])
        assert torch.equal(small.next_states[key][:], plain.next_states[key][:])


def test_images_may_be_stored_as_floats_or_as_bytes():
    image = torch.rand(3, 8, 8)
    one = transition(0) | {"state": {FRONT: image}, "next_state": {FRONT: image}}
    assert torch.equal(buffer_of([one], images="float32").states[FRONT][0], image)
    near = buffer_of([one]).states[FRONT][0]
    assert (near - image).abs().max() <= 0.5 / 255 + 1e-6
    bytes_ = (image * 255).byte()
    one = one | {"state": {FRONT: bytes_}, "next_state": {FRONT: bytes_}}
    assert torch.equal(buffer_of([one]).states[FRONT][0], bytes_ / 255)


def test_marked_transitions_are_a_second_selector_over_one_store():
    made = buffer_of([], offline=True)
    with pytest.raises(RuntimeError, match="empty buffer"):
        made.offline.sample(4)
    for i in range(60):
        one = transition(i)
        made.add(**one)
        if one["complementary_info"][TeleopEvents.IS_INTERVENTION]:
            made.offline.add(**one)  # As lerobot's learner adds interventions.
    assert (len(made), len(made.offline)) == (60, 20)
    for batch in (made.offline.sample(20), next(made.offline.get_iterator(20))):
        assert all(number % 3 == 0 for number in numbers(batch))
    made.offline.add(**transition(60))  # The buffer lacks this transition: it is a demonstration.
    assert (len(made), len(made.offline)) == (61, 21)
    made.offline.add(**(one := transition(61)))
    made.offline.add(**one)  # The same demonstration a second time is stored again.
    assert (len(made), len(made.offline)) == (63, 23)
    both = concatenate_batch_transitions(made.sample(8), made.offline.sample(8))
    assert len(both["reward"]) == len(both["complementary_info"]["penalty"]) == 16
    assert both["reward"].tolist() == numbers(both)


def test_demonstrations_are_marked_and_marked_ones_become_a_dataset(tmp_path):
    made = buffer_of((transition(i) for i in range(12)), offline=True)
    assert len(made.offline.actions) == 0
    dataset = [one | {"action": torch.zeros(2)} for one in frames([3, 4], [True, False])]
    for one in dataset:
        one["complementary_info.penalty"] = torch.tensor([0.25])
    made.offline.add_lerobot_dataset(dataset)
    assert (len(made), len(made.offline)) == (18, 6)
    assert made.offline.states[VECTOR][:][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert made.offline.complementary_info["penalty"][:].tolist() == [0.25] * 6
    assert made.offline.dones[:].tolist() == [False, False, True, False, False, False]
    saved = made.offline.to_lerobot_dataset("some/arm", fps=10, root=tmp_path / "data")
    assert len(saved) == 6 and saved.num_episodes == 2
    made.add(**transition(99))
    assert made.offline.rewards[:].tolist() == [0, 1, 2, 3, 4, 5] and len(made.rewards) == 19


def test_a_dataset_of_marked_stretches_is_read_back_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(buffer, "ReplayBuffer", ReplayBuffer)  # Programs may replace theirs so.
    made = buffer_of([], offline=True)
    for i in range(10):
        made.add(**(one := transition(i, done=True)))
        if i in (1, 2, 3, 6, 7, 8, 9):
            made.offline.add(**one)
    dataset = made.offline.to_lerobot_dataset("some/arm", fps=10, root=tmp_path / "data")
    assert dataset.num_episodes == 2 and not made.offline.truncateds[:].any()
    again = ReplayBuffer.from_lerobot_dataset(dataset, "cpu", [FRONT, VECTOR], use_drq=False)
    assert again.rewards[:].tolist() == [1, 2, 6, 7, 8, 9]
    assert again.next_states[VECTOR][:5][:, 0].tolist() == [2, 3, 7, 8, 9]


def test_reading_a_whole_part_gathers_at_most_256_items_at_once(monkeypatch):
    made = buffer_of((transition(i, size=4) for i in range(1500)), capacity=1000, offline=True)
    made.offline.add(**transition(1500, size=4))
    largest = []

    def watch(type_, name):
        call = getattr(type_, name)

        def watched(*given, **named):
            batch = call(*given, **named)
            largest.append(len(batch))
            return batch

        monkeypatch.setattr(type_, name, watched)

    watch(reprise.Sampler, "sample")
    watch(reprise.ReplayBuffer, "gather")
    assert made.rewards[:].tolist() == list(range(1501 - len(made), 1501))
    assert made.offline.rewards[:].tolist() == [1500] and made.rewards[:0].tolist() == []
    assert max(largest) <= 256 and sum(largest) >= 2 * len(made)


def test_chunks_with_the_fewest_marked_transitions_leave_first():
    made = buffer_of([], capacity=450, offline=True)  # Few chunks: each eviction compares all.
    for i in range(3000):
        made.add(**(one := transition(i, size=4)))
        if i % (2 if i < 100 else 10) == 0:
            made.offline.add(**one)
    stored = set(made.rewards[:].int().tolist())
    # The first 100, half of them marked, stay, and later marked transitions such as 200 leave.
    assert set(range(100)) < stored
    assert len(made.offline) < 100 and 200 not in stored


def test_an_iterator_draws_while_another_thread_adds():
    made = buffer_of(transition(i) for i in range(50))
    iterator, drawn = made.get_iterator(32), []

    def draw():
        for _ in range(200):
            batch = next(iterator)
            drawn.append(numbers(batch) == batch["reward"].int().tolist() and len(batch["reward"]))

    with running(draw):
        for i in range(50, 1000):
            made.add(**transition(i))
            made.sample(4)
    assert drawn == [32] * 200 and len(made) == 100
    plain = made.get_iterator(8, async_prefetch=False)
    assert [len(next(plain)["reward"]) for _ in range(3)] == [8, 8, 8]


def test_a_save_that_fails_leaves_the_last_one(tmp_path):
    made = buffer_of((transition(i) for i in range(30)), offline=True)
    made.offline.add(**transition(30))
    made.save(tmp_path)

    def fail(_):
        raise OSError("the arm was unplugged")

    made.add(**transition(31))
    with pytest.raises(OSError, match="unplugged"):
        made.save(tmp_path, progress=fail, incremental=False)
    again = buffer_of([], offline=True)
    assert again.load(tmp_path) == [] and (len(again), len(again.offline)) == (31, 1)
    for key in (FRONT, VECTOR):
        assert torch.equal(again.next_states[key][:], made.next_states[key][:31])
    again.add(**transition(31))
    assert again.rewards[:].tolist() == list(range(32)) and again.complementary_info_keys == [
        "penalty",
        "is_intervention",
    ]


def test_a_part_that_was_read_is_read_anew_after_a_load(tmp_path):
    saved, made = (buffer_of([], offline=True) for _ in range(2))
    saved.offline.add(**transition(1))
    saved.save(tmp_path)
    offline = made.offline
    offline.add(**transition(2))
    assert offline.rewards[:].tolist() == made.rewards[:].tolist() == [2]
    made.load(tmp_path)
    assert offline.rewards[:].tolist() == made.rewards[:].tolist() == [1]


def frames(lengths, ends):
    """Yields the frames of a dataset. Episodes that have not ended were cut by a time limit."""
    number = 0
    for episode, (length, end) in enumerate(zip(lengths, ends)):
        for t in range(length):
            yield {
                FRONT: state(number)[FRONT][0],
                VECTOR: state(number)[VECTOR][0],
                "action": torch.zeros(2),
                "next.reward": torch.tensor([float(number)]),
                "next.done": torch.tensor([end and t == length - 1]),
                "episode_index": torch.tensor(episode),
            }
            number += 1


def test_a_dataset_is_loaded_but_for_steps_without_a_next_state():
    data = list(frames([3, 4, 2], [True, False, True]))
    made = ReplayBuffer.from_lerobot_dataset(data, "cpu", [FRONT, VECTOR], use_drq=False)
    assert made.capacity == 9
    # Frame 6 is the last before a time limit. The dataset lacks the state after it, so it is left
    # out.
    assert made.rewards[:].tolist() == [0, 1, 2, 3, 4, 5, 7, 8]
    assert made.next_states[VECTOR][:][:, 0].tolist() == [1, 2, 2, 4, 5, 6, 8, 8]
    assert made.dones[:].tolist() == [r in (2, 8) for r in made.rewards[:].tolist()]
    without = [{k: v for k, v in frame.items() if k != "next.done"} for frame in data]
    made = ReplayBuffer.from_lerobot_dataset(without, "cpu", [VECTOR], capacity=20)
    assert made.dones[:].nonzero().flatten().tolist() == [2, 6, 8]


def test_single_values_and_images_of_one_channel_of_a_dataset_are_as_lerobot_has_them():
    dataset = [
        {
            FRONT: torch.full((1, 8, 8), i / 255),
            VECTOR: torch.tensor([float(i)]),
            "action": torch.tensor([float(i)]),
            "complementary_info.penalty": torch.tensor([i / 2]),
            "next.reward": torch.tensor([float(i)]),
            "next.done": torch.tensor([i == 3]),
            "episode_index": torch.tensor(0),
        }
        for i in range(4)
    ]
    theirs = Theirs.from_lerobot_dataset(dataset, "cpu", [FRONT, VECTOR], use_drq=False)
    marked = buffer_of([], offline=True)
    marked.offline.add_lerobot_dataset(dataset)
    for made in (
        ReplayBuffer.from_lerobot_dataset(dataset, "cpu", [FRONT, VECTOR], use_drq=False),
        marked,
        marked.offline,
    ):
        both = concatenate_batch_transitions(made.sample(4), theirs.sample(4))
        assert both["state"][FRONT].shape == both["next_state"][FRONT].shape == (8, 1, 8, 8)
        assert both["state"][VECTOR].shape == both["next_state"][VECTOR].shape == (8, 1)
        assert both["action"].shape == both["complementary_info"]["penalty"].shape == (8, 1)
        assert both["action"][:, 0].tolist() == both["reward"].tolist()


def test_a_dataset_of_lerobot_and_back(tmp_path):
    made = buffer_of(transition(i, done=True) for i in range(20))
    dataset = made.to_lerobot_dataset("some/arm", fps=10, root=tmp_path / "data")
    again = ReplayBuffer.from_lerobot_dataset(dataset, "cpu", [FRONT, VECTOR], use_drq=False)
    assert len(again) == 20 and torch.equal(again.actions[:], made.actions[:])
    assert torch.equal(again.states[VECTOR][:], made.states[VECTOR][:])
    assert torch.allclose(again.states[FRONT][:], made.states[FRONT][:], atol=0.02)


def test_refusals():
    made = ReplayBuffer(10, "cpu", [FRONT, VECTOR], use_drq=False)
    with pytest.raises(RuntimeError, match="empty buffer"):
        made.sample(1)
    with pytest.raises(RuntimeError, match="empty buffer"):
        next(made.get_iterator(1))
    made.add(**transition(0))
    bright = {FRONT: torch.full((3, 16, 16), 1.5), VECTOR: torch.zeros(2)}
    for wrong, message in [
        (
            {"state": bright},
            "'observation.images.front' has values from 1.5 to 1.5; allowed: bytes",
        ),
        (
            {"state": {**bright, FRONT: bright[FRONT] * torch.nan}},
            "'observation.images.front' has values from nan to nan",
        ),
        ({"action": torch.zeros(3)}, r"'action' has shape \(3,\); allowed: \(2,\)"),
        ({"action": torch.zeros(2, 1)}, r"'action' has shape \(2, 1\); allowed: \(2,\)"),
        (
            {"next_state": {**bright, FRONT: torch.zeros(16, 16, 3)}},
            r"'observation.images.front' has shape \(16, 16, 3\); allowed: \(3, 16, 16\)",
        ),
        ({"next_state": None}, "next_state is None; allowed: where `done` is true"),
    ]:
        with refuses("add", message):
            made.add(**transition(1) | wrong)
    assert len(made) == 1
    with refuses("ReplayBuffer", "capacity is 0; allowed: 1 and more"):
        ReplayBuffer(0)
    with refuses("ReplayBuffer", "images is 'int8'; allowed: 'uint8', 'float32'"):
        ReplayBuffer(1, images="int8")
    with refuses("offline", r"there is none; allowed: with ReplayBuffer\(offline=True\)"):
        made.offline
    with refuses("save", "the buffer is empty"):
        buffer_of([]).save("nowhere")
    with refuses("from_lerobot_dataset", "capacity is 1; allowed: at least 9"):
        data = list(frames([3, 4, 2], [True] * 3))
        ReplayBuffer.from_lerobot_dataset(data, "cpu", [VECTOR], capacity=1)


def test_a_checkpoint_of_another_kind_is_refused(tmp_path):
    buffer_of([transition(0)]).save(tmp_path)
    made = buffer_of([transition(7)], offline=True)
    with refuses("load", "offline is True; allowed: False, as saved"):
        made.load(tmp_path)
    assert made.rewards[:].tolist() == [7]
    with refuses("load", "capacity is 50; allowed: 100, as saved"):
        buffer_of([], capacity=50).load(tmp_path)
    with refuses("load", "images is 'float32'; allowed: 'uint8', as saved"):
        buffer_of([], images="float32").load(tmp_path)
    with refuses("load", rf"state_keys is \['{VECTOR}'\]; allowed: \['{FRONT}', '{VECTOR}'\]"):
        ReplayBuffer(100, "cpu", [VECTOR]).load(tmp_path)
    any_states = ReplayBuffer(100, "cpu")
    assert any_states.load(tmp_path) == [] and len(any_states) == 1


def test_shapes_with_and_without_a_first_dimension_and_absent_information():
    made = buffer_of([])
    info = {"force": torch.ones(1, 3), "penalty": torch.tensor([[2.0]])}
    made.add(**transition(0) | {"complementary_info": info})
    bare = {FRONT: state(1)[FRONT][0], VECTOR: state(1)[VECTOR][0]}
    one = transition(1) | {"state": bare, "complementary_info": {"penalty": 4.0}}
    made.add(**one)
    assert torch.equal(made.states[FRONT][1], bare[FRONT])
    assert made.complementary_info["force"][:].tolist() == [[1] * 3, [0] * 3]
    assert made.complementary_info["penalty"][:].flatten().tolist() == [2, 4]


def test_a_first_transition_without_next_state_decides_no_fields():
    made = buffer_of([])
    with refuses("add", "next_state is None; allowed: where `done` is true"):
        made.add(**transition(0) | {"next_state": None, "complementary_info": None})
    assert made.replay is None
    made.add(**transition(0))
    assert made.complementary_info_keys == ["penalty", "is_intervention"]


def test_draws_follow_the_seed_of_torch():
    def drawn():
        torch.manual_seed(3)
        return numbers(buffer_of(transition(i) for i in range(50)).sample(20))

    assert drawn() == drawn() and len(np.unique(drawn())) > 5
    assert isinstance(buffer_of([transition(0)]).replay, reprise.ReplayBuffer)
