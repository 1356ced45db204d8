"""Steps that writers of a process have recorded and that shards have not acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import reprise

from ._membership import Membership, Remote

SHIP_SECONDS = 0.02  # A step waits at most so long for others to be shipped with it.


class Recorder:
    """Records the steps of one writer, whose packer has a lane for each shard. An episode goes to
    one lane."""

    def __init__(self, membership: Membership, first: int, writers: int) -> None:
        spec = membership.spec
        self.packer = reprise.StepPacker(
            spec.schema,
            **spec.checked,
            max_writers=writers,
            lanes=len(membership.remotes),
            first_lane=first,
            longest_run=spec.longest_run,
        )
        # Held while steps move from the packer into a shipment. Appends do not wait for it.
        self.lock = threading.Lock()
        self.flush = False
        self.closing = False
        self.failure: BaseException | None = None  # The writer's next call raises it.
        self.limited = spec.rate_limiter_holds_writers
        self.lanes = [Lane(self, lane) for lane in range(len(membership.remotes))]

    @property
    def steps(self) -> int:
        return int(self.packer.steps) + sum(lane.steps for lane in self.lanes)

    @property
    def empty(self) -> bool:
        with self.lock:
            return all(lane.empty for lane in self.lanes)


class Lane:
    """A lane of a writer, with the shipment that its shard has not acknowledged."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self.recorder = recorder
        self.home = self.shard = number
        self.writer_id = (recorder.packer.writer_id + number) % (1 << 64)
        self.used = False  # Whether a shard may know this writer.
        self.left: set[int] = set()  # Shards that this writer left, and that have to close it.
        self.shipment: Any = None
        self.steps = 0  # Those of the shipment.
        self.has_credit = False  # Whether the rate limiter lets it in.
        self.in_flight = False
        self.taken_at = time.monotonic()
        self.served_at = 0.0  # When a shard last took a shipment.
        self.refused_since = 0.0  # Or 0: the shipment is not refused.
        self.retry_at = 0.0  # When the refused shipment may be sent again.
        self.reason = ""

    @property
    def empty(self) -> bool:
        return self.shipment is None and self.recorder.packer.empty(self.home)

    @property
    def done(self) -> bool:
        """Whether the writer has ended, and the shards know."""
        return self.recorder.closing and self.empty and not (self.used or self.left)

    def take(self, run_steps: int, now: float) -> bool:
        """Makes a shipment if there are enough steps, or if they have waited long enough."""
        recorder, packer, lane = self.recorder, self.recorder.packer, self.home
        due = (
            recorder.flush
            or now - self.taken_at > SHIP_SECONDS
            or packer.steps_in(lane) >= run_steps
        )
        takes = bool(due and self.shipment is None and not packer.empty(lane))
        if takes:
            with recorder.lock:
                self.shipment = packer.take(lane)
                self.steps = packer.steps_of(self.shipment)
            self.has_credit = self.steps == 0 or not recorder.limited
            self.taken_at, self.used = now, True
        elif recorder.closing and self.used and self.empty:
            self.left.add(self.shard)
            self.used = False
        return takes

    def choose_shard(self, remotes: Sequence[Remote]) -> None:
        """Ships to another shard while the lane's own is lost."""
        self.left = {one for one in self.left if remotes[one].alive}
        if remotes[self.home].alive:
            wanted = self.home
        elif remotes[self.shard].alive:
            wanted = self.shard
        else:
            alive = [one.index for one in remotes if one.alive] or [self.shard]
            wanted = alive[self.home % len(alive)]
        if wanted != self.shard and not self.in_flight:
            if remotes[self.shard].alive:
                self.left.add(self.shard)
            self.left.discard(wanted)
            self.shard = wanted

    def end_shipment(self, now: float) -> int:
        """The shard has appended the shipment, or it is given up. Returns the steps it had."""
        steps, self.shipment, self.steps = self.steps, None, 0
        self.served_at, self.refused_since, self.retry_at, self.reason = now, 0.0, 0.0, ""
        return steps
