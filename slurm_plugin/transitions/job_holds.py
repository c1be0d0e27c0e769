"""Holds and pins of single jobs, each with what must be journaled of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiresias.slurm_plugin.admission.refusals import MAX_BACKOFF
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmJob
from tiresias.slurm_plugin.state import avoided_nodes, pins
from tiresias.slurm_plugin.state.intents import Intent, IntentOutcome
from tiresias.slurm_plugin.state.job_reasons import Unmovable, stored
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext


class JobHolds:
    """Small operations, all idempotent."""

    def __init__(self, context: TransitionContext) -> None:
        self._context = context
        self._reported: dict[tuple[str, str], float] = {}  # when refusals of the last back-off were reported

    def note_hold(self, row: JobRow) -> None:
        """Journal a hold before it is placed: a hold without a row would never be lifted.

        It is written even where the row has it already: the journal refuses the write of a superseded controller, which therefore
        cannot hold a job that its successor has just released."""
        row.held = True
        self._context.ledger.save(row)

    def note_release(self, row: JobRow) -> None:
        """Journal a release after it was made, for the same reason."""
        row.held = False
        self._context.ledger.save(row)

    def hold_pending(self, name: str, jobs: Sequence[SlurmJob], now: float) -> None:
        """Hold pending jobs with one call. name: Slurm's own for all of them."""
        with self._context.journal.batch():
            for job in jobs:
                self.note_hold(self._context.ledger.jobs[job.id])
        self.attempt(self._context.backend.hold, name, now)

    def lift(self, job_id: str) -> None:
        """Lift the hold, if the controller placed it."""
        row = self._context.ledger.jobs[job_id]
        if row.held:
            try:
                self._context.backend.release(job_id)
            except JobRefused:
                job = self._context.fresh(job_id)
                if job is None or job.priority == 0:
                    raise
                # Slurm lifts the hold of a job that no partition serves, and then reports PartitionConfig as an error.
            self.note_release(row)

    def unpin(self, job_id: str) -> None:
        """Give a job its owner's request back."""
        row = self._context.ledger.jobs[job_id]
        self._context.backend.unpin(job_id, pins.unpin(row))
        row.pinned = False
        self._context.ledger.save(row)

    def attempt(self, operation: Callable[[str], None], job_id: str, now: float) -> bool:
        """Execute an operation whose refusal changes nothing, as the next snapshot shows; False where Slurm refused it.

        The next cycle may repeat it. The same refusal is reported again after the back-off.
        """
        self._context.progress()
        try:
            operation(job_id)
        except JobRefused as error:
            self._report(job_id, str(error), now)
            return False
        return True

    def _report(self, job_id: str, why: str, now: float) -> None:
        backoff = self._context.config.backoff
        self._reported = {each: at for each, at in self._reported.items() if abs(now - at) < backoff}
        if (job_id, why) not in self._reported:
            self._reported[job_id, why] = now
            self._context.add_news(now, job_id, IntentOutcome.REFUSED, why)

    def mark_unmovable(self, intent: Intent, why: Unmovable, parameter: str) -> None:
        """Journal that this run is not preempted any more."""
        if row := self._context.row(intent):
            row.unmovable = stored(why, parameter)
            self._context.ledger.save(row)

    def back_off(self, row: JobRow, now: float, failed: Sequence[str] = ()) -> None:
        """Journal that the job is not started again for a while, twice as long after each failure.

        failed: nodes on which Slurm did not start it; it avoids them for two such times.
        """
        seconds = self._context.config.backoff * min(2**row.failures, MAX_BACKOFF)
        row.not_before = now + seconds
        row.failures += 1
        if failed:
            avoided_nodes.note_failed_start(row, failed, now + 2 * seconds)
        self._context.ledger.save(row)
