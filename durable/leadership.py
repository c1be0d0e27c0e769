"""Leadership: of all controllers with the same state folder one acts; the others are standbys.

    leadership = Leadership(state / "leader", seconds=45.0)
    while not leadership.take():     # a standby repeats this: it detects a dead leader by watching its lease
        time.sleep(leadership.pause)
    ...                              # from now on a thread renews the lease
    leadership.renew()               # once a cycle: a controller that does not return to this call hangs, and loses the lead
    leadership.check()               # before each write; raises Superseded when another controller leads
    leadership.step_down()           # a standby takes over at once

lead_folder.py describes the files. Epochs only grow, and a controller that finds a higher one than its own has been superseded,
however long it slept. The clocks of two hosts are never compared: a standby takes over when the lease has not changed for
`seconds` of its own steady clock. The only assumption is that steady clocks run equally fast.

The kernel's lock is only a shortcut: on the leader's host it shows at once that its process is dead. It is not trusted between
hosts: the locks of a dead host may remain for minutes (NFS, GPFS), and some mounts keep locks local (Lustre's localflock). The
library filelock would add nothing to the one flock, and where there is no flock it falls back to a file that outlives its owner.

A lease cannot prevent that a process stopped between `check` and its write completes the write later. SQLite itself refuses such
a write to the journal (journal.py); failover/fence.py reports an operation in Slurm to the next leader.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tiresias.durable.lead_folder import LeadFolder
from tiresias.durable.lease import Lease, boot_id
from tiresias.errors import TiresiasError

log = logging.getLogger("tiresias")

BEATS = 5  # in the silence after which a leader counts as dead
RECENT_POLLS = 5  # polls of a standby: one that announced itself within them is present
HUNG_SECONDS = 120.0  # without a `renew`: longer than the calls to Slurm between two of them may take


class Superseded(TiresiasError):
    """Another controller leads: the write must not happen."""


class _Observed(NamedTuple):
    """The state of the lead folder; while it changes, a leader is alive."""

    lease: Lease
    highest: int  # epoch that was ever taken


class Leadership:
    """The lead as this process sees it, used by one thread.

    Args:
        folder: The lead folder.
        seconds: Silence after which a leader counts as dead.
        clock: A steady clock.

    Attributes:
        epoch: This controller's term; 0 while it does not lead.
        seen_alive: Another controller leads: its lease changed between two polls.
    """

    def __init__(self, folder: Path, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self.seconds, self._clock = folder, seconds, clock
        self._files = LeadFolder(folder)
        self.epoch = 0
        self._latest = 0  # known epoch
        self._led = 0.0
        self._host, self._boot = socket.gethostname(), boot_id()
        self._beats, self._beaten, self._expected = 0, 0.0, 0.0
        self._observed: _Observed | None = None
        self._since = clock()
        self.seen_alive = False
        self._handle = -1  # of the epoch's file, locked
        self._beating = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._every = seconds / BEATS  # between two beats

    @property
    def pause(self) -> float:
        """Seconds between two polls of a standby."""
        return min(self.seconds / (2 * BEATS), 1.0)

    def lease(self) -> Lease:
        """Return the newest lease, of epoch 0 where no controller has led; for any process. Raises Unavailable."""
        with self._files.reached():
            return self._files.lease()

    def published(self) -> dict[str, object]:
        """Return the leader for viewers: `since` is the epoch second at which this controller took the lead."""
        return {
            "host": self._host,
            "pid": os.getpid(),
            "epoch": self.epoch,
            "since": self._led,
            "standby": self.has_standby(),
        }

    def retime(self, seconds: float) -> None:
        """Change the silence after which a leader counts as dead.

        A leader beats at least as often as before: a standby that still expects the old interval must not take over.
        """
        self.seconds = seconds
        if self.epoch and seconds / BEATS < self._every:
            self._stop.set()
            if self._thread:
                self._thread.join()
            self._start_beating()

    # taking the lead

    def take(self, above: int = 0) -> bool:
        """Take the lead, in an epoch higher than `above`; return False where another controller leads: repeat it after `pause`.

        Raises:
            Unavailable: The folder cannot be used.
        """
        with self._files.reached():
            observed, now = self._observe(), self._clock()
            if observed != self._observed:
                self.seen_alive = self._observed is not None
                self._observed, self._since = observed, now
            if not self._is_vacant(observed) and now - self._since < self.seconds:
                return False
            return self._begin(max(observed.lease.epoch, observed.highest, above) + 1)

    def seize(self) -> bool:
        """Take the lead from any leader: for a caller with other evidence that the leader hangs. Raises Unavailable."""
        with self._files.reached():
            observed = self._observe()
            return self._begin(max(observed.lease.epoch, observed.highest) + 1)

    def announce_standby(self) -> None:
        """Record for the leader that this controller waits for the lead. Raises Unavailable."""
        with self._files.reached():
            self._files.announce_standby()

    def has_standby(self) -> bool:
        """Return whether another controller announced itself a moment ago, by the file system's own clock."""
        with contextlib.suppress(OSError):
            return self._files.has_other_standby(RECENT_POLLS * self.pause)
        return False

    # holding the lead

    def renew(self, grace: float = HUNG_SECONDS) -> None:
        """Record that the caller works; without the next call within `grace` seconds it hangs. Raises as `check` does."""
        self._expected = self._clock() + grace
        self.check()

    def check(self) -> None:
        """Check that this controller leads; costs the read of a small file.

        Raises:
            Superseded: It does not.
            Unavailable: The folder cannot be read.
        """
        if not self.epoch:
            raise Superseded(f"this controller does not lead: {self.lease()} does")
        with self._files.reached(), self._beating:
            self._refuse_later(self.lease().epoch)
            if self._clock() - self._beaten > self.seconds / 2:  # late: a standby may be about to take over
                self._beat_unless_full()

    def step_down(self) -> None:
        """Give up the lead and the wait for it; a standby may lead at once.

        Never fails: a lease that cannot be written becomes out of date.
        """
        with contextlib.suppress(OSError):
            self._files.withdraw_standby()
        self._stop.set()
        if self._thread:
            self._thread.join()
        if self.epoch:
            with contextlib.suppress(OSError, Superseded), self._beating:
                self._beat(released=True)
            os.close(self._handle)  # this unlocks the file
        self.epoch, self._thread, self._handle = 0, None, -1

    # notes to the leader

    def leave_note(self, text: str) -> None:
        """Leave a note of a few letters that are allowed in a file name. Never fails: the process may be about to end."""
        with contextlib.suppress(OSError):
            self._files.leave_note(text)

    def notes(self) -> list[str]:
        """Return the notes; each stays until it is `done`. Raises Unavailable."""
        with self._files.reached():
            return self._files.notes()

    def done(self, text: str) -> None:
        """Remove a note. Raises Unavailable."""
        with self._files.reached():
            self._files.remove_note(text)

    # inner: leading

    def _begin(self, epoch: int) -> bool:
        try:
            handle = self._files.take_epoch(epoch)
        except FileExistsError:
            return False
        self.epoch = self._latest = epoch
        self._handle, self._led = handle, time.time()
        self._expected = self._clock() + HUNG_SECONDS
        try:
            self._beat()
        except Superseded:
            self.step_down()
            return False
        except OSError:  # a full disk: no controller led in this epoch, and none is superseded by it
            self.step_down()
            self._files.remove_epoch(epoch)
            raise
        self._files.tidy(epoch)
        self._start_beating()
        return True

    def _start_beating(self) -> None:
        self._every, self._stop = self.seconds / BEATS, threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, args=(self._stop,), name="leader", daemon=True)
        self._thread.start()

    def _keep_beating(self, stop: threading.Event) -> None:
        while not stop.wait(self._every):
            if self._clock() > self._expected:
                continue  # the caller hangs: another controller may lead
            try:
                with self._beating:
                    self._beat()
            except Superseded:
                return  # the next check reports it
            except OSError as error:
                log.warning("lease %s: %s; trying again", self.folder, error.strerror)

    def _beat(self, released: bool = False) -> None:
        """Write the lease, and check before and after: a lease that replaced a later one is corrected by that one's holder, but no
        controller relies on the correction."""
        self._refuse_later(self.lease().epoch)
        self._beats += 1
        self._files.write_lease(Lease(self.epoch, self._host, os.getpid(), self._boot, self._beats, released))
        self._refuse_later(self._files.highest_epoch())
        self._beaten = self._clock()

    def _beat_unless_full(self) -> None:
        """On a full disk no other controller can write a lease. So the leader may continue, and lift its holds when it stops."""
        try:
            self._beat()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._refuse_later(self._files.highest_epoch())

    def _refuse_later(self, epoch: int) -> None:
        self._latest = max(self._latest, epoch)
        if self._latest > self.epoch:
            raise Superseded(f"{self.lease()} leads by now; this controller led in epoch {self.epoch}")

    # inner: observing

    def _observe(self) -> _Observed:
        self._files.make()
        return _Observed(self.lease(), self._files.highest_epoch())

    def _is_vacant(self, observed: _Observed) -> bool:
        """Whether it is certain without a wait that no controller leads: none ever led, or the last one released the lead or is
        dead on this host."""
        if observed.highest > observed.lease.epoch:
            return False  # another controller is starting
        lease = observed.lease
        if not lease.epoch or lease.released:
            return True
        return lease.boot == self._boot != "" and self._files.is_unlocked(lease.epoch)
