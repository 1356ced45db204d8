"""The steps that writers of a process have recorded and that no shard has acknowledged yet."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import zip_longest

import reprise

from ._membership import Membership
from ._shard import Shipment

QUEUED_SHIPMENTS = 4  # The most shipments that wait in one queue.
SHIP_SECONDS = 0.02  # The longest that a step waits for other steps of its shipment.


class Recorder:
    """Records the steps of one writer. Its packer has a lane for each shard, and each lane has a
    queue of shipments. An episode goes to one lane."""

    def __init__(self, membership: Membership, first: int, writers: int) -> None:
        spec = membership.spec
        self.packer = reprise.StepPacker(
            spec.schema,
            **spec.checked_options,
            max_writers=writers,
            lanes=len(membership.remotes),
            first_lane=first,
            longest_run=spec.longest_run,
        )
        # Held while steps move from the packer into a queue. Appends do not take it.
        self.lock = threading.Lock()
        self.flush = False  # Whether all steps are shipped at once.
        self.closing = False  # Whether the writer has ended.
        self.failure: BaseException | None = None  # The writer's next call raises it.
        self.queues = [ShipmentQueue(self, lane) for lane in range(len(membership.remotes))]

    @property
    def steps(self) -> int:
        """How many steps no shard has acknowledged yet."""
        return int(self.packer.steps) + sum(queue.shipped_steps for queue in self.queues)

    @property
    def empty(self) -> bool:
        with self.lock:
            return all(queue.empty for queue in self.queues)


class ShipmentQueue:
    """The shipments of one lane of a writer that the shard has not acknowledged."""

    def __init__(self, recorder: Recorder, lane: int) -> None:
        self.recorder = recorder
        # The lane's own shard, and the shard that gets the shipments: another one while that is lost.
        self.home_shard = self.shard = lane
        self.writer_id = (recorder.packer.writer_id + lane) % (1 << 64)
        self.used = False  # Whether a shard may have steps of this writer.
        self.left: set[int] = set()  # Shards that this writer left, and that have to close it.
        self.shipped: deque[Shipment] = deque()  # Until the shard acknowledges them, oldest first.
        self.in_flight = 0  # How many shipments, from the oldest, the open request carries.
        # Whether the writer gives up its place at the shard once all its steps are shipped.
        self.leaving = False
        self.closed = False  # Whether the last shipment was made.
        self.taken_at = time.monotonic()  # When the last shipment was made.
        self.served_at = 0.0  # When a shard last appended a shipment.
        self.refused_since = 0.0  # When the shard first refused the oldest shipment, or 0.
        self.retry_at = 0.0  # When the refused shipment may be sent again.
        self.refusal = ""  # Why the oldest shipment was refused.

    @property
    def shipped_steps(self) -> int:
        # Sums over a copy, because the shipper's thread may change the queue meanwhile.
        return sum(shipment.steps for shipment in tuple(self.shipped))

    @property
    def empty(self) -> bool:
        return not self.shipped and self.recorder.packer.empty(self.home_shard)

    @property
    def done(self) -> bool:
        return self.closed and not self.shipped and not self.left

    def take(self, shipment_steps: int, now: float) -> bool:
        """Makes a shipment if the lane has enough or old enough steps. Returns whether it did."""
        recorder, packer, lane = self.recorder, self.recorder.packer, self.home_shard
        steps = packer.steps_in(lane)
        due = recorder.flush or now - self.taken_at > SHIP_SECONDS or steps >= shipment_steps
        takes = bool(due and len(self.shipped) < QUEUED_SHIPMENTS and not packer.empty(lane))
        if takes:
            with recorder.lock:
                blob = packer.take(lane)
                steps = packer.steps_of(blob)
                self.shipped.append(Shipment(self.writer_id, steps, blob))
            self.taken_at, self.used = now, True
        if recorder.closing and not self.closed and packer.empty(lane):
            if self.used:
                self.shipped.append(self.closing_shipment())
            self.closed = True
        if self.leaving and self.empty:
            self.leaving = False
            self.left.add(self.shard)
        return takes

    def closing_shipment(self) -> Shipment:
        return Shipment(self.writer_id, 0, None)

    def on_appended(self, now: float) -> None:
        """Removes the oldest shipment, which the shard has appended."""
        self.shipped.popleft()
        self.served_at, self.refused_since, self.retry_at, self.refusal = now, 0.0, 0.0, ""


QueuedShipment = tuple[ShipmentQueue, Shipment]


def shipments_to_send(queues: Sequence[ShipmentQueue], now: float) -> list[QueuedShipment]:
    """All shipments to send: first the oldest of each queue, then the second of each, so that every
    writer gets a share of the rate limiter's credit."""
    ready = [queue for queue in queues if not queue.in_flight and queue.retry_at <= now]
    ranks = zip_longest(*([(queue, shipment) for shipment in queue.shipped] for queue in ready))
    return [queued for rank in ranks for queued in rank if queued is not None]
