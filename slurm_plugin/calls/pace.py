"""How soon the next cycle may and must come, by how slurmctld answers. Pure: seconds in, seconds out."""

from __future__ import annotations

import random
from collections.abc import Callable

SHARE = 20.0  # slurmctld spends a twentieth of its time on snapshots at most, where no event asks for a cycle
LONGEST = 2.0  # periods between two cycles: the lease of job_submit.lua lasts for three
SLOW = 1.0  # seconds for a snapshot; ten thousand jobs take half of it on a slurmctld that is not busy
GIVE_BACK = 4.0  # times what a snapshot took beyond that: for so long no event begins a cycle
FADING = 0.7  # of what it took before counts still


class Pace:
    """`jitter`: evenly from 0 to 1, so that several clients of a slurmctld that comes back do not come back at once."""

    def __init__(self, period: float, poll: float, jitter: Callable[[], float] = random.random) -> None:
        self._period, self._poll, self._jitter = period, poll, jitter
        self.latency, self.failures = 0.0, 0

    def answered(self, seconds: float) -> None:
        """Note how long a snapshot took. Increases apply immediately; decreases are smoothed."""
        self.failures = 0
        self.latency = max(seconds, FADING * self.latency + (1 - FADING) * seconds)

    def failed(self) -> None:
        """Note that slurmctld did not answer."""
        self.failures += 1

    @property
    def period(self) -> float:
        """Seconds between two cycles without an event."""
        return min(max(self._period, SHARE * self.latency), LONGEST * self._period)

    @property
    def rest(self) -> float:
        """Seconds between two cycles at least."""
        return min(max(GIVE_BACK * (self.latency - SLOW), 0.0), self._period)

    def back_off(self) -> float:
        """Return the seconds until the next attempt after failures."""
        longest = float(min(2.0 ** min(self.failures, 10) * self._poll, self._period))
        return longest * (1 + self._jitter()) / 2
