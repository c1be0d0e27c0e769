"""What a training program tells its supervisor and the daemon, in the job's control folder (control.py)."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError
from tiresias.protocol import control, versions
from tiresias.protocol.job_log import log_line
from tiresias.protocol.process_identity import own_name

PROGRESS = 10.0  # seconds between two words on the step reached, from which the next run knows how much it does again


class Program:
    """folder: the job's control folder, None: nobody is told. checkpoints: where this program saves.

    at: the newest step of the training. step: the newest commit. submission: the job's number, by which its folder is known.
    """

    def __init__(
        self, folder: Path | None, restart: int, world: World, checkpoints: Path, submission: str = ""
    ) -> None:
        self.folder, self._restart, self._world, self._checkpoints = folder, restart, world, checkpoints
        self._submission = submission
        self.step = self.at = -1
        self._ready = False
        self.measured: dict[str, float] = {}
        self._told_at = 0.0
        self._began: tuple[float, int] | None = None  # monotonic, step
        self._lock = threading.Lock()  # a save behind the training's back tells of its commit
        self._register()

    def started(self) -> None:
        """The training loop runs: it can save at its next step."""
        if not self._ready:
            self._ready, self.measured["ready_at"] = True, time.time()
            self._began = time.monotonic(), self.at
            self.tell()

    def committed(self, step: int, moment: float) -> None:
        """moment: epoch seconds of the commit."""
        self.step, self.measured["saved_at"] = step, moment
        self.tell()

    def tell_progress(self) -> None:
        if time.monotonic() - self._told_at >= PROGRESS:
            self._told_at = time.monotonic()
            self._come_back()
            self.tell()

    def leave(self) -> None:
        """It has saved, and ends to be requeued."""
        self.tell(requeue=True)
        self._unregister(os.getpid())

    def tell(self, requeue: bool = False) -> None:
        if self.folder is None or self._world.rank:
            return
        with self._lock:
            self._told_at = time.monotonic()
            self._measure_pace()
            content = {
                "restart": self._restart, versions.KEY: versions.OWN, "ready": self._ready, "step": self.step, "requeue": requeue,
                "folder": str(self._checkpoints.absolute()), "at": self.at, **self.measured,
            }  # fmt: skip
            try:
                control.write(self.folder, control.PROGRAM, content)
            except OSError as error:
                log_line(f"{self.folder}: {error.strerror}: the controller cannot see this program")

    def _measure_pace(self) -> None:
        """Seconds a step in this run, saves and evaluations included, once it has gone on for long enough to tell."""
        if self._began and self._told_at - self._began[0] >= PROGRESS / 2 and self.at > self._began[1]:
            self.measured["pace"] = (self._told_at - self._began[0]) / (self.at - self._began[1])

    def refuse_if_superseded(self) -> None:
        """A node that Slurm gave up may still run an old rank while the job runs again elsewhere."""
        if self.folder is None:
            return
        newer = control.integer(control.read(self.folder / control.SUPERVISOR, os.getuid()).get("restart"))
        if newer > self._restart and not self.is_displaced():
            raise TiresiasError(
                f"this is run {self._restart} and run {newer} of the job has begun: nothing is saved from here"
            )

    def is_displaced(self) -> bool:
        """What stands in its control folder's place is an older job's, and about that one."""
        return self.folder is not None and control.is_anothers(self.folder, self._submission)

    def _register(self) -> None:
        if self.folder is None:
            return
        if self._refuses_its_supervisor(self.folder):
            self.folder = None
            return
        self._leave_a_run_that_is_over(self.folder)
        try:
            self._come(self.folder)
            atexit.register(self._unregister, os.getpid())
        except OSError as error:
            log_line(f"{self.folder}: {error.strerror or error}: this program cannot receive checkpoint requests")
            self.folder = None
        self.tell()

    def _refuses_its_supervisor(self, folder: Path) -> bool:
        """Whether the two have no version in common. Then it is not told to save, and its file tells the controller so."""
        supervisor = versions.stated(control.read(folder / control.SUPERVISOR, os.getuid()))
        name = "slurm-tiresias where the job was submitted"
        words = versions.refusal(name, supervisor, "slurm-tiresias-checkpoint in this program's environment")
        if words and not self._world.rank:
            log_line(f"{words}. This job will not be preempted")
            with contextlib.suppress(OSError):
                control.write(folder, control.PROGRAM, {"restart": self._restart, versions.KEY: versions.OWN})
        return bool(words)

    def _come(self, folder: Path) -> None:
        control.make(folder, "" if self.is_displaced() else self._submission)
        place = self._rank_file(folder)
        control.write(place.parent, place.name, {"rank": self._world.rank, "restart": self._restart})

    def _come_back(self) -> None:
        """To a folder that was away, or has been removed."""
        if self.folder and not self._rank_file(self.folder).exists() and not self.is_displaced():
            with contextlib.suppress(OSError):
                self._come(self.folder)

    def _leave_a_run_that_is_over(self, folder: Path) -> None:
        """torchrun --max-restarts starts its workers again when they leave: they would train on what the next run does again."""
        said = control.read(folder / control.PROGRAM, os.getuid())
        if said.get("requeue") is True and said.get("restart") == self._restart and not self.is_displaced():
            log_line("this run has saved and waits for its requeue: a program that starts now leaves")
            sys.exit(control.EXIT_REQUEUE)

    def _unregister(self, pid: int) -> None:
        """A program that has ended is not waited for. Not in a forked worker, whose file it is not."""
        if self.folder and pid == os.getpid():
            with contextlib.suppress(OSError):
                self._rank_file(self.folder).unlink()

    def _rank_file(self, folder: Path) -> Path:
        return folder / control.RANKS / own_name()
