"""The options of a sharded buffer, and those that have no meaning across shards."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import ray

import reprise

from ._waiting import is_number

# Ray's namespace of the actors' names, so that other jobs of the cluster find them.
NAMESPACE = "reprise"
CHUNK_STEPS = 64  # The smallest chunk that a buffer chooses by itself.
SHIPMENT_STEPS = 1024  # Calls are rare then, but a fast simulator ships every few milliseconds.

# Calls of the in-process buffer that the sharded buffer does not have, and why.
UNSUPPORTED_CALLS = {
    "episodes": "ids of episodes are those of one shard; use item_keys",
    "gather": "shards send rows only with the draws of a batch; draw another batch",
    "update": "fields do not change, because a schema with a mutable column is refused",
    "selector": "calls name a selector by its place; totals and priorities of items would change "
    "while other shards are asked, and batches report probabilities over all shards",
    **dict.fromkeys(
        ("clear", "restore"),
        "other processes would draw from some shards before and from others after it; make another "
        "buffer, or load one",
    ),
    "set_samples_per_insert": "what earlier steps were worth would be lost with the coordinator",
    "capsule": "C++ threads append within a process; run(function) hands each shard's to a function",
}
# Options of in-process buffers without a meaning here: the value that is allowed, and why no other.
REFUSED_OPTIONS = {
    "max_times_sampled": (0, "a draw that is made again after a fault would count twice"),
    "episode_index": (False, "ids of episodes are those of one shard; update by item_keys"),
    "key_tag": (None, "each shard has a tag of its own"),
}
# Draws of in-process samplers that are refused, and why, behind "draws is ...".
REFUSED_DRAWS = {
    "without_replacement": ", and the totals of all shards would have to stand still meanwhile",
    "epoch": ", and what a lost shard had left of a pass could not be given to another",
}
# Options of in-process samplers without a meaning here, as REFUSED_OPTIONS.
REFUSED_SAMPLER_OPTIONS = {
    "gather": (True, "rows come with the answer that names them"),
    "resume": (None, "batches depend on when shards answer"),
    "fresh": (0.0, "a draw that is made again after a fault would find its items drawn"),
}


def refuse_options(call: str, given: Mapping[str, Any]) -> None:
    """TypeError or ValueError for options of an in-process sampler that have no meaning here."""
    for name, value in given.items():
        if name not in REFUSED_SAMPLER_OPTIONS:
            raise TypeError(f"{call}: got an unexpected keyword argument {name!r}")
        allowed, reason = REFUSED_SAMPLER_OPTIONS[name]
        if value != allowed:
            raise ValueError(f"{call}: {name} is {value!r}, and {reason}; allowed: {allowed!r}")


def describe(schema: reprise.Schema, capacity_steps: int, window: Any) -> dict[str, str]:
    """Texts by name, which have to be equal in a checkpoint and in the buffer that loads it."""
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
    options: dict[str, Any]  # The options of each shard's in-process buffer, without capacity.
    capacities: tuple[int, ...]  # The capacity of each shard, in steps.
    rate_limiter: Any
    placement: str
    answer_timeout: float  # Seconds after which a request is sent again.

    @property
    def rate_limiter_holds_writers(self) -> bool:
        return isinstance(self.rate_limiter, reprise.SampleToInsertRatio)

    @property
    def description(self) -> dict[str, str]:
        return describe(self.schema, sum(self.capacities), self.options.get("window"))

    @property
    def checked_options(self) -> dict[str, Any]:
        """The options that writers and learners need to check arguments as the shards do."""
        return {name: self.options.get(name) for name in ("window", "selectors")}

    @property
    def window_steps(self) -> int:
        """The number of steps that one item of the window needs."""
        window = self.options.get("window")
        if not isinstance(window, reprise.Sequences):
            return 1
        return max(window.burn_in + window.length, window.period)

    @property
    def shipment_steps(self) -> int:
        """A writer ships its steps when it has this many. A shipment has at most twice as many, or
        the steps of one append; the error of a ratio may exceed its bound by one shipment."""
        if not self.rate_limiter_holds_writers:
            return SHIPMENT_STEPS
        # A shipment takes its credit at once, and other writers need some: a quarter of all.
        allowed = self.rate_limiter.error_buffer / self.rate_limiter.samples_per_insert
        return max(1, min(SHIPMENT_STEPS, int(allowed / 4)))

    @property
    def longest_run(self) -> int:
        """An episode continues in another shard after this many steps, if its shard has more steps
        of the writer than others. The steps of one writer in two shards differ by at most twice this
        number, and so do their ages: a 16th of a shard, but at least a chunk and a window."""
        return max(CHUNK_STEPS, self.window_steps, min(self.capacities) // 16)

    @property
    def heartbeat_seconds(self) -> float:
        """A process sends heartbeats to its writers' shards several times per timeout."""
        return self.answer_timeout / 5

    def address(self, shard: int, incarnation: int) -> str:
        """The address at which a shard serves processes of its node, an abstract socket. It has the
        node in it, so that nodes on one machine, as in tests, are as far apart as on several."""
        name = f"{ray.get_runtime_context().get_node_id()} {self.name} {shard} {incarnation}"
        return f"@reprise-{hashlib.blake2b(name.encode(), digest_size=24).hexdigest()}"

    def buffer(self, shard: int, **changed: Any) -> reprise.ReplayBuffer:
        """Makes the in-process buffer of a shard, without a rate limiter, because the coordinator's
        limiter holds the ratio over all shards. `changed`: options in place of the spec's."""
        options = {**self.options, "rate_limiter": reprise.Unlimited(), **changed}
        capacity = options.pop("capacity_steps", self.capacities[shard])
        return reprise.ReplayBuffer(self.schema, capacity, **options)


