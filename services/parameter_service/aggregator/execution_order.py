"""The order in which the data thread serves the jobs: each step in its slot of the cycle, and by the work done for each job.

Receiving, updating and answering are all work of the job of the connection. Of the connections that have something to receive, the
one is served whose job has had the least processor time (start-time fair queueing): a job that pushes as fast as it can, on however
many connections, gets what the others leave, and delays them by one piece of its work. A job that was idle gets no credit for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tiresias.services.parameter_service.aggregator.cycle_slots import CycleSlots
from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob
from tiresias.services.wire.connection import Connection


class ExecutionOrder:
    """The order of the data loop's connections.

    Args:
        job_of: Returns a job by its name, None for one that is not here.
        clock: Returns seconds.

    Attributes:
        slots: Those of the cycle that the manager has sent.
    """

    def __init__(self, job_of: Callable[[str], HostedJob | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._job_of, self._clock = job_of, clock
        self.slots = CycleSlots()
        self._work_s: dict[str, float] = {}
        self._virtual_s = 0.0

    def rank(self, connection: Connection) -> float:
        """Return the work of the connection's job; the least is served first. A handshake comes before all."""
        if connection.identity is None or not connection.identity.job:
            return -1.0
        return max(self._work_s.get(connection.identity.job, 0.0), self._virtual_s)

    def admits(self, connection: Connection) -> bool:
        """Return whether a connection may be read: not where it would begin a step for which the cycle has no time."""
        if connection.identity is None or not connection.identity.job:
            return True
        job = self._job_of(connection.identity.job)
        if job is None or not job.window.is_open or job.settings.mode != "synchronous":
            return True
        return self.slots.may_begin(job.settings.job, self._clock())

    def charge(self, connection: Connection, seconds: float) -> None:
        """Add the work for a connection that was served."""
        if connection.identity is not None and connection.identity.job:
            self._virtual_s = self.rank(connection)
            self._work_s[connection.identity.job] = self._virtual_s + seconds

    def forget(self, job: str) -> None:
        """Drop a job that was removed."""
        self._work_s.pop(job, None)

    def next_change_s(self) -> float:
        """Return the seconds until a connection that was not admitted may be."""
        return self.slots.next_slot_s(self._clock())
