"""Who leads: of all controllers with the same state folder one acts, the others stand by.

    leadership = Leadership(state / "leader", seconds=45.0)
    while not leadership.take():     # a standby asks again and again: it knows the dead by watching them
        time.sleep(leadership.pause)
    ...                              # a thread of it beats from now on
    leadership.renew()               # once a cycle: whoever does not come back to say this has hung, and loses the lead
    leadership.check()               # before each write; raises Superseded when somebody else leads by now
    leadership.step_down()           # whoever waits takes over at once

The folder lies on the shared file system:

    epoch-<n>              made exclusively by who takes the lead: the file system lets one win. Its maker keeps it locked
    lease                  one line of JSON: who leads, in which epoch, the number of its beats; always replaced as a whole
    standby-<host>-<pid>   touched by who waits
    note-<words>           from one who led, to who leads: what it did when its time was over

Epochs only grow, and who finds a higher one than its own has been superseded, however long it slept. No two hosts' clocks are
compared: who waits takes over when the lease has not changed for `seconds` of its own steady clock. All that is assumed is that
steady clocks run equally fast.

The kernel's lock is only a short cut. On the host of the leader it tells at once that its process is dead. Between hosts it is
not believed: a dead host's locks may linger for minutes (NFS, GPFS), and some mounts keep locks local (Lustre's localflock). The
library filelock would add nothing to the one flock below, and where there is no flock it falls back to a file that outlives its
owner.

What no lease can prevent: a process that is stopped between `check` and its write wakes up late and writes all the same. SQLite
itself refuses that to the journal (journal.py); of a verb to Slurm failover/fence.py tells the next leader.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import TiresiasError, Unavailable

log = logging.getLogger("tiresias")

BEATS = 5  # in the time of silence that means death
RECENT = 5  # looks of a standby: it waited a moment ago
HUNG_SECONDS = 120.0  # without a `renew`: more than the calls to Slurm between two of them may take
KEPT_EPOCHS = 8
_LONGEST = 4096  # bytes of a lease


class Superseded(TiresiasError):
    """Somebody else leads by now: what was to be written must not be."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who leads. boot: the running system of that host; containers on it share it. released: it stepped down."""

    epoch: int = 0
    host: str = ""
    pid: int = 0
    boot: str = ""
    beat: int = 0
    released: bool = False

    def __str__(self) -> str:
        return f"{self.host} (pid {self.pid}, epoch {self.epoch})"


class _Sight(NamedTuple):
    """What a standby sees; as long as it changes, somebody lives."""

    lease: Lease
    highest: int  # epoch that was ever taken


