"""Threads of C++ and of Python that share one buffer."""

import gc

import cpp_actor
import numpy as np
from testing.children import run_python
from testing.refusals import refuses
from testing.threads import running

import reprise

STEPS = 20_000


def new_buffer():
    schema = reprise.Schema().observation("state", np.float32).reward()
    return reprise.ReplayBuffer(schema, 4 * STEPS, selectors=reprise.Proportional())


def test_actors_of_both_languages_share_a_buffer():
    buffer = new_buffer()

    def act():
        numbers = np.arange(STEPS + 1, dtype=np.float32)
        buffer.writer().append_episode(state=numbers, reward=numbers[:-1])

    actors = [cpp_actor.Actor(buffer.capsule, STEPS) for _ in range(2)]
    with running(act, act):
        sampler = buffer.sampler(seed=1)
        for _ in range(50):
            batch = sampler.sample(256)
            assert (batch["state"] == batch["reward"]).all()
            assert (batch["next_state"] == batch["state"] + 1).all()
            buffer.update_priorities(batch.item_keys, batch["reward"] + 1)
    for actor in actors:
        actor.join()
    assert len(buffer) == 4 * STEPS
    assert buffer.stats()["committed_steps"] == 4 * STEPS


def test_a_capsule_keeps_the_buffer():
    capsule = new_buffer().capsule
    gc.collect()
    cpp_actor.Actor(capsule, 10).join()
    assert f"reprise::ReplayBuffer {reprise.__version__}" in repr(capsule)


IN_A_CHILD = """
import os, sys
import cpp_actor, numpy as np, reprise

schema = reprise.Schema().observation("state", np.float32).reward()
before = reprise.ReplayBuffer(schema, 100)
child = os.fork()
if child == 0:
    buffer = reprise.ReplayBuffer(schema, 100)
    cpp_actor.Actor(buffer.capsule, 10).join()
    os._exit(5 if len(buffer) == 10 else 6)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_cpp_threads_of_another_module_work_on_a_buffer_made_in_a_forked_child():
    child = run_python(IN_A_CHILD)
    assert child.returncode == 5, child.stderr


def test_a_refusal_is_caught_by_its_type_in_another_module():
    assert cpp_actor.alpha_is_refused(new_buffer().capsule, -1.0)
    assert not cpp_actor.alpha_is_refused(new_buffer().capsule, 0.5)


def test_an_object_that_is_no_capsule_of_a_buffer_is_refused():
    refuses(ValueError, "PyCapsule_GetPointer", cpp_actor.Actor, np.zeros(1), 10)
