"""What Slurm forgets of a run while the job is COMPLETING, and when the run of a requeued job ended.

Measured on 22.05, 24.11 and 26.05: from the moment of a requeue the record is PENDING+COMPLETING with a start time that moves
with the clock, an end time in the far future, no GRES per node and a zero run time; the node counts its GPUs as free at once.
When COMPLETING is over, submit_time is that moment, which may be KillWait seconds after the run's end in Slurm's own accounts.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import compress
from operator import not_

from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.backends.record_values import RecordValues, id_of

# slurmctld stamps a requeue with whole seconds of a clock that may lag a few ms: away from the edges both see the same second.
_EDGES = (0.01, 0.93)


def mid_second() -> int:
    """Sleep (80 ms at most) until the RPC about to be made cannot straddle a second; that second."""
    now = time.time()
    if not _EDGES[0] <= now % 1 <= _EDGES[1]:
        time.sleep((1 + _EDGES[0] - now % 1) % 1)
    return int(time.time())


class Memory:
    """The GPUs and the end of each job's last run, kept while Slurm's record does not show them."""

    def __init__(self) -> None:
        self._shares: dict[str, tuple[NodeShare, ...]] = {}
        self._ends: dict[str, int] = {}
        self._filled: dict[str, SlurmJob] = {}  # as `fill` returned them, where it changed them
        self._is_complete = RecordValues(self._note)

    def requeuing(self, job_id: str, second: int) -> None:
        """Record a requeue before its RPC, which may end the run even if its answer is lost; the first of several counts."""
        self._ends.setdefault(job_id, second)

    def refused(self, job_id: str) -> None:
        """Forget a requeue that Slurm refused."""
        self._ends.pop(job_id, None)

    def fill_each(self, jobs: Sequence[SlurmJob], now: float) -> list[SlurmJob]:
        """Return each job as `fill` does, and forget all others. O(jobs), with a call of `fill` for each incomplete record."""
        is_complete = self._is_complete.of(jobs)
        rows = list(compress(range(len(jobs)), map(not_, is_complete)))
        found = list(jobs)
        for row in rows:
            found[row] = self.fill(jobs[row], now)
        for job_id in self._ends.keys() - {
            jobs[row].id for row in rows
        }:  # a complete record shows that its run goes on
            del self._ends[job_id]
        self._keep(frozenset(map(id_of, jobs)))
        return found

    def _note(self, job: SlurmJob) -> bool:
        """Return whether Slurm's record shows all, and note what the job holds."""
        if job.readable and not job.completing and job.shares:
            self._shares[job.id] = job.shares
        return job.readable and not job.completing and (job.state != "PENDING" or not job.restarts)

    def fill(self, job: SlurmJob, now: float) -> SlurmJob:
        """The job with the shares and the end of its last run; a requeue by others ends when it is first seen. A job whose record
        cannot be read still holds what it held last. Equal results are the same object."""
        found = self._fill(job, now)
        if found is job:
            return job
        if found != (known := self._filled.get(job.id)) or known is None:
            self._filled[job.id] = known = found
        return known

    def _fill(self, job: SlurmJob, now: float) -> SlurmJob:
        if not job.readable:
            return replace(job, shares=self._shares.get(job.id, ()))
        if job.completing:
            known = {share.node: share for share in self._shares.get(job.id, ())}
            job = replace(job, shares=tuple(known.get(share.node, share) for share in job.shares))
        elif job.shares:
            self._shares[job.id] = job.shares
        if job.state != "PENDING" or not job.restarts:
            self._ends.pop(job.id, None)
        elif job.completing:
            job = replace(job, end_time=self._ends.setdefault(job.id, int(now)))
        elif job.id in self._ends:
            job = replace(job, end_time=self._ends[job.id])
        return job

    def _keep(self, job_ids: Collection[str]) -> None:
        for known in (self._shares, self._ends, self._filled):
            for job_id in [one for one in known if one not in job_ids]:
                del known[job_id]
