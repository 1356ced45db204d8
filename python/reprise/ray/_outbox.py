"""What writers of a process have recorded, until shards have it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import zip_longest

import reprise

from ._link import Link
from ._shard import Shipment
from ._talk import prototype_of

IN_FLIGHT = 4  # Shipments of a lane without an answer.
SHIP_SECONDS = 0.02  # A step waits no longer than this for company.


class Recorder:
    """What one writer records. Its packer has a lane for each shard, to which whole episodes go, and
    each lane an outbox."""

    def __init__(self, link: Link, first: int, writers: int) -> None:
        self.prototype = prototype_of(link.spec, writers)
        self.packer = reprise.StepPacker(
            self.prototype,
            lanes=len(link.remotes),
            first_lane=first,
            longest_run=link.spec.longest_run,
        )
        # No step is appended while what there is is counted and taken, and none is in neither place.
        self.lock = threading.Lock()
        self.flush = False
        self.closing = False
        self.failure: BaseException | None = None  # For the next call of the writer.
        self.boxes = [Outbox(self, lane) for lane in range(len(link.remotes))]

    @property
    def steps(self) -> int:
        # Any thread, while the shipper changes them.
        return int(self.packer.steps) + sum(box.shipped_steps for box in self.boxes)

    @property
    def empty(self) -> bool:
        with self.lock:
            return all(box.empty for box in self.boxes)


class Outbox:
    """What a lane of a writer has and a shard has not acknowledged."""

    def __init__(self, own: Recorder, lane: int) -> None:
        self.own = own
        self.home = self.shard = lane
        self.writer_id = (own.packer.writer_id + lane) % (1 << 64)
        self.used = False  # A shard may know this writer.
        self.left: set[int] = set()  # Shards that have to close this writer, before it goes on.
        self.shipped: deque[Shipment] = deque()
        self.in_flight = 0  # Of `shipped`, the first so many.
        self.leaves = False  # Its place is free once all is shipped, until it has more.
        self.closed = False
        self.taken = time.monotonic()
        self.served = 0.0  # When a shard took a shipment last.
        self.refused = 0.0  # Since when a shard has refused the oldest one; 0: it does not.
        self.held = 0.0  # Until when that one is not sent again.
        self.reason = ""

    @property
    def shipped_steps(self) -> int:
        return sum(one.steps for one in tuple(self.shipped))

    @property
    def empty(self) -> bool:
        return not self.shipped and self.own.packer.empty(self.home)

    @property
    def done(self) -> bool:
        return self.closed and not self.shipped and not self.left

    def take(self, run_steps: int, now: float) -> bool:
        """Makes a shipment of what there is, if there is enough of it or it has waited enough."""
        own, packer, lane = self.own, self.own.packer, self.home
        ripe = own.flush or now - self.taken > SHIP_SECONDS or packer.steps_in(lane) >= run_steps
        takes = bool(ripe and len(self.shipped) < IN_FLIGHT and not packer.empty(lane))
        if takes:
            with own.lock:
                self.shipped.append(
                    Shipment(self.writer_id, packer.steps_in(lane), packer.take(lane))
                )
            self.taken, self.used = now, True
        if own.closing and not self.closed and packer.empty(lane):
            if self.used:
                self.shipped.append(self.end())
            self.closed = True
        if self.leaves and self.empty:
            self.leaves = False
            self.left.add(self.shard)
        return takes

    def end(self) -> Shipment:
        return Shipment(self.writer_id, 0, None)

    def taken_by_shard(self, now: float) -> None:
        """The oldest shipment is in."""
        self.shipped.popleft()
        self.served, self.refused, self.held, self.reason = now, 0.0, 0.0, ""


Part = tuple[Outbox, Shipment]


def waiting_in(boxes: Sequence[Outbox], now: float) -> list[Part]:
    """The oldest shipment of each writer first, so that all get a share of what room there is."""
    ready = [one for one in boxes if not one.in_flight and one.held <= now]
    rows = zip_longest(*([(box, one) for one in box.shipped] for box in ready))
    return [part for row in rows for part in row if part is not None]
