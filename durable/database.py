"""The state folder and its SQLite file: opened, fenced and copied; each error is one line.

StateError        the folder or the database is unusable until an administrator follows the message
├── Damaged       it is no database, or not whole
└── Unwritable    not now: the disk is full, or the folder is read-only; what was to be written is not there
    └── Locked    not now: another process is in the middle of a write, and does not end it

The file may be on storage that several hosts share. So it has a rollback journal, not a write-ahead log: a WAL needs memory that
all processes with the open file share, which is impossible between hosts; or locking_mode=EXCLUSIVE, whose lock a stopped leader
would keep. With a rollback journal a lock lasts as long as a transaction, and `take_away` replaces the file of a process that was
stopped within one. It costs a second fsync a write.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tiresias.durable.leadership import Superseded
from tiresias.durable.own_folder import private_file, refuse_shared
from tiresias.errors import TiresiasError, Unavailable

TRANSACTION_TIMEOUT_S = 5.0  # of another process
_SUPERSEDED = "superseded"
_WHOLE = "begin immediate", "commit", ("rollback",)  # the statements of a transaction: first, last, after a failure
_PART = "savepoint part", "release part", ("rollback to part", "release part")
REBUILD = "`tiresias ledger rebuild` makes it anew from Slurm's accounting"  # the controller's


class StateError(TiresiasError):
    """The state database cannot be used."""

    pass


class Damaged(StateError):
    """The state database is not a valid one."""

    def __init__(self, path: Path, problem: str, cure: str = REBUILD) -> None:
        self.problem = problem
        super().__init__(f"state database {path}: damaged ({problem}); {cure}")


class Unwritable(StateError, Unavailable):
    """The state database cannot be written to now."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"state database {path}: {problem}; free space in {path.parent} and let this user write there")


class Locked(Unwritable):
    """Another process holds the lock of the state database."""

    def __init__(self, path: Path) -> None:
        StateError.__init__(
            self,
            f"state database {path}: locked by a controller that was stopped in the middle of a write; end that one",
        )


