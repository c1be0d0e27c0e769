"""Reports of a job's iteration times to the manager: first its profile, then each iteration.

They have a thread and a connection of their own, so that a manager that is busy or away delays no step. What cannot be reported is
dropped.
"""

from __future__ import annotations

import queue
import statistics
import threading
import time

from tiresias.errors import TiresiasError, one_line
from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.agent.manager_link import ManagerLink
from tiresias.services.parameter_service.messages.manager_messages import ReportIteration, ReportProfile

WARM_UP_ITERATIONS, PROFILED_ITERATIONS = 5, 20
_KEPT = 256  # iterations that wait to be reported
_PAUSE_S = 1.0  # after a failure


class IterationReports:
    """The reports of rank 0.

    Args:
        link: To the manager, for this object alone.
    """

    def __init__(self, link: ManagerLink) -> None:
        self._link = link
        self._times: queue.Queue[float] = queue.Queue(_KEPT)
        self._last, self._count = 0.0, 0
        threading.Thread(target=self._run, name="iteration reports", daemon=True).start()

    def iteration(self) -> None:
        """Count the end of an iteration."""
        now, self._count = time.monotonic(), self._count + 1
        if self._count > WARM_UP_ITERATIONS and not self._times.full():
            self._times.put_nowait(now - self._last)  # there is one writer
        self._last = now

    def _run(self) -> None:
        profile = statistics.median(self._times.get() for _ in range(PROFILED_ITERATIONS))
        self._repeat(ReportProfile(profile))
        while True:
            self._send(ReportIteration(self._times.get()))

    def _repeat(self, content: ReportProfile) -> None:
        while not self._send(content):
            time.sleep(_PAUSE_S)

    def _send(self, content: ReportProfile | ReportIteration) -> bool:
        try:
            self._link.request(content)
        except TiresiasError as error:
            log_line(f"parameter service: {type(content).__name__}: {one_line(error)}")
            return False
        return True
