"""Time sharing as in Gandiva (section 5.1): round robin, a turn every `policy.quantum` seconds.

Turns change at the multiples of the quantum, for all jobs at once, so that large jobs fit, too. At a change, running jobs go to the
tail of the queue, after the waiting jobs, which are served first come, first served. A job that starts in a turn keeps its GPUs
until the next one. At the tail, the job that has run the longest is the last. A running job that no other job displaces continues,
and jobs that arrive during a turn get the free GPUs.
"""

from __future__ import annotations

import math

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values, known, where
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows

_EARLY = 1e-6  # quanta: a multiple of the quantum that is worked out may lie just below it


class TimeSharing(IncrementalPolicy):
    """The policy `time_sharing`."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: jobs of this turn first, then waiting jobs, then the tail."""
        waits = jobs.state == JobState.WAITING
        turn = _turn(now, config)
        in_turn = (jobs.state == JobState.RUNNING) & (jobs.last_start >= turn)
        since = where(waits, known(jobs.preempted, jobs.submit), turn)
        return 0, where(in_turn, 0, 1), where(in_turn, 0.0, since), where(waits, math.inf, -jobs.last_start)

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        """Return True: the order changes at each turn."""
        return True

    def turn(self, now: float, config: PolicyConfig) -> float:
        """Return the moment at which the next turn begins."""
        return _turn(now, config) + config.quantum


def _turn(now: float, config: PolicyConfig) -> float:
    """When the turn of this moment began."""
    return math.floor(now / config.quantum + _EARLY) * config.quantum


TIME_SHARING = TimeSharing()
