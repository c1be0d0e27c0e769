"""The losses that jobs reported, and the speeds of jobs of a kind, in the journal."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import numpy as np

from tiresias.protocol.job_kind import same_script
from tiresias.scheduler.estimates.loss_history import LossChanges, LossPoints

KEPT_S = 86400.0  # the losses of an ended job
ENDED_LOOKED_AT = 1000  # jobs of a user, the newest ones
RUNS_OF_A_KIND = 64


class StoredLosses(NamedTuple):
    """The losses of a job.

    Attributes:
        points: The curve.
        reports_a_point: As many reports are the mean of one point.
    """

    points: LossPoints
    reports_a_point: int


class KindRun(NamedTuple):
    """A timed run: its nodes as in RunRow, its GPUs, what was measured, and its servers; samples are None where not reported."""

    nodes: str
    gpus: int
    timed: float
    samples: float | None
    servers: int


class JournalProgress:
    """Reads and writes the table of losses; only the leader writes (journal.py)."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def losses(self, key: str) -> StoredLosses:
        """Return the losses of a job."""
        found = self._db.execute("select step, loss, reports from loss where key = ? order by step", (key,)).fetchall()
        rows = np.array(found, np.float64).reshape(-1, 3)
        return StoredLosses(LossPoints(rows[:, 0], rows[:, 1]), int(rows[:, 2].max(initial=1.0)))

    def store_losses(self, key: str, changes: LossChanges, reports_a_point: int) -> None:
        """Write what has changed in the losses of a job."""
        self._db.execute("delete from loss where key = ? and step > ?", (key, changes.after))
        rows = [(key, step, loss, reports_a_point) for step, loss in changes.points]
        self._db.executemany("insert or replace into loss values (?, ?, ?, ?)", rows)

    def forget_losses(self, since: float, before: float) -> None:
        """Delete the losses of the jobs that ended in a period, epoch seconds. O(jobs that ended in it)."""
        ended = "select key from job where over > ? and over <= ?"
        self._db.execute(f"delete from loss where key in ({ended})", (max(since, 0.0), before))

    def runs_of_kind(self, uid: int, kind: str, but: str) -> list[KindRun]:
        """Return the newest timed runs of a user's jobs with the script and the name of a kind, of any size, oldest first.

        Args:
            uid: The user.
            kind: As in JobRow.
            but: The key of a job whose own runs are left out.
        """
        live = "select key, kind from job where ended = 0 and uid = ?1"
        ended = f"select * from (select key, kind from job where uid = ?1 and over > 0 order by over desc limit {ENDED_LOOKED_AT})"
        query = (
            f"select nodes, run.gpus, timed, samples, run.servers from ({live} union all {ended}) join run using (key) "
            f"where kind glob ?2 and key != ?3 and timed is not null order by start desc limit {RUNS_OF_A_KIND}"
        )
        found = self._db.execute(query, (uid, same_script(kind), but))
        return [KindRun(*row) for row in found.fetchall()[::-1]]
