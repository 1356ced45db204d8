"""Which shards of a buffer are alive, as far as one process has found out."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import ray

import reprise

from ._coordinator import CLIENT_COUNTERS, Counts
from ._options import Spec
from ._shard import ShardInfo

log = logging.getLogger("reprise.ray")

PROBE_SECONDS = 0.25  # Between two probes of a lost shard.
UPKEEP_SECONDS = 0.02  # Between two rounds of the upkeep thread.
REPORT_SECONDS = 0.5  # Between two reports to the coordinator, if counters changed.
REPEAT_SECONDS = 5.0  # Between two equal reports: a coordinator restarted meanwhile needs them.
LOST_ERRORS = (
    ray.exceptions.RayActorError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.NodeDiedError,
)


def get_answer(call: Any, timeout: float = 30.0) -> Any:
    """Waits for the coordinator's answer to a call, and returns it."""
    try:
        return ray.get(call, timeout=timeout)
    except ray.exceptions.GetTimeoutError as error:
        raise TimeoutError("reprise.ray: the coordinator of the buffer does not answer") from error
    except ray.exceptions.ActorDiedError as error:
        raise reprise.Closed(
            "reprise.ray: the buffer is closed, and its coordinator has ended"
        ) from error


class Remote:
    """One shard, as this process knows it."""

    def __init__(self, index: int, actor: Any, given_incarnation: int) -> None:
        self.index, self.actor = index, actor
        # The incarnation that was known when this process got the buffer. `info.incarnation` is 0
        # until the shard's first answer.
        self.given_incarnation = given_incarnation
        self.alive = True
        self.info = ShardInfo(index, 0, 0, False)
        self.probe: Any = None
        self.probed_at = 0.0


