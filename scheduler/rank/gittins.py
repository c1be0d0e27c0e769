"""Discretized 2D-Gittins (sections 3.2.2 and 3.2.3): the queues of LAS; inside all but the last one, the jobs first that are the
most likely to end soon for the service that they will still take.

How much service jobs need is known from those that are over. A queue's quantum is its upper limit. Jobs of the same index, as
all that have had nothing yet, are in LAS's order, and so is the last queue. As long as nothing is known this is LAS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values, pick, where
from tiresias.scheduler.estimates.completed_jobs import Completed, next_fit
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.rank.las import Las
from tiresias.scheduler.rank.las_order import queue_of
from tiresias.scheduler.rank.policy import Policy, Rows

Index: TypeAlias = Callable[[Values, Values], Values]  # of attained service and quantum, both GPU-seconds

FIRST_FIT = 30  # completed jobs from which something can be learned


class Gittins(Las):
    """The policy learns from completed jobs. A given `index` is used without further learning, as in the paper's simulations."""

    def __init__(self, index: Index | None = None, refit_at: float = math.inf) -> None:
        self._index, self.refit_at = index, refit_at

    def inside(
        self, jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values
    ) -> tuple[Values, ...]:
        """Return the sort keys inside a queue: the highest index first, except in the last queue."""
        order = super().inside(jobs, now, config, queue, promoted)
        if self._index is None or not config.thresholds:
            return order
        attained = jobs.attained if promoted is False else where(promoted, 0.0, jobs.attained)
        quantum = pick((*config.thresholds, config.thresholds[-1]), queue)
        return -self._index(attained, quantum) * (queue < len(config.thresholds)), *order

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        """Its index changes with its service, up to the last queue."""
        return self._index is not None and queue_of(jobs.attained, config) < len(config.thresholds)

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Policy:
        """Return the policy with the index of the completed jobs."""
        return Gittins(Distribution(completed.service).within, next_fit(len(completed)))


GITTINS = Gittins(refit_at=FIRST_FIT)
