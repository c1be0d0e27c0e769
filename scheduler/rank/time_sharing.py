"""Time sharing as in Gandiva (section 5.1): round robin, a turn every `policy.quantum` seconds.

Turns change at the multiples of the quantum, for all jobs at once, so that large ones find room too. Whoever runs then goes to
the tail of the line, and whoever waited comes before them, first come first served; a job that finds its GPUs at this turn keeps
them until the next. Of those at the tail the one that has run the longest is the last. A running job that nobody displaces just
goes on, and those who come during a turn get what is free.
"""

from __future__ import annotations

import math

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values, known, where
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows

_EARLY = 1e-6  # quanta: a multiple of the quantum that is worked out may lie just below it


class TimeSharing(IncrementalPolicy):
    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        waits = jobs.state == JobState.WAITING
        turn = _turn(now, config)
        in_turn = (jobs.state == JobState.RUNNING) & (jobs.last_start >= turn)
        since = where(waits, known(jobs.preempted, jobs.submit), turn)
        return 0, where(in_turn, 0, 1), where(in_turn, 0.0, since), where(waits, math.inf, -jobs.last_start)

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        return True

    def turn(self, now: float, config: PolicyConfig) -> float:
        return _turn(now, config) + config.quantum


def _turn(now: float, config: PolicyConfig) -> float:
    """When the turn of this moment began."""
    return math.floor(now / config.quantum + _EARLY) * config.quantum


TIME_SHARING = TimeSharing()
