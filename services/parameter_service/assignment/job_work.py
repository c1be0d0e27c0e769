"""What the assignment needs of a job: its iteration, the processor time of its tensors, and the servers that it declared."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tiresias.errors import UsageError


@dataclass(frozen=True)
class JobWork:
    """The profile of a job.

    Attributes:
        job: Its name, unique in the service.
        iteration_s: Seconds of an iteration when the job has as many aggregators of its own as it declared servers.
        servers: Parameter servers that its owner declared, 1 or more.
        tensors: Seconds of processor time that an aggregator spends on each tensor, or block of one, in an iteration.
    """

    job: str
    iteration_s: float
    servers: int
    tensors: Mapping[str, float]

    def __post_init__(self) -> None:
        """Check the numbers. Raises UsageError."""
        if not (self.iteration_s > 0 and math.isfinite(self.iteration_s)):
            raise UsageError(f"job {self.job}: an iteration of {self.iteration_s} s; it must take more than 0 s")
        if self.servers < 1:
            raise UsageError(f"job {self.job}: {self.servers} parameter servers; give 1 or more")
        if not self.tensors:
            raise UsageError(f"job {self.job} has no tensors")
        for tensor, work_s in self.tensors.items():
            if not (work_s >= 0 and math.isfinite(work_s)):
                raise UsageError(f"job {self.job}, tensor {tensor}: {work_s} s of processor time; give 0 or more")

    @cached_property
    def work_s(self) -> float:
        """Seconds of processor time in an iteration."""
        return math.fsum(self.tensors.values())

    @cached_property
    def aggregators(self) -> float:
        """Aggregators that the job fills without any other job, as a fraction."""
        return self.work_s / self.iteration_s

    @cached_property
    def even_share_s(self) -> float:
        """Seconds of work in an iteration on the fullest of its declared servers, when each tensor goes to the least full one."""
        loads = [0.0] * min(self.servers, len(self.tensors))
        for tensor in self.by_work:
            heapq.heapreplace(loads, loads[0] + self.tensors[tensor])
        return max(loads)

    @cached_property
    def by_work(self) -> tuple[str, ...]:
        """The tensors in descending order of work; equal ones by name."""
        return tuple(sorted(self.tensors, key=lambda tensor: (-self.tensors[tensor], tensor)))
