"""The calls of reprise.ray, on a cluster without faults."""

import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from testing.children import run_python

from testing.ray_cluster import ray, PATIENT, SECONDS, add_node, append, check, filled, make
from testing.ray_cluster import numbered_schema, append_and_wait, wait_for
from testing.refusals import refuses
from testing.threads import running

import reprise
import reprise.ray
from reprise import metrics
from reprise.ray import _checkpoint


@pytest.fixture
def replay(cluster):
    with make() as made:
        yield made


def test_windows_may_be_longer_than_a_processs_own_buffer_of_steps(cluster):
    window = reprise.Sequences(length=5000, period=5000)
    with make(20_000, window=window, shards=1) as replay:
        append_and_wait(replay, 0, 0, 5001)
        assert replay.sampler().sample(1, timeout=SECONDS)["step"].shape == (1, 5000)
    refuses(ValueError, "5000", make, 8000, window=window, shards=2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"selectors": reprise.Fifo()}, r"Fifo.*selectors\[0\] draws in an order.*allowed: "),
        (
            {"selectors": [reprise.Uniform(), reprise.MaxHeap()]},
            r"selectors\[1\] draws in an order",
        ),
        ({"selectors": reprise.RankBased()}, "by rank.*allowed: "),
        ({"selectors": reprise.Mixture()}, "Mixture.*a sum or an age over the whole buffer"),
        ({"selectors": reprise.Recency()}, "Recency.*a sum or an age over the whole buffer"),
        ({"max_times_sampled": 1}, "would count twice"),
        ({"rate_limiter": reprise.Queue(10)}, "in one buffer"),
        ({"episode_index": True}, "ids of episodes are those of one shard"),
        ({"key_tag": 3}, "a tag of its own"),
        ({"placement": "anywhere"}, "allowed: 'learner', 'actors'"),
        ({"shards": 0}, "allowed: an integer from 1 to 1024"),
        ({"answer_timeout": 0}, "answer_timeout is 0; allowed: seconds above 0"),
        ({"answer_timeout": True}, "answer_timeout is True; allowed: seconds above 0"),
        ({"start_timeout": "60"}, "start_timeout is '60'; allowed: seconds above 0"),
        ({"max_restarts": -2}, "max_restarts is -2; allowed: an integer of at least -1"),
        ({"name": 5}, "name is 5; allowed: None, or a name"),
        ({"shard_options": [{}]}, "shard_options has 1 elements; allowed: 2"),
        ({"max_writers": 0}, "max_writers"),
    ],
)
def test_options_without_a_meaning_across_shards_are_refused_with_the_reason(
    cluster, options, says
):
    refuses(ValueError, says, make, **options)


def test_mutable_columns_are_refused(cluster):
    schema = numbered_schema().mutable_column("latent", np.float32, (2,))
    with pytest.raises(ValueError, match="'latent' is a mutable column"):
        reprise.ray.ReplayBuffer(schema, 1000, shards=2)


