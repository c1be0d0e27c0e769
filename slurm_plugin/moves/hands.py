"""What all moves have in common: the records seen last, the intents under way, and small deeds of which each may be done again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from tiresias.slurm_plugin.admission.refusals import MAX_BACKOFF, Refusals
from tiresias.slurm_plugin.backends.protocol import Backend, CommentField, JobRefused, NoSuchJob, SlurmJob
from tiresias.slurm_plugin.config import Preemption as PreemptionConfig
from tiresias.slurm_plugin.state import pins
from tiresias.slurm_plugin.state.database import StateError
from tiresias.slurm_plugin.state.journal import Decision, Intent, JobRow, Journal
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.quarantine import Quarantine

RUNS = ("RUNNING", "SUSPENDED")


class Hands:
    """intents: what is under way, by job id. news: what happened since the daemon last looked."""

    def __init__(
        self, backend: Backend, journal: Journal, ledger: Ledger, config: PreemptionConfig, refusals: Refusals,
        quarantine: Quarantine | None = None,
    ) -> None:  # fmt: skip
        self._backend, self._journal, self._ledger, self._config = backend, journal, ledger, config
        self._refusals, self._quarantine = refusals, quarantine or Quarantine()
        self.intents: dict[str, Intent] = {one.id: one for one in journal.open_intents()}
        self._seen: Mapping[str, SlurmJob] | None = None
        self._seen_at = -math.inf
        self._looked: dict[str, float] = {}  # when it was last looked whether a job has gone
        self.news: list[Decision] = []
        # Called before each job that is acted on: no call hangs for ever.
        self.progress: Callable[[], None] = lambda: None
        # whether no begin time of its owner's keeps a job waiting
        self.has_begun: Callable[[SlurmJob, float], bool] = lambda job, now: True
        self.comment_field: CommentField | None = None  # in which waiting jobs have a comment of ours

    def see(self, jobs: Sequence[SlurmJob], at: float = math.inf) -> None:
        """The newest records, for the steps that need no fresher ones. at: when Slurm was asked for them."""
        self._seen, self._seen_at = {job.id: job for job in jobs}, at

    # an intent

    def _next(self, intent: Intent, step: str, now: float) -> bool:
        self._journal.step(intent, step, now)
        return True

    def _finish(self, intent: Intent, outcome: str, now: float) -> bool:
        self._journal.finish(intent, outcome)
        self.intents.pop(intent.id, None)
        self._looked.pop(intent.id, None)
        action, _, why = outcome.partition(": ")
        self._say(now, intent.id, action, why)
        return False

    def _row(self, intent: Intent) -> JobRow | None:
        """Our row of the very job that the intent is about, unless it ended."""
        row = self._ledger.jobs.get(intent.id)
        return row if row and row.key == intent.key else None

    def _say(self, now: float, job_id: str, action: str, why: str) -> None:
        self.news.append(Decision(now, job_id, action, why))

    # a job as Slurm has it

    def _record(self, job_id: str) -> SlurmJob | None:
        """As the last snapshot had it."""
        return (self._seen or {}).get(job_id)

    def _fresh(self, job_id: str) -> SlurmJob | None:
        try:
            return self._backend.job(job_id)
        except NoSuchJob:
            return None

    def _runs(self, job_id: str) -> bool:
        job = self._record(job_id)
        return job is not None and job.state in RUNS and not job.completing

    # what is written down of a job

    def _mark_unmovable(self, intent: Intent, why: str) -> None:
        if row := self._row(intent):
            row.unmovable = why
            self._ledger.save(row)

    def _back_off(self, row: JobRow, now: float) -> None:
        row.not_before = now + self._config.backoff * min(2**row.failures, MAX_BACKOFF)
        row.failures += 1
        self._ledger.save(row)

    def _remember_hold(self, row: JobRow) -> None:
        """Before the hold: a hold that nobody remembers would never be lifted. Written even where it says so already: the journal
        takes no write of who leads no longer, and so nobody holds what another controller has just released."""
        row.held = True
        self._ledger.save(row)

    def _remember_release(self, row: JobRow) -> None:
        """After the release, for the same reason."""
        row.held = False
        self._ledger.save(row)

    def _find_forgotten_releases(self, jobs: Iterable[SlurmJob]) -> None:
        """A start is two calls, a pin and a release. A slurmctld that was killed when it had saved the first alone, or neither,
        comes back with our hold, as if an admin held the job; so does one that forgot that we had let a job go on that was to be
        preempted. An admin may hold it; but where slurmctld is younger than the move, and knows no run after it, we more likely."""
        for job in jobs:
            with self._quarantine.guard("looking for a forgotten release", job.id):
                row = self._ledger.jobs[job.id]
                suspicious = job.held_by_admin and not job.completing and not row.held
                if suspicious and self._slurmctld_forgot(row, job):
                    self._remember_hold(row)

    def _find_forgotten_unpins(self) -> None:
        """A slurmctld that was killed may show the pin that we had taken off; else it is its owner who wants those nodes again."""
        for job in self._ledger.resurfaced:
            with self._quarantine.guard("looking for a forgotten unpin", job.id):
                row, start = self._ledger.jobs[job.id], self._journal.last_start(self._ledger.jobs[job.id].key)
                if start and self._backend.booted() >= math.floor(start.began):
                    row.pinned = True
                    self._ledger.save(row)
                else:
                    self._ledger.adopt_wishes(row, job)

    def _slurmctld_forgot(self, row: JobRow, job: SlurmJob) -> bool:
        """What it shows may be older than a requeue, or an end: then we take it for a new job."""
        moves = self._journal.releases_of(job.id)
        moves = [one for one in moves if one.key == row.key or one.began >= job.submit_time - 1]
        if not moves:
            return False
        given_up = moves[0].kind != "start"  # that job ran on, and waits after the run that it was in
        if moves[0].restart + given_up < job.restarts:
            return False
        starts = [[node for node, _ in one.nodes] for one in moves if one.kind == "start"]
        if row.pinned and not any(pins.is_on(row, job, nodes) for nodes in starts):
            return False
        return self._backend.booted() >= math.floor(moves[0].began)  # in whole seconds

    # holds and pins

    def _lift(self, job_id: str) -> None:
        """The hold, if it is ours."""
        row = self._ledger.jobs[job_id]
        if row.held:
            try:
                self._backend.release(job_id)
            except JobRefused:
                job = self._fresh(job_id)
                if job is None or job.priority == 0:
                    raise
                # Slurm lifts the hold of a job that no partition serves, and then reports PartitionConfig as an error.
            self._remember_release(row)

    def _unpin(self, job_id: str) -> None:
        row = self._ledger.jobs[job_id]
        self._backend.unpin(job_id, pins.unpin(row))
        row.pinned = False
        self._ledger.save(row)

    def _release(self, job_id: str) -> None:
        """Give a job back to Slurm: without any hold or pin of ours, but with those of others."""
        row, job = self._ledger.jobs[job_id], self._backend.job(job_id)
        if job.state == "PENDING" and row.pinned:
            with suppress(JobRefused, StateError):  # it started all the same; a pin hurts less than a hold
                if job.priority > 0:  # released a moment ago: no pin is changed under a job that may start
                    self._remember_hold(row)
                    self._backend.hold(job_id)
                self._unpin(job_id)
        if not job.held_by_user:
            self._lift(job_id)

    def _try(self, verb: Callable[[str], None], job_id: str, now: float) -> bool:
        """A verb whose refusal changes nothing: the next snapshot tells. False: it was refused."""
        self.progress()
        try:
            verb(job_id)
        except JobRefused as error:
            self._say(now, job_id, "refused", str(error))
            return False
        return True


def is_in_run(job: SlurmJob | None, intent: Intent) -> bool:
    """Whether the run that the intent is about goes on."""
    return job is not None and job.restarts == intent.restart and job.state in RUNS and not job.completing
