"""Why jobs have their rank, as a value that is turned into words for the jobs that are shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Ints, Snapshot
from tiresias.scheduler.rank.policy import Policy, Row


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The standing of the jobs of one snapshot.

    Attributes:
        queue: Index of the queue of each row.
        queues_before: Queues of other pools, which are counted first.
        note: Added to the text of each job.
    """

    snapshot: Snapshot
    queue: Ints
    policy: Policy
    config: PolicyConfig
    queues_before: int = 0
    note: str = ""

    def of(self, row: int) -> str:
        """The text for one job."""
        job, queue = Row(self.snapshot.jobs, row), self.queues_before + int(self.queue[row])
        words = self.policy.standing(job, queue, self.snapshot.time, self.config)
        return f"{words} ({self.note})" if self.note else words


@dataclass(frozen=True, slots=True, eq=False)
class JoinedStanding:
    """The standing of the jobs of several pools.

    Attributes:
        pools: The rows of each pool's jobs, rising, and their standing.
    """

    pools: tuple[tuple[Ints, Standing], ...]

    def of(self, row: int) -> str:
        """The text for one job; `row` of the whole snapshot."""
        for rows, standing in self.pools:
            place = int(np.searchsorted(rows, row))
            if place < len(rows) and rows[place] == row:
                return standing.of(place)
        raise IndexError(row)
