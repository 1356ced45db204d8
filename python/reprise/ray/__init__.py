"""One replay buffer over the nodes of a Ray cluster.

    import ray, reprise, reprise.ray

    ray.init(address="auto")
    replay = reprise.ray.ReplayBuffer(schema, 10_000_000, shards=4, name="replay")

    @ray.remote
    def act(replay):                        # The handle may be given to any actor or task.
        with replay.writer() as writer:
            writer.begin_episode(state=first)
            writer.append(action=0, reward=1.0, next_state=second)

    for batch in replay.prefetch(512):      # In a learner: draws are over all shards.
        replay.update_priorities(batch.item_keys, errors)

Each shard is an actor with an in-process reprise.ReplayBuffer. Draws are exactly proportional over
all shards. A shard that is lost is left out, logged once by the logger "reprise.ray", counted in
`stats()`, and comes back from its newest checkpoint. Waits, timeouts, interrupts and errors are
those of the in-process buffer. docs/scale.md says how to install it, what a fault loses, and what
it costs.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from numpy.typing import ArrayLike

import reprise
from reprise._vocabulary import Draws, Normalise

from . import _checkpoint
from ._coordinator import Coordinator
from ._membership import LOST_ERRORS, get_answer
from ._options import UNSUPPORTED_CALLS, NAMESPACE, Spec
from ._options import check_start, describe, options_of_shard, refuse_options, spec_of, this_node
from ._process import Update, process_of
from ._sampler import Batch, Draw, Prefetcher, Sampler
from ._shard import Shard, sums_of
from ._waiting import Wait
from ._writer import Writer

__all__ = ["Batch", "Prefetcher", "ReplayBuffer", "Sampler", "Update", "Writer", "attach"]

THREADS = 16  # Calls that wait in an actor, such as a save, must not block others.
RUN = "run"  # The group of calls that `run` makes, which has as many threads of its own.


class ReplayBuffer:
    """One buffer in several shards. Any thread; its pickle is a handle to the same buffer."""

    def __init__(
        self,
        schema: reprise.Schema,
        capacity_steps: int,
        *,
        shards: int = 1,
        placement: str = "learner",
        name: str | None = None,
        detached: bool = False,
        max_restarts: int = -1,
        answer_timeout: float = 5.0,
        shard_options: Sequence[dict[str, Any]] | dict[str, Any] | None = None,
        start_timeout: float = 60.0,
        _load: str | None = None,
        **options: Any,
    ) -> None:
        """Starts the shards; they are closed with `close`, or when the job of this process ends.

        capacity_steps: of all shards together. shards: actors, 1 to 1024. placement: 'learner' for
        shards on this node, to which writers ship their steps; 'actors' for shards spread over the
        nodes, in which `run` runs simulators. name: for `attach`; None: a random one. detached: the
        buffer outlives the job of this process, until `close`. max_restarts: of each shard; -1: any
        number. answer_timeout: seconds after which a shard that does not answer is asked again; after
        as many more it is taken out. shard_options: options of Ray for each shard, or one dict for
        all: {"resources": {"a0": 1}}. start_timeout: seconds within which the shards have to start.
        The other options are those of reprise.ReplayBuffer; `storage` is a directory on the shard's
        node. ValueError, with the reason, for options that have no meaning across shards.
        """
        if not ray.is_initialized():
            raise RuntimeError("reprise.ray.ReplayBuffer: Ray is not running; call ray.init first")
        check_start(
            name,
            max_restarts,
            shards,
            placement,
            answer_timeout=answer_timeout,
            start_timeout=start_timeout,
        )
        buffer_name = name or f"replay-{uuid.uuid4().hex[:12]}"
        spec = spec_of(
            schema, capacity_steps, buffer_name, shards, placement, answer_timeout, options
        )
        own_options = [options_of_shard(shard_options or {}, i, shards) for i in range(shards)]
        common = {
            "namespace": NAMESPACE,
            "lifetime": "detached" if detached else None,
            "num_cpus": 0,
            "memory": 1,  # Ray would place an actor that needs nothing on any node.
            "enable_task_events": False,  # Otherwise Ray would keep a record of each call.
            "max_concurrency": THREADS,
            "scheduling_strategy": this_node(),
        }
        coordinator_options = {
            "name": f"{buffer_name}.coordinator",
            "max_restarts": -1,
            "max_task_retries": -1,
        }
        try:
            coordinator = (
                ray.remote(Coordinator).options(**common, **coordinator_options).remote(spec)
            )
        except ValueError as error:
            taken = f"name is {name!r}, and a buffer has it already"
            raise ValueError(
                f"reprise.ray.ReplayBuffer: {taken}; attach to it, or choose another"
            ) from error
        get_answer(coordinator.begin.remote(), start_timeout)
        actors, shard = [], ray.remote(concurrency_groups={RUN: THREADS})(Shard)
        for i in range(shards):
            actor_options = {
                **common,
                "name": f"{buffer_name}.shard-{i}",
                "max_restarts": max_restarts,
            }
            if placement == "actors" or own_options[i]:
                actor_options["scheduling_strategy"] = "SPREAD"
            actor_options |= own_options[i]
            actors.append(shard.options(**actor_options).remote(i, spec, _load))
        self._set_up(spec, coordinator, actors, incarnations=[0] * shards)
        started = [actor.info.remote() for actor in actors]
        _, waiting = ray.wait(started, num_returns=len(started), timeout=start_timeout)
        if waiting:
            late = [i for i, answer in enumerate(started) if answer in waiting]
            self.close()
            raise TimeoutError(
                f"reprise.ray.ReplayBuffer: shards {late} did not start in {start_timeout:g} "
                "seconds; see whether a node has the resources that shard_options asks for"
            )
        try:
            for info in ray.get(started):
                self._process.membership.update_info(info)
        except LOST_ERRORS as error:
            self.close()
            why = f"reprise.ray.ReplayBuffer: a shard did not start: {error}"
            raise RuntimeError(why) from error

    def _set_up(
        self, spec: Spec, coordinator: Any, actors: Sequence[Any], incarnations: Sequence[int]
    ) -> None:
        self._spec, self._coordinator, self._actors = spec, coordinator, list(actors)
        self._process = process_of(spec, coordinator, actors, incarnations)

    def __reduce__(self) -> Any:
        return _handle, (
            self._spec,
            self._coordinator,
            self._actors,
            self._process.membership.incarnations(),
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            reason = UNSUPPORTED_CALLS.get(name)
            raise AttributeError(
                f"reprise.ray.ReplayBuffer has no {name}" + (f": {reason}" if reason else ""),
                name=name,
                obj=self,
            )

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def schema(self) -> reprise.Schema:
        return self._spec.schema

    @property
    def options(self) -> dict[str, Any]:
        """The options with which the buffer was made; `capacity_steps` is that of all shards."""
        return {
            **self._spec.options,
            "capacity_steps": sum(self._spec.capacities),
            "rate_limiter": self._spec.rate_limiter,
            "shards": len(self._actors),
            "placement": self._spec.placement,
        }

    # Writers.

    def writer(self, *, timeout: float | None = None) -> Writer:
        """As ReplayBuffer.writer of reprise, in any process. Each episode goes to the shard that has
        had the fewest steps of this writer; while that shard is lost, to another one. `timeout`: of
        each append, which waits only while shards have too many steps to append, and of `close`.
        """
        return self._writer(1, lambda packer: packer.writer(), timeout)

    def vector_writer(
        self, environments: Any, *, autoreset: Any = None, timeout: float | None = None
    ) -> Writer:
        """As ReplayBuffer.vector_writer of reprise, in any process."""
        n = getattr(environments, "num_envs", environments)
        given = {} if autoreset is None else {"autoreset": autoreset}
        return self._writer(
            int(n), lambda packer: packer.vector_writer(environments, **given), timeout
        )

    def _writer(self, writers: int, make: Callable[[Any], Any], timeout: float | None) -> Writer:
        process = self._process
        process.membership.check_open()
        Wait("writer", timeout, str)  # Refuses a timeout below 0.
        max_writers = process.membership.spec.options.get("max_writers", 256)
        if writers > max_writers:
            raise ValueError(
                f"vector_writer: {writers} environments; allowed: max_writers {max_writers}"
            )
        with process.lock:
            process.writers += 1
            first = process.writers % len(self._actors)
            return Writer(process.membership, process.shipper, first, writers, make, timeout)

    def append_episode(self, *, timeout: float | None = None, **fields: Any) -> None:
        """Appends one whole episode, as Writer.append_episode, and waits until a shard has taken it:
        for tasks, which may end right after. After an error make the same call again in this process,
        before it appends another episode: if the episode was recorded, the call only waits until a
        shard has taken it."""
        process = self._process
        if process.episode_writer is None:
            new_writer = self.writer()
            with process.lock:
                process.episode_writer = process.episode_writer or new_writer
        writer, episode = process.episode_writer, _hash(fields)
        is_recorded = process.unfinished_episode == episode
        process.unfinished_episode = b""
        if not is_recorded:
            writer._wait_until_ready(timeout)
            writer.append_episode(**fields)
        try:
            writer.flush(timeout)
        except BaseException:
            process.unfinished_episode = episode
            raise
        finally:
            writer.leave()  # Processes of tasks stay, and there may be many.

    # Learners.

    def sampler(
        self,
        *,
        seed: int = 0,
        selector: int = 0,
        allocator: Any = None,
        unique_frames: bool = False,
        **other: Any,
    ) -> Sampler:
        """As ReplayBuffer.sampler of reprise, over all shards; one for each thread of a learner.
        Batches depend on when shards answer, so equal seeds do not give equal batches. With
        unique_frames shards send each frame of an item once."""
        refuse_options("sampler", other)
        self._process.membership.check_open()
        return Sampler(
            self._process,
            {
                "selector": selector,
                "seed": seed,
                "allocator": allocator,
                "unique_frames": unique_frames,
            },
        )

    def prefetch(
        self,
        n: int,
        *,
        depth: int = 4,
        beta: float = 0.4,
        normalise: Normalise = "by_batch",
        draws: Draws = "stratified",
        n_step: int | None = None,
        discount: float | None = None,
        timeout: float | None = None,
        **sampler: Any,
    ) -> Prefetcher:
        """As ReplayBuffer.prefetch of reprise, over all shards: batches of `sampler(**sampler)`. Up
        to `depth` batches are drawn before the priorities of the batch in use are updated."""
        draw = Draw(n, beta, normalise, draws, n_step, discount)
        return Prefetcher(self.sampler(**sampler), draw, depth, timeout)

    def update_priorities(self, keys: Any, priorities: ArrayLike, selector: int = 0) -> Update:
        """Sets priorities of items of any shards, without waiting: the next draw sends them, or a
        thread within some 50 ms. keys: `item_keys` of any number of batches. ValueError for
        priorities that are negative or not finite, before anything is set."""
        return self._process.update(keys, priorities, selector)

    def set_alpha(self, alpha: float, selector: int = 0) -> None:
        self._call_all("set_alpha", alpha, selector)

    def decay(self, factor: float, selector: int = 0) -> None:
        self._call_all("decay", factor, selector)

    def set_version(self, version: int) -> None:
        """As ReplayBuffer.set_version: once it has returned, no shard draws an item that it made
        outdated. A restarted shard gets the version with the next call of `set_version`."""
        self._call_all("set_version", version)

    def _call_all(self, call: str, *arguments: Any, timeout: float | None = 60.0) -> list[Any]:
        """Calls all shards that are alive; returns their answers by shard, None for a lost one."""
        membership = self._process.membership
        membership.check_open()
        wait = Wait(call, timeout, lambda: "answers of the shards")
        asked = []
        for remote in membership.remotes:
            answer = getattr(remote.actor, call).remote(*arguments) if remote.alive else None
            asked.append((remote.info.incarnation, answer))
        answers: list[Any] = []
        for remote, (incarnation, answer) in zip(membership.remotes, asked):
            answers.append(None)
            if answer is None:
                continue
            while not ray.wait([answer], timeout=wait.left())[0]:
                wait.check()
            try:
                answers[-1] = ray.get(answer)
            except LOST_ERRORS as error:
                membership.take_out(remote, error, incarnation)
                membership.check_coordinator()
                membership.check_open()
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
        return answers

    # Simulators in the shards.

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Starts function(local, shard, *arguments) in every shard, beside the shard's other calls;
        returns a reference of Ray for each result. A shard runs 16 functions at a time, and further
        ones after them. `local` is the in-process buffer of the shard: its appends stay there.
        `local.capsule` is for C++ and `local.share` for other processes; both are missing if the rate
        limiter holds writers. Calls of `local` raise Closed when the buffer is closed. A restarted
        shard does not run the function again: call `run` again.
        """
        self._process.membership.check_open()
        calls = [actor.run.options(concurrency_group=RUN) for actor in self._actors]
        return [call.remote(function, arguments) for call in calls]

    # The buffer as a whole.

    @property
    def shards_alive(self) -> int:
        """The number of shards that are alive as far as this process knows, without asking them."""
        return len(self._process.membership.alive())

    def __len__(self) -> int:
        return sum(size for size in self._call_all("size") if size)

    def stats(self) -> dict[str, Any]:
        """Sums of the shards' stats, and the numbers of the coordinator, among them those that all
        processes have reported. `shards` has the stats of each shard, None for a lost one. Waits
        are those within the shards, not those of writers and samplers in other processes.
        docs/scale.md describes how losses are counted."""
        shards = self._call_all("stats")
        self._process.membership.report()
        coordinator = get_answer(self._coordinator.stats.remote())
        alive = [stats for stats in shards if stats is not None]
        sums = sums_of(alive)
        if alive:
            sums["samples_per_insert"] = sums["sampled_items"] / max(1, sums["committed_steps"])
        return {**sums, **coordinator, "shards": shards, "shards_alive": len(alive)}

    def save(
        self,
        directory: str | os.PathLike[str],
        *,
        compression: int = 0,
        keep: int = 2,
        incremental: bool = True,
        attachments: dict[str, Any] = {},
        timeout: float | None = None,
    ) -> int:
        """Saves every shard, while writers append and learners sample, and then a manifest that
        names one checkpoint of each; returns the manifest's number. All nodes have to see
        `directory`. A load restores all checkpoints that the newest complete manifest names. After a
        save, a restarted shard begins with its newest checkpoint there. RuntimeError if a shard is
        lost before or meanwhile: the manifest before stays the newest."""
        where = os.path.abspath(os.fspath(directory))
        if not 1 <= keep <= 1000:
            raise ValueError(f"save: keep is {keep!r}; allowed: 1 to 1000")
        os.makedirs(where, exist_ok=True)
        lost = [remote.index for remote in self._process.membership.remotes if not remote.alive]
        if lost:
            raise RuntimeError(
                f"save: shards {lost} are lost; the checkpoint before stays the newest"
            )
        # Each shard keeps its checkpoints from the oldest one on that a kept manifest names.
        oldest = _checkpoint.oldest_named(where, len(self._actors), keep)
        options = {"compression": compression, "incremental": incremental}
        results = self._call_all("save", where, oldest, options, timeout=timeout)
        lost = [i for i, result in enumerate(results) if result is None]
        if lost:
            raise RuntimeError(
                f"save: shards {lost} were lost; the checkpoint before stays the newest"
            )
        numbers = [result.manifest for result in results]
        manifest = _checkpoint.Manifest(numbers, self._spec.description)
        number = _checkpoint.write(where, manifest, attachments, keep)
        get_answer(self._coordinator.saved.remote(where))
        return number

    @staticmethod
    def load(
        directory: str | os.PathLike[str],
        schema: reprise.Schema,
        capacity_steps: int,
        *,
        shards: int,
        attachments: dict[str, bytes] | None = None,
        **options: Any,
    ) -> ReplayBuffer:
        """A buffer with what `save` saved. Give the arguments of the buffer that was saved; options
        of its shards' in-process buffers, but for `storage`, come from the checkpoint. attachments:
        a dict to which the saved ones are added. ValueError for another schema, capacity, window or
        number of shards."""
        where = os.path.abspath(os.fspath(directory))
        saved_attachments: dict[str, bytes] = {}
        manifest = _checkpoint.read(where, saved_attachments)
        manifest.check(describe(schema, capacity_steps, options.get("window")), shards)
        replay = ReplayBuffer(schema, capacity_steps, shards=shards, _load=where, **options)
        if attachments is not None:
            attachments.update(saved_attachments)
        return replay

    @property
    def closed(self) -> bool:
        return self._process.membership.closed

    def close(self) -> None:
        """Closes the buffer: every wait, in every process, ends with Closed, and the shards end.
        Steps that writers have not shipped are lost."""
        membership = self._process.membership
        if membership.closed:
            return
        membership.end()
        try:
            calls = [actor.close.remote() for actor in (self._coordinator, *self._actors)]
            ray.wait(calls, num_returns=len(calls), timeout=2.0)
            # Other processes that call in this time are told that the buffer is closed; afterwards
            # there are no actors to tell them.
            time.sleep(0.1)
        finally:
            for actor in (*self._actors, self._coordinator):
                ray.kill(actor, no_restart=True)

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _hash(fields: dict[str, Any]) -> bytes:
    """A hash of fields, whose values may be lists, arrays or tensors."""
    digest = hashlib.blake2b()
    for name, value in sorted(fields.items()):
        on_host = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
        digest.update(f"{name} {on_host.dtype} {on_host.shape} ".encode() + on_host.tobytes())
    return digest.digest()


def _handle(
    spec: Spec, coordinator: Any, actors: Sequence[Any], incarnations: Sequence[int]
) -> ReplayBuffer:
    replay = ReplayBuffer.__new__(ReplayBuffer)
    replay._set_up(spec, coordinator, actors, incarnations)
    return replay


def attach(name: str) -> ReplayBuffer:
    """A handle to the buffer of this name, from any job of the cluster; `ray.shutdown` closes the
    handles of its process, not the buffer. ValueError if there is no buffer of this name."""
    try:
        coordinator = ray.get_actor(f"{name}.coordinator", namespace=NAMESPACE)
    except ValueError as error:
        raise ValueError(f"reprise.ray.attach: there is no buffer of the name {name!r}") from error
    spec = get_answer(coordinator.spec.remote())
    incarnations = get_answer(coordinator.incarnations.remote())
    actors = [
        ray.get_actor(f"{name}.shard-{i}", namespace=NAMESPACE) for i in range(len(spec.capacities))
    ]
    return _handle(spec, coordinator, actors, incarnations)