class Database(sqlite3.Connection):
    """A connection whose errors are StateErrors; a statement that is wrong stays sqlite3's own error.

    Only the daemon's own thread writes; the socket's thread never touches this one.
    """

    path: Path
    cure = REBUILD  # what to do when it is damaged
    _collects = False

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement. Raises StateError."""
        try:
            return super().execute(sql, parameters)
        except sqlite3.DatabaseError as error:
            self._explain(error)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """Execute a statement for each row of parameters. Raises StateError."""
        try:
            return super().executemany(sql, parameters)
        except sqlite3.DatabaseError as error:
            self._explain(error)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction, with one sync; within `collected` as a part of its transaction."""
        begin, end, undo = _PART if self._collects else _WHOLE
        if self._collects and not self.in_transaction:
            self.execute("begin immediate")
        self.execute(begin)
        try:
            yield
            self.execute(end)
        except BaseException:
            if self.in_transaction:  # SQLite itself ends it when the disk is full
                for statement in undo:
                    self.execute(statement)
            raise

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the writes of the block in one transaction up to each `sync`, and up to the end of the block.

        After an error what was written before it is committed as well; where the process ends, it is not.
        """
        self._collects, self.isolation_level = True, "IMMEDIATE"  # sqlite3 begins the transaction with the first write
        try:
            yield
        except Exception:
            self.sync()
            raise
        else:
            self.sync()
        finally:
            if self.in_transaction:
                self.execute("rollback")
            self._collects, self.isolation_level = False, None

    def sync(self) -> None:
        """Bring to the disk what `collected` has collected. Raises StateError."""
        if self.in_transaction:
            self.execute("commit")

    def _explain(self, error: sqlite3.DatabaseError) -> NoReturn:
        if type(error) is sqlite3.DatabaseError:
            raise Damaged(self.path, str(error), self.cure) from None
        if isinstance(error, sqlite3.OperationalError):
            raise (Locked(self.path) if "locked" in str(error) else Unwritable(self.path, str(error))) from None
        if isinstance(error, sqlite3.IntegrityError) and _SUPERSEDED in str(error):
            raise Superseded("another controller leads by now, and its journal took no write of this one") from None
        raise error


def open_database(path: Path) -> Database:
    """Open the database for reading and writing; committed data is on the disk. Raises StateError."""
    try:
        private_file(path)
        db = sqlite3.connect(path, isolation_level=None, timeout=TRANSACTION_TIMEOUT_S, factory=Database)
    except (OSError, sqlite3.OperationalError) as error:
        raise Unwritable(path, str(error)) from None
    db.path = path
    try:
        db.execute("pragma journal_mode = truncate")
        db.execute("pragma synchronous = full")
    except BaseException:
        db.close()
        raise
    return db


def take_away(path: Path) -> None:
    """Replace the file by a copy, because a process that was stopped in the middle of a write keeps it locked.

    Later writes of that process go to a file without a name; its uncommitted writes are lost. The caller leads, so that no other
    process does the same.

    Raises:
        Locked: The file still changes.
        StateError: The copy failed.
    """
    taken = path.with_name(f"{path.name}.taken")
    try:
        found = [_content(path), _content(_rollback(path))]
        private_file(taken)
        taken.write_bytes(found[0])
        _rollback(taken).write_bytes(found[1])
        if found != [_content(path), _content(_rollback(path))]:
            raise Locked(path)
        with closing(sqlite3.connect(taken)) as db:
            db.execute("pragma quick_check(1)").fetchone()  # SQLite itself rolls back what was not committed
        sync(taken)
        taken.replace(path)  # if this process ends here, the old rollback journal leads to the same content
        _rollback(path).unlink(missing_ok=True)
        sync(path.parent)
    except (OSError, sqlite3.OperationalError) as error:
        raise Unwritable(path, str(error)) from None


def _rollback(path: Path) -> Path:
    """Where SQLite keeps what a transaction has overwritten."""
    return path.with_name(f"{path.name}-journal")


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def copy(db: Database, target: Path) -> None:
    """Copy the database to one file, which gets its name once it is on the disk. Raises StateError."""
    temporary = target.with_name(f"{target.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        private_file(temporary)
        with closing(sqlite3.connect(temporary)) as other:
            db.backup(other)
            other.execute("pragma journal_mode = delete")  # in one file
        sync(temporary)
        temporary.replace(target)
        sync(target.parent)
    except (OSError, sqlite3.OperationalError) as error:
        raise Unwritable(target, str(error)) from None


def sync(path: Path) -> None:
    """Write a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make(folder: Path) -> None:
    """Create the state folder where it is missing. Raises StateError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_shared(folder, "paths.state")
    except OSError as error:
        raise StateError(
            f"state folder {folder}: {error.strerror}; make it writable for this user or set paths.state"
        ) from None


def epoch_in(db: sqlite3.Connection) -> int:
    """Return the epoch of the leader that opened the database last; 0 for none."""
    found = db.execute("select value from meta where name = 'epoch'").fetchone()
    return int(found[0]) if found else 0


def fence(db: Database, epoch: int, tables: Sequence[str]) -> None:
    """Refuse writes of controllers of earlier epochs from now on, and writes of this connection once there is a later epoch.

    SQLite itself checks the epoch in the transaction of each write. The triggers belong to this connection, not to the file.
    Raises Superseded.
    """
    with db.transaction():
        if (found := epoch_in(db)) > epoch:
            raise Superseded(f"state database {db.path}: epoch {found} leads by now; this controller led in {epoch}")
        db.execute("insert or replace into meta values ('epoch', ?)", (str(epoch),))
    later = f"(select value from meta where name = 'epoch') is not '{epoch}'"
    for table in tables:
        for verb in ("insert", "update", "delete"):
            db.execute(
                f"create temp trigger {verb}_{table} before {verb} on main.{table} when {later} "
                f"begin select raise(abort, '{_SUPERSEDED}'); end"
            )
