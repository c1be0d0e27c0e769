"""Slurm, for who leads: before each verb it is asked once more whether we still do.

Slurm knows no epochs. A process that is stopped between that question and the verb, and wakes up when somebody else leads, has
acted out of turn: too late to prevent. Whatever it did ended no run that has not saved (act.py looks at the job just before), but a
hold or a pin that nobody remembers would keep its job waiting for ever. So the question is asked again after the verb, and where
the answer has changed, a note goes to who leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from tiresias.slurm_plugin.backends.interface import (
    Backend,
    CommentField,
    Comments,
    RequestChange,
    SlurmJob,
    SlurmLoad,
    SlurmSnapshot,
)
from tiresias.slurm_plugin.backends.rules import SlurmRules
from tiresias.slurm_plugin.lead.leadership import Leadership, Superseded
from tiresias.slurm_plugin.state.database import Damaged
from tiresias.slurm_plugin.state.journal import Journal


class FencedBackend:
    """A Backend whose verbs raise Superseded when somebody else leads."""

    def __init__(self, backend: Backend, leadership: Leadership, journal: Journal) -> None:
        self._backend, self._leadership, self._journal = backend, leadership, journal
        self.name, self.why = backend.name, backend.why

    def version(self) -> str:
        return self._backend.version()

    def booted(self) -> float:
        return self._backend.booted()

    def topology(self) -> str:
        return self._backend.topology()

    def load(self, uid: int) -> SlurmLoad:
        return self._backend.load(uid)

    def snapshot(self) -> SlurmSnapshot:
        return self._backend.snapshot()

    def rules(self) -> SlurmRules:
        return self._backend.rules()

    def job(self, job_id: str) -> SlurmJob:
        return self._backend.job(job_id)

    def hold(self, job_id: str) -> None:
        with self._turn("hold", job_id):
            self._backend.hold(job_id)

    def release(self, job_id: str) -> None:
        with self._turn("release", job_id):
            self._backend.release(job_id)

    def lift(self, job_id: str) -> None:
        with self._turn("release", job_id):
            self._backend.lift(job_id)

    def begin_now(self, job_id: str) -> None:
        with self._turn("begin", job_id):
            self._backend.begin_now(job_id)

    def pin(self, job_id: str, change: RequestChange) -> None:
        with self._turn("start", job_id):
            self._backend.pin(job_id, change)

    def prioritize(self, job_id: str) -> None:
        with self._turn("prioritize", job_id):
            self._backend.prioritize(job_id)

    def unpin(self, job_id: str, change: RequestChange) -> None:
        with self._turn("unpin", job_id):
            self._backend.unpin(job_id, change)

    def signal(self, job_id: str, signal: str) -> None:
        with self._turn("signal", job_id):
            self._backend.signal(job_id, signal)

    def requeue(self, job_id: str) -> int:
        with self._turn("requeue", job_id):
            return self._backend.requeue(job_id)

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        with self._turn("requeue", job_ids[0]):
            self._backend.requeue_together(job_ids)

    def comments(self, records: Sequence[int]) -> Mapping[int, Comments]:
        return self._backend.comments(records)

    def set_comment(self, names: Sequence[str], field: CommentField, text: str) -> None:
        with self._turn("comment", names[0]):
            self._backend.set_comment(names, field, text)

    def close(self) -> None:
        self._backend.close()

    @contextmanager
    def _turn(self, verb: str, job_id: str) -> Iterator[None]:
        self._check()
        try:
            yield
        finally:
            try:
                self._check()
            except Superseded:
                self._leadership.tell(f"{verb}-{job_id}")
                raise

    def _check(self) -> None:
        """Two witnesses: either may be out of reach, or sabotaged."""
        self._leadership.renew()
        with suppress(Damaged):  # it has nothing to tell; nothing but what was held is released now
            self._journal.check()
