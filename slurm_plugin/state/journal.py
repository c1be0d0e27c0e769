"""The controller's memory: jobs, their runs, what it is doing to them and what it decided. SQLite in the state folder.

Every step of a start or a preemption is written here, and synced, *before* it is done, so that a controller that was killed
anywhere finds in `open_intents` what it must look at. A job is known by `key` = "<Slurm job id>@<first submit time>": Slurm
reuses ids, and a requeue resets the submit time that it shows.

One controller writes, the one that leads (leadership.py). Its epoch stands in `meta`, and SQLite itself refuses each write of one
that led before: by triggers of the connection, in the very transaction of the write, so that not even a process that was stopped
for an hour between its look and its write can do harm.

Errors: StateError (database.py, schema.py); Superseded for a write of who led before.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.slurm_plugin.lead.leadership import Superseded
from tiresias.slurm_plugin.state.database import Damaged, Database, Locked, Unwritable, epoch_in, fence, make, take_away
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentOutcome, IntentStep
from tiresias.slurm_plugin.state.schema import open_current
from tiresias.slurm_plugin.state.watched import PREEMPT, Watched, WatchRow, WouldRow

FILE = "journal.sqlite"
KEPT_DECISIONS = 100_000
KEPT_INTENTS = 100_000  # that are over; nobody needs them
PRUNED_AT_ONCE = 1000  # jobs, so that no cycle waits long


@dataclass(slots=True)
class JobRow:
    """What we remember of a job beyond Slurm's own record. Moments are epoch seconds."""

    key: str
    id: str
    uid: int
    submit: float  # the first one
    reset: float = 0.0  # service before this moment does not count (promotion, section 3.2.3)
    held: bool = False  # Slurm holds it because we said so
    pinned: bool = False  # its node list is ours
    preemptions: int = 0
    last_preempted: float = 0.0
    failures: int = 0  # starts in a row that Slurm did not carry out
    not_before: float = 0.0  # backed off until then
    unmovable: str = ""  # why this run is not to be preempted; cleared when the next run starts
    min_nodes: int = 0  # the user's own, before any pin
    max_nodes: int = 0
    required: str = ""
    kind: str = ""  # the file of its profile (protocol/job_kind.py), of a job that tsbatch submitted
    ended: bool = False
    over: float = 0.0  # when it ended; 0 of a live one
    excluded: str = ""  # the user's own -x, before any pin
    pin: str = ""  # the way of the newest pin (pins.py)
    asked: str = ""  # its request as the newest start found it (pins.py), JSON
    unpinnable: str = (
        ""  # what every pin changes of its request: it is left to Slurm; cleared when its owner changes the request
    )


@dataclass(slots=True)
class RunRow:
    """One run of a job. end: 0 while it runs.

    What it cost, None where it is not known: restore: seconds from its start to its first step, start-up and restore; save: seconds
    of its newest save; pause: seconds from the checkpoint signal to free GPUs; redone: steps of the run before done again.
    pace: seconds a step.
    """

    key: str
    restart: int
    start: float
    end: float
    gpus: int
    nodes: str
    restore: float | None = None
    save: float | None = None
    pause: float | None = None
    redone: int | None = None
    pace: float | None = None


class Place(NamedTuple):
    """Where a job stands in the order of the ends; all stand behind START."""

    over: float
    key: str


START = Place(0.0, "")


@dataclass(frozen=True, slots=True)
class Decision:
    time: float
    id: str
    action: str
    why: str


