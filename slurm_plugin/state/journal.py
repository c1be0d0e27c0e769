"""Writes the journal: jobs, their runs, the intents under way and the decisions. SQLite in the state folder.

Every step of an intent is written and synced *before* it is executed, so that after a crash `open_intents` returns all that was
under way. Writes between two operations share a sync (`collected`).

A job has the `key` "<Slurm job id>@<first submit time>": Slurm reuses ids, and a requeue resets the submit time.

The leader alone writes (leadership.py). Its epoch is in the table `meta`, and SQLite itself refuses each write of an earlier
leader: by triggers of the connection, in the very transaction of the write, so that not even a process that was stopped for an
hour between its check and its write does harm.

Errors: StateError (database.py, schema.py); Superseded for a write of an earlier leader.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from tiresias.durable.database import Damaged, Database, Locked, Unwritable, epoch_in, fence, make, take_away
from tiresias.durable.leadership import Superseded
from tiresias.slurm_plugin.state.intents import OF_PENDING_JOBS, Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow, RunRow, columns, job_row
from tiresias.slurm_plugin.state.schema import open_current
from tiresias.slurm_plugin.state.watched import PREEMPT, WatchRow, WouldRow

FILE = "journal.sqlite"
KEPT_DECISIONS = 100_000
KEPT_INTENTS = 100_000  # that are over
PRUNED_AT_ONCE = 1000  # jobs, so that no cycle waits long

FENCED_TABLES = ("meta", "job", "run", "intent", "decision", "watch", "would", "loss")


class Journal(History):
    """The journal of the leader of one epoch; once it is open, leaders of earlier epochs cannot write.

    Attributes:
        path: of the database.
        epoch: 0 for a state folder in which no controller ever led.
    """

    def __init__(self, folder: Path, epoch: int = 0) -> None:
        make(folder)
        self.path, self.epoch = (folder / FILE).absolute(), epoch
        try:
            self._db: Database = self._open()
        except Locked:
            if not epoch:
                raise
            take_away(self.path)
            self._db = self._open()
        self._file = _identity(self.path)

    def _open(self) -> Database:
        db = open_current(self.path)
        try:
            fence(db, self.epoch, FENCED_TABLES)
        except BaseException:
            db.close()
            raise
        return db

    def check(self) -> None:
        """Raise Superseded when a later leader has opened the journal."""
        if _identity(self.path) != self._file:
            raise Superseded(f"state database {self.path}: another controller leads and has taken it away")
        if (found := epoch_in(self._db)) != self.epoch:
            raise Superseded(
                f"state database {self.path}: epoch {found} leads by now; this controller led in {self.epoch}"
            )

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Open one transaction, with one sync, for rows that need not be on the disk one by one."""
        with self._db.transaction():
            yield

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect writes in one transaction up to each `sync`, and up to the end of the block.

        What is collected is on the disk before the next operation on a job (fence.py): a crash leaves what a crash right after the
        operation before it would have left.
        """
        with self._db.collected():
            yield

    def sync(self) -> None:
        """Bring to the disk what `collected` has collected. Raises StateError."""
        self._db.sync()

    def note(self, name: str, value: str | None) -> None:
        """Store a value for the next controller; None removes it."""
        if value is None:
            self._db.execute("delete from meta where name = ?", (name,))
        else:
            self._db.execute("insert or replace into meta values (?, ?)", (name, value))

    # jobs and runs

    def live_jobs(self) -> list[JobRow]:
        """Return the jobs that have not ended."""
        return [job_row(row) for row in self._db.execute(f"select {columns(JobRow)} from job where ended = 0")]

    def save_job(self, job: JobRow) -> None:
        """Write a row, in place of the one with its key."""
        self._put("job", _values(job))

    def live_runs(self) -> list[RunRow]:
        """Return all runs of the jobs that have not ended."""
        query = (
            f"select {columns(RunRow, 'run.')} from run join job using (key) where ended = 0 order by run.key, restart"
        )
        return [RunRow(*row) for row in self._db.execute(query)]

    def past(self) -> list[tuple[int, float, float, int]]:
        """Return GPUs, GPU-seconds in all runs, submit time and uid of each job that ran and has ended, by their ends."""
        return self._db.execute(
            "select max(gpus), sum((end - start) * gpus), submit, uid from run join job using (key) where ended = 1"
            " group by key order by max(end)"
        ).fetchall()

    def past_claims(self) -> list[tuple[int, float, float]]:
        """Return uid, claimed and needed seconds of work of each ended job that claimed any, by their ends."""
        return self._db.execute(
            "select uid, earliest_left, sum(max(end - start - coalesce(restore, 0), 0)) - earliest_at from job join run using (key)"
            " where ended = 1 and earliest_left is not null group by key order by over, key"
        ).fetchall()

    def count_past(self) -> int:
        """Return how many jobs `past` returns."""
        counted = self._db.execute("select count(distinct key) from run join job using (key) where ended = 1")
        return int(counted.fetchone()[0])

    def kinds(self) -> set[tuple[int, str]]:
        """Return uid and kind of all jobs that ever ran."""
        return set(self._db.execute("select distinct uid, kind from run join job using (key) where kind != ''"))

    def proven(self) -> set[tuple[int, str]]:
        """Return uid and kind of all jobs that parked after the checkpoint signal."""
        return set(
            self._db.execute(
                "select distinct uid, kind from run join job using (key) where kind != '' and pause is not null"
            )
        )

    def savers(self) -> set[tuple[int, str]]:
        """Return uid and kind of all jobs of which a run saved."""
        found = "select distinct uid, kind from run join job using (key) where kind != '' and save is not null"
        return set(self._db.execute(found))

    def late(self) -> dict[tuple[int, str], float]:
        """Return uid and kind of jobs that missed their deadline, and the epoch second of it."""
        found = self._db.execute("select name, value from meta where name like 'late-%'").fetchall()
        return {(int(name.split("-", 2)[1]), name.split("-", 2)[2]): float(value) for name, value in found}

    def note_late(self, uid: int, kind: str, now: float) -> None:
        """Store that a job of this kind missed its deadline."""
        self.note(f"late-{uid}-{kind}", repr(now))

    def paces(self) -> list[tuple[int, str, str, float]]:
        """Return uid, kind, nodes and seconds a step of all runs of which both kind and pace are known."""
        return self._db.execute(
            "select uid, kind, nodes, pace from run join job using (key) where kind != '' and pace is not null"
        ).fetchall()

    def save_run(self, run: RunRow) -> None:
        """Write a row, in place of the one with its key and restart count."""
        self._put("run", _values(run))

    def forget_runs(self, key: str) -> None:
        """Delete the runs of a job."""
        self._db.execute("delete from run where key = ?", (key,))

    def prune(self, before: float) -> int:
        """Delete jobs that were submitted and ended before that epoch second, with their runs.

        Returns how many it deleted, PRUNED_AT_ONCE at most.
        """
        ended = "ended = 1 and submit < ? and not exists (select 1 from run where run.key = job.key and run.end >= ?)"
        with self.batch():
            found = self._db.execute(f"select key from job where {ended} limit {PRUNED_AT_ONCE}", (before, before))
            keys = found.fetchall()
            for table in ("would", "run", "loss", "job"):
                self._db.executemany(f"delete from {table} where key = ?", keys)
            self._db.execute(
                "delete from intent where outcome != '' and seq <= (select max(seq) from intent) - ?", (KEPT_INTENTS,)
            )
        return len(keys)

    # mode shadow

    def save_watch(self, watch: WatchRow) -> None:
        """Write a row, in place of the one that began then."""
        self._put("watch", _values(watch))

    def save_would(self, would: WouldRow) -> None:
        """Write a row, in place of the one of the same action that began then."""
        self._put("would", _values(would))

    def would_differ(self, key: str, restart: int, preempts: bool) -> bool:
        """Return whether mode shadow would have preempted this run, or else started it, at any time."""
        query = "select 1 from would where key = ? and restart = ? and (action = ?) = ? limit 1"
        return self._db.execute(query, (key, restart, PREEMPT, preempts)).fetchone() is not None

    # intents

    def open_intents(self) -> list[Intent]:
        """Return the intents that are not over, in the order in which they were begun."""
        return self._intents(f"select {columns(Intent)} from intent where outcome = '' order by seq")

    def starts(self, key: str) -> list[Intent]:
        """Return the starts of this job, and suggestions of nodes, over or not: the newest first."""
        query = f"select {columns(Intent)} from intent where key = ? and kind in (?, ?) order by seq desc"
        return self._intents(query, key, *OF_PENDING_JOBS)

    def releases_of(self, job_id: str) -> list[Intent]:
        """Return starts, and preemptions at whose end the job was released: the newest first, of all jobs that ever had this id."""
        of_id = f"select {columns(Intent, 'intent.')} from job join intent using (key) where job.id = ?"
        query = f"{of_id} and (intent.kind = ? or intent.step in (?, ?, ?)) order by seq desc"
        released = (IntentStep.UNHOLD, IntentStep.SPARE, IntentStep.YIELDED)
        return self._intents(query, job_id, IntentKind.START, *released)

    def _intents(self, query: str, *values: str) -> list[Intent]:
        return [self._intent(row) for row in self._db.execute(query, values)]

    def _intent(self, row: tuple[Any, ...]) -> Intent:
        intent = Intent(*row)
        try:
            intent.kind, intent.step = IntentKind(intent.kind), IntentStep(intent.step)
        except ValueError as error:
            raise Damaged(self.path, f"intent {intent.seq}: {error}") from None
        intent.nodes = tuple((name, gpus) for name, gpus in json.loads(str(intent.nodes)))
        intent.parts = tuple(tuple(gpus) for gpus in json.loads(str(intent.parts)))
        return intent

    def begin(self, intent: Intent) -> None:
        """Write a new intent; it gets its epoch and its number."""
        intent.epoch = self.epoch
        names, values = _intent_values(intent)
        marks = ", ".join("?" * len(names))
        cursor = self._db.execute(f"insert into intent ({', '.join(names)}) values ({marks})", values)
        intent.seq = cursor.lastrowid or 0

    def step(self, intent: Intent, step: IntentStep, now: float) -> None:
        """Write that `step` is about to be executed, with all else of the intent that changes."""
        intent.step, intent.stepped = step, now
        self._db.execute(
            "update intent set step = ?, stepped = ?, began = ?, beneficiary = ? where seq = ?",
            (step, now, intent.began, intent.beneficiary, intent.seq),
        )

    def rebind(self, intent: Intent, cells: str) -> None:
        """Write in which cells the job of a start is to hold its GPUs."""
        intent.cells = cells
        self._db.execute("update intent set cells = ? where seq = ?", (cells, intent.seq))

    def finish(self, intent: Intent, outcome: str) -> None:
        """Write that the intent is over. outcome: an IntentOutcome with its details."""
        intent.outcome = outcome
        self._db.execute("update intent set outcome = ? where seq = ?", (outcome, intent.seq))

    # decisions

    def record(self, decisions: Iterable[Decision]) -> None:
        """Append decisions; the newest KEPT_DECISIONS stay."""
        rows = [(one.time, one.id, one.action, one.why) for one in decisions]
        self._db.executemany("insert into decision (time, id, action, why) values (?, ?, ?, ?)", rows)
        self._db.execute("delete from decision where seq <= (select max(seq) from decision) - ?", (KEPT_DECISIONS,))

    def _put(self, table: str, values: dict[str, Any]) -> None:
        marks = ", ".join("?" * len(values))
        self._db.execute(
            f"insert or replace into {table} ({', '.join(values)}) values ({marks})", tuple(values.values())
        )


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise Unwritable(path, error.strerror or str(error)) from None
    return found.st_dev, found.st_ino


def epoch_of(folder: Path) -> int:
    """Return the epoch of the last writer; 0 where there was none, or where it cannot be read: opening it reports why."""
    try:
        with contextlib.closing(sqlite3.connect(f"{(folder / FILE).absolute().as_uri()}?mode=ro", uri=True)) as db:
            return epoch_in(db)
    except (sqlite3.Error, ValueError):
        return 0


def _intent_values(intent: Intent) -> tuple[list[str], list[Any]]:
    names = [one.name for one in fields(intent) if one.name != "seq"]
    values = [getattr(intent, name) for name in names]
    return names, [json.dumps(value) if isinstance(value, tuple) else value for value in values]


def _values(row: JobRow | RunRow | WatchRow | WouldRow) -> dict[str, Any]:
    return {one.name: getattr(row, one.name) for one in fields(row)}