def test_calls_without_a_meaning_across_shards_are_refused_with_the_reason(replay):
    for call in ("episodes", "gather", "update", "clear", "restore", "capsule", "selector"):
        refuses(AttributeError, f"no {call}: ", getattr, replay, call)
    with pytest.raises(AttributeError, match="has no sampel$"):
        replay.sampel
    for wrong in ({"resume": 0}, {"gather": False}, {"fresh": 0.5}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*, and .*; allowed: "):
            replay.prefetch(8, **wrong)
    refuses(TypeError, "unexpected keyword argument 'sede'", replay.sampler, sede=1)
    replay.sampler(resume=None, fresh=0.0)
    for call in (replay.writer, lambda timeout: replay.vector_writer(2, timeout=timeout)):
        for wrong in (-1, True, "5", np.nan):
            with pytest.raises(ValueError, match=f"timeout is '?{wrong}'?; allowed: None, at leas"):
                call(timeout=wrong)


def test_a_buffer_made_before_ray_init_is_refused():
    code = "import reprise, reprise.ray; reprise.ray.ReplayBuffer(reprise.Schema().reward(), 10)"
    done = run_python(code)
    assert "RuntimeError: reprise.ray.ReplayBuffer: Ray is not running" in done.stderr


def test_steps_of_every_process_are_stored_unchanged(replay):
    @ray.remote(num_cpus=0)
    def act(handle, who):
        append_and_wait(handle, who, 0, 500)

    @ray.remote(num_cpus=0)
    class Actor:
        def act(self, handle, who):
            writers = handle.vector_writer(2, autoreset="disabled")
            writers.begin(at=np.zeros(2, int))
            for i in range(250):
                writers.append(
                    writer=np.full(2, who),
                    step=np.full(2, i),
                    reward=np.full(2, i),
                    next_at=np.full(2, i + 1),
                    end=np.full(2, reprise.End.TRUNCATED if i == 249 else reprise.End.CONTINUE),
                )
            writers.close(SECONDS)

    @ray.remote(num_cpus=0)
    def episode(handle, who):
        numbers = np.arange(500)
        handle.append_episode(
            at=np.arange(501), writer=np.full(500, who), step=numbers, reward=numbers
        )

    ray.get(
        [act.remote(replay, 0), Actor.remote().act.remote(replay, 1), episode.remote(replay, 2)]
    )
    stats = replay.stats()
    assert stats["committed_steps"] == 1500
    assert len(replay) == 1500
    assert stats["lost_in_flight_steps"] == 0

    sampler, seen = replay.sampler(seed=1), set()
    for _ in range(30):
        batch = sampler.sample(512, timeout=SECONDS)
        check(batch)
        seen |= set(zip(batch["writer"].tolist(), batch["step"].tolist()))
    assert {who for who, _ in seen} == {0, 1, 2}
    assert len(seen) > 1100  # 15,360 draws are many for 1,250 different items.
    wait_for(lambda: replay.stats()["sampled_batches"] == 30)
    stats = replay.stats()
    assert stats["samples_per_insert"] == stats["sampled_items"] / 1500 == 30 * 512 / 1500
    numbers = metrics.numbers(replay)
    assert numbers["sampled_batches"] == 30 and numbers["writers_for_chunk/waits"] == 0


def test_no_shard_draws_outdated_items(cluster):
    schema = reprise.Schema().observation("at", np.int64).reward().version()
    with reprise.ray.ReplayBuffer(
        schema, 1000, shards=2, selectors=reprise.Uniform(), max_staleness=1
    ) as replay:
        with replay.writer() as writer:
            for i in range(40):
                writer.set_version(i // 10)
                writer.begin_episode(at=i)
                writer.append(reward=0, next_at=i, end=reprise.End.TERMINATED)
        replay.set_version(3)
        assert len(replay) == 40
        stats = replay.stats()
        assert (stats["items"], stats["outdated_items"], stats["version"]) == (20, 20, 3)
        assert all(0 < shard["items"] < 20 for shard in stats["shards"])
        batch = replay.sampler().sample(256, timeout=SECONDS)
        assert set(batch["version"].tolist()) == {2, 3}
        assert batch.staleness(3).max() == 1


def test_probabilities_are_those_over_all_shards(replay):
    """Compares the reported probabilities with those computed from all priorities."""
    filled(replay, 50)
    sampler = replay.sampler(seed=1)
    keys = {}
    while len(keys) < 100:
        batch = sampler.sample(64, timeout=SECONDS)
        for i in range(64):
            keys[batch["writer"][i], batch["step"][i]] = batch.item_keys[i : i + 1]
    order = sorted(keys)
    priorities = np.array([1 + 9 * who + step % 3 for who, step in order], np.float32)
    replay.update_priorities(np.concatenate([keys[one] for one in order]), priorities).wait(SECONDS)
    exact = {one: p / priorities.sum(dtype=np.float64) for one, p in zip(order, priorities)}

    for _ in range(20):
        batch = sampler.sample(256, beta=0.5, draws="independent", timeout=SECONDS)
        wanted = np.array([exact[one] for one in zip(batch["writer"], batch["step"])])
        assert np.allclose(batch.probabilities, wanted, rtol=1e-12, atol=0)
        weights = (100 * wanted) ** -0.5
        assert np.allclose(batch.weights, weights / weights.max(), rtol=1e-5)


def test_wrong_updates_and_draws_are_refused_and_change_nothing(replay):
    filled(replay, 50)
    sampler = replay.sampler()
    batch = sampler.sample(8, timeout=SECONDS)
    with pytest.raises(TypeError, match="allowed: item_keys of a batch"):
        replay.update_priorities(batch.item_keys["key"], np.ones(8))
    with pytest.raises(ValueError, match=r"allowed: that of keys, \(2, 4\), of one dimension"):
        replay.update_priorities(batch.item_keys.reshape(2, 4), np.ones((2, 4)))
    with pytest.raises(ValueError, match="priorities has shape"):
        replay.update_priorities(batch.item_keys, np.ones(7))
    for wrong in (np.nan, -1.0, np.inf):
        with pytest.raises(ValueError):
            replay.update_priorities(batch.item_keys, [1, 1, 1, wrong, 1, 1, 1, 1])
    for wrong, error, says in (
        (np.full(8, 1e300), ValueError, "is inf"),
        (np.ma.masked_array(np.ones(8), mask=[True] * 8), TypeError, "a masked array"),
        (["a"] * 8, TypeError, "dtype <U1; allowed: numbers"),
        (np.ones(8) * 1j, TypeError, "dtype complex128; allowed: numbers"),
        ([[1], [1, 2]] * 4, ValueError, "no array can be made of priorities"),
    ):
        refuses(error, says, replay.update_priorities, batch.item_keys, wrong)
    before = replay.stats()["applied_updates"]
    replay.update_priorities(batch.item_keys, np.ones(8)).wait(SECONDS)
    assert replay.stats()["applied_updates"] == before + 8
    refuses(ValueError, "without_replacement", sampler.sample, 8, draws="without_replacement")
    refuses(ValueError, "epoch.*lost shard", sampler.sample, 8, draws="epoch")
    refuses(ValueError, "by_buffer", sampler.sample, 8, normalise="by_buffer")
    refuses(ValueError, "n is 0", sampler.sample, 0)


def test_a_prefetcher_gives_batches_until_it_is_closed(replay):
    filled(replay)
    with replay.prefetch(64, timeout=SECONDS) as batches:
        for _ in range(20):
            batch = next(batches)
            check(batch)
            replay.update_priorities(batch.item_keys, batch["step"] + 1.0)
    refuses(reprise.Closed, "the prefetcher is closed", next, batches)


def wait_until_error_says(what, call):
    """Repeats a call until it times out for this reason. Before, it may time out for other
    reasons."""

    def says():
        with pytest.raises(TimeoutError) as caught:
            call()
        return what in str(caught.value)

    wait_for(says)


def test_a_timeout_says_what_is_missing(cluster):
    with make(rate_limiter=reprise.MinSize(400)) as replay:
        filled(replay, 150)
        sampler, missing = replay.sampler(), "300 of the 400 items that sampling needs"
        wait_until_error_says(missing, lambda: sampler.sample(8, timeout=0.3))
        with replay.prefetch(8, timeout=0.3) as batches:
            wait_until_error_says(missing, lambda: next(batches))
    with make(rate_limiter=reprise.Unlimited()) as replay:
        with pytest.raises(reprise.NothingToDraw):
            replay.sampler().sample(8, timeout=SECONDS)


def test_a_wait_without_timeout_warns_and_is_ended_by_an_interrupt(replay):
    class Stop(KeyboardInterrupt):
        pass

    def wait_warnings():
        return [str(one.message) for one in caught if one.category is RuntimeWarning]

    def stop(*_):
        if wait_warnings():
            raise Stop

    sampler = replay.sampler()
    wait_until_error_says("0 of the 1 items", lambda: sampler.sample(8, timeout=0.3))
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(Stop):
                sampler.sample(8)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(wait_warnings()) == 1 and "0 of the 1 items" in wait_warnings()[0]


def test_a_close_ends_waits_in_every_process(cluster):
    replay = make()

    @ray.remote(num_cpus=0)
    def learn(handle):
        try:
            handle.sampler().sample(8, timeout=SECONDS)
        except reprise.Closed:
            return "closed"

    waiting = learn.remote(replay)
    time.sleep(1.0)  # Now the call waits, or will find the buffer closed. It has to end either way.
    replay.close()
    assert ray.get(waiting, timeout=SECONDS) == "closed"
    for call in (replay.writer, replay.sampler, replay.stats):
        with pytest.raises(reprise.Closed):
            call()
    replay.close()


def test_a_pickled_handle_is_the_same_buffer(replay):
    filled(replay, 50)
    again = pickle.loads(pickle.dumps(replay))
    assert len(again) == len(replay) == 100
    assert again.options == replay.options and again.schema == numbered_schema()


def test_another_job_attaches_by_name(cluster):
    with make(name="shared") as replay:
        filled(replay, 50)
        refuses(ValueError, "a buffer has it already", make, name="shared")
        code = (
            "import sys, time, ray, reprise, reprise.ray\n"
            "ray.init(address=sys.argv[1], log_to_driver=False)\n"
            "before = reprise.ray.attach('shared')\n"
            "ray.shutdown()\n"
            "while not before.closed: time.sleep(0.01)\n"
            "ray.init(address=sys.argv[1], log_to_driver=False)\n"
            "replay = reprise.ray.attach('shared')\n"
            "replay.append_episode(at=range(11), writer=[7] * 10, step=range(10), "
            "reward=range(10))\n"
            "batch = replay.sampler().sample(8)\n"
            "print('has', len(replay), len(batch))\n"
            "replay.update_priorities(batch.item_keys, [1] * 8)\n"
            "while replay.stats()['applied_updates'] < 8: time.sleep(0.01)\n"
        )
        done = run_python(code, cluster.address)
        assert "has 110 8" in done.stdout, done.stderr
        assert len(replay) == 110  # The buffer outlives the other job.

    def is_gone():
        with pytest.raises((ValueError, reprise.Closed)) as caught:
            reprise.ray.attach("shared")
        # For a moment after Ray was told to end the actor, it may still find the name.
        return "there is no buffer of the name 'shared'" in str(caught.value)

    wait_for(is_gone)


def test_saves_at_the_same_time_get_different_numbers(tmp_path):
    at_once, numbers = threading.Barrier(4), []

    def save(who):
        for i in range(5):
            at_once.wait(SECONDS)
            saved = _checkpoint.Manifest([i, who], {})
            made = _checkpoint.write(str(tmp_path), saved, {"who": b"%d" % who}, keep=100)
            numbers.append(made)

    with running(*[lambda who=who: save(who) for who in range(4)]):
        pass
    assert sorted(numbers) == list(range(1, 21))
    assert sorted(os.listdir(tmp_path)) == [f"all-{one:020}" for one in range(1, 21)]


def test_a_checkpoint_of_all_shards_is_loaded(cluster, tmp_path):
    with make() as replay:
        filled(replay, 100)
        assert replay.save(tmp_path, attachments={"learner": b"parameters"}) == 1
        append_and_wait(replay, 5, 0, 50)
        assert replay.save(tmp_path, attachments={"learner": b"later"}) == 2
        # Shard 0 has one save more than the manifest names, as if a save had ended before its
        # manifest.
        append_and_wait(replay, 6, 0, 50)
        ray.get(replay._actors[0].save.remote(str(tmp_path), [0, 0], {}))
    (tmp_path / "all-99999999999999999999.tmp").write_bytes(b"unfinished")

    def loaded():
        found = {}
        with reprise.ray.ReplayBuffer.load(
            tmp_path,
            numbered_schema(),
            10_000,
            shards=2,
            attachments=found,
            **PATIENT,
            selectors=reprise.Proportional(alpha=1.0, epsilon=0.0),
        ) as again:
            check(again.sampler().sample(64, timeout=SECONDS))
            return len(again), found

    assert loaded() == (250, {"learner": b"later"})
    another = numbered_schema().column("more", np.int64)
    for changed, says in (
        ({"schema": another}, "schema is .*'more'.*; allowed: that of the checkpoint, Field"),
        ({"capacity_steps": 500}, "capacity_steps is 500; allowed: that of the checkpoint, 10000"),
        ({"shards": 3}, "shards is 3; allowed: that of the checkpoint, 2"),
        ({"window": reprise.Transitions(n_step=2)}, "window is .*n_step=2.*; allowed: .*n_step=1"),
    ):
        given = {"schema": numbered_schema(), "capacity_steps": 10_000, "shards": 2, **changed}
        refuses(ValueError, f"load: {says}", reprise.ray.ReplayBuffer.load, tmp_path, **given)
    newest = tmp_path / f"all-{2:020}"
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    assert loaded() == (200, {"learner": b"parameters"})
    (tmp_path / f"all-{1:020}").unlink()
    refuses(ValueError, "no whole checkpoint of all shards; the newest: .*checksum", loaded)
    with pytest.raises(FileNotFoundError):
        reprise.ray.ReplayBuffer.load(tmp_path / "gone", numbered_schema(), 10_000, shards=2)


def test_failed_saves_keep_the_checkpoints_that_manifests_name(cluster, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space for it")

    def checkpoints():
        return [len(list(one.glob("manifest-*"))) for one in sorted(tmp_path.glob("shard-*"))]

    with make() as replay:
        writer = replay.writer()
        append(writer, 0, 0, 100)
        writer.flush(SECONDS)
        assert replay.save(tmp_path, keep=1) == 1
        with monkeypatch.context() as patched:
            patched.setattr(reprise.ray._checkpoint, "write", fail)
            for i in range(4):
                append(writer, 0, 100 + i, 101 + i)
                writer.flush(SECONDS)
                refuses(OSError, "no space for it", replay.save, tmp_path, keep=1)
        with reprise.ray.ReplayBuffer.load(
            tmp_path, numbered_schema(), 10_000, shards=2, **PATIENT
        ) as again:
            assert len(again) == 100
        assert replay.save(tmp_path, keep=1) == 2
        assert replay.save(tmp_path, keep=1) == 3
        assert checkpoints() == [2, 2]
        refuses(ValueError, "keep is 0", replay.save, tmp_path, keep=0)


def test_simulators_run_in_the_shards(cluster):
    def roll(local, shard, steps):
        with local.writer() as writer:
            writer.begin_episode(at=0)
            for i in range(steps):
                writer.append(writer=shard, step=i, reward=i, next_at=i + 1)
        return len(local), "ReplayBuffer 0" in str(local.capsule)

    with make(placement="actors") as replay:
        assert ray.get(replay.run(roll, 200), timeout=SECONDS) == [(200, True)] * 2
        batch = replay.sampler().sample(64, timeout=SECONDS)
        check(batch)
        assert set(batch["writer"]) == {0, 1}
        assert np.array_equal(batch["writer"], batch.item_keys["shard"])


def test_simulators_in_a_shard_do_not_block_its_other_calls(cluster):
    def wait(local, shard):
        while not local.closed:
            time.sleep(0.05)

    with make(shards=1) as replay:
        for _ in range(reprise.ray.THREADS + 1):
            replay.run(wait)
        filled(replay, 50)
        assert len(replay) == 100


def test_placement_decides_the_nodes_of_the_shards(cluster):
    def where(local, shard):
        return ray.get_runtime_context().get_node_id()

    here, others = ray.get_runtime_context().get_node_id(), []
    try:
        others += [add_node(cluster, i) for i in range(2)]
        for shards in (4, 6):
            with make(shards=shards) as replay:
                assert set(ray.get(replay.run(where), timeout=SECONDS)) == {here}
            nodes = {here, *(node.node_id for node in others)}

            def are_spread():
                with make(shards=shards, placement="actors") as replay:
                    return set(ray.get(replay.run(where), timeout=SECONDS)) == nodes

            wait_for(are_spread)  # Ray on this node may not know the other nodes yet.
    finally:
        for node in others:
            cluster.remove_node(node)


def test_threads_of_cpp_append_in_the_shards(cluster):
    pytest.importorskip("cpp_actor", reason="only build trees have it")

    def roll(local, shard, steps):
        import cpp_actor

        actors = [cpp_actor.Actor(local.capsule, steps) for _ in range(2)]
        for one in actors:
            one.join()
        return len(local)

    schema = reprise.Schema().observation("state", np.float32).reward()
    with make(schema=schema, placement="actors") as replay:
        assert ray.get(replay.run(roll, 500), timeout=SECONDS) == [1000, 1000]
        batch = replay.sampler().sample(64, timeout=SECONDS)
        assert np.array_equal(batch["next_state"], batch["state"] + 1)
        assert np.array_equal(batch["state"], batch.returns["reward"])
