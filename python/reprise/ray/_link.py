"""What a process knows of the shards of one buffer."""

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

from ._head import COUNTS, Sums
from ._options import Spec
from ._shard import Facts

log = logging.getLogger("reprise.ray")

PROBE_SECONDS = 0.25  # Between two questions to a shard that was lost.
UPKEEP_SECONDS = 0.02  # How long updates wait for a draw that takes them along.
REPORT_SECONDS = 0.5  # Between two reports of counts to the head.
REPEAT_SECONDS = 5.0  # Between two reports of the same, for a head that was restarted.
ASKED = 2  # A shard that has not answered a question asked so often is taken out.
LOST = (
    ray.exceptions.RayActorError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.NodeDiedError,
)


def is_full(error: BaseException) -> bool:
    """Whether an answer found no room in the object store, which empties as others are read."""
    full = (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)
    return isinstance(error, full) or isinstance(getattr(error, "cause", None), full)


def ask(call: Any, timeout: float = 30.0) -> Any:
    """The answer of the head to a call."""
    try:
        return ray.get(call, timeout=timeout)
    except ray.exceptions.GetTimeoutError as error:
        raise TimeoutError("reprise.ray: the head of the buffer does not answer") from error
    except ray.exceptions.ActorDiedError as error:
        raise reprise.Closed("reprise.ray: the buffer is closed, and its head has ended") from error


class Remote:
    """A shard, as this process knows it."""

    def __init__(self, index: int, actor: Any, given: int) -> None:
        self.index, self.actor = index, actor
        # The incarnation when this process was given the buffer; that of `facts` is 0 until the
        # first answer.
        self.given = given
        self.alive = True
        self.facts = Facts(index, 0, 0, False)
        self.probe: Any = None
        self.probed = 0.0


class Link:
    """Which shards are there. Any thread; the lock is never held while an answer is awaited."""

    def __init__(
        self, spec: Spec, head: Any, actors: Sequence[Any], incarnations: Sequence[int]
    ) -> None:
        self.spec, self.head = spec, head
        self.client = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.remotes = [
            Remote(i, actor, given) for i, (actor, given) in enumerate(zip(actors, incarnations))
        ]
        self.lock = threading.RLock()
        self.closed = False
        self.sums = Sums()  # Newest that a learner was told, which a restarted head needs.
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        # A leaf: losses are told with `lock` held to talks, which count with their own lock held.
        self._count_lock = threading.Lock()
        self.on_loss: list[weakref.WeakMethod[Callable[[int, bool], None]]] = []
        self.upkeep: list[weakref.WeakMethod[Callable[[], None]]] = []
        # Shards and incarnations found gone, and the steps known of each. A head that is restarted
        # is told them, as it is told the counts.
        self.losses: dict[tuple[int, int], int] = {}
        self._ended = threading.Event()
        threading.Thread(target=self._keep_up, daemon=True, name="reprise.ray upkeep").start()

    def count(self, name: str, n: int = 1) -> None:
        with self._count_lock:
            self.counts[name] += n

    def check_open(self) -> None:
        if self.closed:
            raise reprise.Closed(f"{self.spec.name} is closed")

    def alive(self) -> list[Remote]:
        return [one for one in self.remotes if one.alive]

    def incarnations(self) -> list[int]:
        """The newest of each shard that is known here; 0 of one that is not."""
        return [one.facts.incarnation or one.given for one in self.remotes]

    def learn(self, facts: Facts) -> bool:
        """Takes what an answer says; False if it is of an incarnation that is known to be gone."""
        with self.lock:
            remote = self.remotes[facts.shard]
            known = remote.facts.incarnation
            if facts.incarnation < known:
                return False
            if known and facts.incarnation > known:
                self._lose(remote, "it was restarted", restarted=True)
            if not remote.alive:
                log.warning("%s: shard %d is back", self.spec.name, remote.index)
            remote.alive, remote.facts = True, facts
            self.closed = self.closed or facts.closed
            return True

    def take_out(self, remote: Remote, error: BaseException, incarnation: int) -> None:
        """`incarnation`: that which was known when it was asked."""
        with self.lock:
            # An earlier one was counted when this one answered.
            if remote.alive and incarnation == remote.facts.incarnation:
                remote.alive = False
                remote.probe, remote.probed = None, time.monotonic()
                self._lose(remote, str(error).strip().split("\n")[0] or type(error).__name__)

    def _lose(self, remote: Remote, why: str, restarted: bool = False) -> None:
        # Without an answer yet, that which was given: its successor, if there is one by now, is
        # not lost.
        lost = remote.index, remote.facts.incarnation or remote.given
        if lost not in self.losses:
            self.losses[lost] = remote.facts.committed
            log.warning("%s: shard %d is lost: %s", self.spec.name, remote.index, why)
            self.report()
        # Also of an incarnation that was lost and came back: what it was asked since is void.
        self.on_loss = [one for one in self.on_loss if one() is not None]
        for one in self.on_loss:
            hear = one()
            if hear is not None:
                hear(remote.index, restarted)

    def _probe(self) -> None:
        """Asks shards that were taken out whether they are back."""
        for remote in self.remotes:
            if remote.alive:
                continue
            if remote.probe is None:
                if time.monotonic() - remote.probed > PROBE_SECONDS:
                    remote.probed = time.monotonic()
                    remote.probe = remote.actor.facts.remote()
            elif ray.wait([remote.probe], timeout=0)[0]:
                probe, remote.probe = remote.probe, None
                try:
                    self.learn(ray.get(probe))
                except ray.exceptions.ActorDiedError:
                    self.ask_whether_closed()
                except ray.exceptions.RayError:
                    continue  # Not yet.
            elif time.monotonic() - remote.probed > self.spec.answer_timeout:
                remote.probe = None

    def ask_whether_closed(self) -> None:
        """Another process that closes the buffer ends its actors, the head last."""
        try:
            closed = ray.get(self.head.is_closed.remote(), timeout=self.spec.answer_timeout)
        except ray.exceptions.ActorDiedError:
            closed = True
        except (ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError):
            return  # The head is being restarted.
        self.closed = self.closed or closed

    def _keep_up(self) -> None:
        reported = 0.0
        told: dict[str, int] = dict.fromkeys(COUNTS, 0)
        while not self._ended.wait(UPKEEP_SECONDS):
            if not ray.is_initialized():
                return
            try:
                self._probe()
                for one in list(self.upkeep):
                    do = one()
                    if do is not None:
                        do()
                    else:
                        self.upkeep.remove(one)
                    del do
                # The sums also if nothing is new, for a head that was restarted.
                news = self.counts != told or self.sums.changes
                since = time.monotonic() - reported
                if since > (REPORT_SECONDS if news else REPEAT_SECONDS):
                    reported, told = time.monotonic(), dict(self.counts)
                    if news or self.losses or any(told.values()):
                        self.report()
            except (reprise.Closed, TimeoutError, ray.exceptions.RayError):
                continue  # Tried again in a moment; callers see the error in calls of their own.
            except Exception:
                log.exception("%s: upkeep", self.spec.name)

    def report(self) -> None:
        losses = [(*one, committed) for one, committed in tuple(self.losses.items())]
        self.head.report.remote(self.client, dict(self.counts), self.sums, losses)

    def end(self) -> None:
        self.closed = True
        self._ended.set()
