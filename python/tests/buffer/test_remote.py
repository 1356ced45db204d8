"""A remote buffer. The tests themselves hand its bytes from one end to the other."""

import pickle
import uuid

import numpy as np
import pytest
from testing.refusals import refuses
import reprise

SCHEMA = reprise.Schema().observation("state", np.float32, (3,)).column("action", np.int64).reward()
WINDOW = reprise.Transitions(n_step=2)


def full_size(capacity=1000, **options):
    return reprise.ReplayBuffer(SCHEMA, capacity, window=WINDOW, shards=1, **options)


def packer_of(**options):
    return reprise.StepPacker(SCHEMA, window=WINDOW, **options)


def write(writer, steps, first=0, end=reprise.End.TERMINATED):
    if not writer.in_episode:
        writer.begin_episode(state=np.full(3, first))
    for i in range(first, first + steps):
        last = i + 1 == first + steps
        writer.append(action=i, reward=1.0, next_state=np.full(3, i + 1), end=end if last else 0)


def carried(blob):
    """Returns a read-only copy of the bytes, as another process would get them."""
    return pickle.loads(pickle.dumps(bytes(blob)))


class Cluster:
    """Shards with an episode of `steps` steps each, and a client of all shards."""

    def __init__(self, shards=2, steps=20):
        self.buffers = [full_size() for _ in range(shards)]
        self.shards = [reprise.ReplayShard(buffer, seed=s) for s, buffer in enumerate(self.buffers)]
        self.client = reprise.ShardClient(SCHEMA, shards, window=WINDOW)
        for shard in self.shards:
            packer = packer_of()
            write(packer.writer(), steps)
            assert shard.append(carried(packer.take())) == (steps, False, 0)

    def ask(self, shard):
        request = carried(self.client.request(shard))
        self.client.answer(shard, carried(self.shards[shard].exchange(request)))

    def ask_all(self):
        for shard in range(len(self.shards)):
            self.ask(shard)


def test_shipped_steps_equal_those_of_a_writer_in_the_process():
    direct, shipped = full_size(key_tag=1), full_size(key_tag=1)
    packer, shard = packer_of(writer_id=5), reprise.ReplayShard(shipped)
    writers = [packer.writer(), direct.writer()]
    sequence = 0
    for first, end in ((0, 0), (7, reprise.End.TRUNCATED), (0, reprise.End.TERMINATED)):
        for writer in writers:
            write(writer, 7, first, end)
        assert packer.steps == 7 and packer.nbytes > 7 * 12
        blob = packer.take()
        assert isinstance(blob, np.ndarray) and blob.dtype == np.uint8
        assert reprise.StepPacker.steps_of(blob) == 7
        assert packer.take() is None and packer.steps == 0
        assert shard.append(blob) == reprise.AppendResult(7, False, 0)
        assert shard.append(blob) == reprise.AppendResult(0, True, 0)
        sequence += 1
        assert packer.sequence == sequence
        a, b = (buffer.sampler(seed=3).sample(50) for buffer in (direct, shipped))
        for name in a.keys():
            np.testing.assert_array_equal(a[name], b[name])
        np.testing.assert_array_equal(a.item_keys, b.item_keys)
        np.testing.assert_array_equal(a.returns["reward"], b.returns["reward"])
    assert packer.writer_id == 5 and shard.writers == 1
    assert shard.close_writer(5) == 1 and shard.close_writer(5) == 0 and shard.writers == 0


def test_a_vector_writer_is_shipped_too():
    shipped = full_size()
    packer, shard = packer_of(), reprise.ReplayShard(shipped)
    writers = packer.vector_writer(3, autoreset="disabled")
    writers.begin(state=np.zeros((3, 3)))
    for i in range(5):
        writers.append(
            action=np.arange(3), reward=np.ones(3), next_state=np.full((3, 3), i + 1), end=[0, 0, 0]
        )
    assert shard.append(packer.take()).steps == 15
    assert shipped.stats()["committed_steps"] == 15


def test_destroying_a_packer_closes_its_writers():
    packer = packer_of()
    writer = packer.writer()
    write(writer, 2, end=0)
    del packer
    with pytest.raises(reprise.Closed):
        write(writer, 2, first=2)


def test_a_packer_refuses_what_the_shards_would():
    packer = packer_of(selectors=reprise.Proportional(initial="from_caller"), max_writers=1)
    with packer.writer() as writer:
        refuses(RuntimeError, "max_writers is 1", packer.writer)
        refuses(RuntimeError, "begin_episode first", writer.append, action=1, reward=1.0)
        writer.begin_episode(state=np.zeros(3))
        one = {"action": 1, "reward": 1.0, "next_state": np.zeros(3)}
        refuses(ValueError, "one for each of the 1 items", writer.append, **one, end=1)
        refuses(ValueError, "shape", writer.append, **{**one, "next_state": np.zeros(4)})
        assert packer.steps == 0 and packer.empty()
        writer.append(**one)
        assert packer.steps == 1
    refuses(reprise.Closed, "the writer is closed", writer.append, **one)
    packer.writer()
    refuses(ValueError, "max_writers", packer_of, max_writers=0)


