"""Which waiting job gets the next free aggregators: in order of arrival, but a user above an equal share comes after others. Pure.

A job waits from its first refusal for the budget; its client repeats the registration. One that is not repeated is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

FORGOTTEN_AFTER_S = 15.0  # without a repetition; clients repeat every 2 s
MAX_WAITING_OF_A_USER = 64
_NOT_SEEN = float("inf")


class WaitingJob(NamedTuple):
    """A job that the budget does not hold now.

    Attributes:
        uid: Its owner.
        servers: Aggregators that it needs for its profile.
        since_s: Its first refusal.
        seen_s: Its last one.
    """

    uid: int
    servers: int
    since_s: float
    seen_s: float


class WaitingRow(NamedTuple):
    """A waiting job in the journal, whose rows are in the order of arrival."""

    job: str
    uid: int
    servers: int


class ArrivalOrder:
    """The waiting jobs.

    Args:
        rows: Those of the manager before, in their order; they come before all that arrive from now on, and have the same time
            to repeat their registration.
    """

    def __init__(self, rows: Sequence[WaitingRow] = ()) -> None:
        before_all = range(-len(rows), 0)
        self._waiting = {
            row.job: WaitingJob(row.uid, row.servers, float(at), _NOT_SEEN)
            for at, row in zip(before_all, rows, strict=True)
        }

    def rows(self) -> list[WaitingRow]:
        """Return the waiting jobs in the order of their arrival."""
        found = sorted(self._waiting.items(), key=lambda item: item[1].since_s)
        return [WaitingRow(job, each.uid, each.servers) for job, each in found]

    @property
    def count(self) -> int:
        """The number of waiting jobs."""
        return len(self._waiting)

    def users(self) -> set[int]:
        """Return the owners of waiting jobs."""
        return {each.uid for each in self._waiting.values()}

    def forget_old(self, now_s: float) -> None:
        """Forget the jobs whose registration is not repeated."""
        for job, each in list(self._waiting.items()):
            if each.seen_s == _NOT_SEEN:
                self._waiting[job] = each._replace(seen_s=now_s)
            elif now_s - each.seen_s > FORGOTTEN_AFTER_S:
                del self._waiting[job]

    def wait(self, job: str, uid: int, servers: int, now_s: float) -> None:
        """Note that a job was refused; each user has a bounded number of places."""
        before = self._waiting.get(job)
        if before is not None and (before.uid, before.servers) == (uid, servers):
            self._waiting[job] = before._replace(seen_s=now_s)
        elif before is None and sum(each.uid == uid for each in self._waiting.values()) < MAX_WAITING_OF_A_USER:
            self._waiting[job] = WaitingJob(uid, servers, now_s, now_s)

    def remove(self, job: str) -> None:
        """Remove a job that waits no longer."""
        self._waiting.pop(job, None)

    def jobs_before(self, job: str, uid: int, servers: int, used: Mapping[int, float], share: float) -> list[str]:
        """Return the waiting jobs that come before a job, in their order.

        Args:
            job: A job that waits, or a new one, which comes after those that wait.
            uid: Its owner.
            servers: Aggregators that it needs.
            used: Aggregators that each user uses.
            share: An equal share of the budget.
        """
        order = self._key(used, share)
        own = self._waiting.get(job, WaitingJob(uid, servers, float("inf"), 0.0))
        earlier = [name for name, each in self._waiting.items() if name != job and order(each) < order(own)]
        return sorted(earlier, key=lambda name: order(self._waiting[name]))

    def others_below_share(self, uid: int, used: Mapping[int, float], share: float) -> bool:
        """Return whether another user waits with a job within an equal share."""
        order = self._key(used, share)
        return any(each.uid != uid and not order(each)[0] for each in self._waiting.values())

    @staticmethod
    def _key(used: Mapping[int, float], share: float) -> Callable[[WaitingJob], tuple[bool, float]]:
        return lambda each: (used.get(each.uid, 0.0) + each.servers > share + 1e-6, each.since_s)
