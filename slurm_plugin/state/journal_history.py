"""Reads the journal: jobs, their runs and decisions about them."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tiresias.slurm_plugin.state.intents import SAVING, IntentKind, IntentOutcome
from tiresias.slurm_plugin.state.journal_progress import JournalProgress
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow, RunRow, columns, job_row
from tiresias.slurm_plugin.state.watched import Watched, WouldRow


class HistoryPosition(NamedTuple):
    """The position of a job in the order of the ends; FIRST_POSITION comes before all.

    Attributes:
        over: epoch second of its end; 0 of a live one.
        key: the job, as the journal names it.
    """

    over: float
    key: str


# The nodes of the start that was decided for a run whose own are not known, JSON.
PLANNED = (
    "select intent.nodes from intent where run.nodes = '' and intent.key = run.key and intent.restart = run.restart "
    "and intent.kind = 'start' order by seq desc limit 1"
)
SERVED = (
    "select key, uid, id, ended, over from job where ended = 0 "
    "union all select key, uid, id, ended, over from job where ended = 1 and over > ?"
)
LIVE_KINDS = "select key, uid, kind, over from job where ended = 0"
ENDED_KINDS = "select key, uid, kind, over from job where over > ? order by over desc, key limit ?"
FIRST_POSITION = HistoryPosition(0.0, "")


class EndedRun(NamedTuple):
    """One run of an ended job.

    Attributes:
        nodes: as in RunRow.
        failed: whether it failed.
        end: epoch second.
        uid: of the owner.
        kind: the job's kind, or its key where it has none.
        slow_nodes: the nodes on which the job's ranks were slow, as in JobRow.
    """

    nodes: str
    failed: bool
    end: float
    uid: int
    kind: str
    slow_nodes: str


class NodesOfRun(NamedTuple):
    """Where and when a run was, and its speed.

    Attributes:
        nodes: as in RunRow.
        start, end: epoch seconds; end: 0 while it runs.
        gpus: its GPUs.
        uid: of the owner.
        kind: as in JobRow.
        timed: as in RunRow.
        key: of the job.
    """

    nodes: str
    start: float
    end: float
    gpus: int
    uid: int
    kind: str
    timed: float | None
    key: str


class RecentRuns(NamedTuple):
    """Runs, and the epoch second from which on all runs are among them."""

    runs: list[NodesOfRun]
    since: float


class ServedRun(NamedTuple):
    """One run of a job and its owner.

    Attributes:
        uid: of the owner.
        account: that it was charged to; "": not known.
        job: the job's id.
        start, end: epoch seconds; end: 0 while it runs.
        gpus: its GPUs.
        key: of the job.
        over: epoch second of the end of the job; 0: it lives.
    """

    uid: int
    account: str
    job: str
    start: float
    end: float
    gpus: int
    key: str = ""
    over: float = 0.0


def _shares(planned: str | None) -> str:
    """Return nodes and GPUs as in RunRow."""
    return ",".join(f"{node}:{gpus}" for node, gpus in json.loads(planned or "[]"))


class History:
    """Reads a journal. Another thread or process opens it with `History.of(journal.path)`; it never writes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @classmethod
    def of(cls, path: Path) -> History:
        """Open the journal read-only."""
        return cls(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None))

    @property
    def progress(self) -> JournalProgress:
        """What jobs reported."""
        return JournalProgress(self._db)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def ended_runs(self, since: float, most: int) -> list[EndedRun]:
        """Return the runs of the newest jobs that ended after an epoch second, of at most so many jobs.

        The record of a job that ended between two snapshots has no nodes: then they are those of the start that was decided.
        """
        newest = "select * from job where over > ? order by over desc, key limit ?"
        query = (
            f"select run.nodes, ended_as != '', end, uid, case kind when '' then key else kind end, slow_nodes, ({PLANNED}) "
            f"from ({newest}) join run using (key) where end > 0"
        )
        found = self._db.execute(query, (since, most))
        return [EndedRun(nodes or _shares(planned), *rest) for nodes, *rest, planned in found]

    def nodes_of_runs(self, since: float, most: int) -> RecentRuns:
        """Return the runs of live jobs, and those of the newest jobs that ended after an epoch second, of at most so many jobs.
        O(these runs)."""
        since = max(since, 0.0)
        query = (
            f"select run.nodes, start, end, run.gpus, uid, kind, timed, key, ({PLANNED}) "
            f"from ({LIVE_KINDS} union all select * from ({ENDED_KINDS})) join run using (key)"
        )
        runs = [
            NodesOfRun(nodes or _shares(planned), *rest)
            for nodes, *rest, planned in self._db.execute(query, (since, most))
        ]
        jobs, oldest = self._db.execute(f"select count(*), min(over) from ({ENDED_KINDS})", (since, most)).fetchone()
        return RecentRuns(runs, since if jobs < most else oldest)

    def served_runs(self, since: float) -> list[ServedRun]:
        """Return the runs of the live jobs and of those that ended after an epoch second. O(these runs)."""
        query = (
            f"select uid, account, id, start, end, gpus, key, iif(ended, over, 0) from ({SERVED}) join run using (key)"
        )
        return [ServedRun(*row) for row in self._db.execute(query, (since,))]

    def job(self, job_id: str) -> JobRow | None:
        """Return the newest job with this id."""
        return next(iter(self.jobs_with_id(job_id, 1)), None)

    def jobs_with_id(self, job_id: str, limit: int) -> list[JobRow]:
        """Return the newest jobs with this id: Slurm reuses ids."""
        query = f"select {columns(JobRow)} from job where id = ? order by ended, submit desc limit ?"
        return [job_row(row) for row in self._db.execute(query, (job_id, limit))]

    def ids_of(self, job_id: str) -> list[str]:
        """Return the ids of the job, and of the tasks of the array with that number."""
        query = "select distinct id from job where id = ?1 or (id > ?1 || '_' and id < ?1 || '`')"  # ` follows _
        return [row[0] for row in self._db.execute(query, (job_id,))]

    def jobs_after(self, position: HistoryPosition, since: float, limit: int, uid: int | None = None) -> list[JobRow]:
        """Return one page of jobs: first those that live, then those that ended, by their ends.

        The time that it takes depends on `limit`, not on the number of jobs.

        Args:
            position: the page begins after it.
            since: epoch second; without jobs that ended earlier.
            limit: the most jobs of a page.
            uid: of this user only.
        """
        by_owner, owner = ("", ()) if uid is None else ("uid = ? and ", (uid,))
        where = f"{by_owner}(over, key) > (?, ?) and over <= ?"
        query = f"select {columns(JobRow)} from job where {where} order by over, key limit ?"
        found = self._db.execute(query, (*owner, *position, 0.0, limit)).fetchall()
        ended = max(position, HistoryPosition(max(since, 1.0), ""))
        found += self._db.execute(query, (*owner, *ended, math.inf, limit - len(found))).fetchall()
        return [job_row(row) for row in found]

    def jobs(self) -> Iterator[JobRow]:
        """Return all jobs that the journal has."""
        return map(job_row, self._db.execute(f"select {columns(JobRow)} from job"))

    def runs(self, key: str) -> list[RunRow]:
        """Return the runs of a job."""
        query = f"select {columns(RunRow)} from run where key = ? order by restart"
        return [RunRow(*row) for row in self._db.execute(query, (key,))]

    def beneficiaries(self, key: str) -> dict[int, str]:
        """Return the beneficiary of each preemption of a job, by restart count; of the newest KEPT_INTENTS intents only."""
        saved = ((kind, IntentOutcome.PARKED) for kind in SAVING)
        ends = (*saved, (IntentKind.RESTART, IntentOutcome.RESTARTED))
        query = "select restart, beneficiary from intent where key = ? and kind = ? and outcome like ?"
        found = (self._db.execute(query, (key, kind, f"{outcome}%")) for kind, outcome in ends)
        return {restart: beneficiary for rows in found for restart, beneficiary in rows}

    def count_controlled(self) -> int:
        """Return how many live jobs the controller holds, starts or preempts."""
        under_way = "select id from intent where outcome = ''"
        found = self._db.execute(f"select count(*) from job where ended = 0 and (held = 1 or id in ({under_way}))")
        return int(found.fetchone()[0])

    def noted(self, name: str) -> str | None:
        """Return the value that a controller stored under this name."""
        found = self._db.execute("select value from meta where name = ?", (name,)).fetchone()
        return str(found[0]) if found else None

    def runs_since(self, moment: float) -> list[tuple[str, RunRow]]:
        """Return job id and run of all runs that began at that epoch second or later."""
        query = f"select job.id, {columns(RunRow, 'run.')} from run join job using (key) where start >= ?"
        return [(job_id, RunRow(*row)) for job_id, *row in self._db.execute(query, (moment,))]

    def watched(self) -> Watched | None:
        """Return the sums of what mode shadow has seen; None: it never ran."""
        found = self._db.execute(f"select {columns(Watched)} from watched").fetchone()
        return Watched(*found) if found else None

    def would_have(self, key: str) -> list[WouldRow]:
        """Return what mode shadow would have done with that job, oldest first."""
        query = f"select {columns(WouldRow)} from would where key = ? order by began"
        return [WouldRow(*row) for row in self._db.execute(query, (key,))]

    def decisions(self, job_id: str = "", limit: int = 50) -> list[Decision]:
        """Return the newest decisions, about all jobs or about one, newest first."""
        where, values = ("where id = ?", (job_id, limit)) if job_id else ("", (limit,))
        query = f"select time, id, action, why from decision {where} order by seq desc limit ?"
        return [Decision(*row) for row in self._db.execute(query, values)]
