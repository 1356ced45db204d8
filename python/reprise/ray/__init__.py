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
all of them. A shard that is lost is left out, logged once by the logger "reprise.ray", counted in
`stats()`, and comes back from its newest checkpoint. Waits, timeouts, interrupts and errors are
those of the in-process buffer. docs/scale.md says how it is installed, what is lost when, and what
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
        nodes, in which `run` runs simulators. name: for `attach`, one of its own by default.
        detached: the buffer outlives the job of this process, until `close`. max_restarts: of each
        shard, -1 without a limit. answer_timeout: seconds after which a shard is asked again, and
        taken out after as many more. shard_options: options of Ray for each shard, or one dict for
        all: {"resources": {"a0": 1}}. start_timeout: seconds. The rest is as for
        reprise.ReplayBuffer, `storage` a directory on the node of the shard. ValueError for what
        has no meaning across shards, with the reason.
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
        own = [options_of_shard(shard_options or {}, i, shards) for i in range(shards)]
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
            if placement == "actors" or own[i]:
                actor_options["scheduling_strategy"] = "SPREAD"
            actors.append(shard.options(**{**actor_options, **own[i]}).remote(i, spec, _load))
        self._set_up(spec, coordinator, actors, [0] * shards)
        started = [one.info.remote() for one in actors]
        _, waiting = ray.wait(started, num_returns=len(started), timeout=start_timeout)
        if waiting:
            late = [i for i, one in enumerate(started) if one in waiting]
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
        self, spec: Spec, coordinator: Any, actors: Sequence[Any], given: Sequence[int]
    ) -> None:
        self._spec, self._coordinator, self._actors = spec, coordinator, list(actors)
        self._process = process_of(spec, coordinator, actors, given)

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
        """The given options, with `capacity_steps` of all shards and `shards`."""
        return {
            **self._spec.options,
            "capacity_steps": sum(self._spec.capacities),
            "rate_limiter": self._spec.rate_limiter,
            "shards": len(self._actors),
            "placement": self._spec.placement,
        }

    # Writers.

    def writer(self, *, timeout: float | None = None) -> Writer:
        """As ReplayBuffer.writer of reprise, in any process. Each episode goes to the shard that
        has had the fewest steps of this writer, and to another one while that is lost. `timeout`:
        of each append, which waits only while shards have too many steps to append, and of `close`.
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
        """Appends one whole episode, as Writer.append_episode, and waits until a shard has it: for
        tasks, which may end at once. After an error make the same call again in this process, before
        it appends another episode: if the episode was recorded, the call only waits for it."""
        process = self._process
        if process.writer is None:
            made = self.writer()
            with process.lock:
                process.writer = process.writer or made
        waits_for = _hash(fields)
        known, process.waits_for = process.waits_for == waits_for, b""
        if not known:
            process.writer._wait_until_ready(timeout)
            process.writer.append_episode(**fields)
        try:
            process.writer.flush(timeout)
        except BaseException:
            process.waits_for = waits_for
            raise
        finally:
            process.writer.leave()  # Processes of tasks stay, and there may be many.

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
        Batches depend on when shards answer, so a seed does not bring the same ones again. Shards
        send unique frames once each."""
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
        """As ReplayBuffer.prefetch of reprise, over all shards: batches of `sampler(**sampler)`.
        Priorities of up to `depth` batches are updated after later ones were drawn."""
        draw = Draw(n, beta, normalise, draws, n_step, discount)
        return Prefetcher(self.sampler(**sampler), draw, depth, timeout)

    def update_priorities(self, keys: Any, priorities: ArrayLike, selector: int = 0) -> Update:
        """Sets priorities of items of any shards. It does not wait: they go out with the next
        draw, or within some 50 ms. keys: `item_keys` of batches, of any number of them. ValueError
        for priorities that are negative or not finite, before anything is set."""
        return self._process.update(keys, priorities, selector)

    def set_alpha(self, alpha: float, selector: int = 0) -> None:
        self._call_all("set_alpha", alpha, selector)

    def decay(self, factor: float, selector: int = 0) -> None:
        self._call_all("decay", factor, selector)

    def set_version(self, version: int) -> None:
        """As ReplayBuffer.set_version: once it has returned, no shard draws what it made outdated.
        A restarted shard gets the version with the next call of `set_version`."""
        self._call_all("set_version", version)

    def _call_all(self, call: str, *arguments: Any, timeout: float | None = 60.0) -> list[Any]:
        """Calls all shards that are alive; returns their answers by shard, None for a lost one."""
        membership = self._process.membership
        membership.check_open()
        wait = Wait(call, timeout, lambda: "answers of the shards")
        asked = []
        for one in membership.remotes:
            made = getattr(one.actor, call).remote(*arguments) if one.alive else None
            asked.append((one.info.incarnation, made))
        answers: list[Any] = []
        for remote, (incarnation, made) in zip(membership.remotes, asked):
            answers.append(None)
            if made is None:
                continue
            while not ray.wait([made], timeout=wait.left())[0]:
                wait.check()
            try:
                answers[-1] = ray.get(made)
            except LOST_ERRORS as error:
                membership.take_out(remote, error, incarnation)
                membership.check_coordinator()
                membership.check_open()
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
        return answers

    # Simulators in the shards.

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Starts function(local, shard, *arguments) in every shard, beside its other calls; returns
        a reference of Ray for each result. A shard runs 16 at a time, and others after these.
        `local` is the in-process buffer of the shard: its appends stay there. `local.capsule` is
        for C++ and `local.share` for other processes; both are missing if the rate limiter holds
        writers. Calls of `local` raise Closed when the buffer is closed. A restarted shard does not
        run the function again: call `run` again.
        """
        self._process.membership.check_open()
        started = [one.run.options(concurrency_group=RUN) for one in self._actors]
        return [one.remote(function, arguments) for one in started]

    # The buffer as a whole.

    @property
    def shards_alive(self) -> int:
        """The number of shards that are alive as far as this process knows, without asking them."""
        return len(self._process.membership.alive())

    def __len__(self) -> int:
        return sum(one for one in self._call_all("size") if one)

    def stats(self) -> dict[str, Any]:
        """Sums of the shards' stats, those of the coordinator, and of this process; `shards` has
        each one's, None of one that is lost. Waits are those within the shards, not those of writers
        and samplers elsewhere. docs/scale.md describes what is counted of losses."""
        shards = self._call_all("stats")
        self._process.membership.report()
        coordinator = get_answer(self._coordinator.stats.remote())
        there = [one for one in shards if one is not None]
        sums = sums_of(there)
        if there:
            sums["samples_per_insert"] = sums["sampled_items"] / max(1, sums["committed_steps"])
        return {**sums, **coordinator, "shards": shards, "shards_alive": len(there)}

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
        names one checkpoint of each; returns its number. `directory` is one that all nodes see. A
        load restores all checkpoints that the newest complete manifest names. After a save, a
        restarted shard begins with its newest checkpoint there. RuntimeError if a shard is
        lost meanwhile: the manifest before stays the newest."""
        where = os.path.abspath(os.fspath(directory))
        if not 1 <= keep <= 1000:
            raise ValueError(f"save: keep is {keep!r}; allowed: 1 to 1000")
        os.makedirs(where, exist_ok=True)
        gone = [one.index for one in self._process.membership.remotes if not one.alive]
        if gone:
            raise RuntimeError(
                f"save: shards {gone} are lost; the checkpoint before stays the newest"
            )
        # Shards keep all checkpoints from the oldest that one of the kept manifests names.
        oldest = _checkpoint.oldest_named(where, len(self._actors), keep)
        options = {"compression": compression, "incremental": incremental}
        done = self._call_all("save", where, oldest, options, timeout=timeout)
        missing = [i for i, one in enumerate(done) if one is None]
        if missing:
            raise RuntimeError(
                f"save: shards {missing} were lost; the checkpoint before stays the newest"
            )
        saved = _checkpoint.Manifest([one.manifest for one in done], self._spec.description)
        number = _checkpoint.write(where, saved, attachments, keep)
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
        """A buffer with what `save` saved. The arguments are those of the buffer that was saved;
        those of the in-process buffers of its shards, but `storage`, come from the checkpoint.
        ValueError for another schema, capacity, window or number of shards."""
        where = os.path.abspath(os.fspath(directory))
        found: dict[str, bytes] = {}
        saved = _checkpoint.read(where, found)
        saved.check(describe(schema, capacity_steps, options.get("window")), shards)
        made = ReplayBuffer(schema, capacity_steps, shards=shards, _load=where, **options)
        if attachments is not None:
            attachments.update(found)
        return made

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
            ended = [
                self._coordinator.close.remote(),
                *(one.close.remote() for one in self._actors),
            ]
            ray.wait(ended, num_returns=len(ended), timeout=2.0)
            # Processes that ask in this time learn that the buffer is closed; later the actors are
            # gone.
            time.sleep(0.1)
        finally:
            for actor in (*self._actors, self._coordinator):
                ray.kill(actor, no_restart=True)

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _hash(fields: dict[str, Any]) -> bytes:
    """A hash of the values, whether they come as lists, arrays or tensors."""
    made = hashlib.blake2b()
    for name, value in sorted(fields.items()):
        on_host = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
        made.update(f"{name} {on_host.dtype} {on_host.shape} ".encode() + on_host.tobytes())
    return made.digest()


def _handle(
    spec: Spec, coordinator: Any, actors: Sequence[Any], given: Sequence[int]
) -> ReplayBuffer:
    made = ReplayBuffer.__new__(ReplayBuffer)
    made._set_up(spec, coordinator, actors, given)
    return made


def attach(name: str) -> ReplayBuffer:
    """A handle to the buffer of this name, from any job of the cluster; `ray.shutdown` closes the
    handles of its process, not the buffer. ValueError if there is none."""
    try:
        coordinator = ray.get_actor(f"{name}.coordinator", namespace=NAMESPACE)
    except ValueError as error:
        raise ValueError(f"reprise.ray.attach: there is no buffer of the name {name!r}") from error
    spec, given = get_answer(coordinator.spec.remote()), get_answer(
        coordinator.incarnations.remote()
    )
    actors = [
        ray.get_actor(f"{name}.shard-{i}", namespace=NAMESPACE) for i in range(len(spec.capacities))
    ]
    return _handle(spec, coordinator, actors, given)
