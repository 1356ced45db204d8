# The types of package reprise. What each call does, its shapes, units and errors: help(reprise).
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from os import PathLike
from types import TracebackType
from typing import Any, NamedTuple, TypedDict, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__version__: str

# Errors. Bad arguments raise ValueError or TypeError; calls at the wrong time, in a forked child
# too, raise RuntimeError; waits that ran out raise TimeoutError.
class Closed(RuntimeError): ...
class NothingToDraw(RuntimeError): ...

class CheckpointError(RuntimeError):
    kind: str
    file: str
    offset: int
    errno: int

# Vocabulary.
class Role(IntEnum):
    OBSERVATION = 0
    COLUMN = 1
    REWARD = 2
    DISCOUNT = 3
    RECURRENT_STATE = 4

class End(IntEnum):
    CONTINUE = 0
    TERMINATED = 1
    TRUNCATED = 2

# Of one step; reprise.ends gives arrays without dimensions.
_End = int | np.integer[Any] | NDArray[np.integer[Any]]

def ends(terminated: ArrayLike, truncated: ArrayLike) -> NDArray[np.uint8]: ...

class Field(NamedTuple):
    name: str
    role: Role
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

class Schema:
    def __init__(self) -> None: ...
    @staticmethod
    def from_step(
        *,
        observations: Mapping[str, ArrayLike],
        columns: Mapping[str, ArrayLike] | None = None,
        rewards: Sequence[str] = ["reward"],
        discount: str | None = None,
        recurrent_states: Mapping[str, ArrayLike] | None = None,
    ) -> Schema: ...
    def observation(self, name: str, dtype: DTypeLike, shape: Sequence[int] = ()) -> Schema: ...
    def column(self, name: str, dtype: DTypeLike, shape: Sequence[int] = ()) -> Schema: ...
    def reward(self, name: str = "reward") -> Schema: ...
    def discount(self, name: str = "discount") -> Schema: ...
    def recurrent_state(self, name: str, dtype: DTypeLike, shape: Sequence[int]) -> Schema: ...
    def require_finite(self, on: bool = True) -> Schema: ...
    @property
    def requires_finite(self) -> bool: ...
    @property
    def fields(self) -> tuple[Field, ...]: ...
    @property
    def step_bytes(self) -> int: ...

@dataclass(frozen=True)
class Transitions:
    n_step: int = 1
    discount: float = 0.99
    frame_stack: int = 1
    stack_start: str = "repeat_first"  # or "zeros"

@dataclass(frozen=True)
class Sequences:
    length: int = 40
    period: int = 20
    burn_in: int = 0
    end: str = "zero_pad"  # or "truncate", "drop", "overlap"

# Selectors. `initial`: "maximum_in_buffer", "highest_seen", "from_caller", or a number.
@dataclass(frozen=True)
class Proportional:
    alpha: float = 0.6
    epsilon: float = 1e-4
    initial: str | float = "maximum_in_buffer"

@dataclass(frozen=True)
class RankBased:
    alpha: float = 0.7
    initial: str | float = "maximum_in_buffer"

@dataclass(frozen=True)
class MaxHeap:
    initial: str | float = "maximum_in_buffer"

@dataclass(frozen=True)
class MinHeap:
    initial: str | float = "maximum_in_buffer"

@dataclass(frozen=True)
class Uniform: ...

@dataclass(frozen=True)
class Lifo: ...

# A selector and a remover.
@dataclass(frozen=True)
class Fifo: ...

@dataclass(frozen=True)
class LeastFrequentlySampled:
    candidates: int = 8

@dataclass(frozen=True)
class LeastRecentlySampled:
    candidates: int = 8

@dataclass(frozen=True)
class LowestPriority:
    selector: int = 0
    candidates: int = 8

@dataclass(frozen=True)
class SecondChance: ...

@dataclass(frozen=True)
class MinSize:
    items: int = 1