class Membership:
    """Which shards are alive. Any thread; no thread waits for an answer while it holds the lock."""

    def __init__(
        self, spec: Spec, coordinator: Any, actors: Sequence[Any], incarnations: Sequence[int]
    ) -> None:
        self.spec, self.coordinator = spec, coordinator
        # Two names of this process: `client` for the coordinator, `number` for shards.
        self.client = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.number = int.from_bytes(os.urandom(8), "little")
        self.remotes = [
            Remote(i, actor, given_incarnation)
            for i, (actor, given_incarnation) in enumerate(zip(actors, incarnations))
        ]
        self.lock = threading.RLock()
        self.closed = False
        self.counts = Counts()  # The rate limiter's newest counts, for a restarted coordinator.
        self.counters: dict[str, int] = dict.fromkeys(CLIENT_COUNTERS, 0)
        # A thread that holds this lock takes no other one. Counters have a lock of their own,
        # because threads count with a session's lock held, and call sessions with `lock` held.
        self._count_lock = threading.Lock()
        # Called with the index of a lost shard, and whether it was restarted.
        self.on_loss: list[weakref.WeakMethod[Callable[[int, bool], None]]] = []
        # Called in each round of the upkeep thread.
        self.upkeep: list[weakref.WeakMethod[Callable[[], None]]] = []
        # For each shard and incarnation that was found gone, its committed steps as far as known.
        self.losses: dict[tuple[int, int], int] = {}
        self._ended = threading.Event()
        threading.Thread(target=self._run_upkeep, daemon=True, name="reprise.ray upkeep").start()

    def count(self, name: str, n: int = 1) -> None:
        with self._count_lock:
            self.counters[name] += n

    def check_open(self) -> None:
        if self.closed:
            raise reprise.Closed(f"{self.spec.name} is closed")

    def alive(self) -> list[Remote]:
        return [remote for remote in self.remotes if remote.alive]

    def incarnations(self) -> list[int]:
        """The newest known incarnation of each shard; 0 if none is known."""
        return [remote.info.incarnation or remote.given_incarnation for remote in self.remotes]

    def update_info(self, info: ShardInfo) -> bool:
        """Stores what an answer says about its shard. Returns False if the answer comes from an
        incarnation that is known to be gone."""
        with self.lock:
            remote = self.remotes[info.shard]
            known = remote.info.incarnation
            if info.incarnation < known:
                return False
            if known and info.incarnation > known:
                self._mark_lost(remote, "it was restarted", restarted=True)
            if not remote.alive:
                log.warning("%s: shard %d is back", self.spec.name, remote.index)
            remote.alive, remote.info = True, info
            self.closed = self.closed or info.closed
            return True

    def take_out(self, remote: Remote, error: BaseException, incarnation: int) -> None:
        """Marks a shard as lost. `incarnation`: the one that was known when the request was
        sent."""
        with self.lock:
            # Only the current incarnation is taken out: the loss of an earlier one was recorded
            # when its successor answered.
            if remote.alive and incarnation == remote.info.incarnation:
                remote.alive = False
                remote.probe, remote.probed_at = None, time.monotonic()
                self._mark_lost(remote, str(error).strip().split("\n")[0] or type(error).__name__)

    def _mark_lost(self, remote: Remote, why: str, restarted: bool = False) -> None:
        """Records the loss of a shard's incarnation, and tells the sessions."""
        # Before the shard's first answer the lost incarnation is the one that this process was
        # given: a successor may exist by now, which is not lost.
        lost = remote.index, remote.info.incarnation or remote.given_incarnation
        if lost not in self.losses:
            self.losses[lost] = remote.info.committed
            log.warning("%s: shard %d is lost: %s", self.spec.name, remote.index, why)
            self.report()
        # Sessions are told even if this incarnation was lost before and came back, because no
        # answer comes to the requests that it got since.
        self.on_loss = [reference for reference in self.on_loss if reference() is not None]
        for reference in self.on_loss:
            on_loss = reference()
            if on_loss is not None:
                on_loss(remote.index, restarted)

    def _probe(self) -> None:
        """Asks lost shards whether they are back."""
        for remote in self.remotes:
            if remote.alive:
                continue
            if remote.probe is None:
                if time.monotonic() - remote.probed_at > PROBE_SECONDS:
                    remote.probed_at = time.monotonic()
                    remote.probe = remote.actor.info.remote()
            elif ray.wait([remote.probe], timeout=0)[0]:
                probe, remote.probe = remote.probe, None
                try:
                    self.update_info(ray.get(probe))
                except ray.exceptions.ActorDiedError:
                    self.check_coordinator()
                except ray.exceptions.RayError:
                    continue  # The shard is not back yet.
            elif time.monotonic() - remote.probed_at > self.spec.answer_timeout:
                remote.probe = None

    def check_coordinator(self) -> None:
        """Finds out whether another process has closed the buffer, which ends the actors, the
        coordinator last."""
        try:
            closed = ray.get(self.coordinator.is_closed.remote(), timeout=self.spec.answer_timeout)
        except ray.exceptions.ActorDiedError:
            closed = True
        except (ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError):
            return  # The coordinator is being restarted.
        self.closed = self.closed or closed

    def _run_upkeep(self) -> None:
        reported_at = 0.0
        reported: dict[str, int] = dict.fromkeys(CLIENT_COUNTERS, 0)
        while not self._ended.wait(UPKEEP_SECONDS):
            if not ray.is_initialized():
                self.end()  # After another ray.init the buffer has to be attached anew.
                return
            try:
                self._probe()
                for reference in list(self.upkeep):
                    work = reference()
                    if work is not None:
                        work()
                    else:
                        self.upkeep.remove(reference)
                    del work  # So that it keeps no session alive until the next round.
                # Counts are sent again and again, because a restarted coordinator needs them.
                is_due_soon = self.counters != reported or self.counts.changes
                since = time.monotonic() - reported_at
                if since > (REPORT_SECONDS if is_due_soon else REPEAT_SECONDS):
                    reported_at, reported = time.monotonic(), dict(self.counters)
                    if is_due_soon or self.losses or any(reported.values()):
                        self.report()
            except (reprise.Closed, TimeoutError, ray.exceptions.RayError):
                continue  # The next round tries again; callers see the error in their own calls.
            except Exception:
                log.exception("%s: upkeep", self.spec.name)

    def report(self) -> None:
        losses = [(*lost, committed) for lost, committed in tuple(self.losses.items())]
        self.coordinator.report.remote(self.client, dict(self.counters), self.counts, losses)

    def end(self) -> None:
        """Marks the buffer as closed for this process, and ends the upkeep thread."""
        self.closed = True
        self._ended.set()
