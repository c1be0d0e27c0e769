"""One of Slurm's limits that jobs are subject to, and how much of it is left."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from tiresias.slurm_plugin.admission import demand
from tiresias.slurm_plugin.backends.interface import SlurmJob

JOBS = ""  # in place of a TRES


class Measure(Enum):
    """The quantity that a limit limits."""

    AMOUNT = 1  # of a TRES, or number of jobs
    MINUTES = 2  # amount times time limit
    PER_NODE = 3
    AT_LEAST = 4  # minimum amount
    WALL = 5  # the time limit


@dataclass(slots=True, eq=False)
class Limit:
    """One limit.

    Attributes:
        reason: Slurm's reason for a job that the limit blocks
        measure: the limited quantity
        tres: JOBS for a number of jobs
        limit: the maximum
        shared: whether several jobs count against it; otherwise each job alone
        counted: use in Slurm's own count, before any job of the snapshot
        used: sum of the jobs that hold resources
        nodes: the nodes that jobs hold: Slurm counts each once
        members: amount, ids of waiting jobs that need this amount
        left: the rest, after `settle`
    """

    reason: str
    measure: Measure
    tres: str
    limit: float
    shared: bool = False
    counted: float = 0.0
    used: float = 0.0
    nodes: set[str] = field(default_factory=set)
    members: list[tuple[float, list[str]]] = field(default_factory=list)
    left: float = 0.0

    def reset(self) -> None:
        """Reset the use for another snapshot."""
        self.used, self.nodes, self.members = 0.0, set(), []

    def settle(self) -> None:
        """Compute `left`."""
        self.left = max(self.limit - max(self.used, self.counted), 0.0)

    @property
    def counts_nodes(self) -> bool:
        """Whether Slurm counts each node once."""
        return self.shared and self.tres == "node" and self.measure is Measure.AMOUNT

    def amount(self, job: SlurmJob, minutes: float) -> float:
        """Return a job's minimum amount of the limit; minutes: of its time limit."""
        if self.measure is Measure.WALL:
            return minutes
        amount = demand.amount(self.tres)(job)
        if self.measure is Measure.AMOUNT:
            return max(amount - len(self.nodes), 0.0) if self.nodes else amount  # nodes that jobs share count once
        if self.measure is Measure.MINUTES:
            return amount * minutes if amount else 0.0
        return amount // demand.nodes(job) if self.measure is Measure.PER_NODE else amount

    def exceeded(self, amount: float) -> bool:
        """Return whether a job with this amount is blocked."""
        if self.measure is Measure.AT_LEAST:
            return amount < self.limit
        if self.measure is Measure.WALL and amount == math.inf:
            return self.limit < 0  # a job without a time limit gets the longest that it may have
        return amount > 0 and amount > self.left