def test_damaged_and_foreign_bytes_are_refused():
    cluster = Cluster()
    packer = packer_of()
    write(packer.writer(), 3)
    blob = packer.take()
    damaged = blob.copy()
    damaged[-1] ^= 1
    before = cluster.buffers[0].stats()["committed_steps"]
    for wrong in (damaged, blob[:-1], b"", b"no blob", bytes(100), cluster.client.request(0)):
        with pytest.raises(ValueError):
            cluster.shards[0].append(wrong)
    refuses(ValueError, "kind", cluster.shards[0].exchange, blob)
    with pytest.raises(TypeError):
        cluster.shards[0].append(3)
    assert cluster.buffers[0].stats()["committed_steps"] == before
    other = reprise.Schema().observation("state", np.float32, (4,)).reward()
    with pytest.raises(ValueError, match="another schema or window"):
        reprise.ReplayShard(reprise.ReplayBuffer(other, 10)).append(blob)


def test_batches_come_from_all_shards_with_their_probabilities():
    cluster = Cluster()
    with pytest.raises(reprise.NothingToDraw):
        cluster.client.begin(8)
    cluster.ask_all()
    assert cluster.client.totals(0)["items"] == 20 and cluster.client.totals(0)["alive"]
    tickets = [cluster.client.begin(8), cluster.client.begin(4, beta=1.0, normalise="not")]
    assert cluster.client.waits_for(tickets[0]) == [0, 1]
    refuses(RuntimeError, "have not answered", cluster.client.finish, tickets[0])
    cluster.ask_all()
    assert cluster.client.waits_for(tickets[1]) == []
    batch, shards, incarnations = cluster.client.finish(tickets[1])
    assert len(batch.item_keys) == 4 and shards.dtype == np.uint32
    np.testing.assert_array_equal(
        incarnations, [cluster.shards[shard].incarnation for shard in shards]
    )
    np.testing.assert_allclose(batch.probabilities, 1 / 40)
    np.testing.assert_allclose(batch.weights, 1.0)
    np.testing.assert_array_equal(batch["action"], batch["state"][:, 0])
    priorities = np.full(4, 50.0)
    assert cluster.client.update(batch.item_keys, shards, incarnations, priorities) == 0
    cluster.ask_all()
    assert sum(cluster.client.totals(s)["applied_updates"] for s in range(2)) == 4
    cluster.client.drop(tickets[0])
    with pytest.raises(ValueError):
        cluster.client.waits_for(tickets[0])


def test_an_append_times_out_and_is_refused_by_a_closed_buffer():
    ratio = reprise.SampleToInsertRatio(samples_per_insert=1.0, error_buffer=8.0)
    buffer = full_size(rate_limiter=ratio, max_writers=1)
    shard, packer = reprise.ReplayShard(buffer), packer_of()
    write(packer.writer(), 40)
    blob = packer.take()
    refuses(TimeoutError, "append the shipment again", shard.append, blob, timeout=0)
    assert 0 < buffer.stats()["committed_steps"] < 40
    buffer.close()
    write(packer.writer(), 1)
    with pytest.raises(reprise.Closed):
        shard.append(packer.take())


def test_items_of_a_cut_episode_get_priority_1_if_the_caller_gives_priorities():
    options = {"selectors": reprise.Proportional(alpha=1.0, epsilon=0.0, initial="from_caller")}
    replay, packer = full_size(**options), packer_of(**options)
    shard = reprise.ReplayShard(replay)
    writer = packer.writer()
    writer.begin_episode(state=np.zeros(3))
    for i in range(5):
        priorities = np.full(writer.completing(0), 4.0, np.float32)
        writer.append(action=i, reward=1.0, next_state=np.zeros(3), priorities=priorities)
    shard.append(carried(packer.take()))
    shard.close_writer(packer.writer_id)
    batch = replay.sampler().sample(64)
    # `close_writer` cut the last window short, so that its item was completed without a priority.
    total = 4 * 4 + 1
    weights = dict(zip(batch["action"].tolist(), (batch.probabilities * total).round(3).tolist()))
    assert weights == {0: 4.0, 1: 4.0, 2: 4.0, 3: 4.0, 4: 1.0}


