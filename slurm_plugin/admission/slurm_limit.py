"""One limit of Slurm's that jobs meet, and how much of it is left."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from tiresias.slurm_plugin.admission import demand
from tiresias.slurm_plugin.backends.protocol import SlurmJob

JOBS = ""  # in place of a TRES


class Measure(Enum):
    AMOUNT = 1  # of a TRES, or jobs
    MINUTES = 2  # the amount times the time limit
    PER_NODE = 3
    AT_LEAST = 4  # the amount may not be less
    WALL = 5  # the time limit


@dataclass(slots=True, eq=False)
class Limit:
    """
    Attributes:
        reason: Slurm's, of a job that it keeps waiting.
        tres: JOBS for a number of jobs.
        limit: at most; `counted` of it is used up, by Slurm's own count, before any job of the snapshot.
        shared: several jobs count against it, `used` being the sum of those that hold resources; else each job alone.
        nodes: that jobs hold: Slurm counts each once.
        members: amount, ids of waiting jobs that take so much.
        left: once all that is used is known.
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
        """For another snapshot."""
        self.used, self.nodes, self.members = 0.0, set(), []

    def settle(self) -> None:
        self.left = max(self.limit - max(self.used, self.counted), 0.0)

    @property
    def counts_nodes(self) -> bool:
        return self.shared and self.tres == "node" and self.measure is Measure.AMOUNT

    def amount(self, job: SlurmJob, minutes: float) -> float:
        """What a job takes of it, at least; minutes: of its time limit."""
        if self.measure is Measure.WALL:
            return minutes
        amount = demand.amount(self.tres)(job)
        if self.measure is Measure.AMOUNT:
            return max(amount - len(self.nodes), 0.0) if self.nodes else amount  # nodes that jobs share count once
        if self.measure is Measure.MINUTES:
            return amount * minutes if amount else 0.0
        return amount // demand.nodes(job) if self.measure is Measure.PER_NODE else amount

    def exceeded(self, amount: float) -> bool:
        if self.measure is Measure.AT_LEAST:
            return amount < self.limit
        if self.measure is Measure.WALL and amount == math.inf:
            return self.limit < 0  # a job without a time limit gets the longest that it may have
        return amount > 0 and amount > self.left
