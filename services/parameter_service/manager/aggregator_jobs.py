"""Aggregators as jobs of Slurm: submitted, listed and cancelled by sbatch, squeue and scancel.

A job's name is tiresias-ps-MANAGER-NUMBER. The queue is searched by user and name, so that the manager finds each of its jobs,
also one whose submission it did not record because it was killed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable
from tiresias.services.parameter_service.manager.fleet_commands import FleetCommands
from tiresias.services.parameter_service.manager.fleet_state import QueuedAggregator
from tiresias.services.parameter_service.manager.requested_nodes import (
    NodeOfPartition,
    PendingJob,
    parsed_nodes,
    parsed_pending,
)

_IDENTITY = re.compile(r"[A-Za-z0-9]{1,32}")
_FIELDS = "JobID:|,State:|,NodeList:|,PreemptTime:|,Partition:|,PriorityLong:|,Name:|"
_ENDED = ("already completing or completed", "Invalid job id")


@dataclass(frozen=True)
class AggregatorJobs:
    """The jobs of one manager.

    Attributes:
        manager: Its id, letters and digits.
        script: The batch script that starts an aggregator; it gets the aggregator's number as its argument.
        partition, qos, account: Where it is submitted; "" for Slurm's default.
        cpus: CPUs of an aggregator.
        memory_mib: Memory of an aggregator; 0 for Slurm's default.
        output: Folder of the output files.
    """

    manager: str
    script: Path
    partition: str = ""
    qos: str = ""
    account: str = ""
    cpus: int = 1
    memory_mib: int = 0
    output: Path = Path("/dev")
    _commands: FleetCommands = field(default_factory=FleetCommands, repr=False)

    def __post_init__(self) -> None:
        """Check the manager's id. Raises TiresiasError."""
        if not _IDENTITY.fullmatch(self.manager):
            raise TiresiasError(f"manager id {self.manager[:40]!r}: 1 to 32 letters and digits")

    def submit(self, number: int) -> int:
        """Submit the job of an aggregator and return its id.

        Raises:
            Unavailable: Slurm did not answer, or refused it now; whether it was submitted is unknown.
        """
        chosen = {"partition": self.partition, "qos": self.qos, "account": self.account}
        options = [f"--{name}={value}" for name, value in chosen.items() if value]
        options += [f"--mem={self.memory_mib}M"] if self.memory_mib else []
        name = name_of(self.manager, number)
        output = "/dev/null" if self.output == Path("/dev") else str(self.output / f"aggregator-{number}.out")
        done = self._commands.run(
            "sbatch", "--parsable", f"--job-name={name}", "--dependency=singleton", "--no-requeue", "--nodes=1",
            "--ntasks=1", f"--cpus-per-task={self.cpus}", f"--output={output}", *options, str(self.script), str(number),
        )  # fmt: skip
        if not (number_of_job := done.partition(";")[0]).isdecimal():
            raise Unavailable(f"sbatch: no job id in {done[:80]!r}")
        return int(number_of_job)

    def interrupt(self) -> None:
        """End the command that runs now; its call raises Unavailable. Any thread may call it."""
        self._commands.interrupt()

    def queue(self) -> list[QueuedAggregator]:
        """Return all jobs of this manager that have not ended. Raises Unavailable."""
        listed = self._commands.run("squeue", "--noheader", "--me", "--states=all", f"--Format={_FIELDS}")
        return [found for line in listed.splitlines() if (found := self._parsed(line))]

    def cancel(self, slurm_job: int) -> None:
        """Cancel a job; one that has ended stays ended. Raises Unavailable."""
        try:
            self._commands.run("scancel", str(slurm_job))
        except Unavailable as error:
            if not any(each in str(error) for each in _ENDED):
                raise

    def nodes(self, names: Collection[str]) -> list[NodeOfPartition]:
        """Return the state of nodes, in each of their partitions. Raises Unavailable."""
        if not names:
            return []
        listed = self._commands.run(
            "sinfo", "-N", "--noheader", f"--nodes={','.join(sorted(names))}", "--format=%N|%R|%p|%T"
        )
        return parsed_nodes(listed)

    def pending(self, partitions: Collection[str]) -> list[PendingJob]:
        """Return the jobs of others that wait for resources in these partitions. Raises Unavailable."""
        if not partitions:
            return []
        options = ("--states=PENDING", f"--partition={','.join(sorted(partitions))}", "--format=%A|%P|%Q|%r|%D|%j")
        return parsed_pending(self._commands.run("squeue", "--noheader", *options), f"tiresias-ps-{self.manager}-")

    def _parsed(self, line: str) -> QueuedAggregator | None:
        job, state, node, preempted, partition, priority, name = line.removesuffix("|").split("|", 6)
        found = re.fullmatch(rf"tiresias-ps-{self.manager}-(\d+)", name.strip())
        if not found or state not in (
            "PENDING",
            "CONFIGURING",
            "RUNNING",
            "SUSPENDED",
            "COMPLETING",
            "STOPPED",
            "RESIZING",
        ):
            return None
        runs = state == "RUNNING"
        is_preempted = runs and re.match(r"\d{4}-", preempted) is not None
        rank = (partition, int(priority) if priority.isdecimal() else 0)
        return QueuedAggregator(int(job), int(found[1]), runs, node.strip() if runs else "", is_preempted, *rank)


def name_of(manager: str, number: int) -> str:
    """Return the name of the Slurm job of an aggregator."""
    return f"tiresias-ps-{manager}-{number}"