def check(option: str, value: Any, fits: Any, allowed: str, reason: str = "") -> None:
    if not fits:
        refused = f"{option} is {value!r}{reason and ', and '}{reason}"
        raise ValueError(f"reprise.ray.ReplayBuffer: {refused}; allowed: {allowed}")


def check_start(
    name: Any, max_restarts: Any, shards: Any, placement: Any, **seconds: float
) -> None:
    """Refuses values with which a buffer cannot start."""

    def is_integer(given: Any) -> bool:
        return isinstance(given, int) and not isinstance(given, bool)

    check("name", name, name is None or isinstance(name, str) and name, "None, or a name")
    fits = is_integer(max_restarts) and max_restarts >= -1
    check("max_restarts", max_restarts, fits, "an integer of at least -1")
    fits = is_integer(shards) and 1 <= shards <= 1024
    check("shards", shards, fits, "an integer from 1 to 1024")
    check("placement", placement, placement in ("learner", "actors"), "'learner', 'actors'")
    for option, value in seconds.items():
        check(option, value, is_number(value) and value > 0, "seconds above 0")


def limiter_of(given: Any, capacity_steps: int) -> Any:
    limiter = reprise.MinSize() if given is None else given
    allowed = "MinSize, SampleToInsertRatio, Unlimited"
    why = "a queue counts items that wait in one buffer"
    check("rate_limiter", limiter, not isinstance(limiter, reprise.Queue), allowed, why)
    if not isinstance(limiter, (reprise.MinSize, reprise.SampleToInsertRatio, reprise.Unlimited)):
        refused = f"rate_limiter is {limiter!r}"
        raise TypeError(f"reprise.ray.ReplayBuffer: {refused}; allowed: {allowed}")
    # The in-process buffer checks the ranges of the limiter's options.
    trial = reprise.Schema().reward("reward")
    reprise.ReplayBuffer(trial, capacity_steps, rate_limiter=limiter).close()
    return limiter


def check_draws(draws: str) -> None:
    if draws not in ("stratified", "independent"):
        refused = f"draws is {draws!r}{REFUSED_DRAWS.get(draws, '')}"
        raise ValueError(f"Sampler.sample: {refused}; allowed: 'stratified', 'independent'")


def spec_of(
    schema: reprise.Schema,
    capacity_steps: int,
    name: str,
    shards: int,
    placement: str,
    answer_timeout: float,
    options: Mapping[str, Any],
) -> Spec:
    """The checked Spec of a buffer. `options`: those of in-process buffers."""
    shard_options = dict(options)
    for field in schema.fields:
        why = f"field {field.name!r} is a mutable column, which other processes cannot update"
        fits = field.role != reprise.Role.MUTABLE_COLUMN
        check("schema", schema, fits, "columns that do not change", why)
    for option, (allowed, why) in REFUSED_OPTIONS.items():
        value = shard_options.get(option, allowed)
        check(option, value, value == allowed, repr(allowed), why)
    window = shard_options.get("window")
    fits = getattr(window, "end", None) != "continue"
    why = "the episodes of an environment go to several shards"
    check("window", window, fits, "Sequences of another end", why)
    limiter = limiter_of(shard_options.pop("rate_limiter", None), capacity_steps)
    selectors = shard_options.get("selectors") or reprise.Proportional()
    selectors = list(selectors) if isinstance(selectors, Sequence) else [selectors]
    shard_options["selectors"] = selectors
    share, rest = divmod(capacity_steps, shards)
    check("capacity_steps", capacity_steps, share > 0, f"at least one for each of {shards} shards")
    spec = Spec(
        name=name,
        schema=copy.copy(schema),  # The caller may add fields to its own schema later.
        options=shard_options,
        capacities=tuple(share + (i < rest) for i in range(shards)),
        rate_limiter=limiter,
        placement=placement,
        answer_timeout=float(answer_timeout),
    )
    # A small buffer with one shard's options is made here, so that the caller sees the error, and
    # not an actor. ReplayShard refuses selectors that need all shards at one moment.
    steps = min(share, max(4096, spec.window_steps))
    with contextlib.closing(spec.buffer(0, capacity_steps=steps, storage=None)) as trial:
        try:
            reprise.ReplayShard(trial)
        except ValueError as error:
            raise ValueError(
                f"reprise.ray.ReplayBuffer: selectors is {selectors!r}, and {error}"
            ) from error
    return spec


def options_of_shard(
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