def test_a_call_that_also_comes_over_a_connection_is_worked_on_once():
    cluster = Cluster(shards=1)
    shard, client = cluster.shards[0], cluster.client
    address = f"@reprise-test-{uuid.uuid4()}"
    refuses(OSError, "refused", reprise.ShardConnection, address)

    def over(connection, call):
        connection.ask(7, call)
        while not (answers := connection.take()):
            assert not connection.closed
            reprise.ShardConnection.wait([connection], 1.0)
        ((number, answer),) = answers
        assert number == 7
        return answer

    with shard.share(address) as shared:
        assert shared == address
        connection = reprise.ShardConnection(address)
        request = client.request(0)
        answer = over(connection, request)
        assert np.array_equal(answer, shard.exchange(request))
        assert shard.state_of(answer) == (shard.incarnation, 20, False, True)
        client.answer(0, answer)
        packer = packer_of()
        write(packer.writer(), 5)
        call = shard.shipments_of(3, 0, [(packer.writer_id, packer.take()), (9, None)])
        assert shard.outcomes_of(over(connection, call)) == [(0, 5, ""), (0, 0, "")]
        assert shard.outcomes_of(shard.append_all(call, most=1)) == [(0, 0, "")]
        assert over(connection, b"no call") is None
        assert shard.deliveries == {"restarted_episodes": 0, "silent_writers_closed": 0}
        shard.note_alive(4)
        assert [shard.is_silent(process) for process in (3, 4, 5)] == [False, False, True]
    refuses(TypeError, "ShardConnection", reprise.ShardConnection.wait, [3], 0.0)
    assert reprise.ShardConnection.wait([connection], 10.0)
    assert connection.take() == [] and connection.closed
    (outcome,) = shard.outcomes_of(shard.append_all(shard.shipments_of(3, 0, [(1, b"none")])))
    assert outcome[:2] == (4, 0) and "shipment" in outcome[2]
    with pytest.raises(TypeError):
        shard.shipments_of(3, 0, [(1, 2)])


def test_a_draw_over_a_connection_does_not_wait_for_the_limiter():
    buffer, packer = full_size(rate_limiter=reprise.MinSize(30)), packer_of()
    shard, client = reprise.ReplayShard(buffer), reprise.ShardClient(SCHEMA, 1, window=WINDOW)
    write(packer.writer(), 20)
    shard.append(packer.take())
    with shard.share(f"@reprise-test-{uuid.uuid4()}") as address:
        connection = reprise.ShardConnection(address)

        def ask():
            connection.ask(1, client.request(0, timeout=1e6))
            while not (answers := connection.take()):
                reprise.ShardConnection.wait([connection], 1.0)
            client.answer(0, answers[0][1])

        ask()
        ticket = client.begin(4)
        ask()
        refuses(TimeoutError, "let no draw in", client.waits_for, ticket)
        refuses(ValueError, "no batch has ticket", client.waits_for, ticket)


def test_a_client_draws_from_the_other_shards_once_one_is_lost():
    cluster = Cluster()
    cluster.ask_all()
    ticket = cluster.client.begin(10)
    answer = cluster.shards[0].exchange(cluster.client.request(0))
    cluster.client.lose(0)
    refuses(ValueError, "no request", cluster.client.answer, 0, answer)
    assert cluster.client.waits_for(ticket) == [1] and cluster.client.reallotted == 5
    cluster.client.lose(1)
    with pytest.raises(reprise.NothingToDraw):
        cluster.client.waits_for(ticket)
    keys, shards, incarnations = (
        np.zeros(2, np.int64),
        np.zeros(2, np.uint32),
        np.ones(2, np.uint64),
    )
    assert cluster.client.update(keys, shards, incarnations, np.ones(2)) == 2
    assert cluster.client.stale_updates == 2


def test_a_limiter_over_shards_answers_in_numbers():
    ratio = reprise.SampleToInsertRatio(samples_per_insert=2.0, min_size=10, error_buffer=64.0)
    limiter = reprise.ShardedLimiter(ratio, 1000, max_writers=2)
    assert limiter.admit(8) is False and limiter.credit() > 0
    limiter.set_items(0, 100)
    limiter.restore(100, 180)
    assert (limiter.inserts, limiter.samples, limiter.balance) == (100, 180, 0)
    assert limiter.admit(8) and limiter.balance == 8
    limiter.return_samples(8)
    limiter.return_credit(2)
    assert limiter.balance == 4 and limiter.insert(20)
    for call, message in (
        (lambda: limiter.insert(33), "at most"),
        (lambda: limiter.admit(10_000), "10000"),
        (lambda: reprise.ShardedLimiter(reprise.Queue(4), 1000), "Queue|queue"),
    ):
        refuses(ValueError, message, call)
    assert reprise.ShardedLimiter(reprise.MinSize(1), 1000).credit() > 1000
