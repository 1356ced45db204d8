"""A user's program that names every class. mypy checks it strictly against the package's types;
test_typed_program.py runs it, so that everything that the types allow here also works."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import reprise
from reprise.compat import baselines, cpprb
from reprise.compat.experience_replay import ExperienceReplay, PickSelector

if TYPE_CHECKING:
    import reprise.ray

    def cluster_is_a_source(sampler: reprise.ray.Sampler) -> reprise.BatchSource:
        return sampler


STEPS = 12


def make_schema() -> reprise.Schema:
    schema = reprise.Schema().observation("obs", np.float32, (4,)).column("action", np.int64)
    fields: tuple[reprise.Field, ...] = schema.reward().recurrent_state("lstm", "f4", [2]).fields
    assert [field.role for field in fields][:2] == [reprise.Role.OBSERVATION, reprise.Role.COLUMN]
    return schema


def make_buffer(schema: reprise.Schema) -> reprise.ReplayBuffer:
    return reprise.ReplayBuffer(
        schema,
        1_000,
        window=reprise.Sequences(length=2, period=1, burn_in=0, end="drop"),
        selectors=[
            reprise.Proportional(alpha=0.6, initial="highest_seen"),
            reprise.RankBased(initial=1.0),
            reprise.Uniform(),
            reprise.MinHeap(),
            reprise.MaxHeap(),
            reprise.Fifo(),
            reprise.Lifo(),
            reprise.Recency(p=1e-4),
            reprise.LossAdjusted(alpha=0.4),
            reprise.Mixture(uniform=0.1, alpha=0.6),
        ],
        remover=reprise.SecondChance(),
        rate_limiter=reprise.SampleToInsertRatio(8.0, min_size=1, error_buffer=1e6),
        episode_index=True,
    )


def write(replay: reprise.ReplayBuffer) -> None:
    state: list[int] = [0, 0]
    writer: reprise.Writer
    with replay.writer(timeout=None) as writer:
        writer.begin_episode(obs=np.zeros(4))
        for t in range(STEPS):
            end = reprise.ends(False, t == STEPS - 1)
            items: int = writer.completing(end)
            given: NDArray[np.float32] | None = np.ones(items, np.float32) if items else None
            writer.append(
                action=t, reward=1.0, next_obs=[t] * 4, lstm=state, end=end, priorities=given
            )
        assert not writer.in_episode
        writer.begin_episode(obs=np.zeros(4))
        writer.append(action=0, reward=0, next_obs=np.ones(4), lstm=state, end=reprise.End.CONTINUE)


def write_together(replay: reprise.ReplayBuffer) -> None:
    first: NDArray[np.float64] = np.zeros((2, 4))
    writers: reprise.VectorWriter
    with replay.vector_writer(2, autoreset="same_step", timeout=1.0) as writers:
        writers.begin(obs=first)
        for t in range(STEPS):
            ends = reprise.ends(np.array([False, t % 4 == 3]), np.zeros(2, bool))
            final: dict[str, list[Any]] = {"obs": [None, first[1]]}
            writers.append(
                action=np.full(2, t),
                reward=[0.0, 1.0],
                next_obs=first,
                lstm=np.zeros((2, 2)),
                end=ends,
                final=final,
            )
        episodes: list[int] = [writer.episode_id for writer in writers]
        assert len(episodes) == len(writers) and writers[0].episode_steps == STEPS


def learn(replay: reprise.ReplayBuffer, sampler: reprise.Sampler) -> reprise.UpdateResult:
    batch: reprise.Batch = sampler.sample(4, beta=1.0, normalise="by_buffer", timeout=1.0)
    weights: NDArray[np.float32] = batch.weights
    keys: NDArray[np.int64] = batch.item_keys
    assert batch["obs"].shape == (4, 2, 4) and batch.next["obs"].shape == (4, 2, 4)
    assert "next_obs" in batch and len(batch.now) == len(batch.keys()) - 1
    episodes: reprise.Episodes = replay.episodes()
    found: int | None = episodes.find(int(batch.episode_ids[0]), int(batch.positions[0]))
    assert found == int(keys[0])
    assert batch.lengths.dtype == np.int32
    arrays: dict[str, NDArray[Any]] = dict(batch.items())
    assert list(arrays) == list(batch)
    after, total = episodes.sums(keys)
    reliability: NDArray[np.float64] = 1 - after / total
    assert reliability.shape == (4,)
    gone: int = replay.remove(keys[:1]) + episodes.remove(int(batch.episode_ids[0]))
    assert gone >= 0
    selector: reprise.SelectorHandle = replay.selector()
    assert selector.update(keys, np.abs(weights)).stale >= 1
    assert selector.priorities(keys).shape == (4,) and selector.totals()["items"] >= 0
    replay.set_samples_per_insert(4.0)
    return replay.update_priorities(keys, np.abs(weights * batch.discounts))


def passes(replay: reprise.ReplayBuffer) -> int:
    sampler = replay.sampler()
    while sampler.passes < 2:
        sampler.sample(3, draws="epoch")
    with replay.prefetch(3, draws="epoch") as batches:
        next(batches)
        done: int = batches.passes
    newest = replay.sampler(fresh=0.5)
    newest.sample(4)
    return sampler.passes + done + newest.fresh


def tensors(batch: reprise.Batch) -> reprise.Tensors:
    made: reprise.Tensors = batch.torch("cpu")
    return made


def prefetched(replay: reprise.ReplayBuffer) -> Iterator[int]:
    batches: reprise.Prefetcher
    with replay.prefetch(4, depth=2, draws="independent", timeout=1.0) as batches:
        for _, batch in zip(range(3), batches):
            yield len(batch)


def save_and_load(replay: reprise.ReplayBuffer, sampler: reprise.Sampler) -> None:
    seen: list[reprise.SaveProgress] = []
    with tempfile.TemporaryDirectory() as directory:
        autosave: reprise.Autosave
        with replay.autosave(f"{directory}/again", every=60.0, keep=1) as autosave:
            status: dict[str, Any] = autosave.status()
        assert status["failures"] == 0
        saved: reprise.SaveResult = replay.save(
            directory, samplers=[sampler], attachments={"a": b"1"}, progress=seen.append
        )
        result: reprise.LoadResult = reprise.ReplayBuffer.load(directory)
        loaded, skipped, attachments = result
        resumed: reprise.Sampler = loaded.sampler(resume=0)
        restored: reprise.RestoreResult = loaded.restore(directory)
        passed_over: list[reprise.SkippedCheckpoint] = skipped + restored.skipped
        assert [one.error.kind for one in passed_over] == []
        resumed = loaded.sampler(resume=0)
        assert saved.bytes_written > 0 and attachments["a"] == b"1" and len(resumed.sample(2)) == 2
        try:
            reprise.ReplayBuffer.load(directory + "/none")
        except (OSError, reprise.CheckpointError) as error:
            assert str(error)


def relabelled(schema: reprise.Schema) -> bool:
    replay = reprise.ReplayBuffer(schema, 100, window=reprise.Transitions())
    hindsight: reprise.Hindsight = replay.hindsight("obs", goal="final", share=1.0, seed=1)
    with replay.writer() as writer:
        writer.append_episode(obs=np.zeros((3, 4)), action=[0, 1], reward=[0.0, 1.0])
    goals = np.ones((1, 4), np.float32)
    distances: NDArray[np.int32] = hindsight.relabel(replay.sampler().sample(1).item_keys, goals)
    return bool(distances[0] > 0 and (goals == 0).all())


def mixed(replay: reprise.ReplayBuffer) -> int:
    common: reprise.Mix = reprise.mix([replay], 4, seed=2)
    mix: reprise.Mix = reprise.mix([(replay, 3), (replay, 1)], seed=2)
    sources: list[reprise.BatchSource] = [mix, common, replay.sampler()]
    for source in sources:
        with contextlib.closing(source.prefetch(4, beta=1.0)) as ahead:
            source.update_priorities(ahead.get(timeout=1.0).item_keys, np.ones(4))
    passes: list[int] = mix.passes
    batch: reprise.Batch = mix.sample(beta=1.0)
    places: list[slice] = mix.parts
    assert places[1] == slice(3, 4) and len(passes) == 2 and len(common) == 4
    return mix.update_priorities(batch.item_keys, np.ones(len(mix))).applied


def guests() -> int:
    schema = reprise.Schema().observation("x", np.float32, (2,)).reward()
    replay = reprise.ReplayBuffer(schema, 1_000)
    host: reprise.Host = replay.share(ring_steps=8)
    guest: reprise.Guest
    with host as address, reprise.attach(address, timeout=5.0) as guest:
        same: str = host.address
        with guest.writer(timeout=1.0) as writer:
            writer.append_episode(x=np.zeros((5, 2)), reward=np.ones(4))
        writers: reprise.VectorWriter = guest.vector_writer(2, autoreset="disabled")
        source: reprise.BatchSource = guest.sampler(seed=1, fresh=0.5)
        sampler: reprise.Sampler = guest.sampler(unique_frames=True)
        batch: reprise.Batch = sampler.sample(4, views=True, timeout=5.0)
        with guest.prefetch(4, depth=1) as ahead:
            source.update_priorities(next(ahead).item_keys, np.ones(4))
        updated: reprise.UpdateResult = guest.update_priorities(batch.item_keys, np.ones(4))
        stats: dict[str, Any] = guest.stats()
        assert same == address and guest.schema == schema and not guest.closed
        assert guest.window == reprise.Transitions() and stats["guests"] == 1
        writers.close()
    return updated.applied


def many_processes() -> int:
    schema = reprise.Schema().observation("x", np.float32, (2,)).reward()
    shard: reprise.ReplayShard = reprise.ReplayShard(reprise.ReplayBuffer(schema, 1_000))
    packer: reprise.StepPacker = reprise.StepPacker(schema, lanes=1)
    with packer.writer() as writer:
        writer.begin_episode(x=np.zeros(2))
        writer.append(reward=1.0, next_x=np.ones(2))
    shipment = packer.take()
    assert shipment is not None
    appended: reprise.AppendResult = shard.append(shipment)
    client: reprise.ShardClient = reprise.ShardClient(schema, 1)
    client.answer(0, shard.exchange(client.request(0)))
    ticket: int = client.begin(4)
    while client.waits_for(ticket):
        client.answer(0, shard.exchange(client.request(0)))
    batch, shards, incarnations = client.finish(ticket)
    assert client.update(batch.item_keys, shards, incarnations, np.ones(4)) == 0
    with shard.share(f"@reprise-typed-{packer.writer_id}") as address:
        connection: reprise.ShardConnection = reprise.ShardConnection(address)
        connection.ask(1, shard.shipments_of(2, shard.incarnation, [(packer.writer_id, None)]))
        while not connection.take():
            reprise.ShardConnection.wait([connection], 1.0)
    limiter: reprise.ShardedLimiter = reprise.ShardedLimiter(reprise.MinSize(1), 1_000)
    limiter.set_items(0, len(batch))
    return appended.steps if limiter.admit(4) else 0


def other_options() -> None:
    schema = reprise.Schema.from_step(
        observations={"obs": np.zeros(2, np.float32)}, columns={"a": 1}, discount="gamma"
    )
    window = reprise.Transitions(n_step=3, discount=0.9, frame_stack=2)
    sequences = reprise.Sequences(length=4, n_step=3, discount=0.9, frame_stack=2)
    lowest = reprise.LowestPriority(selector=0)
    buffers: list[reprise.ReplayBuffer] = [
        reprise.ReplayBuffer(schema, 100, rate_limiter=reprise.MinSize(1), remover=lowest),
        reprise.ReplayBuffer(schema, 100, rate_limiter=reprise.Queue(5), max_times_sampled=1),
        reprise.ReplayBuffer(schema, 100, rate_limiter=reprise.Unlimited()),
        reprise.ReplayBuffer(schema, 100, window=window, remover=None),
        reprise.ReplayBuffer(schema, 100, window=sequences),
    ]
    for replay in buffers:
        sampler = replay.sampler()
        replay.close()
        try:
            sampler.sample(1)
        except reprise.NothingToDraw:
            raise
        except reprise.Closed as error:
            assert "closed" in str(error)


def tree() -> float:
    leaves = reprise.SegmentTree(8, np.float64)
    leaves.assign(np.arange(8), np.ones(8))
    leaves.assign_range(2, [2.0, 3.0])
    one: int = leaves.find_prefix_sum(np.float32(2.5))
    many: NDArray[np.int64] = leaves.find_prefix_sum(np.array([0.5, 9.0]))
    whole: int = leaves.find_prefix_sum(np.int64(3))
    assert one == 2 and whole == 2 and many.shape == (2,)
    return leaves.sum(0, 4) + leaves.min() + leaves.max(last=3)


def compat() -> None:
    theirs = baselines.PrioritizedReplayBuffer(100, alpha=0.6)
    theirs.add(np.zeros(2), 0, 1.0, np.ones(2), False)
    obs, *_, idxes = theirs.sample(4, beta=0.4)
    theirs.update_priorities(idxes, np.ones(4))
    sums: baselines.SumSegmentTree = baselines.SumSegmentTree(8)
    sums[0] = 1.0
    ring = cpprb.ReplayBuffer(100, {"obs": {"shape": 2}, "done": {}})
    ring.add(obs=np.zeros(2), done=0)
    sampled: dict[str, NDArray[Any]] = ring.sample(3)
    windows = ExperienceReplay(100, pick_len=2)
    greedy: int = windows.new_pick_selector(PickSelector.greedy_bin_heap)
    assert obs.shape == (4, 2) and sampled["obs"].shape == (3, 2) and greedy == 1


def changed() -> reprise.UpdateResult:
    schema = reprise.Schema().observation("obs", "f4").mutable_column("latent", np.float32, (2,))
    assert schema.fields[1].role == reprise.Role.MUTABLE_COLUMN
    replay = reprise.ReplayBuffer(schema.mutable_column("value", "f8"), 100)
    with replay.writer() as writer:
        writer.append_episode(obs=[0, 1, 2], latent=np.zeros((2, 2)), value=[0, 0])
    batch: reprise.Batch = replay.sampler().sample(4)
    replay.update(batch.item_keys, "value", [1.0, 2.0, 3.0, 4.0])
    return replay.update(batch.item_keys, field="latent", values=np.ones((4, 2)))


def lagging() -> NDArray[np.int64]:
    schema = reprise.Schema().observation("obs", "f4").version()
    replay = reprise.ReplayBuffer(schema, 100, max_staleness=4)
    with replay.writer() as writer:
        writer.set_version(1)
        writer.append_episode(obs=[0, 1, 2])
    replay.set_version(replay.version + 3)
    return replay.sampler().sample(4).staleness(replay.version)


def wrong_words(replay: reprise.ReplayBuffer) -> int:
    """Words that the calls refuse; type checkers report each of them."""
    refused = 0
    for call in (
        lambda: replay.sampler().sample(1, draws="startified"),  # type: ignore[arg-type]
        lambda: replay.sampler().sample(1, normalise="batch"),  # type: ignore[arg-type]
        lambda: replay.hindsight("obs", goal="last"),  # type: ignore[arg-type]
        lambda: replay.vector_writer(1, autoreset="next"),  # type: ignore[arg-type]
        lambda: reprise.ReplayBuffer(
            replay.schema, 9, window=reprise.Sequences(end="cut")  # type: ignore[arg-type]
        ),
        lambda: reprise.ReplayBuffer(
            replay.schema, 9, selectors=reprise.MaxHeap(initial="max")  # type: ignore[arg-type]
        ),
    ):
        try:
            call()
        except ValueError:
            refused += 1
    return refused


def main() -> None:
    with make_buffer(make_schema()) as replay:
        write(replay)
        write_together(replay)
        sampler = replay.sampler(seed=1, allocator=lambda n: np.empty(n, np.uint8))
        assert learn(replay, sampler).applied > 0
        assert list(prefetched(replay)) == [4, 4, 4]
        assert mixed(replay) == 4
        assert passes(replay) >= 2
        save_and_load(replay, sampler)
        assert replay.stats()["items"] > 0 and len(replay) > 0 and not replay.closed
    other_options()
    assert relabelled(
        reprise.Schema().observation("obs", "f4", [4]).column("action", np.int64).reward()
    )
    assert guests() == 4
    assert many_processes() == 1
    assert changed().applied == 4
    assert lagging().tolist() == [2, 2, 2, 2]
    assert wrong_words(reprise.ReplayBuffer(make_schema(), 100, window=reprise.Sequences())) == 6
    assert tree() == 10.0
    compat()


if __name__ == "__main__":
    main()
