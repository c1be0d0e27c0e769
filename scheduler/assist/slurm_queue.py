"""Slurm's order of the waiting jobs, as a decision of mode assist reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Ints, Snapshot
from tiresias.scheduler.rank.policy import Policy, Ranking, Row


class SlurmHead(NamedTuple):
    """The waiting job that Slurm starts next on the nodes of its partitions, once enough is free there.

    Attributes:
        row: Its row in the snapshot.
        queue: Rows of the managed jobs that wait for these nodes, itself included.
        config: The configuration that holds for its partition.
        is_served: Whether jobs have just released GPUs for it: no further ones are preempted before Slurm could start it.
    """

    row: int
    queue: Ints
    config: PolicyConfig
    is_served: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SlurmQueue:
    """Slurm's order.

    Attributes:
        order: Rows of all jobs of the snapshot, shape (jobs,): running jobs first, then the waiting ones as Slurm ranks them.
        heads: The first waiting jobs, of which no two can use the same node.
        blocked_by: Id of the unmanaged job that Slurm ranks before each of these jobs, by row.
        mean_run: Mean run time of completed jobs, seconds; 0: none has completed.
    """

    order: Ints
    heads: tuple[SlurmHead, ...] = ()
    blocked_by: Mapping[int, str] = field(default_factory=dict)
    mean_run: float = 0.0


class SlurmOrder(Policy):
    """The order of Slurm as a policy, which states the ranks in views; it preempts no job by rank."""

    preempts = False

    def __init__(self, order: Ints) -> None:
        """order: as of `SlurmQueue`."""
        self._order = order

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """Return the order, in one queue."""
        return Ranking.of(self._order)

    def standing(self, job: Row, queue: int, now: float, config: PolicyConfig) -> str:  # type: ignore[override]
        """Return which order it is."""
        return "Slurm's order"


def places(order: Ints) -> Ints:
    """Return the place of each row in an order, shape (jobs,)."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank
