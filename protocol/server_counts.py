"""The numbers of parameter servers that an elastic job can use (`tsbatch --servers=MIN-MAX`), and the CPUs that hold them.

A worker is a task with GPUs, a server a process on CPUs alone, which has as many CPUs as a worker. Slurm holds the CPUs of the
servers as further CPUs of the tasks (CPUsPerTask), so that a run's number of servers follows from its tasks and their CPUs. CPUs of
tasks are whole numbers: with more workers than a worker has CPUs, only some numbers of servers are possible.
"""

from __future__ import annotations

from typing import NamedTuple

MOST = 256  # servers of a job: the controller compares all numbers up to the most, for each number of GPUs


class ServerCounts(NamedTuple):
    """The numbers of servers of an elastic job.

    Attributes:
        least: The fewest.
        most: The most.
        cpus: CPUs of a worker, and of a server.
        asynchronous: The owner states that each worker makes steps of its own (`--servers=MIN-MAX:async`).
    """

    least: int
    most: int
    cpus: int
    asynchronous: bool = False

    def of_run(self, workers: int, cpus_per_task: int) -> int:
        """Return the servers of a run: as many as its tasks hold further CPUs for, and never fewer than the fewest."""
        held = workers * max(cpus_per_task - self.cpus, 0) // self.cpus
        return min(max(held, self.least), self.most)

    def cpus_per_task(self, workers: int, servers: int) -> int:
        """Return the CPUs of each task that hold these servers beside the workers."""
        return self.cpus + -(-servers * self.cpus // max(workers, 1))

    def possible(self, workers: int) -> tuple[int, ...]:
        """Return the numbers of servers that a run with so many workers can have, in ascending order: all of them, unless there are
        more workers than a worker has CPUs. O(numbers)."""
        if workers <= self.cpus:
            return tuple(range(self.least, self.most + 1))
        fewest, most = (self.cpus_per_task(workers, count) for count in (self.least, self.most))
        return tuple(sorted({self.of_run(workers, cpus) for cpus in range(fewest, most + 1)}))

    def in_proportion(self, workers: int, most_workers: int) -> int:
        """Return the servers of a run in the proportion of the most servers to the most workers, rounded up."""
        return min(max(-(-self.most * workers // max(most_workers, 1)), self.least), self.most)

    def reached(self, workers: int, servers: int) -> int:
        """Return the next possible number of servers that is not below `servers`, which lies between the fewest and the most."""
        return self.of_run(workers, self.cpus_per_task(workers, servers))
