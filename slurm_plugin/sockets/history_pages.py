"""Jobs in the journal, for clients of the control socket: `{"op": "history"}`, page by page.

    {"op": "history", "since": t, "until": t, "uid": n, "after": cursor}   one page: "jobs", and "next": where the next one begins
    {"op": "history", "job": "12"}                                         all jobs that ever had this id, with their runs

All keys but "op" and "job" are optional. A page has JOBS_PER_PAGE jobs at most, only requested ones that the user may see,
so neither a page nor its cursor (cursor.py) depends on other users' jobs. A page takes some 10 ms, so that other viewers
need not wait; each is a read transaction of its own, so that the controller's writes do not wait for readers. privacy.py
decides what users see.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets.cursor import Cursors
from tiresias.slurm_plugin.sockets.privacy import Privacy
from tiresias.slurm_plugin.state.journal_history import FIRST_POSITION, History, HistoryPosition
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.usage import Usage, Window, usage

JOBS_PER_PAGE = 200  # jobs
MAX_JOBS_OF_AN_ID = 20  # of one id, the newest
ALL_TIME = Window(0.0, math.inf)


class PageRequest(NamedTuple):
    """A checked request.

    Attributes:
        window: the period
        after: a cursor, None for the first page
        uid: owner of the jobs; None: all users
    """

    window: Window
    after: object
    uid: int | None


class HistoryPages:
    """Answers history requests; used by the socket's thread only."""

    def __init__(self, journal: Path, privacy: Privacy) -> None:
        self._journal, self._privacy = journal, privacy
        self._history: History | None = None
        self._cursors = Cursors()

    def answer(self, request: Mapping[str, Any], uid: int) -> dict[str, Any]:
        """Return one page, or one job.

        Raises:
            TiresiasError: the request is invalid, or the journal cannot be read.
        """
        try:
            if isinstance(request.get("job"), str):
                return self._job(request["job"], uid, time.time())
            return self._page(_asked(request), uid, time.time())
        except sqlite3.Error as error:
            raise unreadable(self._journal, error) from None

    @property
    def history(self) -> History:
        """The journal, opened for reading."""
        self._history = self._history or History.of(self._journal)
        return self._history

    def _page(self, ask: PageRequest, uid: int, now: float) -> dict[str, Any]:
        place = self._cursors.place(ask.after, uid) if ask.after else FIRST_POSITION
        hidden = self._privacy.hides_jobs_from(uid)
        if hidden and ask.uid not in (None, uid):
            return {"time": now, "jobs": [], "next": None}
        rows = self.history.jobs_after(place, ask.window.since, JOBS_PER_PAGE, uid if hidden else ask.uid)
        jobs = [_job(row, self.history.runs(row.key), ask.window, now) for row in rows if row.submit < ask.window.until]
        last = (
            self._cursors.seal(HistoryPosition(rows[-1].over, rows[-1].key), uid)
            if len(rows) == JOBS_PER_PAGE
            else None
        )
        return {"time": now, "jobs": jobs, "next": last}

    def _job(self, job_id: str, uid: int, now: float) -> dict[str, Any]:
        shown = [row for row in self.history.jobs_with_id(job_id, MAX_JOBS_OF_AN_ID) if self._shows(row, uid)]
        if not shown and (task := self._task_of(job_id, uid)):
            raise TiresiasError(f"job {job_id}: an array, whose tasks have runs of their own; name one, such as {task}")
        if not shown:
            raise TiresiasError(f"job {job_id}: not in the journal, which contains jobs of the managed partitions only")
        return {"time": now, "jobs": [self._whole(row, now) for row in shown], "next": None}

    def _task_of(self, array: str, uid: int) -> str:
        """Return a task of an array that the user may see; "": there is none."""
        tasks = (row for task in self.history.ids_of(array) for row in self.history.jobs_with_id(task, 1))
        return next((row.id for row in tasks if self._shows(row, uid)), "")

    def _whole(self, row: JobRow, now: float) -> dict[str, Any]:
        runs, beneficiaries = self.history.runs(row.key), self.history.beneficiaries(row.key)
        each_run = [run_of(run, beneficiaries) for run in runs]
        return {**_job(row, runs, ALL_TIME, now), "each_run": each_run}

    def _shows(self, row: JobRow, uid: int) -> bool:
        return row.uid == uid or not self._privacy.hides_jobs_from(uid)


def run_of(run: RunRow, beneficiaries: Mapping[int, str]) -> dict[str, Any]:
    """Return a run as it is published."""
    return {
        "restart": run.restart, "start": run.start, "end": run.end, "gpus": run.gpus, "servers": run.servers,
        "nodes": run.nodes.split(","),
        "restore": run.restore, "save": run.save, "pause": run.pause, "redone": run.redone,
        "timed": run.timed, "expected": run.expected, "lost": run.lost, "beneficiary": beneficiaries.get(run.restart, ""),
    }  # fmt: skip


def unreadable(journal: Path, error: sqlite3.Error) -> TiresiasError:
    """Return the error for a journal that cannot be read."""
    return TiresiasError(f"the journal {journal} cannot be read: {error}")


def _job(row: JobRow, runs: list[RunRow], window: Window, now: float) -> dict[str, Any]:
    sums = usage(row, runs, window, now)
    about = {"id": row.id, "uid": row.uid, "submit": row.submit, "end": row.over, "gpus": runs[-1].gpus if runs else 0}
    return about | rounded(sums)


def rounded(sums: Usage) -> dict[str, float]:
    """Return the sums of a job as they are published."""
    return {name: round(value, 3) for name, value in sums._asdict().items()}


def _asked(request: Mapping[str, Any]) -> PageRequest:
    """Check a client's request."""
    try:
        window = Window(_moment(request.get("since", 0.0)), _moment(request.get("until", math.inf)))
        uid = request.get("uid")
        return PageRequest(window, request.get("after"), uid if uid is None else int(uid))
    except (TypeError, ValueError, OverflowError):
        raise TiresiasError('a history request is {"op": "history", "since": 0, "until": 1e10}') from None


def _moment(value: Any) -> float:
    moment = float(value)
    if math.isnan(moment):
        raise ValueError(value)
    return moment
