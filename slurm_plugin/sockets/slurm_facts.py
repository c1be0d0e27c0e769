"""Slurm's own facts about a job, as `explain` publishes them: state, reason, exit code and dependencies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiresias.protocol.control import JobReport
from tiresias.scheduler.admit.quotas import obstacle
from tiresias.scheduler.model import Snapshot
from tiresias.slurm_plugin.backends.interface import SlurmJob

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication

MAX_DEPENDENCIES = 20  # published dependencies of one job
# afterok:12(unfulfilled), afterany:13_*(failed), after:14+10(unfulfilled)
_DEPENDENCY = re.compile(r"(after\w*):([0-9]{1,10}(?:_(?:[0-9]{1,10}|\*))?)(?:\+[0-9]+)?(?:\((\w+)\))?")


@dataclass(frozen=True, slots=True)
class Index:
    """The tables that `slurm_facts` uses, by job id: Slurm's record, the row in the snapshot, and whether the run can save."""

    records: Mapping[str, SlurmJob]
    rows: Mapping[str, int]
    snapshot: Snapshot
    reports: Mapping[str, JobReport]

    @classmethod
    def of(cls, newest: Publication) -> Index:
        """Return the tables of a publication."""
        rows = {job_id: row for row, job_id in enumerate(newest.snapshot.jobs.id)}
        return cls({job.id: job for job in newest.slurm.jobs}, rows, newest.snapshot, newest.reports)


def slurm_facts(job: SlurmJob, index: Index) -> dict[str, Any]:
    """Return Slurm's facts about a job.

    `reason`: why Slurm would not start the job now; `shown`: the reason in squeue, which is that of the hold while Tiresias
    holds the job. `tsbatch`: it was submitted with tsbatch. `ready`: its run has reported that it can save.
    """
    report = index.reports.get(job.id)
    return {
        "state": job.state,
        "reason": _obstacle(job, index) or job.reason,
        "shown": job.reason,
        "exit_code": job.exit_code if job.exit_code >= 0 else None,
        "batch": job.batch,
        "tsbatch": bool(job.script),
        "ready": bool(report and report.ready),
        "depends_on": [],
    }


def _obstacle(job: SlurmJob, index: Index) -> str:
    """Return Slurm's rule that blocks a waiting job, "" for none."""
    row = index.rows.get(job.id, -1)
    return obstacle(index.snapshot.jobs, row) if job.state == "PENDING" and row >= 0 else ""


def dependencies(job: SlurmJob, jobs: Sequence[SlurmJob], sees_others: bool) -> Iterator[dict[str, Any]]:
    """Yield the jobs named in `--dependency`, at most MAX_DEPENDENCIES; `exit_code` is the highest. O(dependencies x jobs)."""
    if job.state != "PENDING":
        return
    for kind, other, mark in _DEPENDENCY.findall(job.dependency)[:MAX_DEPENDENCIES]:
        found = [one for one in named(other.removesuffix("_*"), jobs) if sees_others or one.uid == job.uid]
        code = max((one.exit_code for one in found if one.exit_code >= 0), default=None)
        yield {"kind": kind, "job": other, "failed": mark == "failed", "state": _states(found), "exit_code": code}


def named(job_id: str, jobs: Sequence[SlurmJob]) -> list[SlurmJob]:
    """Return the jobs with that id: one, the tasks of the array with that number, the first part of a het job, or none."""
    if exact := [job for job in jobs if job.id == job_id]:
        return exact
    if not job_id.isdecimal():
        return []
    number = int(job_id)
    return (
        [job for job in jobs if job.array_id == number]
        or [job for job in jobs if job.array_id and job.raw_id == number]
        or [job for job in jobs if job.het_id and job.het_id == number][:1]
    )


def _states(found: Sequence[SlurmJob]) -> str:
    """RUNNING; of an array 2 RUNNING, 1 PENDING; "" where no such job is known."""
    counts = Counter(job.state for job in found)
    if len(found) == 1:
        return found[0].state
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())
