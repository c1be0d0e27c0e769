"""The state folder and its SQLite file: locked, opened, copied; what goes wrong is told in one line.

StateError        the folder or the database is of no use until somebody does what the message says
├── Damaged       it is no database, or not whole
└── Unwritable    not now: the disk is full, or the folder is read-only; what was to be written is not there
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tiresias.errors import TiresiasError


class StateError(TiresiasError):
    pass


class Damaged(StateError):
    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"state database {path}: damaged ({problem}); `tiresias ledger rebuild` makes it anew from Slurm's accounting"
        )


class Unwritable(StateError):
    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"state database {path}: {problem}; make room in {path.parent} and let this user write there")


class Database(sqlite3.Connection):
    """A connection whose errors are StateErrors; a statement that is wrong stays sqlite3's own error.

    Only the daemon's own thread writes; the socket's thread never touches this one.
    """

    path: Path

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, parameters)
        except sqlite3.DatabaseError as error:
            self._explain(error)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        try:
            return super().executemany(sql, parameters)
        except sqlite3.DatabaseError as error:
            self._explain(error)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, one sync."""
        self.execute("begin immediate")
        try:
            yield
            self.execute("commit")
        except BaseException:
            if self.in_transaction:  # SQLite itself ends it when the disk is full
                self.execute("rollback")
            raise

    def _explain(self, error: sqlite3.DatabaseError) -> NoReturn:
        if type(error) is sqlite3.DatabaseError:
            raise Damaged(self.path, str(error)) from None
        if isinstance(error, sqlite3.OperationalError):
            raise Unwritable(self.path, str(error)) from None
        raise error


def open_database(path: Path) -> Database:
    """Read and write, WAL: what was committed is on the disk, and readers never wait. Raises StateError."""
    try:
        db = sqlite3.connect(path, isolation_level=None, factory=Database)
    except sqlite3.OperationalError as error:
        raise Unwritable(path, str(error)) from None
    db.path = path
    try:
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = full")
    except BaseException:
        db.close()
        raise
    return db


def copy(db: Database, target: Path) -> None:
    """The whole database as one file, on the disk before it has its name. Raises StateError."""
    temporary = target.with_name(f"{target.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with closing(sqlite3.connect(temporary)) as other:
            db.backup(other)
            other.execute("pragma journal_mode = delete")  # no second file beside it
        sync(temporary)
        temporary.replace(target)
        sync(target.parent)
    except (OSError, sqlite3.OperationalError) as error:
        raise Unwritable(target, str(error)) from None


def sync(path: Path) -> None:
    """A file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(folder: Path) -> int:
    """The folder for one controller alone, until the handle is closed or its process has died. Raises StateError."""
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise StateError(
            f"state folder {folder}: {error.strerror}; make it writable for this user or set paths.state"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StateError(f"state folder {folder}: another controller uses it; stop that one first") from None
    return handle
