"""Which jobs are ours and what service each has had: Slurm's records joined with the journal.

Attained service is kept by run, (job, restart count), in Slurm's own start and end times: a requeue resets the job's run time in
Slurm, and a run that is applied twice, before and after a crash, is still one row. O(jobs + runs of live jobs) a cycle; the journal
is written only where something changed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from tiresias.protocol.job_kind import Key
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.state import own_tasks, pins
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.quarantine import Quarantine
from tiresias.slurm_plugin.state.totals import Place, Totals
from tiresias.slurm_plugin.state.usage import Window, usage

ACTIVE = {"PENDING", "RUNNING", "SUSPENDED"}
# perhaps: a job that ends while it waits starts when it ends, for Slurm
NEVER_RAN = {"CANCELLED", "DEADLINE", "REVOKED"}
IMPOSSIBLE = "BadConstraints"  # Slurm holds what can run nowhere, as on nodes of ours that the owner has just excluded


EVER = Window(0.0, math.inf)
LATE_SECONDS = 3600.0  # for which jobs of a kind are not preempted after one of them missed its deadline


class Avoided(NamedTuple):
    """Nodes on which Slurm did not start a job; others come first until then."""

    nodes: frozenset[str]
    until: float


class Ledger:
    def __init__(self, journal: Journal, scope: Scope, quarantine: Quarantine | None = None) -> None:
        self._journal, self._scope, self._quarantine = journal, scope, quarantine or Quarantine()
        self.jobs: dict[str, JobRow] = {row.id: row for row in journal.live_jobs()}
        self._time = -math.inf  # of the newest snapshot
        self._before = -math.inf  # of the one before it
        self.avoids: dict[str, Avoided] = {}
        self.over = journal.count_past()  # jobs that ran and have ended
        self.resurfaced: list[SlurmJob] = []  # that wait as we had pinned them last, though that was taken off
        self.strays: list[JobRow] = []  # moved to where we do not manage; they are to be let go
        self.runs: dict[str, dict[int, RunRow]] = {row.key: {} for row in self.jobs.values()}
        for run in journal.live_runs():
            self.runs[run.key][run.restart] = run
        self.kinds = journal.kinds()  # that ever ran
        self._proven = journal.proven()  # uid and kind of jobs that parked when they were asked to
        self._late = journal.late()
        self.totals = Totals()
        self._places: dict[str, Place] = {}  # by job id
        # seconds a preemption costs; nan: not known
        self.costs = {row.id: self._cost(row) for row in self.jobs.values()}

    def free(self, job: SlurmJob) -> bool:
        """Whether nobody else keeps this pending job waiting: neither its owner, nor an admin, nor another job."""
        row = self.jobs[job.id]
        ours = row.held or (row.pinned and job.reason == IMPOSSIBLE)
        return not (job.held_by_user or (job.priority == 0 and not ours) or job.dependency)

    def apply(self, snapshot: SlurmSnapshot) -> list[SlurmJob]:
        """Bring rows up to this snapshot; returns the managed jobs that have not ended and are not set aside. Rows of jobs that are
        set aside stay as they are."""
        with self._journal.batch():
            if snapshot.time < self._time:
                self._set_back(snapshot.time)
            if self._time == -math.inf:
                self._skip_the_past(snapshot.time)
            self._before, self._time = self._time, snapshot.time
            self._quarantine.see(snapshot)
            managed = [job for job in snapshot.jobs if not self._scope.why_not(job)]
            self.resurfaced = []
            for job in self._quarantine.sound(managed):
                with self._quarantine.guard("accounting for it", job.id):
                    self._bring_up(job)
            self._let_go_of_others({job.id for job in managed}, snapshot)
        found = (job for job in self._quarantine.sound(managed) if job.id in self.jobs)
        return [own_tasks.restored(self.jobs[job.id], job) for job in found]

    def _skip_the_past(self, now: float) -> None:
        """The totals are of what this controller sees."""
        for row in self.jobs.values():
            self.totals.skip(row.key, usage(row, self._in_order(row), EVER, now))

    def _count(self, row: JobRow) -> None:
        if place := self._places.get(row.id):
            self.totals.count(row.key, place, usage(row, self._in_order(row), EVER, self._time))

    def _in_order(self, row: JobRow) -> list[RunRow]:
        return [run for _, run in sorted(self.runs[row.key].items())]

    def _bring_up(self, job: SlurmJob) -> None:
        if self.observe(job) and job.id in self.jobs:
            row = self.jobs[job.id]
            self._find_forgotten_start(row, job)
            self._note_request(row, own_tasks.restored(row, job))
            self._note_gpus(row, job)

    def _let_go_of_others(self, managed: Collection[str], snapshot: SlurmSnapshot) -> None:
        """Of rows whose jobs are gone, or not managed any more."""
        lost = {job_id for job_id in self.jobs.keys() - managed if not self._quarantine.holds(job_id)}
        self.strays = [self.jobs[job.id] for job in snapshot.jobs if job.id in lost]
        for job_id in lost - {row.id for row in self.strays}:
            with self._quarantine.guard("accounting for its end", job_id):
                self._end(self.jobs[job_id], snapshot.time)

    def _set_back(self, now: float) -> None:
        """The clock was set back: nobody waits for a moment that it had reached before."""
        for row in self.jobs.values():
            if max(row.reset, row.last_preempted, row.not_before) > now:
                row.reset, row.last_preempted = min(row.reset, now), min(row.last_preempted, now)
                row.not_before = min(row.not_before, now)
                self.save(row)
        self.avoids.clear()

    def forget(self, row: JobRow, now: float) -> None:
        """It is no job of ours any more."""
        self._end(row, now)

    def observe(self, job: SlurmJob) -> JobRow | None:
        """Account one record; None for a job that had ended before we ever looked."""
        row = self.jobs.get(job.id)
        if row and self._is_another(row, job):
            self._end(row, float(job.submit_time))
            row = None
        over = job.state not in ACTIVE and not job.completing
        if row is None and job.state not in ACTIVE and not self._ran_unseen(job):
            return None
        row = row or self._reopen(job) or self._meet(job)
        self._places[row.id] = Place(job.partition, job.account)
        self._account(row, job)
        if over:
            self._end(row, float(job.end_time))
        return row

    def _ran_unseen(self, job: SlurmJob) -> bool:
        """It began and ended between two looks: Slurm starts jobs alone while a cycle takes longer than the lease lasts."""
        ended_since = 0 < self._before < job.end_time + 1  # Slurm's seconds are whole
        ran = job.start_time < job.end_time and not job.restarts
        return ended_since and ran and not self._journal.runs(_key(job))

    def save(self, row: JobRow) -> None:
        self._journal.save_job(row)

    def past(self) -> Completed:
        """What a policy can learn from. O(runs that ever were)."""
        gpus, service, submit, uid = np.array(self._journal.past(), np.float64).reshape(-1, 4).T
        nothing = ("",) * len(gpus)
        user = tuple(f"{each:.0f}" for each in uid.tolist())
        return Completed(gpus.astype(np.int64), service, submit, user, nothing, nothing)

    def paces(self) -> list[tuple[int, str, str, float]]:
        return self._journal.paces()

    def runs_of(self, row: JobRow) -> list[RunRow]:
        return list(self.runs[row.key].values())

    def note(
        self, row: JobRow, restart: int, *, restore: float | None = None, save: float | None = None,
        pause: float | None = None, redone: int | None = None, pace: float | None = None,
    ) -> None:  # fmt: skip
        """What a run has cost; None leaves what is known."""
        run = self.runs[row.key].get(restart)
        told = {"restore": restore, "save": save, "pause": pause, "redone": redone, "pace": pace}
        news = {name: value for name, value in told.items() if value is not None and getattr(run, name, None) != value}
        if run is None or not news:
            return
        for name, value in news.items():
            setattr(run, name, value)
        self._journal.save_run(run)
        self._count(row)
        self.costs[row.id] = self._cost(row)
        if pause is not None:
            self._proven.add((row.uid, _kind_or_key(row)))
            self._late.pop((row.uid, _kind_or_key(row)), None)

    def proof(self, row: JobRow) -> int:
        """How sure it is that the job saves when it is asked to: 2: it or one of its kind has, 1: its saves are known, 0: nothing
        is known, or it was late."""
        runs = self.runs[row.key].values()
        if self.late_until(row) > 0:
            return 0
        if (row.uid, _kind_or_key(row)) in self._proven or any(run.pause is not None for run in runs):
            return 2
        return int(any(run.save is not None for run in runs))

    def note_late(self, row: JobRow, now: float) -> None:
        """A job missed its deadline: its kind is not preempted for a while."""
        late = (row.uid, _kind_or_key(row))
        self._late[late] = now
        self._journal.note_late(*late, now)

    def late_until(self, row: JobRow) -> float:
        """Until when jobs of its kind are not preempted because one was late; 0: none was."""
        at = self._late.get((row.uid, _kind_or_key(row)))
        return 0.0 if at is None else at + LATE_SECONDS

    def _cost(self, row: JobRow) -> float:
        """GPUs held without progress: from the signal until they are free (else: the save), and from a start to the first step."""
        runs = [run for _, run in sorted(self.runs[row.key].items(), reverse=True)]
        stops = [one for run in runs if (one := run.save if run.pause is None else run.pause) is not None]
        starts = [run.restore for run in runs if run.restore is not None]
        return stops[0] + starts[0] if stops and starts else math.nan

    def _is_another(self, row: JobRow, job: SlurmJob) -> bool:
        """Slurm gave the id to a new job: fewer restarts than we saw, or a first run that was submitted at another time."""
        newest = max(self.runs[row.key], default=0)
        return job.restarts < newest or (job.restarts == 0 and abs(job.submit_time - row.submit) > 1)

    def _reopen(self, job: SlurmJob) -> JobRow | None:
        """Return the row of a job whose end a killed slurmctld lost; None for any other job.

        The journal has the job's runs and its owner's request; the record shows the controller's pin in place of that request."""
        row = self._journal.job(job.id)
        if row is None or not row.ended:
            return None
        runs = {run.restart: run for run in self._journal.runs(row.key)}
        newest = runs.get(job.restarts)
        if row.key != _key(job) and not (newest and newest.start == job.start_time):
            return None
        row.ended, row.over = False, 0.0
        self.jobs[job.id], self.runs[row.key] = row, runs
        self.save(row)
        return row

    def _meet(self, job: SlurmJob) -> JobRow:
        row = JobRow(key=_key(job), id=job.id, uid=job.uid, submit=float(job.submit_time))
        row.min_nodes, row.max_nodes, row.required, row.excluded = _node_request(job)
        row.min_gpus = row.max_gpus = job.gpus
        row.kind, row.asked = kind(job), own_tasks.write(job) if own_tasks.is_at_risk(job) else ""
        self.jobs[job.id] = row
        self.runs[row.key] = {}
        self.save(row)
        return row

    def _note_request(self, row: JobRow, job: SlurmJob) -> None:
        """The owner may change the request while the job waits; under a pin the record shows ours instead."""
        if job.state != "PENDING" or job.completing or row.pinned:
            return
        if own_tasks.is_at_risk(job) and not own_tasks.is_noted(row, job):
            row.asked = own_tasks.write(job)
            self.save(row)
        if (row.min_nodes, row.max_nodes, row.required, row.excluded) == _node_request(job):
            return
        if self._is_as_we_last_pinned_it(row, job):
            self.resurfaced.append(job)
        else:
            self.adopt_request(row, job)

    def _note_gpus(self, row: JobRow, job: SlurmJob) -> None:
        """Store the GPUs of the request. A running job's record shows what it holds, which may be more (--exclusive)."""
        is_request = job.state == "PENDING" and not job.completing and not row.pinned
        if (is_request or not row.min_gpus) and (row.min_gpus, row.max_gpus) != (job.gpus, job.gpus):
            row.min_gpus = row.max_gpus = job.gpus
            self.save(row)

    def note_class(self, row: JobRow, priority_class: int) -> None:
        """Store the priority class; 0, not known, leaves what is stored."""
        if priority_class not in (0, row.priority_class):
            row.priority_class = priority_class
            self.save(row)

    def note_progress(self, row: JobRow, step: int) -> None:
        """Store the newest step that a run reported; negative: none. The next write of the row takes it to the disk."""
        if step >= 0:
            row.progress = float(step)

    def adopt_request(self, row: JobRow, job: SlurmJob) -> None:
        row.min_nodes, row.max_nodes, row.required, row.excluded = _node_request(job)
        row.unpinnable = ""
        self.save(row)

    def _is_as_we_last_pinned_it(self, row: JobRow, job: SlurmJob) -> bool:
        start = self._journal.last_start(row.key) if job.required_nodes or job.excluded_nodes else None
        return start is not None and pins.is_on(row, job, [node for node, _ in start.nodes])

    def _find_forgotten_start(self, row: JobRow, job: SlurmJob) -> None:
        """A slurmctld that was killed may show a job as it was before our start: held, by us, without the pin that nobody has taken
        off. Who holds a job after our start finds it pinned."""
        held = job.state == "PENDING" and not job.completing and job.priority == 0 and not job.held_by_user
        if held and row.pinned and not row.held and not pins.shows_any(row, job):
            row.held, row.pinned = True, False
            self.save(row)

    def _account(self, row: JobRow, job: SlurmJob) -> None:
        for run in self._open_runs(row):
            if run.restart < job.restarts:
                self._close(run, _end_of_requeued(run, job))
        known, runs = self.runs[row.key].get(job.restarts), job.state in ("RUNNING", "SUSPENDED")
        if job.state == "PENDING" or not job.start_time:
            return
        if not known and job.state in NEVER_RAN and job.start_time == job.end_time:
            return
        run = known or self._open(row, job)
        if runs and run.end:  # slurmctld was killed and has forgotten the requeue
            self._close(run, 0.0)
        elif not runs and not run.end:
            self._close(run, float(job.end_time))

    def _open_runs(self, row: JobRow) -> Iterator[RunRow]:
        return (run for run in self.runs[row.key].values() if not run.end)

    def _open(self, row: JobRow, job: SlurmJob) -> RunRow:
        nodes = ",".join(f"{share.node}:{share.gpus}" for share in job.shares)
        run = RunRow(row.key, job.restarts, float(job.start_time), 0.0, job.gpus, nodes)
        for earlier in self.runs[row.key].values():
            if earlier.end > run.start:  # a requeue by others ended at a second before we saw it
                self._close(earlier, run.start)
        self.runs[row.key][job.restarts] = run
        self._journal.save_run(run)
        self._count(row)
        self.kinds.add((row.uid, row.kind))
        if row.unmovable:
            row.unmovable = ""
            self.save(row)
        return run

    def _close(self, run: RunRow, end: float) -> None:
        """end: 0 when it goes on after all."""
        run.end = end and max(end, run.start)
        self._journal.save_run(run)

    def _end(self, row: JobRow, end: float) -> None:
        for run in self._open_runs(row):
            self._close(run, end)
        row.ended, row.over = True, max(end, row.submit)
        self.save(row)
        self.over += bool(self.runs[row.key])
        del self.jobs[row.id], self.runs[row.key]
        self.avoids.pop(row.id, None)
        self.costs.pop(row.id, None)
        self._places.pop(row.id, None)
        self.totals.forget(row.key)


def _key(job: SlurmJob) -> str:
    """Of a job that was never requeued: a requeue moves the submit time."""
    return f"{job.id}@{job.submit_time}"


def kind(job: SlurmJob) -> str:
    """As in JobRow."""
    return Key(job.name, job.script, job.gpus).file if job.script else ""


def _kind_or_key(row: JobRow) -> str:
    """What stands for jobs that save alike: a job that tsbatch did not submit is a kind of its own."""
    return row.kind or row.key


def _end_of_requeued(run: RunRow, job: SlurmJob) -> float:
    """A waiting job's end time is that of its last run, any other's that of the present one. The submit time is when COMPLETING was
    over, and until then an older one."""
    waits = job.state == "PENDING" and job.end_time
    end = job.end_time if waits or job.submit_time < run.start else job.submit_time
    return max(float(end), run.start)


def _node_request(job: SlurmJob) -> tuple[int, int, str, str]:
    """min_nodes, max_nodes, required and excluded nodes as in JobRow."""
    return job.min_nodes, job.max_nodes, ",".join(job.required_nodes), ",".join(job.excluded_nodes)
