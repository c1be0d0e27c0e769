"""2D-Gittins without queues (pseudocode 1): the job first that is the most likely to end soon for the service that it will still
take, whatever quantum shows it at its best. Compared at every decision. As long as nothing is known this is continuous 2D-LAS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.estimates.completed_jobs import Completed, next_fit
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.rank.continuous_las import ContinuousLas
from tiresias.scheduler.rank.gittins import FIRST_FIT
from tiresias.scheduler.rank.policy import Policy, Rows

Index: TypeAlias = Callable[[Values], Values]  # of attained service, GPU-seconds


class ContinuousGittins(ContinuousLas):
    """The policy learns from completed jobs. A given `index` is used without further learning."""

    def __init__(self, index: Index | None = None, refit_at: float = math.inf) -> None:
        self._index, self.refit_at = index, refit_at

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the highest index first; attained service as long as there is no index."""
        if self._index is None:
            return super().keys(jobs, now, config, promoted)
        return 0, -self._index(jobs.attained)

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Policy:
        """Return the policy with the index of the completed jobs."""
        return ContinuousGittins(Distribution(completed.service).best, next_fit(len(completed)))


CONTINUOUS_GITTINS = ContinuousGittins(refit_at=FIRST_FIT)