class History:
    """What the journal tells: open it with `History.of(journal.path)` from another thread or process; it never writes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @classmethod
    def of(cls, path: Path) -> History:
        return cls(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None))

    def close(self) -> None:
        self._db.close()

    def job(self, job_id: str) -> JobRow | None:
        """The newest bearer of this id."""
        return next(iter(self.bearers(job_id, 1)), None)

    def bearers(self, job_id: str, limit: int) -> list[JobRow]:
        """The newest jobs with this id: Slurm uses one again."""
        query = f"select {_columns(JobRow)} from job where id = ? order by ended, submit desc limit ?"
        return [_job(row) for row in self._db.execute(query, (job_id, limit))]

    def ids_of(self, job_id: str) -> list[str]:
        """Of the job, and of the tasks of the array with that number."""
        query = "select distinct id from job where id = ?1 or (id > ?1 || '_' and id < ?1 || '`')"  # ` follows _
        return [row[0] for row in self._db.execute(query, (job_id,))]

    def jobs_after(self, place: Place, since: float, limit: int, uid: int | None = None) -> list[JobRow]:
        """At most `limit` of the jobs that live or ended then or later: first those that live, then by their ends. `place`: behind
        which they are to be. uid: of this user only. However many jobs there are, this takes as long as `limit` rows do."""
        whose, of = ("", ()) if uid is None else ("uid = ? and ", (uid,))
        where = f"{whose}(over, key) > (?, ?) and over <= ?"
        query = f"select {_columns(JobRow)} from job where {where} order by over, key limit ?"
        found = self._db.execute(query, (*of, *place, 0.0, limit)).fetchall()
        ended = max(place, Place(max(since, 1.0), ""))
        found += self._db.execute(query, (*of, *ended, math.inf, limit - len(found))).fetchall()
        return [_job(row) for row in found]

    def jobs(self) -> Iterator[JobRow]:
        """All that are remembered."""
        return map(_job, self._db.execute(f"select {_columns(JobRow)} from job"))

    def runs(self, key: str) -> list[RunRow]:
        query = f"select {_columns(RunRow)} from run where key = ? order by restart"
        return [RunRow(*row) for row in self._db.execute(query, (key,))]

    def beneficiaries(self, key: str) -> dict[int, str]:
        """For whom each run of a job was preempted, by its restart count; of the newest KEPT_INTENTS moves only."""
        query = "select restart, beneficiary from intent where key = ? and kind = ? and outcome like ?"
        return dict(self._db.execute(query, (key, IntentKind.PREEMPT, f"{IntentOutcome.PARKED}%")).fetchall())

    def in_our_hands(self) -> int:
        """Live jobs that wait because we hold them, or that we are moving."""
        moving = "select id from intent where outcome = ''"
        found = self._db.execute(f"select count(*) from job where ended = 0 and (held = 1 or id in ({moving}))")
        return int(found.fetchone()[0])

    def noted(self, name: str) -> str | None:
        found = self._db.execute("select value from meta where name = ?", (name,)).fetchone()
        return str(found[0]) if found else None

    def runs_since(self, moment: float) -> list[tuple[str, RunRow]]:
        """The job id and the run, of all runs that began then or later."""
        query = f"select job.id, {_columns(RunRow, 'run.')} from run join job using (key) where start >= ?"
        return [(job_id, RunRow(*row)) for job_id, *row in self._db.execute(query, (moment,))]

    def watched(self) -> Watched | None:
        """What mode shadow has seen so far; None: nothing."""
        found = self._db.execute(f"select {_columns(Watched)} from watched").fetchone()
        return Watched(*found) if found else None

    def would_have(self, key: str) -> list[WouldRow]:
        """What mode shadow would have done with that job, in the order of the beginnings."""
        query = f"select {_columns(WouldRow)} from would where key = ? order by began"
        return [WouldRow(*row) for row in self._db.execute(query, (key,))]

    def decisions(self, job_id: str = "", limit: int = 50) -> list[Decision]:
        """The newest ones, newest first."""
        where, values = ("where id = ?", (job_id, limit)) if job_id else ("", (limit,))
        query = f"select time, id, action, why from decision {where} order by seq desc limit ?"
        return [Decision(*row) for row in self._db.execute(query, values)]


class Journal(History):
    """Written by who leads, in `epoch`; from then on nobody of an earlier one can write. 0: of a state in which nobody ever led."""

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
            fence(db, self.epoch)
        except BaseException:
            db.close()
            raise
        return db

    def check(self) -> None:
        """Raises Superseded when a later leader has opened the journal."""
        if _identity(self.path) != self._file:
            raise Superseded(f"state database {self.path}: another controller, which leads by now, has taken it away")
        if (found := epoch_in(self._db)) != self.epoch:
            raise Superseded(
                f"state database {self.path}: epoch {found} leads by now; this controller led in {self.epoch}"
            )

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One transaction, one sync, for rows that need not be on disk one by one."""
        with self._db.transaction():
            yield

    def note(self, name: str, value: str | None) -> None:
        """Something that the next controller is to know, too; None forgets it."""
        if value is None:
            self._db.execute("delete from meta where name = ?", (name,))
        else:
            self._db.execute("insert or replace into meta values (?, ?)", (name, value))

    # jobs and runs

    def live_jobs(self) -> list[JobRow]:
        return [_job(row) for row in self._db.execute(f"select {_columns(JobRow)} from job where ended = 0")]

    def save_job(self, job: JobRow) -> None:
        self._put("job", _values(job))

    def live_runs(self) -> list[RunRow]:
        query = (
            f"select {_columns(RunRow, 'run.')} from run join job using (key) where ended = 0 order by run.key, restart"
        )
        return [RunRow(*row) for row in self._db.execute(query)]

    def past(self) -> list[tuple[int, float, float, int]]:
        """GPUs, GPU-seconds in all runs, submit time and uid of each job that ran and has ended, in the order of the ends."""
        return self._db.execute(
            "select max(gpus), sum((end - start) * gpus), submit, uid from run join job using (key) where ended = 1"
            " group by key order by max(end)"
        ).fetchall()

    def count_past(self) -> int:
        """How many jobs `past` tells of."""
        counted = self._db.execute("select count(distinct key) from run join job using (key) where ended = 1")
        return int(counted.fetchone()[0])

    def kinds(self) -> set[tuple[int, str]]:
        """uid and kind of all jobs that ever ran."""
        return set(self._db.execute("select distinct uid, kind from run join job using (key) where kind != ''"))

    def proven(self) -> set[tuple[int, str]]:
        """uid and kind of all jobs that parked when they were asked to."""
        return set(self._db.execute(
            "select distinct uid, kind from run join job using (key) where kind != '' and pause is not null"
        ))  # fmt: skip

    def late(self) -> dict[tuple[int, str], float]:
        """uid and kind of jobs that missed their deadline, and when."""
        found = self._db.execute("select name, value from meta where name like 'late-%'").fetchall()
        return {(int(name.split("-", 2)[1]), name.split("-", 2)[2]): float(value) for name, value in found}

    def note_late(self, uid: int, kind: str, now: float) -> None:
        self.note(f"late-{uid}-{kind}", repr(now))

    def paces(self) -> list[tuple[int, str, str, float]]:
        """uid, kind, nodes and seconds a step of all runs of which both kind and pace are known."""
        return self._db.execute(
            "select uid, kind, nodes, pace from run join job using (key) where kind != '' and pace is not null"
        ).fetchall()

    def save_run(self, run: RunRow) -> None:
        self._put("run", _values(run))

    def forget_runs(self, key: str) -> None:
        self._db.execute("delete from run where key = ?", (key,))

    def prune(self, before: float) -> int:
        """Forgets jobs that were submitted and had ended before that moment, with their runs; returns how many there were,
        PRUNED_AT_ONCE at most."""
        ended = "ended = 1 and submit < ? and not exists (select 1 from run where run.key = job.key and run.end >= ?)"
        with self.batch():
            found = self._db.execute(f"select key from job where {ended} limit {PRUNED_AT_ONCE}", (before, before))
            keys = found.fetchall()
            for table in ("would", "run", "job"):
                self._db.executemany(f"delete from {table} where key = ?", keys)
            self._db.execute(
                "delete from intent where outcome != '' and seq <= (select max(seq) from intent) - ?", (KEPT_INTENTS,)
            )
        return len(keys)

    # mode shadow

    def save_watch(self, watch: WatchRow) -> None:
        self._put("watch", _values(watch))

    def save_would(self, would: WouldRow) -> None:
        self._put("would", _values(would))

    def would_differ(self, key: str, restart: int, preempts: bool) -> bool:
        """Whether this run was to be preempted, or else started, at any time."""
        query = "select 1 from would where key = ? and restart = ? and (action = ?) = ? limit 1"
        return self._db.execute(query, (key, restart, PREEMPT, preempts)).fetchone() is not None

    # intents

    def open_intents(self) -> list[Intent]:
        return self._intents(f"select {_columns(Intent)} from intent where outcome = '' order by seq")

    def last_start(self, key: str) -> Intent | None:
        """Return the newest start of this job, over or not."""
        query = f"select {_columns(Intent)} from intent where key = ? and kind = ? order by seq desc limit 1"
        return next(iter(self._intents(query, key, IntentKind.START)), None)

    def releases_of(self, job_id: str) -> list[Intent]:
        """Return starts, and preemptions that were given up: the newest first, of all jobs that ever had this id."""
        of_id = f"select {_columns(Intent, 'intent.')} from job join intent using (key) where job.id = ?"
        query = f"{of_id} and (intent.kind = ? or intent.step in (?, ?)) order by seq desc"
        return self._intents(query, job_id, IntentKind.START, IntentStep.UNHOLD, IntentStep.SPARE)

    def _intents(self, query: str, *values: str) -> list[Intent]:
        return [self._intent(row) for row in self._db.execute(query, values)]

    def _intent(self, row: tuple[Any, ...]) -> Intent:
        intent = Intent(*row)
        try:
            intent.kind, intent.step = IntentKind(intent.kind), IntentStep(intent.step)
        except ValueError as error:
            raise Damaged(self.path, f"intent {intent.seq}: {error}") from None
        intent.nodes = tuple((name, gpus) for name, gpus in json.loads(str(intent.nodes)))
        return intent

    def begin(self, intent: Intent) -> None:
        intent.epoch = self.epoch
        columns, values = _intent_values(intent)
        marks = ", ".join("?" * len(columns))
        cursor = self._db.execute(f"insert into intent ({', '.join(columns)}) values ({marks})", values)
        intent.seq = cursor.lastrowid or 0

    def step(self, intent: Intent, step: IntentStep, now: float) -> None:
        """Write that `step` is about to be done, with all else of the intent that changes."""
        intent.step, intent.stepped = step, now
        self._db.execute(
            "update intent set step = ?, stepped = ?, began = ?, beneficiary = ? where seq = ?",
            (step, now, intent.began, intent.beneficiary, intent.seq),
        )

    def finish(self, intent: Intent, outcome: str) -> None:
        intent.outcome = outcome
        self._db.execute("update intent set outcome = ? where seq = ?", (outcome, intent.seq))

    # decisions

    def record(self, decisions: Iterable[Decision]) -> None:
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
    """Of who wrote there last; 0 where nobody did, or where it cannot be read: who opens it is told why."""
    try:
        with contextlib.closing(sqlite3.connect(f"{(folder / FILE).absolute().as_uri()}?mode=ro", uri=True)) as db:
            return epoch_in(db)
    except (sqlite3.Error, ValueError):
        return 0


def _columns(row: type, prefix: str = "") -> str:
    return ", ".join(prefix + one.name for one in fields(row))


def _values(row: JobRow | RunRow | WatchRow | WouldRow) -> dict[str, Any]:
    return {one.name: getattr(row, one.name) for one in fields(row)}


def _job(row: tuple[Any, ...]) -> JobRow:
    job = JobRow(*row)
    job.held, job.pinned, job.ended = bool(job.held), bool(job.pinned), bool(job.ended)
    return job


def _intent_values(intent: Intent) -> tuple[list[str], list[Any]]:
    names = [one.name for one in fields(intent) if one.name != "seq"]
    return names, [json.dumps(value) if (value := getattr(intent, name)) is intent.nodes else value for name in names]
