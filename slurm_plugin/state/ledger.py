"""Which jobs are managed and what service each attained: Slurm's records joined with the journal.

Attained service is kept by run (run_accounting.py). O(jobs + runs of live jobs) a cycle; the journal is written only where
something changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import compress, filterfalse

import numpy as np

from tiresias.protocol.job_kind import Key
from tiresias.scheduler.estimates.claims import Trust
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.estimates.loss_history import LossChanges
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.backends.record_values import RecordValues, are_same, id_of
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.state import avoided_nodes, job_claims, own_tasks, owner_requests
from tiresias.slurm_plugin.state.applied_records import AppliedRecords
from tiresias.slurm_plugin.state.former_jobs import FormerJobs, first_key
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.owner_requests import OwnerRequests
from tiresias.slurm_plugin.state.quarantine import Quarantine
from tiresias.slurm_plugin.state.run_accounting import RunAccounting
from tiresias.slurm_plugin.state.save_proof import SaveProof
from tiresias.slurm_plugin.state.usage_accounting import UsageAccounting, in_order

ACTIVE = {"PENDING", "RUNNING", "SUSPENDED"}
IMPOSSIBLE = (
    "BadConstraints"  # Slurm holds a job that can run nowhere, as on pinned nodes that the owner has just excluded
)


class Ledger:
    """The managed jobs that have not ended, with their runs.

    Attributes:
        jobs: Rows by job id.
        runs: Runs by the job's key and the restart count.
        population: A number that changes whenever a row is added or removed.
        over: Number of jobs that ran and have ended.
        resurfaced: Jobs of the newest snapshot that wait with their newest pin, although it was removed.
        strays: Rows of jobs that moved to unmanaged partitions or nodes and are to be released.
        kinds: uid and kind of all jobs that ever ran.
        trust: Trust in the claims of each user whose jobs claimed anything, by uid.
        saves: Which jobs are known to save on request.
        requests: The owners' requests.
        usage: What preemptions cost, and the totals by partition and account.
        history: Reads the runs of ended jobs, too.
        measured: What jobs reported.
    """

    def __init__(self, journal: Journal, scope: Scope, quarantine: Quarantine | None = None) -> None:
        self._journal, self._scope, self._quarantine = journal, scope, quarantine or Quarantine()
        self._is_managed = RecordValues(lambda job: not scope.why_not(job))
        self._applied = AppliedRecords()
        self.jobs: dict[str, JobRow] = {row.id: row for row in journal.live_jobs()}
        self._former = FormerJobs(journal, self.jobs)
        self._time = -math.inf  # of the newest snapshot
        self._before = -math.inf  # of the one before it
        self.population = 0
        self.over = journal.count_past()
        self.resurfaced: list[SlurmJob] = []
        self.strays: list[JobRow] = []
        self.runs: dict[str, dict[int, RunRow]] = {row.key: {} for row in self.jobs.values()}
        for run in journal.live_runs():
            self.runs[run.key][run.restart] = run
        self.kinds = journal.kinds()
        self.saves, self.requests = SaveProof(journal), OwnerRequests(journal)
        self.usage = UsageAccounting(journal, self.jobs, self.runs, self.saves)
        self.history: History = journal
        self.measured = journal.progress
        self._accounting = RunAccounting(journal, self._opened)
        # the population of which all jobs were in these records
        self._complete: tuple[int, Sequence[SlurmJob]] = (-1, ())
        self.trust: dict[int, Trust] = {}
        for uid, claimed, needed in journal.past_claims():
            self.trust[uid] = self.trust_in(uid).learned(claimed, needed)

    def is_reopened(self, row: JobRow) -> bool:
        """Return whether the job's run had ended, and a slurmctld that was killed shows it running again."""
        return row.key in self._accounting.reopened

    def free(self, job: SlurmJob) -> bool:
        """Return whether neither its owner nor an administrator nor another job keeps this pending job waiting."""
        row = self.jobs[job.id]
        is_controllers = row.held or (row.pinned and job.reason == IMPOSSIBLE)
        return not (job.held_by_user or (job.priority == 0 and not is_controllers) or job.dependency)

    def apply(self, snapshot: SlurmSnapshot) -> list[SlurmJob]:
        """Update the rows from a snapshot; return the managed jobs that have not ended and are not set aside.

        Rows of jobs that are set aside stay as they are.
        """
        with self._journal.batch():
            if snapshot.time < self._time:
                self._set_back(snapshot)
            self.usage.begin_cycle(snapshot.time)
            self._before, self._time = self._time, snapshot.time
            self._quarantine.see(snapshot)
            self._former.renew()
            managed = list(compress(snapshot.jobs, self._is_managed.of(snapshot.jobs)))
            self.resurfaced, self.requests.cluster = [], tuple(snapshot.nodes)
            for job in self._applied.others(self._quarantine.sound(managed), self.jobs, self.population):
                with self._quarantine.guard("accounting for it", job.id):
                    self._bring_up(job)
            self._let_go_of_others(managed, snapshot)
        return self._applied.restored(self._quarantine.sound(managed), self.jobs, self.population)

    def _bring_up(self, job: SlurmJob) -> None:
        if self.observe(job) and job.id in self.jobs:
            row = self.jobs[job.id]
            self.requests.find_forgotten_start(row, job)
            restored = own_tasks.restored(row, job)
            resurfaced = self.requests.note(row, job if own_tasks.is_elastic(row) else restored)
            self.requests.note_stated(row, job, restored)
            if resurfaced:  # until its owner's request is in the record again
                self.resurfaced.append(restored)
            else:
                self._applied.add(job, row)

    def _let_go_of_others(self, managed: Sequence[SlurmJob], snapshot: SlurmSnapshot) -> None:
        """End the rows whose jobs are gone, and collect those that are no longer managed."""
        if self.population == self._complete[0] and are_same(managed, self._complete[1]):
            self.strays = []
            return
        others = list(filterfalse(set(map(id_of, managed)).__contains__, self.jobs))
        lost = {job_id for job_id in others if not self._quarantine.holds(job_id)}
        self.strays = [self.jobs[job.id] for job in snapshot.jobs if job.id in lost] if lost else []
        for job_id in lost - {row.id for row in self.strays}:
            with self._quarantine.guard("accounting for its end", job_id):
                self._end(self.jobs[job_id], snapshot.time)
        self._complete = (-1, ()) if others else (self.population, managed)

    def _set_back(self, snapshot: SlurmSnapshot) -> None:
        """Correct the rows after the clock was set back: no job waits for a moment that the clock had reached before, and no run
        ended after the present. Where Slurm's own times lie ahead too, the clock is slow now, and the ends of runs are right."""
        self._applied.clear()
        now = snapshot.time
        is_slow = any(job.submit_time > now + 1 for job in snapshot.jobs)  # Slurm's seconds are whole
        for row in self.jobs.values():
            if not is_slow:
                self._accounting.set_back(self.runs[row.key].values(), now)
            if avoided_nodes.set_back(row, now) or max(row.reset, row.last_preempted, row.not_before) > now:
                row.reset, row.last_preempted = min(row.reset, now), min(row.last_preempted, now)
                row.not_before = min(row.not_before, now)
                self.save(row)

    def forget(self, row: JobRow, now: float) -> None:
        """End the row of a job that is no longer managed."""
        self._end(row, now)

    def observe(self, job: SlurmJob) -> JobRow | None:
        """Account one record; return its row, None for a job that had ended before the first snapshot with it."""
        row, was_held = self.jobs.get(job.id), False
        if row and self.is_another(row, job):
            self._end(row, float(job.submit_time))
            self._former.replaced(row)
            was_held, row = row.held, None
        over = job.state not in ACTIVE and not job.completing
        if row is None and job.state not in ACTIVE and not self._ran_unseen(job):
            return None
        was_held = was_held or (row is None and self._former.hold_met(job))
        row = row or self._reopen(job) or self._meet(job)
        if was_held and job.held_by_admin and not row.held:  # the hold of the job before met this one
            row.held = True
            self.save(row)
        self.usage.note_place(row, job)
        self._accounting.account(row, job, self.runs[row.key])
        if over:
            self._end(row, float(job.end_time))
        return row

    def _ran_unseen(self, job: SlurmJob) -> bool:
        """Return whether it began and ended between two snapshots: in a long cycle the lease ends, and Slurm starts jobs alone."""
        ended_since = 0 < self._before < job.end_time + 1  # Slurm's seconds are whole
        ran = job.start_time < job.end_time and not job.restarts
        return ended_since and ran and not self._journal.runs(first_key(job))

    def save(self, row: JobRow) -> None:
        """Write a changed row to the journal."""
        self._journal.save_job(row)

    def save_progress(self, runs: Iterable[RunRow], losses: Iterable[tuple[str, LossChanges, int]]) -> None:
        """Write what was measured, in one transaction. losses: key, changes and reports a point of each history."""
        with self._journal.batch():
            for run in runs:
                self._journal.save_run(run)
            for key, changes, reports in losses:
                self.measured.store_losses(key, changes, reports)

    def past(self) -> Completed:
        """Return all completed jobs, for policies that learn. O(all runs)."""
        gpus, service, submit, uid = np.array(self._journal.past(), np.float64).reshape(-1, 4).T
        nothing = ("",) * len(gpus)
        user = tuple(f"{each:.0f}" for each in uid.tolist())
        return Completed(gpus.astype(np.int64), service, submit, user, nothing, nothing)

    def paces(self) -> list[tuple[int, str, str, float]]:
        """Return the measured seconds a step of all runs, as Journal.paces does."""
        return self._journal.paces()

    def trust_in(self, uid: int) -> Trust:
        """Return the trust in a user's claims of remaining work."""
        return self.trust.get(uid, Trust())

    def runs_of(self, row: JobRow) -> list[RunRow]:
        """Return the job's runs."""
        return list(self.runs[row.key].values())

    def run(self, row: JobRow, restart: int) -> RunRow | None:
        """Return a run of a job; None: it is not known."""
        return self.runs[row.key].get(restart)

    def proof(self, row: JobRow) -> int:
        """Return how certain it is that the job saves on request: 0, 1 or 2 (SaveProof.level)."""
        return self.saves.level(row, self.runs[row.key].values())

    def is_another(self, row: JobRow, job: SlurmJob) -> bool:
        """Return whether Slurm gave the id to a new job: fewer restarts than before, or another submit time of the first run.

        A killed slurmctld forgets jobs of its last seconds, and may give such an id again a second later.
        """
        newest = max(self.runs[row.key], default=0)
        return job.restarts < newest or (job.restarts == 0 and job.submit_time != row.submit)

    def _reopen(self, job: SlurmJob) -> JobRow | None:
        """Add the row of a job whose end a killed slurmctld lost again; None for any other job."""
        found = self._former.with_lost_end(job)
        if found is None:
            return None
        row, runs = found
        row.ended, row.over = False, 0.0
        self.jobs[job.id], self.runs[row.key] = row, runs
        self.population += 1
        self.save(row)
        return row

    def _meet(self, job: SlurmJob) -> JobRow:
        row = JobRow(key=first_key(job), id=job.id, uid=job.uid, submit=float(job.submit_time))
        owner_requests.read(row, job)
        row.min_gpus = row.max_gpus = job.gpus
        row.kind, row.asked = kind(job, job.script), own_tasks.write(job) if own_tasks.is_at_risk(job) else ""
        row.opportunistic = self._former.choice(job)
        self.jobs[job.id] = row
        self.runs[row.key] = {}
        self.population += 1
        self.save(row)
        return row

    def note_cells(self, row: JobRow, job: SlurmJob, cells: str) -> None:
        """Store which cells of its virtual cluster the present run holds, as owned_cells.py writes them.

        A killed slurmctld may count a second run like the first one, which it has forgotten: that one keeps its cells.
        """
        run = self.runs[row.key].get(job.restarts)
        if run is not None and run.start == job.start_time and run.cells != cells:
            run.cells = cells
            self._journal.save_run(run)

    def note_cluster(self, row: JobRow, virtual_cluster: str) -> None:
        """Store the virtual cluster of a job."""
        if row.virtual_cluster != virtual_cluster:
            row.virtual_cluster = virtual_cluster
            self.save(row)

    def note_class(self, row: JobRow, priority_class: int) -> None:
        """Store the priority class; 0, not known, leaves what is stored."""
        if priority_class not in (0, row.priority_class):
            row.priority_class = priority_class
            self.save(row)

    def note_script(self, job: SlurmJob, script: str) -> None:
        """Store the kind by the script that the job's supervisor reports; "", not known, leaves what is stored."""
        row, found = self.jobs[job.id], kind(job, script)
        if script and row.kind != found:
            row.kind = found
            self.kinds.add((row.uid, found))
            self.save(row)

    def note_progress(self, row: JobRow, step: int) -> None:
        """Store the newest step that a run reported; negative: none. The next write of the row takes it to the disk."""
        if step >= 0 and row.progress != step:
            row.progress = float(step)

    def _opened(self, row: JobRow) -> None:
        self.usage.count(row)
        self.kinds.add((row.uid, row.kind))
        if row.unmovable:
            row.unmovable = ""
            self.save(row)

    def _end(self, row: JobRow, end: float) -> None:
        self._accounting.close(self.runs[row.key].values(), end)
        if row.earliest_left is not None:
            self.trust[row.uid] = job_claims.learned(self.trust_in(row.uid), row, in_order(self.runs[row.key]), end)
        row.ended, row.over = True, max(end, row.submit)
        self.save(row)
        self.over += bool(self.runs[row.key])
        del self.jobs[row.id], self.runs[row.key]
        self.population += 1
        self.usage.forget(row)


def kind(job: SlurmJob, script: str) -> str:
    """Return the kind of a job with that script, as in JobRow."""
    return Key(job.name, script, job.gpus).file if script else ""
