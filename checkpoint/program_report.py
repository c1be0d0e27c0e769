"""The reports of a training program to its supervisor and the controller, in the job's control folder (control.py)."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tiresias.checkpoint.own_work import OwnWork
from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError
from tiresias.protocol import control, later_runs, versions
from tiresias.protocol.job_log import log_line
from tiresias.protocol.process_identity import own_name

PROGRESS_S = 10.0  # between two reports of the step reached; the next run computes from them how much it repeats


class ProgramReport:
    """program.json of one training program, written by rank 0.

    Args:
        folder: The job's control folder, None: no reports.
        restart: Slurm's restart count.
        world: This rank.
        checkpoints: Where this program saves.
        submission: The number of the job's submission, which its folder carries.
        start: Epoch second at which this run began by Slurm's record, 0: not known.

    Attributes:
        at: Newest step of the training.
        step: Step of the newest commit.
        measured: Further numbers of the report, by key.
        work: The measure of this rank's own work.
    """

    def __init__(
        self, folder: Path | None, restart: int, world: World, checkpoints: Path, submission: str = "", start: int = 0
    ) -> None:
        self.folder, self._restart, self._world, self._checkpoints = folder, restart, world, checkpoints
        self._submission, self._start = submission, start
        self.step = self.at = -1
        self._ready = False
        self.measured: dict[str, float] = {}
        self._published_at = 0.0
        self._began: tuple[float, int] | None = None  # monotonic, step
        self.work = OwnWork()
        self._lock = threading.Lock()  # an asynchronous save reports its commit
        self._register()

    def started(self) -> None:
        """The training loop runs: it can save at its next step."""
        if not self._ready:
            self._ready, self.measured["ready_at"] = True, time.time()
            self._began = time.monotonic(), self.at
            self.publish()

    def committed(self, step: int, moment: float) -> None:
        """Report a commit; `moment`: its epoch second."""
        self.step, self.measured["saved_at"] = step, moment
        self.publish()

    def publish_progress(self) -> None:
        """Report the step reached, at most every PROGRESS_S seconds."""
        if time.monotonic() - self._published_at >= PROGRESS_S:
            self._published_at = time.monotonic()
            self._register_again()
            self._publish_own_work()
            self.publish()

    def leave(self) -> None:
        """Report that the program has saved and ends for a requeue."""
        self.publish(requeue=True)
        self._unregister(os.getpid())

    def publish(self, requeue: bool = False) -> None:
        """Write the report."""
        if self.folder is None or self._world.rank:
            return
        with self._lock:
            self._published_at = time.monotonic()
            self._measure_pace()
            content = {
                "restart": self._restart,
                versions.KEY: versions.OWN,
                "ready": self._ready,
                "step": self.step,
                "requeue": requeue,
                "folder": str(self._checkpoints.absolute()),
                "at": self.at,
                **self.measured,
            }
            try:
                later_runs.write_program(self.folder, content, self._restart, self._start)
            except OSError as error:
                log_line(f"{self.folder}: {error.strerror}: the controller cannot see this program")

    def _measure_pace(self) -> None:
        """Seconds a step in this run, saves and evaluations included, once it has run for long enough."""
        if self._began and self._published_at - self._began[0] >= PROGRESS_S / 2 and self.at > self._began[1]:
            self.measured["pace"] = (self._published_at - self._began[0]) / (self.at - self._began[1])

    def refuse_if_superseded(self) -> None:
        """A node that Slurm gave up may still run an old rank while the job runs again elsewhere."""
        if self.folder is None:
            return
        newest = control.read(self.folder / control.SUPERVISOR, os.getuid())
        if later_runs.has_begun(newest, self._restart, self._start) and not self.is_displaced():
            raise TiresiasError(
                f"this is run {self._restart} and a later run of the job has begun: nothing is saved from here"
            )

    def is_displaced(self) -> bool:
        """Whether an older job's folder is in the place of its control folder."""
        return self.folder is not None and control.is_anothers(self.folder, self._submission)

    def _register(self) -> None:
        if self.folder is None:
            return
        if self._refuses_its_supervisor(self.folder):
            self.folder = None
            return
        self._end_if_run_is_over(self.folder)
        try:
            self._write_rank_file(self.folder)
            atexit.register(self._unregister, os.getpid())
        except OSError as error:
            log_line(f"{self.folder}: {error.strerror or error}: this program cannot receive checkpoint requests")
            self.folder = None
        self.publish()

    def _refuses_its_supervisor(self, folder: Path) -> bool:
        """Whether the two have no version in common. Then it gets no checkpoint signal, and program.json reports it."""
        supervisor = versions.stated(control.read(folder / control.SUPERVISOR, os.getuid()))
        name = "slurm-tiresias where the job was submitted"
        words = versions.refusal(name, supervisor, "slurm-tiresias-checkpoint in this program's environment")
        if words and not self._world.rank:
            log_line(f"{words}. This job will not be preempted")
            with contextlib.suppress(OSError):
                control.write(folder, control.PROGRAM, {"restart": self._restart, versions.KEY: versions.OWN})
        return bool(words)

    def _write_rank_file(self, folder: Path) -> None:
        control.make(folder, "" if self.is_displaced() else self._submission)
        place = self._rank_file(folder)
        content: dict[str, Any] = {"rank": self._world.rank, "restart": self._restart}
        control.write(place.parent, place.name, content | self.work.report())

    def _register_again(self) -> None:
        """To a folder that was away, or has been removed."""
        if self.folder and not self._rank_file(self.folder).exists() and not self.is_displaced():
            with contextlib.suppress(OSError):
                self._write_rank_file(self.folder)

    def _publish_own_work(self) -> None:
        """Report how long a step of this rank takes without what it waits for the others, once it is measured anew."""
        if self.work.measured(self.at) and self.folder is not None and not self.is_displaced():
            with contextlib.suppress(OSError):
                self._write_rank_file(self.folder)

    def _end_if_run_is_over(self, folder: Path) -> None:
        """torchrun --max-restarts starts its workers again when they leave: they would train on what the next run does again."""
        report = control.read(folder / control.PROGRAM, os.getuid())
        if report.get("requeue") is True and report.get("restart") == self._restart and not self.is_displaced():
            log_line("this run has saved and waits for its requeue: a program that starts now leaves")
            sys.exit(control.EXIT_REQUEUE)

    def _unregister(self, pid: int) -> None:
        """A program that has ended is not waited for. Not in a forked worker, whose file it is not."""
        if self.folder and pid == os.getpid():
            with contextlib.suppress(OSError):
                self._rank_file(self.folder).unlink()

    def _rank_file(self, folder: Path) -> Path:
        return folder / control.RANKS / own_name()
