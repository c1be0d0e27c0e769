"""The agreement of the ranks on the step at which they all stop: files in a shared folder, no rank waits for a slower one.

Each rank promises in its file `at-<rank>` not to pass a step (its horizon) before it has polled again. Rank 0, once asked to stop,
writes `closing`, then reads all promises, then writes `agreed`: the largest of them. A rank that comes to its horizon first writes
its next promise and then reads `closing`: either rank 0 has seen the new promise, or the rank sees `closing` and takes
the step from `agreed`. So every rank stops at the first of its steps that is not before the agreed one, whether or not the
ranks keep in step. Two things are required: all ranks call with the same sequence of steps, and a process that opens a file after
another has written and closed it reads what was written. Local disks, parallel file systems and NFS guarantee that. Network file
systems do not guarantee that a new file is found at once, or shows its new length. So every file has its full length from the
start, and the first process that reads one creates it.

A promise is made for about POLL_S seconds of steps, so the cost is one small write and one poll per rank in that time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError

POLL_S = 0.5  # between two polls of one rank, in up to 64 ranks; more ranks poll less often
DECISION_TIMEOUT_S = 60.0  # rank 0 writes `agreed` right after `closing`
_LENGTH = 21  # bytes: a step and a newline; zeros: not written yet


class Disagreement(TiresiasError):
    """The ranks cannot stop together."""


class Agreement:
    """One rank's view of one launch's agreement in `folder`.

    Args:
        folder: The launch's own, on the shared file system.
        world: This rank.
        ended: Whether a rank is known to have ended.

    Methods raise OSError.
    """

    def __init__(self, folder: Path, world: World, ended: Callable[[int], bool] = lambda rank: False) -> None:
        self._folder, self._world, self._ended = folder, world, ended
        self._interval = POLL_S * max(1.0, world.size / 64)
        self._agreed: int | None = None
        self._horizon = self._promised = -1
        self._looked = 0.0

    def stops_at(self, step: int, requested: bool) -> bool:
        """Whether to stop at `step`. `requested` counts on rank 0; others only ask whether rank 0 is there to decide."""
        if self._agreed is None:
            if self._world.rank == 0:
                self._decide(step) if requested else None
            elif step >= self._horizon:
                self._poll(step, requested)
        return self._agreed is not None and step >= self._agreed

    def _decide(self, step: int) -> None:
        self._put("closing", step)
        promises = [self._get(f"at-{rank}") for rank in range(1, self._world.size)]
        self._agreed = max(step, *promises)
        self._put("agreed", self._agreed)

    def _poll(self, step: int, requested: bool) -> None:
        self._horizon = step + self._stride(step)
        self._put(f"at-{self._world.rank}", self._horizon)
        ended = requested and self._ended(0)  # asked before the files are: it may write, and then end
        if self._get("closing") >= 0:
            self._agreed = self._await_step()
        elif ended:
            raise Disagreement(f"{self._folder}: rank 0 has ended: no rank decides when to stop")

    def _stride(self, step: int) -> int:
        """Steps that take about one interval; at most twice as many as last time."""
        now = time.monotonic()
        done, took = step - self._promised, now - self._looked
        last = self._horizon - self._promised
        self._promised, self._looked = step, now
        return max(1, min(2 * last, int(done * self._interval / max(took, 1e-6))))

    def _await_step(self) -> int:
        deadline = time.monotonic() + DECISION_TIMEOUT_S
        while (agreed := self._get("agreed")) < 0:
            if time.monotonic() > deadline or (self._ended(0) and self._get("agreed") < 0):
                raise Disagreement(f"{self._folder}: rank 0 has ended, or named no step in {DECISION_TIMEOUT_S:g} s")
            time.sleep(0.005)
        return agreed

    def _put(self, name: str, step: int) -> None:
        """In place and in one write: a reader sees the old number or the new one."""
        file = self._open(name)
        try:
            os.pwrite(file, b"%020d\n" % step, 0)
        finally:
            os.close(file)

    def _get(self, name: str) -> int:
        file = self._open(name)
        try:
            text = os.pread(file, _LENGTH, 0)
        finally:
            os.close(file)
        return int(text) if text.endswith(b"\n") else -1

    def _open(self, name: str) -> int:
        file = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.fstat(file).st_size < _LENGTH:
            os.ftruncate(file, _LENGTH)  # does nothing to what another rank has written meanwhile
        return file
