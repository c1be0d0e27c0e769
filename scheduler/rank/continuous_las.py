"""2D-LAS without queues (section 3.2.2): the least attained service first, compared at every decision.

Where decisions are far apart (`Rules.interval` in the simulator, the controller's period) jobs that have had the same take
turns; close together they would preempt each other all the time, which is why the paper goes on to queues.
"""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows


class ContinuousLas(IncrementalPolicy):
    """The policy `continuous_las`."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the least attained service first."""
        return 0, jobs.attained

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        """Return True: service grows while a job runs."""
        return True


CONTINUOUS_LAS = ContinuousLas()
