"""What an administrator orders of the running controller through its control socket. Only root and its own user may.

    {"op": "pause", "reason": "..."}     no new preemptions until resume
    {"op": "resume"}
    {"op": "reload"}                     read the configuration again
    {"op": "stop", "release": false}     end; release: at once, without waiting for the preemptions under way

An order is taken in the socket's thread and carried out by the daemon's own, between two cycles. The answer gives its number,
{"order": 3}; {"op": "outcome", "order": 3} answers {"outcome": null} until it is done, then what it did, in words.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets.control_socket import Answer
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.views.text import printable

log = logging.getLogger("tiresias")

OUTCOME, PAUSE, RELOAD, RESUME, STOP = "outcome", "pause", "reload", "resume", "stop"
REASON = 200  # characters
_REFUSALS_LOGGED_EVERY = 60.0  # seconds, for each user and order


@dataclass(frozen=True, slots=True)
class AdminRequest:
    number: int
    op: str
    by: str
    reason: str = ""
    release: bool = False


class AdminRequests:
    """`answer` is what the control socket calls; everything that is no order goes on to `views`. `wake` ends the daemon's rest."""

    def __init__(self, views: Answer, wake: Callable[[], None]) -> None:
        self._views, self._wake = views, wake
        self._taken: SimpleQueue[AdminRequest] = SimpleQueue()
        self._given = itertools.count(1)
        self._outcomes: dict[int, str] = {}
        self._failures: dict[int, TiresiasError] = {}
        self._refused: dict[tuple[int, object], float] = {}  # uid and order, and when that was logged

    def answer(self, request: dict[str, Any], peer: Peer) -> Mapping[str, Any]:
        op = request.get("op")
        if op not in (PAUSE, RELOAD, RESUME, STOP, OUTCOME):
            return self._views(request, peer)
        if not peer.may_order:
            self._log_refusal(op, peer)
            raise TiresiasError(f"{op} is refused: only root and the controller's own user may order it")
        if op == OUTCOME:
            return self._outcome(request.get("order", 0))
        return {"order": self.give(op, peer.name, request.get("reason", ""), request.get("release") is True)}

    def give(self, op: str, by: str, reason: object = "", release: bool = False) -> int:
        """The order's number. A signal handler may call this."""
        order = AdminRequest(next(self._given), op, by, clean(reason), release)
        self._taken.put(order)
        self._wake()
        return order.number

    def take(self) -> list[AdminRequest]:
        """Those that came since the last call, oldest first."""
        taken = []
        while True:
            try:
                taken.append(self._taken.get_nowait())
            except Empty:
                return taken

    def done(self, order: AdminRequest, outcome: str) -> None:
        self._outcomes[order.number] = outcome

    def fail(self, order: AdminRequest, error: TiresiasError) -> None:
        self._failures[order.number] = error

    def _outcome(self, number: int) -> Mapping[str, Any]:
        if number in self._failures:
            raise self._failures[number]
        return {"outcome": self._outcomes.get(number)}

    def _log_refusal(self, op: str, peer: Peer) -> None:
        now = time.monotonic()
        if now - self._refused.get((peer.uid, op), -math.inf) >= _REFUSALS_LOGGED_EVERY:
            self._refused[peer.uid, op] = now
            log.warning("uid %d (pid %d) may not order %s: refused", peer.uid, peer.pid, op)


def clean(reason: object) -> str:
    """One harmless line of at most REASON characters."""
    return printable(reason, REASON).strip()
