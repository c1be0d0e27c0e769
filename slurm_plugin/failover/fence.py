"""A back end for the leader: before each operation it brings the journal to the disk and checks that this process still leads.

Slurm does not check epochs. A process that is stopped between the check and the operation, and continues when another controller
leads, has acted without the lead; that cannot be prevented. It has ended no run that has not saved (act.py reads the job's record
just before), but a hold or a pin that no journal records would keep its job pending for ever. So the check is repeated after the
operation, and if the lead was lost, a note is left for the new leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from tiresias.durable.database import Damaged
from tiresias.durable.leadership import Leadership, Superseded
from tiresias.slurm_plugin.backends.interface import (
    Backend,
    CommentField,
    Comments,
    RequestChange,
    SlurmJob,
    SlurmLoad,
    SlurmSnapshot,
    StatedGpus,
)
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.state.journal import Journal


class FencedBackend:
    """A Backend whose operations raise Superseded if another controller leads; see Backend for each."""

    def __init__(self, backend: Backend, leadership: Leadership, journal: Journal) -> None:
        self._backend, self._leadership, self._journal = backend, leadership, journal
        self.name, self.why = backend.name, backend.why

    def version(self) -> str:
        """Return Slurm's version."""
        return self._backend.version()

    def booted(self) -> float:
        """Return when slurmctld started, in epoch seconds."""
        return self._backend.booted()

    def topology(self, name: str = "") -> str:
        """Return Slurm's topology as text."""
        return self._backend.topology(name)

    def load(self, uid: int) -> SlurmLoad:
        """Return the load of slurmctld."""
        return self._backend.load(uid)

    def snapshot(self) -> SlurmSnapshot:
        """Return all jobs and nodes."""
        return self._backend.snapshot()

    def rules(self) -> SlurmRules:
        """Return Slurm's own rules on starts."""
        return self._backend.rules()

    def job(self, job_id: str) -> SlurmJob:
        """Return the current record of one job."""
        return self._backend.job(job_id)

    def stated_gpus(self, job_id: str) -> tuple[StatedGpus, ...]:
        """Return the GPUs of a job's request."""
        return self._backend.stated_gpus(job_id)

    def batch_script(self, job_id: str) -> bytes:
        """Return the batch script of a job."""
        return self._backend.batch_script(job_id)

    def hold(self, job_id: str) -> None:
        """Hold a job."""
        with self._turn("hold", job_id):
            self._backend.hold(job_id)

    def release(self, job_id: str) -> None:
        """Lift a hold and the begin time of a requeue."""
        with self._turn("release", job_id):
            self._backend.release(job_id)

    def lift(self, job_id: str) -> None:
        """Lift a hold only."""
        with self._turn("release", job_id):
            self._backend.lift(job_id)

    def begin_now(self, job_id: str) -> None:
        """Remove the begin time of a pending job."""
        with self._turn("begin", job_id):
            self._backend.begin_now(job_id)

    def pin(self, job_id: str, change: RequestChange) -> None:
        """Change the request of a held job so that it starts on the planned nodes."""
        with self._turn("start", job_id):
            self._backend.pin(job_id, change)

    def prioritize(self, job_id: str) -> None:
        """Move a released job to the front of its partition tier."""
        with self._turn("prioritize", job_id):
            self._backend.prioritize(job_id)

    def unpin(self, job_id: str, change: RequestChange) -> None:
        """Restore the request of a held job."""
        with self._turn("unpin", job_id):
            self._backend.unpin(job_id, change)

    def signal(self, job_id: str, signal: str) -> None:
        """Send a signal to the batch step of a job."""
        with self._turn("signal", job_id):
            self._backend.signal(job_id, signal)

    def requeue(self, job_id: str) -> int:
        """Requeue a job; return the end of its run."""
        with self._turn("requeue", job_id):
            return self._backend.requeue(job_id)

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        """Requeue several jobs at nearly the same time."""
        with self._turn("requeue", job_ids[0]):
            self._backend.requeue_together(job_ids)

    def comments(self, records: Sequence[int]) -> Mapping[int, Comments]:
        """Return the comments of jobs."""
        return self._backend.comments(records)

    def set_comment(self, names: Sequence[str], field: CommentField, text: str) -> None:
        """Set a comment of several jobs."""
        with self._turn("comment", names[0]):
            self._backend.set_comment(names, field, text)

    def close(self) -> None:
        """Close the connection to Slurm."""
        self._backend.close()

    @contextmanager
    def _turn(self, operation: str, job_id: str) -> Iterator[None]:
        self._journal.sync()  # what was journaled for this operation
        self._check()
        try:
            yield
        finally:
            try:
                self._check()
            except Superseded:
                self._leadership.leave_note(f"{operation}-{job_id}")
                raise

    def _check(self) -> None:
        """Check the lease and the journal: either may be unavailable or damaged."""
        self._leadership.renew()
        with suppress(Damaged):  # it has no epoch to check; the only operations now are releases
            self._journal.check()