class Leadership:
    """The lead as this process sees it. One thread calls; `seconds` of silence mean death; `clock` is steady."""

    def __init__(self, folder: Path, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self.seconds, self._clock = folder, seconds, clock
        self.epoch = 0  # ours while we lead
        self._latest = 0  # that we know of
        self._led = 0.0
        self._host, self._boot = socket.gethostname(), _boot()
        self._beats, self._beaten, self._expected = 0, 0.0, 0.0
        self._seen: _Sight | None = None
        self._since = clock()
        self.seen_alive = False  # somebody else leads: its lease changed between two looks
        self._handle = -1  # of our epoch's file, locked
        self._beating = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._every = seconds / BEATS  # between two beats

    @property
    def pause(self) -> float:
        """Seconds between two looks of a standby."""
        return min(self.seconds / (2 * BEATS), 1.0)

    def lease(self) -> Lease:
        """The newest one; epoch 0 where nobody ever led. Any process may ask. Raises Unavailable."""
        with self._reached():
            return _read(self.folder / "lease")

    def published(self) -> dict[str, object]:
        """For viewers. since: epoch second at which this one took the lead. standby: somebody waits to take over."""
        return {
            "host": self._host, "pid": os.getpid(), "epoch": self.epoch, "since": self._led, "standby": self.has_standby()
        }  # fmt: skip

    def retime(self, seconds: float) -> None:
        """From now on so many seconds of silence mean death. A leader beats at least as often as before: a standby that
        still expects the old interval must not take over."""
        self.seconds = seconds
        if self.epoch and seconds / BEATS < self._every:
            self._stop.set()
            if self._thread:
                self._thread.join()
            self._start_beating()

    # taking it

    def take(self, above: int = 0) -> bool:
        """True when we lead from now on, in an epoch higher than `above`. False: somebody else does; ask again after `pause`.

        Raises Unavailable when the folder cannot be used.
        """
        with self._reached():
            sight, now = self._look(), self._clock()
            if sight != self._seen:
                self.seen_alive = self._seen is not None
                self._seen, self._since = sight, now
            if not self._is_vacant(sight) and now - self._since < self.seconds:
                return False
            return self._begin(max(sight.lease.epoch, sight.highest, above) + 1)

    def seize(self) -> bool:
        """As `take`, though somebody leads: for one who knows better that the leader has hung."""
        with self._reached():
            sight = self._look()
            return self._begin(max(sight.lease.epoch, sight.highest) + 1)

    def stand_by(self) -> None:
        """Tell the leader that somebody waits."""
        with self._reached():
            self._standby.touch()

    def has_standby(self) -> bool:
        """Whether somebody waited a moment ago, by the file system's own clock."""
        with contextlib.suppress(OSError):
            probe = self.folder / f".now-{self._host}-{os.getpid()}"
            probe.touch()
            now = _touched(probe)
            probe.unlink()
            recent = now - RECENT * self.pause
            return any(_touched(one) >= recent for one in self.folder.glob("standby-*") if one != self._standby)
        return False

    # having it

    def renew(self, grace: float = HUNG_SECONDS) -> None:
        """The caller is well, and will say so again within `grace` seconds; else it has hung. Raises as `check` does."""
        self._expected = self._clock() + grace
        self.check()

    def check(self) -> None:
        """Raises Superseded unless we lead, Unavailable when that cannot be known. A read of a small file."""
        if not self.epoch:
            raise Superseded(f"this controller does not lead: {self.lease()} does")
        with self._reached(), self._beating:
            self._refuse_later(self.lease().epoch)
            if self._clock() - self._beaten > self.seconds / 2:  # late: who waits may be about to take over
                self._beat_if_there_is_room()

    def step_down(self) -> None:
        """Lead no longer, wait no longer; who waits may lead at once. Never fails: what cannot be written, silence tells."""
        with contextlib.suppress(OSError):
            self._standby.unlink(missing_ok=True)
        self._stop.set()
        if self._thread:
            self._thread.join()
        if self.epoch:
            with contextlib.suppress(OSError, Superseded), self._beating:
                self._beat(released=True)
            os.close(self._handle)  # and with it goes the lock
        self.epoch, self._thread, self._handle = 0, None, -1

    # notes to who leads

    def tell(self, words: str) -> None:
        """Leave a note of a few letters that a file name takes. Never fails: it is written in a hurry, on the way out."""
        with contextlib.suppress(OSError):
            (self.folder / f"note-{words}").touch()

    def notes(self) -> list[str]:
        """What was told; each stays until it is `done`. Raises Unavailable."""
        with self._reached():
            return [one.name.removeprefix("note-") for one in self.folder.glob("note-*")]

    def done(self, words: str) -> None:
        with self._reached():
            (self.folder / f"note-{words}").unlink(missing_ok=True)

    # inner: being one

    def _begin(self, epoch: int) -> bool:
        try:  # exclusive also on NFS, from version 3 on
            handle = os.open(self._claim(epoch), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        except FileExistsError:
            return False
        with contextlib.suppress(OSError):  # a file system without locks: then there is no short cut
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.epoch = self._latest = epoch
        self._handle, self._led = handle, time.time()
        self._expected = self._clock() + HUNG_SECONDS
        try:
            self._beat()
        except Superseded:
            self.step_down()
            return False
        except OSError:  # a full disk: nobody led in this epoch, and nobody is superseded by it
            self.step_down()
            self._claim(epoch).unlink(missing_ok=True)
            raise
        self._tidy()
        self._start_beating()
        return True

    def _start_beating(self) -> None:
        self._every, self._stop = self.seconds / BEATS, threading.Event()
        self._thread = threading.Thread(target=self._beat_on, args=(self._stop,), name="leader", daemon=True)
        self._thread.start()

    def _beat_on(self, stop: threading.Event) -> None:
        while not stop.wait(self._every):
            if self._clock() > self._expected:
                continue  # the caller hangs: let somebody else lead
            try:
                with self._beating:
                    self._beat()
            except Superseded:
                return  # the next check tells
            except OSError as error:
                log.warning("lease %s: %s; trying again", self.folder, error.strerror)

    def _beat(self, released: bool = False) -> None:
        """Look before and after: a lease that was written over a later one is put right by its holder, but not relied on."""
        self._refuse_later(self.lease().epoch)
        self._beats += 1
        lease = Lease(self.epoch, self._host, os.getpid(), self._boot, self._beats, released)
        _replace(self.folder / "lease", json.dumps(asdict(lease)))
        self._refuse_later(self._highest())
        self._beaten = self._clock()

    def _beat_if_there_is_room(self) -> None:
        """On a full disk nobody else writes a lease either. So its leader may look on, and lift its holds when it is stopped."""
        try:
            self._beat()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._refuse_later(self._highest())

    def _refuse_later(self, epoch: int) -> None:
        self._latest = max(self._latest, epoch)
        if self._latest > self.epoch:
            raise Superseded(f"{self.lease()} leads by now; this controller led in epoch {self.epoch}")

    # inner: looking

    def _look(self) -> _Sight:
        for each in (self.folder.parent, self.folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _Sight(self.lease(), self._highest())

    def _highest(self) -> int:
        names = (one.name.partition("-")[2] for one in self.folder.glob("epoch-*"))
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def _is_vacant(self, sight: _Sight) -> bool:
        """Known without waiting: nobody ever led, or who did has stepped down, or its process on this host is dead."""
        if sight.highest > sight.lease.epoch:
            return False  # somebody is just beginning
        lease = sight.lease
        return not lease.epoch or lease.released or (lease.boot == self._boot != "" and self._is_dead(lease))

    def _is_dead(self, lease: Lease) -> bool:
        try:
            handle = os.open(self._claim(lease.epoch), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    # inner: the folder

    def _claim(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch}"

    @property
    def _standby(self) -> Path:
        return self.folder / f"standby-{self._host}-{os.getpid()}"

    def _tidy(self) -> None:
        """Who still waits touches its file again."""
        old = [self._claim(one) for one in range(max(self.epoch - 2 * KEPT_EPOCHS, 1), self.epoch - KEPT_EPOCHS)]
        for each in [*old, *self.folder.glob("standby-*")]:
            with contextlib.suppress(OSError):
                each.unlink()

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"state folder {self.folder.parent}: {error.strerror}; make it writable for this user or set paths.state"
            ) from None


def _read(path: Path) -> Lease:
    """Whatever cannot be understood is a lease of nobody."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_LONGEST))
        lease = Lease(**found)
    except FileNotFoundError:
        return Lease()
    except (ValueError, TypeError, RecursionError):
        return Lease()
    sound = all(type(getattr(lease, one.name)) is type(one.default) for one in fields(Lease))
    return lease if sound else Lease()


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}-{socket.gethostname()}-{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def _touched(path: Path) -> float:
    """When it was, as the server says: NFS asks that at each open, while a stat may be answered from memory."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.fstat(handle).st_mtime
    finally:
        os.close(handle)


def _boot() -> str:
    """What no other running system shares; "" where that cannot be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
