"""Sets the comments of jobs with calls to slurmctld that no other operation needs.

A pass compares the requested texts with those set before, and makes at most `per_minute` calls a minute: one call to set
each changed text, and one call a pass to read the comments first, so that no comment of a user or administrator is changed.
An administrator's comment written in the few milliseconds between that read and the write would be lost. Comments are kept
by record number: array tasks that share a record have one comment.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from tiresias.slurm_plugin.backends.budget import Bucket
from tiresias.slurm_plugin.backends.interface import Backend, CommentField, JobRefused, SlurmJob, SlurmUnavailable
from tiresias.slurm_plugin.cluster.arrays import together
from tiresias.slurm_plugin.comments.waiting_text import WaitingComment, is_own_comment
from tiresias.slurm_plugin.config import Comment as CommentConfig

log = logging.getLogger("tiresias")

PASS_INTERVAL_S = 3.0  # shortest time between two passes: each reads comments once
PAUSE_PER_PASS_TIME = 20.0  # a pass is followed by this multiple of its time: passes take 1/20 of the controller's time
PASS_LIMIT_S = 0.3  # longest pass: starts are delayed by it
REMOVAL_LIMIT_S = 10.0  # longest removal of all comments when the controller stops
MAX_RECORDS_PER_READ = 500
MAX_JOBS_PER_WRITE = 50  # jobs that get the same text by one command


class _Set(NamedTuple):
    """A text set earlier, "" for none, and its time."""

    text: str
    at: float


NEVER_SET = _Set("", -math.inf)
UNREAD = _Set("not read", -math.inf)  # of a job with a text that has started or was requeued since: a start removes it


class CommentWriter:
    """Writes comments pass by pass.

    Args:
        config: the section [comment]
        backend: of Slurm
        may_administer: whether Slurm lets this user set AdminComment
        spare: returns the number of calls to slurmctld that no other operation needs now
        clock: seconds
    """

    def __init__(
        self,
        config: CommentConfig,
        backend: Backend,
        may_administer: bool,
        spare: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._backend, self._spare, self._clock = config, backend, spare, clock
        self._bucket = Bucket(config.per_minute, config.per_minute / 60.0, clock)
        self._set: dict[int, _Set] = {}  # by record
        self._runs: dict[int, tuple[int, bool]] = {}  # Slurm's restart count, and whether the job runs, by record
        self._next_pass = -math.inf
        self.field = _field(config.field, may_administer)

    def write(
        self,
        requested: Callable[[], Iterable[WaitingComment]],
        jobs: Sequence[SlurmJob],
        starting: Collection[str],
        promised: Collection[str],
    ) -> None:
        """Make one pass; comments of the controller that are not requested are removed. A refusal by Slurm is logged, not raised.

        Args:
            requested: returns the texts of the waiting jobs, the most urgent first.
            jobs: the managed jobs.
            starting: ids of jobs whose start is in progress: the start itself removes the comment.
            promised: ids of those, and of jobs whose start follows preemptions in progress.
        """
        now = self._clock()
        if self.field is None or now < self._next_pass:
            return
        try:
            self._pass(requested, jobs, starting, promised, now)
        finally:
            took = self._clock() - now
            self._next_pass = now + took + max(PASS_INTERVAL_S, PAUSE_PER_PASS_TIME * took)

    def _pass(
        self,
        requested: Callable[[], Iterable[WaitingComment]],
        jobs: Sequence[SlurmJob],
        starting: Collection[str],
        promised: Collection[str],
        now: float,
    ) -> None:
        self._update_records(jobs, starting)
        due = self._due(list(requested()), [job for job in jobs if job.id not in promised], now)[: self._affordable()]
        if due:
            self._carry_out(due, now + PASS_LIMIT_S)

    def remove_all(self, jobs: Sequence[SlurmJob]) -> bool:
        """Remove every comment of the controller; return False if some may be left, for lack of time or because of Slurm."""
        if self.field is None:
            return True
        self._update_records(jobs, ())
        due = self._removals([job for job in jobs if self._set[job.raw_id].text])
        return not due or self._carry_out(due, self._clock() + REMOVAL_LIMIT_S)

    def _update_records(self, jobs: Sequence[SlurmJob], starting: Collection[str]) -> None:
        """Store the shown text of new records, and forget records that are gone."""
        assert self.field
        alive = {job.raw_id: job for job in jobs}
        for record in self._set.keys() - alive.keys():
            del self._set[record], self._runs[record]
        for record, job in alive.items():
            known, shown = self._set.get(record), job.comments.of(self.field)
            run = job.restarts, job.state == "RUNNING"
            has_changed = self._runs.get(record, run) != run
            self._runs[record] = run
            if job.id in starting:
                self._set[record] = NEVER_SET
            elif known is None or (known is NEVER_SET and job.state == "RUNNING"):
                self._set[record] = _Set(shown, -math.inf) if is_own_comment(shown) else NEVER_SET
            elif has_changed and known.text:
                self._set[record] = UNREAD

    def _due(self, requested: Sequence[WaitingComment], jobs: Sequence[SlurmJob], now: float) -> list[WaitingComment]:
        """Return the texts to set now: removals first, then the most urgent texts."""
        keep = {one.record for one in requested}
        stale = [job for job in jobs if self._set[job.raw_id].text and job.raw_id not in keep]
        new = [one for one in requested if one.text != self._set[one.record].text and self._is_old(one.record, now)]
        return self._removals(stale) + new

    @staticmethod
    def _removals(jobs: Sequence[SlurmJob]) -> list[WaitingComment]:
        return [WaitingComment(name, several[0].raw_id, "") for name, several in together(jobs).items()]

    def _is_old(self, record: int, now: float) -> bool:
        return now - self._set[record].at >= self._config.interval

    def _affordable(self) -> int:
        """Return the number of texts that may be set, besides the reading call."""
        return max(int(min(self._bucket.tokens, self._spare())) - 1, 0)

    def _carry_out(self, due: Sequence[WaitingComment], deadline: float) -> bool:
        """Set the texts; return False if some are left, for lack of time or because of Slurm."""
        try:
            for at in range(0, len(due), MAX_RECORDS_PER_READ):
                for text, several in _by_text(self._replaceable(due[at : at + MAX_RECORDS_PER_READ])):
                    if self._clock() >= deadline or self.field is None:
                        return False
                    self._set_text(text, several)
        except SlurmUnavailable as error:
            log.info("comments: %s", error)
            return False
        return True

    def _replaceable(self, due: Sequence[WaitingComment]) -> list[WaitingComment]:
        """Return those whose present comment is empty or the controller's."""
        assert self.field
        self._bucket.take(1)
        found, kept = self._backend.comments([one.record for one in due]), []
        for one in due:
            shown = found[one.record].of(self.field) if one.record in found else None
            if shown is not None and (not shown or is_own_comment(shown)) and shown != one.text:
                kept.append(one)
            else:  # the job is gone, or the comment is not the controller's: checked again after the interval
                self._set[one.record] = _Set(
                    shown if shown is not None and is_own_comment(shown) else "", self._clock()
                )
        return kept

    def _set_text(self, text: str, several: Sequence[WaitingComment]) -> None:
        assert self.field
        self._bucket.take(len(several))
        shown = ""  # unknown until the call has succeeded: read again after the interval
        try:
            self._backend.set_comment([one.name for one in several], self.field, text)
            shown = text
        except JobRefused as error:  # a job has ended, or this user may not set it
            log.info("comments: %s", error)
            self._give_up(str(error))
        finally:
            for one in several:
                self._set[one.record] = _Set(shown, self._clock())

    def _give_up(self, words: str) -> None:
        if "denied" in words:
            log.warning("no comments of jobs from now on: Slurm does not let this user set %s: %s", self.field, words)
            self.field = None


def _field(configured: str, may_administer: bool) -> CommentField | None:
    if configured == "none":
        return None
    return "AdminComment" if configured == "AdminComment" or (configured == "auto" and may_administer) else "Comment"


def _by_text(due: Iterable[WaitingComment]) -> list[tuple[str, list[WaitingComment]]]:
    """Group jobs by text, in the order of the first job of each."""
    groups: dict[str, list[WaitingComment]] = {}
    for one in due:
        groups.setdefault(one.text, []).append(one)
    return [
        (text, several[at : at + MAX_JOBS_PER_WRITE])
        for text, several in groups.items()
        for at in range(0, len(several), MAX_JOBS_PER_WRITE)
    ]
