"""Orders of an administrator to the running controller through its control socket. Only root and its own user may give
them.

    {"op": "pause", "reason": "..."}     no new preemptions until resume
    {"op": "resume"}
    {"op": "reload"}                     read the configuration again
    {"op": "stop", "release": false}     end; release: at once, without waiting for the preemptions in progress

The socket's thread accepts an order, and the daemon's own thread carries it out between two cycles. The answer contains its
number, {"order": 3}; {"op": "outcome", "order": 3} answers {"outcome": null} until it is done, then the outcome as text. Each
process has other numbers: one that was started since does not answer for orders of the process before.
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
MAX_REASON_CHARACTERS = 200
REFUSAL_LOG_INTERVAL_S = 60.0  # for each user and operation


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """An accepted order.

    Attributes:
        number: larger than those of earlier controllers on this host
        op: PAUSE, RELOAD, RESUME or STOP
        by: name of the user
        reason: as given
        release: whether STOP releases holds at once
    """

    number: int
    op: str
    by: str
    reason: str = ""
    release: bool = False


class AdminRequests:
    """The accepted orders and their outcomes.

    Args:
        views: answers all other requests
        wake: ends the daemon's wait between two cycles
    """

    def __init__(self, views: Answer, wake: Callable[[], None]) -> None:
        self._views, self._wake = views, wake
        self._taken: SimpleQueue[AdminRequest] = SimpleQueue()
        self._first = int(time.time() * 1000)
        self._given = itertools.count(self._first)
        self._outcomes: dict[int, str] = {}
        self._failures: dict[int, TiresiasError] = {}
        self._refused: dict[tuple[int, object], float] = {}  # time of the last log entry, by uid and operation

    def answer(self, request: dict[str, Any], peer: Peer) -> Mapping[str, Any]:
        """Answer a request of the control socket.

        Raises:
            TiresiasError: the user may not give orders, or the order failed.
        """
        op = request.get("op")
        if op not in (PAUSE, RELOAD, RESUME, STOP, OUTCOME):
            return self._views(request, peer)
        if not peer.may_administer:
            self._log_refusal(op, peer)
            raise TiresiasError(f"{op} is refused: only root and the controller's own user may order it")
        if op == OUTCOME:
            return self._outcome(request.get("order", 0))
        return {"order": self.give(op, peer.name, request.get("reason", ""), request.get("release") is True)}

    def give(self, op: str, by: str, reason: object = "", release: bool = False) -> int:
        """Accept an order and return its number. Safe in a signal handler."""
        order = AdminRequest(next(self._given), op, by, clean(reason), release)
        self._taken.put(order)
        self._wake()
        return order.number

    def take(self) -> list[AdminRequest]:
        """Return the orders accepted since the last call, oldest first."""
        taken = []
        while True:
            try:
                taken.append(self._taken.get_nowait())
            except Empty:
                return taken

    def done(self, order: AdminRequest, outcome: str) -> None:
        """Store the outcome of an order."""
        self._outcomes[order.number] = outcome

    def fail(self, order: AdminRequest, error: TiresiasError) -> None:
        """Store the failure of an order."""
        self._failures[order.number] = error

    def _outcome(self, number: int) -> Mapping[str, Any]:
        if number in self._failures:
            raise self._failures[number]
        if 0 < number < self._first:
            raise TiresiasError(
                "the controller was started since the order, so its outcome is not known; retry the command"
            )
        return {"outcome": self._outcomes.get(number)}

    def _log_refusal(self, op: str, peer: Peer) -> None:
        now = time.monotonic()
        if now - self._refused.get((peer.uid, op), -math.inf) >= REFUSAL_LOG_INTERVAL_S:
            self._refused[peer.uid, op] = now
            log.warning("uid %d (pid %d) may not order %s: refused", peer.uid, peer.pid, op)


def clean(reason: object) -> str:
    """Return one printable line of at most MAX_REASON_CHARACTERS characters."""
    return printable(reason, MAX_REASON_CHARACTERS).strip()