@dataclass(frozen=True)
class SampleToInsertRatio:
    samples_per_insert: float = 1.0
    min_size: int = 1
    error_buffer: float = 0.0

@dataclass(frozen=True)
class Queue:
    size: int = 1

@dataclass(frozen=True)
class Unlimited: ...

# Names for annotations here: package reprise has none of them.
_Window = Transitions | Sequences
_Selector = Proportional | RankBased | MaxHeap | MinHeap | Uniform | Lifo | Fifo
_Remover = Fifo | LeastFrequentlySampled | LeastRecentlySampled | LowestPriority | SecondChance
_RateLimiter = MinSize | SampleToInsertRatio | Queue | Unlimited

class UpdateResult(NamedTuple):
    applied: int
    stale: int

class SaveResult(NamedTuple):
    manifest: int
    bytes_written: int
    chunks_written: int
    chunks_reused: int
    chunks_moved: int

class SaveProgress(NamedTuple):
    bytes_written: int
    chunks_written: int
    chunks_reused: int
    chunks_total: int

class ReplayBuffer:
    def __init__(
        self,
        schema: Schema,
        capacity_steps: int,
        *,
        window: _Window | None = None,
        selectors: _Selector | Sequence[_Selector] | None = None,
        remover: _Remover | None = None,
        rate_limiter: _RateLimiter | None = None,
        max_times_sampled: int = 0,
        episode_index: bool = False,
        max_writers: int = 256,
        chunk_steps: int = 0,
        shards: int = 0,
        key_tag: int | None = None,
        storage: str | PathLike[str] | None = None,
    ) -> None: ...

    # Appending. Timeouts are seconds; None waits for ever, 0 tries once.
    def writer(self, *, timeout: float | None = None) -> Writer: ...
    def vector_writer(
        self,
        environments: int,
        *,
        autoreset: str = "same_step",  # or "next_step", "disabled"
        timeout: float | None = None,
    ) -> VectorWriter: ...

    # Sampling.
    def sampler(
        self,
        *,
        seed: int = 0,
        selector: int = 0,
        allocator: Callable[[int], Any] | None = None,
        resume: int | None = None,
        checked: bool = False,
    ) -> Sampler: ...
    def prefetch(
        self,
        n: int,
        *,
        depth: int = 2,
        beta: float = 0.4,
        normalise: str = "by_batch",
        draws: str = "stratified",
        gather: bool = True,
        seed: int = 0,
        selector: int = 0,
        allocator: Callable[[int], Any] | None = None,
        timeout: float | None = None,
    ) -> Prefetcher: ...
    def update_priorities(
        self, keys: NDArray[np.int64], priorities: ArrayLike, selector: int = 0
    ) -> UpdateResult: ...
    def find(self, episode: int, position: int) -> int | None: ...
    def update_episode_priorities(
        self, episode: int, position: int, priorities: ArrayLike, selector: int = 0
    ) -> UpdateResult: ...
    def set_alpha(self, alpha: float, selector: int = 0) -> None: ...
    def alpha(self, selector: int = 0) -> float: ...
    def decay(self, factor: float, selector: int = 0) -> None: ...

    # The buffer itself.
    def __len__(self) -> int: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def options(self) -> dict[str, Any]: ...
    @property
    def capsule(self) -> Any: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> ReplayBuffer: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    # Checkpoints.
    def save(
        self,
        directory: str | PathLike[str],
        *,
        compression: int = 0,
        keep: int = 2,
        incremental: bool = True,
        progress: Callable[[SaveProgress], Any] | None = None,
        samplers: Sequence[Sampler] = (),
        attachments: dict[str, Any] = {},
    ) -> SaveResult: ...
    @staticmethod
    def load(
        directory: str | PathLike[str],
        *,
        storage: str | PathLike[str] | None = None,
        attachments: dict[str, bytes] | None = None,
    ) -> ReplayBuffer: ...
    def restore(
        self, directory: str | PathLike[str], *, attachments: dict[str, bytes] | None = None
    ) -> None: ...

