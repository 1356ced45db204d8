"""Actors and learners in threads of Python share one buffer."""

import numpy as np
from testing.threads import running

import reprise

ACTORS = 8
EPISODES = 200
STEPS = 12


def code_of(actor, episode, step):
    """A number from which actor, episode and step can be read."""
    return actor * 1_000_000 + episode * 100 + step


def act(buffer, actor):
    """Appends episodes. Every observation and action is the code of its actor, episode and step."""
    with buffer.writer() as writer:
        for episode in range(EPISODES):
            writer.begin_episode(code=np.full(100, code_of(actor, episode, 0)))
            for step in range(STEPS):
                writer.append(
                    action=code_of(actor, episode, step),
                    reward=1,
                    next_code=np.full(100, code_of(actor, episode, step + 1)),
                    end=reprise.End.TERMINATED if step + 1 == STEPS else 0,
                )


def learn(buffer):
    sampler = buffer.sampler(seed=1)
    rng = np.random.default_rng(1)
    drawn = 0
    while drawn < 50 or buffer.stats()["writers"] > 0:
        batch = sampler.sample(64)
        code = batch["code"]
        assert (code == code[:, :1]).all()
        assert (batch["next_code"] == batch["next_code"][:, :1]).all()
        assert (batch["action"] == code[:, 0]).all()
        assert (code[:, 0] % 100 == batch.positions).all()
        assert (batch["next_code"][:, 0] == code[:, 0] + batch.lengths).all()
        buffer.update_priorities(batch.item_keys, rng.random(64))
        drawn += 1


def test_python_actors_and_learners_share_a_buffer():
    schema = (
        reprise.Schema().observation("code", np.int64, (100,)).column("action", np.int64).reward()
    )
    buffer = reprise.ReplayBuffer(
        schema, 4096, window=reprise.Transitions(n_step=3), max_writers=ACTORS
    )
    actors = [lambda i=i: act(buffer, i) for i in range(ACTORS)]
    with running(*actors, lambda: learn(buffer), lambda: learn(buffer)):
        pass
    assert len(buffer) == 4096
    stats = buffer.stats()
    parts = ("resident_steps", "excess_steps", "evicted_steps", "pending_steps")
    assert sum(stats[name] for name in parts) == ACTORS * EPISODES * STEPS  # No step is lost.
