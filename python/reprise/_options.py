"""Windows, selectors, removers and rate limiters. They are values: what they say is checked by the
ReplayBuffer that is made of them, with a ValueError naming the option and what is allowed."""

from dataclasses import dataclass
from typing import Union

# What a new item weighs when its append brings no priority for it.
Initial = Union[str, float]


@dataclass(frozen=True)
class Transitions:
    """One item per step t: the observation at t, the step's columns, the n-step return
    R = sum over k < length of discount^k * reward[t + k], and the observation at t + length with
    discount^length to multiply its value by (0 after a termination).

    n_step: steps in a return, 1 to 65535; fewer where the episode ends sooner.
    discount: gamma per step, in [0, 1]; times the steps' own, if the schema has a discount.
    frame_stack: observations stacked, oldest first, 1 to 65535; batches then have [B, F, *shape].
    stack_start: what a stack shows of the time before an episode: "repeat_first" or "zeros".
    """

    n_step: int = 1
    discount: float = 0.99
    frame_stack: int = 1
    stack_start: str = "repeat_first"


@dataclass(frozen=True)
class Sequences:
    """One item per `period` steps of an episode: T = burn_in + length consecutive steps with every
    field, and the observation after each of them (R2D2, Kapturowski et al., 2019).

    length: steps to learn from. period: steps from one item's first to the next one's.
    burn_in: steps before those; burn_in + length is at most 65535.
    end: what becomes of steps at the end of an episode that no whole sequence begins with:
      "zero_pad" and "truncate" give items of fewer steps (Batch.lengths), "drop" none,
      "overlap" one that ends with the episode.
    """

    length: int = 40
    period: int = 20
    burn_in: int = 0
    end: str = "zero_pad"


@dataclass(frozen=True)
class Proportional:
    """Draws item i with probability weight_i / sum, weight = (priority + epsilon)^alpha
    (Schaul et al., "Prioritized Experience Replay", 2016). Give raw priorities, such as absolute
    TD errors: the exponent is applied once, inside.

    alpha: 0 (uniform) to 8. epsilon: finite, at least 0.
    initial: what a new item weighs without a priority of its own: "maximum_in_buffer",
      "highest_seen", a raw priority, or "from_caller", with which appends have to bring one.
    """

    alpha: float = 0.6
    epsilon: float = 1e-4
    initial: Initial = "maximum_in_buffer"


@dataclass(frozen=True)
class RankBased:
    """Draws item i with probability proportional to rank(i)^-alpha, where the item of highest
    priority has rank 1 (Schaul et al., 2016). `initial` as of Proportional."""

    alpha: float = 0.7
    initial: Initial = "maximum_in_buffer"


@dataclass(frozen=True)
class MaxHeap:
    """Draws the items of highest priority, highest first. `initial` as of Proportional."""

    initial: Initial = "maximum_in_buffer"


@dataclass(frozen=True)
class MinHeap:
    """Draws the items of lowest priority, lowest first. `initial` as of Proportional."""

    initial: Initial = "maximum_in_buffer"


@dataclass(frozen=True)
class Uniform:
    """Draws every item with the same probability; priorities are checked and ignored."""


@dataclass(frozen=True)
class Lifo:
    """Draws the items that were decided last, youngest first."""


@dataclass(frozen=True)
class Fifo:
    """First in, first out. As a remover: evicts the oldest step for each step beyond the capacity.
    As a selector: draws the items that were decided first, each once per batch; with
    max_times_sampled=1 a queue."""


@dataclass(frozen=True)
class LeastFrequentlySampled:
    """Evicts the chunk that is sampled least often, of `candidates` (1 to 256) picked at random."""

    candidates: int = 8


@dataclass(frozen=True)
class LeastRecentlySampled:
    """Evicts the chunk that was not sampled for the longest time, of `candidates` (1 to 256) picked
    at random."""

    candidates: int = 8


@dataclass(frozen=True)
class LowestPriority:
    """Evicts the chunk whose steps weigh least on average in a selector, given by its place among
    the buffer's selectors, of `candidates` (1 to 256) picked at random."""

    selector: int = 0
    candidates: int = 8


@dataclass(frozen=True)
class SecondChance:
    """Evicts chunks in the order in which they were filled, sparing once those that were sampled
    since (the clock algorithm)."""


@dataclass(frozen=True)
class MinSize:
    """Samplers wait until this many items can be sampled, 1 to capacity_steps; writers never wait.
    With Sequences steps count."""

    items: int = 1


@dataclass(frozen=True)
class SampleToInsertRatio:
    """Holds sampled items per inserted step near a ratio: samplers wait when they are ahead of it,
    writers when they are.

    samples_per_insert: above 0. min_size: items before anybody waits for the ratio.
    error_buffer: how far either side may be ahead, in sampled items: at least
      max(1, samples_per_insert), and enough for a batch.
    One thread that both appends and samples has nobody to wait for: give its calls timeouts.
    """

    samples_per_insert: float
    min_size: int = 1
    error_buffer: float = 0.0


@dataclass(frozen=True)
class Queue:
    """A bounded queue: samplers wait for as many items as their batch has, writers while `size` or
    more wait to be sampled. First in, first out with Fifo() and max_times_sampled=1."""

    size: int


@dataclass(frozen=True)
class Unlimited:
    """Nobody waits; of an empty buffer `sample` raises NothingToDraw."""
