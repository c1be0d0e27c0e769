"""The idle window of a job: from the answers to all pulls of a step until the first push of the next one (thesis, figure 1.3b).

The workers compute in it, and the aggregator has no work for the job: memory is prepared and tensors are copied then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

KEPT_WINDOWS = 4


class IdleWindow:
    """The windows of one job on one aggregator. The data thread opens and closes them; any thread may read.

    Args:
        clock: Returns seconds.

    Attributes:
        is_open: Whether the job has no request here. True until its first push.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.is_open = True
        self._opened: float | None = None
        self._lengths: deque[float] = deque(maxlen=KEPT_WINDOWS)

    def open(self) -> None:
        """Take note that every answer of a step is sent."""
        self.is_open, self._opened = True, self._clock()

    def close(self) -> None:
        """Take note of a push."""
        if self.is_open:
            self.is_open = False
            if self._opened is not None:
                self._lengths.append(self._clock() - self._opened)

    @property
    def expected_s(self) -> float:
        """The shortest of the last windows, in seconds; 0 before the first."""
        return min(self._lengths, default=0.0)
