"""Goals that an item's own episode has achieved."""

import numpy as np
import pytest
from testing.refusals import refuses
import reprise

LENGTHS = [5, 1, 9, 4]


def filled(**options):
    """Returns a buffer of episodes with LENGTHS steps. Step t of episode e achieves [e, t]; all
    goals are -1."""
    schema = (
        reprise.Schema()
        .observation("achieved", np.float32, (2,))
        .column("goal", np.float32, (2,))
        .reward()
    )
    replay = reprise.ReplayBuffer(schema, 1000, **options)
    writer = replay.writer()
    for episode, steps in enumerate(LENGTHS):
        achieved = np.stack((np.full(steps + 1, episode), np.arange(steps + 1)), axis=1)
        writer.append_episode(
            achieved=achieved, goal=np.full((steps, 2), -1), reward=np.zeros(steps)
        )
    return replay


@pytest.mark.parametrize("goal", ["future", "final", "episode"])
def test_goals_are_of_the_items_own_episode(goal):
    replay = filled()
    hindsight = replay.hindsight("achieved", goal=goal, share=0.75, seed=3)
    batch = replay.sampler().sample(400)
    distances = hindsight.relabel(batch.item_keys, batch["goal"])
    assert distances.dtype == np.int32 and distances.shape == (400,)
    picked = distances != 0
    assert 250 < picked.sum() < 350  # About 0.75 of 400; a standard deviation is 9.
    own, goals = batch["achieved"], batch["goal"]
    assert (goals[~picked] == -1).all()
    np.testing.assert_array_equal(goals[picked, 0], own[picked, 0])
    np.testing.assert_array_equal(goals[picked, 1], (own[:, 1] + distances)[picked])
    lengths = np.array(LENGTHS)[own[:, 0].astype(int)]
    assert (goals[picked, 1] <= lengths[picked]).all() and (goals[picked, 1] >= 0).all()
    if goal == "final":
        assert (goals[picked, 1] == lengths[picked]).all()
    assert (distances < 0).any() == (goal == "episode")


def test_another_is_made_after_a_restore(tmp_path):
    replay = filled()
    replay.save(tmp_path)
    hindsight = replay.hindsight("achieved", share=1)
    replay.restore(tmp_path)
    batch = replay.sampler().sample(20)
    with pytest.raises(reprise.Closed, match="the buffer was restored since"):
        hindsight.relabel(batch.item_keys, batch["goal"])
    again = replay.hindsight("achieved", share=1)
    assert (again.relabel(batch.item_keys, batch["goal"]) > 0).all()


def test_arguments_that_do_not_fit_are_refused():
    replay = filled()
    refuses(ValueError, "achieved is 'goals'; allowed: achieved", replay.hindsight, "goals")
    refuses(ValueError, "field 'goal' is a column; allowed: observations", replay.hindsight, "goal")
    with pytest.raises(ValueError, match="goal.*'last'.*future.*final.*episode"):
        replay.hindsight("achieved", goal="last")
    refuses(ValueError, "share is 2.*0 to 1", replay.hindsight, "achieved", share=2)
    with pytest.raises(ValueError, match="n_step 3.*n_step 1"):
        filled(window=reprise.Transitions(n_step=3)).hindsight("achieved")

    hindsight = replay.hindsight("achieved", share=1)
    keys = replay.sampler().sample(4).item_keys
    goals = np.full((4, 2), -1, np.float32)
    with pytest.raises(ValueError, match=r"goals: expected.*float32 of shape \(4, 2\).*float64"):
        hindsight.relabel(keys, goals.astype(np.float64))
    refuses(ValueError, r"goals: expected.*\(4, 2\).*\(3, 2\)", hindsight.relabel, keys, goals[:3])
    with pytest.raises(ValueError, match="goals.*contiguous.*not contiguous"):
        hindsight.relabel(keys, np.asfortranarray(goals))
    fixed = goals.copy()
    fixed.flags.writeable = False
    refuses(ValueError, "goals.*writable.*read only", hindsight.relabel, keys, fixed)
    with pytest.raises(TypeError, match="goals: expected an array or a tensor on the CPU"):
        hindsight.relabel(keys, goals.tolist())
    refuses(TypeError, "keys: expected int64", hindsight.relabel, keys.astype(np.int32), goals)
    assert (goals == -1).all()


def test_goals_and_keys_may_be_tensors():
    torch = pytest.importorskip("torch")
    replay = filled()
    arrays, tensors = (replay.hindsight("achieved", share=0.75, seed=3) for _ in range(2))
    batch = replay.sampler().sample(100)
    goals = torch.from_numpy(batch["goal"].copy())
    keys = torch.from_numpy(batch.item_keys)
    distances = arrays.relabel(batch.item_keys, batch["goal"])
    np.testing.assert_array_equal(tensors.relabel(keys, goals), distances)
    np.testing.assert_array_equal(goals.numpy(), batch["goal"])
    assert (goals != -1).any()
    tensors.relabel(batch.torch().item_keys, batch.torch()["goal"])
    assert len(tensors.relabel(keys[:0], goals[:0])) == 0
    with pytest.raises(ValueError, match=r"goals: expected.*\(100, 2\).*\(99, 2\)"):
        tensors.relabel(keys, goals[:99])
    with pytest.raises(ValueError, match="goals.*contiguous.*not contiguous"):
        tensors.relabel(keys, torch.zeros(2, 100).T)

    class Copied(torch.Tensor):
        """A tensor whose conversion to numpy makes a copy, which `relabel` could not write
        through."""

        def __array__(self, dtype=None, copy=None):
            return np.zeros(self.shape, np.float32)

    with pytest.raises(TypeError, match="goals: expected an array or a tensor on the CPU"):
        tensors.relabel(keys, goals.as_subclass(Copied))
