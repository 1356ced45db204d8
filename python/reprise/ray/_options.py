"""What a sharded buffer is made of, and what its options cannot mean across shards."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import ray

import reprise

from ._waiting import is_number

# Ray's namespace of the actors' names, so that other jobs of the cluster find them.
NAMESPACE = "reprise"
CHUNK_STEPS = 64  # The smallest chunk that a buffer chooses by itself.
RUN_STEPS = 1024  # Few calls per step, and still only milliseconds of a fast simulator.
PLACEMENTS = ("learner", "actors")

# Calls of the in-process buffer that the sharded buffer does not have, and why.
MISSING = {
    **dict.fromkeys(
        ("find", "update_episode_priorities", "gather_episode"),
        "ids of episodes are those of one shard; use item_keys",
    ),
    **dict.fromkeys(
        ("gather", "priorities"), "a batch has what it needs of its items; another one has the rest"
    ),
    "update": "fields do not change, as a schema with a mutable column is refused",
    "totals": "totals change while others are asked; batches report probabilities over all shards",
    **dict.fromkeys(
        ("clear", "reset_priorities", "restore"),
        "other processes would draw from some shards before and from others after it; make another "
        "buffer, or load one",
    ),
    "capsule": "C++ threads append within a process; run(function) hands each shard's to a function",
    "alpha": "each shard has its own until set_alpha has come to all; options has the first one",
}
# Options of in-process samplers without a meaning here: the value that is allowed, and why.
OTHERWISE = {
    "gather": (True, "rows come with the answer that names them"),
    "resume": (None, "batches depend on when shards answer"),
    "fresh": (0.0, "a draw that is made again after a fault would find its items drawn"),
}


def refuse_options(call: str, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in OTHERWISE:
            raise TypeError(f"{call}: got an unexpected keyword argument {name!r}")
        allowed, reason = OTHERWISE[name]
        if value != allowed:
            raise ValueError(f"{call}: {name} is {value!r}, and {reason}; allowed: {allowed!r}")


def in_words(schema: reprise.Schema, capacity_steps: int, window: Any) -> dict[str, str]:
    """What has to be equal in a checkpoint and in the buffer that loads it."""
    return {
        "schema": ", ".join(map(repr, schema.fields)),
        "capacity_steps": str(capacity_steps),
        "window": repr(window or reprise.Transitions()),
    }


@dataclasses.dataclass(frozen=True)
class Spec:
    """The description of a sharded buffer that every process has."""

    name: str
    schema: reprise.Schema
    options: dict[str, Any]  # Of each shard's in-process buffer, except its capacity.
    capacities: tuple[int, ...]  # Steps, of each shard.
    rate_limiter: Any
    placement: str
    answer_timeout: float  # Seconds after which a request is sent again.
    detached: bool

    @property
    def rate_limiter_holds_writers(self) -> bool:
        return isinstance(self.rate_limiter, reprise.SampleToInsertRatio)

    @property
    def in_words(self) -> dict[str, str]:
        return in_words(self.schema, sum(self.capacities), self.options.get("window"))

    @property
    def window_steps(self) -> int:
        """The number of steps that one item of the window needs."""
        window = self.options.get("window")
        if not isinstance(window, reprise.Sequences):
            return 1
        return max(window.burn_in + window.length, window.period)

    @property
    def run_steps(self) -> int:
        """A writer ships its steps when it has this many. A shipment has at most twice as many, or
        the steps of one append; the error of a ratio may exceed its bound by one shipment."""
        if not self.rate_limiter_holds_writers:
            return RUN_STEPS
        free = self.rate_limiter.error_buffer / self.rate_limiter.samples_per_insert
        return max(1, min(RUN_STEPS, int(free / 4)))

    @property
    def longest_run(self) -> int:
        """After so many steps in a shard that is ahead an episode continues in another shard. The
        steps of one writer in two shards differ by at most twice as many, and so do their ages."""
        return max(CHUNK_STEPS, self.window_steps, min(self.capacities) // 16)

    @property
    def heartbeat_seconds(self) -> float:
        """A process sends heartbeats to its writers' shards several times per timeout."""
        return self.answer_timeout / 5

    def buffer(self, shard: int, **changed: Any) -> reprise.ReplayBuffer:
        """The in-process buffer of a shard. It has no rate limiter, because rates are held over all
        shards."""
        options = {**self.options, "rate_limiter": reprise.Unlimited(), **changed}
        capacity = options.pop("capacity_steps", self.capacities[shard])
        return reprise.ReplayBuffer(self.schema, capacity, **options)


def refuse(option: str, value: Any, reason: str, allowed: str) -> None:
    raise ValueError(
        f"reprise.ray.ReplayBuffer: {option} is {value!r}, and {reason}; allowed: {allowed}"
    )


def check_start(
    name: str | None, max_restarts: int, answer_timeout: float, start_timeout: float
) -> None:
    """Refuses values with which a buffer cannot start."""
    for option, value, fits, allowed in (
        ("name", name, name is None or isinstance(name, str) and name, "None, or a name"),
        (
            "max_restarts",
            max_restarts,
            isinstance(max_restarts, int) and is_number(max_restarts) and max_restarts >= -1,
            "an integer of at least -1",
        ),
        ("answer_timeout", answer_timeout, is_above_0(answer_timeout), "seconds above 0"),
        ("start_timeout", start_timeout, is_above_0(start_timeout), "seconds above 0"),
    ):
        if not fits:
            raise ValueError(f"reprise.ray.ReplayBuffer: {option} is {value!r}; allowed: {allowed}")


