"""The measure of how long a process works in each step of a training, without what it waits for the others."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from tiresias.protocol import rank_files


class OwnWork:
    """The measure of one process: the means of the steps of an interval.

    Attributes:
        interval: Seconds of a measurement.
        waited: Seconds that the process has waited for the others.
        own: Seconds of its own work of a step; None: not measured yet.
        whole: Seconds of a whole step; None: not measured yet.
    """

    def __init__(self) -> None:
        self.interval, self.waited = rank_files.WORK_S, 0.0
        self.own: float | None = None
        self.whole: float | None = None
        self._since: tuple[float, int, float] | None = None  # monotonic, step, waited: the beginning of the measurement

    @contextlib.contextmanager
    def exchange(self) -> Iterator[None]:
        """Count the time within as waited."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.waited += time.monotonic() - began

    def measured(self, step: int) -> bool:
        """Return whether a measurement ends at this step; call it from time to time. step: the newest one of the process."""
        now = time.monotonic()
        began, first, waited = self._since or (now, step, self.waited)
        if self._since and now - began >= self.interval and step > first:
            self.own = max(now - began - (self.waited - waited), 0.0) / (step - first)
            self.whole = (now - began) / (step - first)
            self._since = now, step, self.waited
            return True
        self._since = began, first, waited
        return False

    def report(self) -> dict[str, float | str]:
        """Return what a file of the control folder states of it; {}: not measured yet."""
        if self.own is None or self.whole is None:
            return {}
        node = os.environ.get("SLURMD_NODENAME", "")
        return {rank_files.OWN_WORK: self.own, rank_files.WHOLE_STEP: self.whole, rank_files.NODE: node}
