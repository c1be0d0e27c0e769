"""Jobs that hold GPUs and do not use them: when they are shown and warned, and that they are ranked after all others. Pure.

A demoted job keeps its GPUs while no other job needs them. Once it uses them again it has its usual rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Ints, Jobs, Snapshot
from tiresias.scheduler.rank.policy import Policy, Ranking

OFF, SHOW, WARN, DEMOTE = ACTIONS = ("off", "show", "warn", "demote")


class IdleStage(IntEnum):
    """What happens to a job with unused GPUs."""

    NONE = 0
    SHOWN = 1
    WARNED = 2
    DEMOTED = 3


@dataclass(frozen=True, slots=True)
class IdleRule:
    """What is done about unused GPUs.

    Attributes:
        action: One of ACTIONS.
        warn_after: Seconds without use from which on a job is shown and warned.
        demote_after: Seconds from which on it is demoted; never before `warn_after`.
    """

    action: str = SHOW
    warn_after: float = 1800.0
    demote_after: float = 3600.0

    def stage(self, idle: Sequence[float]) -> IdleStage:
        """Return the stage of a job. idle: seconds for which each of its GPUs has been unused; (): not known."""
        unused = min(idle, default=0.0)
        if self.action == OFF or unused < self.warn_after or not idle:
            return IdleStage.NONE
        if self.action == DEMOTE and unused >= max(self.demote_after, self.warn_after):
            return IdleStage.DEMOTED
        return IdleStage.SHOWN if self.action == SHOW else IdleStage.WARNED


def demotion_key(jobs: Jobs) -> list[Ints]:
    """Return the sort key that puts demoted jobs last, shape (jobs,); [] where none is demoted."""
    return [] if jobs.demoted is None else [jobs.demoted.astype(np.int64)]


def ranking_of(policy: Policy, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
    """Return the ranking of a policy with demoted jobs last, otherwise in its order. O(jobs) besides the policy's own."""
    found, demoted = policy.rank(snapshot, config), snapshot.jobs.demoted
    if demoted is None:
        return found
    order = found.order[np.argsort(demoted[found.order], kind="stable")]
    return Ranking(order, found.queue, found.promoted)
