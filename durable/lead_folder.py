"""The lead folder: the files by which controllers with the same state folder agree on a leader.

It lies on the shared file system:

    epoch-<n>              created exclusively by the controller that takes the lead: the file system lets one succeed, which
                           keeps the file locked
    lease                  the leader, its epoch and the number of its beats (lease.py); always replaced as a whole
    standby-<host>-<pid>   touched by a waiting controller
    note-<text>            from an earlier leader, or a standby, to the leader
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from tiresias.durable import lease as leases
from tiresias.durable.lease import Lease
from tiresias.errors import Unavailable

KEPT_EPOCHS = 8


class LeadFolder:
    """The files of one lead folder. Methods raise OSError unless they state otherwise."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._own_name = f"{socket.gethostname()}-{os.getpid()}"
        self._standby = path / f"standby-{self._own_name}"

    @contextlib.contextmanager
    def reached(self) -> Iterator[None]:
        """Turn an OSError of the block into Unavailable, with what to do."""
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"state folder {self._path.parent}: {error.strerror}; make it writable for this user or set paths.state"
            ) from None

    def make(self) -> None:
        """Create the folder and the state folder around it, for this user alone."""
        for each in (self._path.parent, self._path):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)

    # the lease and the epochs

    def lease(self) -> Lease:
        """Return the newest lease, of epoch 0 where no controller has led."""
        return leases.read(self._path / leases.FILE)

    def write_lease(self, lease: Lease) -> None:
        """Replace the lease."""
        leases.replace(self._path / leases.FILE, lease)

    def highest_epoch(self) -> int:
        """Return the highest epoch that was ever taken, 0 for none."""
        names = (one.name.partition("-")[2] for one in self._path.glob("epoch-*"))
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def take_epoch(self, epoch: int) -> int:
        """Create the epoch's file and lock it; return its handle. Raises FileExistsError if another controller was faster."""
        # exclusive also on NFS, from version 3 on
        handle = os.open(self._epoch(epoch), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        with contextlib.suppress(
            OSError
        ):  # a file system without locks: a dead leader is then detected by its lease alone
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return handle

    def remove_epoch(self, epoch: int) -> None:
        """Remove the epoch's file."""
        self._epoch(epoch).unlink(missing_ok=True)

    def is_unlocked(self, epoch: int) -> bool:
        """Return whether no process on this host keeps the epoch's file locked; False where that is unknown. Never raises."""
        try:
            handle = os.open(self._epoch(epoch), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    def tidy(self, epoch: int) -> None:
        """Remove files of epochs long before `epoch`, and of standbys: one that still waits touches its file again."""
        old = [self._epoch(one) for one in range(max(epoch - 2 * KEPT_EPOCHS, 1), epoch - KEPT_EPOCHS)]
        for each in [*old, *self._path.glob("standby-*")]:
            with contextlib.suppress(OSError):
                each.unlink()

    def _epoch(self, epoch: int) -> Path:
        return self._path / f"epoch-{epoch}"

    # standbys

    def announce_standby(self) -> None:
        """Record that this process waits for the lead."""
        self._standby.touch()

    def withdraw_standby(self) -> None:
        """Record that this process waits no longer."""
        self._standby.unlink(missing_ok=True)

    def has_other_standby(self, age: float) -> bool:
        """Return whether another process announced itself in the last `age` seconds of the file system's own clock."""
        probe = self._path / f".now-{self._own_name}"
        probe.touch()
        now = _modified(probe)
        probe.unlink()
        return any(_modified(one) >= now - age for one in self._path.glob("standby-*") if one != self._standby)

    # notes

    def leave_note(self, text: str) -> None:
        """Leave a note of a few letters that are allowed in a file name."""
        (self._path / f"note-{text}").touch()

    def notes(self) -> list[str]:
        """Return the notes."""
        return [one.name.removeprefix("note-") for one in self._path.glob("note-*")]

    def remove_note(self, text: str) -> None:
        """Remove a note."""
        (self._path / f"note-{text}").unlink(missing_ok=True)


def _modified(path: Path) -> float:
    """Return the time of the last change by the server's clock: NFS requests it at each open; a stat may return a cached one."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.fstat(handle).st_mtime
    finally:
        os.close(handle)
