"""Why jobs have their rank, as a value that is turned into words for the jobs that are shown."""

from __future__ import annotations

from dataclasses import dataclass

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
        demoted = self.snapshot.jobs.demoted
        if demoted is not None and demoted[row]:
            words += ", after all others: its GPUs are unused"
        return f"{words} ({self.note})" if self.note else words
