"""The state database of a controller in mode shadow, read through its published views (slurm_plugin/state/schema.py).

It is only read; the controller may write to it at the same time. Jobs that still waited or ran at the end of the recording count
as if they had ended then, with the service attained so far.
"""

from __future__ import annotations

import contextlib
import pwd
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.formats.trace_columns import TraceColumns

FOLDER = Path("/var/lib/tiresias")
FILE = "journal.sqlite"
TOTALS = ("began", "until", "gpus", "seconds", "gpu_seconds", "busy", "movable", "agreed", "idle", "taken")
JOB = ("job_id", "uid", "submit", "gpus", "service", "finish")
RUN = ("job_id", "uid", "restart", "gpus", "won", "lost")


@dataclass(frozen=True, slots=True, eq=False)
class ShadowRecord:
    """What a controller in mode shadow recorded. Arrays have the shape (runs,): the runs that it would have changed.

    Attributes:
        began: Begin of the recording, seconds since 1970.
        until: Its end.
        gpus: Largest number of GPUs of the cluster.
        seconds: Recorded time.
        gpu_seconds: GPU-seconds of the cluster in that time.
        busy: GPU-seconds of managed jobs.
        movable: GPU-seconds of jobs that could save, and therefore be preempted.
        agreed: Seconds in which nothing would have been done otherwise.
        idle: GPU-seconds that were free though waiting jobs would have been started on them.
        taken: GPU-seconds of jobs that would have been preempted.
        run_gpus: GPUs of each run.
        won: Seconds by which a run would have started sooner; nan where it would not.
        lost: Seconds for which a run would have been without its GPUs; 0 where it would not.
    """

    began: float
    until: float
    gpus: int
    seconds: float
    gpu_seconds: float
    busy: float
    movable: float
    agreed: float
    idle: float
    taken: float
    run_gpus: Ints
    won: Floats
    lost: Floats


def read(folder: Path) -> tuple[ShadowRecord, TraceColumns]:
    """Read the record and its jobs.

    Raises:
        UsageError: The database cannot be read, or no controller has recorded in mode shadow.
    """
    file = folder / FILE
    try:
        file.stat()
        with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as db:
            return _read(file, db)
    except OSError as error:
        raise UsageError(
            f"{file}: {error.strerror}; name paths.state of the controller, and be root or its user"
        ) from None
    except sqlite3.Error as error:
        raise UsageError(
            f"{file}: cannot be read: {error}; be root or the controller's user, and start this version's controller once"
        ) from None


def _read(file: Path, db: sqlite3.Connection) -> tuple[ShadowRecord, TraceColumns]:
    db.execute("begin")  # all of one moment
    columns = ", ".join(TOTALS)
    totals = db.execute(f"select {columns} from watched").fetchone()
    if totals is None:
        raise UsageError(f"{file}: no controller has watched in mode shadow; start one, and let it watch for some days")
    _, _, _, gpus, won, lost = _columns(db, RUN, "watched_run")
    seen = ShadowRecord(
        **dict(zip(TOTALS, totals, strict=True)),
        run_gpus=np.array(gpus, np.int64),
        won=np.array(won, np.float64),
        lost=np.array(lost, np.float64),
    )
    return seen, _jobs(db)


def _jobs(db: sqlite3.Connection) -> TraceColumns:
    ids, uid, *numbers = _columns(db, JOB, "watched_job")
    submit, gpus, service, finish = (np.array(column, np.float64) for column in numbers)
    found = TraceColumns(ids, submit, gpus, service, user=[_name(one) for one in uid], finish=finish)
    return found.drop(np.isnan(service), "has not run yet")


def _columns(db: sqlite3.Connection, names: Sequence[str], table: str) -> list[tuple[Any, ...]]:
    columns = ", ".join(names)
    rows = db.execute(f"select {columns} from {table}").fetchall()
    return list(zip(*rows, strict=True)) if rows else [()] * len(names)


@lru_cache(maxsize=1 << 12)
def _name(uid: int) -> str:
    """Return the name of the user on this host."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)
