"""The lease for job_submit.lua: a file of six lines in the run folder, written by the controller after each cycle.

While it is valid, job_submit.lua delays new jobs of the managed partitions until the controller has found them; etc/job_submit.lua
reads the same lines. tsbatch reads it to describe how a job will be scheduled.

    1795406400       the end: epoch second
    gpu,a100         the managed partitions
    gpu              Slurm's default partition; empty: unknown
    97               seconds that a new job waits for the controller
    ada,eve          users whose jobs only Slurm schedules
    deadline         accounts whose jobs only Slurm schedules
"""

from __future__ import annotations

from typing import NamedTuple

FILE = "lease"  # in the run folder


class JobSubmitLease(NamedTuple):
    """The content of the file.

    Attributes:
        until: Its end, as an epoch second.
        partitions: The managed partitions.
        default: Slurm's default partition, "" where unknown.
        wait: Seconds that a new job waits for the controller.
        users, accounts: Those whose jobs only Slurm schedules.
    """

    until: int
    partitions: tuple[str, ...]
    default: str
    wait: int
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the file's content."""
        lines = (self.until, _line(self.partitions), self.default, self.wait, _line(self.users), _line(self.accounts))
        return "".join(f"{line}\n" for line in lines)


def parse(text: str) -> JobSubmitLease:
    """Return the lease of a file's content. Raises ValueError."""
    until, partitions, default, wait, users, accounts = text.split("\n")[:6]
    return JobSubmitLease(int(until), _names(partitions), default, int(wait), _names(users), _names(accounts))


def _line(names: tuple[str, ...]) -> str:
    return ",".join(names)


def _names(line: str) -> tuple[str, ...]:
    return tuple(filter(None, line.split(",")))