def is_above_0(given: Any) -> bool:
    return is_number(given) and given > 0


def limiter_of(given: Any, capacity_steps: int) -> Any:
    limiter = reprise.MinSize() if given is None else given
    if isinstance(limiter, reprise.Queue):
        refuse(
            "rate_limiter",
            limiter,
            "a queue counts items that wait in one buffer",
            "MinSize, SampleToInsertRatio, Unlimited",
        )
    if not isinstance(limiter, (reprise.MinSize, reprise.SampleToInsertRatio, reprise.Unlimited)):
        raise TypeError(
            f"reprise.ray.ReplayBuffer: rate_limiter is {limiter!r}; allowed: MinSize, "
            "SampleToInsertRatio, Unlimited"
        )
    # The in-process buffer checks the ranges of the limiter's options.
    trial = reprise.Schema().reward("reward")
    reprise.ReplayBuffer(trial, capacity_steps, rate_limiter=limiter).close()
    return limiter


def draws_of(draws: str) -> None:
    if draws == "without_replacement":
        raise ValueError(
            "Sampler.sample: draws is 'without_replacement', and the totals of all shards would "
            "have to stand still between draws; allowed: 'stratified', 'independent'"
        )
    if draws == "epoch":
        raise ValueError(
            "Sampler.sample: draws is 'epoch', and what a lost shard had left of a pass could not be "
            "given to another; allowed: 'stratified', 'independent'"
        )
    if draws not in ("stratified", "independent"):
        raise ValueError(
            f"Sampler.sample: draws is {draws!r}; allowed: 'stratified', 'independent'"
        )


def spec_of(
    schema: reprise.Schema,
    capacity_steps: int,
    name: str,
    shards: int,
    placement: str,
    answer_timeout: float,
    detached: bool,
    options: Mapping[str, Any],
) -> Spec:
    given = dict(options)
    if placement not in PLACEMENTS:
        raise ValueError(
            f"reprise.ray.ReplayBuffer: placement is {placement!r}; allowed: 'learner', 'actors'"
        )
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= 1024:
        raise ValueError(
            f"reprise.ray.ReplayBuffer: shards is {shards!r}; allowed: an integer from 1 to 1024"
        )
    for field in schema.fields:
        if field.role == reprise.Role.MUTABLE_COLUMN:
            refuse(
                "schema",
                schema,
                f"field {field.name!r} is a mutable column, which other processes cannot update",
                "columns that do not change",
            )
    if given.get("max_times_sampled"):
        refuse(
            "max_times_sampled",
            given["max_times_sampled"],
            "a draw that is made again after a fault would count twice",
            "0",
        )
    if given.get("episode_index"):
        refuse(
            "episode_index",
            True,
            "ids of episodes are those of one shard",
            "False; update by item_keys",
        )
    if given.get("key_tag") is not None:
        refuse("key_tag", given["key_tag"], "each shard has a tag of its own", "None")
    limiter = limiter_of(given.pop("rate_limiter", None), capacity_steps)
    selectors = given.get("selectors") or reprise.Proportional()
    given["selectors"] = list(selectors) if isinstance(selectors, Sequence) else [selectors]
    share, rest = divmod(capacity_steps, shards)
    if share < 1:
        raise ValueError(
            f"reprise.ray.ReplayBuffer: capacity_steps is {capacity_steps}; allowed: at least one "
            f"for each of {shards} shards"
        )
    spec = Spec(
        name=name,
        schema=copy.copy(schema),  # The caller may add fields to its own.
        options=given,
        capacities=tuple(share + (i < rest) for i in range(shards)),
        rate_limiter=limiter,
        placement=placement,
        answer_timeout=float(answer_timeout),
        detached=detached,
    )
    # A small buffer with one shard's options is made here, so that the caller sees the error, and
    # not an actor. ReplayShard refuses selectors that need all shards at one moment.
    small = min(share, max(4096, spec.window_steps))
    with contextlib.closing(spec.buffer(0, capacity_steps=small, storage=None)) as trial:
        try:
            reprise.ReplayShard(trial)
        except ValueError as error:
            raise ValueError(
                f"reprise.ray.ReplayBuffer: selectors is {given['selectors']!r}, and {error}"
            ) from error
    return spec


def own_options(
    given: Sequence[dict[str, Any]] | dict[str, Any], shard: int, shards: int
) -> dict[str, Any]:
    """The options of one shard from `shard_options`."""
    if isinstance(given, dict):
        return given
    if len(given) != shards:
        raise ValueError(
            f"reprise.ray.ReplayBuffer: shard_options has {len(given)} elements; allowed: {shards}"
        )
    return given[shard]


def this_node() -> Any:
    """The scheduling strategy of actors that belong on this node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Soft, because a detached buffer outlives this node: Ray then restarts actors elsewhere.
    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