class Writer:
    def begin_episode(self, **observations: ArrayLike) -> None: ...
    def append(
        self, *, end: _End = End.CONTINUE, priorities: ArrayLike | None = None, **fields: ArrayLike
    ) -> None: ...
    def append_episode(
        self,
        *,
        end: _End = End.TERMINATED,
        priorities: ArrayLike | None = None,
        **fields: ArrayLike,
    ) -> None: ...
    def append_transition(self, *, end: _End = End.CONTINUE, **fields: ArrayLike) -> None: ...
    def completing(self, end: _End) -> int: ...
    @property
    def in_episode(self) -> bool: ...
    @property
    def episode_id(self) -> int: ...
    @property
    def episode_steps(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Writer: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class VectorWriter:
    def begin(self, **observations: ArrayLike) -> None: ...
    def append(
        self,
        *,
        end: ArrayLike,
        final: Mapping[str, ArrayLike] | None = None,
        priorities: ArrayLike | None = None,
        **fields: ArrayLike,
    ) -> None: ...
    def completing(self, end: ArrayLike) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, environment: int) -> Writer: ...
    def __iter__(self) -> Iterator[Writer]: ...
    def close(self) -> None: ...
    def __enter__(self) -> VectorWriter: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Batch:
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> NDArray[Any]: ...
    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def keys_of_fields(self) -> tuple[str, ...]: ...
    @property
    def now(self) -> Mapping[str, NDArray[Any]]: ...
    @property
    def next(self) -> Mapping[str, NDArray[Any]]: ...
    @property
    def returns(self) -> Mapping[str, NDArray[np.float32]]: ...
    @property
    def discounts(self) -> NDArray[np.float32]: ...
    @property
    def weights(self) -> NDArray[np.float32]: ...
    @property
    def probabilities(self) -> NDArray[np.float64]: ...
    @property
    def keys(self) -> NDArray[np.int64]: ...
    @property
    def episode_ids(self) -> NDArray[np.int64]: ...
    @property
    def positions(self) -> NDArray[np.int64]: ...
    @property
    def lengths(self) -> NDArray[np.int32]: ...

class Sampler:
    def sample(
        self,
        n: int,
        *,
        beta: float = 0.4,
        normalise: str = "by_batch",  # or "by_buffer", "not"
        draws: str = "stratified",  # or "independent", "without_replacement"
        timeout: float | None = None,
        gather: bool = True,
        owned: bool = False,
    ) -> Batch: ...

class Prefetcher(Iterator[Batch]):
    def __iter__(self) -> Prefetcher: ...
    def __next__(self) -> Batch: ...
    def close(self) -> None: ...
    def __enter__(self) -> Prefetcher: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

# A segment tree without a buffer. A range [first, last) ends before last; None is the capacity.
class SegmentTree:
    def __init__(self, capacity: int, dtype: DTypeLike = "float32") -> None: ...
    def __len__(self) -> int: ...
    @property
    def leaves(self) -> NDArray[Any]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def leaf(self, leaf: int) -> float: ...
    def sum(self, first: int = 0, last: int | None = None) -> float: ...
    def min(self, first: int = 0, last: int | None = None) -> float: ...
    def max(self, first: int = 0, last: int | None = None) -> float: ...
    def assign(self, leaves: ArrayLike, values: ArrayLike) -> None: ...
    def assign_range(self, first: int, values: ArrayLike) -> None: ...
    def fill(self, value: float, first: int = 0, last: int | None = None) -> None: ...
    def scale(self, factor: float, first: int = 0, last: int | None = None) -> None: ...
    def add(self, value: float, first: int = 0, last: int | None = None) -> None: ...
    @overload
    def find_prefix_sum(self, target: float | np.floating[Any] | np.integer[Any]) -> int: ...
    @overload
    def find_prefix_sum(self, target: NDArray[Any] | Sequence[float]) -> NDArray[np.int64]: ...
