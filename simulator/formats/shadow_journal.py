"""The state database of a controller in mode shadow: what it saw, read through the views that it is published with
(slurm_plugin/state/schema.py). Reads only; the controller may be writing to it meanwhile.

The jobs that still waited or ran at the end of the watch count as if they had ended then: what they have had by then is known.
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
    """seconds: that somebody watched; agreed: of these, while nothing would have been done otherwise. gpu_seconds: that there were;
    busy: of these, of managed jobs; movable: of these, of jobs that could save, and so be preempted; idle: free though
    jobs that waited would have been started on them; taken: by jobs that would have been preempted.

    The runs that would have been otherwise, shape (runs,): won: seconds by which they would have started before Slurm started them,
    nan where not; lost: seconds for which they would have been kept off their GPUs, 0 where not.
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
    """What the watch saw, and its jobs. Raises UsageError where nobody watched, or it cannot be read."""
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
        **dict(zip(TOTALS, totals, strict=True)), run_gpus=np.array(gpus, np.int64), won=np.array(won, np.float64),
        lost=np.array(lost, np.float64),
    )  # fmt: skip
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
    """As this host knows the user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)
