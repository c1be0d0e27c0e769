"""What a decision reads of a job's record and row alone, kept as arrays from cycle to cycle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import ObjectPlaces
from tiresias.slurm_plugin.observation.job_phases import CLEAN_UP_S, SETTLE_S, decision_state
from tiresias.slurm_plugin.observation.requests import base_request
from tiresias.slurm_plugin.state import job_claims, own_size
from tiresias.slurm_plugin.state.change_stamps import newest_stamp, stamps_of
from tiresias.slurm_plugin.state.journal_rows import JobRow

NO_KIND = (0, "")


class JobFacts(NamedTuple):
    """The facts of one job, or an array of each fact for many jobs.

    Attributes:
        competes: It competes for GPUs.
        pending: Slurm's state of it is PENDING.
        runs: It is RUNNING and not completing.
        restarts: As in its record.
        phase: Its `JobState` while no transition is open.
        ended: Epoch second of the end of a completing job; -inf: it is not completing.
        begins: Epoch second before which its owner's begin time delays it.
        not_before: Epoch second before which it backs off.
        requeued: Epoch second of the newest requeue of a job that was requeued, else nan.
        since: Epoch second from which service and waiting time count.
        preempted: As in `Jobs`; so are gpus, submit, min_gpus, max_gpus, gpu_step, priority_class, progress and virtual_cluster.
        avoids_until: Epoch second until when it avoids nodes.
        claims: It has claimed remaining work.
        has_servers: Its request has parameter servers on CPUs alone.
        takes_whole_nodes: It waits, and gets whole nodes (--exclusive).
        kind: Its uid and kind.
        request: Its request while no nodes are closed to it.
    """

    competes: Any
    pending: Any
    runs: Any
    restarts: Any
    phase: Any
    ended: Any
    begins: Any
    not_before: Any
    requeued: Any
    since: Any
    gpus: Any
    submit: Any
    preempted: Any
    min_gpus: Any
    max_gpus: Any
    gpu_step: Any
    priority_class: Any
    progress: Any
    avoids_until: Any
    claims: Any
    has_servers: Any
    takes_whole_nodes: Any
    virtual_cluster: Any
    kind: Any
    request: Any

    def of_rows(self, rows: Any) -> JobFacts:
        """Return the facts of some of the jobs. rows: indices, or a truth value for each job."""
        return JobFacts(*(column[rows] for column in self))

    def counts_as_ended(self, now: float) -> Any:
        """Return which completing jobs count as ended (job_phases.py)."""
        return now - self.ended < CLEAN_UP_S

    def settled(self, now: float) -> Any:
        """Return when requeued jobs may start again; 0 for other jobs (job_phases.py)."""
        return np.where(self.requeued <= now + SETTLE_S, self.requeued + SETTLE_S, 0.0)

    def is_due(self, now: float) -> Any:
        """Return which jobs neither a begin time, nor the back-off, nor the clean-up of their last run delays."""
        return (np.maximum(self.not_before, self.settled(now)) <= now) & (self.begins <= now)


_TYPES: dict[str, Any] = (
    dict[str, Any].fromkeys(JobFacts._fields, np.float64)
    | dict[str, Any].fromkeys(("competes", "pending", "runs", "claims", "has_servers", "takes_whole_nodes"), np.bool_)
    | dict[str, Any].fromkeys(
        ("restarts", "phase", "gpus", "min_gpus", "max_gpus", "gpu_step", "priority_class"), np.int64
    )
    | dict[str, Any].fromkeys(("virtual_cluster", "kind", "request"), np.object_)
)


def facts_of(job: SlurmJob, row: JobRow, competes: bool, begins_alone: bool) -> JobFacts:
    """Return the facts of a job.

    Args:
        job: Its record.
        row: Its row.
        competes: Whether it competes for GPUs.
        begins_alone: Whether its begin time is none of its owner's.
    """
    sizes = own_size.sizes(row)
    return JobFacts(
        competes=competes,
        pending=job.state == "PENDING",
        runs=job.state == "RUNNING" and not job.completing,
        restarts=job.restarts,
        phase=decision_state(job, None),
        ended=job.end_time if job.completing else -math.inf,
        begins=-math.inf if begins_alone else job.begin_time,
        not_before=row.not_before,
        requeued=job.submit_time if job.restarts else math.nan,
        since=max(row.submit, row.reset),
        gpus=job.gpus,
        submit=row.submit,
        preempted=row.last_preempted or math.nan,
        min_gpus=row.min_gpus or job.gpus,
        max_gpus=row.max_gpus or job.gpus,
        gpu_step=own_size.step(row, job),
        priority_class=row.priority_class,
        progress=math.nan if row.progress is None else row.progress,
        avoids_until=max(row.failed_until, row.slow_until),
        claims=job_claims.claim_of(row) is not None,
        has_servers=sizes is not None and sizes.servers is not None,
        takes_whole_nodes=job.exclusive and job.state == "PENDING" and not job.completing,
        virtual_cluster=row.virtual_cluster,
        kind=(row.uid, row.kind) if row.kind else NO_KIND,
        request=base_request(job, row),
    )


class FactTable:
    """The facts of the jobs of the newest call. Those of a job are computed again where its record or its row has changed.

    Args:
        compute: Returns the facts of a job from its record and row.
    """

    def __init__(self, compute: Callable[[SlurmJob, JobRow], JobFacts]) -> None:
        self._compute, self._places = compute, ObjectPlaces()
        self._rows: Sequence[JobRow] = ()
        self._newest = -1  # of all stamps, when those of the rows were read
        self._stamps = np.zeros(1, np.int64)  # the last row is none of a job
        self._facts = JobFacts(*(np.zeros(1, _TYPES[name]) for name in JobFacts._fields))

    def of(self, jobs: Sequence[SlurmJob], rows: Sequence[JobRow]) -> JobFacts:
        """Return the facts of the jobs, arrays of shape (jobs,). O(jobs log(jobs)), with a call of `compute` for each that has
        changed."""
        newest, count = newest_stamp(), len(jobs)
        is_same = rows is self._rows and self._places.are(jobs)
        stamps = self._stamps[:-1] if is_same and newest == self._newest else stamps_of(rows)
        if is_same and np.array_equal(stamps, self._stamps[:-1]):
            self._newest = newest
            return self._facts.of_rows(slice(count))
        places = ObjectPlaces(jobs)
        place = places.in_others(self._places)
        changed = np.flatnonzero((place < 0) | (self._stamps[place] != stamps))
        facts = self._facts.of_rows(np.append(place, -1))
        self._fill(facts, changed, [self._compute(jobs[at], rows[at]) for at in changed.tolist()])
        self._places, self._stamps, self._facts = places, np.append(stamps, -1), facts
        self._newest, self._rows = newest, rows
        return facts.of_rows(slice(count))

    @staticmethod
    def _fill(facts: JobFacts, rows: Any, found: Sequence[JobFacts]) -> None:
        for column, values in zip(facts, zip(*found, strict=True), strict=True) if found else ():
            filled = np.empty(len(values), column.dtype)
            filled[:] = values if column.dtype != np.object_ else _objects(values)
            column[rows] = filled


def _objects(values: Sequence[Any]) -> Any:
    """Return an array of the objects themselves, also where these are tuples."""
    found = np.empty(len(values), np.object_)
    for at, value in enumerate(values):
        found[at] = value
    return found
