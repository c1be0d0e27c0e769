"""Sets the comments of waiting jobs, from calls to slurmctld that nothing else needs.

A pass compares the wanted texts with those that were set before, and spends at most `per_minute` calls a minute: on each text that
changed, one call to set it, and one call a pass to read the comments first, so that no comment of others is changed. Between that
reading and the setting lie a few milliseconds in which an admin's comment would be lost. Comments are kept by record number: array
tasks that share a record have one comment.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from tiresias.slurm_plugin.backends.budget import Bucket
from tiresias.slurm_plugin.backends.protocol import Backend, CommentField, JobRefused, SlurmJob, SlurmUnavailable
from tiresias.slurm_plugin.cluster.arrays import together
from tiresias.slurm_plugin.comments.waiting_text import Wanted, is_ours
from tiresias.slurm_plugin.config import Comment as CommentConfig

log = logging.getLogger("tiresias")

PASS_INTERVAL_S = 3.0  # between two passes at least: each reads comments once
SHARE = 20.0  # passes take a twentieth of the controller's time at most
PASS_LIMIT_S = 0.3  # that a pass may take: starts wait for it
REMOVAL_LIMIT_S = 10.0  # that a controller that stops may take to remove its comments
READ_AT_ONCE = 500  # records whose comments are read by one call
SET_AT_ONCE = 50  # jobs that get the same text by one command


class _Set(NamedTuple):
    """A text that was set, "" for none, and when."""

    text: str
    at: float


NEVER_SET = _Set("", -math.inf)


class CommentWriter:
    """`spare`: calls to slurmctld that nothing else needs now. `may_administer`: Slurm lets this user set AdminComment."""

    def __init__(
        self, config: CommentConfig, backend: Backend, may_administer: bool, spare: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._config, self._backend, self._spare, self._clock = config, backend, spare, clock
        self._bucket = Bucket(config.per_minute, config.per_minute / 60.0, clock)
        self._set: dict[int, _Set] = {}  # by record
        self._next_pass = -math.inf
        self.field = _field(config.field, may_administer)

    def write(
        self, wanted: Callable[[], Iterable[Wanted]], jobs: Sequence[SlurmJob], starting: Collection[str],
        promised: Collection[str],
    ) -> None:  # fmt: skip
        """One pass; comments of ours that are not wanted are removed. Never raises for what Slurm refuses.

        Args:
            wanted: the texts of the waiting jobs, the most urgent first.
            jobs: the managed ones.
            starting: ids of jobs whose start is under way: the start itself removes the comment.
            promised: ids of those, and of jobs whose start follows preemptions that are under way.
        """
        now = self._clock()
        if self.field is None or now < self._next_pass:
            return
        try:
            self._pass(wanted, jobs, starting, promised, now)
        finally:
            took = self._clock() - now
            self._next_pass = now + took + max(PASS_INTERVAL_S, SHARE * took)

    def _pass(
        self, wanted: Callable[[], Iterable[Wanted]], jobs: Sequence[SlurmJob], starting: Collection[str],
        promised: Collection[str], now: float,
    ) -> None:  # fmt: skip
        self._meet(jobs, starting)
        due = self._due(list(wanted()), [job for job in jobs if job.id not in promised], now)[: self._affordable()]
        if due:
            self._carry_out(due, now + PASS_LIMIT_S)

    def remove_all(self, jobs: Sequence[SlurmJob]) -> bool:
        """Remove every comment of ours; False: some may be left, because Slurm or the time did not allow it."""
        if self.field is None:
            return True
        self._meet(jobs, ())
        due = self._removals([job for job in jobs if self._set[job.raw_id].text])
        return not due or self._carry_out(due, self._clock() + REMOVAL_LIMIT_S)

    def _meet(self, jobs: Sequence[SlurmJob], starting: Collection[str]) -> None:
        """Records that are new get the text that they show; those that are gone are forgotten."""
        assert self.field
        alive = {job.raw_id: job for job in jobs}
        for record in self._set.keys() - alive.keys():
            del self._set[record]
        for record, job in alive.items():
            known, shown = self._set.get(record), job.comments.of(self.field)
            if job.id in starting:
                self._set[record] = NEVER_SET
            elif known is None or (known is NEVER_SET and job.state == "RUNNING"):  # a start that did not remove it
                self._set[record] = _Set(shown, -math.inf) if is_ours(shown) else NEVER_SET

    def _due(self, wanted: Sequence[Wanted], jobs: Sequence[SlurmJob], now: float) -> list[Wanted]:
        """What is to be set now: removals first, then the most urgent texts."""
        keep = {one.record for one in wanted}
        stale = [job for job in jobs if self._set[job.raw_id].text and job.raw_id not in keep]
        new = [one for one in wanted if one.text != self._set[one.record].text and self._is_old(one.record, now)]
        return self._removals(stale) + new

    @staticmethod
    def _removals(jobs: Sequence[SlurmJob]) -> list[Wanted]:
        return [Wanted(name, several[0].raw_id, "") for name, several in together(jobs).items()]

    def _is_old(self, record: int, now: float) -> bool:
        return now - self._set[record].at >= self._config.interval

    def _affordable(self) -> int:
        """Texts, besides the reading call."""
        return max(int(min(self._bucket.tokens, self._spare())) - 1, 0)

    def _carry_out(self, due: Sequence[Wanted], deadline: float) -> bool:
        """False: not all of it, because Slurm or the time did not allow it."""
        try:
            for at in range(0, len(due), READ_AT_ONCE):
                for text, several in _by_text(self._unspoiled(due[at : at + READ_AT_ONCE])):
                    if self._clock() >= deadline or self.field is None:
                        return False
                    self._set_text(text, several)
        except SlurmUnavailable as error:
            log.info("comments: %s", error)
            return False
        return True

    def _unspoiled(self, due: Sequence[Wanted]) -> list[Wanted]:
        """Those whose comment is empty or ours."""
        assert self.field
        self._bucket.take(1)
        found, kept = self._backend.comments([one.record for one in due]), []
        for one in due:
            shown = found[one.record].of(self.field) if one.record in found else None
            if shown is not None and (not shown or is_ours(shown)) and shown != one.text:
                kept.append(one)
            else:  # the job is gone, or the comment is another's: looked at again after the interval
                self._set[one.record] = _Set(shown if shown is not None and is_ours(shown) else "", self._clock())
        return kept

    def _set_text(self, text: str, several: Sequence[Wanted]) -> None:
        assert self.field
        self._bucket.take(len(several))
        shown = ""  # not known while it is not done: it is read again after the interval
        try:
            self._backend.set_comment([one.name for one in several], self.field, text)
            shown = text
        except JobRefused as error:  # a job ended meanwhile, or this user may not set it
            log.info("comments: %s", error)
            self._give_up(str(error))
        finally:
            for one in several:
                self._set[one.record] = _Set(shown, self._clock())

    def _give_up(self, words: str) -> None:
        if "denied" in words:
            log.warning(
                "no comments of waiting jobs from now on: Slurm does not let this user set %s: %s", self.field, words
            )
            self.field = None


def _field(configured: str, may_administer: bool) -> CommentField | None:
    if configured == "none":
        return None
    return "AdminComment" if configured == "AdminComment" or (configured == "auto" and may_administer) else "Comment"


def _by_text(due: Iterable[Wanted]) -> list[tuple[str, list[Wanted]]]:
    """In the order of the first of each text."""
    groups: dict[str, list[Wanted]] = {}
    for one in due:
        groups.setdefault(one.text, []).append(one)
    return [
        (text, several[at : at + SET_AT_ONCE])
        for text, several in groups.items()
        for at in range(0, len(several), SET_AT_ONCE)
    ]
