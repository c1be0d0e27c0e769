"""The operations of a release: the controller gives jobs back to Slurm, because it stops or acts for a dead one (fail open)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from tiresias.durable.database import StateError
from tiresias.slurm_plugin.backends.interface import JobRefused, NoSuchJob, SlurmJob, SlurmUnavailable
from tiresias.slurm_plugin.cluster.arrays import together
from tiresias.slurm_plugin.observation.job_phases import settled_at
from tiresias.slurm_plugin.state import pins
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.quarantine import OF_ALL_JOBS
from tiresias.slurm_plugin.transitions.endings import Ending
from tiresias.slurm_plugin.transitions.forgotten import ForgottenChanges
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext
from tiresias.slurm_plugin.transitions.transition_engine import STAY, Operations, Result, TransitionEngine
from tiresias.slurm_plugin.transitions.transition_table import Operation


class Releasing:
    """Removes the controller's holds and pins, and leaves those of others."""

    def __init__(
        self, context: TransitionContext, holds: JobHolds, engine: TransitionEngine, forgotten: ForgottenChanges
    ) -> None:
        self._context, self._holds, self._engine, self._forgotten = context, holds, engine, forgotten

    @property
    def operations(self) -> Operations:
        """The operations of the transition table that this class executes."""
        return {Operation.UNPIN: self._unpin, Operation.LIFT: self._lift}

    def release(self, job_id: str) -> None:
        """Give a job back to Slurm. Raises JobRefused, SlurmUnavailable, StateError.

        The row of the job is its journal: what is left of the hold and the pin stands there."""
        row = self._context.ledger.jobs[job_id]
        release = Intent(row.key, job_id, 0, IntentKind.RELEASE, IntentStep.PINNED)
        while self._engine.execute(release, 0.0):
            pass

    def release_dependent(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Release held jobs that depend on others.

        Slurm does not examine the dependencies of a held job (measured on 26.05): the job would wait for them for ever. An owner
        adds one to a job that is held, or a hold meets a job of which a killed slurmctld shows it again.
        """
        for job in (one for one in jobs if one.dependency and one.held_by_admin and not one.completing):
            row = self._context.ledger.jobs.get(job.id)  # None: it has ended since the snapshot
            is_controllers = row is not None and row.held and job.id not in self._context.intents
            if is_controllers and settled_at(job, now) <= now:
                with self._context.quarantine.guard("its release", job.id):
                    self._holds.attempt(self.release, job.id, now)

    def _unpin(self, intent: Intent, now: float) -> Result:
        row, job = self._context.ledger.jobs[intent.id], self._context.backend.job(intent.id)
        if job.state == "PENDING" and row.pinned:
            with suppress(JobRefused, StateError):  # it started all the same; a pin hurts less than a hold
                if job.priority > 0 and not pins.is_of_pending_job(row):  # released a moment ago: it may start
                    self._holds.note_hold(row)
                    self._context.backend.hold(intent.id)
                self._holds.unpin(intent.id)
        return STAY if job.held_by_user else IntentStep.HELD

    def _lift(self, intent: Intent, now: float) -> Result:
        self._holds.lift(intent.id)
        return STAY

    def release_all(self, now: float, set_aside: Callable[[SlurmJob], bool] = lambda job: False) -> list[str]:
        """Lift every hold and pin of the controller, and the begin time of new jobs that were `set_aside` for it.

        Returns what could not be lifted, one line each.
        """
        problems = []
        for intent in list(self._context.intents.values()):
            with suppress(StateError):
                self._engine.finish(intent, Ending.RELEASED.end(), now)
        self._release_together(lambda job: set_aside(job) and job.begin_time > now)
        for row in [row for row in self._context.ledger.jobs.values() if self._is_to_release(row)]:
            self._context.progress()
            try:
                self.release(row.id)
            except (NoSuchJob, StateError):  # the holds are lifted, whether or not that can be journaled
                pass
            except (JobRefused, SlurmUnavailable) as error:
                problems.append(f"job {row.id} stays held: {error}; scontrol release {row.id}")
            except OF_ALL_JOBS:
                raise
            except Exception as error:  # a defect that this job meets must not keep others held
                self._context.quarantine.add("its release", error, row.id)
                problems.append(f"job {row.id}: {type(error).__name__}: {error}; scontrol release {row.id}")
        return problems

    def _is_to_release(self, row: JobRow) -> bool:
        return row.held or (row.pinned and not self._context.runs(row.id))

    def _release_together(self, sits_out: Callable[[SlurmJob], bool]) -> None:
        """Release the jobs that never ran and that nothing but the controller keeps pending: the most by far, with one call for
        each record of Slurm's. What fails here is left to the releases of single jobs."""
        with suppress(SlurmUnavailable, JobRefused, StateError):
            jobs = self._context.ledger.apply(self._context.backend.snapshot())
            self._forgotten.find_releases(jobs)
            new = [job for job in jobs if job.state == "PENDING" and not job.restarts]
            self._begin_now(job for job in new if sits_out(job))
            rows = self._context.ledger.jobs
            self._lift_together(
                job for job in new if job.held_by_admin and rows[job.id].held and not rows[job.id].pinned
            )

    def _begin_now(self, jobs: Iterable[SlurmJob]) -> None:
        for name, several in together(jobs).items():
            self._context.progress()
            with self._context.quarantine.guard("its release", *_ids(several)), suppress(JobRefused):  # it has ended
                self._context.backend.begin_now(name)

    def _lift_together(self, jobs: Iterable[SlurmJob]) -> None:
        for name, several in together(jobs).items():
            self._context.progress()
            with self._context.quarantine.guard("its release", *_ids(several)), suppress(JobRefused):
                self._context.backend.lift(name)
                with self._context.journal.batch():
                    for job in several:
                        self._holds.note_release(self._context.ledger.jobs[job.id])


def _ids(jobs: Iterable[SlurmJob]) -> list[str]:
    return [job.id for job in jobs]
